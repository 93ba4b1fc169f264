//! What the loop asks of the outside, in its own words.
//!
//! A plain host answers with cgroups, Kubernetes with pods; a test answers from a script. Whoever
//! implements it decides nothing: it looks, reads and carries out.

use walras_core::demand::Sample;
use walras_core::node::{Action, Allocatable, MachineSample, PodFacts};
use walras_core::units::{Millicores, Moment, PodUid, Ratio};

use crate::board::PodLabel;

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

    /// Reads a pod's counters.
    fn sample(&mut self, uid: &PodUid, now: Moment) -> Result<Sample, Trouble>;

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
    Went(PodUid),
    /// Somebody else set its limit to this.
    Limited(PodUid, Millicores),
    /// Its owner changed what it gets back, so that it is here with other facts.
    Owned(Box<Owned>),
    /// What was decided for it and asked for is in force now.
    Took(PodUid),
    /// What was decided for it and asked for did not come into force in time. This limit is in
    /// force, and nobody counts on the other one any more; it may still come.
    Late(PodUid, Millicores),
}

/// A workload that is here.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// What the market is told of it.
    pub facts: PodFacts,
    /// What people are told of it.
    pub label: PodLabel,
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
    /// instead. Nobody counts on it until a later look tells that it is in force.
    AskedInstead {
        /// Why, in words.
        because: String,
        /// The limit in force.
        in_force: Millicores,
    },
    /// It was asked for before and did not come into force in time, so nobody counts on it. This
    /// limit is in force.
    Late(Millicores),
    /// Most of it is in force, but the limit is this one: somebody above allows no more.
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
