//! The fast tick: raises the limits of pods that are held back, before the market is asked.
//!
//! Only raises, only limits, only within the room under the over-commit. Pods that want more than
//! the room holds share it by weight, and the market is cleared soon. Where nobody is held back it
//! does not allocate.

use alloc::vec::Vec;

use super::pod::Pod;
use super::{Action, Loop, Node, Note, Outcome, Why};
use crate::boost::{self, FastFacts, Step};
use crate::demand::{self, Reading, Signal};
use crate::market::{Claim, Mode, fill};
use crate::profile::{CapRule, Profile};
use crate::smooth;
use crate::smooth::weight::kernel_weight;
use crate::units::{Millicores, Moment};

/// A raise that one pod wants.
struct Want {
    place: usize,
    target: Millicores,
    why: Why,
}

impl Node {
    /// The fast loop looks at the pods.
    pub fn fast_tick(&mut self, now: Moment) -> Outcome {
        let now = self.time_passed(now);
        self.last_fast = now;
        if self.profile.cap_rule == CapRule::Loose {
            let actions = self.serve_at_once(now);
            return self.outcome(Loop::Fast, actions);
        }
        let mut wants: Vec<Want> = Vec::new();
        for place in 0..self.pods.len() {
            let Some(signal) = self.pods[place].fast_window() else {
                continue;
            };
            self.pods[place].judge_heat(&signal, &self.profile, now);
            self.pods[place].count_throttled(&signal);
            match wish(&self.profile, &self.pods[place], signal) {
                Step::Calm => {}
                Step::AtMax => {
                    let pod = &self.pods[place];
                    let (uid, max) = (pod.uid().clone(), pod.bounds.max());
                    self.note(Note::AtMax { uid, max });
                }
                Step::LateElsewhere => {
                    let pod = &self.pods[place];
                    let (uid, limit) = (pod.uid().clone(), pod.in_force.limit);
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
            let pod = &self.pods[want.place];
            Claim {
                cap: u128::from(want.target.saturating_sub(pod.in_force.limit).get()),
                pull: u128::from(pod.weight.thousandths()),
            }
        });
        let shares = fill(room, claims).shares;
        let mut actions = Vec::with_capacity(wants.len());
        for (want, share) in wants.iter().zip(shares) {
            let target = self.pods[want.place].in_force.limit + Millicores::new(share);
            // Rounded down, so that rounding takes no room that is not there.
            let limit = target.round_down_to(self.profile.rounding_milli);
            if target < want.target {
                self.clear_wanted = true;
                let pod = &self.pods[want.place];
                let (uid, in_force) = (pod.uid().clone(), pod.in_force.limit);
                self.note(Note::NoRoom { uid, wanted: want.target, limit: limit.max(in_force) });
            }
            let (profile, mode) = (&self.profile, self.mode);
            let pod = &mut self.pods[want.place];
            // The wish is remembered even where there was no room: the market will see it.
            pod.boost.raised(want.target, profile, now);
            // What little room there was may not be worth a change.
            let worth_it = limit == want.target
                || smooth::exceeds(limit, pod.in_force.limit, profile.raise_band);
            if limit > pod.in_force.limit && worth_it {
                actions.push(pod.raise_limit(limit, profile, mode, want.why.clone()));
            }
        }
        actions
    }
}

impl Pod {
    /// What the pod did since the last fast look, unless it is too early to say.
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

fn wish(profile: &Profile, pod: &Pod, signal: Signal) -> Step {
    if pod.contained_at.is_some() {
        // The market has answered this pod already.
        return Step::Calm;
    }
    let limit = pod.in_force.limit;
    let facts = FastFacts {
        limit,
        max: pod.bounds.max(),
        peak: pod.peak.value(),
        signal,
        throttled_in_a_row: pod.throttled_in_a_row,
        latency_missed: pod.latency_missed,
    };
    match boost::step(profile, &facts) {
        Step::Throttled(target) => Step::Throttled(smooth::limit_step(profile, limit, target)),
        Step::Late(target) => Step::Late(smooth::limit_step(profile, limit, target)),
        none @ (Step::Calm | Step::AtMax | Step::LateElsewhere) => none,
    }
}
