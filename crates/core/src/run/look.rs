//! What a runtime shows of a workload, and what follows from it.
//!
//! A look that was begun before an operation ended says nothing about what is there now, and is
//! dropped: that is what the [`Ticket`] is for.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::units::{Moment, Span};

use super::fault::{Fault, FaultKind};
use super::spec::Restart;
use super::{Start, Step, Workload};

/// A new revision without a health check has done well once it ran for so long.
pub const GOOD_AFTER: Span = Span::from_s(10);
/// A new revision that may give way must have done well by then after its start.
pub const GATE: Span = Span::from_s(60);

/// One instance of a workload as a runtime shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// What the runtime calls it.
    pub handle: String,
    /// The revision that it was made from.
    pub revision: String,
    /// Changes with every start, in the runtime's own words.
    pub started: String,
    /// What it does.
    pub state: InstanceState,
    /// Whether it is well, where it says so.
    pub health: Option<Health>,
}

/// What an instance does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It was made, and never started.
    Created,
    /// It runs.
    Running,
    /// It ended, and the runtime is about to start it again.
    Restarting,
    /// Somebody paused it.
    Paused,
    /// It ended.
    Exited {
        /// With this code.
        code: i64,
    },
    /// It can only be removed.
    Broken,
}

/// Whether an instance is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nobody knows yet.
    Starting,
    /// It is.
    Healthy,
    /// It is not.
    Unhealthy,
}

/// Says when a look was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl InstanceState {
    /// Whether it must be stopped before it can be removed.
    #[must_use]
    pub const fn is_active(self) -> bool {
        match self {
            Self::Running | Self::Restarting | Self::Paused => true,
            Self::Created | Self::Exited { .. } | Self::Broken => false,
        }
    }
}

impl Workload {
    /// To be taken before a look is begun.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.epoch)
    }

    /// A look that was begun with `ticket` shows `instances`. Says whether it counts: it does not
    /// if an operation was under way meanwhile.
    pub fn seen(&mut self, ticket: Ticket, mut instances: Vec<Instance>, now: Moment) -> bool {
        self.silent_since = None;
        self.answered_at = Some(now);
        if self.in_flight.is_some() || ticket != self.ticket() {
            return false;
        }
        instances.sort_by(|one, other| one.handle.cmp(&other.handle));
        self.judge_instance(&instances, now);
        self.seen = Some(instances);
        self.stale = false;
        if self.next(now) == Step::Rest {
            self.settled = true;
        }
        true
    }

    /// The runtime does not answer. What it last showed may be so no longer.
    pub fn runtime_silent(&mut self, now: Moment) {
        self.silent_since.get_or_insert(now);
        self.running_since = None;
        self.stale = true;
    }

    /// The runtime answers again, or something happened there. Look anew.
    pub fn stirred(&mut self) {
        self.silent_since = None;
        self.stale = true;
    }

    /// What follows from the one instance of the target, if that is what is there.
    fn judge_instance(&mut self, instances: &[Instance], now: Moment) {
        let [only] = instances else {
            self.running_since = None;
            return;
        };
        if only.revision != self.target().revision.as_str() || self.kept.deleting {
            self.running_since = None;
            return;
        }
        self.judge_start(only);
        match only.state {
            InstanceState::Running => self.judge_running(only, now),
            InstanceState::Exited { code } => self.judge_exit(code, now),
            InstanceState::Created
            | InstanceState::Restarting
            | InstanceState::Paused
            | InstanceState::Broken => self.running_since = None,
        }
        self.judge_gate(now);
    }

    /// Whether the start that somebody wanted has happened.
    fn judge_start(&mut self, only: &Instance) {
        let happened = match &self.kept.start {
            Start::Settled => return,
            Start::Wanted => only.state.is_active(),
            Start::After(stamp) => *stamp != only.started,
        };
        if happened {
            self.kept.start = Start::Settled;
        } else if self.should_run() {
            self.kept.start = Start::After(only.started.clone());
        }
    }

    fn judge_running(&mut self, only: &Instance, now: Moment) {
        if self.running_since.as_ref().is_none_or(|(started, _)| *started != only.started) {
            self.running_since = Some((only.started.clone(), now));
        }
        let since = self.running_since.as_ref().map_or(now, |(_, since)| *since);
        let good = match only.health {
            None => now.since(since) >= GOOD_AFTER,
            Some(Health::Healthy) => true,
            Some(Health::Starting) => false,
            Some(Health::Unhealthy) => {
                if self.is_on_trial() {
                    let words = "its health check fails";
                    self.give_up(Fault::new(FaultKind::Unhealthy, words), now);
                }
                false
            }
        };
        if good {
            self.kept.failure = None;
            if self.kept.rolled_back.is_none() {
                self.kept.good = true;
            }
        }
    }

    fn judge_exit(&mut self, code: i64, now: Moment) {
        self.running_since = None;
        let ended_by_itself = self.should_run() && self.kept.start == Start::Settled;
        if !ended_by_itself || self.kept.failure.is_some() {
            return;
        }
        match self.target().restart() {
            Restart::Always => {}
            Restart::No | Restart::OnFailure { .. } if code == 0 => {
                self.kept.completed = true;
                if self.kept.rolled_back.is_none() {
                    self.kept.good = true;
                }
            }
            Restart::No | Restart::OnFailure { .. } => {
                let words = format!("it ended with code {code}");
                self.give_up(Fault::new(FaultKind::Exited, words), now);
            }
        }
    }

    /// A new revision that may give way has a time in which it must do well.
    fn judge_gate(&mut self, now: Moment) {
        // A clock that stepped back does not make the time longer.
        self.kept.gate_until = self.kept.gate_until.map(|until| until.min(now + GATE));
        let late = self.kept.gate_until.is_some_and(|until| now >= until);
        if self.is_on_trial() && self.should_run() && late {
            let words = format!("it did not do well within {} s", GATE.as_us() / 1_000_000);
            self.give_up(Fault::new(FaultKind::Unhealthy, words), now);
        }
    }

    /// Whether it gives way if it does not do well.
    fn is_on_trial(&self) -> bool {
        let kept = &self.kept;
        kept.spec.rollback
            && !kept.good
            && kept.rolled_back.is_none()
            && kept.failure.is_none()
            && kept.previous.is_some()
    }
}
