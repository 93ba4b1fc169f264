//! Kubernetes' resource metrics (`metrics.k8s.io/v1beta1`): CPU and memory in use of each node.
//!
//! They are means over a window that the answer tells, not counters, and say nothing else about a
//! node. What a node has is in its Node object, which the caller knows.

use serde::Deserialize;
use walras_core::parse::quantity;

use crate::metric::Metric;
use crate::rate::count;
use crate::reading::{Reading, Unavailable};
use crate::snapshot::{Snapshot, Source};

/// What a node uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    /// Its name.
    pub node: String,
    /// When, as the server writes it.
    pub timestamp: String,
    /// CPU in thousandths of a core, rounded up.
    pub cpu_milli: u64,
    /// Memory, rounded up.
    pub memory_bytes: u64,
}

/// What a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// CPU in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory.
    pub memory_bytes: u64,
}

/// Why an answer makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// It is no list of nodes.
    #[error("the answer is no NodeMetricsList: {source}")]
    Shape {
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A quantity makes no sense.
    #[error("node {node}: usage.{field} is {value:?}, which is no quantity")]
    Quantity {
        /// Of which node.
        node: String,
        /// Which one.
        field: &'static str,
        /// What is there.
        value: String,
    },
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Named,
    #[serde(default)]
    timestamp: String,
    usage: Usage,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Usage {
    cpu: String,
    memory: String,
}

/// What the nodes of an answer use, in its order.
///
/// # Errors
///
/// Where the answer is something else, or a quantity makes no sense.
pub fn node_usages(json: &[u8]) -> Result<Vec<NodeUsage>, ApiError> {
    let list: List = serde_json::from_slice(json).map_err(|source| ApiError::Shape { source })?;
    let usage = |item: Item| {
        let Item { metadata: Named { name: node }, timestamp, usage } = item;
        let bad = |field, value: &str| ApiError::Quantity {
            node: node.clone(),
            field,
            value: value.chars().take(40).collect(),
        };
        let cpu = quantity(usage.cpu.as_bytes()).and_then(|it| it.millicores_ceil());
        let cpu_milli = cpu.map_err(|_| bad("cpu", &usage.cpu))?.get();
        let memory = quantity(usage.memory.as_bytes()).map_err(|_| bad("memory", &usage.memory))?;
        Ok(NodeUsage { cpu_milli, memory_bytes: memory.bytes_ceil().get(), timestamp, node })
    };
    list.items.into_iter().map(usage).collect()
}

/// A snapshot of a node that has nothing but these figures.
#[must_use]
pub fn snapshot_of(usage: &NodeUsage, has: Capacity, taken_unix_ms: u64) -> Snapshot {
    let why = Unavailable::NotReported { what: "it" };
    let source = Source::MetricsApi;
    let mut snapshot = Snapshot::empty(&usage.node, taken_unix_ms, source, why);
    for metric in Metric::ALL {
        let why = Unavailable::NotReported { what: metric.name() };
        snapshot.set(metric, Reading::Unavailable(why), source);
    }
    for (metric, used, all) in [
        (Metric::CpuUtilization, usage.cpu_milli, has.cpu_milli),
        (Metric::MemoryUtilization, usage.memory_bytes, has.memory_bytes),
    ] {
        let reading = if all == 0 {
            Reading::Unavailable(Unavailable::NotSaid { what: "the node's capacity" })
        } else {
            Reading::of((count(used) / count(all)).min(1.0))
        };
        snapshot.set(metric, reading, source);
    }
    snapshot
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1",
        "metadata":{},"items":[
        {"metadata":{"name":"node-1","labels":{"a":"b"}},"timestamp":"2026-11-17T08:00:00Z",
         "window":"10.2s","usage":{"cpu":"156340345n","memory":"1048576Ki"}},
        {"metadata":{"name":"node-2"},"usage":{"cpu":"2","memory":"0"}}]}"#;

    #[test]
    fn an_answer_of_the_metrics_server_is_read() {
        let found = node_usages(ANSWER.as_bytes()).unwrap();
        assert_eq!(found.len(), 2);
        let first = NodeUsage {
            node: "node-1".to_owned(),
            timestamp: "2026-11-17T08:00:00Z".to_owned(),
            cpu_milli: 157,
            memory_bytes: 1 << 30,
        };
        assert_eq!(found[0], first);
        let has = Capacity { cpu_milli: 1570, memory_bytes: 4 << 30 };
        let snapshot = snapshot_of(&found[0], has, 9);
        assert_eq!(snapshot.value(Metric::CpuUtilization), Some(0.1));
        assert_eq!(snapshot.value(Metric::MemoryUtilization), Some(0.25));
        let known = Metric::ALL.iter().filter(|metric| snapshot.value(**metric).is_some());
        assert_eq!(known.count(), 2, "nothing else is known, and nothing is zero");
        let unknown = Capacity { cpu_milli: 0, memory_bytes: 0 };
        assert_eq!(snapshot_of(&found[1], unknown, 9).value(Metric::CpuUtilization), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let told = |text: &str| node_usages(text.as_bytes()).unwrap_err().to_string();
        assert!(told("[]").starts_with("the answer is no NodeMetricsList"));
        let bad = ANSWER.replace("156340345n", "many");
        assert_eq!(told(&bad), "node node-1: usage.cpu is \"many\", which is no quantity");
        let bad = ANSWER.replace("1048576Ki", "-1");
        assert_eq!(told(&bad), "node node-1: usage.memory is \"-1\", which is no quantity");
    }
}
