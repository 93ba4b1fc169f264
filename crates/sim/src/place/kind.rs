//! What pods spend their time on, and what they take of a node for it.
//!
//! The six kinds are the workloads of the benchmark `interference` of `crates/telemetry`. What one
//! takes per core is a guess, except where [`super::interference`] says that it was fitted.

use walras_brain::features::Workload;

/// What a pod spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Arithmetic.
    Cpu,
    /// Data that fit into the last cache.
    Cache,
    /// Data that stream through memory.
    Memory,
    /// Small writes that are waited for.
    Disk,
    /// Messages.
    Network,
    /// Requests that somebody waits for; its slowdown is that of the 99th percentile.
    Latency,
}

/// What is taken of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// CPU.
    pub cores: f64,
    /// Memory bandwidth, in GB/s.
    pub bandwidth_gbps: f64,
    /// The last cache.
    pub cache_mib: f64,
    /// Operations of the disk per second.
    pub iops: f64,
    /// Packets per second, in both directions.
    pub packets: f64,
}

/// The shares of a piece of work's time, if it is alone. Together they are 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Running.
    pub cpu: f64,
    /// Waiting for the last cache.
    pub cache: f64,
    /// Waiting for memory.
    pub bandwidth: f64,
    /// Waiting for the disk.
    pub disk: f64,
    /// Waiting for the network.
    pub network: f64,
}

impl Kind {
    /// All of them, in the order of the benchmark.
    pub const ALL: [Self; 6] =
        [Self::Cpu, Self::Cache, Self::Memory, Self::Disk, Self::Network, Self::Latency];

    /// Its name in the benchmark.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cache => "cache",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Latency => "latency",
        }
    }

    /// What it takes for each core that it uses.
    #[must_use]
    pub const fn appetite(self) -> Use {
        let (bandwidth_gbps, cache_mib, iops, packets) = match self {
            Self::Cpu => (0.1, 0.25, 2.0, 200.0),
            Self::Cache => (0.8, 8.0, 2.0, 200.0),
            // The cache is fitted: a stream takes more of it than it has any use for.
            Self::Memory => (10.0, super::interference::STREAM_CACHE_MIB, 2.0, 200.0),
            Self::Disk => (0.8, 0.5, 4000.0, 200.0),
            Self::Network => (1.5, 1.0, 2.0, 150_000.0),
            Self::Latency => (0.6, 1.5, 10.0, 15_000.0),
        };
        Use { cores: 1.0, bandwidth_gbps, cache_mib, iops, packets }
    }

    /// What it waits for.
    #[must_use]
    pub const fn times(self) -> Times {
        let (cache, bandwidth, disk, network) = match self {
            Self::Cpu => (0.0, 0.0, 0.0, 0.0),
            Self::Cache => (0.7, 0.0, 0.0, 0.0),
            Self::Memory => (0.0, 0.75, 0.0, 0.0),
            Self::Disk => (0.0, 0.0, 0.9, 0.0),
            Self::Network => (0.0, 0.0, 0.0, 0.5),
            Self::Latency => (0.1, 0.1, 0.0, 0.1),
        };
        Times { cpu: 1.0 - cache - bandwidth - disk - network, cache, bandwidth, disk, network }
    }

    /// What its owner would call it: the models' format has no word for messages, and none for
    /// requests that somebody waits for.
    #[must_use]
    pub const fn workload(self) -> Workload {
        match self {
            Self::Cpu => Workload::CpuBound,
            Self::Cache | Self::Memory => Workload::MemoryBound,
            Self::Disk => Workload::IoBound,
            Self::Network => Workload::Unknown,
            Self::Latency => Workload::Balanced,
        }
    }
}

impl Use {
    /// Nothing.
    pub const NOTHING: Self =
        Self { cores: 0.0, bandwidth_gbps: 0.0, cache_mib: 0.0, iops: 0.0, packets: 0.0 };

    /// So many times it.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            cores: self.cores * factor,
            bandwidth_gbps: self.bandwidth_gbps * factor,
            cache_mib: self.cache_mib * factor,
            iops: self.iops * factor,
            packets: self.packets * factor,
        }
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            cores: self.cores + other.cores,
            bandwidth_gbps: self.bandwidth_gbps + other.bandwidth_gbps,
            cache_mib: self.cache_mib + other.cache_mib,
            iops: self.iops + other.iops,
            packets: self.packets + other.packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_work_is_always_somewhere() {
        for kind in Kind::ALL {
            let Times { cpu, cache, bandwidth, disk, network } = kind.times();
            assert!((cpu + cache + bandwidth + disk + network - 1.0).abs() < 1e-12, "{kind:?}");
            assert!(cpu > 0.0, "{kind:?} uses CPU");
        }
    }
}
