//! The agent of one virtual machine: how large it should be, and whom to ask in which order.
//!
//! A driver tells the [`Agent`] what happened, calls [`Agent::step`], carries out the actions and
//! calls again when one is answered, when anything else happens, and at the wake-up time. Up: first
//! the permit, then the machine, then the guest. Down: first the guest, then the machine, then the
//! permit is given back. Nothing of that is a sequence that could be interrupted: every step looks
//! at what the three have and moves each as far as the others allow, so a goal may change mid-way.
//!
//! Always: what the guest agreed to make do with is at most what the machine has, and that is at
//! most what is permitted, also for requests whose answers were lost, are late, or come twice; one
//! request is in flight to each party; without metrics, and without the guest, nothing shrinks.

mod goal;
mod note;
mod parties;
mod plan;
mod settings;
mod working_set;

use alloc::vec::Vec;

use crate::permit::Answer;
use crate::units::{ComputeUnit, Moment, Ratio, Resources};

use self::parties::{Informant, Line, Machine, MachineRequest, Presence, Scheduler, Told};

pub use goal::{
    Denied, Goal, GoalFrom, GoalInput, GoalRule, Memory, Metrics, Parts, Requested, VmBounds,
};
pub use note::{Note, Party};
pub use parties::{RequestId, Seen};
pub use settings::Settings;
pub use working_set::{WorkingSet, WorkingSetRule};

/// Something to do, and to report the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Find out what the machine is.
    ReadVm {
        /// To be answered with.
        id: RequestId,
    },
    /// Give the machine so much, only if it still has that version. Its version grows even where it
    /// has as much already. It is done when the machine has it, not when it was asked to.
    PatchVm {
        /// To be answered with.
        id: RequestId,
        /// What it should have.
        to: Resources,
        /// What was seen.
        version: u64,
    },
    /// Ask the scheduler.
    AskPermit {
        /// To be answered with.
        id: RequestId,
        /// What should be permitted.
        wanted: Resources,
        /// What was permitted last, by whomever.
        last_permit: Option<Resources>,
        /// The load average of one minute.
        load: Option<Ratio>,
        /// Larger than in every earlier question.
        sequence: u64,
    },
    /// Ask the guest whether it can make do with so much.
    AskDownscale {
        /// To be answered with.
        id: RequestId,
        /// With what.
        to: Resources,
    },
    /// Tell the guest that it has so much.
    TellUpscale {
        /// To be answered with.
        id: RequestId,
        /// How much.
        to: Resources,
    },
}

/// What a step decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What to do.
    pub actions: Vec<Action>,
    /// What was noticed, and what was wanted but not done.
    pub notes: Vec<Note>,
    /// When to step again at the latest, even if nothing happens. Later than now.
    pub wake_at: Option<Moment>,
}

/// The agent of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agent {
    settings: Settings,
    unit: ComputeUnit,
    bounds: VmBounds,
    now: Moment,
    next_id: u64,
    metrics: Option<(Metrics, Moment)>,
    requested: Option<(Requested, Moment)>,
    denied: Option<(Denied, Moment)>,
    machine: Machine,
    scheduler: Scheduler,
    informant: Informant,
    is_moving: bool,
    told_no_metrics: bool,
    told_no_informant: bool,
    notes: Vec<Note>,
}

// === impl Agent: what happened ===

impl Agent {
    /// An agent that knows nothing of its machine yet. Its questions are numbered from `sequence`
    /// on, which has to be more than any earlier agent of the machine has used; the time will do.
    #[must_use]
    pub fn new(settings: Settings, unit: ComputeUnit, bounds: VmBounds, sequence: u64) -> Self {
        Self {
            settings,
            unit,
            bounds,
            now: Moment::ORIGIN,
            next_id: 1,
            metrics: None,
            requested: None,
            denied: None,
            machine: Machine { stale: true, ..Machine::default() },
            scheduler: Scheduler {
                line: Line::FREE,
                present: false,
                met: false,
                permit: None,
                asked_at: None,
                more_at: None,
                sequence,
            },
            informant: Informant::default(),
            is_moving: false,
            told_no_metrics: false,
            told_no_informant: false,
            notes: Vec::new(),
        }
    }

    /// The machine told of itself.
    pub fn metrics_read(&mut self, metrics: Metrics, now: Moment) {
        let now = self.time_passed(now);
        self.metrics = Some((metrics, now));
    }

    /// Other bounds hold.
    pub const fn bounds_changed(&mut self, bounds: VmBounds) {
        self.bounds = bounds;
    }

    /// The guest asked for more.
    pub fn guest_asked(&mut self, cpu: bool, memory: bool, now: Moment) {
        let now = self.time_passed(now);
        let Some(range) = self.machine.range() else {
            return;
        };
        if self.informant.presence != Presence::Active || !(cpu || memory) {
            return;
        }
        let had = self.informant.agreed.unwrap_or(range.using);
        let earlier = self.requested.filter(|(_, until)| *until > now).map(|(earlier, _)| earlier);
        let cpu = cpu || earlier.is_some_and(|earlier| earlier.cpu);
        let memory = memory || earlier.is_some_and(|earlier| earlier.memory);
        let until = now + self.settings.requested_valid;
        self.requested = Some((Requested { cpu, memory, had }, until));
    }

    /// The machine was seen, by a watch: not as an answer.
    pub fn vm_seen(&mut self, seen: Seen) {
        self.machine.saw(seen);
        self.machine_known();
    }

    /// The machine was read, as asked.
    pub fn vm_read(&mut self, id: RequestId, seen: Seen) {
        if self.machine.line.answered(id).is_some() {
            self.machine.stale = false;
            self.vm_seen(seen);
        }
    }

    /// The machine was changed, as asked, and is now this.
    pub fn vm_patched(&mut self, id: RequestId, seen: Seen) {
        if let Some(MachineRequest::Patch) = self.machine.line.answered(id) {
            self.machine.fenced = true;
            self.vm_seen(seen);
        }
    }

    /// Reading or changing the machine failed; whether it will change is not known.
    pub fn vm_failed(&mut self, id: RequestId, now: Moment) {
        let now = self.time_passed(now);
        if self.machine.line.answered(id).is_some() {
            self.machine.stale = true;
            let again_at = self.machine.line.failed(now, self.settings.patch_again_after);
            self.notes.push(Note::Failed { party: Party::Machine, again_at });
        }
    }

    /// There is a scheduler, perhaps not the one there was.
    pub const fn scheduler_came(&mut self) {
        self.scheduler.present = true;
        self.scheduler.met = false;
        self.scheduler.line = Line::FREE;
        self.scheduler.more_at = None;
    }

    /// There is no scheduler. What was permitted stays permitted.
    pub const fn scheduler_gone(&mut self) {
        self.scheduler.present = false;
        self.scheduler.line = Line::FREE;
    }

    /// The scheduler answered.
    pub fn permit_answered(&mut self, id: RequestId, answer: &Answer, now: Moment) {
        let now = self.time_passed(now);
        let Some(question) = self.scheduler.line.answered(id) else {
            return;
        };
        let (asked, permit) = (question.asked, answer.permit);
        let least = question.held.map_or(asked, |held| held.min(asked));
        if !(least.fits(permit) && permit.fits(asked)) {
            self.notes.push(Note::PermitRefused { asked, permit });
            self.scheduler.line.failed(now, self.settings.ask_again_after);
            return;
        }
        self.unit = answer.unit;
        self.scheduler.met = true;
        self.scheduler.permit = Some(permit);
        self.scheduler.more_at = None;
        if answer.migrate {
            if !self.is_moving {
                self.notes.push(Note::Moving);
            }
            self.is_moving = true;
            return;
        }
        self.move_failed();
        if permit != asked {
            let again_at = now + self.settings.ask_more_after;
            self.scheduler.more_at = Some(again_at);
            self.notes.push(Note::GrantedLess { asked, permit, again_at });
        }
    }

    /// The scheduler did not answer, or refused to. Where it said that a later question came before
    /// this one, `newest` is the number of that.
    pub fn permit_failed(&mut self, id: RequestId, newest: Option<u64>, now: Moment) {
        let now = self.time_passed(now);
        if self.scheduler.line.answered(id).is_some() {
            self.scheduler.sequence = self.scheduler.sequence.max(newest.unwrap_or(0));
            let again_at = self.scheduler.line.failed(now, self.settings.ask_again_after);
            self.notes.push(Note::Failed { party: Party::Scheduler, again_at });
        }
    }

    /// The informant listens to this agent.
    pub fn informant_resumed(&mut self) {
        if self.informant.presence == Presence::Suspended {
            // Another agent may have done anything meanwhile, and a move may have begun or ended.
            self.is_moving = false;
            self.machine.forget();
            self.scheduler.line = Line::FREE;
            self.scheduler.permit = None;
            self.scheduler.met = false;
        }
        self.informant = Informant { presence: Presence::Active, ..Informant::default() };
        self.told_no_informant = false;
    }

    /// The informant registered this agent, but listens to another one, or to none yet.
    pub fn informant_suspended(&mut self) {
        self.informant = Informant { presence: Presence::Suspended, ..Informant::default() };
    }

    /// The informant does not know this agent, or cannot be reached any more.
    pub fn informant_gone(&mut self) {
        self.informant = Informant::default();
    }

    /// The guest said whether it can make do with what it was asked to.
    pub fn downscale_answered(&mut self, id: RequestId, agrees: bool, now: Moment) {
        let now = self.time_passed(now);
        let Some(Told::Downscale { had, to }) = self.informant.line.answered(id) else {
            return;
        };
        self.informant.sure = true;
        if agrees {
            self.informant.agreed = Some(to);
            self.denied = None;
        } else {
            let again_at = now + self.settings.denied_valid;
            self.denied = Some((Denied { had, asked: to }, again_at));
            self.notes.push(Note::DownscaleDenied { asked: to, again_at });
        }
    }

    /// The guest knows that it has more.
    pub fn upscale_confirmed(&mut self, id: RequestId) {
        if self.informant.line.answered(id).is_some() {
            self.informant.sure = true;
        }
    }

    /// The guest did not answer. Whether it heard is not known.
    pub fn informant_failed(&mut self, id: RequestId, now: Moment) {
        let now = self.time_passed(now);
        if self.informant.line.answered(id).is_some() {
            let again_at = self.informant.line.failed(now, self.settings.tell_again_after);
            self.notes.push(Note::Failed { party: Party::Informant, again_at });
        }
    }

    /// The machine was to move to another node, and stays. An answer without a move says the same.
    pub fn move_failed(&mut self) {
        if self.is_moving {
            self.is_moving = false;
            self.machine.forget();
            // An answer that is under way may be older than the end of the move.
            self.scheduler.line = Line::FREE;
            self.scheduler.met = false;
            self.informant.agreed = None;
        }
    }

    /// Takes note of the time. A clock that stepped back is held where it was.
    fn time_passed(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }

    /// What follows from what the machine was just seen to be.
    fn machine_known(&mut self) {
        let Some(seen) = self.machine.seen else {
            return;
        };
        self.informant.agreed = self.informant.agreed.map(|agreed| agreed.min(seen.using));
        if let Some(permit) = self.scheduler.permit
            && !seen.using.fits(permit)
        {
            self.notes.push(Note::AbovePermit { using: seen.using, permit });
        }
    }
}

// === impl Agent: questions ===

impl Agent {
    /// What the machine should have, and why; nothing where it was never seen.
    #[must_use]
    pub fn goal(&self, now: Moment) -> Option<Goal> {
        let range = self.machine.range()?;
        Some(self.settings.goal.goal(&GoalInput {
            unit: self.unit,
            bounds: self.bounds,
            using: range.using,
            metrics: self.fresh_metrics(now),
            requested: self.requested.filter(|(_, until)| *until > now).map(|(it, _)| it),
            denied: self.denied.filter(|(_, until)| *until > now).map(|(it, _)| it),
        }))
    }

    fn fresh_metrics(&self, now: Moment) -> Option<&Metrics> {
        let metrics = self.metrics.as_ref();
        let fresh = metrics.filter(|(_, at)| now.since(*at) <= self.settings.metrics_valid);
        fresh.map(|(metrics, _)| metrics)
    }

    /// What the machine was last seen to be.
    #[must_use]
    pub const fn seen(&self) -> Option<Seen> {
        self.machine.seen
    }

    /// What may be used, as far as is known.
    #[must_use]
    pub const fn permit(&self) -> Option<Resources> {
        self.scheduler.permit
    }

    /// What the guest agreed to make do with.
    #[must_use]
    pub const fn agreed(&self) -> Option<Resources> {
        self.informant.agreed
    }

    /// Whether the machine moves away, so that nothing is changed.
    #[must_use]
    pub const fn is_moving(&self) -> bool {
        self.is_moving
    }
}
