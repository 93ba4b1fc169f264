//! Rows to learn from: one for each node of each event, with its label, split by time.
//!
//! A model is judged on events that are younger than all it was trained on, as it will be in use.
//! The nodes of one event stay together.

use std::ops::Range;

use crate::events::Event;
use crate::features::{BadTelemetry, FEATURES, Filler, NodeFacts, Order, PodFacts};
use crate::features::{node_vector, pod_vector};
use crate::label::LabelSettings;
use crate::model::joined;
use crate::number::narrow;

/// One node of one event.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The place of its event, in the order of time.
    pub event: usize,
    /// The node.
    pub node: NodeFacts,
    /// The pod.
    pub pod: PodFacts,
    /// How good the node was, in 0..1.
    pub label: f32,
    /// How much that counts.
    pub weight: f32,
    /// Whether the pod was placed there.
    pub chosen: bool,
}

/// All rows, in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Row>,
    /// How many events they come from.
    pub events: usize,
}

/// Which rows are for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// To learn from.
    pub train: Range<usize>,
    /// To know when to stop, and what confidence is worth.
    pub validate: Range<usize>,
    /// To be judged by; nothing else looks at them.
    pub test: Range<usize>,
}

/// Numbers as a model sees them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// Inputs.
    pub inputs: Vec<[f32; FEATURES]>,
    /// Labels.
    pub labels: Vec<f32>,
    /// Weights.
    pub weights: Vec<f32>,
}

/// The least that can be split into three.
pub const FEWEST_EVENTS: usize = 20;
/// Of a hundred events, so many are learned from; half of the others validate.
const TRAIN_PERCENT: usize = 70;
const VALIDATE_PERCENT: usize = 15;

impl Rows {
    /// The rows of events, which are in the order of time.
    #[must_use]
    pub fn of(events: &[Event], settings: &LabelSettings) -> Self {
        let mut all = Self::default();
        for event in events {
            let before = all.rows.len();
            for (name, node) in &event.nodes {
                let chosen = *name == event.chosen;
                let label = if chosen {
                    settings.of_chosen(node, event.outcome)
                } else {
                    settings.of_other(node)
                };
                if let Some(label) = label.filter(|label| label.weight > 0.0) {
                    all.rows.push(Row {
                        event: all.events,
                        node: *node,
                        pod: event.pod,
                        label: narrow(label.value),
                        weight: narrow(label.weight),
                        chosen,
                    });
                }
            }
            all.events += usize::from(all.rows.len() > before);
        }
        all
    }

    /// Splits by time; `None` where there are too few events.
    #[must_use]
    pub fn split(&self) -> Option<Split> {
        if self.events < FEWEST_EVENTS {
            return None;
        }
        let first_of = |percent: usize| {
            let event = self.events * percent / 100;
            self.rows.partition_point(|row| row.event < event)
        };
        let (validate, test) =
            (first_of(TRAIN_PERCENT), first_of(TRAIN_PERCENT + VALIDATE_PERCENT));
        Some(Split { train: 0..validate, validate: validate..test, test: test..self.rows.len() })
    }

    /// Rows as a model sees them.
    ///
    /// # Errors
    ///
    /// A row's telemetry is not finite.
    pub fn matrix(
        &self,
        range: Range<usize>,
        order: Order,
        filler: Filler,
    ) -> Result<Matrix, BadTelemetry> {
        let mut matrix = Matrix::default();
        for row in &self.rows[range] {
            let node = node_vector(&row.node, order, filler)?;
            matrix.inputs.push(joined(&node, &pod_vector(&row.pod)));
            matrix.labels.push(row.label);
            matrix.weights.push(row.weight);
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::events::Outcome;
    use crate::features::NodeFeature;

    fn event(time_ms: i64, outcome: Outcome) -> Event {
        let node = NodeFacts::UNKNOWN.with(NodeFeature::CpuUtilization, 0.5);
        let nodes = BTreeMap::from([
            ("a".to_owned(), node),
            ("b".to_owned(), node),
            ("c".to_owned(), NodeFacts::UNKNOWN),
        ]);
        let (id, chosen) = (time_ms.to_string(), "a".to_owned());
        Event { time_ms, id, pod: PodFacts::default(), nodes, chosen, outcome }
    }

    #[test]
    fn a_row_for_each_node_that_can_be_labelled() {
        let rows = Rows::of(&[event(0, Outcome::Evicted)], &LabelSettings::default());
        let told: Vec<_> = rows.rows.iter().map(|r| (r.label, r.weight, r.chosen)).collect();
        assert_eq!(told, [(0.15, 3.0, true), (0.5, 1.0, false)]);
        assert_eq!(rows.events, 1);
    }

    #[test]
    fn the_youngest_events_judge_and_none_is_torn_apart() {
        let events: Vec<_> = (0..100).map(|time| event(time, Outcome::Running)).collect();
        let rows = Rows::of(&events, &LabelSettings::default());
        let split = rows.split().unwrap();
        assert_eq!(split, Split { train: 0..140, validate: 140..170, test: 170..200 });
        assert_eq!(Rows::of(&events[..19], &LabelSettings::default()).split(), None);
    }
}
