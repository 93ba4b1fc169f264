//! What became of pods that were placed: events, read from JSON lines.
//!
//! A line is an object with the fields that a collector writes: `timestamp`, `event_id`,
//! `cpu_request_milli`, `memory_request_bytes`, `node_telemetry`, `chosen_node`, `outcome` and
//! others. The pod may also be described in an object `pod_context`, as KubeAttention's document
//! has it. Unknown fields are skipped, since collectors write more than training needs; a known one
//! that is wrong makes its line bad, with the field and the value.

mod line;
mod outcome;
mod when;
mod written;

use std::collections::BTreeMap;

use crate::features::{NodeFacts, PodFacts};

pub use line::read_line;
pub use outcome::Outcome;
pub use when::{of_text as time_ms, to_text as time_text};
pub use written::written;

/// One placement and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When the pod was placed, in milliseconds since 1970.
    pub time_ms: i64,
    /// What tells events apart; empty where the line has none.
    pub id: String,
    /// The pod.
    pub pod: PodFacts,
    /// The nodes it could have been placed on, by name, as far as they were measured.
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Where it was placed.
    pub chosen: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// Why a line is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is not JSON, or not an object.
    #[error("it is not a JSON object: {0}")]
    Json(String),
    /// A field that every event has is not there.
    #[error("{field} is missing")]
    Missing {
        /// Which.
        field: &'static str,
    },
    /// A field has a value that it cannot have.
    #[error("{field}: {value} is not {expected}")]
    Value {
        /// Which.
        field: String,
        /// Its value.
        value: String,
        /// What it could have been.
        expected: &'static str,
    },
}

/// What a file of events holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events {
    /// Events with an outcome, in the order of their time.
    pub events: Vec<Event>,
    /// Lines that are no events, by their number from 1 on.
    pub bad: Vec<(usize, LineError)>,
    /// Events without an outcome so far.
    pub pending: usize,
    /// Lines that an event of the same id came after.
    pub replaced: usize,
}

/// Reads a whole file. Of events with the same id the last one counts.
#[must_use]
pub fn read(bytes: &[u8]) -> Events {
    let mut all = Events::default();
    let mut by_id: BTreeMap<(String, usize), Event> = BTreeMap::new();
    for (place, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match read_line(line) {
            Err(error) => all.bad.push((place + 1, error)),
            Ok(event) => {
                // Without an id nothing is known to be the same.
                let number = if event.id.is_empty() { place + 1 } else { 0 };
                let before = by_id.insert((event.id.clone(), number), event);
                all.replaced += usize::from(before.is_some());
            }
        }
    }
    let (pending, settled): (Vec<Event>, Vec<Event>) =
        by_id.into_values().partition(|event| event.outcome == Outcome::Pending);
    all.pending = pending.len();
    all.events = settled;
    // Stable, so that events of one moment stay in the order of their ids.
    all.events.sort_by_key(|event| event.time_ms);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, time: u64, outcome: &str) -> String {
        format!(
            "{{\"event_id\":\"{id}\",\"timestamp\":{time},\"chosen_node\":\"a\",\
             \"outcome\":\"{outcome}\",\"node_telemetry\":{{\"a\":{{}}}}}}\n"
        )
    }

    #[test]
    fn the_last_event_of_an_id_counts_and_time_orders() {
        let text = line("x", 30, "pending")
            + &line("y", 20, "running")
            + "\n"
            + &line("x", 30, "evicted")
            + &line("z", 10, "pending")
            + "{\"half a li";
        let read = read(text.as_bytes());
        let told: Vec<_> = read.events.iter().map(|e| (e.id.as_str(), e.outcome)).collect();
        assert_eq!(told, [("y", Outcome::Running), ("x", Outcome::Evicted)]);
        assert_eq!((read.pending, read.replaced), (1, 1));
        assert_eq!(read.bad.len(), 1);
        assert_eq!(read.bad[0].0, 6);
    }

    #[test]
    fn events_without_an_id_are_all_kept() {
        let text = line("", 1, "running").repeat(3);
        assert_eq!(read(text.as_bytes()).events.len(), 3);
    }
}
