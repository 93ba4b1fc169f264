//! From pods that are seen to events: which pods are followed, and what became of each.
//!
//! A pod is followed from its binding on, and settled once: when its window is over, or when it is
//! gone. What was known of nodes at the binding is joined then and never later, since what they
//! measure afterwards is the pod's own doing. A collector that starts anew is told what was open
//! and what was settled, and goes on without losing or repeating any. There is no clock and no
//! file here: facts come with their time, and [`Step`]s say what to write down.

mod outcome;
mod record;

use std::collections::{BTreeMap, BTreeSet};

pub use self::outcome::{Condition, Ended, Phase, outcome_of};
pub use self::record::{NodeTelemetry, Placed, Record, RecordError};
use crate::events::Outcome;

/// A binding that was seen so much later is joined with no telemetry.
pub const JOIN_WITHIN_MS: i64 = 10_000;
/// So many pods are followed at a time; those bound later are passed over, and counted.
pub const OPEN_MAX: usize = 20_000;

/// How pods are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectSettings {
    /// How long after its binding a pod's outcome is looked at.
    pub window_ms: i64,
}

/// A pod at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenPod {
    /// What it is, and where it was bound.
    pub placed: Placed,
    /// How it is.
    pub condition: Condition,
}

/// What has to be written down.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A pod is followed from now on: to be kept in case the collector dies.
    Opened(Record),
    /// What became of a pod: an event.
    Settled(Record),
}

/// Which pods are followed.
#[derive(Clone, Debug)]
pub struct Collector {
    settings: CollectSettings,
    open: BTreeMap<String, Open>,
    /// Pods that are settled and may still be there.
    settled: BTreeSet<String>,
    passed_over: u64,
}

#[derive(Clone, Debug)]
struct Open {
    record: Record,
    condition: Condition,
}

impl CollectSettings {
    /// Five minutes.
    pub const USUAL: Self = Self { window_ms: 300_000 };
}

// === impl Collector: facts ===

impl Collector {
    /// Goes on where an earlier one ended: with the records that were open, and the uids of pods
    /// that were settled.
    #[must_use]
    pub fn resumed(
        settings: CollectSettings,
        open: impl IntoIterator<Item = Record>,
        settled: impl IntoIterator<Item = String>,
    ) -> Self {
        let settled: BTreeSet<String> = settled.into_iter().collect();
        let open = open.into_iter().filter(|record| !settled.contains(&record.placed.uid));
        let open = open.map(|record| {
            (record.placed.uid.clone(), Open { record, condition: Condition::UNSEEN })
        });
        Self { settings, open: open.collect(), settled, passed_over: 0 }
    }

    /// A pod that is bound was seen. `telemetry` is asked for what nodes measured, if that can be
    /// joined.
    pub fn pod_seen(
        &mut self,
        now_ms: i64,
        pod: &SeenPod,
        telemetry: impl FnOnce() -> BTreeMap<String, NodeTelemetry>,
    ) -> Option<Step> {
        let uid = &pod.placed.uid;
        if let Some(open) = self.open.get_mut(uid) {
            open.condition = open.condition.then(&pod.condition);
            return None;
        }
        let late_ms = now_ms - pod.placed.bound_ms;
        if self.settled.contains(uid) || late_ms > self.settings.window_ms {
            // Settled before, or bound before anybody looked.
            return None;
        }
        if self.open.len() >= OPEN_MAX {
            self.passed_over += 1;
            self.settled.insert(uid.clone());
            return None;
        }
        let joined = if late_ms <= JOIN_WITHIN_MS { telemetry() } else { BTreeMap::new() };
        let record = Record::opened(pod.placed.clone(), joined);
        let open = Open { record: record.clone(), condition: pod.condition };
        self.open.insert(uid.clone(), open);
        Some(Step::Opened(record))
    }

    /// A pod is gone. What was seen of it last counts, and if that was well, that it is gone.
    pub fn pod_gone(&mut self, now_ms: i64, uid: &str) -> Option<Step> {
        self.settled.remove(uid);
        let open = self.open.remove(uid)?;
        let outcome = match outcome_of(&open.condition) {
            Outcome::Running | Outcome::Unknown | Outcome::Pending | Outcome::Deleted => {
                Outcome::Deleted
            }
            bad @ (Outcome::Restarted
            | Outcome::Terminated
            | Outcome::OomKilled
            | Outcome::Evicted
            | Outcome::Failed) => bad,
        };
        Some(Step::Settled(open.record.settled(outcome, now_ms)))
    }

    /// All pods were listed anew: whoever is not among `present` is gone.
    pub fn listed(&mut self, now_ms: i64, present: &BTreeSet<String>) -> Vec<Step> {
        self.settled.retain(|uid| present.contains(uid));
        let gone: Vec<String> =
            self.open.keys().filter(|uid| !present.contains(*uid)).cloned().collect();
        gone.iter().filter_map(|uid| self.pod_gone(now_ms, uid)).collect()
    }

    /// Time passed: settles pods whose window is over. A pod that was not seen since a restart is
    /// not settled before it is, or is found to be gone.
    pub fn tick(&mut self, now_ms: i64) -> Vec<Step> {
        let window_ms = self.settings.window_ms;
        let is_due = |open: &Open| {
            open.condition != Condition::UNSEEN && now_ms - open.record.placed.bound_ms >= window_ms
        };
        let due: Vec<String> =
            self.open.iter().filter(|(_, open)| is_due(open)).map(|(uid, _)| uid.clone()).collect();
        let mut steps = Vec::new();
        for uid in due {
            if let Some(open) = self.open.remove(&uid) {
                let outcome = outcome_of(&open.condition);
                steps.push(Step::Settled(open.record.settled(outcome, now_ms)));
                self.settled.insert(uid);
            }
        }
        steps
    }
}

// === impl Collector: queries ===

impl Collector {
    /// The records that are open, for whoever writes them down anew.
    pub fn open(&self) -> impl Iterator<Item = &Record> {
        self.open.values().map(|open| &open.record)
    }

    /// How many pods are followed.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// How many pods were passed over because too many were followed.
    #[must_use]
    pub const fn passed_over(&self) -> u64 {
        self.passed_over
    }
}

#[cfg(test)]
mod tests;
