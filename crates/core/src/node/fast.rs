//! The fast tick: raises the limits of workloads that are held back, before the market is asked.
//!
//! Only raises, only limits, only within the room under the over-commit. Workloads that want more
//! than the room holds share it by weight, and the market is cleared soon. Where none is held
//! back it does not allocate.

use alloc::vec::Vec;

use super::workload::Workload;
use super::{Action, Loop, Node, Note, Outcome, Why};
use crate::boost::{self, FastFacts, Step};
use crate::demand::{self, Reading, Signal};
use crate::market::{Claim, Mode, fill};
use crate::profile::{CapRule, Profile};
use crate::smooth;
use crate::smooth::weight::kernel_weight;
use crate::units::{Millicores, Moment};

/// A raise that one workload wants.
struct Want {
    place: usize,
    target: Millicores,
    why: Why,
}

impl Node {
    /// The fast loop looks at the workloads.
    pub fn fast_tick(&mut self, now: Moment) -> Outcome {
        let now = self.time_passed(now);
        self.last_fast = now;
        if self.profile.cap_rule == CapRule::Loose {
            let actions = self.serve_at_once(now);
            return self.outcome(Loop::Fast, actions);
        }
        let mut wants: Vec<Want> = Vec::new();
        for place in 0..self.workloads.len() {
            let Some(signal) = self.workloads[place].fast_window() else {
                continue;
            };
            self.workloads[place].judge_heat(&signal, &self.profile, now);
            self.workloads[place].count_throttled(&signal);
            match wish(&self.profile, &self.workloads[place], signal) {
                Step::Calm => {}
                Step::AtMax => {
                    let workload = &self.workloads[place];
                    let (uid, max) = (workload.uid().clone(), workload.bounds.max());
                    self.note(Note::AtMax { uid, max });
                }
                Step::LateElsewhere => {
                    let workload = &self.workloads[place];
                    let (uid, limit) = (workload.uid().clone(), workload.in_force.limit);
                    self.note(Note::LateElsewhere { uid, usage: signal.usage, limit });
                }
                Step::Throttled(target) => {
                    wants.push(Want { place, target, why: Why::throttled(&signal) });
                }
                Step::Late(target) => wants.push(Want { place, target, why: Why::LatencyMissed }),
            }
        }
        let actions = if wants.is_empty() { Vec::new() } else { self.raise(&wants, now) };
        self.outcome(Loop::Fast, actions)
    }

    /// Raises as far as the room under the over-commit goes.
    fn raise(&mut self, wants: &[Want], now: Moment) -> Vec<Action> {
        let room = self.limit_budget().saturating_sub(self.limits_in_force());
        let claims = wants.iter().map(|want| {
            let workload = &self.workloads[want.place];
            Claim {
                cap: u128::from(want.target.saturating_sub(workload.in_force.limit).get()),
                pull: u128::from(workload.weight.thousandths()),
            }
        });
        let shares = fill(room, claims).shares;
        let mut actions = Vec::with_capacity(wants.len());
        for (want, share) in wants.iter().zip(shares) {
            let target = self.workloads[want.place].in_force.limit + Millicores::new(share);
            // Rounded down, so that rounding takes no room that is not there.
            let limit = target.round_down_to(self.profile.rounding_milli);
            if target < want.target {
                self.clear_wanted = true;
                let workload = &self.workloads[want.place];
                let (uid, in_force) = (workload.uid().clone(), workload.in_force.limit);
                self.note(Note::NoRoom { uid, wanted: want.target, limit: limit.max(in_force) });
            }
            let (profile, mode) = (&self.profile, self.mode);
            let workload = &mut self.workloads[want.place];
            // The wish is remembered even where there was no room: the market will see it.
            workload.boost.raised(want.target, profile, now);
            // What little room there was may not be worth a change.
            let worth_it = limit == want.target
                || smooth::exceeds(limit, workload.in_force.limit, profile.raise_band);
            if limit > workload.in_force.limit && worth_it {
                actions.push(workload.raise_limit(limit, profile, mode, want.why.clone()));
            }
        }
        actions
    }
}

impl Workload {
    /// What the workload did since the last fast look, unless it is too early to say.
    pub(super) fn fast_window(&mut self) -> Option<Signal> {
        let (latest, from) = (self.latest?, self.fast_from?);
        let settles_at = self.boost.settles_at();
        if from.at < settles_at {
            // The window began before the last raise was in force. The next one may not.
            if latest.at >= settles_at {
                self.fast_from = Some(latest);
            }
            return None;
        }
        match demand::read(&from, &latest) {
            Reading::Window(signal) => {
                self.fast_from = Some(latest);
                Some(signal)
            }
            Reading::Reset => {
                self.fast_from = Some(latest);
                None
            }
            Reading::TooShort | Reading::OutOfOrder => None,
        }
    }

    pub(super) fn raise_limit(
        &mut self,
        limit: Millicores,
        profile: &Profile,
        mode: Mode,
        why: Why,
    ) -> Action {
        let in_force = &mut self.in_force;
        in_force.limit = limit;
        // The buffer grows with the quota before congestion; in it, that is the market's to decide.
        if profile.burst_buffer && mode == Mode::Uncongested {
            in_force.burst = limit;
        }
        let weight = kernel_weight(profile, in_force.request, self.weight);
        let weight = *in_force.weight.get_or_insert(weight);
        let (request, burst) = (in_force.request, in_force.burst);
        self.limit_track.was_set(limit);
        Action { uid: self.uid().clone(), limit, request, weight, burst, why }
    }
}

fn wish(profile: &Profile, workload: &Workload, signal: Signal) -> Step {
    if workload.contained_at.is_some() {
        // The market has answered this workload already.
        return Step::Calm;
    }
    let limit = workload.in_force.limit;
    let facts = FastFacts {
        limit,
        max: workload.bounds.max(),
        peak: workload.peak.value(),
        signal,
        throttled_in_a_row: workload.throttled_in_a_row,
        latency_missed: workload.latency_missed,
    };
    match boost::step(profile, &facts) {
        Step::Throttled(target) => Step::Throttled(smooth::limit_step(profile, limit, target)),
        Step::Late(target) => Step::Late(smooth::limit_step(profile, limit, target)),
        none @ (Step::Calm | Step::AtMax | Step::LateElsewhere) => none,
    }
}
