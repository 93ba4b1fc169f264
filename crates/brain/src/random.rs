//! Seeded nodes, pods and untrained models, for tests, benchmarks and the checks of a loaded model.
//!
//! Nothing here is ever served.

use std::collections::BTreeMap;

use walras_core::rng::Rng;

use crate::events::{Event, Outcome};
use crate::features::{Criticality, FEATURES, NodeFacts, NodeFeature, PodFacts, Workload};
use crate::forest::{Forest, Link, Node, Tree};
use crate::mlp::{Mlp, Weights};
use crate::number::narrow;

/// A node that measured about nine tenths of its features, each somewhere in its range.
pub fn node(rng: &mut Rng) -> NodeFacts {
    let mut facts = NodeFacts::UNKNOWN;
    for feature in NodeFeature::ALL {
        let about = feature.about();
        let value = about.low + (about.high - about.low) * rng.unit();
        if rng.below(10) > 0 {
            facts = facts.with(feature, value);
        }
    }
    facts
}

/// Many of them.
pub fn nodes(rng: &mut Rng, count: usize) -> Vec<NodeFacts> {
    (0..count).map(|_| node(rng)).collect()
}

/// A pod of any kind.
pub fn pod(rng: &mut Rng) -> PodFacts {
    PodFacts {
        cpu_milli: 10 + rng.below(8000),
        memory_bytes: (16 << 20) + rng.below(16 << 30),
        workload: Workload::ALL[index(rng, Workload::ALL.len())],
        criticality: Criticality::ALL[index(rng, Criticality::ALL.len())],
    }
}

/// A perceptron with weights of about the usual size.
pub fn mlp(rng: &mut Rng) -> Mlp {
    let mut weights = Weights::zero();
    for part in weights.parts_mut() {
        for weight in part {
            *weight = narrow(rng.unit() - 0.5);
        }
    }
    Mlp::new(weights)
}

/// Trees with so many levels of splits at most, some of whose leaves come early.
pub fn forest(rng: &mut Rng, trees: usize, depth: usize) -> Forest {
    let grown = (0..trees).map(|_| {
        let mut nodes = Vec::new();
        grow(rng, depth, &mut nodes);
        Tree::new(nodes).expect("children are put behind their parents")
    });
    let grown = grown.collect();
    Forest::new(grown, 0.5, Link::Identity)
}

/// Placements in a made-up cluster, one a second: what became of a pod depends on how loaded its
/// node was with what the pod needs, and on luck.
pub fn events(rng: &mut Rng, count: usize, nodes_each: usize) -> Vec<Event> {
    let placed = |time_ms: i64| {
        let pod = pod(rng);
        let nodes: BTreeMap<String, NodeFacts> =
            (0..nodes_each).map(|place| (format!("node-{place}"), busy_node(rng))).collect();
        let chosen = format!("node-{}", index(rng, nodes_each));
        let outcome = outcome(rng, &pod, &nodes[&chosen]);
        let id = format!("event-{time_ms}");
        Event { time_ms, id, pod, nodes, chosen, outcome }
    };
    (0..i64::try_from(count).unwrap_or(i64::MAX)).map(|second| second * 1000).map(placed).collect()
}

/// A node whose features rise and fall together, as those of a busy machine do.
fn busy_node(rng: &mut Rng) -> NodeFacts {
    let busy = rng.unit();
    let mut facts = NodeFacts::UNKNOWN;
    for feature in NodeFeature::ALL {
        let about = feature.about();
        let share = if about.load { 0.6 * busy + 0.4 * rng.unit() } else { rng.unit() };
        let share = if feature == NodeFeature::IsSpotInstance { share.round() } else { share };
        // Counters of the hardware are rare.
        let rare = matches!(
            feature,
            NodeFeature::MemoryBandwidthGbps
                | NodeFeature::L3CacheMissRate
                | NodeFeature::L3CacheOccupancyMb
        );
        if rng.below(10) >= if rare { 5 } else { 0 } {
            facts = facts.with(feature, about.low + (about.high - about.low) * share);
        }
    }
    facts
}

fn outcome(rng: &mut Rng, pod: &PodFacts, node: &NodeFacts) -> Outcome {
    let share = |feature: NodeFeature| node.get_or_missing(feature) / feature.about().high;
    let needed = match pod.workload {
        Workload::CpuBound => share(NodeFeature::CpuUtilization),
        Workload::MemoryBound => share(NodeFeature::MemoryUtilization),
        Workload::IoBound => share(NodeFeature::DiskIoWaitMs),
        Workload::Balanced | Workload::Unknown => {
            f64::midpoint(share(NodeFeature::CpuUtilization), share(NodeFeature::MemoryUtilization))
        }
    };
    let risk = ((needed - 0.6) * 3.0).clamp(0.02, 0.98);
    if rng.unit() >= risk {
        return Outcome::Running;
    }
    match rng.below(4) {
        0 => Outcome::OomKilled,
        1 => Outcome::Evicted,
        2 => Outcome::Restarted,
        _ => Outcome::Terminated,
    }
}

fn grow(rng: &mut Rng, levels: usize, nodes: &mut Vec<Node>) -> u32 {
    let place = nodes.len();
    let number = |place: usize| u32::try_from(place).expect("a small tree");
    nodes.push(Node::Leaf(narrow((rng.unit() - 0.5) / 32.0)));
    if levels > 0 && rng.below(16) > 0 {
        let left = grow(rng, levels - 1, nodes);
        let right = grow(rng, levels - 1, nodes);
        nodes[place] = Node::Split {
            feature: u8::try_from(index(rng, FEATURES)).expect("few features"),
            // Few cuts, as histograms have.
            cut: narrow(rng.unit() * 64.0).floor() / 64.0,
            missing_left: rng.below(2) == 0,
            left,
            right,
        };
    }
    number(place)
}

fn index(rng: &mut Rng, count: usize) -> usize {
    let below = rng.below(u64::try_from(count).expect("a small count"));
    usize::try_from(below).expect("below a small count")
}
