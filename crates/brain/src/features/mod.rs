//! The 26 numbers that a model sees: 15 of a node, then 11 of the pod to be placed.
//!
//! Each feature has a name, a unit, a range, and a value that stands for it where nobody measured
//! it. A value is brought to 0..1 by its range, and kept there. The names and their order are part
//! of every model file: a model with other features is refused by name.

mod facts;
mod vector;
mod zone;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use facts::{Criticality, NodeFacts, PodFacts, Workload};
pub use vector::{BadTelemetry, Filler, node_vector, order_of, pod_vector};
pub use zone::zone_diversity;

/// How many features a node has.
pub const NODE_FEATURES: usize = 15;
/// How many features a pod has.
pub const POD_FEATURES: usize = 11;
/// How many features a model sees.
pub const FEATURES: usize = NODE_FEATURES + POD_FEATURES;

/// A feature of a node. The order of the variants is the order `document`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "their table below says what they are")]
pub enum NodeFeature {
    CpuUtilization,
    CpuThrottleRate,
    MemoryUtilization,
    MemoryBandwidthGbps,
    L3CacheMissRate,
    L3CacheOccupancyMb,
    DiskIoWaitMs,
    DiskIops,
    NetworkRxPacketsSec,
    NetworkTxPacketsSec,
    NetworkDropRate,
    NodeCostIndex,
    IsSpotInstance,
    SpotInterruptionRisk,
    ZoneDiversityScore,
}

/// What is known about a feature.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct About {
    /// Its name in telemetry, events and model files.
    pub name: &'static str,
    /// Its unit, in words.
    pub unit: &'static str,
    /// What becomes 0, and all below it.
    pub low: f64,
    /// What becomes 1, and all above it.
    pub high: f64,
    /// What stands for it where it was not measured, in its unit.
    pub missing: f64,
    /// Whether more of it is more load, so that a model that we train never scores a node higher
    /// for having more.
    pub load: bool,
}

/// In which order the features of a node stand in a model's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Cost, spot, risk, zone at the end, as the architecture document of KubeAttention lists them.
    #[default]
    Document,
    /// Cost, zone, risk, spot at the end, as KubeAttention's code has them.
    Kubeattention,
}

use NodeFeature as N;

const fn load(name: &'static str, unit: &'static str, high: f64, missing: f64) -> About {
    About { name, unit, low: 0.0, high, missing, load: true }
}

/// An amount, which says as much about how large a machine is as about how busy it is.
const fn amount(name: &'static str, unit: &'static str, high: f64) -> About {
    About { name, unit, low: 0.0, high, missing: 0.0, load: false }
}

const fn neutral(name: &'static str, unit: &'static str, missing: f64) -> About {
    About { name, unit, low: 0.0, high: 1.0, missing, load: false }
}

/// What is known about the features of a node, in the order of the variants.
const NODE: [About; NODE_FEATURES] = [
    load("cpu_utilization", "share of all CPUs", 1.0, 0.5),
    load("cpu_throttle_rate", "throttled periods per second", 10_000.0, 0.0),
    load("memory_utilization", "share of all memory", 1.0, 0.5),
    amount("memory_bandwidth_gbps", "GB/s", 200.0),
    load("l3_cache_miss_rate", "share of accesses", 1.0, 0.0),
    amount("l3_cache_occupancy_mb", "MiB", 256.0),
    load("disk_io_wait_ms", "ms", 1000.0, 0.0),
    amount("disk_iops", "operations per second", 1_000_000.0),
    amount("network_rx_packets_sec", "packets per second", 10_000_000.0),
    amount("network_tx_packets_sec", "packets per second", 10_000_000.0),
    load("network_drop_rate", "share of packets", 1.0, 0.0),
    neutral("node_cost_index", "0 is the cheapest node, 1 the dearest", 0.1),
    neutral("is_spot_instance", "0 or 1", 0.0),
    neutral("spot_interruption_risk", "probability", 0.0),
    neutral("zone_diversity_score", "0 is a crowded zone, 1 an empty one", 0.5),
];

/// What is known about the features of a pod, in both orders.
pub const POD: [About; POD_FEATURES] = [
    neutral("cpu_normalized", "requested CPU, as a share of 8 cores", 0.0),
    neutral("memory_normalized", "requested memory, as a share of 32 GiB", 0.0),
    neutral("workload_cpu_bound", "0 or 1", 0.0),
    neutral("workload_memory_bound", "0 or 1", 0.0),
    neutral("workload_io_bound", "0 or 1", 0.0),
    neutral("workload_balanced", "0 or 1", 0.0),
    neutral("workload_unknown", "0 or 1", 1.0),
    neutral("criticality_unknown", "0 or 1", 1.0),
    neutral("criticality_low", "0 or 1", 0.0),
    neutral("criticality_medium", "0 or 1", 0.0),
    neutral("criticality_high", "0 or 1", 0.0),
];

// === impl NodeFeature ===

impl NodeFeature {
    /// All of them, in the order `document`.
    pub const ALL: [Self; NODE_FEATURES] = [
        N::CpuUtilization,
        N::CpuThrottleRate,
        N::MemoryUtilization,
        N::MemoryBandwidthGbps,
        N::L3CacheMissRate,
        N::L3CacheOccupancyMb,
        N::DiskIoWaitMs,
        N::DiskIops,
        N::NetworkRxPacketsSec,
        N::NetworkTxPacketsSec,
        N::NetworkDropRate,
        N::NodeCostIndex,
        N::IsSpotInstance,
        N::SpotInterruptionRisk,
        N::ZoneDiversityScore,
    ];

    /// What is known about it.
    #[must_use]
    pub const fn about(self) -> &'static About {
        &NODE[self as usize]
    }

    /// The feature of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.about().name == name)
    }

    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for NodeFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.about().name)
    }
}

// === impl Order ===

impl Order {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Document, Self::Kubeattention];

    /// Its name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Kubeattention => "kubeattention",
        }
    }

    /// The features of a node in this order.
    #[must_use]
    pub const fn node_features(self) -> [NodeFeature; NODE_FEATURES] {
        let mut features = NodeFeature::ALL;
        match self {
            Self::Document => {}
            Self::Kubeattention => {
                features[12] = N::ZoneDiversityScore;
                features[13] = N::SpotInterruptionRisk;
                features[14] = N::IsSpotInstance;
            }
        }
        features
    }

    /// What is known about all 26 features, in this order.
    #[must_use]
    pub fn features(self) -> [About; FEATURES] {
        let mut all = [POD[0]; FEATURES];
        for (place, feature) in self.node_features().into_iter().enumerate() {
            all[place] = *feature.about();
        }
        all[NODE_FEATURES..].copy_from_slice(&POD);
        all
    }

    /// The names of all 26 features, in this order.
    #[must_use]
    pub fn names(self) -> [&'static str; FEATURES] {
        self.features().map(|about| about.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_one_name_and_a_range() {
        for order in Order::ALL {
            let mut names = order.names().to_vec();
            assert_eq!(names.len(), 26);
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), 26, "{order:?}");
        }
        for about in Order::Document.features() {
            assert!(about.low < about.high, "{about:?}");
            assert!((about.low..=about.high).contains(&about.missing), "{about:?}");
        }
    }

    #[test]
    fn the_orders_differ_in_the_last_three_of_a_node() {
        let [document, code] = Order::ALL.map(Order::names);
        assert_eq!(document[..12], code[..12]);
        assert_eq!(
            document[12..15],
            ["is_spot_instance", "spot_interruption_risk", "zone_diversity_score"]
        );
        assert_eq!(
            code[12..15],
            ["zone_diversity_score", "spot_interruption_risk", "is_spot_instance"]
        );
        assert_eq!(document[15..], code[15..]);
    }

    #[test]
    fn a_feature_is_found_by_its_name_and_by_no_other() {
        for feature in NodeFeature::ALL {
            assert_eq!(NodeFeature::named(&feature.to_string()), Some(feature));
        }
        assert_eq!(NodeFeature::named("cpu"), None);
    }
}
