//! Writes onto pods what was recommended for them, in shadow mode: annotations and nothing else.
//!
//! Written one after another and after the pod was bound, so that placing never waits for it. What
//! does not fit into the queue is not written, and counted.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use tokio::sync::mpsc::Receiver;
use tokio::time;

use super::memory::Remembered;
use crate::client::words;
use crate::names;
use crate::pod::Pod;

/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The least time between two writes, so that a burst of pods is no burst of writes.
const PACE: Duration = Duration::from_millis(20);

/// What is written onto a pod.
pub(crate) fn annotations(placement: &Remembered) -> BTreeMap<&'static str, String> {
    let told = &placement.told;
    let actual = told.actual.clone().unwrap_or_default();
    let score = told.nodes.first().map_or(50.0, |best| best.points);
    let decision = if actual == told.recommended { "match" } else { "differ" };
    let at = i64::try_from(told.at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    BTreeMap::from([
        (names::RECOMMENDED_NODE, told.recommended.clone()),
        (names::SCORE, format!("{score:.0}")),
        (names::CONFIDENCE, format!("{:.3}", placement.confidence)),
        (names::REASONING, told.reasoning.clone()),
        (names::PLACEMENT_MODE, told.mode.clone()),
        (names::PLACEMENT_TIME, at.unwrap_or(Timestamp::UNIX_EPOCH).to_string()),
        (names::DECISION, decision.to_owned()),
        (names::ACTUAL_NODE, actual),
    ])
}

/// Writes what comes until the sender is gone.
pub(crate) async fn write(client: Client, mut placements: Receiver<Remembered>) {
    while let Some(placement) = placements.recv().await {
        let told = &placement.told;
        let api: Api<Pod> = Api::namespaced(client.clone(), &told.namespace);
        // With its uid: another pod of this name is left alone.
        let patch = serde_json::json!({
            "metadata": {"uid": told.uid, "annotations": annotations(&placement)}
        });
        let params = PatchParams {
            field_manager: Some(names::SCHEDULER_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(patch);
        let written = api.patch(&told.pod, &params, &patch);
        match time::timeout(PATIENCE, written).await {
            Ok(Ok(_)) => {}
            // It is gone, or another one.
            Ok(Err(kube::Error::Api(status))) if [404, 409].contains(&status.code) => {}
            Ok(Err(error)) => {
                let pod = format!("{}/{}", told.namespace, told.pod);
                tracing::warn!("{pod}: what was recommended is not written: {}", words(&error));
            }
            Err(_) => tracing::warn!("the API server does not answer; an annotation is missing"),
        }
        time::sleep(PACE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_wire::placement::{NodeTold, PlacementTold};

    #[test]
    fn annotations_are_those_that_the_predecessor_wrote() {
        let best = NodeTold { node: "n1".to_owned(), points: 81.6, ..NodeTold::default() };
        let told = PlacementTold {
            recommended: "n1".to_owned(),
            actual: Some("n2".to_owned()),
            reasoning: "n1: low CPU load".to_owned(),
            mode: "shadow".to_owned(),
            at_ms: 1_790_000_000_000,
            nodes: vec![best],
            ..PlacementTold::default()
        };
        let written = annotations(&Remembered { told: told.clone(), confidence: 0.5 });
        let written: Vec<String> =
            written.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            written,
            [
                "kubeattention.io/actual-node: n2",
                "kubeattention.io/confidence: 0.500",
                "kubeattention.io/decision: differ",
                "kubeattention.io/mode: shadow",
                "kubeattention.io/reasoning: n1: low CPU load",
                "kubeattention.io/recommended-node: n1",
                "kubeattention.io/score: 82",
                "kubeattention.io/time: 2026-09-21T14:13:20Z",
            ]
        );
        let told = PlacementTold { actual: Some("n1".to_owned()), ..told };
        let written = annotations(&Remembered { told, confidence: 0.5 });
        assert_eq!(written[names::DECISION], "match");
    }
}
