//! The one thing to do next about a workload, from what is wanted and what is seen.
//!
//! Every step brings what is there closer to what is wanted, whatever led to it: nothing here
//! remembers in which order things were meant to happen. So it does not matter where a crash was.

use core::fmt;

use crate::units::Moment;

use super::look::{Instance, InstanceState};
use super::spec::{Kind, Restart};
use super::{Start, Workload, backoff};

/// Something to be done by a runtime, about one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Get ready what the target needs, such as its image, while what is there goes on.
    Prepare,
    /// Make it, from the target, without starting it.
    Create,
    /// Start it.
    Start,
    /// Stop it, kindly at first.
    Stop,
    /// Remove it, but not its named volumes.
    Remove,
}

/// Why an operation is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was applied.
    Applied,
    /// Another revision is there.
    Replaced,
    /// The new revision failed, and gives way to the one before it.
    RolledBack,
    /// It was well, and is not any more.
    Drifted,
    /// There is more than one, or one that cannot be used.
    Superfluous,
    /// It should not run.
    Stopped,
    /// Its host is drained.
    Drained,
    /// It was deleted.
    Deleted,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look what is there.
    Look,
    /// Do this. It concerns all that is there of the workload, or makes it.
    Do {
        /// What to do.
        op: Op,
        /// Why.
        why: Why,
    },
    /// An operation is under way.
    Busy {
        /// Which.
        op: Op,
    },
    /// Something failed and is tried again then.
    Wait {
        /// When to ask again; later than now.
        until: Moment,
    },
    /// It cannot be created: its secrets are with whoever applied it.
    NeedsSecrets,
    /// The runtime does not answer. Look again when it does.
    Silent,
    /// There is nothing to do until something changes.
    Rest,
    /// It was deleted and is gone: forget it.
    Forget,
}

impl Workload {
    /// What to do at `now`.
    #[must_use]
    pub fn next(&self, now: Moment) -> Step {
        if let Some(op) = self.in_flight {
            return Step::Busy { op };
        }
        if self.silent_since.is_some() {
            return Step::Silent;
        }
        let Some(seen) = self.seen.as_ref().filter(|_| !self.stale) else { return Step::Look };
        let step = if self.kept.deleting { removal(seen) } else { self.towards(seen, now) };
        let Step::Do { op, .. } = step else { return step };
        if let Some(until) = backoff::waits(self.kept.retry_at, now) {
            return Step::Wait { until };
        }
        let lacks_secrets = !self.has_secrets && !self.target().secrets.is_empty();
        // A container is made with its secrets; a machine is handed them at every start.
        let handed = match self.target().work.kind() {
            Kind::Vm => Op::Start,
            Kind::Container | Kind::Compose | Kind::Custom => Op::Create,
        };
        if op == handed && lacks_secrets { Step::NeedsSecrets } else { step }
    }

    /// The next step towards the target.
    fn towards(&self, seen: &[Instance], now: Moment) -> Step {
        let target = &self.target().revision;
        let [only] = seen else {
            return match seen.first() {
                None => self.out_of_nothing(),
                Some(_) => clear(seen, Why::Superfluous),
            };
        };
        if only.revision != target.as_str() {
            return self.out_of_another(only);
        }
        if only.state == InstanceState::Broken {
            return Step::Do { op: Op::Remove, why: Why::Superfluous };
        }
        if !self.should_run() {
            let why = if self.kept.drained { Why::Drained } else { Why::Stopped };
            let active = only.state.is_active();
            return if active { Step::Do { op: Op::Stop, why } } else { Step::Rest };
        }
        self.to_running(only, now)
    }

    fn out_of_nothing(&self) -> Step {
        if !self.should_run() || self.kept.completed || self.kept.failure.is_some() {
            return Step::Rest;
        }
        let why = self.why();
        let op = if self.kept.prepared { Op::Create } else { Op::Prepare };
        Step::Do { op, why }
    }

    /// Another revision is there. It goes on until the target can be made.
    fn out_of_another(&self, other: &Instance) -> Step {
        if self.kept.failure.is_some() && self.should_run() {
            // The target cannot be had, so what is there stays.
            return Step::Rest;
        }
        let why = if self.kept.rolled_back.is_some() { Why::RolledBack } else { Why::Replaced };
        if self.should_run() && !self.kept.prepared {
            return Step::Do { op: Op::Prepare, why };
        }
        // Its secrets are needed before what is there may go.
        if self.should_run() && !self.has_secrets && !self.target().secrets.is_empty() {
            return Step::NeedsSecrets;
        }
        let op = if other.state.is_active() { Op::Stop } else { Op::Remove };
        Step::Do { op, why }
    }

    fn to_running(&self, only: &Instance, now: Moment) -> Step {
        let why = self.why();
        match only.state {
            InstanceState::Running | InstanceState::Restarting | InstanceState::Broken => {
                return Step::Rest;
            }
            InstanceState::Paused => return Step::Do { op: Op::Start, why },
            InstanceState::Created | InstanceState::Exited { .. } => {}
        }
        if self.kept.failure.is_some() {
            return Step::Rest;
        }
        let asked = match &self.kept.start {
            Start::Settled => only.state == InstanceState::Created,
            Start::Wanted => true,
            Start::After(stamp) => *stamp == only.started,
        };
        if asked {
            return Step::Do { op: Op::Start, why };
        }
        match self.target().restart() {
            // How it ended was judged when it was seen.
            Restart::No | Restart::OnFailure { .. } => Step::Rest,
            Restart::Always => match self.repair_at(now) {
                Some(until) => Step::Wait { until },
                None => Step::Do { op: Op::Start, why: Why::Drifted },
            },
        }
    }

    /// When something that ended again and again may be started once more; nothing if now.
    fn repair_at(&self, now: Moment) -> Option<Moment> {
        let last = self.kept.repaired_at?;
        if now.since(last) > backoff::STEADY_AFTER {
            return None;
        }
        backoff::waits(Some(last + backoff::delay(&self.id, self.kept.repairs)), now)
    }

    fn why(&self) -> Why {
        if self.kept.rolled_back.is_some() && !self.settled {
            Why::RolledBack
        } else if self.settled {
            Why::Drifted
        } else {
            Why::Applied
        }
    }
}

fn removal(seen: &[Instance]) -> Step {
    if seen.is_empty() { Step::Forget } else { clear(seen, Why::Deleted) }
}

/// Stops what runs, then removes it.
fn clear(seen: &[Instance], why: Why) -> Step {
    let active = seen.iter().any(|instance| instance.state.is_active());
    Step::Do { op: if active { Op::Stop } else { Op::Remove }, why }
}

// === impl Op, Why ===

impl Op {
    /// Its name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Create => "create",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Remove => "remove",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Applied => "it was applied",
            Self::Replaced => "another revision is there",
            Self::RolledBack => "the new revision failed",
            Self::Drifted => "it was found otherwise than it was left",
            Self::Superfluous => "there is one too many, or a broken one",
            Self::Stopped => "it should not run",
            Self::Drained => "the host is drained",
            Self::Deleted => "it was deleted",
        })
    }
}
