//! How a town of virtual machines begins, and which rule it breaks, if any.

use walras_core::units::{Ratio, Resources};

/// How a town begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What there is for machines and others.
    pub capacity: Resources,
    /// What others take.
    pub others: Resources,
    /// Above this part of it, machines move.
    pub watermark: Ratio,
    /// How many move at once.
    pub moves_at_once: u32,
    /// The machines.
    pub vms: Vec<VmPlan>,
    /// A rule that somebody breaks, to show that it is needed and that its absence is noticed.
    pub breaks: Option<Rule>,
}

/// A rule of the protocol that lies outside of ledger and agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// After a restart, a machine holds its maximum until its agent was heard.
    HoldUntilHeard,
    /// A machine is changed only where it has the version that was seen.
    ChangeWhatWasSeen,
    /// The scheduler answers each number once, and none that was overtaken.
    AnswerInOrder,
    /// The guest takes nothing that was overtaken.
    HearInOrder,
}

/// How a machine begins.
#[derive(Clone, Copy, Debug)]
pub struct VmPlan {
    /// What it has at first, which is its minimum, in units.
    pub least: u64,
    /// The most it may have, in units.
    pub most: u64,
    /// Whether its agent is of an older version, and does not tell what it was last permitted.
    pub is_old: bool,
    /// Whether it may move.
    pub may_move: bool,
}
