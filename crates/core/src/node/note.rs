//! Everything the market noticed, or wanted and did not do, as data: drivers log it, tests assert
//! it.

use core::fmt;

use crate::learn::TableNote;
use crate::market::Mode;
use crate::request::RecordNote;
use crate::units::{Millicores, Moment, PodUid, Span, WorkloadKey};

/// One thing worth telling.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// A fact named a pod that is not here.
    UnknownPod {
        /// The pod.
        uid: PodUid,
    },
    /// A pod arrived that was here already.
    PodReplaced {
        /// The pod.
        uid: PodUid,
    },
    /// A sample was not newer than the last one.
    SampleOutOfOrder {
        /// The pod.
        uid: PodUid,
    },
    /// A pod's counters went backwards.
    CounterReset {
        /// The pod.
        uid: PodUid,
    },
    /// No sample of a pod arrived since the last clearing.
    SampleMissing {
        /// The pod.
        uid: PodUid,
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
    /// A pod is held back and already has all it may have.
    AtMax {
        /// The pod.
        uid: PodUid,
        /// Its max.
        max: Millicores,
    },
    /// A pod misses its latency target, and CPU is not what it lacks.
    LateElsewhere {
        /// The pod.
        uid: PodUid,
        /// What it uses.
        usage: Millicores,
        /// Its limit.
        limit: Millicores,
    },
    /// A raise found no room under the over-commit.
    NoRoom {
        /// The pod.
        uid: PodUid,
        /// The limit it should have got.
        wanted: Millicores,
        /// The limit it has for now.
        limit: Millicores,
    },
    /// A pod takes all it can get while others need theirs: its cap follows what they leave.
    Contained {
        /// The pod.
        uid: PodUid,
        /// Its cap for now.
        cap: Millicores,
    },
    /// A pod takes all it can get while somebody waits below its grant: its cap follows what is
    /// idle.
    ContainedFor {
        /// The pod.
        uid: PodUid,
        /// Who waits.
        waiting: PodUid,
        /// What is idle.
        idle: Millicores,
    },
    /// A pod is not contained any more.
    Released {
        /// The pod.
        uid: PodUid,
    },
    /// A pod is held back by its limit, and not raised because next to nothing is idle.
    NothingIdle {
        /// The pod.
        uid: PodUid,
        /// Its limit.
        limit: Millicores,
        /// What is idle.
        idle: Millicores,
    },
    /// A limit or request is to change, but not yet.
    ChangeHeld {
        /// The pod.
        uid: PodUid,
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
        workload: WorkloadKey,
        /// What was wrong with it.
        because: RecordNote,
    },
    /// A saved table was refused, and learning starts afresh.
    TableRefused {
        /// Whose table.
        workload: WorkloadKey,
        /// What was wrong with it.
        because: TableNote,
    },
    /// A saved table or record was not taken in, because there are too many already.
    TooManyTables {
        /// Whose table.
        workload: WorkloadKey,
    },
    /// There were more notes than are kept.
    NotesDropped {
        /// How many more.
        count: u64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPod { uid } => write!(f, "{uid}: not here, so nothing was done with it"),
            Self::PodReplaced { uid } => write!(f, "{uid}: was here already, starts afresh"),
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
            Self::Released { uid } => write!(f, "{uid}: nobody has to wait for it any more"),
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
            Self::RecordRefused { workload, because } => {
                write!(f, "{workload}: what it used was refused, starts afresh: {because}")
            }
            Self::TableRefused { workload, because } => {
                write!(f, "{workload}: its learned table was refused, starts afresh: {because}")
            }
            Self::TooManyTables { workload } => {
                write!(
                    f,
                    "{workload}: what was saved of it was left out, there are too many already"
                )
            }
            Self::NotesDropped { count } => write!(f, "{count} more notes were dropped"),
        }
    }
}
