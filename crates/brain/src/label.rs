//! What a model is taught: how good each node was for a pod, from its telemetry and the outcome.
//!
//! A node's own label is a weighted mean of how much CPU, memory and cache it had left, over what
//! of that was measured: an unknown cache-miss rate earns no marks, and costs none. The label of
//! the node that was chosen is blended with what became of the pod. Failures weigh more than
//! successes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::events::Outcome;
use crate::features::{NodeFacts, NodeFeature};

/// How labels are made. Recorded in every model that is trained with them. What a file does not say
/// is the default; a table of outcomes is taken as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabelSettings {
    /// What unused CPU is worth.
    pub cpu: f64,
    /// What unused memory is worth.
    pub memory: f64,
    /// What hits of the last-level cache are worth.
    pub cache: f64,
    /// How much of the label of the chosen node is the outcome, in 0..1.
    pub outcome_trust: f64,
    /// How much a node counts that was not chosen, of which no outcome is known.
    pub others: f64,
    /// How long after the placement the outcome was looked at.
    pub outcome_window_s: u32,
    /// What each outcome says of the node.
    pub outcomes: BTreeMap<Outcome, OutcomeRule>,
}

/// What an outcome says of the node that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeRule {
    /// How good the node was, in 0..1.
    pub score: f64,
    /// How much the placement counts.
    pub weight: f64,
}

/// A label and its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label {
    /// How good the node was, in 0..1.
    pub value: f64,
    /// How much it counts.
    pub weight: f64,
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{setting}: {value} is outside {low} to {high}")]
pub struct LabelSettingError {
    /// Which.
    pub setting: String,
    /// Its value.
    pub value: f64,
    /// The least that it can be.
    pub low: f64,
    /// The most that it can be.
    pub high: f64,
}

impl Default for LabelSettings {
    fn default() -> Self {
        let rule = |outcome, score, weight| (outcome, OutcomeRule { score, weight });
        Self {
            cpu: 0.4,
            memory: 0.4,
            cache: 0.2,
            outcome_trust: 0.7,
            others: 1.0,
            outcome_window_s: 300,
            outcomes: BTreeMap::from([
                rule(Outcome::Running, 1.0, 1.0),
                rule(Outcome::Restarted, 0.5, 1.5),
                rule(Outcome::Terminated, 0.3, 2.0),
                rule(Outcome::OomKilled, 0.0, 3.0),
                rule(Outcome::Evicted, 0.0, 3.0),
                rule(Outcome::Failed, 0.0, 2.0),
                rule(Outcome::Deleted, 0.5, 0.5),
                rule(Outcome::Unknown, 0.5, 0.5),
            ]),
        }
    }
}

impl LabelSettings {
    /// Refuses what cannot be.
    ///
    /// # Errors
    ///
    /// A setting is outside its range.
    pub fn check(&self) -> Result<(), LabelSettingError> {
        let plain = [
            ("cpu", self.cpu, 100.0),
            ("memory", self.memory, 100.0),
            ("cache", self.cache, 100.0),
            ("outcome_trust", self.outcome_trust, 1.0),
            ("others", self.others, 100.0),
        ];
        let mut all: Vec<(String, f64, f64)> =
            plain.map(|(name, value, high)| (name.to_owned(), value, high)).to_vec();
        for (outcome, rule) in &self.outcomes {
            let name = outcome.name();
            all.push((format!("outcomes.{name}.score"), rule.score, 1.0));
            all.push((format!("outcomes.{name}.weight"), rule.weight, 100.0));
        }
        let wrong = all.into_iter().find(|(_, value, high)| !(0.0..=*high).contains(value));
        match wrong {
            None => Ok(()),
            Some((setting, value, high)) => {
                Err(LabelSettingError { setting, value, low: 0.0, high })
            }
        }
    }

    /// How good a node was by its telemetry; `None` where nothing that counts was measured.
    #[must_use]
    pub fn of_telemetry(&self, node: &NodeFacts) -> Option<f64> {
        let parts = [
            (self.cpu, NodeFeature::CpuUtilization),
            (self.memory, NodeFeature::MemoryUtilization),
            (self.cache, NodeFeature::L3CacheMissRate),
        ];
        let measured = parts.map(|(weight, feature)| (weight, node.get(feature)));
        let (mut sum, mut weights) = (0.0, 0.0);
        for (weight, value) in measured {
            if let Some(value) = value {
                sum += weight * (1.0 - value.clamp(0.0, 1.0));
                weights += weight;
            }
        }
        (weights > 0.0).then(|| sum / weights)
    }

    /// The label of a node that was not chosen.
    #[must_use]
    pub fn of_other(&self, node: &NodeFacts) -> Option<Label> {
        let value = self.of_telemetry(node)?;
        Some(Label { value, weight: self.others })
    }

    /// The label of the chosen node; `None` where nothing can be said of it.
    #[must_use]
    pub fn of_chosen(&self, node: &NodeFacts, outcome: Outcome) -> Option<Label> {
        let rule = self.outcomes.get(&outcome)?;
        let value = match self.of_telemetry(node) {
            Some(own) => (1.0 - self.outcome_trust) * own + self.outcome_trust * rule.score,
            None if self.outcome_trust > 0.0 => rule.score,
            None => return None,
        };
        Some(Label { value, weight: rule.weight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeFeature as N;

    fn node(parts: &[(NodeFeature, f64)]) -> NodeFacts {
        parts
            .iter()
            .fold(NodeFacts::UNKNOWN, |facts, (feature, value)| facts.with(*feature, *value))
    }

    fn near(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn a_label_is_the_weighted_mean_of_what_is_left() {
        let settings = LabelSettings::default();
        let all =
            [(N::CpuUtilization, 0.5), (N::MemoryUtilization, 0.25), (N::L3CacheMissRate, 0.1)];
        // 0.4 * 0.5 + 0.4 * 0.75 + 0.2 * 0.9
        near(settings.of_telemetry(&node(&all)), 0.68);
        // Without the cache: (0.4 * 0.5 + 0.4 * 0.75) / 0.8
        near(settings.of_telemetry(&node(&all[..2])), 0.625);
        near(settings.of_telemetry(&node(&all[2..])), 0.9);
        assert_eq!(settings.of_telemetry(&node(&[(N::DiskIops, 5.0)])), None);
        near(settings.of_telemetry(&node(&[(N::CpuUtilization, 1.5)])), 0.0);
    }

    #[test]
    fn the_chosen_node_is_blended_with_the_outcome() {
        let settings = LabelSettings::default();
        let busy = node(&[(N::CpuUtilization, 0.5), (N::MemoryUtilization, 0.5)]);
        for (outcome, value, weight) in [
            (Outcome::Running, 0.85, 1.0),
            (Outcome::Restarted, 0.5, 1.5),
            (Outcome::Terminated, 0.36, 2.0),
            (Outcome::OomKilled, 0.15, 3.0),
            (Outcome::Evicted, 0.15, 3.0),
            (Outcome::Failed, 0.15, 2.0),
            (Outcome::Deleted, 0.5, 0.5),
            (Outcome::Unknown, 0.5, 0.5),
        ] {
            let label = settings.of_chosen(&busy, outcome).unwrap();
            near(Some(label.value), value);
            assert_eq!(label.weight, weight, "{outcome:?}");
        }
        assert_eq!(settings.of_chosen(&busy, Outcome::Pending), None);
        let blind = settings.of_chosen(&NodeFacts::UNKNOWN, Outcome::Restarted).unwrap();
        assert_eq!((blind.value, blind.weight), (0.5, 1.5));
        assert_eq!(settings.of_other(&busy), Some(Label { value: 0.5, weight: 1.0 }));
        assert_eq!(settings.of_other(&NodeFacts::UNKNOWN), None);
    }

    #[test]
    fn settings_that_cannot_be_are_named() {
        assert_eq!(LabelSettings::default().check(), Ok(()));
        let wrong = LabelSettings { outcome_trust: 1.5, ..LabelSettings::default() };
        let told = wrong.check().unwrap_err().to_string();
        assert_eq!(told, "outcome_trust: 1.5 is outside 0 to 1");
        let mut wrong = LabelSettings::default();
        wrong.outcomes.get_mut(&Outcome::Evicted).unwrap().weight = f64::NAN;
        let told = wrong.check().unwrap_err().to_string();
        assert_eq!(told, "outcomes.evicted.weight: NaN is outside 0 to 100");
    }
}
