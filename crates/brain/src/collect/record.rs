//! One line of a file of events: a placement, what nodes measured then, and what became of it.
//!
//! The fields are those of KubeAttention's collector. What is written here is read by
//! [`crate::events::read_line`] and, while it is open, by [`Record::read`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::events::{Outcome, time_text};

/// What a pod is, and where it was bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its uid.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The CPU that it requests.
    pub cpu_milli: u64,
    /// The memory that it requests.
    pub memory_bytes: u64,
    /// What it spends its time on, where that is said.
    pub workload_type: Option<String>,
    /// How much depends on it, where that is said.
    pub criticality: Option<String>,
    /// The node it was bound to.
    pub node: String,
    /// Who bound it.
    pub scheduler: String,
    /// When, in milliseconds since 1970.
    pub bound_ms: i64,
}

/// What a node measured, by the names of features; what it did not is not there.
pub type NodeTelemetry = BTreeMap<String, f64>;

/// A placement, and what became of it once that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The placement.
    pub placed: Placed,
    /// What nodes measured at that moment, by their names.
    pub nodes: BTreeMap<String, NodeTelemetry>,
    /// What became of it, and when that was seen.
    pub outcome: Option<(Outcome, i64)>,
}

/// Why a line is no record of ours.
#[derive(Debug, thiserror::Error)]
#[error("it is no record of a collector: {0}")]
pub struct RecordError(serde_json::Error);

/// The line itself.
#[derive(Serialize, Deserialize)]
struct Line {
    timestamp: String,
    event_id: String,
    pod_uid: String,
    pod_name: String,
    pod_namespace: String,
    pod_labels: BTreeMap<String, String>,
    cpu_request_milli: u64,
    memory_request_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    criticality: Option<String>,
    candidate_nodes: Vec<String>,
    node_telemetry: BTreeMap<String, NodeTelemetry>,
    chosen_node: String,
    scheduler_name: String,
    outcome: Outcome,
    outcome_timestamp: Option<String>,
    /// Not measured here; the predecessor's files have it.
    p99_latency_ms: Option<f64>,
    /// The time again, for this program: text has whole milliseconds only by chance.
    bound_unix_ms: i64,
}

impl Record {
    /// A placement whose outcome is not known yet.
    #[must_use]
    pub fn opened(placed: Placed, mut nodes: BTreeMap<String, NodeTelemetry>) -> Self {
        // What is no number was not measured, and could not be read back.
        for telemetry in nodes.values_mut() {
            telemetry.retain(|_, value| value.is_finite());
        }
        Self { placed, nodes, outcome: None }
    }

    /// The same with its outcome.
    #[must_use]
    pub fn settled(self, outcome: Outcome, at_ms: i64) -> Self {
        Self { outcome: Some((outcome, at_ms)), ..self }
    }

    /// As a line, without its end.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { placed, nodes, outcome } = self;
        let line = Line {
            timestamp: time_text(placed.bound_ms),
            // A pod is placed once, so its uid tells events apart.
            event_id: placed.uid.clone(),
            pod_uid: placed.uid.clone(),
            pod_name: placed.name.clone(),
            pod_namespace: placed.namespace.clone(),
            pod_labels: placed.labels.clone(),
            cpu_request_milli: placed.cpu_milli,
            memory_request_bytes: placed.memory_bytes,
            workload_type: placed.workload_type.clone(),
            criticality: placed.criticality.clone(),
            candidate_nodes: nodes.keys().cloned().collect(),
            node_telemetry: nodes.clone(),
            chosen_node: placed.node.clone(),
            scheduler_name: placed.scheduler.clone(),
            outcome: outcome.map_or(Outcome::Pending, |(outcome, _)| outcome),
            outcome_timestamp: outcome.map(|(_, at_ms)| time_text(at_ms)),
            p99_latency_ms: None,
            bound_unix_ms: placed.bound_ms,
        };
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Reads the line of a record that is open.
    ///
    /// # Errors
    /// It is none.
    pub fn read(line: &[u8]) -> Result<Self, RecordError> {
        let line: Line = serde_json::from_slice(line).map_err(RecordError)?;
        let placed = Placed {
            uid: line.pod_uid,
            name: line.pod_name,
            namespace: line.pod_namespace,
            labels: line.pod_labels,
            cpu_milli: line.cpu_request_milli,
            memory_bytes: line.memory_request_bytes,
            workload_type: line.workload_type,
            criticality: line.criticality,
            node: line.chosen_node,
            scheduler: line.scheduler_name,
            bound_ms: line.bound_unix_ms,
        };
        Ok(Self::opened(placed, line.node_telemetry))
    }
}
