//! The Brain: a model's score of what nodes measured of themselves.
//!
//! Pods that came since a node measured itself count by what they request, as `walras scheduler`
//! counts them.

use std::sync::Arc;

use walras_brain::features::{NodeFacts, NodeFeature};
use walras_brain::model::Model;
use walras_brain::verdict::Verdict;

use super::{Rule, View};
use crate::place::cluster::{Node, as_number};
use crate::place::interference::Shape;
use crate::place::town::Town;

/// Chooses by a model.
#[derive(Clone, Debug)]
pub struct Brain {
    model: Arc<Model>,
    facts: Vec<NodeFacts>,
    verdicts: Vec<Verdict>,
}

impl Brain {
    /// With a model.
    #[must_use]
    pub const fn new(model: Arc<Model>) -> Self {
        Self { model, facts: Vec::new(), verdicts: Vec::new() }
    }
}

impl Rule for Brain {
    fn score(&mut self, view: &View<'_>, candidates: &[usize], scores: &mut Vec<f64>) {
        self.facts.clear();
        self.facts.extend(candidates.iter().map(|&place| {
            expected(view.town, &view.cluster.nodes[place], &view.town.sites[place].shape)
        }));
        self.verdicts.clear();
        self.verdicts.resize(self.facts.len(), Verdict::NO_MODEL);
        self.model.score(&view.pod.facts(), &self.facts, &mut self.verdicts);
        scores.clear();
        scores.extend(self.verdicts.iter().map(|verdict| f64::from(verdict.score)));
    }
}

/// What a node measured, and what came since.
pub(in crate::place) fn expected(town: &Town, node: &Node, shape: &Shape) -> NodeFacts {
    let (mut cpu, mut memory) = (0, 0);
    for guest in node.guests.iter().filter(|guest| !guest.is_seen) {
        cpu += town.pods[guest.pod].cpu_milli;
        memory += town.pods[guest.pod].memory_mib;
    }
    let more = |facts: NodeFacts, feature: NodeFeature, share: f64| match facts.get(feature) {
        Some(value) if share > 0.0 => facts.with(feature, (value + share).min(1.0)),
        Some(_) | None => facts,
    };
    let facts =
        more(node.facts, NodeFeature::CpuUtilization, as_number(cpu) / (shape.cores * 1000.0));
    more(facts, NodeFeature::MemoryUtilization, as_number(memory) / shape.memory_mib)
}
