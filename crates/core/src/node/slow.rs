//! The slow tick: estimates every need, clears the market, and turns grants into what is worth
//! changing.
//!
//! The order is fixed: needs, bids, grants, then per pod the damped wishes, then the sums, then the
//! actions. Nothing is decided twice.

use alloc::vec::Vec;

use super::pod::Pod;
use super::{Action, Loop, Node, Note, Outcome, Why};
use crate::boost::{self, BurstRoom};
use crate::demand::{self, Reading};
use crate::market::{Clearing, Grant, Mode, SURVIVAL_FLOOR};
use crate::need::{self, SpecFacts};
use crate::profile::{Estimator, Profile, RequestRule};
use crate::smooth::fit::{Cap, Guarantee, fit_limits, fit_requests};
use crate::smooth::weight::kernel_weight;
use crate::smooth::{self, Guards, Verdict, Wish};
use crate::units::{Millicores, Moment, Ratio};

/// Demand above this after an allocation means the headroom was too small.
const MISS_DEMAND: Ratio = Ratio::from_percent(30);
/// More misses than this change nothing: headroom is at its most.
const MISSES_MAX: u32 = 8;

/// What one pod is to have, on its way from the market's wish to an action.
#[derive(Clone, Copy)]
struct Plan {
    limit: Millicores,
    request: Millicores,
    forced: bool,
}

impl Node {
    /// The slow loop clears the market.
    pub fn slow_tick(&mut self, now: Moment) -> Outcome {
        let now = self.time_passed(now);
        self.last_slow = now;
        self.clear_wanted = false;
        self.estimate_needs(now);
        let clearing = self.clear_with_bids();
        self.adopt(&clearing);
        let plans = self.plan(&clearing.grants, now);
        let actions = self.act(&plans, now);
        self.outcome(Loop::Slow, actions)
    }

    fn estimate_needs(&mut self, now: Moment) {
        for place in 0..self.pods.len() {
            let pod = &mut self.pods[place];
            let sampled = pod.slow_window();
            let missing = !sampled && pod.added_at + self.profile.sampling_interval_ms < now;
            pod.estimate_need(&self.profile, sampled);
            if missing {
                let (uid, ever_sampled) = (pod.uid().clone(), pod.latest.is_some());
                self.note(Note::SampleMissing { uid, ever_sampled });
            }
        }
    }

    fn adopt(&mut self, clearing: &Clearing) {
        if self.cleared && clearing.mode != self.mode {
            self.note(Note::ModeChanged { from: self.mode, to: clearing.mode });
        }
        self.cleared = true;
        self.mode = clearing.mode;
        self.price = clearing.price;
        self.multiplier = clearing.multiplier;
        for (pod, grant) in self.pods.iter_mut().zip(&clearing.grants) {
            pod.grant = Some(*grant);
        }
    }

    /// What every pod is to have: damped, and adding up.
    fn plan(&mut self, grants: &[Grant], now: Moment) -> Vec<Plan> {
        let profile = &self.profile;
        let mut held: Vec<Note> = Vec::new();
        let mut plans: Vec<Plan> = Vec::with_capacity(grants.len());
        for (pod, grant) in self.pods.iter_mut().zip(grants) {
            let (plan, due) = pod.wishes(profile, grant, now);
            if let Some(until) = due {
                held.push(Note::ChangeHeld { uid: pod.uid().clone(), until });
            }
            plans.push(plan);
        }
        for note in held {
            self.note(note);
        }
        match self.profile.request_rule {
            RequestRule::FromGrant => {
                self.fit_requests(grants, &mut plans);
                self.lift_limits(&mut plans);
                self.fit_limits(grants, &mut plans);
            }
            RequestRule::FromLimit => {
                self.fit_limits(grants, &mut plans);
                for (plan, pod) in plans.iter_mut().zip(&self.pods) {
                    plan.request = pod.request_from_limit(plan.limit, &self.profile);
                }
                self.fit_requests(grants, &mut plans);
            }
        }
        plans
    }

    fn fit_requests(&mut self, grants: &[Grant], plans: &mut [Plan]) {
        let mut guarantees: Vec<Guarantee> = self
            .pods
            .iter()
            .zip(grants)
            .zip(plans.iter())
            .map(|((pod, grant), plan)| Guarantee {
                grant: grant.amount,
                request: plan.request,
                min: pod.bounds.min(),
            })
            .collect();
        if fit_requests(&self.profile, self.capacity, &mut guarantees) {
            self.note(Note::RequestsForced { capacity: self.capacity });
        }
        for (plan, guarantee) in plans.iter_mut().zip(guarantees) {
            plan.forced |= guarantee.request != plan.request;
            plan.request = guarantee.request;
        }
    }

    /// A cap below the guarantee would take it back. What that leaves of a shrink may not be worth
    /// it any more.
    fn lift_limits(&self, plans: &mut [Plan]) {
        for (plan, pod) in plans.iter_mut().zip(&self.pods) {
            let in_force = pod.in_force.limit;
            plan.limit = plan.limit.max(plan.request);
            let shrinks = smooth::falls_below(plan.limit, in_force, self.profile.shrink_band);
            if plan.limit < in_force && !shrinks {
                plan.limit = in_force;
            }
        }
    }

    fn fit_limits(&mut self, grants: &[Grant], plans: &mut [Plan]) {
        let budget = self.limit_budget();
        let caps = |floor: &dyn Fn(&Grant, &Plan) -> Millicores| -> Vec<Cap> {
            let pods = self.pods.iter().zip(grants).zip(plans.iter());
            pods.map(|((pod, grant), plan)| Cap {
                floor: floor(grant, plan),
                limit: plan.limit,
                weight: pod.weight,
            })
            .collect()
        };
        // A limit should not fall below its grant, nor below its request; where held requests make
        // both together too much, the request alone has to do.
        let mut pods = match self.profile.request_rule {
            RequestRule::FromLimit => caps(&|grant, plan| plan.limit.min(grant.amount)),
            RequestRule::FromGrant => {
                caps(&|grant, plan| plan.limit.min(plan.request.max(grant.amount)))
            }
        };
        if pods.iter().map(|pod| pod.floor).sum::<Millicores>() > budget {
            pods = caps(&|_, plan| plan.request);
        }
        if fit_limits(&self.profile, budget, &mut pods) {
            self.note(Note::LimitsForced { budget });
        }
        for (plan, cap) in plans.iter_mut().zip(pods) {
            plan.forced |= cap.limit != plan.limit;
            plan.limit = cap.limit;
        }
    }

    /// Turns plans that differ from what is in force into actions.
    fn act(&mut self, plans: &[Plan], now: Moment) -> Vec<Action> {
        let limits: Millicores = plans.iter().map(|plan| plan.limit).sum();
        let room = BurstRoom { limits, spare: self.limit_budget().saturating_sub(limits) };
        let (profile, mode) = (&self.profile, self.mode);
        let pods = self.pods.iter_mut().zip(plans);
        pods.filter_map(|(pod, plan)| pod.carry_out(plan, profile, mode, room, now)).collect()
    }
}

impl Pod {
    /// Moves the slow window on. Says whether there was a new sample to move it to.
    fn slow_window(&mut self) -> bool {
        let (Some(latest), Some(from)) = (self.latest, self.slow_from) else {
            return false;
        };
        match demand::read(&from, &latest) {
            Reading::Window(signal) => {
                self.slow_from = Some(latest);
                let missed = signal.demand > MISS_DEMAND;
                self.headroom_misses = if missed {
                    (self.headroom_misses + 1).min(MISSES_MAX)
                } else {
                    self.headroom_misses.saturating_sub(1)
                };
                self.signal = Some(signal);
                true
            }
            Reading::Reset => {
                self.slow_from = Some(latest);
                false
            }
            Reading::TooShort | Reading::OutOfOrder => false,
        }
    }

    /// Without a new sample the need stays what it was: what is not known never shrinks a pod.
    fn estimate_need(&mut self, profile: &Profile, sampled: bool) {
        if !sampled && self.need.is_some() {
            return;
        }
        self.need = Some(match profile.estimator {
            Estimator::Spec => need::spec(
                self.bounds,
                &SpecFacts {
                    demand: self.signal.map_or(Ratio::ZERO, |signal| signal.demand),
                    usage: self.signal.map(|signal| signal.usage),
                    headroom_misses: self.headroom_misses,
                },
            ),
            // Before the first second is known, the limit a pod came with is the best guess.
            Estimator::Window => self
                .window
                .need(self.bounds, &profile.window_rule())
                .unwrap_or_else(|| self.bounds.clamp(self.in_force.limit)),
        });
    }

    /// What the market would like for this pod, damped; and when a change is due that is held back.
    fn wishes(&mut self, profile: &Profile, grant: &Grant, now: Moment) -> (Plan, Option<Moment>) {
        let guards = Guards {
            grace_until: self.added_at + profile.startup_grace_ms,
            cooldown_until: self.last_change.map_or(now, |at| at + profile.cooldown_ms),
        };
        let most = self.bounds.max();
        // A pod that cannot run cannot show that it wants to.
        let floor = profile.limit_floor_milli.min(most);
        let base = match profile.request_rule {
            RequestRule::FromLimit => grant.amount.max(floor),
            RequestRule::FromGrant => grant.amount.max(grant.need).max(floor),
        };
        let limit_wish =
            Wish::Limit { amount: self.boost.limit(base, profile, now).min(most.max(base)), most };
        let limit_now = self.in_force.limit;
        let limit_verdict =
            smooth::damp(profile, &mut self.limit_track, limit_now, limit_wish, &guards, now);
        // A limit follows its request up, so a request grows no faster than a limit may.
        let amount = grant.amount.min(smooth::limit_step(profile, limit_now, grant.amount));
        let request_wish = Wish::Request { amount, least: self.bounds.min() };
        let request_now = self.in_force.request;
        let request_verdict =
            smooth::damp(profile, &mut self.request_track, request_now, request_wish, &guards, now);
        let (limit, limit_due) = limit_verdict.settle(limit_now);
        let (request, request_due) = request_verdict.settle(request_now);
        let due = match profile.request_rule {
            RequestRule::FromLimit => limit_due,
            RequestRule::FromGrant => [limit_due, request_due].into_iter().flatten().min(),
        };
        (Plan { limit, request, forced: false }, due)
    }

    /// The request as a part of the limit, and below it, so that the pod's class does not change.
    fn request_from_limit(&self, limit: Millicores, profile: &Profile) -> Millicores {
        if limit == self.in_force.limit && self.in_force.weight.is_some() {
            return self.in_force.request;
        }
        let part = limit.scale_floor(profile.request_ratio).max(SURVIVAL_FLOOR);
        part.min(limit.saturating_sub(Millicores::new(1)))
    }

    /// The action that makes the plan true, unless it is true already.
    fn carry_out(
        &mut self,
        plan: &Plan,
        profile: &Profile,
        mode: Mode,
        room: BurstRoom,
        now: Moment,
    ) -> Option<Action> {
        let weight = kernel_weight(profile, plan.request, self.weight);
        let burst = self.burst_wish(boost::burst(profile, mode, plan.limit, room), plan, profile);
        let moved = plan.limit != self.in_force.limit || plan.request != self.in_force.request;
        let trimmed = self.in_force.weight != Some(weight) || self.in_force.burst != burst;
        if !moved && !trimmed {
            return None;
        }
        if moved {
            self.last_change = Some(now);
        }
        if plan.forced {
            self.limit_track.was_set(plan.limit);
            self.request_track.was_set(plan.request);
        }
        let grant = self.grant?;
        let why = match (moved, plan.forced) {
            (false, _) => Why::Trimmed,
            (true, true) => Why::Forced { grant: grant.amount },
            (true, false) => {
                Why::Market { need: grant.need, grant: grant.amount, reason: grant.reason }
            }
        };
        let (limit, request) = (plan.limit, plan.request);
        self.in_force.limit = limit;
        self.in_force.request = request;
        self.in_force.weight = Some(weight);
        self.in_force.burst = burst;
        Some(Action { uid: self.uid().clone(), limit, request, weight, burst, why })
    }

    /// A burst buffer alone is worth a change only if it moves by more than the bands, or must go.
    fn burst_wish(&self, wish: Millicores, plan: &Plan, profile: &Profile) -> Millicores {
        let now = self.in_force.burst;
        let keeps = plan.limit == self.in_force.limit
            && now <= plan.limit
            && wish > Millicores::ZERO
            && !smooth::exceeds(wish, now, profile.raise_band)
            && !smooth::falls_below(wish, now, profile.shrink_band);
        if keeps { now } else { wish }
    }
}

// === impl Verdict ===

impl Verdict {
    /// The value to plan with, and when a change is due that is held back.
    fn settle(self, in_force: Millicores) -> (Millicores, Option<Moment>) {
        match self {
            Self::Keep => (in_force, None),
            Self::Hold(until) => (in_force, Some(until)),
            Self::Change(target) => (target, None),
        }
    }
}
