//! CFS bandwidth control of one group: a quota per period, throttling, and the burst buffer.
//!
//! At the start of a period the runtime is refilled by the quota; what was left over is lost, or
//! kept up to the burst buffer. A group that runs out is throttled until the next period. Setting
//! another quota refills at once and so ends throttling, as the kernel does.

use walras_core::units::{Millicores, Span};

use super::share::Share;
use super::{PERIOD_MS, SLICE_MS, Want};

/// What the kernel would tell about a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// CPU time used.
    pub usage_core_ms: f64,
    /// Time throttled, summed over the CPUs the group would have used.
    pub throttled_core_ms: f64,
    /// Periods in which a quota was in force and the group was active.
    pub nr_periods: u64,
    /// Those of them in which it was throttled.
    pub nr_throttled: u64,
    /// Time in which some thread waited for a CPU, whatever the cause.
    pub stalled_ms: f64,
}

/// One group of processes: a pod.
#[derive(Clone, Debug)]
pub struct Group {
    quota_core_ms: Option<f64>,
    burst_core_ms: f64,
    weight: f64,
    left_core_ms: f64,
    active: bool,
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
    pub(super) const fn left_core_ms(&self) -> f64 {
        self.left_core_ms
    }

    /// A new period: the quota is refilled, and the old period is counted if it was used.
    pub(super) fn period_begins(&mut self) {
        if self.quota_core_ms.is_some() && self.active {
            self.counters.nr_periods += 1;
            self.counters.nr_throttled += u64::from(self.throttled);
        }
        self.active = false;
        self.throttled = false;
        self.refill();
    }

    /// Takes account of a slice in which the group got `share` and wanted `want`.
    pub(super) fn ran(&mut self, share: &Share, want: &Want, cores: f64) {
        let slice_ms = f64::from(SLICE_MS);
        let threads = want.threads.min(cores);
        let wanted = want.work_core_ms.min(threads * slice_ms);
        if wanted <= 0.0 {
            return;
        }
        self.active = true;
        self.counters.usage_core_ms += share.got;
        self.left_core_ms -= share.got;
        let cut_by_quota = (wanted - share.most).max(0.0);
        if cut_by_quota > 1e-9 && self.left_core_ms <= 1e-9 {
            self.throttled = true;
            self.counters.throttled_core_ms += cut_by_quota;
        }
        // With several threads it is enough that one of them waits.
        let missing = 1.0 - share.got / wanted;
        self.counters.stalled_ms += slice_ms * (missing * threads.max(1.0)).min(1.0);
    }

    /// What it was given in a slice and could not use is not counted, nor taken from its quota.
    pub(super) fn gave_back(&mut self, unused_core_ms: f64) {
        self.counters.usage_core_ms -= unused_core_ms;
        self.left_core_ms += unused_core_ms;
    }

    fn refill(&mut self) {
        self.left_core_ms = match self.quota_core_ms {
            Some(quota) if self.left_core_ms.is_finite() => {
                (self.left_core_ms + quota).min(quota + self.burst_core_ms)
            }
            Some(quota) => quota,
            None => f64::INFINITY,
        };
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
fn microseconds(ms: f64) -> Span {
    Span::from_us((ms * 1000.0) as u64)
}
