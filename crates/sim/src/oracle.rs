//! The yardstick: the least limits that meet every target, chosen by somebody who knows the future.
//!
//! For every stretch of five seconds the oracle tries limits on a copy of the pod and takes the
//! smallest one with which no request answered in that stretch misses the target by its 99th
//! percentile and no more work is left over than without any limit. It has the same tools as the
//! market (a burst buffer as large as the quota, ten-millicore steps), but may change a limit only
//! every five seconds. Each pod is looked at alone, so on a crowded node the oracle is a bound that
//! nobody can reach.

use walras_core::units::{Millicores, Moment};

use crate::load::{Histogram, Load};
use crate::machine::{Machine, SLICE_MS};
use crate::policy::{Actuation, Policy, Setting, View};
use crate::scenario::{PodSpec, Scenario};
use crate::target::slo_ms;

/// How long a limit stays.
const STRETCH_S: u32 = 5;
/// Limits are multiples of this.
const STEP: u64 = 10;
/// A pod always has this much.
const FLOOR: Millicores = Millicores::new(10);

/// Limits that were chosen beforehand.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// For each pod, a limit for each stretch of its life.
    limits: Vec<Vec<Millicores>>,
    started: Vec<Option<Moment>>,
    weights: Vec<u32>,
}

impl Oracle {
    /// Looks into the future of one node.
    #[must_use]
    pub fn new(scenario: &Scenario, number: u32) -> Self {
        let limits = scenario.pods.iter().enumerate().map(|(place, pod)| {
            let seed = crate::run::pod_seed(scenario, number, place);
            foresee(scenario, pod, slo_ms(scenario, place), seed)
        });
        Self {
            limits: limits.collect(),
            started: vec![None; scenario.pods.len()],
            weights: vec![0; scenario.pods.len()],
        }
    }

    fn setting(&self, place: usize, stretch: usize) -> Setting {
        let limits = &self.limits[place];
        let limit = limits.get(stretch).or(limits.last()).copied().unwrap_or(FLOOR);
        Setting { limit: Some(limit), request: limit, weight: self.weights[place], burst: limit }
    }
}

impl Policy for Oracle {
    fn pod_started(&mut self, place: usize, pod: &PodSpec, now: Moment) -> Setting {
        self.started[place] = Some(now);
        self.weights[place] = (pod.weight.thousandths() / 10).clamp(1, 10_000);
        self.setting(place, 0)
    }

    fn pod_stopped(&mut self, place: usize, _: Moment) {
        self.started[place] = None;
    }

    fn period_passed(&mut self, now: Moment, _: &View<'_>, settings: &mut Vec<(usize, Setting)>) {
        let stretch_ms = u64::from(STRETCH_S) * 1000;
        for (place, started) in self.started.iter().enumerate() {
            let Some(started) = started else {
                continue;
            };
            let age_ms = now.since(*started).as_ms_floor();
            if age_ms.is_multiple_of(stretch_ms) {
                let stretch = usize::try_from(age_ms / stretch_ms).unwrap_or(usize::MAX);
                settings.push((place, self.setting(place, stretch)));
            }
        }
    }

    fn actuation(&self) -> Actuation {
        Actuation::Cgroup
    }
}

/// A pod alone on its node, at some point of its life.
#[derive(Clone)]
struct Future {
    load: Load,
    machine: Machine,
    at_ms: f64,
}

/// What a stretch would be like.
struct Glimpse {
    p99_ms: f64,
    left_core_ms: f64,
}

/// The least limit for each stretch of the pod's life.
fn foresee(scenario: &Scenario, pod: &PodSpec, slo_ms: Option<f64>, seed: u64) -> Vec<Millicores> {
    let capacity = scenario.node.capacity;
    let mut future = Future::new(scenario, pod, seed);
    let stretches = scenario.duration_s.div_ceil(STRETCH_S);
    let mut limits = Vec::new();
    for _ in 0..stretches {
        let free = future.clone().pass(capacity);
        let fits = |limit: Millicores| {
            let seen = future.clone().pass(limit);
            let in_time = slo_ms.is_none_or(|slo_ms| seen.p99_ms <= slo_ms);
            in_time && seen.left_core_ms <= free.left_core_ms + LEFT_OVER_CORE_MS
        };
        let limit = least(capacity, fits);
        future.pass(limit);
        limits.push(limit);
    }
    limits
}

/// Work that may be left over at the end of a stretch: half a period of one core.
const LEFT_OVER_CORE_MS: f64 = 50.0;

/// The smallest limit that will do, or the whole node.
fn least(capacity: Millicores, fits: impl Fn(Millicores) -> bool) -> Millicores {
    let (mut low, mut high) = (0, capacity.get() / STEP);
    while low + 1 < high {
        let middle = u64::midpoint(low, high);
        if fits(Millicores::new(middle * STEP)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Millicores::new(high * STEP).max(FLOOR)
}

impl Future {
    fn new(scenario: &Scenario, pod: &PodSpec, seed: u64) -> Self {
        let cores = crate::run::cores(scenario.node.capacity);
        Self {
            load: Load::new(pod.load.clone(), pod.startup, seed),
            machine: Machine::new(cores, 1),
            at_ms: 0.0,
        }
    }

    /// Lets one stretch pass under a limit.
    fn pass(&mut self, limit: Millicores) -> Glimpse {
        self.machine.group_mut(0).set_limit(Some(limit), limit);
        let mut latencies = Histogram::default();
        for _ in 0..STRETCH_S * (1000 / SLICE_MS) {
            let want = self.load.want(self.at_ms);
            let mut got = [0.0];
            self.machine.run_slice(&[want], &mut got);
            let cores = self.machine.cores();
            let ran = self.load.run(self.at_ms, got[0], cores, &mut latencies);
            self.machine.gave_back(0, got[0] - ran);
            self.at_ms += f64::from(SLICE_MS);
        }
        Glimpse {
            p99_ms: latencies.quantile_ms(0.99).unwrap_or(0.0),
            left_core_ms: self.load.left_core_ms(),
        }
    }
}
