//! An event as a line, as collectors write it.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::Event;
use crate::features::NodeFeature;

/// All events as JSON lines. [`super::read`] reads them back.
#[must_use]
pub fn written(events: &[Event]) -> String {
    let mut text = String::new();
    for event in events {
        // Text takes whatever is written.
        writeln!(text, "{}", line(event)).ok();
    }
    text
}

fn line(event: &Event) -> Value {
    let nodes: Map<String, Value> = event
        .nodes
        .iter()
        .map(|(name, node)| {
            let measured = NodeFeature::ALL.into_iter();
            let measured = measured.filter_map(|feature| {
                Some((feature.about().name.to_owned(), json!(node.get(feature)?)))
            });
            (name.clone(), Value::Object(measured.collect()))
        })
        .collect();
    json!({
        "timestamp": event.time_ms,
        "event_id": event.id,
        "cpu_request_milli": event.pod.cpu_milli,
        "memory_request_bytes": event.pod.memory_bytes,
        "workload_type": event.pod.workload.name(),
        "criticality": event.pod.criticality.name(),
        "candidate_nodes": event.nodes.keys().collect::<Vec<_>>(),
        "node_telemetry": nodes,
        "chosen_node": event.chosen,
        "outcome": event.outcome.name(),
    })
}

#[cfg(test)]
mod tests {
    use walras_core::rng::Rng;

    use super::*;
    use crate::events::read;
    use crate::random;

    #[test]
    fn what_is_written_is_read_back() {
        let mut events = random::events(&mut Rng::from_seed(4), 50, 3);
        for (number, event) in events.iter_mut().enumerate() {
            event.time_ms = 1_800_000_000_000 + 1000 * i64::try_from(number).unwrap();
            event.id = format!("{number:03}");
        }
        let back = read(written(&events).as_bytes());
        assert_eq!(back.bad, []);
        assert_eq!(back.events, events);
    }
}
