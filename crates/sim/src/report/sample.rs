//! Hand-made results for the tests of the report.

use walras_core::units::Millicores;

use crate::contest::Standing;
use crate::load::{Histogram, LoadSpec, Shape};
use crate::measure::{Figures, PodTally};
use crate::recording::{Point, Recording, Series};
use crate::scenario::{NodeSpec, PodSpec, Scenario, Suite};

/// A scenario of four cores with pods of these names.
pub(super) fn scenario(names: &[&str]) -> Scenario {
    Scenario {
        name: "sample".to_owned(),
        about: "A sample.".to_owned(),
        suite: Suite::Other,
        seed: 7,
        duration_s: 120,
        node: NodeSpec::new(Millicores::from_cores(4)),
        nodes: 1,
        pods: names.iter().map(|name| pod(name)).collect(),
    }
}

/// How a policy did, with a few latencies around 10 ms.
pub(super) fn standing(policy: &'static str, core_hours: f64, minutes: f64) -> Standing {
    let mut latencies = Histogram::default();
    for latency_ms in [8.0, 9.0, 10.0, 11.0, 40.0] {
        latencies.record(latency_ms);
    }
    let figures = Figures {
        core_hours,
        slo_violation_minutes: minutes,
        slack_ratio: 0.25,
        throttled_period_ratio: 0.02,
        latency_p99_ms: Some(40.0),
        jain_index: 1.0,
        ..Figures::default()
    };
    let tuned = policy == "autothrottle";
    let other = Figures { core_hours: core_hours / 2.0, ..figures.clone() };
    Standing {
        policy,
        setting: tuned.then(|| "target 0.02".to_owned()),
        others: if tuned { vec![("target 0.3".to_owned(), other)] } else { Vec::new() },
        figures,
        latencies,
        first_node: vec![PodTally::new("web", 4.0, Some(30.0))],
    }
}

/// Two minutes of a pod that uses more and more under a limit of one core.
pub(super) fn recording(places: &[usize], prices: &[f64]) -> Recording {
    let point = |second: u32| Point {
        offered_cores: f64::from(second) / 60.0,
        used_cores: (f64::from(second) / 60.0).min(1.0),
        limit_cores: Some(1.0),
        request_cores: 0.5,
        throttled_periods: if second > 60 { 5 } else { 0 },
    };
    let series = |place: &usize| Series { place: *place, points: (1..=120).map(point).collect() };
    Recording { step_s: 1, pods: places.iter().map(series).collect(), prices: prices.to_vec() }
}

fn pod(name: &str) -> PodSpec {
    let load = LoadSpec::Usage { cores: Shape::Constant { level: 1.0 }, threads: 4.0 };
    let limit = Some(Millicores::from_cores(1));
    PodSpec { limit, ..PodSpec::new(name, load, Millicores::new(500)) }
}
