//! The latency target of a service: given, or derived from how the service would run alone.
//!
//! A target belongs to a service and not to the luck of one node, so all nodes of a scenario have
//! the same ones, derived from the loads of the first. Called once per scenario by whoever runs it
//! more than once.

use std::num::NonZeroUsize;

use crate::crew;
use crate::load::{Histogram, Load};
use crate::machine::{Machine, SLICE_MS};
use crate::run::pod_seed;
use crate::scenario::Scenario;

/// A service's target is this many times the latency it would have alone and without limits.
const SLO_FACTOR: f64 = 2.0;

/// The node whose loads targets are derived from.
const NODE: u32 = 0;

/// The scenario with every service's target written into it, so that nobody derives it again.
#[must_use]
pub fn with_targets(scenario: &Scenario, threads: NonZeroUsize) -> Scenario {
    let places: Vec<usize> = (0..scenario.pods.len()).collect();
    let targets = crew::all_done(&places, threads, &|&place| slo_ms(scenario, place));
    let mut scenario = scenario.clone();
    for (pod, target) in scenario.pods.iter_mut().zip(targets) {
        pod.slo_ms = target;
    }
    scenario
}

/// The target of the pod at a place; none where it is no service, or would answer nobody.
#[must_use]
pub fn slo_ms(scenario: &Scenario, place: usize) -> Option<f64> {
    let pod = &scenario.pods[place];
    if pod.slo_ms.is_some() {
        return pod.slo_ms;
    }
    let load = Load::new(pod.load.clone(), None, pod_seed(scenario, NODE, place));
    if !load.is_service() {
        return None;
    }
    let mut alone = Alone::new(load, pod.cores_on(&scenario.node));
    for slice in 0..scenario.duration_s * (1000 / SLICE_MS) {
        alone.slice(f64::from(slice * SLICE_MS));
    }
    alone.latencies.quantile_ms(0.99).map(|p99_ms| p99_ms * SLO_FACTOR)
}

/// A service that has a node for itself.
struct Alone {
    load: Load,
    machine: Machine,
    latencies: Histogram,
}

impl Alone {
    fn new(load: Load, cores: f64) -> Self {
        Self { load, machine: Machine::new(cores, 1), latencies: Histogram::default() }
    }

    fn slice(&mut self, at_ms: f64) {
        let mut got = [0.0];
        self.machine.run_slice(&[self.load.want(at_ms)], &mut got);
        let cores = self.machine.cores();
        let ran = self.load.run(at_ms, got[0], cores, &mut self.latencies);
        self.machine.gave_back(0, got[0] - ran);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::builtin;

    #[test]
    fn services_get_a_target_jobs_do_not_and_what_is_given_stays() {
        let fleet = builtin().iter().find(|builtin| builtin.name == "fleet").expect("built in");
        let mut scenario = fleet.scenario();
        scenario.duration_s = 60;
        scenario.pods[0].slo_ms = Some(7.0);
        let settled = with_targets(&scenario, NonZeroUsize::MIN);
        assert_eq!(settled.pods[0].slo_ms, Some(7.0));
        for (place, pod) in settled.pods.iter().enumerate() {
            let is_service = pod.name.starts_with(|first| "saeb".contains(first));
            assert_eq!(pod.slo_ms.is_some(), is_service, "{}", pod.name);
            assert_eq!(pod.slo_ms, slo_ms(&scenario, place), "{}", pod.name);
        }
    }
}
