//! CFS bandwidth control of one group: a quota per period, throttling, and the burst buffer.
//!
//! At the end of a period the runtime is refilled by the quota; what was left over is lost, or
//! kept up to the burst buffer. A group that runs out is throttled until the next period. Setting
//! another quota refills at once and so ends throttling, as the kernel does.
//!
//! Counters follow the kernel, too, and `tests/kernel` holds them against it: a period counts as
//! throttled if the group is throttled when it ends; one idle period after an active one is
//! counted, since the kernel's timer stops only then; and at least one thread waits for as long as
//! the group is throttled, however little work is left.

use walras_core::units::{Millicores, Span};

use super::{PERIOD_MS, SLICE_MS, Want};

/// What the kernel would tell about a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// CPU time used.
    pub usage_core_ms: f64,
    /// Time throttled, summed over the CPUs the group would have used.
    pub throttled_core_ms: f64,
    /// Periods in which a quota was in force and the group was active, then or in the one before.
    pub nr_periods: u64,
    /// Those of them at whose end it was throttled.
    pub nr_throttled: u64,
    /// Time in which some thread waited for a CPU, whatever the cause.
    pub stalled_ms: f64,
}

/// One group's part in a slice, in core-milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    /// How many threads would run, if each had a core.
    pub(super) threads: f64,
    /// What they would run.
    pub(super) wanted: f64,
    /// What of it the quotas of groups below leave.
    pub(super) runnable: f64,
    /// What of that its own quota leaves.
    pub(super) most: f64,
    /// What it runs.
    pub(super) got: f64,
    /// How long some thread of a group below waits.
    pub(super) stalled_least_ms: f64,
}

/// One group of processes: a pod, or a container in it.
#[derive(Clone, Debug)]
pub struct Group {
    quota_core_ms: Option<f64>,
    burst_core_ms: f64,
    weight: f64,
    left_core_ms: f64,
    active: bool,
    was_active: bool,
    throttled: bool,
    counters: Counters,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            quota_core_ms: None,
            burst_core_ms: 0.0,
            weight: 100.0,
            left_core_ms: f64::INFINITY,
            active: false,
            was_active: false,
            throttled: false,
            counters: Counters::default(),
        }
    }
}

impl Group {
    /// Sets the limit, or lifts it, and the burst buffer that goes with it.
    pub fn set_limit(&mut self, limit: Option<Millicores>, burst: Millicores) {
        let per_period = |limit: Millicores| cores(limit) * f64::from(PERIOD_MS);
        self.quota_core_ms = limit.map(per_period);
        // The kernel refuses a burst above the quota.
        self.burst_core_ms = limit.map_or(0.0, |limit| per_period(burst.min(limit)));
        self.refill();
        self.throttled = false;
    }

    /// Sets the kernel's weight.
    pub fn set_weight(&mut self, weight: u32) {
        self.weight = f64::from(weight);
    }

    /// What the kernel tells about the group.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The kernel's weight.
    pub(super) const fn weight(&self) -> f64 {
        self.weight
    }

    /// What may still be run in this period.
    pub(crate) const fn left_core_ms(&self) -> f64 {
        self.left_core_ms
    }

    /// The period is over: it is counted, and the quota is refilled for the next one.
    pub(super) fn period_ended(&mut self) {
        if self.quota_core_ms.is_some() && (self.active || self.was_active) {
            self.counters.nr_periods += 1;
            self.counters.nr_throttled += u64::from(self.throttled);
        }
        self.was_active = self.active;
        self.active = false;
        self.throttled = false;
        self.refill();
    }

    /// Takes account of a slice, and says how long some thread waited in it.
    pub(super) fn ran(&mut self, part: &Part) -> f64 {
        let slice_ms = f64::from(SLICE_MS);
        if part.wanted <= 0.0 {
            return 0.0;
        }
        // A group all of whose children are throttled is idle, as the kernel sees it.
        self.active |= part.runnable > 0.0;
        self.counters.usage_core_ms += part.got;
        self.left_core_ms -= part.got;
        let cut_by_quota = part.runnable - part.most;
        if cut_by_quota > 1e-9 && self.left_core_ms <= 1e-9 {
            self.throttled = true;
            let waiting = part.runnable.max(part.threads.min(1.0) * slice_ms);
            self.counters.throttled_core_ms += waiting - part.got;
        }
        // With several threads it is enough that one of them waits.
        let missing = 1.0 - part.got / part.wanted;
        let stalled_ms = slice_ms * (missing * part.threads.max(1.0)).min(1.0);
        let stalled_ms = stalled_ms.max(part.stalled_least_ms);
        self.counters.stalled_ms += stalled_ms;
        stalled_ms
    }

    /// What it was given in a slice and could not use is not counted, nor taken from its quota.
    pub(super) fn gave_back(&mut self, unused_core_ms: f64) {
        self.counters.usage_core_ms -= unused_core_ms;
        // The period may have ended since, and what was left over then is not kept beyond the
        // buffer.
        self.left_core_ms = (self.left_core_ms + unused_core_ms).min(self.most_core_ms());
    }

    /// The most that can be there to run in a period.
    fn most_core_ms(&self) -> f64 {
        self.quota_core_ms.map_or(f64::INFINITY, |quota| quota + self.burst_core_ms)
    }

    fn refill(&mut self) {
        let refilled = self.left_core_ms + self.quota_core_ms.unwrap_or(f64::INFINITY);
        self.left_core_ms = refilled.min(self.most_core_ms());
    }
}

// === impl Part ===

impl Part {
    /// What a group without others below it wants of a slice: no more than one core per thread, nor
    /// more than it has.
    pub(super) fn of(want: &Want, cores: f64) -> Self {
        let threads = want.threads.min(cores);
        let wanted = want.work_core_ms.min(threads * f64::from(SLICE_MS));
        Self { threads, wanted, runnable: wanted, ..Self::default() }
    }
}

/// Millicores as cores.
#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 millicores")]
fn cores(amount: Millicores) -> f64 {
    amount.get() as f64 / 1000.0
}

impl Counters {
    /// CPU time used, as the kernel counts it.
    #[must_use]
    pub fn usage(&self) -> Span {
        microseconds(self.usage_core_ms)
    }

    /// Time throttled, as the kernel counts it.
    #[must_use]
    pub fn throttled(&self) -> Span {
        microseconds(self.throttled_core_ms)
    }

    /// Time in which some thread waited, as the kernel counts it.
    #[must_use]
    pub fn stalled(&self) -> Span {
        microseconds(self.stalled_ms)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
pub(super) fn microseconds(ms: f64) -> Span {
    Span::from_us((ms * 1000.0) as u64)
}
