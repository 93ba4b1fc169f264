//! What is told of a workload: its state, and in words why it is so and what comes next.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

use crate::units::Moment;

use super::fault::Fault;
use super::look::{Health, InstanceState};
use super::spec::{Desired, Revision};
use super::{Step, Workload};

/// What a workload does, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actual {
    /// Something is being done about it, or has to be.
    Pending,
    /// It runs.
    Running,
    /// It does not run: it should not, or it ended well.
    Stopped,
    /// It should run and does not, for good.
    Failed,
    /// Nobody knows: the runtime does not answer, or was not asked yet.
    Unknown,
}

/// What is told of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The revision that is carried out.
    pub revision: Revision,
    /// The revision that was applied last, where that is another: it failed and gave way.
    pub failed_revision: Option<Revision>,
    /// Whether it should run.
    pub desired: Desired,
    /// What it does.
    pub actual: Actual,
    /// In words.
    pub message: String,
    /// What went wrong last, if anything is wrong.
    pub fault: Option<Fault>,
    /// Whether nothing is tried any more until somebody applies it again.
    pub terminal: bool,
    /// How often an operation failed in a row.
    pub attempts: u32,
    /// How often it was found ended and started again lately.
    pub repairs: u32,
    /// When something is tried again.
    pub retry_at: Option<Moment>,
    /// When the runtime last answered.
    pub answered_at: Option<Moment>,
    /// When it was first applied.
    pub created_at: Moment,
    /// When it was last changed by somebody, or gave up.
    pub updated_at: Moment,
}

impl Actual {
    /// Its name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Stopped => "STOPPED",
            Self::Failed => "FAILED",
            Self::Unknown => "UNKNOWN",
        }
    }
}

impl Workload {
    /// What is told of it at `now`.
    #[must_use]
    pub fn status(&self, now: Moment) -> Status {
        let kept = &self.kept;
        let step = self.next(now);
        let (actual, message) = self.told(step, now);
        let retry_at = match step {
            Step::Wait { until } => Some(until),
            Step::Look
            | Step::Do { .. }
            | Step::Busy { .. }
            | Step::NeedsSecrets
            | Step::Silent
            | Step::Rest
            | Step::Forget => None,
        };
        let gave_way = kept.rolled_back.is_some() && kept.previous.is_some();
        Status {
            revision: self.target().revision.clone(),
            failed_revision: gave_way.then(|| kept.spec.revision.clone()),
            desired: kept.desired,
            actual,
            message,
            fault: self.fault().cloned(),
            terminal: kept.failure.is_some(),
            attempts: kept.attempts,
            repairs: kept.repairs,
            retry_at,
            answered_at: self.answered_at,
            created_at: kept.created_at,
            updated_at: kept.updated_at,
        }
    }

    fn fault(&self) -> Option<&Fault> {
        let kept = &self.kept;
        kept.failure.as_ref().or(kept.last_fault.as_ref()).or(kept.rolled_back.as_ref())
    }

    fn told(&self, step: Step, now: Moment) -> (Actual, String) {
        if let Some(since) = self.silent_since {
            let (quiet, last) = (seconds(now, since), self.answered_at);
            let last = last.map_or_else(
                || "it was not heard since this daemon started".to_owned(),
                |at| format!("it last answered {} s ago", seconds(now, at)),
            );
            return (Actual::Unknown, format!("the runtime is silent since {quiet} s; {last}"));
        }
        if self.kept.deleting {
            return (Actual::Pending, self.and_fault("it is being deleted"));
        }
        if let Some(words) = busy(step) {
            return (Actual::Pending, self.and_fault(&words));
        }
        match &self.seen {
            None => (Actual::Unknown, "nobody looked at it since this daemon started".to_owned()),
            // What was seen before the last operation says nothing about what there is now.
            Some(_) if step == Step::Look && !self.settled => {
                (Actual::Pending, self.and_fault("it is being looked at"))
            }
            Some(_) => self.standing(),
        }
    }

    /// What it does when nothing is being done about it.
    fn standing(&self) -> (Actual, String) {
        let kept = &self.kept;
        let way = match &kept.rolled_back {
            Some(fault) => format!("; revision {} gave way: {fault}", kept.spec.revision),
            None => String::new(),
        };
        if let Some(fault) = &kept.failure {
            return match kept.desired {
                Desired::Stopped => (Actual::Stopped, format!("it is stopped; it failed: {fault}")),
                Desired::Running => (Actual::Failed, format!("{fault}{way}")),
            };
        }
        let first = self.instances().first();
        let Some(instance) = first else {
            let words = if kept.completed { "completed" } else { "it is stopped" };
            return (Actual::Stopped, words.to_owned());
        };
        let (actual, words) = match (instance.state, instance.health) {
            (InstanceState::Running, Some(Health::Starting)) => {
                (Actual::Pending, "it runs; whether it is well is not known yet".to_string())
            }
            (InstanceState::Running, Some(Health::Unhealthy)) => {
                (Actual::Running, "it runs, and its health check fails".to_owned())
            }
            (InstanceState::Running, Some(Health::Healthy) | None) => {
                (Actual::Running, "it runs".to_owned())
            }
            (InstanceState::Restarting, _) => {
                (Actual::Pending, "it ended, and the runtime starts it again".to_owned())
            }
            (InstanceState::Exited { code: 0 }, _) if kept.completed => {
                (Actual::Stopped, "completed".to_owned())
            }
            (InstanceState::Created | InstanceState::Exited { .. }, _) => {
                (Actual::Stopped, "it is stopped".to_owned())
            }
            (InstanceState::Paused | InstanceState::Broken, _) => {
                (Actual::Pending, "it is paused or broken".to_owned())
            }
        };
        let drained = if kept.drained { "; the host is drained" } else { "" };
        (actual, words + drained + &way)
    }

    fn and_fault(&self, words: &str) -> String {
        match &self.kept.last_fault {
            Some(fault) => format!("{words}; {fault}; failed {} times", self.kept.attempts),
            None => words.to_owned(),
        }
    }
}

/// What is being done, or has to be, in words.
fn busy(step: Step) -> Option<String> {
    match step {
        Step::Do { op, why } => Some(format!("next: {op}, because {why}")),
        Step::Busy { op } => Some(format!("under way: {op}")),
        Step::Wait { .. } => Some("waits to try again".to_owned()),
        Step::NeedsSecrets => {
            Some("waits for its secrets, which are not kept: apply it again with them".to_owned())
        }
        Step::Look | Step::Silent | Step::Rest | Step::Forget => None,
    }
}

fn seconds(now: Moment, then: Moment) -> u64 {
    now.since(then).as_us() / 1_000_000
}
