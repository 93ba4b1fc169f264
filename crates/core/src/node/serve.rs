//! What becomes of grants where caps are loose.
//!
//! A cap is for containing, and never a bet against the next burst: a workload that is not
//! contained keeps at least what it came with, its right, its grant and a tenth more than it used
//! within a day; who came without a limit gets none. The slow tick brings caps and requests there.
//! The fast tick raises those that are throttled while the node is idle beyond the guard, by all
//! that is idle there, and lets the caps of contained workloads follow what the others leave. Who
//! gets CPU where it is scarce is not said by caps but by standing weights.
//!
//! Always: a raise is refused only where next to nothing is idle, or at the workload's max;
//! no cap is below its owner's right.

use alloc::vec::Vec;

use super::workload::Workload;
use super::{Action, Node, Note, RestsOn, Why};
use crate::boost::{self, FastFacts, Step};
use crate::market::Mode;
use crate::profile::{Profile, WeightSource};
use crate::request::RequestRule;
use crate::smooth::weight::{KernelWeight, Standing, standing};
use crate::smooth::{self, Guards, Verdict, Wish};
use crate::units::{Millicores, Moment};

/// What holds for a whole tick.
#[derive(Clone, Copy)]
struct Tick<'a> {
    profile: &'a Profile,
    capacity: Millicores,
    mode: Mode,
    now: Moment,
}

/// The cap a workload should have.
#[derive(Clone, Copy)]
struct LooseCap {
    amount: Millicores,
    /// What of it does not rest on use. Use moves all the time, and a little is not worth a change;
    /// a promise is kept to the last millicore.
    promised: Millicores,
    rests_on: RestsOn,
}

/// What one workload is to have.
struct Plan {
    limit: Millicores,
    request: Millicores,
    why: Why,
    /// When a change is due that is held back.
    due: Option<Moment>,
}

// === impl Node ===

impl Node {
    /// Brings every workload to what it should have.
    pub(super) fn serve(&mut self, now: Moment) -> Vec<Action> {
        let weights = self.weights();
        let tick = Tick { profile: &self.profile, capacity: self.capacity, mode: self.mode, now };
        let mut actions = Vec::new();
        let mut held = Vec::new();
        for (workload, weight) in self.workloads.iter_mut().zip(weights) {
            let plan = workload.plan(&tick);
            if let Some(until) = plan.due {
                held.push(Note::ChangeHeld { uid: workload.uid().clone(), until });
            }
            actions.extend(workload.set(plan, weight, &tick));
        }
        for note in held {
            self.note(note);
        }
        actions
    }

    /// Raises who is held back while there is CPU for it, and follows with who is contained.
    pub(super) fn serve_at_once(&mut self, now: Moment) -> Vec<Action> {
        let idle = self.idle_now();
        let room = idle.saturating_sub(self.guard());
        let weights = self.weights_if_unknown();
        let mut contained = Vec::new();
        let mut actions = Vec::new();
        for place in 0..self.workloads.len() {
            let workload = &mut self.workloads[place];
            let Some(signal) = workload.fast_window() else {
                continue;
            };
            workload.recent = Some(signal);
            workload.judge_heat(&signal, &self.profile, now);
            workload.count_throttled(&signal);
            if workload.containment.is_some() {
                contained.push(place);
                continue;
            }
            if workload.in_force.limit.is_unlimited() {
                continue;
            }
            let (limit, max) = (workload.in_force.limit, workload.bounds.max());
            let facts = FastFacts {
                limit,
                max,
                peak: workload.peak.value(),
                signal,
                throttled_in_a_row: workload.throttled_in_a_row,
                latency_missed: workload.latency_missed,
            };
            let (target, why) = match boost::step(&self.profile, &facts) {
                Step::Calm => continue,
                Step::AtMax => {
                    let uid = workload.uid().clone();
                    self.note(Note::AtMax { uid, max });
                    continue;
                }
                Step::LateElsewhere => {
                    let uid = workload.uid().clone();
                    self.note(Note::LateElsewhere { uid, usage: signal.usage, limit });
                    continue;
                }
                Step::Throttled(target) => (target, Why::throttled(&signal)),
                Step::Late(target) => (target, Why::LatencyMissed),
            };
            if room == Millicores::ZERO {
                let uid = workload.uid().clone();
                self.note(Note::NothingIdle { uid, limit, idle });
                continue;
            }
            // By all that is idle: weights say who gets it, and another raise would come too late.
            let target = target.max(limit + room).min(max);
            let rounded = target.round_up_to(self.profile.rounding_milli).min(max);
            let target = smooth::limit_step(&self.profile, limit, rounded);
            workload.boost.raised(target, &self.profile, now);
            workload.in_force.weight =
                workload.in_force.weight.or_else(|| weights.get(place).copied());
            let (profile, mode) = (&self.profile, self.mode);
            actions.push((place, workload.raise_limit(target, profile, mode, why)));
        }
        self.follow_contained(&contained, &weights, now, &mut actions);
        actions.sort_by_key(|(place, _)| *place);
        actions.into_iter().map(|(_, action)| action).collect()
    }

    /// What is idle now, as far as anybody knows.
    pub(super) fn idle_now(&self) -> Millicores {
        self.machine.look().map_or_else(
            || {
                let signals = self.workloads.iter().filter_map(|workload| workload.recent);
                let used: Millicores = signals.map(|signal| signal.usage).sum();
                self.capacity.saturating_sub(used)
            },
            |look| look.idle,
        )
    }

    /// The weights of all workloads if that of some is not known, as before its first clearing;
    /// what would be guessed from the workload alone could be the whole node beside standing
    /// weights.
    fn weights_if_unknown(&self) -> Vec<KernelWeight> {
        let is_unknown = self.workloads.iter().any(|workload| workload.in_force.weight.is_none());
        if is_unknown { self.weights() } else { Vec::new() }
    }

    fn weights(&self) -> Vec<KernelWeight> {
        let workloads = self.workloads.iter();
        match self.profile.weight_source {
            WeightSource::Standing => {
                standing(self.capacity, workloads.map(|workload| workload.standing()))
            }
            WeightSource::Request | WeightSource::Bargaining => workloads
                .map(|workload| {
                    let request = workload.request_wish;
                    smooth::weight::kernel_weight(&self.profile, request, workload.weight)
                })
                .collect(),
        }
    }
}

// === impl Workload ===

impl Workload {
    /// A contained workload has its right and no share of what the rights leave.
    const fn standing(&self) -> Standing {
        let weight = if self.containment.is_some() { None } else { Some(self.weight) };
        Standing { right: self.bounds.min(), weight, came_with: self.came_with.weight }
    }

    /// The cap it should have.
    fn loose_cap(&self, tick: &Tick<'_>) -> LooseCap {
        let granted = self.grant.map_or(Millicores::ZERO, |grant| grant.amount);
        let used = self.peak.value().scale_floor(tick.profile.peak_factor);
        let floors = [
            (self.came_with.limit.unwrap_or(Millicores::UNLIMITED), RestsOn::CameWith),
            (self.bounds.min(), RestsOn::Right),
            (tick.profile.limit_floor_milli, RestsOn::Comfort),
            (used, RestsOn::Peak),
            (granted, RestsOn::Grant),
        ];
        let (mut cap, mut rests_on) = floors[0];
        let mut promised = cap;
        for (floor, what) in floors {
            if floor > cap {
                (cap, rests_on) = (floor, what);
            }
            if !matches!(what, RestsOn::Peak | RestsOn::Grant) {
                promised = promised.max(floor);
            }
        }
        let most = self.most(tick.capacity);
        let round = |cap: Millicores| cap.round_up_to(tick.profile.rounding_milli).min(most);
        let promised = round(promised);
        if promised.is_unlimited() {
            LooseCap { amount: most, promised, rests_on: RestsOn::NoLimit }
        } else if cap > most {
            let rests_on = if most.is_unlimited() { rests_on } else { RestsOn::Max };
            LooseCap { amount: most, promised, rests_on }
        } else {
            LooseCap { amount: round(cap), promised, rests_on }
        }
    }

    /// The largest cap it may have. One that may have the whole node needs none.
    fn most(&self, capacity: Millicores) -> Millicores {
        let max = self.bounds.max();
        if max >= capacity { Millicores::UNLIMITED } else { max }
    }

    fn plan(&mut self, tick: &Tick<'_>) -> Plan {
        let profile = tick.profile;
        let guards = Guards {
            grace_until: self.added_at + profile.startup_grace_ms,
            cooldown_until: self.last_change.map_or(tick.now, |at| at + profile.cooldown_ms),
        };
        let in_force = self.in_force;
        let cap = self.loose_cap(tick);
        let (limit, mut due) = match self.contained_at {
            // Decided where containment is.
            Some(_) => (in_force.limit, None),
            None => self.damped(&cap, &guards, tick),
        };
        let mut request = self.request_wish.min(limit);
        if request != in_force.request && tick.now < guards.cooldown_until {
            due = Some(due.unwrap_or(guards.cooldown_until).min(guards.cooldown_until));
            request = in_force.request.min(limit);
        }
        let why = if limit > in_force.limit && core::mem::take(&mut self.was_released) {
            Why::Released
        } else if limit != in_force.limit {
            Why::Cap { shrinks: limit < in_force.limit, rests_on: cap.rests_on }
        } else if request != in_force.request {
            match (self.request_rule, self.request_why) {
                (RequestRule::Follows, Some(because)) => {
                    Why::Request { from: in_force.request, to: request, because }
                }
                (RequestRule::Kept | RequestRule::Scaled, _) | (_, None) => {
                    Why::RequestRestored { request }
                }
            }
        } else {
            Why::Trimmed
        };
        Plan { limit, request, why, due }
    }

    /// Where the cap moves to from what is in force, and when if not yet.
    fn damped(
        &mut self,
        cap: &LooseCap,
        guards: &Guards,
        tick: &Tick<'_>,
    ) -> (Millicores, Option<Moment>) {
        let (in_force, amount) = (self.in_force.limit, cap.amount);
        if amount.is_unlimited() && in_force.is_unlimited() {
            return (in_force, None);
        }
        if cap.promised > in_force {
            self.limit_track.was_set(amount);
            return if tick.now < guards.cooldown_until {
                (in_force, Some(guards.cooldown_until))
            } else if amount.is_unlimited() {
                (amount, None)
            } else {
                (smooth::limit_step(tick.profile, in_force, amount), None)
            };
        }
        // What a limit has above the whole node is not worth steps of its own.
        let present = in_force.min(tick.capacity.max(amount));
        let wish = Wish::Limit { amount, most: amount };
        let verdict =
            smooth::damp(tick.profile, &mut self.limit_track, present, wish, guards, tick.now);
        match verdict {
            Verdict::Keep => (in_force, None),
            Verdict::Hold(until) => (in_force, Some(until)),
            Verdict::Change(target) => (target, None),
        }
    }

    /// The action that makes the plan true, unless it is true already.
    fn set(&mut self, plan: Plan, weight: KernelWeight, tick: &Tick<'_>) -> Option<Action> {
        let Plan { limit, request, why, .. } = plan;
        let burst = self.loose_burst(limit, tick);
        let in_force = &mut self.in_force;
        let moved = limit != in_force.limit || request != in_force.request;
        if !moved && in_force.weight == Some(weight) && in_force.burst == burst {
            return None;
        }
        if moved {
            self.last_change = Some(tick.now);
        }
        if request < in_force.request {
            self.lowered_at = tick.now;
        }
        in_force.limit = limit;
        in_force.request = request;
        in_force.weight = Some(weight);
        in_force.burst = burst;
        Some(Action { uid: self.uid().clone(), limit, request, weight, burst, why })
    }

    /// A burst buffer as large as the quota, except for those that are contained, and where none
    /// gets what it has a right to.
    fn loose_burst(&self, limit: Millicores, tick: &Tick<'_>) -> Millicores {
        let none = !tick.profile.burst_buffer
            || limit.is_unlimited()
            || self.containment.is_some()
            || tick.mode == Mode::Overloaded;
        if none { Millicores::ZERO } else { limit }
    }

    /// Its cap becomes `limit`, without delay.
    pub(super) fn set_cap(&mut self, limit: Millicores, why: Why, now: Moment) -> Action {
        let in_force = &mut self.in_force;
        in_force.limit = limit;
        in_force.burst = Millicores::ZERO;
        in_force.request = in_force.request.min(limit);
        let (request, burst) = (in_force.request, in_force.burst);
        let weight = *in_force.weight.get_or_insert(KernelWeight::from_request(request));
        self.limit_track.was_set(limit);
        self.last_change = Some(now);
        Action { uid: self.uid().clone(), limit, request, weight, burst, why }
    }
}
