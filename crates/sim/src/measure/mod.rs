//! What a run is judged by, with the names the field uses.
//!
//! Everything is counted as it happens, in constant memory per pod: the length of a run does not
//! matter.

mod pod;
mod reaction;

pub use pod::{MemoryMib, PodTally};

use crate::load::Histogram;

/// The figures of one policy on one scenario, over all its nodes and pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Core-hours of limit; a pod without a limit counts as the whole node.
    pub core_hours: f64,
    /// Core-hours of request, which is what packing pays for.
    pub request_core_hours: f64,
    /// Core-hours really used.
    pub used_core_hours: f64,
    /// The share of the limits that was not used.
    pub slack_ratio: f64,
    /// Throttled periods over periods.
    pub throttled_period_ratio: f64,
    /// The median latency of all requests.
    pub latency_p50_ms: Option<f64>,
    /// The 95th percentile.
    pub latency_p95_ms: Option<f64>,
    /// The 99th percentile.
    pub latency_p99_ms: Option<f64>,
    /// Minutes, summed over services, in which the 99th percentile missed the target.
    pub slo_violation_minutes: f64,
    /// The mean time a run of batch work took.
    pub batch_completion_s: Option<f64>,
    /// Changes of limit or request, per pod and hour.
    pub resizes_per_pod_hour: f64,
    /// The mean time from a step in load to a limit that holds it.
    pub reaction_s: Option<f64>,
    /// Jain's index of what pods got of what they wanted: 1 is the same for all.
    pub jain_index: f64,
    /// Memory over all pods that say what they take; none where no pod does.
    pub memory_mib: Option<MemoryMib>,
}

/// What is added up over the pods of a node, and over nodes. Its size does not depend on either.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    limit_core_hours: f64,
    request_core_hours: f64,
    used_core_hours: f64,
    throttled: f64,
    periods: f64,
    violation_minutes: f64,
    resizes: f64,
    hours: f64,
    completions: Mean,
    reactions: Mean,
    shares: Mean,
    share_squares: f64,
    latencies: Histogram,
    memory_mib: Option<MemoryMib>,
}

/// A mean in the making.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

// === impl Summary ===

impl Summary {
    /// Sums up the pods of one node.
    #[must_use]
    pub fn of(pods: &[PodTally]) -> Self {
        let mut summary = Self::default();
        for pod in pods {
            summary.add_pod(pod);
        }
        summary
    }

    /// Adds another node. Floating point sums depend on the order, so nodes are added in theirs.
    pub fn add(&mut self, other: &Self) {
        self.limit_core_hours += other.limit_core_hours;
        self.request_core_hours += other.request_core_hours;
        self.used_core_hours += other.used_core_hours;
        self.throttled += other.throttled;
        self.periods += other.periods;
        self.violation_minutes += other.violation_minutes;
        self.resizes += other.resizes;
        self.hours += other.hours;
        self.completions.add(other.completions);
        self.reactions.add(other.reactions);
        self.shares.add(other.shares);
        self.share_squares += other.share_squares;
        self.latencies.merge(&other.latencies);
        self.add_memory(other.memory_mib);
    }

    /// The latencies of all requests.
    #[must_use]
    pub const fn latencies(&self) -> &Histogram {
        &self.latencies
    }

    /// The figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let slack_core_hours = self.limit_core_hours - self.used_core_hours;
        Figures {
            core_hours: self.limit_core_hours,
            request_core_hours: self.request_core_hours,
            used_core_hours: self.used_core_hours,
            slack_ratio: ratio(slack_core_hours, self.limit_core_hours),
            throttled_period_ratio: ratio(self.throttled, self.periods),
            latency_p50_ms: self.latencies.quantile_ms(0.50),
            latency_p95_ms: self.latencies.quantile_ms(0.95),
            latency_p99_ms: self.latencies.quantile_ms(0.99),
            slo_violation_minutes: self.violation_minutes,
            batch_completion_s: self.completions.value(),
            resizes_per_pod_hour: ratio(self.resizes, self.hours),
            reaction_s: self.reactions.value(),
            jain_index: self.jain_index(),
            memory_mib: self.memory_mib,
        }
    }

    fn add_pod(&mut self, pod: &PodTally) {
        self.limit_core_hours += pod.limit_core_hours();
        self.request_core_hours += pod.request_core_hours();
        self.used_core_hours += pod.used_core_hours();
        self.throttled += pod.throttled();
        self.periods += pod.periods();
        self.violation_minutes += pod.violation_minutes();
        self.resizes += pod.resizes();
        self.hours += pod.hours();
        self.completions.add_all(pod.completions_s());
        self.reactions.add_all(pod.reactions_s());
        if let Some(share) = pod.served_share() {
            self.shares.add_all(&[share]);
            self.share_squares += share * share;
        }
        self.latencies.merge(pod.latencies());
        self.add_memory(pod.memory_mib());
    }

    fn add_memory(&mut self, memory_mib: Option<MemoryMib>) {
        if let Some(more) = memory_mib {
            let sum = self.memory_mib.get_or_insert_default();
            sum.peak += more.peak;
            sum.mean += more.mean;
        }
    }

    /// `(sum x)^2 / (n * sum x^2)` over the share of its wish that each pod got.
    fn jain_index(&self) -> f64 {
        let squares = self.shares.count * self.share_squares;
        if squares <= 0.0 { 1.0 } else { self.shares.sum * self.shares.sum / squares }
    }
}

// === impl Mean ===

impl Mean {
    fn add_all(&mut self, values: &[f64]) {
        for value in values {
            self.sum += value;
            self.count += 1.0;
        }
    }

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    fn value(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
