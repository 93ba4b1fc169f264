//! Seeded nodes, pods and untrained models, for tests, benchmarks and the checks of a loaded model.
//!
//! Nothing here is ever served.

use walras_core::rng::Rng;

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
