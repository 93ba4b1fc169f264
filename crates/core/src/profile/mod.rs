//! Every constant of the market in one place: its configuration name, unit, range, value in each
//! profile, and the reason for it.
//!
//! `seed` behaves as the predecessor's documents say. `direct` is for places where acting is a
//! cgroup write, cheap and immediate; `api` for places where it is a call to the Kubernetes API,
//! slow and counted. A profile is plain data. Numbers that a document, the kernel or Kubernetes
//! fixes are named constants beside their rule; what trades one good for another is here.
//!
//! Always: a profile that came through [`Profile::set`] and [`Profile::check`] is within range.

mod choice;
mod setting;

use alloc::vec::Vec;

use crate::market::Fairness;
use crate::need::WindowRule;
use crate::units::{Millicores, Ratio, Span};

pub use choice::{BoostRule, CapRule, Estimator, ProfileName, WeightSource};
use setting::Setting;
pub use setting::{Constant, Kind, SettingError, Value};

macro_rules! profile {
    ($(
        $key:ident: $type:ty, $unit:literal, $low:literal to $high:literal,
        [$seed:expr, $direct:expr, $api:expr, $tight:expr $(,)?], $reason:literal;
    )*) => {
        /// The constants one node's market runs with.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Profile {
            /// Which of the profiles the constants started from.
            pub name: ProfileName,
            $(
                #[doc = $reason]
                #[doc = concat!("Unit: ", $unit, ".")]
                pub $key: $type,
            )*
        }

        impl Profile {
            /// As the predecessor's documents say.
            pub const SEED: Self = Self { name: ProfileName::Seed, $($key: $seed,)* };
            /// Where acting is a cgroup write.
            pub const DIRECT: Self = Self { name: ProfileName::Direct, $($key: $direct,)* };
            /// Where acting is an API write.
            pub const API: Self = Self { name: ProfileName::Api, $($key: $api,)* };
            /// The smallest caps that keep latency, where acting is a cgroup write.
            pub const TIGHT: Self = Self { name: ProfileName::Tight, $($key: $tight,)* };

            /// What is known about each constant, in the order of the table.
            pub const CONSTANTS: &'static [Constant] = &[$(
                Constant {
                    key: stringify!($key),
                    kind: <$type as Setting>::KIND,
                    unit: $unit,
                    low: $low,
                    high: $high,
                    reason: $reason,
                },
            )*];

            /// Sets one constant by its configuration name. Nothing changes on an error.
            ///
            /// # Errors
            /// An unknown name, a value of the wrong kind, or one out of range.
            pub fn set(&mut self, key: &str, value: &Value) -> Result<(), SettingError> {
                match key {
                    $(stringify!($key) => {
                        self.$key = setting::read(stringify!($key), value, $low, $high)?;
                    })*
                    unknown => return Err(SettingError::unknown(unknown)),
                }
                Ok(())
            }

            /// One constant by its configuration name.
            #[must_use]
            pub fn get(&self, key: &str) -> Option<Value> {
                match key {
                    $(stringify!($key) => Some(self.$key.show()),)*
                    _ => None,
                }
            }
        }
    };
}

profile! {
    estimator: Estimator, "spec or window", 0.0 to 0.0,
        [Estimator::Spec, Estimator::Window, Estimator::Window, Estimator::Window],
        "How need is estimated. Watching usage beats mapping throttling onto the whole range \
         from min to max, which asks for half a node at 5 % throttling.";
    fairness: Fairness, "proportional or nash", 0.0 to 0.0,
        [Fairness::Proportional, Fairness::Nash, Fairness::Nash, Fairness::Nash],
        "How a congested market shares. Proportional rewards asking for more; nash cannot \
         be gamed that way.";
    demand_capped: bool, "true or false", 0.0 to 0.0,
        [true, true, true, true],
        "Whether need caps a grant. Off, everything is shared out up to the workloads' max.";
    learning: bool, "true or false", 0.0 to 0.0,
        [true, false, false, false],
        "Whether bids are learned. Exploring costs resizes, so it must first prove its worth.";
    learning_rate: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.1), ratio(0.1), ratio(0.1), ratio(0.1)],
        "Alpha of the Q-learning update, as documented.";
    learning_discount: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.9), ratio(0.9), ratio(0.9), ratio(0.9)],
        "Gamma of the Q-learning update, as documented.";
    exploration_start: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.2), ratio(0.2), ratio(0.2), ratio(0.2)],
        "Share of random actions of a new table, as documented.";
    exploration_floor: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.01), ratio(0.01), ratio(0.01), ratio(0.01)],
        "Share of random actions that always remains, as documented.";
    exploration_seed: u32, "number", 0.0 to 4_294_967_295.0,
        [1, 1, 1, 1],
        "Where the random numbers of new tables start, so that a replay repeats them.";
    sampling_interval_ms: Span, "ms", 100.0 to 60_000.0,
        [ms(1000), ms(500), ms(1000), ms(1000)],
        "How often a quiet workload is looked at.";
    fast_loop_interval_ms: Span, "ms", 50.0 to 60_000.0,
        [ms(2000), ms(100), ms(1000), ms(100)],
        "How often hot workloads are looked at: once a CFS period where acting is cheap.";
    slow_loop_interval_ms: Span, "ms", 500.0 to 3_600_000.0,
        [ms(15_000), ms(1000), ms(5000), ms(1000)],
        "How often the market is cleared when nothing forces it. Often where acting is cheap, \
         since that is also how soon a raise that is over is taken back.";
    startup_grace_ms: Span, "ms", 0.0 to 3_600_000.0,
        [ms(45_000), ms(15_000), ms(45_000), ms(15_000)],
        "How long a new workload is not shrunk: starting up is not a working day.";
    window_s: u32, "s", 1.0 to 3600.0,
        [30, 5, 300, 5],
        "How far back the window estimator looks. Short where the fast loop answers a burst at \
         once; long where every change is counted.";
    window_quantile: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.9), ratio(0.9), ratio(1.0), ratio(0.9)],
        "Which quantile of the recent seconds is the base of need; higher where changes are \
         counted.";
    throttle_target: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.05), ratio(0.05), ratio(0.05), ratio(0.05)],
        "The share of throttled periods that is fine. Practitioners aim for 0 to 10 %; with a \
         burst buffer, or with the headroom of five minutes, 5 % do not show in latency.";
    headroom_gain: Ratio, "ratio", 0.0 to 100.0,
        [ratio(1.0), ratio(1.0), ratio(0.1), ratio(1.0)],
        "How fast headroom grows with the gap above the throttle target, per second.";
    headroom_fade: Ratio, "spreads", 0.0 to 100.0,
        [ratio(0.05), ratio(0.02), ratio(0.005), ratio(0.02)],
        "How fast headroom fades while nothing is throttled, per second.";
    headroom_start: Ratio, "spreads", 0.0 to 100.0,
        [ratio(1.0), ratio(2.0), ratio(2.0), ratio(2.0)],
        "Headroom of a new workload, in standard deviations of its usage.";
    headroom_max: Ratio, "spreads", 0.0 to 1000.0,
        [ratio(10.0), ratio(10.0), ratio(10.0), ratio(10.0)],
        "The most headroom a workload can collect, so that a storm is forgotten in minutes.";
    spread_floor: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.05), ratio(0.05), ratio(0.05), ratio(0.05)],
        "The spread counts as at least this share of the base, so that a steady workload can grow.";
    boost_rule: BoostRule, "step or double", 0.0 to 0.0,
        [BoostRule::Step, BoostRule::Double, BoostRule::Double, BoostRule::Double],
        "How the fast loop raises: by the documented step, or by a factor after throttled periods.";
    throttling_threshold: Ratio, "ratio", 0.0 to 10.0,
        [ratio(0.1), ratio(0.1), ratio(0.1), ratio(0.1)],
        "Throttle ratio above which the step rule fires, as documented.";
    fast_step_min: Ratio, "ratio", 0.0 to 10.0,
        [ratio(0.2), ratio(0.2), ratio(0.2), ratio(0.2)],
        "The smallest raise of the step rule, as documented.";
    fast_step_max: Ratio, "ratio", 0.0 to 10.0,
        [ratio(0.4), ratio(0.4), ratio(0.4), ratio(0.4)],
        "The largest raise of the step rule, as documented.";
    boost_periods: u32, "periods", 1.0 to 1000.0,
        [2, 1, 1, 2],
        "Throttled periods in a row before the double rule fires: one can be chance, but a loose \
         cap makes no workload wait beside idle CPU.";
    boost_period_ratio: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.6), ratio(0.05), ratio(0.05), ratio(0.6)],
        "Or this share of a look at least as long as that: above one half, two came in a row.";
    boost_factor: Ratio, "factor", 1.0 to 10.0,
        [ratio(2.0), ratio(2.0), ratio(2.0), ratio(2.0)],
        "What the double rule multiplies the limit by.";
    peak_memory_s: u32, "s", 1.0 to 86_400.0,
        [600, 86_400, 86_400, 600],
        "How long the most a workload used is remembered: a raise jumps there at once, since \
         bursts tend to be as large as the last ones, and a loose cap stays above it for a day.";
    peak_factor: Ratio, "factor", 0.0 to 10.0,
        [ratio(0.0), ratio(1.1), ratio(1.1), ratio(1.1)],
        "What that peak is multiplied by; 0 forgets it.";
    hot_memory_s: u32, "s", 0.0 to 86_400.0,
        [0, 600, 0, 600],
        "How long a workload that was raised, or is new, is looked at by every fast tick: one \
         burst is often followed by another.";
    effect_wait_ms: Span, "ms", 0.0 to 600_000.0,
        [ms(2000), ms(100), ms(2000), ms(100)],
        "How long a raise takes to take effect: one must not raise again before that.";
    boost_hold_ms: Span, "ms", 0.0 to 3_600_000.0,
        [ms(15_000), ms(0), ms(60_000), ms(0)],
        "How long a boost stays as it is. Not at all where it can be had again at once: a short \
         one works off what has piled up, and the estimator takes over.";
    boost_half_life_ms: Span, "ms", 1.0 to 3_600_000.0,
        [ms(15_000), ms(100), ms(30_000), ms(100)],
        "After that, how long half of what is left of it takes to go.";
    burst_buffer: bool, "true or false", 0.0 to 0.0,
        [false, true, false, true],
        "Whether a quota gets a burst buffer of its own size: unused quota of quiet periods is \
         spent in busy ones.";
    alpha_up: Ratio, "ratio", 0.001 to 1.0,
        [ratio(0.1), ratio(1.0), ratio(1.0), ratio(1.0)],
        "How much of a rise is taken at once. The window is smooth enough without it.";
    alpha_down: Ratio, "ratio", 0.001 to 1.0,
        [ratio(0.8), ratio(1.0), ratio(1.0), ratio(1.0)],
        "How much of a fall is taken at once.";
    raise_band: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.05), ratio(0.1), ratio(0.2), ratio(0.1)],
        "A rise smaller than this is not worth a change.";
    shrink_band: Ratio, "ratio", 0.0 to 1.0,
        [ratio(0.05), ratio(0.1), ratio(0.2), ratio(0.1)],
        "A fall smaller than this is not worth a change.";
    shrink_hold_ms: Span, "ms", 0.0 to 3_600_000.0,
        [ms(0), ms(600_000), ms(3_600_000), ms(1000)],
        "How long a value must have been too large before it is shrunk.";
    cooldown_ms: Span, "ms", 0.0 to 3_600_000.0,
        [ms(5000), ms(0), ms(5000), ms(0)],
        "The least time between two changes of one workload by the slow loop.";
    rounding_milli: Millicores, "millicores", 1.0 to 1000.0,
        [Millicores::new(1), Millicores::new(10), Millicores::new(10), Millicores::new(10)],
        "Limits are multiples of this: what the kernel and systemd can hold.";
    limit_floor_milli: Millicores, "millicores", 10.0 to 1_000_000.0,
        [Millicores::new(10), Millicores::new(500), Millicores::new(800), Millicores::new(500)],
        "No cap is tighter than this. A tighter one saves next to nothing, and every request \
         that takes longer than its quota would wait for the next period; sooner where there is \
         no burst buffer.";
    cap_rule: CapRule, "grant, tight or loose", 0.0 to 0.0,
        [CapRule::Grant, CapRule::Loose, CapRule::Loose, CapRule::Tight],
        "What becomes of a grant: the limit itself, as documented; a small cap above it; or a cap \
         that is never below what the workload came with unless it is contained, so that a cap is \
         for containing and never a bet against the next burst.";
    request_ratio: Ratio, "ratio", 0.01 to 1.0,
        [ratio(0.9), ratio(0.9), ratio(0.9), ratio(0.9)],
        "The request as a part of the limit, where it follows the limit; as documented.";
    weight_source: WeightSource, "request, weight or standing", 0.0 to 0.0,
        [
            WeightSource::Request,
            WeightSource::Standing,
            WeightSource::Request,
            WeightSource::Bargaining,
        ],
        "Where the kernel's weight comes from: the request, as Kubernetes does it; the bargaining \
         weight; or the workload's right and its share of what the rights leave, which is what \
         brings back within milliseconds what was lent.";
    overcommit: Ratio, "factor", 1.0 to 100.0,
        [ratio(1.0), ratio(2.0), ratio(2.0), ratio(2.0)],
        "All limits together stay within capacity times this. Hard caps that add up to capacity \
         leave the node idle while workloads wait.";
    contain_after_ms: Span, "ms", 0.0 to 86_400_000.0,
        [ms(0), ms(60_000), ms(60_000), ms(60_000)],
        "How long a workload's need must have been cut before it counts as one that takes all it \
         can get: longer than a burst lasts.";
    contain_factor: Ratio, "factor", 1.0 to 100.0,
        [ratio(1.0), ratio(2.0), ratio(2.0), ratio(2.0)],
        "What such a workload may use of its grant while others need theirs. Above one, since what \
         they need is more than what they use.";
    idle_guard: Ratio, "ratio", 0.0 to 0.9,
        [ratio(0.0), ratio(0.1), ratio(0.1), ratio(0.1)],
        "How much of the node is kept idle beside such workloads, so that a burst of the others \
         does not have to wait for its turn.";
    idle_guard_floor_milli: Millicores, "millicores", 0.0 to 1_000_000.0,
        [Millicores::ZERO, Millicores::new(200), Millicores::new(200), Millicores::new(200)],
        "The same in millicores, on nodes where a part is next to nothing.";
    scarce_after_ms: Span, "ms", 0.0 to 3_600_000.0,
        [ms(0), ms(2000), ms(10_000), ms(2000)],
        "How long less than the guard must have been idle before CPU counts as scarce: longer \
         where acting is counted.";
    max_step_factor: Ratio, "factor", 1.1 to 1000.0,
        [ratio(10.0), ratio(10.0), ratio(10.0), ratio(10.0)],
        "The most a limit grows at once, counted from 100m at least; the controller refuses more.";
    max_step_milli: Millicores, "millicores", 10.0 to 1_000_000.0,
        [
            Millicores::from_cores(20),
            Millicores::from_cores(20),
            Millicores::from_cores(20),
            Millicores::from_cores(20),
        ],
        "The most a limit changes at once; the controller refuses more.";
    clear_gap_ms: Span, "ms", 50.0 to 3_600_000.0,
        [ms(15_000), ms(1000), ms(5000), ms(1000)],
        "The least time between two clearings that a raise without room asks for.";
}

impl Profile {
    /// The profile of that name.
    #[must_use]
    pub const fn named(name: ProfileName) -> Self {
        match name {
            ProfileName::Seed => Self::SEED,
            ProfileName::Direct => Self::DIRECT,
            ProfileName::Api => Self::API,
            ProfileName::Tight => Self::TIGHT,
        }
    }

    /// What is wrong with constants that are fine one by one but not together.
    #[must_use]
    pub fn check(&self) -> Vec<SettingError> {
        let mut errors = Vec::new();
        if self.fast_step_max < self.fast_step_min {
            errors.push(SettingError::contradiction("fast_step_max", "fast_step_min"));
        }
        if self.slow_loop_interval_ms < self.fast_loop_interval_ms {
            errors.push(SettingError::contradiction(
                "slow_loop_interval_ms",
                "fast_loop_interval_ms",
            ));
        }
        if self.headroom_max < self.headroom_start {
            errors.push(SettingError::contradiction("headroom_max", "headroom_start"));
        }
        errors
    }

    /// The part of the profile that the window estimator reads.
    #[must_use]
    pub const fn window_rule(&self) -> WindowRule {
        WindowRule {
            quantile: self.window_quantile,
            throttle_target: self.throttle_target,
            gain: self.headroom_gain,
            fade: self.headroom_fade,
            headroom_start: self.headroom_start,
            headroom_max: self.headroom_max,
            spread_floor: self.spread_floor,
        }
    }
}

/// A ratio as it is written in the table above.
const fn ratio(value: f64) -> Ratio {
    setting::ratio_nearest(value)
}

/// A span as it is written in the table above.
const fn ms(value: u64) -> Span {
    Span::from_ms(value)
}
