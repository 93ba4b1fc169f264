//! Chooses the market's constants: tries values one constant at a time on training scenarios, keeps
//! what costs less, and is judged on scenarios it has not seen.
//!
//! Called by `walras sim tune`. What a choice costs is core-hours of limit, plus a price for every
//! minute in which a service missed its target, plus a price for changes beyond what the profile
//! should need. The search is seeded and deterministic; it never looks at the test suite.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use walras_core::profile::{Profile, ProfileName, Value};
use walras_core::rng::Rng;

use crate::crew;
use crate::measure::{Figures, Summary};
use crate::policy::{Actuation, Market};
use crate::run::{Unwatched, run_node};
use crate::scenario::Scenario;
use crate::target::with_targets;

/// What one violation minute is worth, in core-hours.
pub const VIOLATION_CORE_HOURS: f64 = 0.2;
/// What a core-hour of work done is worth, in core-hours of limit. Services do the same work under
/// any constants that serve them; batch jobs do more where there is room.
pub const WORK_CORE_HOURS: f64 = 2.0;
/// What one change per pod-hour beyond the allowance is worth, in core-hours per scenario.
pub const RESIZE_CORE_HOURS: f64 = 0.02;

/// A constant, and the values to try for it.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Its configuration name.
    pub key: &'static str,
    /// What is tried.
    pub values: &'static [f64],
}

/// The constants that trade capacity for latency, for work or for changes.
pub const KNOBS: &[Knob] = &[
    Knob { key: "fast_loop_interval_ms", values: &[100.0, 200.0, 1000.0, 2000.0] },
    Knob { key: "slow_loop_interval_ms", values: &[500.0, 1000.0, 2000.0, 5000.0, 15_000.0] },
    Knob { key: "window_s", values: &[5.0, 10.0, 30.0, 120.0, 300.0, 600.0] },
    Knob { key: "window_quantile", values: &[0.7, 0.9, 0.99, 1.0] },
    Knob { key: "throttle_target", values: &[0.005, 0.02, 0.05, 0.1] },
    Knob { key: "headroom_gain", values: &[0.1, 0.3, 1.0, 3.0] },
    Knob { key: "headroom_fade", values: &[0.002, 0.005, 0.01, 0.02, 0.05] },
    Knob { key: "headroom_start", values: &[1.0, 2.0, 4.0] },
    Knob { key: "spread_floor", values: &[0.02, 0.05, 0.1] },
    Knob { key: "boost_factor", values: &[1.5, 2.0, 3.0] },
    Knob { key: "boost_periods", values: &[2.0, 3.0, 4.0, 8.0] },
    Knob { key: "boost_period_ratio", values: &[0.1, 0.25, 0.5, 0.6, 1.0] },
    Knob { key: "boost_hold_ms", values: &[0.0, 500.0, 5000.0, 60_000.0, 300_000.0] },
    Knob { key: "boost_half_life_ms", values: &[100.0, 500.0, 5000.0, 30_000.0] },
    Knob { key: "peak_factor", values: &[0.0, 1.1, 1.5] },
    Knob { key: "hot_memory_s", values: &[0.0, 60.0, 600.0] },
    Knob { key: "raise_band", values: &[0.05, 0.1, 0.2, 0.3] },
    Knob { key: "shrink_band", values: &[0.05, 0.1, 0.2, 0.3] },
    Knob { key: "shrink_hold_ms", values: &[0.0, 1000.0, 5000.0, 60_000.0, 180_000.0] },
    Knob { key: "limit_floor_milli", values: &[200.0, 500.0, 800.0] },
    Knob { key: "startup_grace_ms", values: &[5000.0, 15_000.0, 45_000.0] },
    Knob { key: "contain_after_ms", values: &[30_000.0, 60_000.0, 120_000.0] },
    Knob { key: "contain_factor", values: &[1.25, 1.5, 2.0, 3.0] },
    Knob { key: "idle_guard", values: &[0.05, 0.1, 0.2] },
];

/// One value that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// A constant that a search changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its configuration name.
    pub key: &'static str,
    /// What it was.
    pub from: Value,
    /// What it is now.
    pub to: Value,
    /// By how much the cost fell each time it was changed, added up.
    pub saved_core_hours: f64,
}

/// A search in progress.
#[derive(Debug)]
pub struct Search {
    training: Vec<Scenario>,
    threads: NonZeroUsize,
    start: Profile,
    start_cost: f64,
    best: Profile,
    best_cost: f64,
    tried: u32,
    saved_core_hours: BTreeMap<&'static str, f64>,
}

impl Search {
    /// A search from a profile's present constants.
    #[must_use]
    pub fn new(start: Profile, training: &[Scenario], threads: NonZeroUsize) -> Self {
        let training: Vec<Scenario> =
            training.iter().map(|scenario| with_targets(scenario, threads)).collect();
        let start_cost = cost(&start, &judge(&start, &training, threads));
        Self {
            training,
            threads,
            best: start.clone(),
            start,
            start_cost,
            best_cost: start_cost,
            tried: 0,
            saved_core_hours: BTreeMap::new(),
        }
    }

    /// Tries every value of every constant, in a random order, until a whole round changes nothing
    /// or the evaluations are used up. Every trial is told to `tried`.
    pub fn run(&mut self, evaluations_max: u32, seed: u64, tried: &mut dyn FnMut(&Trial)) {
        let mut rng = Rng::from_seed(seed);
        loop {
            let mut improved = false;
            for knob in shuffled(&mut rng) {
                for &value in knob.values {
                    if self.tried >= evaluations_max {
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

    /// What the constants cost that it started from.
    #[must_use]
    pub const fn start_cost(&self) -> f64 {
        self.start_cost
    }

    /// How many other sets of constants were tried.
    #[must_use]
    pub const fn tried(&self) -> u32 {
        self.tried
    }

    /// What differs between the best constants and those it started from, by name.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let change = |(&key, &saved_core_hours): (&&'static str, &f64)| {
            let (from, to) = (self.start.get(key)?, self.best.get(key)?);
            (from != to).then_some(Change { key, from, to, saved_core_hours })
        };
        self.saved_core_hours.iter().filter_map(change).collect()
    }

    fn try_value(&mut self, key: &'static str, value: f64, tried: &mut dyn FnMut(&Trial)) -> bool {
        let value_now = self.best.get(key);
        let mut profile = self.best.clone();
        let set = profile.set(key, &Value::Number(value));
        if set.is_err() || !profile.check().is_empty() || value_now == profile.get(key) {
            return false;
        }
        self.tried += 1;
        let cost = cost(&profile, &judge(&profile, &self.training, self.threads));
        let kept = cost < self.best_cost;
        tried(&Trial { key, value, cost, kept });
        if kept {
            *self.saved_core_hours.entry(key).or_default() += self.best_cost - cost;
            self.best = profile;
            self.best_cost = cost;
        }
        kept
    }
}

/// What a profile does on each scenario. All nodes of all scenarios are shared out to the threads.
#[must_use]
pub fn judge(profile: &Profile, scenarios: &[Scenario], threads: NonZeroUsize) -> Vec<Figures> {
    let actuation = match profile.name {
        ProfileName::Direct | ProfileName::Tight => Actuation::Cgroup,
        ProfileName::Api | ProfileName::Seed => Actuation::Api,
    };
    let nodes = |place: usize| (0..scenarios[place].nodes).map(move |number| (place, number));
    let mut jobs: Vec<(usize, u32)> = (0..scenarios.len()).flat_map(nodes).collect();
    // The long ones first, so that no thread is left alone with one of them at the end.
    jobs.sort_by_key(|&(place, number)| (Reverse(length(&scenarios[place])), place, number));
    let done = crew::all_done(&jobs, threads, &|&(place, number)| {
        let scenario = &scenarios[place];
        let mut market = Market::new(profile.clone(), actuation, &scenario.node, &scenario.pods);
        (place, Summary::of(&run_node(scenario, number, &mut market, &mut Unwatched)))
    });
    let mut sums = vec![Summary::default(); scenarios.len()];
    for (place, summary) in &done {
        sums[*place].add(summary);
    }
    sums.iter().map(Summary::figures).collect()
}

/// About how long a node of it takes.
fn length(scenario: &Scenario) -> u64 {
    let pods = u64::try_from(scenario.pods.len()).unwrap_or(u64::MAX);
    pods.saturating_mul(u64::from(scenario.duration_s))
}

/// What figures cost, in core-hours.
#[must_use]
pub fn cost(profile: &Profile, figures: &[Figures]) -> f64 {
    // Cgroup writes are nearly free; API writes are counted.
    let allowance = match profile.name {
        ProfileName::Direct | ProfileName::Tight => 1500.0,
        ProfileName::Api | ProfileName::Seed => 10.0,
    };
    figures
        .iter()
        .map(|figures| {
            let too_many = (figures.resizes_per_pod_hour - allowance).max(0.0);
            figures.core_hours - figures.used_core_hours * WORK_CORE_HOURS
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
