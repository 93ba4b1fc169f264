//! The fast loop's step: raise the limit of a throttled workload at once, before the market is
//! asked.
//!
//! It only raises, and only the limit, since a resize that does not raise requests is never put
//! off. It waits for a raise to take effect before the next one, and what it gave decays back into
//! the market's answer. The burst buffer that goes with a quota is decided here as well.

use crate::demand::Signal;
use crate::market::Mode;
use crate::profile::{BoostRule, Profile};
use crate::units::{Millicores, Moment, Ratio, Span};

/// What the fast loop knows about one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastFacts {
    /// The limit in force.
    pub limit: Millicores,
    /// The workload's ceiling.
    pub max: Millicores,
    /// The most it used lately; bursts tend to be as large as the last ones.
    pub peak: Millicores,
    /// What the workload did since the last fast look.
    pub signal: Signal,
    /// How many throttled periods in a row there were, over the ends of looks.
    pub throttled_in_a_row: u64,
    /// Whether the workload misses its latency target.
    pub latency_missed: bool,
}

/// What the fast loop wants for one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the workload is not held back.
    Calm,
    /// A larger limit, because the workload is throttled.
    Throttled(Millicores),
    /// A larger limit, because the workload misses its latency target and CPU may be what it lacks.
    Late(Millicores),
    /// It is held back, but already has all it may have.
    AtMax,
    /// It misses its latency target, but uses too little of its limit for CPU to be the cause.
    LateElsewhere,
}

/// A workload that uses less than this of its limit, and is not throttled, does not lack CPU.
const BUSY: Ratio = Ratio::from_percent(50);

/// A raise that has not been taken back yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boost {
    target: Millicores,
    raised_at: Moment,
    settles_at: Moment,
}

/// The limit the fast loop would set, before anyone asks whether there is room.
#[must_use]
pub fn step(profile: &Profile, facts: &FastFacts) -> Step {
    let throttled = is_throttled(profile, facts);
    let busy =
        facts.signal.throttled_periods > 0 || facts.signal.usage >= facts.limit.scale_floor(BUSY);
    if !throttled && !facts.latency_missed {
        return Step::Calm;
    }
    if !throttled && !busy {
        return Step::LateElsewhere;
    }
    // A tiny limit times a factor may still round to itself.
    let least = facts.limit + profile.rounding_milli;
    let wanted = facts.limit.scale_floor(raise_factor(profile, &facts.signal));
    let wanted = wanted.max(least).max(remembered(profile, facts)).min(facts.max);
    if wanted <= facts.limit {
        Step::AtMax
    } else if throttled {
        Step::Throttled(wanted)
    } else {
        Step::Late(wanted)
    }
}

/// The burst buffer of one quota. Before congestion it is as large as the quota; in a congested
/// market it shares the room that the limits leave under the over-commit; in an overloaded one
/// there is none.
#[must_use]
pub fn burst(profile: &Profile, mode: Mode, limit: Millicores, room: BurstRoom) -> Millicores {
    if !profile.burst_buffer {
        return Millicores::ZERO;
    }
    match mode {
        Mode::Overloaded => Millicores::ZERO,
        Mode::Uncongested => limit,
        Mode::Congested if room.limits <= room.spare => limit,
        Mode::Congested => {
            limit.share_floor(room.spare, room.limits).round_down_to(profile.rounding_milli)
        }
    }
}

/// What the burst buffers of a congested node have to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstRoom {
    /// All limits together.
    pub limits: Millicores,
    /// What the over-commit leaves beside them.
    pub spare: Millicores,
}

/// What the last bursts took, with some headroom. The documented step knows no memory.
fn remembered(profile: &Profile, facts: &FastFacts) -> Millicores {
    match profile.boost_rule {
        BoostRule::Step => Millicores::ZERO,
        BoostRule::Double => facts.peak.scale_floor(profile.peak_factor),
    }
}

fn is_throttled(profile: &Profile, facts: &FastFacts) -> bool {
    let signal = &facts.signal;
    let enough = u64::from(profile.boost_periods);
    match profile.boost_rule {
        BoostRule::Step => signal.throttle_ratio > profile.throttling_threshold,
        BoostRule::Double => {
            facts.throttled_in_a_row >= enough
                || (signal.throttled_periods >= enough
                    && signal.period_ratio >= profile.boost_period_ratio)
        }
    }
}

fn raise_factor(profile: &Profile, signal: &Signal) -> Ratio {
    match profile.boost_rule {
        BoostRule::Step => {
            let span = profile.fast_step_max.saturating_sub(profile.fast_step_min);
            let urgency = signal.throttle_ratio.at_most_one();
            Ratio::ONE + profile.fast_step_min + span.times_floor(urgency)
        }
        BoostRule::Double => profile.boost_factor,
    }
}

// === impl Boost ===

impl Boost {
    /// A raise to `target` was decided now.
    pub fn raised(&mut self, target: Millicores, profile: &Profile, now: Moment) {
        *self = Self { target, raised_at: now, settles_at: now + profile.effect_wait_ms };
    }

    /// The raise was seen to be in force.
    pub fn took_effect(&mut self, at: Moment) {
        // What was in force before the raise was decided is word of an earlier one.
        if at >= self.raised_at {
            self.settles_at = self.settles_at.min(at);
        }
    }

    /// Whether there was a raise within the last `memory`.
    #[must_use]
    pub fn was_raised_within(&self, memory: Span, now: Moment) -> bool {
        self.target > Millicores::ZERO && now.since(self.raised_at) < memory
    }

    /// When the last raise is in force: a window that began earlier says nothing about it.
    #[must_use]
    pub const fn settles_at(&self) -> Moment {
        self.settles_at
    }

    /// The limit the boost still asks for above `base`, the market's answer.
    #[must_use]
    pub fn limit(&self, base: Millicores, profile: &Profile, now: Moment) -> Millicores {
        let excess = self.target.saturating_sub(base);
        let age = now.since(self.raised_at);
        if excess == Millicores::ZERO || age <= profile.boost_hold_ms {
            return base + excess;
        }
        let decaying = Span::from_us(age.as_us() - profile.boost_hold_ms.as_us());
        base + halved(excess, decaying, profile.boost_half_life_ms)
    }
}

/// `amount`, halved once per half-life, and in a straight line in between.
fn halved(amount: Millicores, elapsed: Span, half_life: Span) -> Millicores {
    let half_life_us = half_life.as_us().max(1);
    let halvings = u32::try_from(elapsed.as_us() / half_life_us).unwrap_or(u32::MAX);
    let left = Millicores::new(amount.get().checked_shr(halvings).unwrap_or(0));
    let part = Ratio::of(elapsed.as_us() % half_life_us, half_life_us * 2);
    left.saturating_sub(left.scale_ceil(part))
}
