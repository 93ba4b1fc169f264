//! What happened to a node, and when, as a story that can be fed again.
//!
//! The generators of this crate make facts, property tests and benchmarks feed them.

use walras_core::node::{Fact, Node, Outcome};
use walras_core::profile::Profile;
use walras_core::units::{Millicores, Moment};

/// One thing that happened, and what the clock said.
#[derive(Clone, Debug, PartialEq)]
pub struct Happened {
    /// When.
    pub at: Moment,
    /// What.
    pub fact: Fact,
}

/// A node as it was made, and everything that happened to it.
#[derive(Clone, Debug)]
pub struct Story {
    /// The capacity it was made with.
    pub capacity: Millicores,
    /// The profile it was made with.
    pub profile: Profile,
    /// What happened, in order.
    pub facts: Vec<Happened>,
}

/// Tells the node what happened; a tick answers.
pub fn feed(node: &mut Node, happened: &Happened) -> Option<Outcome> {
    node.tell(happened.fact.clone(), happened.at)
}

// === impl Story ===

impl Story {
    /// The node before anything happened.
    #[must_use]
    pub fn node(&self) -> Node {
        Node::new(self.capacity, self.profile.clone())
    }
}
