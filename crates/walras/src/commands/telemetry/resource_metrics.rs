//! Figures of all nodes of a cluster by Kubernetes' resource metrics, for nodes without an agent.
//!
//! `kubectl proxy` serves the API without TLS and with the account of whoever started it, so this
//! needs neither. What nodes have is in their Node objects, and so are their labels.

use std::collections::BTreeMap;

use serde::Deserialize;
use walras_core::parse::quantity;
use walras_telemetry::adapt::{Capacity, fetch, node_usages, snapshot_of};
use walras_telemetry::metadata::{Metadata, Said};
use walras_telemetry::metric::Metric;
use walras_telemetry::reading::Reading;
use walras_telemetry::snapshot::{Snapshot, Source};

use super::{TelemetryArgs, print};
use crate::failure::Failure;

/// Where they are, below the URL of the API.
const USAGES: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
const NODES: &str = "/api/v1/nodes";

#[derive(Deserialize)]
struct NodeList {
    items: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    metadata: NodeMetadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct NodeMetadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    capacity: BTreeMap<String, String>,
}

/// Asks once, and prints every node that is measured.
pub(super) fn run(args: &TelemetryArgs, url: &str, now_unix_ms: u64) -> Result<(), Failure> {
    let base = url.trim_end_matches('/');
    let text = |path: &str| {
        fetch(&format!("{base}{path}")).map_err(|error| Failure::Machine(error.to_string()))
    };
    let said: BTreeMap<String, String> = args.labels.iter().cloned().collect();
    let snapshots = snapshots(&text(USAGES)?, &text(NODES)?, &said, now_unix_ms)
        .map_err(|words| Failure::Input(format!("{url}: {words}")))?;
    let wanted =
        |snapshot: &&Snapshot| args.node.as_ref().is_none_or(|node| *node == snapshot.node);
    let mut printed = 0;
    for snapshot in snapshots.iter().filter(wanted) {
        print(args, snapshot)?;
        printed += 1;
    }
    if printed == 0 {
        let whom = args.node.as_deref().unwrap_or("any node");
        return Err(Failure::Input(format!("{url}: there are no resource metrics of {whom}")));
    }
    Ok(())
}

/// What both answers say together, in the order of the usages. How full zones are is computed over
/// all nodes.
fn snapshots(
    usages: &str,
    nodes: &str,
    said: &BTreeMap<String, String>,
    now_unix_ms: u64,
) -> Result<Vec<Snapshot>, String> {
    let usages = node_usages(usages.as_bytes()).map_err(|error| error.to_string())?;
    let nodes: NodeList = serde_json::from_str(nodes)
        .map_err(|error| format!("the answer of {NODES} is no NodeList: {error}"))?;
    let nodes: BTreeMap<&str, &Node> =
        nodes.items.iter().map(|node| (node.metadata.name.as_str(), node)).collect();
    let mut all = Vec::new();
    for usage in &usages {
        let node = nodes.get(usage.node.as_str());
        let mut labels = node.map(|node| node.metadata.labels.clone()).unwrap_or_default();
        labels.extend(said.clone());
        let has = node.map_or(NOTHING, |node| capacity(&node.status));
        let taken = walras_brain::events::time_ms(&usage.timestamp);
        let taken = taken.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(now_unix_ms);
        let mut snapshot = snapshot_of(usage, has, taken);
        Metadata::of(&Said::default(), &labels).put(&mut snapshot);
        all.push(snapshot);
    }
    let zones: Vec<Option<String>> = all.iter().map(|one| one.place.zone.clone()).collect();
    let zones: Vec<Option<&str>> = zones.iter().map(Option::as_deref).collect();
    let diversity: Vec<Reading> = walras_telemetry::metadata::zone_diversity(&zones);
    for (snapshot, reading) in all.iter_mut().zip(diversity) {
        snapshot.set(Metric::ZoneDiversity, reading, Source::MetricsApi);
    }
    Ok(all)
}

/// What a node has that nobody told of.
const NOTHING: Capacity = Capacity { cpu_milli: 0, memory_bytes: 0 };

fn capacity(status: &Status) -> Capacity {
    let of = |name: &str| quantity(status.capacity.get(name)?.as_bytes()).ok();
    Capacity {
        cpu_milli: of("cpu")
            .and_then(|cpu| Some(cpu.millicores_ceil().ok()?.get()))
            .unwrap_or_default(),
        memory_bytes: of("memory").map_or(0, |memory| memory.bytes_ceil().get()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: &str = r#"{"kind":"NodeMetricsList","items":[
        {"metadata":{"name":"a"},"timestamp":"2026-11-18T00:00:10Z","window":"20s",
         "usage":{"cpu":"500m","memory":"1Gi"}},
        {"metadata":{"name":"b"},"timestamp":"2026-11-18T00:00:10Z","window":"20s",
         "usage":{"cpu":"1500000000n","memory":"1048576Ki"}},
        {"metadata":{"name":"new"},"usage":{"cpu":"1","memory":"1Gi"}}]}"#;
    const NODE: &str = r#"{"kind":"NodeList","items":[
        {"metadata":{"name":"a","labels":{"topology.kubernetes.io/zone":"z1",
          "karpenter.sh/capacity-type":"spot"}},
         "status":{"capacity":{"cpu":"2","memory":"4Gi","pods":"110"}}},
        {"metadata":{"name":"b"},"status":{"capacity":{"cpu":"2","memory":"8Gi"}}}]}"#;

    #[test]
    fn use_and_capacity_become_shares_and_labels_say_the_rest() {
        let found = snapshots(USAGE, NODE, &BTreeMap::new(), 7).unwrap();
        let values = |metric: Metric| -> Vec<Option<f64>> {
            found.iter().map(|snapshot| snapshot.value(metric)).collect()
        };
        // Of the third nobody says what it has.
        assert_eq!(values(Metric::CpuUtilization), [Some(0.25), Some(0.75), None]);
        assert_eq!(values(Metric::MemoryUtilization), [Some(0.25), Some(0.125), None]);
        assert_eq!(values(Metric::Spot)[0], Some(1.0));
        assert!(values(Metric::ZoneDiversity)[0].is_some());
        let taken: Vec<u64> = found.iter().map(|snapshot| snapshot.taken_unix_ms).collect();
        assert_eq!(taken, [1_794_960_010_000, 1_794_960_010_000, 7]);
    }

    #[test]
    fn answers_of_something_else_are_named() {
        let told = |usage, nodes| snapshots(usage, nodes, &BTreeMap::new(), 7).unwrap_err();
        assert!(told("[]", NODE).starts_with("the answer is no NodeMetricsList"));
        assert!(told(USAGE, "{}").starts_with("the answer of /api/v1/nodes is no NodeList"));
    }
}
