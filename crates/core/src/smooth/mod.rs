//! From what the market would like to what is worth changing: damping, bands, holds and sums.
//!
//! [`damp`] decides for one value of one workload: smooth it, round it, leave it alone inside its
//! band, hold a shrink back until it has been wanted for long enough. [`fit`] then makes the values
//! of all workloads add up. [`weight`] says what the kernel's weight becomes.
//!
//! Always: a value inside its band does not move, unless it is a request below the workload's min;
//! a damped raise exceeds the band and a damped shrink exceeds its own; no step of a limit is
//! larger than the controller would accept.

pub mod fit;
pub mod weight;

use crate::profile::Profile;
use crate::units::{Millicores, Moment, Ratio};

/// Growth is counted from at least this much, so that a tiny workload is not stuck.
const STEP_BASE: Millicores = Millicores::new(100);

/// What damping remembers about one value of one workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    smoothed: Option<Millicores>,
    too_large_since: Option<Moment>,
}

/// What the market would like one value of a workload to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A limit: rounded up, since it must not cut into what is needed, and stepped.
    Limit {
        /// The value.
        amount: Millicores,
        /// It is not rounded beyond this.
        most: Millicores,
    },
    /// A request: rounded down, since of guarantees there is only so much.
    Request {
        /// The value.
        amount: Millicores,
        /// It is not rounded below this.
        least: Millicores,
    },
}

/// What holds for one workload at one slow tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards {
    /// Until then the workload is starting up and is not shrunk.
    pub grace_until: Moment,
    /// Until then the workload was changed too recently to be changed again.
    pub cooldown_until: Moment,
}

/// What becomes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays: the wish is inside the band.
    Keep,
    /// It stays until then, when a change is due if it is still wanted.
    Hold(Moment),
    /// It becomes this.
    Change(Millicores),
}

/// Decides what becomes of a value that is `in_force` when the market wishes for `wish`.
pub fn damp(
    profile: &Profile,
    track: &mut Track,
    in_force: Millicores,
    wish: Wish,
    guards: &Guards,
    now: Moment,
) -> Verdict {
    let target = match wish {
        Wish::Limit { amount, most } => {
            let smoothed = track.smooth(profile, in_force, amount);
            limit_step(profile, in_force, round_up_within(smoothed, most, profile))
        }
        Wish::Request { amount, least } => {
            let rounded =
                round_down_keeping(track.smooth(profile, in_force, amount), least, profile);
            if wish.is_due(in_force) {
                rounded.max(least)
            } else if round_down_keeping(amount, least, profile) >= in_force {
                // Rounding must not turn a rise into a fall.
                rounded.max(in_force)
            } else {
                rounded
            }
        }
    };
    if wish.is_due(in_force) || exceeds(target, in_force, profile.raise_band) {
        track.too_large_since = None;
        return if now < guards.cooldown_until {
            Verdict::Hold(guards.cooldown_until)
        } else {
            Verdict::Change(target)
        };
    }
    if !falls_below(target, in_force, profile.shrink_band) {
        track.too_large_since = None;
        return Verdict::Keep;
    }
    let since = *track.too_large_since.get_or_insert(now);
    let due = (since + profile.shrink_hold_ms).max(guards.grace_until).max(guards.cooldown_until);
    if now < due {
        return Verdict::Hold(due);
    }
    // The smaller value has not been too large for any time yet.
    track.too_large_since = None;
    Verdict::Change(target)
}

/// Whether `target` is above `in_force` by more than the band.
#[must_use]
pub fn exceeds(target: Millicores, in_force: Millicores, band: Ratio) -> bool {
    target > in_force + in_force.scale_floor(band)
}

/// Whether `target` is below `in_force` by more than the band.
#[must_use]
pub fn falls_below(target: Millicores, in_force: Millicores, band: Ratio) -> bool {
    target < in_force.saturating_sub(in_force.scale_floor(band))
}

/// Up to what the kernel can hold, but not above `most`.
fn round_up_within(value: Millicores, most: Millicores, profile: &Profile) -> Millicores {
    value.round_up_to(profile.rounding_milli).min(most.max(value))
}

/// Down to what the kernel can hold, but not below `least`, nor above `value`.
fn round_down_keeping(value: Millicores, least: Millicores, profile: &Profile) -> Millicores {
    value.round_down_to(profile.rounding_milli).max(least.min(value))
}

/// Keeps a step of a limit within what the controller accepts.
#[must_use]
pub fn limit_step(profile: &Profile, in_force: Millicores, target: Millicores) -> Millicores {
    let by_factor = in_force.max(STEP_BASE).scale_floor(profile.max_step_factor);
    let highest = by_factor.min(in_force + profile.max_step_milli);
    let lowest = in_force.saturating_sub(profile.max_step_milli);
    target.min(highest).max(lowest)
}

// === impl Wish ===

impl Wish {
    /// Whether a request stands below what the workload has a right to, and may have it: neither
    /// bands nor smoothing keep it from that.
    fn is_due(&self, in_force: Millicores) -> bool {
        match *self {
            Self::Request { amount, least } => in_force < least && amount >= least,
            Self::Limit { .. } => false,
        }
    }
}

// === impl Track ===

impl Track {
    /// The value was set by something other than damping: start from there.
    pub fn was_set(&mut self, value: Millicores) {
        *self = Self { smoothed: Some(value), too_large_since: None };
    }

    /// Moves the smoothed value towards `wish` by a share of the distance, at least by one.
    fn smooth(&mut self, profile: &Profile, in_force: Millicores, wish: Millicores) -> Millicores {
        let last = self.smoothed.unwrap_or(in_force);
        let smoothed = if wish >= last {
            last + wish.saturating_sub(last).scale_ceil(profile.alpha_up)
        } else {
            last.saturating_sub(last.saturating_sub(wish).scale_ceil(profile.alpha_down))
        };
        // A value that is held or kept must not drift past the wish, or it would be shrunk after
        // the wish has recovered.
        let smoothed = smoothed.clamp(wish.min(in_force), wish.max(in_force));
        self.smoothed = Some(smoothed);
        smoothed
    }
}
