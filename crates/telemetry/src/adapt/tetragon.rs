//! Tetragon's metrics: what policies of a cluster count in the kernel of a node.
//!
//! Counters become rates like any other. Latency is a histogram, of which the sum and the count
//! move; occupancy is a figure of the moment, in bytes. Tetragon says nothing about CPU and memory
//! in use, and nothing about how many looks into the cache there were, so a number of misses alone
//! is no rate of misses.

use walras_core::units::Moment;

use super::exposition::Sample;
use super::{count_of, sum_of, whole};
use crate::counters::{CacheUse, Counters, Listed, Throttled};
use crate::parse::{Disk, Interface, InterfaceName};
use crate::reading::{Seen, Unavailable};

const OPERATIONS: &str = "tetragon_io_operations_total";
const LATENCY_SUM: &str = "tetragon_io_latency_seconds_sum";
const DROPS: &str = "tetragon_network_drops_total";
const RECEIVED: &str = "tetragon_network_rx_packets_total";
const SENT: &str = "tetragon_network_tx_packets_total";

/// The counters in a text of Tetragon's, read at `at`.
#[must_use]
pub fn tetragon(samples: &[Sample<'_>], at: Moment) -> Counters {
    let all = |name| count_of(samples, name, |_| true);
    let mut counters = Counters::missing(at, Unavailable::NotReported { what: "it" });
    counters.throttled = match all("tetragon_cgroup_throttle_events_total") {
        Ok(periods) => Listed::of(vec![Throttled { group: 0, periods, fresh: false }]),
        Err(why) => Listed::missing(why),
    };
    counters.memory_moved_bytes = all("tetragon_perf_event_memory_bandwidth");
    counters.cache_occupied_bytes = all("tetragon_perf_event_llc_occupancy");
    counters.cache = cache(samples);
    counters.disks = listed(disk(samples));
    counters.interfaces = listed(interface(samples));
    counters
}

fn listed<T>(one: Seen<T>) -> Listed<T> {
    one.map_or_else(Listed::missing, |one| Listed::of(vec![one]))
}

fn cache(samples: &[Sample<'_>]) -> Seen<CacheUse> {
    let misses = count_of(samples, "tetragon_perf_event_cache_misses", |_| true)?;
    let looks = count_of(samples, "tetragon_perf_event_cache_references", |_| true)?;
    Ok(CacheUse { looks, misses })
}

fn disk(samples: &[Sample<'_>]) -> Seen<Disk> {
    let operations = count_of(samples, OPERATIONS, |_| true)?;
    let seconds = sum_of(samples, LATENCY_SUM, |_| true)?;
    let time_ms = whole((seconds * 1000.0).floor());
    let time_ms = time_ms.ok_or(Unavailable::Unreadable { what: LATENCY_SUM })?;
    Ok(Disk { device: (0, 0), operations, time_ms })
}

fn interface(samples: &[Sample<'_>]) -> Seen<Interface> {
    let name = InterfaceName::new(b"").ok_or(Unavailable::Unreadable { what: RECEIVED })?;
    let count = |name| count_of(samples, name, |_| true);
    Ok(Interface { name, received: count(RECEIVED)?, sent: count(SENT)?, dropped: count(DROPS)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::{samples, snapshot};
    use crate::metric::Metric;
    use crate::snapshot::{Snapshot, Source};

    fn between(older: &str, newer: &str) -> Snapshot {
        let read = |text, ms| tetragon(&samples(text).0, Moment::from_ms(ms));
        let (older, newer) = (read(older, 0), read(newer, 2_000));
        snapshot("a", 0, Source::Tetragon, Some(&older), &newer)
    }

    #[test]
    fn counters_become_rates_and_units_are_ours() {
        let older = "tetragon_cgroup_throttle_events_total{pod=\"a\"} 5\n\
            tetragon_cgroup_throttle_events_total{pod=\"b\"} 5\n\
            tetragon_perf_event_memory_bandwidth 0\n\
            tetragon_io_operations_total 100\ntetragon_io_latency_seconds_sum 1\n\
            tetragon_io_latency_seconds_count 100\n\
            tetragon_network_rx_packets_total 0\ntetragon_network_tx_packets_total 0\n\
            tetragon_network_drops_total 0\n";
        let newer = "tetragon_cgroup_throttle_events_total{pod=\"a\"} 25\n\
            tetragon_cgroup_throttle_events_total{pod=\"b\"} 5\n\
            tetragon_perf_event_memory_bandwidth 6e9\n\
            tetragon_perf_event_llc_occupancy 4194304\n\
            tetragon_perf_event_cache_misses 77\n\
            tetragon_io_operations_total 150\ntetragon_io_latency_seconds_sum 1.1\n\
            tetragon_network_rx_packets_total 18\ntetragon_network_tx_packets_total 0\n\
            tetragon_network_drops_total 2\n";
        let snapshot = between(older, newer);
        for (metric, expected) in [
            (Metric::CpuThrottleRate, 10.0),
            (Metric::MemoryBandwidth, 3.0),
            (Metric::CacheOccupancy, 4.0),
            (Metric::DiskOperations, 25.0),
            (Metric::DiskWait, 2.0),
            (Metric::PacketsReceived, 9.0),
            (Metric::PacketDropRate, 0.1),
        ] {
            let value = snapshot.value(metric).unwrap_or(f64::NAN);
            assert!((value - expected).abs() < 1e-9, "{metric}: {value}");
        }
        // Misses without looks are no rate, and CPU is not in there.
        for metric in [Metric::CacheMissRate, Metric::CpuUtilization, Metric::MemoryUtilization] {
            assert_eq!(snapshot.value(metric), None, "{metric}");
        }
    }

    #[test]
    fn an_agent_that_was_restarted_is_no_negative_rate() {
        let text = |count| format!("tetragon_cgroup_throttle_events_total {count}\n");
        let snapshot = between(&text(1000), &text(3));
        assert_eq!(snapshot.value(Metric::CpuThrottleRate), None);
    }
}
