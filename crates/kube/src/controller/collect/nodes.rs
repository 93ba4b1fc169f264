//! What nodes measure, as agents or whoever knows them all tell it by HTTP.
//!
//! Asked for every few seconds, so that it is known at the moment of a placement. Who does not
//! answer is told of once; nodes without fresh figures are simply not joined.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{self, MissedTickBehavior};
use walras_brain::collect::NodeTelemetry;
use walras_brain::features::{NodeFeature, zone_diversity};
use walras_brain::verdict::too_old;
use walras_wire::telemetry::NodeTelemetry as Told;

/// How often to ask.
const EVERY: Duration = Duration::from_secs(3);
/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer is no larger: 5,000 nodes.
const ANSWER_MAX: u64 = 32 << 20;

/// What nodes told last.
#[derive(Debug)]
pub(super) struct Nodes {
    from: Vec<String>,
    told: Mutex<BTreeMap<String, Told>>,
}

/// One node, or all.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    One(Box<Told>),
    All(Vec<Told>),
}

impl Nodes {
    pub(super) const fn new(from: Vec<String>) -> Self {
        Self { from, told: Mutex::new(BTreeMap::new()) }
    }

    /// The features of all nodes whose figures are about now.
    pub(super) fn at(&self, now_ms: i64) -> BTreeMap<String, NodeTelemetry> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        features(&told, u64::try_from(now_ms).unwrap_or_default())
    }

    /// Asks everybody once. What went wrong, if something did.
    fn ask(&self) -> Result<(), String> {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build();
        let agent: ureq::Agent = config.into();
        let mut wrong = None;
        for url in &self.from {
            match ask_one(&agent, url) {
                Ok(nodes) => {
                    let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                    told.extend(nodes.into_iter().map(|node| (node.node.clone(), node)));
                }
                Err(words) => wrong = Some(format!("{url}: {words}")),
            }
        }
        wrong.map_or(Ok(()), Err)
    }
}

/// Asks again and again, without keeping anybody waiting.
pub(super) async fn keep_asking(nodes: Arc<Nodes>) {
    if nodes.from.is_empty() {
        return std::future::pending().await;
    }
    let mut interval = time::interval(EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = None;
    loop {
        interval.tick().await;
        let asked = Arc::clone(&nodes);
        let answer = tokio::task::spawn_blocking(move || asked.ask()).await;
        let words = match answer {
            Ok(answer) => answer.err(),
            Err(error) => Some(error.to_string()),
        };
        if words != told {
            match &words {
                Some(words) => tracing::warn!("what nodes measure is not known: {words}"),
                None => tracing::info!("what nodes measure is known"),
            }
            told = words;
        }
    }
}

fn ask_one(agent: &ureq::Agent, url: &str) -> Result<Vec<Told>, String> {
    let mut answer = agent.get(url).call().map_err(|error| error.to_string())?;
    let body = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec();
    let body = body.map_err(|error| error.to_string())?;
    let answer: Answer = serde_json::from_slice(&body)
        .map_err(|_| "its answer is not what a node measures".to_owned())?;
    Ok(match answer {
        Answer::One(node) => vec![*node],
        Answer::All(nodes) => nodes,
    })
}

/// The features of nodes; how full zones are is computed over all of them.
fn features(told: &BTreeMap<String, Told>, now_ms: u64) -> BTreeMap<String, NodeTelemetry> {
    let fresh: Vec<&Told> =
        told.values().filter(|node| too_old(node.taken_unix_ms, now_ms).is_none()).collect();
    let zones: Vec<Option<&str>> = fresh.iter().map(|node| node.zone.as_deref()).collect();
    let diversity = zone_diversity(&zones);
    let zone = NodeFeature::ZoneDiversityScore.about().name;
    let of = |(node, diversity): (&&Told, Option<f64>)| {
        let measured = node.figures.iter().filter(|figure| figure.feature);
        let mut features: NodeTelemetry =
            measured.filter_map(|figure| Some((figure.name.clone(), figure.value?))).collect();
        if let Some(diversity) = diversity {
            features.insert(zone.to_owned(), diversity);
        }
        (node.node.clone(), features)
    };
    fresh.iter().zip(diversity).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_wire::telemetry::Figure;

    fn node(name: &str, zone: &str, taken_unix_ms: u64) -> (String, Told) {
        let figure = |name: &str, value, feature| Figure {
            name: name.to_owned(),
            metric: String::new(),
            about: String::new(),
            unit: "ratio".to_owned(),
            feature,
            value,
            unavailable: None,
            source: "test".to_owned(),
        };
        let told = Told {
            version: 1,
            node: name.to_owned(),
            taken_unix_ms,
            age_ms: 0,
            stale: false,
            over_ms: None,
            zone: Some(zone.to_owned()),
            rack: None,
            figures: vec![
                figure("cpu_utilization", Some(0.25), true),
                figure("disk_iops", None, true),
                figure("cpu_pressure", Some(0.5), false),
            ],
            drops: Vec::new(),
            market: None,
        };
        (name.to_owned(), told)
    }

    #[test]
    fn only_features_that_were_measured_just_now_are_joined() {
        let told = BTreeMap::from([
            node("a", "z1", 100_000),
            node("b", "z1", 100_000),
            node("c", "z2", 100_000),
            node("old", "z2", 80_000),
        ]);
        let joined = features(&told, 105_000);
        assert_eq!(joined.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        let names: Vec<&str> = joined["a"].keys().map(String::as_str).collect();
        assert_eq!(names, ["cpu_utilization", "zone_diversity_score"]);
        assert!(joined["c"]["zone_diversity_score"] > joined["a"]["zone_diversity_score"]);
    }
}
