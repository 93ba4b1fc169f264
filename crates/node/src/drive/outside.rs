//! What the loop asks of the outside, in its own words.
//!
//! A plain host answers with cgroups, Kubernetes with workloads; a test answers from a script.
//! An implementation decides nothing: it looks, reads and carries out.

use walras_core::demand::Sample;
use walras_core::node::{Action, Allocatable, MachineSample, WorkloadFacts};
use walras_core::units::{Millicores, Moment, Ratio, WorkloadUid};

use crate::board::WorkloadLabel;

/// The outside of one node's market.
pub trait Outside {
    /// What time it is, on a clock that does not step. Whole milliseconds, so that a recording
    /// loses nothing.
    fn now(&self) -> Moment;

    /// What time of day it is, in milliseconds since 1970.
    fn unix_ms(&self) -> u64;

    /// What there is to divide.
    fn capacity(&mut self) -> Millicores;

    /// What requests may add up to, where there are any.
    fn allocatable(&mut self) -> Option<Allocatable> {
        None
    }

    /// Who came and who went since the last look.
    fn look(&mut self) -> Vec<Change>;

    /// Reads a workload's counters.
    fn sample(&mut self, uid: &WorkloadUid, now: Moment) -> Result<Sample, Trouble>;

    /// What CPU costs since the tick whose actions are about to be carried out. For who publishes
    /// it beside them.
    fn set_price(&mut self, _price: Ratio) {}

    /// Reads the machine's own counters; nothing where they cannot be read.
    fn machine(&mut self, now: Moment) -> Option<MachineSample>;

    /// Carries out an action.
    fn carry_out(&mut self, action: &Action) -> Carried;

    /// What a person should know, in sentences.
    fn problems(&self) -> Vec<String>;
}

/// A workload that came or went.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is here.
    Came(Box<Arrival>),
    /// It is gone, or is not sized any more.
    Went(WorkloadUid),
    /// Another process set its limit to this.
    Limited(WorkloadUid, Millicores),
    /// Its owner changed what it gets back, so that it is here with other facts.
    Owned(Box<Owned>),
    /// It is permitted something else than before by whoever divides the machine with the market,
    /// so that it is here with other facts.
    Permitted(Box<Arrival>),
    /// What was decided for it and asked for is in force now.
    Took(WorkloadUid),
    /// What was decided for it and asked for did not come into force in time. This limit is in
    /// force, and the other one is not counted on any more; it may still come.
    Late(WorkloadUid, Millicores),
}

/// A workload that is here.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// What the market is told of it.
    pub facts: WorkloadFacts,
    /// What people are told of it.
    pub label: WorkloadLabel,
}

/// A workload whose owner changed what it gets back.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    /// What holds of it now.
    pub arrival: Arrival,
    /// The limit it would have got back before; nothing for none.
    pub from: Option<Millicores>,
    /// The limit it gets back from now on. Where that is the same, something else was set.
    pub to: Option<Millicores>,
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The workload is gone.
    Gone,
    /// It is there, but could not be read.
    Unreadable(String),
}

/// What became of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It is in force.
    Done,
    /// It was asked for and is on its way. Whether it comes into force is told by a later look.
    Asked,
    /// It should have been in force at once, which failed for this reason, and was asked for
    /// instead. It is not counted on until a later look tells that it is in force.
    AskedInstead {
        /// Why, in words.
        because: String,
        /// The limit in force.
        in_force: Millicores,
    },
    /// It was asked for before and did not come into force in time, so it is not counted on. This
    /// limit is in force.
    Late(Millicores),
    /// Most of it is in force, but the limit is this one: a group above allows no more.
    HeldAt(Millicores),
    /// Nothing was written, because the owner of the workload has set this limit meanwhile. A later
    /// look tells what that means for it.
    Overtaken(Millicores),
    /// Nothing was written, because the daemon only watches. This limit is in force.
    OnlyWatching(Millicores),
    /// It failed, for this reason. The limit in force is told where it is known.
    Failed {
        /// Why, in words.
        because: String,
        /// The limit in force.
        in_force: Option<Millicores>,
    },
    /// The workload is gone.
    Gone,
}
