//! Chooses the market's constants: tries values one constant at a time on training scenarios, keeps
//! what costs less, and is judged on scenarios it has not seen.
//!
//! What a choice costs is core-hours of limit, plus a price for every minute in which a service
//! missed its target, plus a price for changes beyond what the profile should need. The search is
//! seeded and deterministic; it never looks at the test suite.

use std::num::NonZeroUsize;

use walras_core::profile::{Profile, ProfileName, Value};
use walras_core::rng::Rng;

use crate::fleet::run_fleet;
use crate::measure::Figures;
use crate::policy::{Actuation, Market};
use crate::scenario::Scenario;

/// What one violation minute is worth, in core-hours.
pub const VIOLATION_CORE_HOURS: f64 = 0.2;
/// What one change per pod-hour beyond the allowance is worth, in core-hours per scenario.
const RESIZE_CORE_HOURS: f64 = 0.02;

/// A constant, and the values to try for it.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Its configuration name.
    pub key: &'static str,
    /// What is tried.
    pub values: &'static [f64],
}

/// The constants that trade capacity for latency or for changes.
pub const KNOBS: &[Knob] = &[
    Knob { key: "slow_loop_interval_ms", values: &[1000.0, 2000.0, 5000.0, 15_000.0] },
    Knob { key: "window_s", values: &[15.0, 30.0, 60.0, 120.0, 300.0] },
    Knob { key: "window_quantile", values: &[0.8, 0.9, 0.95, 0.99] },
    Knob { key: "throttle_target", values: &[0.005, 0.01, 0.02, 0.05] },
    Knob { key: "headroom_gain", values: &[0.3, 1.0, 3.0] },
    Knob { key: "headroom_fade", values: &[0.01, 0.02, 0.05, 0.1] },
    Knob { key: "headroom_start", values: &[0.5, 1.0, 2.0, 4.0] },
    Knob { key: "spread_floor", values: &[0.02, 0.05, 0.1, 0.2] },
    Knob { key: "boost_factor", values: &[1.5, 2.0, 3.0] },
    Knob { key: "boost_period_ratio", values: &[0.1, 0.25, 0.6, 1.0] },
    Knob { key: "boost_hold_ms", values: &[1000.0, 2000.0, 5000.0, 10_000.0, 60_000.0] },
    Knob { key: "boost_half_life_ms", values: &[1000.0, 2000.0, 5000.0, 30_000.0] },
    Knob { key: "peak_factor", values: &[0.0, 1.1, 1.5] },
    Knob { key: "raise_band", values: &[0.02, 0.05, 0.1, 0.2] },
    Knob { key: "shrink_band", values: &[0.05, 0.1, 0.2, 0.3] },
    Knob { key: "shrink_hold_ms", values: &[1000.0, 2000.0, 5000.0, 15_000.0, 180_000.0] },
    Knob { key: "limit_floor_milli", values: &[200.0, 300.0, 500.0, 800.0] },
    Knob { key: "clear_gap_ms", values: &[1000.0, 5000.0, 15_000.0] },
];

/// One value that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The constant.
    pub key: &'static str,
    /// Its value.
    pub value: f64,
    /// What it cost.
    pub cost: f64,
    /// Whether it was kept.
    pub kept: bool,
}

/// A search in progress.
#[derive(Debug)]
pub struct Search<'a> {
    training: &'a [Scenario],
    threads: NonZeroUsize,
    best: Profile,
    best_cost: f64,
    evaluations: u32,
}

impl<'a> Search<'a> {
    /// A search from a profile's present constants.
    #[must_use]
    pub fn new(start: Profile, training: &'a [Scenario], threads: NonZeroUsize) -> Self {
        let best_cost = cost(&start, &judge(&start, training, threads));
        Self { training, threads, best: start, best_cost, evaluations: 1 }
    }

    /// Tries every value of every constant, in a random order, until a whole round changes nothing
    /// or the evaluations are used up. Every trial is told to `tried`.
    pub fn run(&mut self, evaluations_max: u32, seed: u64, tried: &mut dyn FnMut(&Trial)) {
        let mut rng = Rng::from_seed(seed);
        loop {
            let mut improved = false;
            for knob in shuffled(&mut rng) {
                for &value in knob.values {
                    if self.evaluations >= evaluations_max {
                        return;
                    }
                    improved |= self.try_value(knob.key, value, tried);
                }
            }
            if !improved {
                return;
            }
        }
    }

    /// The best constants so far.
    #[must_use]
    pub const fn best(&self) -> &Profile {
        &self.best
    }

    /// What they cost.
    #[must_use]
    pub const fn best_cost(&self) -> f64 {
        self.best_cost
    }

    /// How many sets of constants were judged.
    #[must_use]
    pub const fn evaluations(&self) -> u32 {
        self.evaluations
    }

    fn try_value(&mut self, key: &'static str, value: f64, tried: &mut dyn FnMut(&Trial)) -> bool {
        let value_now = self.best.get(key);
        let mut profile = self.best.clone();
        let set = profile.set(key, &Value::Number(value));
        if set.is_err() || !profile.check().is_empty() || value_now == profile.get(key) {
            return false;
        }
        self.evaluations += 1;
        let cost = cost(&profile, &judge(&profile, self.training, self.threads));
        let kept = cost < self.best_cost;
        tried(&Trial { key, value, cost, kept });
        if kept {
            self.best = profile;
            self.best_cost = cost;
        }
        kept
    }
}

/// What a profile does on each scenario.
#[must_use]
pub fn judge(profile: &Profile, scenarios: &[Scenario], threads: NonZeroUsize) -> Vec<Figures> {
    let actuation = match profile.name {
        ProfileName::Direct => Actuation::Cgroup,
        ProfileName::Api | ProfileName::Seed => Actuation::Api,
    };
    scenarios
        .iter()
        .map(|scenario| {
            let make = |scenario: &Scenario, _: u32| -> Box<dyn crate::policy::Policy> {
                Box::new(Market::new(profile.clone(), actuation, &scenario.node, &scenario.pods))
            };
            run_fleet(scenario, &make, threads, &|| {}).summary.figures()
        })
        .collect()
}

/// What figures cost, in core-hours.
#[must_use]
pub fn cost(profile: &Profile, figures: &[Figures]) -> f64 {
    // Cgroup writes are nearly free; API writes are counted.
    let allowance = match profile.name {
        ProfileName::Direct => 1000.0,
        ProfileName::Api | ProfileName::Seed => 10.0,
    };
    figures
        .iter()
        .map(|figures| {
            let too_many = (figures.resizes_per_pod_hour - allowance).max(0.0);
            figures.core_hours
                + figures.slo_violation_minutes * VIOLATION_CORE_HOURS
                + too_many * RESIZE_CORE_HOURS
        })
        .sum()
}

fn shuffled(rng: &mut Rng) -> Vec<Knob> {
    let mut knobs = KNOBS.to_vec();
    for place in (1..knobs.len()).rev() {
        let bound = u64::try_from(place + 1).unwrap_or(u64::MAX);
        let other = usize::try_from(rng.below(bound)).unwrap_or(0);
        knobs.swap(place, other);
    }
    knobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_to_be_tried_is_accepted_by_every_profile() {
        for name in ProfileName::ALL {
            for knob in KNOBS {
                for &value in knob.values {
                    let mut profile = Profile::named(name);
                    profile.set(knob.key, &Value::Number(value)).expect("a value in range");
                }
            }
        }
    }

    #[test]
    fn violations_and_needless_changes_cost() {
        let figures = |core_hours, slo_violation_minutes, resizes_per_pod_hour| Figures {
            core_hours,
            slo_violation_minutes,
            resizes_per_pod_hour,
            ..Figures::default()
        };
        let direct = |figures| cost(&Profile::DIRECT, &[figures]);
        let api = |figures| cost(&Profile::API, &[figures]);
        assert_eq!(direct(figures(2.0, 0.0, 100.0)), 2.0);
        assert_eq!(direct(figures(2.0, 5.0, 100.0)), 3.0);
        assert_eq!(api(figures(2.0, 5.0, 10.0)), 3.0);
        assert!(api(figures(2.0, 5.0, 60.0)) > 3.9);
    }
}
