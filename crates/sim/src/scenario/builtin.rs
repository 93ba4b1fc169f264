//! The scenarios that come with the simulator, as a user would write them.

use std::io;
use std::path::Path;

use super::{Scenario, parse};

/// A scenario that comes with the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// What it is called, here and in its file.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! builtins {
    ($($name:literal),* $(,)?) => {
        const BUILTINS: &[Builtin] = &[$(Builtin {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*];
    };
}

builtins![
    "steady",
    "bursty",
    "periodic",
    "ramp",
    "storms",
    "steady-train",
    "bursty-train",
    "periodic-train",
    "ramp-train",
    "storms-train",
    "crowd-train",
    "neighbour-train",
    "rollout-train",
    "idle",
    "stampede",
    "tenants",
    "greedy",
    "twins",
    "jobs",
    "fleet",
    "packed",
    "packed-few",
    "busy",
    "dense-4",
    "dense-8",
    "dense-16",
    "relay",
    "spikes",
    "landlord",
    "squatter",
    "risers",
    "refill",
    "mix",
    "unmanaged",
];

/// All of them: those of one service for judging, the same for tuning, those of many pods, and
/// nodes on which the CPU that a busy pod needs is promised to others.
#[must_use]
pub const fn builtin() -> &'static [Builtin] {
    BUILTINS
}

// === impl Builtin ===

impl Builtin {
    /// The scenario.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        let no_files = |_: &Path| Err(io::Error::other("a built-in scenario has no other files"));
        parse(self.text.as_bytes(), Path::new(self.name), &no_files)
            .expect("the tests read every built-in scenario")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::load::LoadSpec;
    use crate::scenario::Suite;
    use walras_core::units::Millicores;

    #[test]
    fn each_is_a_scenario_of_its_name_that_says_what_it_shows() {
        for builtin in builtin() {
            let scenario = builtin.scenario();
            assert_eq!(scenario.name, builtin.name);
            assert!(scenario.about.ends_with('.'), "{}: {}", builtin.name, scenario.about);
        }
    }

    #[test]
    fn requests_fit_on_the_node_as_a_scheduler_would_have_it() {
        for builtin in builtin() {
            let scenario = builtin.scenario();
            let requests: Millicores = scenario.pods.iter().map(|pod| pod.request).sum();
            assert!(requests <= scenario.node.capacity, "{}: {requests}", builtin.name);
        }
    }

    #[test]
    fn every_pod_says_its_request_and_limit_and_a_min_only_where_it_is_another() {
        for builtin in builtin() {
            let scenario = builtin.scenario();
            let said = |key: &str| {
                builtin.text.lines().filter(|line| line.starts_with(&format!("{key} ="))).count()
            };
            let pods = builtin.text.lines().filter(|line| *line == "[[pod]]").count();
            assert_eq!((said("request"), said("limit")), (pods, pods), "{}", builtin.name);
            for pod in &scenario.pods {
                assert!(pod.min != Some(pod.request), "{}: {}", builtin.name, pod.name);
            }
        }
    }

    #[test]
    fn what_is_tuned_on_differs_in_seed_and_load_from_what_is_judged_by() {
        let scenarios: Vec<Scenario> = builtin().iter().map(Builtin::scenario).collect();
        let of = |suite| scenarios.iter().filter(move |scenario| scenario.suite == suite);
        let load = |scenario: &Scenario| scenario.pods[0].load.clone();
        for test in of(Suite::Test) {
            let name = format!("{}-train", test.name);
            let train = of(Suite::Train).find(|train| train.name == name).expect("its counterpart");
            assert!(train.seed != test.seed && load(train) != load(test), "{name}");
        }
        // Crowded nodes are tuned on, too, and judged by those of no suite.
        let crowded = |suite| of(suite).filter(|scenario| scenario.pods.len() > 1).count();
        assert_eq!((crowded(Suite::Test), crowded(Suite::Train)), (0, 3));
    }

    #[test]
    fn scenarios_of_one_service_can_be_compared() {
        for scenario in builtin().iter().map(Builtin::scenario) {
            if scenario.suite == Suite::Other || scenario.pods.len() > 1 {
                continue;
            }
            assert_eq!((scenario.duration_s, scenario.pods.len()), (3600, 1));
            assert_eq!(scenario.node.capacity, Millicores::from_cores(16));
            let pod = &scenario.pods[0];
            assert_eq!(
                (pod.request, pod.limit),
                (Millicores::new(1000), Some(Millicores::new(2000)))
            );
            let LoadSpec::Service { rate, cost_ms, .. } = &pod.load else {
                panic!("{} is no service", scenario.name);
            };
            let mean =
                (0..3600).map(|second| rate.level(second, scenario.seed)).sum::<f64>() / 3600.0;
            assert_eq!(*cost_ms, 10.0);
            assert!((135.0..165.0).contains(&mean), "{}: {mean}", scenario.name);
        }
    }

    #[test]
    fn seeds_are_used_once() {
        let mut seeds = BTreeSet::new();
        for scenario in builtin().iter().map(Builtin::scenario) {
            assert!(seeds.insert(scenario.seed), "{}", scenario.name);
        }
    }
}
