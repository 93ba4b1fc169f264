//! A scenario made of nothing but traces: one pod for each, on a node of its own size.
//!
//! Requests per second become a service whose requests cost 10 ms of CPU on average; cores become
//! replayed usage. Each pod is declared as a careful owner would have it who knows the mean: its
//! request is the mean and its limit twice the mean. The node has twice the sum of the highest
//! 10-second means, in whole cores and at least two, so that what is scarce is limits and not CPU.
//! The run is as long as the longest trace, but at least a minute and at most a day; shorter traces
//! repeat.

use std::collections::BTreeSet;
use std::sync::Arc;

use walras_core::units::Millicores;

use super::file::threads_of;
use super::problem::ScenarioError;
use super::trace::{Trace, Unit};
use super::{NodeSpec, PodSpec, Scenario, Suite};
use crate::load::{LoadSpec, Shape};
use walras_wire::settings::nearest_u64;

/// What a request costs on average.
const COST_MS: f64 = 10.0;
/// How much that varies: as much as it is.
const COST_VARIATION: f64 = 1.0;
/// The time over which a peak has to last to count in full.
const PEAK_S: f64 = 10.0;
/// How many times its peaks a node has.
const ROOM: f64 = 2.0;
/// The smallest node.
const CORES_MIN: f64 = 2.0;
/// How many times its mean a pod may use.
const LIMIT_FACTOR: f64 = 2.0;
const DURATION_MIN_S: f64 = 60.0;
const DURATION_MAX_S: f64 = 86_400.0;

/// Makes a scenario of traces with the names of their pods. A name that is already taken gets a
/// number.
///
/// # Errors
/// Where there is no trace, or they want more than any node has.
pub fn recorded(traces: &[(String, Trace)]) -> Result<Scenario, ScenarioError> {
    if traces.is_empty() {
        return Err(ScenarioError::NoTrace);
    }
    let peaks = traces.iter().map(|(_, trace)| trace.peak_of_mean(PEAK_S) * cores_per_level(trace));
    let cores = (peaks.sum::<f64>() * ROOM).ceil().max(CORES_MIN);
    let capacity = millicores_ceil(cores);
    if capacity > Millicores::LIMIT {
        let (cores, most) = (cores.to_string(), Millicores::LIMIT.get() / 1000);
        return Err(ScenarioError::TooMuch { cores, most });
    }
    let longest_s = traces.iter().map(|(_, trace)| trace.length_s()).fold(0.0, f64::max);
    let duration_s = nearest_u64(longest_s.clamp(DURATION_MIN_S, DURATION_MAX_S));
    let mut taken = BTreeSet::new();
    let mut pods = Vec::with_capacity(traces.len());
    for (name, trace) in traces {
        pods.push(pod(&free_name(&mut taken, name), trace, threads_of(capacity)));
    }
    Ok(Scenario {
        name: "traces".to_owned(),
        about: "Recorded load, declared by its means.".to_owned(),
        suite: Suite::Other,
        seed: 1,
        duration_s: u32::try_from(duration_s).unwrap_or(u32::MAX),
        node: NodeSpec::new(capacity),
        nodes: 1,
        pods,
    })
}

fn pod(name: &str, trace: &Trace, threads: f64) -> PodSpec {
    let shape = Shape::Series { levels: Arc::clone(&trace.levels), step_s: trace.step_s };
    let load = match trace.unit {
        Unit::Requests => LoadSpec::Service {
            rate: shape,
            cost_ms: COST_MS,
            cost_variation: COST_VARIATION,
            threads,
        },
        Unit::Cores => LoadSpec::Usage { cores: shape, threads },
    };
    let mean_cores = trace.mean() * cores_per_level(trace);
    // A trace of nothing still needs something to be declared.
    let request = millicores_ceil(mean_cores).max(Millicores::new(1));
    let limit = millicores_ceil(mean_cores * LIMIT_FACTOR).max(Millicores::new(1));
    PodSpec { limit: Some(limit), ..PodSpec::new(name, load, request) }
}

/// What one of a trace's levels is in cores.
fn cores_per_level(trace: &Trace) -> f64 {
    match trace.unit {
        Unit::Requests => COST_MS / 1000.0,
        Unit::Cores => 1.0,
    }
}

/// The name, with a number where it is taken.
fn free_name(taken: &mut BTreeSet<String>, name: &str) -> String {
    let mut free = name.to_owned();
    let mut number = 1_u32;
    while !taken.insert(free.clone()) {
        number += 1;
        free = format!("{name}-{number}");
    }
    free
}

/// Cores in thousandths. What is above by less than a millionth is rounding and no millicore more.
fn millicores_ceil(cores: f64) -> Millicores {
    Millicores::new(nearest_u64((cores * 1000.0 - 1e-6).ceil().max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(levels: &[f64], step_s: f64, unit: Unit) -> Trace {
        Trace { levels: Arc::from(levels), step_s, unit }
    }

    #[test]
    fn the_node_has_twice_the_peaks_and_pods_are_declared_by_their_means() {
        // The best ten seconds have 300 requests/s on average, which is 3 cores.
        let mut levels = vec![100.0; 90];
        levels.extend([300.0; 10]);
        let web = trace(&levels, 1.0, Unit::Requests);
        let vm = trace(&[0.2, 0.7], 300.0, Unit::Cores);
        let scenario = recorded(&[("web".to_owned(), web), ("web".to_owned(), vm)]).expect("fine");
        // 2 x (3 + 0.7) = 7.4 cores, in whole cores.
        assert_eq!(scenario.node.capacity, Millicores::from_cores(8));
        assert_eq!(scenario.duration_s, 600);
        let declared: Vec<String> = scenario
            .pods
            .iter()
            .map(|pod| format!("{} {} {:?}", pod.name, pod.request, pod.limit))
            .collect();
        // The means are 120 requests/s of 10 ms, and 0.45 cores.
        assert_eq!(
            declared,
            ["web 1200m Some(Millicores(2400))", "web-2 450m Some(Millicores(900))"]
        );
        assert!(matches!(scenario.pods[0].load, LoadSpec::Service { threads: 8.0, .. }));
        assert!(matches!(scenario.pods[1].load, LoadSpec::Usage { .. }));
    }

    #[test]
    fn small_and_short_traces_get_two_cores_and_a_minute() {
        let idle = trace(&[0.0], 1.0, Unit::Requests);
        let scenario = recorded(&[("idle".to_owned(), idle)]).expect("fine");
        assert_eq!(scenario.node.capacity, Millicores::from_cores(2));
        assert_eq!(scenario.duration_s, 60);
        assert_eq!(scenario.pods[0].request, Millicores::new(1));
    }

    #[test]
    fn what_no_node_can_run_is_refused() {
        assert_eq!(
            recorded(&[]).expect_err("nothing").to_string(),
            "there is no trace; give at least one"
        );
        let huge = trace(&[600_000.0], 300.0, Unit::Cores);
        assert_eq!(
            recorded(&[("huge".to_owned(), huge)]).expect_err("too much").to_string(),
            "the traces want a node of 1200000 cores; a node has at most 1000000"
        );
    }
}
