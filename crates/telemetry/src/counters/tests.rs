//! What two looks say, told as text: `name=figure`, or the reason why there is none.

use walras_core::units::Moment;

use super::*;
use crate::parse::InterfaceName;

fn at(ms: u64) -> Counters {
    Counters::missing(Moment::from_ms(ms), Unavailable::Absent { what: "test" })
}

fn told(older: Option<&Counters>, newer: &Counters, metric: Metric) -> String {
    match figures(older, newer)[metric.place()] {
        Reading::Measured(value) => format!("{value}"),
        Reading::Unavailable(why) => why.to_string(),
    }
}

fn cpu(cpu: u32, busy: u64, total: u64) -> CpuTimes {
    CpuTimes { cpu, busy, total }
}

#[test]
fn a_first_look_tells_only_what_is_no_rate() {
    let mut first = at(0);
    first.memory = Ok(MemoryUse { used_bytes: 30, total_bytes: 40 });
    first.cache_occupied_bytes = Ok(3 << 20);
    first.cpus = Listed::of(vec![cpu(0, 1, 2)]);
    assert_eq!(told(None, &first, Metric::MemoryUtilization), "0.75");
    assert_eq!(told(None, &first, Metric::CacheOccupancy), "3");
    assert_eq!(told(None, &first, Metric::CpuUtilization), "a rate needs a second look");
    assert_eq!(told(None, &first, Metric::CostIndex), "node_cost_index is not set");
}

#[test]
fn what_is_missing_is_never_zero() {
    let (older, newer) = (at(0), at(1000));
    let measured = figures(Some(&older), &newer).iter().filter(|it| it.value().is_some()).count();
    assert_eq!(measured, 0);
    assert_eq!(told(Some(&older), &newer, Metric::DiskWait), "this kernel has no test");
}

#[test]
fn what_appears_has_been_looked_at_once() {
    let (older, mut newer) = (at(0), at(1000));
    newer.switches = Ok(5);
    let words = "a rate needs a second look";
    assert_eq!(told(Some(&older), &newer, Metric::ContextSwitches), words);
}

#[test]
fn cpus_are_compared_one_by_one() {
    let (mut older, mut newer) = (at(0), at(1000));
    older.cpus = Listed::of(vec![cpu(0, 100, 1000), cpu(2, 0, 500)]);
    newer.cpus = Listed::of(vec![cpu(0, 150, 1100), cpu(1, 9000, 9000), cpu(2, 50, 600)]);
    assert_eq!(told(Some(&older), &newer, Metric::CpuUtilization), "0.5");
    // A CPU that is gone says nothing, and idle time that was taken back is no time.
    newer.cpus = Listed::of(vec![cpu(0, 150, 1100)]);
    assert_eq!(told(Some(&older), &newer, Metric::CpuUtilization), "0.5");
    newer.cpus = Listed::of(vec![cpu(0, 100, 999)]);
    let words = "no time passed between two looks";
    assert_eq!(told(Some(&older), &newer, Metric::CpuUtilization), words);
}

#[test]
fn a_group_on_shared_cpus_is_as_busy_as_it_could_be() {
    let (mut older, mut newer) = (at(0), at(2000));
    let used = |used_us| Some(Ok(GroupCpu { used_us, cpus: 2 }));
    (older.group_cpu, newer.group_cpu) = (used(0), used(1_000_000));
    // The machine's own CPUs do not matter then.
    newer.cpus = Listed::of(vec![cpu(0, 100, 100)]);
    assert_eq!(told(Some(&older), &newer, Metric::CpuUtilization), "0.25");
    older.group_cpu = None;
    let words = "a rate needs a second look";
    assert_eq!(told(Some(&older), &newer, Metric::CpuUtilization), words);
}

#[test]
fn a_new_group_counts_from_its_making_and_a_found_one_from_its_finding() {
    let group = |group, periods, fresh| Throttled { group, periods, fresh };
    let (mut older, mut newer) = (at(0), at(2000));
    older.throttled = Listed::of(vec![group(3, 10, false), group(9, 500, false)]);
    newer.throttled =
        Listed::of(vec![group(3, 16, false), group(5, 4, true), group(7, 900, false)]);
    assert_eq!(told(Some(&older), &newer, Metric::CpuThrottleRate), "5");
    newer.throttled = Listed::of(vec![group(3, 9, false)]);
    let words = "a group was started anew since the last look";
    assert_eq!(told(Some(&older), &newer, Metric::CpuThrottleRate), words);
    newer.throttled = Listed::of(Vec::new());
    assert_eq!(told(Some(&older), &newer, Metric::CpuThrottleRate), "0");
}

#[test]
fn disks_that_come_and_go_leave_the_others_alone() {
    let disk = |minor, operations, time_ms| Disk { device: (8, minor), operations, time_ms };
    let (mut older, mut newer) = (at(0), at(500));
    older.disks = Listed::of(vec![disk(0, 100, 1000), disk(16, 5, 5)]);
    newer.disks = Listed::of(vec![disk(0, 150, 1200), disk(32, 9000, 9000)]);
    assert_eq!(told(Some(&older), &newer, Metric::DiskWait), "4");
    assert_eq!(told(Some(&older), &newer, Metric::DiskOperations), "100");
    // A group's own requests count in the place of the machine's; the wait is the disk's.
    (older.group_operations, newer.group_operations) = (Some(Ok(7)), Some(Ok(12)));
    assert_eq!(told(Some(&older), &newer, Metric::DiskWait), "4");
    assert_eq!(told(Some(&older), &newer, Metric::DiskOperations), "10");
    // An idle disk makes nobody wait.
    newer.disks = Listed::of(vec![disk(0, 100, 1000)]);
    assert_eq!(told(Some(&older), &newer, Metric::DiskWait), "0");
    newer.disks = Listed::of(vec![disk(0, 3, 3)]);
    let words = "a disk was started anew since the last look";
    assert_eq!(told(Some(&older), &newer, Metric::DiskWait), words);
}

#[test]
fn drops_are_a_part_of_all_packets_and_old_counters_wrap() {
    let interface = |received, sent, dropped| Interface {
        name: InterfaceName::new(b"eth0").unwrap(),
        received,
        sent,
        dropped,
    };
    let (mut older, mut newer) = (at(0), at(1000));
    older.interfaces = Listed::of(vec![interface((1 << 32) - 20, 0, 0)]);
    newer.interfaces = Listed::of(vec![interface(40, 36, 4)]);
    assert_eq!(told(Some(&older), &newer, Metric::PacketsReceived), "60");
    assert_eq!(told(Some(&older), &newer, Metric::PacketsSent), "36");
    assert_eq!(told(Some(&older), &newer, Metric::PacketDropRate), "0.04");
}

#[test]
fn hardware_and_waiting_are_rates_too() {
    let (mut older, mut newer) = (at(0), at(2000));
    (older.memory_moved_bytes, newer.memory_moved_bytes) = (Ok(0), Ok(5_000_000_000));
    older.cache = Ok(CacheUse { looks: 100, misses: 10 });
    newer.cache = Ok(CacheUse { looks: 300, misses: 60 });
    older.stalled_us = [Ok(0), Ok(7), Ok(0)];
    newer.stalled_us = [Ok(500_000), Ok(7), Ok(9_000_000)];
    let mut waits = Histogram::default();
    older.run_queue = Ok(waits);
    waits.note(4000);
    waits.note(6000);
    newer.run_queue = Ok(waits);
    for (metric, words) in [
        (Metric::MemoryBandwidth, "2.5"),
        (Metric::CacheMissRate, "0.25"),
        (Metric::CpuPressure, "0.25"),
        (Metric::MemoryPressure, "0"),
        (Metric::IoPressure, "1"),
        (Metric::RunQueueMean, "5"),
    ] {
        assert_eq!(told(Some(&older), &newer, metric), words, "{metric}");
    }
}

#[test]
fn a_gap_and_a_standing_clock_are_told_and_gauges_are_not_bothered() {
    let mut older = at(0);
    older.switches = Ok(1);
    for (ms, words) in [
        (60_001, "the last two looks are too far apart"),
        (0, "no time passed between two looks"),
        (1000, "9"),
    ] {
        let mut newer = at(ms);
        newer.switches = Ok(10);
        newer.memory = Ok(MemoryUse { used_bytes: 1, total_bytes: 2 });
        assert_eq!(told(Some(&older), &newer, Metric::ContextSwitches), words);
        assert_eq!(told(Some(&older), &newer, Metric::MemoryUtilization), "0.5");
    }
}
