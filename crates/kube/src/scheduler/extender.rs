//! The extender's one verb, `prioritize`: bytes in, bytes out, within a fraction of a millisecond.
//!
//! The shapes are kube-scheduler's: Go's field names, a bare array as the answer, whole scores from
//! 0 to 10. Every candidate is answered for, in its order. In shadow mode all scores are the same.
//! What cannot be read is refused with the field and the value, and changes nothing.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::ser::{SerializeSeq as _, Serializer as _};
use walras_core::place::{self, Mode};
use walras_wire::placement::PlacementTold;

use super::judge::{Judge, Scored};
use super::memory::{NODES_MAX, Remembered};
use super::pod::{PodToPlace, facts};
use super::table::Table;

/// No cluster has more nodes.
const CANDIDATES_MAX: usize = 20_000;

/// What kube-scheduler asks.
#[derive(Debug, Deserialize)]
struct Args {
    #[serde(rename = "Pod")]
    pod: Option<PodToPlace>,
    #[serde(rename = "Nodes", default)]
    nodes: Option<NodeList>,
    #[serde(rename = "NodeNames", default)]
    node_names: Option<Vec<String>>,
}

/// Whole nodes, where kube-scheduler was not told that names are enough.
#[derive(Debug, Deserialize)]
struct NodeList {
    #[serde(default)]
    items: Option<Vec<NodeItem>>,
}

#[derive(Debug, Deserialize)]
struct NodeItem {
    metadata: NodeMeta,
}

#[derive(Debug, Deserialize)]
struct NodeMeta {
    name: String,
}

/// Why a question is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Bad {
    /// It is not what kube-scheduler sends.
    #[error("the request cannot be read: {0}")]
    Json(String),
    /// A field is missing.
    #[error("{0}: is missing")]
    Missing(&'static str),
    /// There is too much.
    #[error("NodeNames: {0} are more than {CANDIDATES_MAX}")]
    TooMany(usize),
}

/// An answer, and what to remember of it.
#[derive(Debug)]
pub(crate) struct Answered {
    /// What kube-scheduler is told.
    pub(crate) body: Vec<u8>,
    /// What became of it, if there was a candidate at all.
    pub(crate) remembered: Option<Remembered>,
    /// What scoring took.
    pub(crate) scoring: Duration,
}

/// Answers one question.
pub(crate) async fn prioritize(
    judge: &Judge,
    table: &Table,
    mode: Mode,
    body: &[u8],
    now_ms: u64,
) -> Result<Answered, Bad> {
    let args: Args = serde_json::from_slice(body).map_err(|error| Bad::Json(error.to_string()))?;
    let pod = args.pod.ok_or(Bad::Missing("Pod"))?;
    let names = match (args.node_names, args.nodes.and_then(|nodes| nodes.items)) {
        (Some(names), _) => names,
        (None, Some(items)) => items.into_iter().map(|item| item.metadata.name).collect(),
        (None, None) => return Err(Bad::Missing("NodeNames")),
    };
    if names.len() > CANDIDATES_MAX {
        return Err(Bad::TooMany(names.len()));
    }
    let begun = Instant::now();
    let candidates = names.iter().map(String::as_str);
    let scored = judge.score(table, &facts(&pod), candidates, now_ms).await;
    let scoring = begun.elapsed();
    let remembered = remember(&pod, &scored, mode, now_ms);
    let body = answer(mode, &scored).map_err(|error| Bad::Json(error.to_string()))?;
    Ok(Answered { body, remembered, scoring })
}

fn answer(mode: Mode, scored: &[Scored<'_>]) -> serde_json::Result<Vec<u8>> {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct HostPriority<'a> {
        host: &'a str,
        score: u8,
    }
    let mut body = Vec::with_capacity(scored.len() * 48 + 2);
    let mut to = serde_json::Serializer::new(&mut body);
    let mut all = to.serialize_seq(Some(scored.len()))?;
    for one in scored {
        let score = place::answer(mode, one.placed.points);
        all.serialize_element(&HostPriority { host: one.name, score })?;
    }
    all.end()?;
    Ok(body)
}

fn remember(
    pod: &PodToPlace,
    scored: &[Scored<'_>],
    mode: Mode,
    now_ms: u64,
) -> Option<Remembered> {
    let best = place::best(scored.iter().map(|one| one.placed.points))?;
    let winner = scored.get(best.place)?;
    let mut order: Vec<&Scored<'_>> = scored.iter().collect();
    let by_points = |one: &&Scored<'_>, other: &&Scored<'_>| {
        (other.placed.points, one.name).cmp(&(one.placed.points, other.name))
    };
    if order.len() > NODES_MAX {
        order.select_nth_unstable_by(NODES_MAX, by_points);
        order.truncate(NODES_MAX);
    }
    order.sort_unstable_by(by_points);
    let told = PlacementTold {
        namespace: pod.metadata.namespace.clone(),
        pod: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        at_ms: now_ms,
        mode: mode.name().to_owned(),
        candidates: scored.len(),
        recommended: winner.name.to_owned(),
        strictly: best.strictly,
        reasoning: winner.reasoning(),
        actual: None,
        nodes: order.into_iter().map(Scored::told).collect(),
    };
    let confidence = winner.verdict.map_or(0.0, |verdict| verdict.confidence);
    Some(Remembered { told, confidence })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::super::table::Store;
    use super::*;
    use walras_brain::features::Order;
    use walras_brain::slot::Slot;
    use walras_core::place::Terms;
    use walras_core::units::{Bytes, Millicores, Resources};
    use walras_rpc::reports::Snapshot;

    /// A model that finds busy nodes worse.
    pub(crate) fn judge() -> Judge {
        let slot = Slot::empty();
        let bytes = include_bytes!("../../../brain/testdata/models/xgboost-squarederror.ubj");
        let file = walras_brain::file::read(bytes, Some(Order::Kubeattention)).unwrap();
        slot.swap(Some(file));
        Judge { slot: Arc::new(slot), remote: None, terms: Terms::DEFAULT }
    }

    /// A busy node, an idle one, and one that never reported.
    pub(crate) fn store() -> Store {
        let store = Store::default();
        let has = Resources::new(Millicores::new(4000), Bytes::new(8 << 30));
        for (name, busy) in [("busy", Some(0.97)), ("idle", Some(0.02)), ("mute", None)] {
            store.node_seen(name, has);
            if let Some(busy) = busy {
                store.reported(&Snapshot {
                    node_name: name.to_owned(),
                    taken_unix_ms: 100_000,
                    cpu_utilization: Some(busy),
                    memory_utilization: Some(busy),
                    l3_cache_miss_rate: Some(busy),
                    ..Snapshot::default()
                });
            }
        }
        store.publish(100_500);
        store
    }

    pub(crate) const QUESTION: &str = r#"{"Pod": {"metadata": {"name": "web", "namespace": "shop",
        "uid": "u-1", "labels": null}, "spec": {"containers": [{"name": "c", "resources":
        {"requests": {"cpu": "100m"}}}]}, "status": {}}, "Nodes": null,
        "NodeNames": ["busy", "mute", "idle", "unheard-of"]}"#;

    /// What needs no other process is answered at once.
    fn now<T>(answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        let mut context = Context::from_waker(Waker::noop());
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("it waits for something"),
        }
    }

    fn ask(mode: Mode, body: &str) -> Result<String, Bad> {
        let (judge, table) = (judge(), store().table());
        let answered = now(prioritize(&judge, &table, mode, body.as_bytes(), 101_000));
        answered.map(|answered| String::from_utf8(answered.body).unwrap())
    }

    /// The scores of an answer, with their names.
    fn scores(answer: &str) -> Vec<(String, u64)> {
        let parsed: Vec<serde_json::Value> = serde_json::from_str(answer).unwrap();
        let score = |one: &serde_json::Value| {
            assert_eq!(one.as_object().unwrap().len(), 2, "{one}");
            (one["Host"].as_str().unwrap().to_owned(), one["Score"].as_u64().unwrap())
        };
        parsed.iter().map(score).collect()
    }

    #[test]
    fn in_active_mode_a_busy_node_scores_less_and_an_unknown_one_is_neutral() {
        let told = scores(&ask(Mode::Active, QUESTION).unwrap());
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["busy", "mute", "idle", "unheard-of"], "in their order");
        let [busy, mute, idle, unheard] =
            told.iter().map(|(_, score)| *score).collect::<Vec<_>>()[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!((mute, unheard), (5, 5));
        assert!(busy < idle && idle <= 10, "{told:?}");
    }

    #[test]
    fn in_shadow_mode_every_answer_is_the_same_byte_for_byte() {
        let answer = ask(Mode::Shadow, QUESTION).unwrap();
        let each = ["busy", "mute", "idle", "unheard-of"];
        let each = each.map(|name| format!(r#"{{"Host":"{name}","Score":5}}"#));
        assert_eq!(answer, format!("[{}]", each.join(",")));
    }

    #[test]
    fn what_was_recommended_is_remembered_with_its_reasons() {
        let (judge, store) = (judge(), store());
        let table = store.table();
        let answered = now(prioritize(&judge, &table, Mode::Shadow, QUESTION.as_bytes(), 101_000));
        let told = answered.unwrap().remembered.unwrap().told;
        assert_eq!((told.recommended.as_str(), told.candidates), ("idle", 4));
        assert!(told.strictly && told.reasoning.contains("low CPU load"), "{told:?}");
        assert_eq!(told.nodes.first().map(|node| node.node.as_str()), Some("idle"));
        let mute = told.nodes.iter().find(|node| node.node == "mute").unwrap();
        assert_eq!((mute.basis.as_str(), mute.points), ("no_telemetry", 50.0));
    }

    #[test]
    fn whole_nodes_are_as_good_as_names() {
        let body = QUESTION.replace(
            r#""Nodes": null,
        "NodeNames": ["busy", "mute", "idle", "unheard-of"]"#,
            r#""Nodes": {"metadata": {}, "items": [{"metadata": {"name": "idle"}, "spec": {}}]}"#,
        );
        assert!(body.contains("items"), "{body}");
        assert_eq!(scores(&ask(Mode::Active, &body).unwrap()).len(), 1);
        assert_eq!(ask(Mode::Active, r#"{"Pod": {}, "NodeNames": []}"#).unwrap(), "[]");
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_its_field() {
        let refused = |body: &str| ask(Mode::Active, body).unwrap_err().to_string();
        assert_eq!(refused(r#"{"Pod": null, "NodeNames": []}"#), "Pod: is missing");
        assert_eq!(refused(r#"{"Pod": {}}"#), "NodeNames: is missing");
        for broken in ["", "{", "[]", "null", r#"{"Pod": {}, "NodeNames": [1]}"#, "\u{0}"] {
            assert!(refused(broken).contains("cannot be read"), "{broken:?}");
        }
        let many = format!(r#"{{"Pod": {{}}, "NodeNames": [{}"n"]}}"#, r#""n","#.repeat(20_000));
        assert_eq!(refused(&many), "NodeNames: 20001 are more than 20000");
        // Nesting that would overflow a stack is an error of JSON.
        let deep = format!(r#"{{"Pod": {}"#, r#"{"spec":"#.repeat(100_000));
        assert!(refused(&deep).contains("cannot be read"));
    }

    #[test]
    fn old_telemetry_makes_one_node_neutral_and_not_the_others() {
        let (judge, store) = (judge(), store());
        store.reported(&Snapshot {
            node_name: "idle".to_owned(),
            taken_unix_ms: 130_000,
            cpu_utilization: Some(0.02),
            ..Snapshot::default()
        });
        store.publish(130_000);
        let table = store.table();
        let asked = now(prioritize(&judge, &table, Mode::Active, QUESTION.as_bytes(), 131_000));
        let told = asked.unwrap().remembered.unwrap().told;
        let basis =
            |name: &str| told.nodes.iter().find(|node| node.node == name).unwrap().basis.clone();
        assert_eq!((basis("busy").as_str(), basis("idle").as_str()), ("stale", "model"));
    }
}
