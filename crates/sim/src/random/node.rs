//! Random nodes for closed-loop tests: of any size, full or not, with pods of any right, limit,
//! priority and load, that come and go.
//!
//! Mostly small ones, since what is wrong shows with few pods; sometimes a node of 64 cores or one
//! with 110 pods. Many are full by requests and idle by use, which is the commonest node there is.
//!
//! Always: the same seed gives the same node.

use std::sync::Arc;

use walras_core::rng::Rng;
use walras_core::units::{Millicores, Weight};

use super::draw::{one_of, percent, spread, within};
use crate::load::{LoadSpec, Shape};
use crate::scenario::{NodeSpec, PodSpec, Scenario, Suite};

/// A node drawn from `seed`.
#[must_use]
pub fn node(seed: u64) -> Scenario {
    let mut rng = Rng::from_seed(seed);
    let rng = &mut rng;
    let node_cores = one_of(rng, &[2, 2, 2, 3, 4, 4, 4, 6, 8, 8, 16, 64]);
    let count = match rng.below(20) {
        0 => within(rng, 20, 110),
        1..=4 => within(rng, 8, 20),
        _ => within(rng, 1, 8),
    };
    let duration_s = u32::try_from(within(rng, 12, 30)).unwrap_or(12) * 10;
    // How much of the node all requests together are, and how busy its pods tend to be.
    let requested = one_of(rng, &[30, 70, 95, 100, 100, 100, 150]);
    let busy = one_of(rng, &[10, 30, 60, 100]);
    let mut pods: Vec<PodSpec> = (0..count)
        .map(|place| pod(rng, &format!("pod-{place}"), node_cores, busy, duration_s))
        .collect();
    share_requests(node_cores * 10 * requested, &mut pods);
    for pod in &mut pods {
        declare(rng, pod, node_cores);
    }
    Scenario {
        name: format!("random-{seed}"),
        about: "random".to_owned(),
        suite: Suite::Other,
        seed,
        duration_s,
        node: NodeSpec::new(Millicores::new(node_cores * 1000)),
        nodes: 1,
        pods,
    }
}

fn pod(rng: &mut Rng, name: &str, node_cores: u64, busy: u64, duration_s: u32) -> PodSpec {
    let share = Millicores::new(within(rng, 1, 100));
    let load = if percent(rng, busy) { load(rng, node_cores, duration_s) } else { idle(rng) };
    let mut pod = PodSpec::new(name, load, share);
    if percent(rng, 20) {
        pod.start_s = number(within(rng, 1, u64::from(duration_s) * 3 / 4));
    }
    if percent(rng, 15) {
        let left = u64::from(duration_s);
        pod.stop_s = Some(pod.start_s + number(within(rng, 5, left)));
    }
    pod
}

/// Requests were drawn as shares; together they become `total` millicores.
fn share_requests(total: u64, pods: &mut [PodSpec]) {
    let shares: u64 = pods.iter().map(|pod| pod.request.get()).sum();
    for pod in pods {
        pod.request = Millicores::new((pod.request.get() * total / shares.max(1)).max(1));
    }
}

fn declare(rng: &mut Rng, pod: &mut PodSpec, node_cores: u64) {
    let request = pod.request.get();
    pod.limit = match rng.below(10) {
        0..=3 => None,
        4..=5 => Some(pod.request.max(Millicores::new(10))),
        6..=8 => Some(Millicores::new(within(rng, request.max(10), request.max(100) * 4))),
        _ => Some(Millicores::new(within(rng, request.max(10), node_cores * 1500))),
    };
    if percent(rng, 10) {
        pod.min = Some(Millicores::new(spread(rng, node_cores * 500)));
    }
    if percent(rng, 20) {
        let thousandths = one_of(rng, &[100, 500, 2000, 10_000]);
        pod.weight = Weight::from_thousandths(thousandths).unwrap_or(Weight::ONE);
    }
}

fn idle(rng: &mut Rng) -> LoadSpec {
    let level = number(within(rng, 0, 20)) / 1000.0;
    LoadSpec::Usage { cores: Shape::Constant { level }, threads: 1.0 }
}

fn load(rng: &mut Rng, node_cores: u64, duration_s: u32) -> LoadSpec {
    let threads = one_of(rng, &[1, 2, 4, node_cores, 4 * node_cores]);
    let peak = number(within(rng, 1, node_cores * 100)) / 100.0;
    match rng.below(10) {
        0..=3 => {
            let cost_ms = number(one_of(rng, &[1, 3, 10, 30]));
            let rate = shape(rng, peak.min(number(threads)) * 0.8 * 1000.0 / cost_ms, duration_s);
            let cost_variation = one_of(rng, &[0.0, 0.5, 1.0]);
            LoadSpec::Service { rate, cost_ms, cost_variation, threads: number(threads) }
        }
        4..=5 => LoadSpec::Batch { work_core_s: None, threads: number(threads), every_s: None },
        6 => LoadSpec::Batch {
            work_core_s: Some(peak * number(within(rng, 1, 60))),
            threads: number(threads),
            every_s: Some(number(within(rng, 10, 120))),
        },
        _ => {
            let cores = shape(rng, peak.min(number(threads)), duration_s);
            LoadSpec::Usage { cores, threads: number(threads) }
        }
    }
}

fn shape(rng: &mut Rng, peak: f64, duration_s: u32) -> Shape {
    match rng.below(6) {
        0 => Shape::Constant { level: peak },
        1 => {
            Shape::Periodic { low: peak / 10.0, high: peak, period_s: number(within(rng, 10, 120)) }
        }
        2 => Shape::Steps { low: 0.0, high: peak, every_s: number(within(rng, 1, 40)) },
        3 => Shape::Storms {
            base: peak / 20.0,
            peak,
            per_hour: number(within(rng, 20, 200)),
            shortest_s: 1.0,
            longest_s: 20.0,
        },
        4 => {
            // It sleeps, and wants everything from one second to the next.
            let wakes = within(rng, 1, u64::from(duration_s));
            let levels: Vec<f64> =
                (0..u64::from(duration_s)).map(|s| if s < wakes { 0.0 } else { peak }).collect();
            Shape::Series { levels: Arc::from(levels), step_s: 1.0 }
        }
        _ => Shape::Ramp { from: 0.0, to: peak, over_s: number(u64::from(duration_s)) },
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn number(whole: u64) -> f64 {
    whole as f64
}
