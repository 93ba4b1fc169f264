//! Who plays: five workloads of different character, as one scenario.
//!
//! The same description is run as real processes (`load`) and in the simulator (`simulate`). Sizes
//! are shares of what there is, so that any machine shows the same. The static limits are of the
//! kind people set: generous for what is quiet, and together 140 % of what there is; the requests
//! are 72 % of it. `web` has 25 % and takes 21 % on average, but wants 45 % for two seconds out of
//! five. `sleeper` has a right to 20 % and does nothing for six seconds out of eight, then it wants
//! all of its right at once. If everybody uses all that the limits allow, a fifth of the machine is
//! still idle. `batch` and `greedy` are said to be batch work, as their owners would.

use walras_core::claim::Nature;
use walras_core::units::{Millicores, Weight};
use walras_sim::load::{LoadSpec, Shape};
use walras_sim::scenario::{NodeSpec, PodSpec, Scenario, Suite};

/// The bursty service whose latency is measured.
pub(super) const WEB: &str = "web";
/// The job whose progress is measured.
pub(super) const BATCH: &str = "batch";
/// The workload that wants its right back again and again.
pub(super) const SLEEPER: &str = "sleeper";
/// The neighbour that takes all it can get.
pub(super) const GREEDY: &str = "greedy";

/// Both phases and every run get the same arrivals.
const SEED: u64 = 7;
/// The CPU that one request takes.
const COST_MS: f64 = 5.0;
/// What `web` wants in each second, as a share of what there is; again and again.
const WEB_WANTS: [f64; 5] = [0.05, 0.05, 0.45, 0.45, 0.05];

/// What `sleeper` wants in each second, likewise: next to nothing, and then what it has a right to.
const SLEEPER_WANTS: [f64; 8] = [0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.2, 0.2];

/// The workloads on a node of this size, for so long.
pub(super) fn scenario(capacity: Millicores, seconds: u32) -> Scenario {
    let all = cores(capacity);
    let requests_a_second = WEB_WANTS.map(|share| share * all * 1000.0 / COST_MS);
    let web = LoadSpec::Service {
        rate: Shape::Series { levels: requests_a_second.into(), step_s: 1.0 },
        cost_ms: COST_MS,
        cost_variation: 0.0,
        threads: (4.0 * all).ceil(),
    };
    let sleeper = LoadSpec::Usage {
        cores: Shape::Series { levels: SLEEPER_WANTS.map(|share| share * all).into(), step_s: 1.0 },
        threads: (0.4 * all).ceil(),
    };
    let part = |percent: u64| Millicores::new(capacity.get() * percent / 100);
    let pods = vec![
        pod("steady", usage(0.1 * all), (part(12), part(40)), 2),
        pod(WEB, web, (part(25), part(25)), 8),
        as_batch(pod(BATCH, endless(all.ceil()), (part(10), part(25)), 2)),
        pod(SLEEPER, sleeper, (part(20), part(30)), 1),
        as_batch(pod(GREEDY, endless(all.ceil()), (part(5), part(20)), 1)),
    ];
    Scenario {
        name: "demo".to_owned(),
        about: "Five workloads of different character.".to_owned(),
        suite: Suite::Other,
        seed: SEED,
        duration_s: seconds,
        node: NodeSpec::new(capacity),
        nodes: 1,
        pods,
    }
}

/// As a number of cores.
pub(super) fn cores(amount: Millicores) -> f64 {
    u32::try_from(amount.get()).map_or(f64::MAX, f64::from) / 1000.0
}

/// One workload, with its request and its limit.
fn pod(name: &str, load: LoadSpec, asks: (Millicores, Millicores), weight: u32) -> PodSpec {
    let (request, limit) = asks;
    PodSpec {
        limit: Some(limit),
        weight: Weight::from_thousandths(weight * 1000).unwrap_or(Weight::ONE),
        ..PodSpec::new(name, load, request)
    }
}

fn as_batch(pod: PodSpec) -> PodSpec {
    PodSpec { nature: Nature::Batch, ..pod }
}

/// Always the same.
fn usage(level: f64) -> LoadSpec {
    LoadSpec::Usage { cores: Shape::Constant { level }, threads: (2.0 * level).ceil() }
}

/// As much as it can get.
fn endless(threads: f64) -> LoadSpec {
    LoadSpec::Batch { work_core_s: None, threads, every_s: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_limits_throttle_the_service_while_some_of_the_machine_is_idle() {
        for capacity in [1, 2, 8].map(Millicores::from_cores) {
            let scenario = scenario(capacity, 25);
            let most_used = |pod: &PodSpec| {
                let limit = cores(pod.limit.unwrap());
                match &pod.load {
                    LoadSpec::Usage { cores, .. } => cores.level(0, 0).min(limit),
                    LoadSpec::Service { .. } | LoadSpec::Batch { .. } => limit,
                }
            };
            let used: f64 = scenario.pods.iter().map(most_used).sum();
            assert!(used < 0.85 * cores(capacity), "{used}");
            let mean = WEB_WANTS.iter().sum::<f64>() / 5.0;
            assert!(mean < 0.25 && WEB_WANTS[2] > 0.25);
        }
    }
}
