//! What is counted of one pod.

use super::reaction::Reaction;
use crate::load::{Histogram, Load};
use crate::machine::{Counters, PERIOD_MS};
use crate::policy::Setting;

/// The memory of one pod, or of several, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryMib {
    /// The most that each had in use, whenever that was.
    pub peak: f64,
    /// What each had in use on average while it ran.
    pub mean: f64,
}

/// The running count of one pod.
#[derive(Clone, Debug)]
pub struct PodTally {
    name: String,
    node_cores: f64,
    /// The latency target of a service.
    slo_ms: Option<f64>,
    limit_core_ms: f64,
    request_core_ms: f64,
    lived_ms: f64,
    resizes: u32,
    counters: Counters,
    offered_core_ms: f64,
    minute: Histogram,
    latencies: Histogram,
    violation_minutes: u32,
    missed_last_minute: bool,
    completions_s: Vec<f64>,
    reaction: Reaction,
    memory_peak_mib: f64,
    memory_sum_mib: f64,
    memory_seen: f64,
}

impl PodTally {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(name: &str, node_cores: f64, slo_ms: Option<f64>) -> Self {
        Self {
            name: name.to_owned(),
            node_cores,
            slo_ms,
            limit_core_ms: 0.0,
            request_core_ms: 0.0,
            lived_ms: 0.0,
            resizes: 0,
            counters: Counters::default(),
            offered_core_ms: 0.0,
            minute: Histogram::default(),
            latencies: Histogram::default(),
            violation_minutes: 0,
            missed_last_minute: false,
            completions_s: Vec::new(),
            reaction: Reaction::default(),
            memory_peak_mib: 0.0,
            memory_sum_mib: 0.0,
            memory_seen: 0.0,
        }
    }

    /// Where latencies of the current minute are counted.
    pub fn minute_mut(&mut self) -> &mut Histogram {
        &mut self.minute
    }

    /// A period passed under this setting.
    pub fn period_passed(&mut self, setting: &Setting) {
        let period_ms = f64::from(PERIOD_MS);
        self.lived_ms += period_ms;
        self.limit_core_ms += self.limit_cores(setting) * period_ms;
        self.request_core_ms += cores(setting.request.get()) * period_ms;
    }

    /// So much memory was in use at the end of a period.
    pub fn memory_seen(&mut self, in_use_mib: f64) {
        self.memory_peak_mib = self.memory_peak_mib.max(in_use_mib);
        self.memory_sum_mib += in_use_mib;
        self.memory_seen += 1.0;
    }

    /// A second passed in which this much was offered.
    pub fn second_passed(&mut self, offered_cores: f64, setting: &Setting) {
        let limit_cores = self.limit_cores(setting);
        self.reaction.second_passed(offered_cores.min(self.node_cores), limit_cores);
    }

    /// A minute passed: was the target met?
    pub fn minute_passed(&mut self) {
        let p99_ms = self.minute.quantile_ms(0.99);
        self.missed_last_minute = match (p99_ms, self.slo_ms) {
            (Some(p99_ms), Some(slo_ms)) => p99_ms > slo_ms,
            (None, _) | (_, None) => false,
        };
        self.violation_minutes += u32::from(self.missed_last_minute);
        self.latencies.merge(&self.minute);
        self.minute.clear();
    }

    /// A minute passed in which a service that was asked answered nobody: that is a miss, too.
    pub fn minute_passed_without_answer(&mut self) {
        self.missed_last_minute = self.slo_ms.is_some();
        self.violation_minutes += u32::from(self.missed_last_minute);
    }

    /// The limit or the request was changed.
    pub fn resized(&mut self) {
        self.resizes += 1;
    }

    /// The run is over, or the pod is.
    pub fn ended(&mut self, counters: &Counters, load: &Load) {
        self.counters = *counters;
        self.offered_core_ms = load.offered_core_ms();
        self.completions_s = load.completions_ms().iter().map(|ms| ms / 1000.0).collect();
        self.latencies.merge(&self.minute);
        self.minute.clear();
        self.reaction.ended();
    }

    fn limit_cores(&self, setting: &Setting) -> f64 {
        setting.limit.map_or(self.node_cores, |limit| cores(limit.get()))
    }
}

// === What is read from it ===

impl PodTally {
    /// The pod.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its latency target.
    #[must_use]
    pub const fn slo_ms(&self) -> Option<f64> {
        self.slo_ms
    }

    /// Whether it missed its target in the last full minute.
    #[must_use]
    pub const fn missed_last_minute(&self) -> bool {
        self.missed_last_minute
    }

    /// Whether requests were answered in the current minute.
    #[must_use]
    pub const fn answered(&self) -> bool {
        self.minute.total() > 0
    }

    /// All latencies.
    #[must_use]
    pub const fn latencies(&self) -> &Histogram {
        &self.latencies
    }

    /// Core-hours of limit.
    #[must_use]
    pub fn limit_core_hours(&self) -> f64 {
        self.limit_core_ms / MS_PER_HOUR
    }

    /// Core-hours of request.
    #[must_use]
    pub fn request_core_hours(&self) -> f64 {
        self.request_core_ms / MS_PER_HOUR
    }

    /// Core-hours used.
    #[must_use]
    pub fn used_core_hours(&self) -> f64 {
        self.counters.usage_core_ms / MS_PER_HOUR
    }

    /// Throttled periods.
    #[must_use]
    pub fn throttled(&self) -> f64 {
        count(self.counters.nr_throttled)
    }

    /// Periods.
    #[must_use]
    pub fn periods(&self) -> f64 {
        count(self.counters.nr_periods)
    }

    /// Minutes in which the target was missed.
    #[must_use]
    pub fn violation_minutes(&self) -> f64 {
        f64::from(self.violation_minutes)
    }

    /// Changes of limit or request.
    #[must_use]
    pub fn resizes(&self) -> f64 {
        f64::from(self.resizes)
    }

    /// How long it lived.
    #[must_use]
    pub fn hours(&self) -> f64 {
        self.lived_ms / MS_PER_HOUR
    }

    /// How long each run of batch work took.
    #[must_use]
    pub fn completions_s(&self) -> &[f64] {
        &self.completions_s
    }

    /// How long each step in load waited for a limit that holds it.
    #[must_use]
    pub fn reactions_s(&self) -> &[f64] {
        self.reaction.times_s()
    }

    /// The most memory it had in use, and the mean; none where it says nothing about memory.
    #[must_use]
    pub fn memory_mib(&self) -> Option<MemoryMib> {
        let mean = self.memory_sum_mib / self.memory_seen;
        (self.memory_seen > 0.0).then_some(MemoryMib { peak: self.memory_peak_mib, mean })
    }

    /// What it got of what it wanted; none where it wanted nothing.
    #[must_use]
    pub fn served_share(&self) -> Option<f64> {
        let wanted = self.offered_core_ms;
        (wanted > 0.0).then(|| (self.counters.usage_core_ms / wanted).min(1.0))
    }
}

const MS_PER_HOUR: f64 = 3_600_000.0;

#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 millicores")]
fn cores(milli: u64) -> f64 {
    milli as f64 / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 periods")]
fn count(number: u64) -> f64 {
    number as f64
}
