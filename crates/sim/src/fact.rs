//! Everything that can happen to a node, as plain data that can be recorded and fed again.
//!
//! The generators of this crate make facts, property tests and benchmarks feed them. Always: the
//! same facts, fed to equal nodes, give equal outcomes.

use walras_core::demand::Sample;
use walras_core::node::{Loop, MachineSample, Node, Outcome, PodFacts};
use walras_core::profile::Profile;
use walras_core::units::{Millicores, Moment, PodUid};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A pod arrived, or came back.
    PodAdded {
        /// What is known of it.
        pod: PodFacts,
        /// When.
        now: Moment,
    },
    /// A pod is gone.
    PodRemoved {
        /// The pod.
        uid: PodUid,
    },
    /// A pod's counters were read.
    Sampled {
        /// The pod.
        uid: PodUid,
        /// What was read.
        sample: Sample,
    },
    /// The machine's counters were read.
    MachineSampled {
        /// What was read.
        sample: MachineSample,
    },
    /// The node has another capacity.
    CapacityChanged {
        /// From now on.
        capacity: Millicores,
    },
    /// A pod was found to miss its latency target, or to meet it again.
    LatencyJudged {
        /// The pod.
        uid: PodUid,
        /// Whether it misses.
        missed: bool,
    },
    /// The limit last decided for a pod was seen to be in force.
    TookEffect {
        /// The pod.
        uid: PodUid,
        /// Since when.
        at: Moment,
    },
    /// A pod was found to have another limit than the one last decided.
    LimitFound {
        /// The pod.
        uid: PodUid,
        /// What is in force.
        limit: Millicores,
    },
    /// A loop ticked.
    Ticked {
        /// Which one.
        tick: Loop,
        /// What the clock said.
        now: Moment,
    },
}

/// A node as it was made, and everything that happened to it.
#[derive(Clone, Debug)]
pub struct Story {
    /// The capacity it was made with.
    pub capacity: Millicores,
    /// The profile it was made with.
    pub profile: Profile,
    /// What happened, in order.
    pub facts: Vec<Fact>,
}

/// Tells the node what happened; a tick answers.
pub fn feed(node: &mut Node, fact: &Fact) -> Option<Outcome> {
    match fact {
        Fact::PodAdded { pod, now } => node.pod_added(pod.clone(), *now),
        Fact::PodRemoved { uid } => node.pod_removed(uid),
        Fact::Sampled { uid, sample } => node.sampled(uid, *sample),
        Fact::MachineSampled { sample } => node.machine_sampled(*sample),
        Fact::CapacityChanged { capacity } => node.capacity_changed(*capacity),
        Fact::LatencyJudged { uid, missed } => node.latency_judged(uid, *missed),
        Fact::TookEffect { uid, at } => node.limit_took_effect(uid, *at),
        Fact::LimitFound { uid, limit } => node.limit_found(uid, *limit),
        Fact::Ticked { tick: Loop::Fast, now } => return Some(node.fast_tick(*now)),
        Fact::Ticked { tick: Loop::Slow, now } => return Some(node.slow_tick(*now)),
    }
    None
}

// === impl Story ===

impl Story {
    /// The node before anything happened.
    #[must_use]
    pub fn node(&self) -> Node {
        Node::new(self.capacity, self.profile.clone())
    }
}
