//! One workload of a host over time: what is wanted, what is seen, and the one thing to do next.
//!
//! A driver tells the [`Workload`] what was asked for ([`Workload::applied`],
//! [`Workload::deleted`]), what a runtime shows ([`Workload::seen`], [`Workload::runtime_silent`])
//! and what came of its operations ([`Workload::done`], [`Workload::failed`]), and asks
//! [`Workload::next`] what to do. It saves the workload before it begins an operation, so that a
//! crash at any point leads to the same end: whoever loads it looks before it acts.
//!
//! What always holds: one operation at a time; the same revision again touches nothing; a runtime
//! that is silent is not asked to change anything, and nothing is gone because of it; a workload
//! that runs once ([`Restart::No`]) is started once for each time that somebody wanted it started;
//! what failed for good is kept, with its reason, until somebody applies it again.

mod admit;
mod backoff;
mod check;
mod compose;
mod container;
mod decide;
mod fault;
mod interpolate;
mod look;
mod member;
mod record;
mod saved;
mod spec;
mod status;
#[cfg(test)]
mod tests;
mod vm;

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::units::Moment;

pub use admit::{Capacity, Refusal, WORKLOADS_MAX, admit};
pub use backoff::{ATTEMPTS_MAX, BACKOFF_FIRST, BACKOFF_MAX, STEADY_AFTER};
pub use check::is_variable;
pub use compose::{Compose, PROJECT_MAX, Policy};
pub use container::{
    Container, FieldFault, HealthCheck, LogBounds, MEMORY_MIN, Mount, OUR_LABELS, Port, Protocol,
    Resources, Source,
};
pub use decide::{Op, Step, Why};
pub use fault::{Fault, FaultKind, Remedy};
pub use interpolate::{InterpolateError, interpolate};
pub use look::{GATE, GOOD_AFTER, Health, Instance, InstanceState, Ticket};
pub use member::{Granted, INTERVAL, LEAST, Member, RETRY_FIRST, RETRY_MAX, Tell};
pub use record::{RECORD_EVERY, STEADY_FOR, record_is_due};
pub use saved::{SAVED_VERSION, SavedError};
pub use spec::{
    Custom, Desired, ID_MAX, Kind, NameError, Needs, REVISION_MAX, Restart, Revision, Spec, Work,
    WorkloadId,
};
pub use status::{Actual, Status};
pub use vm::{Hypervisor, Vm};

/// What an apply would come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is what is wanted already: nothing is touched.
    Same,
    /// The revision is the same, and it should be started or stopped.
    Switch,
    /// The revision is the same and failed: it is tried again.
    Again,
    /// The revision is new: what runs is replaced.
    Replace,
    /// It is being deleted: nobody can want anything else of it until that is done.
    Deleting,
}

/// One workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    id: WorkloadId,
    kept: Kept,
    /// What was last seen.
    seen: Option<Vec<Instance>>,
    /// Whether it may be otherwise by now.
    stale: bool,
    /// Changes whenever what is seen may change because of us.
    epoch: u64,
    in_flight: Option<Op>,
    /// Since when the runtime has not answered.
    silent_since: Option<Moment>,
    /// When the runtime last answered.
    answered_at: Option<Moment>,
    /// Since when the same start has been seen running.
    running_since: Option<(String, Moment)>,
    /// Whether nothing was left to do, and since then nothing was asked for.
    settled: bool,
    /// Whether somebody has its secrets.
    has_secrets: bool,
}

/// What must outlive a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    spec: Spec,
    desired: Desired,
    /// The last spec that was good before this one.
    previous: Option<Spec>,
    /// Whether this spec was seen to do well.
    good: bool,
    /// Why the spec gave way to the one before it.
    rolled_back: Option<Fault>,
    /// Why there is nothing more to be tried.
    failure: Option<Fault>,
    deleting: bool,
    /// Whether it is kept stopped because its host is drained.
    drained: bool,
    /// Whether it ended well and is not to be started again.
    completed: bool,
    start: Start,
    /// Whether the image is here that a new revision needs.
    prepared: bool,
    /// How often an operation failed in a row, and why the last time.
    attempts: u32,
    last_fault: Option<Fault>,
    /// When something may be tried again.
    retry_at: Option<Moment>,
    /// How often it was found ended and started again, and when that was last.
    repairs: u32,
    repaired_at: Option<Moment>,
    /// When a new revision must have done well.
    gate_until: Option<Moment>,
    created_at: Moment,
    updated_at: Moment,
}

/// Whether a workload that ended is to be started, because somebody wants it to run once more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Start {
    /// Nobody asked for it.
    Settled,
    /// Yes, whatever is found.
    Wanted,
    /// Yes, unless it was started since this start of it.
    After(String),
}

// === impl Workload: what somebody wants ===

impl Workload {
    /// A workload that nobody had heard of.
    #[must_use]
    pub fn new(id: WorkloadId, spec: Spec, desired: Desired, now: Moment) -> Self {
        Self::from_kept(id, Kept::new(spec, desired, now))
    }

    fn from_kept(id: WorkloadId, kept: Kept) -> Self {
        Self {
            id,
            kept,
            seen: None,
            stale: true,
            epoch: 0,
            in_flight: None,
            silent_since: None,
            answered_at: None,
            running_since: None,
            settled: false,
            has_secrets: false,
        }
    }

    /// What it would come to if this were applied.
    #[must_use]
    pub fn judge(&self, revision: &Revision, desired: Desired) -> Verdict {
        let kept = &self.kept;
        if kept.deleting {
            Verdict::Deleting
        } else if *revision != kept.spec.revision {
            Verdict::Replace
        } else if (kept.failure.is_some() || kept.rolled_back.is_some())
            && desired == Desired::Running
        {
            Verdict::Again
        } else if desired != kept.desired {
            Verdict::Switch
        } else {
            Verdict::Same
        }
    }

    /// Somebody applied `spec`. One that is being deleted stays what it was.
    pub fn applied(&mut self, spec: Spec, desired: Desired, now: Moment) {
        match self.judge(&spec.revision, desired) {
            Verdict::Same | Verdict::Deleting => return,
            Verdict::Switch => self.switched(desired),
            Verdict::Again => {
                self.kept.rolled_back = None;
                self.kept.failure = None;
                self.kept.good = false;
                self.kept.completed = false;
                self.kept.prepared = false;
                self.kept.gate_until = None;
                self.kept.desired = desired;
                self.kept.start = Start::Wanted;
            }
            Verdict::Replace => self.replaced(spec, desired),
        }
        self.kept.updated_at = now;
        self.try_at_once();
    }

    /// Somebody wants it gone.
    pub fn deleted(&mut self, now: Moment) {
        if !self.kept.deleting {
            self.kept.deleting = true;
            self.kept.updated_at = now;
            self.try_at_once();
        }
    }

    /// Its host is drained, or no longer: it is kept stopped meanwhile, and is then what it was.
    pub fn drained(&mut self, drained: bool) {
        if self.kept.drained == drained {
            return;
        }
        self.kept.drained = drained;
        if !drained && !self.kept.completed && self.kept.failure.is_none() {
            self.kept.start = Start::Wanted;
        }
        self.try_at_once();
    }

    /// Whether somebody has what its spec names as secrets.
    pub fn secrets_known(&mut self, known: bool) {
        self.has_secrets = known;
    }

    fn switched(&mut self, desired: Desired) {
        self.kept.desired = desired;
        self.kept.completed = false;
        match desired {
            Desired::Running => self.kept.start = Start::Wanted,
            // What failed and should not run is what was wanted.
            Desired::Stopped => self.kept.start = Start::Settled,
        }
    }

    fn replaced(&mut self, spec: Spec, desired: Desired) {
        let kept = &mut self.kept;
        let old = core::mem::replace(&mut kept.spec, spec);
        if kept.good && kept.rolled_back.is_none() {
            kept.previous = Some(old);
        }
        kept.desired = desired;
        kept.good = false;
        kept.rolled_back = None;
        kept.failure = None;
        kept.completed = false;
        // One of this revision may be there from before, stopped by us.
        kept.start = match desired {
            Desired::Running => Start::Wanted,
            Desired::Stopped => Start::Settled,
        };
        kept.prepared = false;
        kept.repairs = 0;
        kept.repaired_at = None;
        kept.gate_until = None;
    }

    fn try_at_once(&mut self) {
        self.settled = false;
        self.kept.attempts = 0;
        self.kept.last_fault = None;
        self.kept.retry_at = None;
    }
}

// === impl Workload: what is asked of it ===

impl Workload {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &WorkloadId {
        &self.id
    }

    /// The spec that was applied last.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.kept.spec
    }

    /// The spec that is carried out: the one that was applied last, or the one before it where that
    /// failed and was to give way.
    #[must_use]
    pub fn target(&self) -> &Spec {
        match (&self.kept.rolled_back, &self.kept.previous) {
            (Some(_), Some(previous)) => previous,
            (Some(_) | None, _) => &self.kept.spec,
        }
    }

    /// The spec that was applied last, and the one to go back to.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        core::iter::once(&self.kept.spec).chain(self.kept.previous.iter())
    }

    /// The revisions whose secrets it may still need.
    pub fn revisions(&self) -> impl Iterator<Item = &Revision> {
        self.specs().map(|spec| &spec.revision)
    }

    /// Whether it should run, as whoever applied it says.
    #[must_use]
    pub fn desired(&self) -> Desired {
        self.kept.desired
    }

    /// Whether somebody wants it gone.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.kept.deleting
    }

    /// What it takes of its host: nothing, where it should not run.
    #[must_use]
    pub fn needs(&self) -> Needs {
        match self.kept.desired {
            Desired::Running if !self.kept.deleting => self.kept.spec.needs(),
            Desired::Running | Desired::Stopped => Needs::default(),
        }
    }

    /// What was last seen of it, in the order of its handles.
    #[must_use]
    pub fn instances(&self) -> &[Instance] {
        self.seen.as_deref().unwrap_or_default()
    }

    /// Whether it should run now.
    fn should_run(&self) -> bool {
        self.kept.desired == Desired::Running && !self.kept.deleting && !self.kept.drained
    }
}

// === impl Workload: what came of an operation ===

impl Workload {
    /// An operation is begun. Save the workload first.
    ///
    /// # Panics
    /// Another is under way: whoever asks [`Workload::next`] is told so.
    pub fn begun(&mut self, op: Op, now: Moment) {
        assert!(self.in_flight.is_none(), "{}: {op} while {:?}", self.id, self.in_flight);
        self.epoch += 1;
        self.in_flight = Some(op);
        self.settled = false;
        let ended = |instance: &Instance| matches!(instance.state, InstanceState::Exited { .. });
        let found_ended = self.instances().iter().any(ended);
        if op == Op::Start && found_ended && self.kept.start == Start::Settled {
            let steady = |last| now.since(last) > STEADY_AFTER;
            let before =
                if self.kept.repaired_at.is_some_and(steady) { 0 } else { self.kept.repairs };
            self.kept.repairs = before.saturating_add(1);
            self.kept.repaired_at = Some(now);
        }
        // Whether this start happened will show, even if nobody is left to tell.
        if op == Op::Start && self.kept.start == Start::Wanted {
            let stamp = self.instances().first().map(|instance| instance.started.clone());
            self.kept.start = stamp.map_or(Start::Wanted, Start::After);
        }
        if op == Op::Start && self.kept.gate_until.is_none() {
            self.kept.gate_until = Some(now + GATE);
        }
    }

    /// The operation under way succeeded. What it led to has to be looked at.
    pub fn done(&mut self, now: Moment) {
        let Some(op) = self.in_flight.take() else { return };
        self.epoch += 1;
        self.stale = true;
        self.silent_since = None;
        self.answered_at = Some(now);
        self.kept.attempts = 0;
        self.kept.last_fault = None;
        self.kept.retry_at = None;
        match op {
            Op::Prepare => self.kept.prepared = true,
            Op::Create => self.kept.prepared = false,
            Op::Start => self.kept.start = Start::Settled,
            Op::Stop | Op::Remove => {}
        }
    }

    /// The operation under way failed. It may have done something nevertheless.
    pub fn failed(&mut self, fault: Fault, now: Moment) {
        let Some(op) = self.in_flight.take() else { return };
        self.epoch += 1;
        self.stale = true;
        // Getting rid of something is never given up.
        let clearing = matches!(op, Op::Stop | Op::Remove);
        // An image that went away after it was fetched can be fetched again.
        let remedy = match (op, fault.kind) {
            (Op::Create, FaultKind::ImageNotFound) => Remedy::Retry,
            (_, kind) => kind.remedy(),
        };
        if op == Op::Create {
            self.kept.prepared = false;
        }
        match remedy {
            Remedy::Wait => {
                self.silent_since.get_or_insert(now);
                return;
            }
            Remedy::Keep if !clearing => {
                self.give_up(fault, now);
                return;
            }
            Remedy::Keep | Remedy::Retry => {}
        }
        self.kept.attempts = self.kept.attempts.saturating_add(1);
        if self.kept.attempts >= ATTEMPTS_MAX && !clearing {
            self.give_up(fault, now);
            return;
        }
        let delay = backoff::delay(&self.id, self.kept.attempts);
        self.kept.retry_at = Some(now + delay);
        self.kept.last_fault = Some(fault);
    }

    /// There is nothing more to be tried of this revision.
    fn give_up(&mut self, fault: Fault, now: Moment) {
        self.try_at_once();
        let kept = &mut self.kept;
        kept.updated_at = now;
        kept.gate_until = None;
        kept.start = Start::Settled;
        let gives_way = kept.spec.rollback
            && !kept.good
            && kept.rolled_back.is_none()
            && kept.previous.is_some();
        if gives_way {
            kept.rolled_back = Some(fault);
            kept.prepared = false;
        } else {
            kept.failure = Some(fault);
        }
    }
}

// === impl Kept ===

impl Kept {
    fn new(spec: Spec, desired: Desired, now: Moment) -> Self {
        Self {
            spec,
            desired,
            previous: None,
            good: false,
            rolled_back: None,
            failure: None,
            deleting: false,
            drained: false,
            completed: false,
            start: Start::Settled,
            prepared: false,
            attempts: 0,
            last_fault: None,
            retry_at: None,
            repairs: 0,
            repaired_at: None,
            gate_until: None,
            created_at: now,
            updated_at: now,
        }
    }
}
