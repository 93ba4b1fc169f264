//! What is told of a node: the 15 features that a model is given, and what is only shown.
//!
//! Every metric has a name, a unit and a meaning, here and nowhere else. The features come first,
//! in the order of their document; a model that was trained on another order has to say so itself.

use std::fmt;

/// How many metrics there are.
pub const METRICS: usize = 24;
/// How many of them, from the first on, are features.
pub const FEATURES: usize = 15;

/// One figure of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// How busy the CPUs are.
    CpuUtilization,
    /// How often groups meet their quota.
    CpuThrottleRate,
    /// How full memory is.
    MemoryUtilization,
    /// What moves between memory and CPUs.
    MemoryBandwidth,
    /// How many looks into the last cache find nothing.
    CacheMissRate,
    /// How full the last cache is.
    CacheOccupancy,
    /// How long a disk takes.
    DiskWait,
    /// How much disks do.
    DiskOperations,
    /// What comes in.
    PacketsReceived,
    /// What goes out.
    PacketsSent,
    /// What is lost.
    PacketDropRate,
    /// What it costs.
    CostIndex,
    /// Whether it may be taken away.
    Spot,
    /// How likely that is.
    InterruptionRisk,
    /// How empty its zone is beside others.
    ZoneDiversity,
    /// How long tasks that can run wait for a CPU, on average.
    RunQueueMean,
    /// The same for the slowest hundredth.
    RunQueueTail,
    /// How long a request takes from its making to its end, on average.
    BlockMean,
    /// The same for the slowest hundredth.
    BlockTail,
    /// How often CPUs change tasks.
    ContextSwitches,
    /// Time in which somebody waited for CPU.
    CpuPressure,
    /// Time in which somebody waited for memory.
    MemoryPressure,
    /// Time in which somebody waited for disks.
    IoPressure,
    /// Packets that the kernel threw away, wherever.
    PacketsFreed,
}

/// What a metric is called and means.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name: &'static str,
    unit: &'static str,
    about: &'static str,
}

const fn entry(name: &'static str, unit: &'static str, about: &'static str) -> Entry {
    Entry { name, unit, about }
}

// === impl Metric ===

impl Metric {
    /// All of them; the first [`FEATURES`] are the features.
    pub const ALL: [Self; METRICS] = [
        Self::CpuUtilization,
        Self::CpuThrottleRate,
        Self::MemoryUtilization,
        Self::MemoryBandwidth,
        Self::CacheMissRate,
        Self::CacheOccupancy,
        Self::DiskWait,
        Self::DiskOperations,
        Self::PacketsReceived,
        Self::PacketsSent,
        Self::PacketDropRate,
        Self::CostIndex,
        Self::Spot,
        Self::InterruptionRisk,
        Self::ZoneDiversity,
        Self::RunQueueMean,
        Self::RunQueueTail,
        Self::BlockMean,
        Self::BlockTail,
        Self::ContextSwitches,
        Self::CpuPressure,
        Self::MemoryPressure,
        Self::IoPressure,
        Self::PacketsFreed,
    ];

    /// Whether it is one of the 15 features.
    #[must_use]
    pub const fn is_feature(self) -> bool {
        self.place() < FEATURES
    }

    /// Where it is in [`Metric::ALL`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }

    /// Its name, as models and metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// What its number counts.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        self.entry().unit
    }

    /// What it means, in a sentence.
    #[must_use]
    pub const fn about(self) -> &'static str {
        self.entry().about
    }

    const fn entry(self) -> Entry {
        const RATIO: &str = "ratio";
        match self {
            Self::CpuUtilization => {
                entry("cpu_utilization", RATIO, "Time in which the CPUs were not idle.")
            }
            Self::CpuThrottleRate => {
                entry("cpu_throttle_rate", "periods/s", "Periods in which a group met its quota.")
            }
            Self::MemoryUtilization => {
                entry("memory_utilization", RATIO, "Memory that is not available for more.")
            }
            Self::MemoryBandwidth => {
                entry("memory_bandwidth_gbps", "GB/s", "Data moved between memory and CPUs.")
            }
            Self::CacheMissRate => {
                entry("l3_cache_miss_rate", RATIO, "Looks into the last cache that found nothing.")
            }
            Self::CacheOccupancy => {
                entry("l3_cache_occupancy_mb", "MiB", "The part of the last cache in use.")
            }
            Self::DiskWait => entry("disk_io_wait_ms", "ms", "What a request to a disk took."),
            Self::DiskOperations => entry("disk_iops", "1/s", "Requests that disks completed."),
            Self::PacketsReceived => entry("network_rx_packets_sec", "1/s", "Packets received."),
            Self::PacketsSent => entry("network_tx_packets_sec", "1/s", "Packets sent."),
            Self::PacketDropRate => {
                entry("network_drop_rate", RATIO, "Packets that interfaces dropped.")
            }
            Self::CostIndex => entry("node_cost_index", RATIO, "Cost beside the dearest node."),
            Self::Spot => entry("is_spot_instance", "0 or 1", "Whether it may be taken away."),
            Self::InterruptionRisk => {
                entry("spot_interruption_risk", RATIO, "How likely it is taken away.")
            }
            Self::ZoneDiversity => {
                entry("zone_diversity_score", RATIO, "How few nodes its zone has beside others.")
            }
            Self::RunQueueMean => {
                entry("run_queue_latency_us", "us", "Wait for a CPU before running, mean.")
            }
            Self::RunQueueTail => {
                entry("run_queue_latency_p99_us", "us", "Wait for a CPU before running, 99 %.")
            }
            Self::BlockMean => entry("block_latency_us", "us", "Request to a disk, mean."),
            Self::BlockTail => entry("block_latency_p99_us", "us", "Request to a disk, 99 %."),
            Self::ContextSwitches => {
                entry("context_switches_sec", "1/s", "How often CPUs changed tasks.")
            }
            Self::CpuPressure => {
                entry("cpu_pressure", RATIO, "Time in which somebody waited for CPU.")
            }
            Self::MemoryPressure => {
                entry("memory_pressure", RATIO, "Time in which somebody waited for memory.")
            }
            Self::IoPressure => {
                entry("io_pressure", RATIO, "Time in which somebody waited for disks.")
            }
            Self::PacketsFreed => {
                entry("packets_dropped_sec", "1/s", "Packets that the kernel threw away.")
            }
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_at_its_place_and_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        for (place, metric) in Metric::ALL.iter().enumerate() {
            assert_eq!(metric.place(), place);
            assert!(metric.about().ends_with('.') && !metric.unit().is_empty());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS);
    }

    /// The order of the document that models of this format are trained on.
    #[test]
    fn features_are_in_the_order_of_their_document() {
        let names: Vec<&str> =
            Metric::ALL.iter().filter(|metric| metric.is_feature()).map(|it| it.name()).collect();
        let document = "cpu_utilization cpu_throttle_rate memory_utilization \
                        memory_bandwidth_gbps l3_cache_miss_rate l3_cache_occupancy_mb \
                        disk_io_wait_ms disk_iops network_rx_packets_sec network_tx_packets_sec \
                        network_drop_rate node_cost_index is_spot_instance \
                        spot_interruption_risk zone_diversity_score";
        assert_eq!(names, document.split_whitespace().collect::<Vec<_>>());
    }
}
