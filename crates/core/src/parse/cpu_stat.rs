//! `cpu.stat` of both cgroup versions, and `cpuacct.usage` of the first.
//!
//! Both versions give the same [`CpuStat`], so that no code after the reader has to know which one
//! a node runs. The second version leaves out the throttling keys where the cpu controller is not
//! enabled: the three of them are one group, there as a whole or not at all.

use super::error::ParseError;
use super::field::{Field, find, lines, only_value};
use crate::units::Span;

/// The CPU a cgroup has used since it was made, and how often its quota held it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuStat {
    /// CPU time used.
    pub usage: Span,
    /// The part of it spent in user space; only the second version tells.
    pub user: Option<Span>,
    /// The part of it spent in the kernel; only the second version tells.
    pub system: Option<Span>,
    /// What the quota did; nothing where the cpu controller is not enabled.
    pub bandwidth: Option<Bandwidth>,
    /// What the burst allowance did; nothing on kernels that have none.
    pub bursts: Option<Bursts>,
}

/// What a CPU quota did to a cgroup since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Enforcement periods in which the cgroup was runnable.
    pub nr_periods: u64,
    /// Those of them in which it was throttled.
    pub nr_throttled: u64,
    /// The time its run queues spent throttled, added up over CPUs.
    pub throttled: Span,
}

/// What the burst allowance of a CPU quota did since the cgroup was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Periods in which the cgroup ran beyond its quota.
    pub nr_bursts: u64,
    /// CPU time used beyond the quota in those periods.
    pub burst: Span,
}

/// What one file counts time in.
#[derive(Clone, Copy, Debug)]
enum TimeUnit {
    Microseconds,
    Nanoseconds,
}

/// `cpu.stat` of a cgroup of the second version.
///
/// # Errors
///
/// Where `usage_usec` is missing, where the throttling or the burst keys are there in part, or
/// where one of the values is no number.
pub fn cpu_stat_v2(text: &[u8]) -> Result<CpuStat, ParseError> {
    let keys = [
        "usage_usec",
        "user_usec",
        "system_usec",
        "nr_periods",
        "nr_throttled",
        "throttled_usec",
        "nr_bursts",
        "burst_usec",
    ];
    let [usage, user, system, periods, throttled, throttled_time, bursts, burst_time] =
        find("cpu.stat", keys, lines(text));
    let group = [periods, throttled, throttled_time];
    let has_bandwidth = group.iter().any(|field| field.text.is_some());
    Ok(CpuStat {
        usage: Span::from_us(usage.number()?),
        user: user.number_if_there()?.map(Span::from_us),
        system: system.number_if_there()?.map(Span::from_us),
        bandwidth: has_bandwidth.then(|| bandwidth(group, TimeUnit::Microseconds)).transpose()?,
        bursts: bursts_if_there([bursts, burst_time], TimeUnit::Microseconds)?,
    })
}

/// `cpuacct.usage` and `cpu.stat` of a cgroup of the first version, which count nanoseconds; they
/// are rounded down to microseconds.
///
/// # Errors
///
/// Where the usage or one of the throttling keys is missing, where the burst keys are there in
/// part, or where one of the values is no number.
pub fn cpu_stat_v1(cpuacct_usage: &[u8], cpu_stat: &[u8]) -> Result<CpuStat, ParseError> {
    let keys = ["nr_periods", "nr_throttled", "throttled_time", "nr_bursts", "burst_time"];
    let usage = only_value("cpuacct.usage", cpuacct_usage).number()?;
    let [periods, throttled, throttled_time, bursts, burst_time] =
        find("cpu.stat", keys, lines(cpu_stat));
    let group = [periods, throttled, throttled_time];
    Ok(CpuStat {
        usage: TimeUnit::Nanoseconds.span_floor(usage),
        user: None,
        system: None,
        bandwidth: Some(bandwidth(group, TimeUnit::Nanoseconds)?),
        bursts: bursts_if_there([bursts, burst_time], TimeUnit::Nanoseconds)?,
    })
}

fn bandwidth(group: [Field<'_>; 3], unit: TimeUnit) -> Result<Bandwidth, ParseError> {
    let [periods, throttled, time] = group;
    Ok(Bandwidth {
        nr_periods: periods.number()?,
        nr_throttled: throttled.number()?,
        throttled: unit.span_floor(time.number()?),
    })
}

fn bursts_if_there(group: [Field<'_>; 2], unit: TimeUnit) -> Result<Option<Bursts>, ParseError> {
    let [count, time] = group;
    if count.text.is_none() && time.text.is_none() {
        return Ok(None);
    }
    Ok(Some(Bursts { nr_bursts: count.number()?, burst: unit.span_floor(time.number()?) }))
}

// === impl TimeUnit ===

impl TimeUnit {
    /// `count` of this unit, in whole microseconds.
    const fn span_floor(self, count: u64) -> Span {
        match self {
            Self::Microseconds => Span::from_us(count),
            Self::Nanoseconds => Span::from_us(count / 1000),
        }
    }
}
