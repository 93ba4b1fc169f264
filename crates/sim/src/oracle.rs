//! The yardstick: the least limits that meet every target, chosen by somebody who knows the future.
//!
//! For every stretch of five seconds the oracle tries limits on a copy of the pod and takes the
//! smallest one with which the 99th percentile of the requests answered in that stretch meets the
//! target, or is no worse than without any limit, and no more work is left over than without one.
//! It has the same tools as the market (a burst buffer as large as the quota, ten-millicore steps),
//! but may change a limit only every five seconds. Each pod is foreseen alone: on a node where pods
//! are in each other's way, plans come late, and the oracle adds to a limit what the pod is behind
//! its plan. There it is neither a bound nor the best that can be done. Endless work has no target
//! and gets next to nothing.

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
    /// For each pod, a plan for each stretch of its life.
    plans: Vec<Vec<Plan>>,
    capacity: Millicores,
    started: Vec<Option<Moment>>,
    weights: Vec<u32>,
}

/// What was foreseen for a stretch.
#[derive(Clone, Copy, Debug)]
struct Plan {
    limit: Millicores,
    /// What the pod has used by the beginning of the stretch if all went as foreseen.
    used_core_ms: f64,
}

impl Oracle {
    /// Looks into the future of one node.
    #[must_use]
    pub fn new(scenario: &Scenario, number: u32) -> Self {
        let plans = scenario.pods.iter().enumerate().map(|(place, pod)| {
            let seed = crate::run::pod_seed(scenario, number, place);
            foresee(scenario, pod, slo_ms(scenario, place), seed)
        });
        Self {
            plans: plans.collect(),
            capacity: scenario.node.capacity,
            started: vec![None; scenario.pods.len()],
            weights: vec![0; scenario.pods.len()],
        }
    }

    /// The limit for a stretch, for a pod that has used so much before.
    fn setting(&self, place: usize, stretch: usize, used_core_ms: f64) -> Setting {
        let plans = &self.plans[place];
        let limit = plans.get(stretch).or(plans.last()).map_or(FLOOR, |plan| {
            let behind_core_ms = plan.used_core_ms - used_core_ms;
            plan.limit + millicores_ceil(behind_core_ms / f64::from(STRETCH_S * 1000))
        });
        let limit = limit.min(self.capacity);
        Setting { limit: Some(limit), request: limit, weight: self.weights[place], burst: limit }
    }
}

impl Policy for Oracle {
    fn pod_started(&mut self, place: usize, pod: &PodSpec, now: Moment) -> Setting {
        self.started[place] = Some(now);
        self.weights[place] = (pod.weight.thousandths() / 10).clamp(1, 10_000);
        self.setting(place, 0, 0.0)
    }

    fn pod_stopped(&mut self, place: usize, _: Moment) {
        self.started[place] = None;
    }

    fn period_passed(
        &mut self,
        now: Moment,
        view: &View<'_>,
        settings: &mut Vec<(usize, Setting)>,
    ) {
        let stretch_ms = u64::from(STRETCH_S) * 1000;
        for (place, started) in self.started.iter().enumerate() {
            let Some(started) = started else {
                continue;
            };
            let age_ms = now.since(*started).as_ms_floor();
            if age_ms.is_multiple_of(stretch_ms) {
                let stretch = usize::try_from(age_ms / stretch_ms).unwrap_or(usize::MAX);
                let used_core_ms = view.counters[place].usage_core_ms;
                settings.push((place, self.setting(place, stretch, used_core_ms)));
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
    limit: Option<Millicores>,
    at_ms: f64,
}

/// What a stretch would be like.
struct Glimpse {
    p99_ms: f64,
    left_core_ms: f64,
}

/// The least limit for each stretch of the pod's life, and what it leads to.
fn foresee(scenario: &Scenario, pod: &PodSpec, slo_ms: Option<f64>, seed: u64) -> Vec<Plan> {
    let capacity = scenario.node.capacity;
    let mut future = Future::new(scenario, pod, seed);
    let stretches = scenario.duration_s.div_ceil(STRETCH_S);
    let mut plans = Vec::new();
    for _ in 0..stretches {
        let free = future.clone().pass(capacity);
        let fits = |limit: Millicores| {
            let seen = future.clone().pass(limit);
            let in_time = slo_ms.is_none_or(|slo_ms| seen.p99_ms <= slo_ms.max(free.p99_ms));
            in_time && seen.left_core_ms <= free.left_core_ms + LEFT_OVER_CORE_MS
        };
        let limit = least(capacity, fits);
        plans.push(Plan { limit, used_core_ms: future.used_core_ms() });
        future.pass(limit);
    }
    plans
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
        let cores = pod.cores_on(&scenario.node);
        Self {
            load: Load::new(pod.load.clone(), pod.startup, seed),
            machine: Machine::new(cores, 1),
            limit: None,
            at_ms: 0.0,
        }
    }

    fn used_core_ms(&self) -> f64 {
        self.machine.group(0).counters().usage_core_ms
    }

    /// Lets one stretch pass under a limit.
    fn pass(&mut self, limit: Millicores) -> Glimpse {
        // As in a run, the same limit is not written again: a write would refill the quota.
        if self.limit.replace(limit) != Some(limit) {
            self.machine.group_mut(0).set_limit(Some(limit), limit);
        }
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

/// Cores in thousandths. What is behind by less than a millionth is rounding; what is ahead is
/// nothing.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
fn millicores_ceil(cores: f64) -> Millicores {
    Millicores::new((cores * 1000.0 - 1e-6).ceil().max(0.0) as u64)
        .round_up_to(Millicores::new(STEP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::PodTally;
    use crate::run::{Unwatched, run_node};
    use crate::scenario::builtin;

    /// What becomes of a built-in scenario's pods in its first minutes.
    fn foreseen(name: &str, minutes: u32) -> Vec<PodTally> {
        let found = builtin().iter().find(|builtin| builtin.name == name).expect("built in");
        let mut scenario = found.scenario();
        scenario.duration_s = minutes * 60;
        let mut oracle = Oracle::new(&scenario, 0);
        run_node(&scenario, 0, &mut oracle, &mut Unwatched)
    }

    #[test]
    fn alone_on_its_node_a_service_misses_nothing_and_has_little_more_than_it_uses() {
        for name in ["steady", "storms"] {
            let web = &foreseen(name, 5)[0];
            assert_eq!(web.violation_minutes(), 0.0, "{name}");
            let spare = web.limit_core_hours() / web.used_core_hours();
            assert!((1.0..1.15).contains(&spare), "{name}: {spare}");
        }
    }

    #[test]
    fn a_pod_that_came_behind_its_plan_catches_up() {
        let pods = foreseen("jobs", 7);
        let completions_s: Vec<f64> =
            pods.iter().flat_map(PodTally::completions_s).copied().collect();
        assert!(completions_s.len() > 3, "{completions_s:?}");
        // Alone a job takes 5 s, and up to a stretch more since little may be left over.
        assert!(completions_s.iter().all(|&s| s < 15.0), "{completions_s:?}");
    }
}
