//! Everything that can happen to a node, as plain data: told here, recorded and replayed elsewhere.
//!
//! The same facts, told to equal nodes in the same order, give equal outcomes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Allocatable, Loop, MachineSample, Node, Outcome, WorkloadFacts};
use crate::demand::Sample;
use crate::units::{FamilyKey, Millicores, Moment, WorkloadUid};

/// Something that happened to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A workload arrived, or came back with other facts.
    WorkloadAdded(Box<WorkloadFacts>),
    /// A workload is gone.
    WorkloadRemoved(WorkloadUid),
    /// A workload's counters were read.
    Sampled(WorkloadUid, Sample),
    /// The machine's counters were read.
    MachineSampled(MachineSample),
    /// The node has another capacity.
    CapacityChanged(Millicores),
    /// What requests may add up to is another.
    AllocatableChanged(Allocatable),
    /// A workload was found to miss its latency target, or to meet it again.
    LatencyJudged {
        /// The workload.
        uid: WorkloadUid,
        /// Whether it misses it.
        missed: bool,
    },
    /// The limit last decided for a workload was seen to be in force.
    LimitTookEffect(WorkloadUid),
    /// A workload was found to have another limit than the one last decided.
    LimitFound {
        /// The workload.
        uid: WorkloadUid,
        /// The limit in force.
        limit: Millicores,
    },
    /// A learned table was brought back from where it was saved.
    TableRestored {
        /// Whose.
        family: FamilyKey,
        /// What was saved.
        saved: Vec<u8>,
    },
    /// What a family used was brought back from where it was saved.
    UseRestored {
        /// Whose.
        family: FamilyKey,
        /// What was saved.
        saved: Vec<u8>,
    },
    /// A loop ticked: this is when things are decided.
    Ticked(Loop),
}

impl Node {
    /// Tells the node what happened at `at`; a tick answers.
    pub fn tell(&mut self, fact: Fact, at: Moment) -> Option<Outcome> {
        match fact {
            Fact::WorkloadAdded(facts) => self.workload_added(*facts, at),
            Fact::WorkloadRemoved(uid) => self.workload_removed(&uid),
            Fact::Sampled(uid, sample) => self.sampled(&uid, sample),
            Fact::MachineSampled(sample) => self.machine_sampled(sample),
            Fact::CapacityChanged(capacity) => self.capacity_changed(capacity),
            Fact::AllocatableChanged(allocatable) => self.allocatable_changed(allocatable),
            Fact::LatencyJudged { uid, missed } => self.latency_judged(&uid, missed),
            Fact::LimitTookEffect(uid) => self.limit_took_effect(&uid, at),
            Fact::LimitFound { uid, limit } => self.limit_found(&uid, limit),
            Fact::TableRestored { family, saved } => self.table_restored(family, &saved),
            Fact::UseRestored { family, saved } => self.use_restored(family, &saved),
            Fact::Ticked(Loop::Fast) => return Some(self.fast_tick(at)),
            Fact::Ticked(Loop::Slow) => return Some(self.slow_tick(at)),
        }
        None
    }
}
