//! Rules that choose a node: what people use today, and the Brain.
//!
//! Each gives every node that has room a score; of the best ones a run takes one at random, as
//! kube-scheduler does. Each file states the rule it follows and where that is documented.

mod brain;
mod kube;
mod oracle;
mod random;
mod trimaran;

pub use brain::Brain;
pub(in crate::place) use brain::expected;
pub use kube::{Allocated, Balanced, Both, Preference};
pub use oracle::Oracle;
pub use random::Random;
pub use trimaran::{LoadVariation, TargetLoad};

use super::cluster::Cluster;
use super::pod::Pod;
use super::town::Town;

/// What a rule may look at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The town, of which only the oracle looks at more than the nodes' sizes.
    pub town: &'a Town,
    /// The nodes.
    pub cluster: &'a Cluster,
    /// The pod that is to be placed.
    pub pod: &'a Pod,
    /// Now.
    pub step: usize,
}

/// Chooses nodes.
pub trait Rule {
    /// A score for each candidate; the highest is chosen.
    fn score(&mut self, view: &View<'_>, candidates: &[usize], scores: &mut Vec<f64>);
}
