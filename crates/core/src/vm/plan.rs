//! One step of an agent: what is asked of whom now, and when it wants to be woken.
//!
//! Each party is moved towards the goal as far as the other two allow. The guest is told of no more
//! than the machine certainly has, the machine gets no more than is permitted and no less than the
//! guest agreed to, and no less is asked for than the machine can become.

use alloc::vec::Vec;

use crate::units::{Moment, Resources};

use super::parties::{MachineRequest, Presence, Question, Range, RequestId, Told};
use super::{Action, Agent, GoalFrom, Note, Outcome};

impl Agent {
    /// Decides what to do at `now`. This is the one call that both changes the agent and decides;
    /// called again without any news, it asks for nothing more.
    pub fn step(&mut self, now: Moment) -> Outcome {
        let now = self.time_passed(now);
        self.give_up_overdue(now);
        self.requested = self.requested.filter(|(_, until)| *until > now);
        self.denied = self.denied.filter(|(_, until)| *until > now);
        let mut actions = Vec::new();
        if self.informant.presence == Presence::Suspended {
            // Another agent acts.
        } else if self.is_moving {
            // The scheduler is still asked, for nothing new: it says when the move is off.
            actions.extend(self.plan_scheduler(None, now));
        } else {
            let goal = self.goal(now);
            if let Some(goal) = goal {
                self.note_what_is_missing(goal.amount, goal.from == GoalFrom::NoMetrics);
            }
            let amount = goal.map(|goal| goal.amount);
            actions.extend(self.plan_machine(amount, now));
            actions.extend(amount.and_then(|goal| self.plan_informant(goal, now)));
            actions.extend(self.plan_scheduler(amount, now));
        }
        let notes = core::mem::take(&mut self.notes);
        Outcome { actions, notes, wake_at: self.wake_at(now) }
    }

    fn give_up_overdue(&mut self, now: Moment) {
        if let Some(id) = self.machine.line.overdue(now) {
            self.vm_failed(id, now);
        }
        if let Some(id) = self.scheduler.line.overdue(now) {
            self.permit_failed(id, None, now);
        }
        if let Some(id) = self.informant.line.overdue(now) {
            self.informant_failed(id, now);
        }
    }

    /// Notes that hold for a while are told when they begin.
    fn note_what_is_missing(&mut self, goal: Resources, no_metrics: bool) {
        if no_metrics && !self.told_no_metrics {
            self.notes.push(Note::NoMetrics);
        }
        self.told_no_metrics = no_metrics;
        let shrinks = self.machine.range().is_some_and(|range| !range.using.fits(goal));
        let nobody = shrinks && self.informant.presence == Presence::Absent;
        if nobody && !self.told_no_informant {
            self.notes.push(Note::NoInformant { goal });
        }
        self.told_no_informant = nobody;
    }

    // === The machine ===

    fn plan_machine(&mut self, goal: Option<Resources>, now: Moment) -> Option<Action> {
        if !self.machine.line.is_free(now) {
            return None;
        }
        let until = now + self.settings.patch_timeout;
        let seen = self.machine.seen.filter(|_| !self.machine.stale);
        let (Some(seen), Some(goal)) = (seen, goal) else {
            let id = self.new_id();
            self.machine.line.sent(id, MachineRequest::Read, until);
            return Some(Action::ReadVm { id });
        };
        let permit = self.scheduler.permit.unwrap_or(seen.using);
        let agreed = match self.informant.presence {
            Presence::Active => self.informant.agreed,
            Presence::Absent | Presence::Suspended => None,
        };
        let to = goal.min(permit).max(agreed.unwrap_or(seen.using));
        // A change that may still come has to be ended by another one before anything relies on
        // its not coming.
        if to == seen.using && self.machine.fenced && self.machine.open.is_none() {
            return None;
        }
        let id = self.new_id();
        self.machine.line.sent(id, MachineRequest::Patch, until);
        self.machine.may_become(to);
        Some(Action::PatchVm { id, to, version: seen.version })
    }

    // === The guest ===

    fn plan_informant(&mut self, goal: Resources, now: Moment) -> Option<Action> {
        let is_active = self.informant.presence == Presence::Active;
        if !is_active || !self.machine.fenced || !self.informant.line.is_free(now) {
            return None;
        }
        let Range { using, low, .. } = self.machine.range()?;
        let Some(agreed) = self.informant.agreed else {
            // A guest that is new counts on what it has. To be told of less would be to be asked,
            // so it is told nothing before that is certain.
            let settled = self.machine.open.is_none() && !self.machine.stale;
            return settled.then(|| self.tell(using, now));
        };
        let up = Resources::of(|resource| {
            let agreed = agreed.get(resource);
            goal.get(resource).min(low.get(resource)).max(agreed)
        });
        if up != agreed {
            return Some(self.tell(up, now));
        }
        let down = self.one_unit_less(agreed).max(goal).min(agreed);
        if down != agreed {
            let id = self.new_id();
            let told = Told::Downscale { had: agreed, to: down };
            self.informant.line.sent(id, told, now + self.settings.tell_timeout);
            self.informant.sure = false;
            return Some(Action::AskDownscale { id, to: down });
        }
        (!self.informant.sure).then(|| self.tell(agreed, now))
    }

    /// From here on the guest may count on `to`, whether or not it answers.
    fn tell(&mut self, to: Resources, now: Moment) -> Action {
        let id = self.new_id();
        self.informant.agreed = Some(to);
        self.informant.sure = false;
        self.informant.line.sent(id, Told::Upscale, now + self.settings.tell_timeout);
        Action::TellUpscale { id, to }
    }

    fn one_unit_less(&self, amount: Resources) -> Resources {
        Resources::of(|resource| {
            let units = self.unit.count_ceil(amount, resource);
            self.unit.times(units.saturating_sub(1)).get(resource)
        })
    }

    // === The scheduler ===

    fn plan_scheduler(&mut self, goal: Option<Resources>, now: Moment) -> Option<Action> {
        let scheduler = &self.scheduler;
        if !scheduler.present || !self.machine.fenced || !scheduler.line.is_free(now) {
            return None;
        }
        let high = self.machine.range()?.high;
        let held = scheduler.permit.unwrap_or(high);
        // A scheduler that is not known yet is first told what there is.
        let mut wanted = goal.filter(|_| scheduler.met).map_or(high, |goal| goal.max(high));
        if scheduler.met && scheduler.more_at.is_some_and(|at| at > now) {
            wanted = wanted.min(held.max(high));
        }
        let due = scheduler.asked_at.is_none_or(|at| at + self.settings.ask_every <= now);
        if scheduler.met && wanted == held && !due {
            return None;
        }
        let id = self.new_id();
        let last_permit = self.scheduler.permit;
        let question = Question { asked: wanted, held: last_permit };
        self.scheduler.line.sent(id, question, now + self.settings.ask_timeout);
        // What is no longer asked for may be given to others from here on, answered or not.
        self.scheduler.permit = last_permit.map(|held| held.min(wanted));
        self.scheduler.asked_at = Some(now);
        self.scheduler.sequence = self.scheduler.sequence.saturating_add(1);
        let load = self.fresh_metrics(now).map(|metrics| metrics.load1);
        let sequence = self.scheduler.sequence;
        Some(Action::AskPermit { id, wanted, last_permit, load, sequence })
    }

    // === Time ===

    fn wake_at(&self, now: Moment) -> Option<Moment> {
        let tick = self.scheduler.asked_at.map(|at| at + self.settings.ask_every);
        let tick = tick.filter(|_| self.scheduler.present && self.scheduler.line.flight.is_none());
        let asking = self.scheduler.line.timers().into_iter().chain([tick]).flatten();
        let asking = asking.filter(|at| *at > now).min();
        if self.informant.presence == Presence::Suspended {
            return None;
        }
        if self.is_moving {
            return asking;
        }
        let others = [
            self.scheduler.more_at,
            self.requested.map(|(_, until)| until),
            self.denied.map(|(_, until)| until),
        ];
        let lines = [self.machine.line.timers(), self.informant.line.timers()];
        let timers = lines.into_iter().flatten().chain(others).flatten();
        timers.filter(|at| *at > now).chain(asking).min()
    }

    fn new_id(&mut self) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        id
    }
}
