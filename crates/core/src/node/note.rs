//! Everything the market noticed, or wanted and did not do, as data: drivers log it, tests assert
//! it.

use core::fmt;

use crate::learn::TableNote;
use crate::market::Mode;
use crate::request::RecordNote;
use crate::units::{FamilyKey, Millicores, Moment, Span, WorkloadUid};

/// One thing worth telling.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// A fact named a workload that is not here.
    UnknownWorkload {
        /// The workload.
        uid: WorkloadUid,
    },
    /// A workload arrived that was here already.
    WorkloadReplaced {
        /// The workload.
        uid: WorkloadUid,
    },
    /// A sample was not newer than the last one.
    SampleOutOfOrder {
        /// The workload.
        uid: WorkloadUid,
    },
    /// A workload's counters went backwards.
    CounterReset {
        /// The workload.
        uid: WorkloadUid,
    },
    /// No sample of a workload arrived since the last clearing.
    SampleMissing {
        /// The workload.
        uid: WorkloadUid,
        /// Whether there ever was one.
        ever_sampled: bool,
    },
    /// The clock stepped back.
    ClockWentBack {
        /// How far.
        by: Span,
    },
    /// The market stands differently than before.
    ModeChanged {
        /// How it stood.
        from: Mode,
        /// How it stands.
        to: Mode,
    },
    /// A workload is held back and already has all it may have.
    AtMax {
        /// The workload.
        uid: WorkloadUid,
        /// Its max.
        max: Millicores,
    },
    /// A workload misses its latency target, and CPU is not what it lacks.
    LateElsewhere {
        /// The workload.
        uid: WorkloadUid,
        /// What it uses.
        usage: Millicores,
        /// Its limit.
        limit: Millicores,
    },
    /// A raise found no room under the over-commit.
    NoRoom {
        /// The workload.
        uid: WorkloadUid,
        /// The limit it should have got.
        wanted: Millicores,
        /// The limit it has for now.
        limit: Millicores,
    },
    /// A workload takes all it can get while others need theirs: its cap follows what they leave.
    Contained {
        /// The workload.
        uid: WorkloadUid,
        /// Its cap for now.
        cap: Millicores,
    },
    /// A workload takes all it can get while another waits below its grant: its cap follows what
    /// is idle.
    ContainedFor {
        /// The workload.
        uid: WorkloadUid,
        /// Who waits.
        waiting: WorkloadUid,
        /// What is idle.
        idle: Millicores,
    },
    /// A workload is not contained any more.
    Released {
        /// The workload.
        uid: WorkloadUid,
    },
    /// A workload is held back by its limit, and not raised because next to nothing is idle.
    NothingIdle {
        /// The workload.
        uid: WorkloadUid,
        /// Its limit.
        limit: Millicores,
        /// What is idle.
        idle: Millicores,
    },
    /// A limit or request is to change, but not yet.
    ChangeHeld {
        /// The workload.
        uid: WorkloadUid,
        /// When it is due.
        until: Moment,
    },
    /// Requests were lowered to their grants because all together exceeded capacity.
    RequestsForced {
        /// The capacity.
        capacity: Millicores,
    },
    /// Limits were lowered because all together exceeded the over-commit.
    LimitsForced {
        /// The over-commit budget.
        budget: Millicores,
    },
    /// No request is lowered, because the node's own peak is too high for that.
    LoweringStopped {
        /// The mean of its use within a day, and three standard deviations.
        peak: Millicores,
        /// What that may be.
        most: Millicores,
    },
    /// A saved record of use was refused, and counting starts afresh.
    RecordRefused {
        /// Whose record.
        family: FamilyKey,
        /// What was wrong with it.
        because: RecordNote,
    },
    /// A saved table was refused, and learning starts afresh.
    TableRefused {
        /// Whose table.
        family: FamilyKey,
        /// What was wrong with it.
        because: TableNote,
    },
    /// A saved table or record was not taken in, because there are too many already.
    TooManyTables {
        /// Whose table.
        family: FamilyKey,
    },
    /// There were more notes than are kept.
    NotesDropped {
        /// How many more.
        count: u64,
    },
}

// === impl Note ===

impl Note {
    /// The workload that it is about, if it is about one.
    #[must_use]
    pub fn about(&self) -> Option<&WorkloadUid> {
        match self {
            Self::UnknownWorkload { uid }
            | Self::WorkloadReplaced { uid }
            | Self::SampleOutOfOrder { uid }
            | Self::CounterReset { uid }
            | Self::SampleMissing { uid, .. }
            | Self::AtMax { uid, .. }
            | Self::LateElsewhere { uid, .. }
            | Self::NoRoom { uid, .. }
            | Self::Contained { uid, .. }
            | Self::ContainedFor { uid, .. }
            | Self::Released { uid }
            | Self::NothingIdle { uid, .. }
            | Self::ChangeHeld { uid, .. } => Some(uid),
            Self::ClockWentBack { .. }
            | Self::ModeChanged { .. }
            | Self::RequestsForced { .. }
            | Self::LimitsForced { .. }
            | Self::LoweringStopped { .. }
            | Self::RecordRefused { .. }
            | Self::TableRefused { .. }
            | Self::TooManyTables { .. }
            | Self::NotesDropped { .. } => None,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownWorkload { uid } => {
                write!(f, "{uid}: not here, so nothing was done with it")
            }
            Self::WorkloadReplaced { uid } => write!(f, "{uid}: was here already, starts afresh"),
            Self::SampleOutOfOrder { uid } => write!(f, "{uid}: an old sample was ignored"),
            Self::CounterReset { uid } => {
                write!(f, "{uid}: counters went backwards, so its cgroup is new: starts afresh")
            }
            Self::SampleMissing { uid, ever_sampled: true } => {
                write!(f, "{uid}: no sample since the last clearing, so its need stays as it was")
            }
            Self::SampleMissing { uid, ever_sampled: false } => {
                write!(f, "{uid}: never sampled yet, so its need is a guess")
            }
            Self::ClockWentBack { by } => write!(f, "the clock stepped back by {by}: held still"),
            Self::ModeChanged { from, to } => write!(f, "the market was {from} and is {to}"),
            Self::AtMax { uid, max } => write!(f, "{uid}: held back at its max of {max}"),
            Self::LateElsewhere { uid, usage, limit } => write!(
                f,
                "{uid}: misses its latency target, but uses only {usage} of {limit}: CPU is not \
                 what it lacks"
            ),
            Self::NoRoom { uid, wanted, limit } => {
                write!(f, "{uid}: no room to raise it to {wanted}, so it has {limit} for now")
            }
            Self::Contained { uid, cap } => write!(
                f,
                "{uid}: takes all it can get while others need theirs, so it is held to {cap} and \
                 what they leave"
            ),
            Self::ContainedFor { uid, waiting, idle } => write!(
                f,
                "{uid}: takes all it can get while {waiting} waits and only {idle} are idle, so it \
                 is held to its grant and what is left"
            ),
            Self::Released { uid } => write!(f, "{uid}: no other workload waits for it any more"),
            Self::NothingIdle { uid, limit, idle } => write!(
                f,
                "{uid}: held back at {limit}, which stays as long as only {idle} of the node are \
                 idle"
            ),
            Self::ChangeHeld { uid, until } => {
                write!(f, "{uid}: to change at {} ms if that is still wanted", until.as_ms_floor())
            }
            Self::RequestsForced { capacity } => {
                write!(f, "requests exceeded the capacity of {capacity}: cut to their grants")
            }
            Self::LimitsForced { budget } => {
                write!(f, "limits exceeded the over-commit of {budget}: shared out by weight")
            }
            Self::LoweringStopped { peak, most } => write!(
                f,
                "no request is lowered: the node's use peaks at {peak}, and {most} would be fine"
            ),
            Self::RecordRefused { family, because } => {
                write!(f, "{family}: what it used was refused, starts afresh: {because}")
            }
            Self::TableRefused { family, because } => {
                write!(f, "{family}: its learned table was refused, starts afresh: {because}")
            }
            Self::TooManyTables { family } => {
                write!(f, "{family}: what was saved of it was left out, there are too many already")
            }
            Self::NotesDropped { count } => write!(f, "{count} more notes were dropped"),
        }
    }
}
