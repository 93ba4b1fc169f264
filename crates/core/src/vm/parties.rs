//! What an agent knows of each of the three it talks to.
//!
//! One request is in flight to each at most. An answer counts only if it is to that request: late
//! and repeated ones are nobody's.

use crate::units::{Moment, Resources, Span};

/// The number of a request; no two requests of an agent have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What holds for every party: the request in flight, and when the next may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Line<R> {
    pub(super) flight: Option<Flight<R>>,
    pub(super) retry_at: Option<Moment>,
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flight<R> {
    pub(super) id: RequestId,
    pub(super) request: R,
    pub(super) until: Moment,
}

/// The machine, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Machine {
    pub(super) line: Line<MachineRequest>,
    /// What it was last seen to be.
    pub(super) seen: Option<Seen>,
    /// Whether it has to be read before it is changed again.
    pub(super) stale: bool,
    /// Whether every change that is not seen yet was made by this agent. A change counts only where
    /// the machine still has the version that was seen, so one change of our own ends all others.
    pub(super) fenced: bool,
    /// The least and the most it can become by changes that were asked for and may still come.
    pub(super) open: Option<(Resources, Resources)>,
}

/// A machine at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// What it has.
    pub using: Resources,
    /// Grows with every change, also with one that leaves it as it is.
    pub version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MachineRequest {
    Read,
    Patch,
}

/// The scheduler, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Scheduler {
    pub(super) line: Line<Question>,
    pub(super) present: bool,
    /// Whether this one has answered.
    pub(super) met: bool,
    /// What may be used: the last answer, or less where less was asked for since.
    pub(super) permit: Option<Resources>,
    pub(super) asked_at: Option<Moment>,
    /// Before that, no increase is asked for.
    pub(super) more_at: Option<Moment>,
    pub(super) sequence: u64,
}

/// What was asked for, and what was held then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) asked: Resources,
    pub(super) held: Option<Resources>,
}

/// The informant, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Informant {
    pub(super) line: Line<Told>,
    pub(super) presence: Presence,
    /// What the guest makes do with: nothing above it may be taken without asking.
    pub(super) agreed: Option<Resources>,
    /// Whether the guest is known to think the same.
    pub(super) sure: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Presence {
    #[default]
    Absent,
    /// It listens to another agent.
    Suspended,
    Active,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Downscale { had: Resources, to: Resources },
    Upscale,
}

// === impl Line ===

impl<R> Line<R> {
    /// Nothing is in flight.
    pub(super) const FREE: Self = Self { flight: None, retry_at: None };
}

impl<R> Default for Line<R> {
    fn default() -> Self {
        Self::FREE
    }
}

impl<R: Copy> Line<R> {
    /// Whether a request may be made.
    pub(super) fn is_free(&self, now: Moment) -> bool {
        self.flight.is_none() && self.retry_at.is_none_or(|at| at <= now)
    }

    pub(super) fn sent(&mut self, id: RequestId, request: R, until: Moment) {
        self.flight = Some(Flight { id, request, until });
        self.retry_at = None;
    }

    /// The request that this is the answer to, if it is the one in flight.
    pub(super) fn answered(&mut self, id: RequestId) -> Option<R> {
        let request = self.flight.filter(|flight| flight.id == id)?.request;
        self.flight = None;
        Some(request)
    }

    pub(super) fn overdue(&self, now: Moment) -> Option<RequestId> {
        self.flight.filter(|flight| flight.until <= now).map(|flight| flight.id)
    }

    pub(super) fn failed(&mut self, now: Moment, wait: Span) -> Moment {
        let again_at = now + wait;
        self.retry_at = Some(again_at);
        again_at
    }

    pub(super) fn timers(&self) -> [Option<Moment>; 2] {
        [self.flight.map(|flight| flight.until), self.retry_at]
    }
}

// === impl Machine ===

impl Machine {
    /// What it has, and the least and the most it can become; nothing where that is unknown.
    pub(super) fn range(&self) -> Option<Range> {
        let using = self.seen?.using;
        let (low, high) = self.open.unwrap_or((using, using));
        Some(Range { using, low: low.min(using), high: high.max(using) })
    }

    /// It was seen. A version that was not known before ends every change that is still open.
    pub(super) fn saw(&mut self, seen: Seen) {
        if self.seen.is_none_or(|known| seen.version >= known.version) {
            let changed = self.seen.is_some_and(|known| seen.version > known.version);
            if changed {
                self.open = None;
                self.stale = false;
            }
            self.seen = Some(seen);
        }
    }

    /// A change was asked for, and may come at any time from now on.
    pub(super) fn may_become(&mut self, to: Resources) {
        let (low, high) = self.open.unwrap_or((to, to));
        self.open = Some((low.min(to), high.max(to)));
    }

    /// Others may have changed it, and it has to be found out again what it is.
    pub(super) fn forget(&mut self) {
        *self = Self { seen: self.seen, open: self.open, stale: true, ..Self::default() };
    }
}

/// What a machine has, and can become by changes that are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) using: Resources,
    pub(super) low: Resources,
    pub(super) high: Resources,
}
