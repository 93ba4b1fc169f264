//! The slow tick: estimates every need, clears the market, and turns grants into what is worth
//! changing.
//!
//! The order is fixed: needs, bids, grants, then per workload the damped wishes, then the sums,
//! then the actions. Nothing is decided twice.

use alloc::vec::Vec;

use super::workload::Workload;
use super::{Action, Loop, Node, Note, Outcome, RestsOn, Why};
use crate::boost::{self, BurstRoom};
use crate::demand::{self, Reading};
use crate::market::{Clearing, Grant, Mode, SURVIVAL_FLOOR};
use crate::need::{self, Bounds, SpecFacts};
use crate::profile::{CapRule, Estimator, Profile};
use crate::smooth::fit::{Cap, Guarantee, Move, fit_limits, fit_requests, keep_inside_bands};
use crate::smooth::weight::kernel_weight;
use crate::smooth::{self, Guards, Verdict, Wish};
use crate::units::{Millicores, Moment, Ratio};

/// Demand above this after an allocation means the headroom was too small.
const MISS_DEMAND: Ratio = Ratio::from_percent(30);
/// More misses than this change nothing: headroom is at its most.
const MISSES_MAX: u32 = 8;

/// What one workload is to have, on its way from the market's wish to an action.
#[derive(Clone, Copy)]
struct Plan {
    limit: Millicores,
    request: Millicores,
    /// What damping left of the market's wish, before the sums were made to fit.
    wished: Wished,
    /// When a change of the limit is due that is held back.
    limit_due: Option<Moment>,
    /// The same for the request.
    request_due: Option<Moment>,
}

/// A limit and a request as they were wished for.
#[derive(Clone, Copy)]
struct Wished {
    limit: Millicores,
    request: Millicores,
}

impl Node {
    /// The slow loop clears the market.
    pub fn slow_tick(&mut self, now: Moment) -> Outcome {
        let now = self.time_passed(now);
        self.last_slow = now;
        self.clear_wanted = false;
        self.joined = false;
        self.estimate_needs(now);
        let clearing = self.clear_with_bids();
        self.adopt(&clearing);
        let actions = match self.profile.cap_rule {
            CapRule::Grant | CapRule::Tight => {
                self.contain(now);
                let plans = self.plan(&clearing.grants, now);
                self.act(&plans, now)
            }
            CapRule::Loose => {
                self.contain_elastic(now);
                self.follow_use(now);
                self.serve(now)
            }
        };
        self.outcome(Loop::Slow, actions)
    }

    fn estimate_needs(&mut self, now: Moment) {
        for place in 0..self.workloads.len() {
            let workload = &mut self.workloads[place];
            let sampled = workload.slow_window();
            let missing = !sampled && workload.added_at + self.profile.sampling_interval_ms < now;
            workload.is_known = sampled;
            workload.estimate_need(&self.profile, sampled);
            if missing {
                let (uid, ever_sampled) = (workload.uid().clone(), workload.latest.is_some());
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
        for (workload, grant) in self.workloads.iter_mut().zip(&clearing.grants) {
            workload.grant = Some(*grant);
        }
    }

    /// What every workload is to have: damped, and adding up.
    fn plan(&mut self, grants: &[Grant], now: Moment) -> Vec<Plan> {
        let profile = &self.profile;
        let workloads = self.workloads.iter_mut().zip(grants);
        let mut plans: Vec<Plan> =
            workloads.map(|(workload, grant)| workload.wishes(profile, grant, now)).collect();
        match self.profile.cap_rule {
            CapRule::Tight | CapRule::Loose => {
                self.fit_requests(grants, &mut plans);
                self.lift_limits(&mut plans);
                self.fit_limits(grants, &mut plans);
            }
            CapRule::Grant => {
                self.fit_limits(grants, &mut plans);
                for (plan, workload) in plans.iter_mut().zip(&self.workloads) {
                    plan.request = workload.request_from_limit(plan.limit, &self.profile);
                    plan.wished.request = plan.request;
                }
                self.fit_requests(grants, &mut plans);
            }
        }
        self.tell_what_was_forced(&plans);
        plans
    }

    fn fit_requests(&mut self, grants: &[Grant], plans: &mut [Plan]) {
        let workloads = self.workloads.iter().zip(grants).zip(plans.iter());
        let mut guarantees: Vec<Guarantee> = workloads
            .map(|((workload, grant), plan)| Guarantee {
                grant: grant.amount,
                request: plan.request,
                min: workload.bounds.min(),
            })
            .collect();
        if !fit_requests(&self.profile, self.capacity, &mut guarantees) {
            return;
        }
        let mut moves: Vec<Move> = self
            .workloads
            .iter()
            .zip(&guarantees)
            .map(|(workload, guarantee)| Move {
                in_force: workload.in_force.request,
                planned: guarantee.request,
                must: guarantee.min.min(guarantee.request),
            })
            .collect();
        keep_inside_bands(&self.profile, self.capacity, &mut moves);
        for (plan, one) in plans.iter_mut().zip(moves) {
            // What is in force may be above what the limit leaves room for.
            plan.request = one.planned.min(plan.wished.request.max(one.must));
        }
    }

    /// A cap below the guarantee would take it back. What that leaves of a shrink may not be worth
    /// it any more.
    fn lift_limits(&self, plans: &mut [Plan]) {
        for (plan, workload) in plans.iter_mut().zip(&self.workloads) {
            let in_force = workload.in_force.limit;
            plan.limit = plan.limit.max(plan.request);
            let shrinks = smooth::falls_below(plan.limit, in_force, self.profile.shrink_band);
            if plan.limit < in_force && !shrinks {
                plan.limit = in_force;
            }
            plan.wished.limit = plan.limit;
        }
    }

    fn fit_limits(&mut self, grants: &[Grant], plans: &mut [Plan]) {
        let budget = self.limit_budget();
        let from_limit = self.profile.cap_rule == CapRule::Grant;
        let caps = |floor: &dyn Fn(&Grant, &Plan) -> Millicores| -> Vec<Cap> {
            let workloads = self.workloads.iter().zip(grants).zip(plans.iter());
            workloads
                .map(|((workload, grant), plan)| Cap {
                    floor: floor(grant, plan),
                    request: if from_limit { Millicores::ZERO } else { plan.request },
                    limit: plan.limit,
                    weight: workload.weight,
                })
                .collect()
        };
        // A limit should not fall below its grant, nor below its request; where held requests make
        // both together too much, the request alone has to do.
        let mut workloads = match self.profile.cap_rule {
            CapRule::Grant => caps(&|grant, plan| plan.limit.min(grant.amount)),
            CapRule::Tight | CapRule::Loose => {
                caps(&|grant, plan| plan.limit.min(plan.request.max(grant.amount)))
            }
        };
        if workloads.iter().map(|workload| workload.floor).sum::<Millicores>() > budget {
            workloads = caps(&|_, plan| plan.request);
        }
        if !fit_limits(&self.profile, budget, &mut workloads) {
            return;
        }
        let mut moves: Vec<Move> = self
            .workloads
            .iter()
            .zip(&workloads)
            .map(|(workload, cap)| Move {
                in_force: workload.in_force.limit,
                planned: cap.limit,
                must: cap.request,
            })
            .collect();
        keep_inside_bands(&self.profile, budget, &mut moves);
        for (plan, one) in plans.iter_mut().zip(moves) {
            // The controller refuses a larger step, so the rest comes with the next clearing. What
            // a limit has above the whole node is not worth steps of its own.
            let present = one.in_force.min(self.capacity);
            let lowest = present.saturating_sub(self.profile.max_step_milli);
            self.clear_wanted |= one.planned < lowest;
            plan.limit = one.planned.max(lowest);
        }
    }

    /// Notes are about what became of the plans, not about what was considered on the way.
    fn tell_what_was_forced(&mut self, plans: &[Plan]) {
        let (mut limits, mut requests) = (false, false);
        for (place, plan) in plans.iter().enumerate() {
            let workload = &self.workloads[place];
            limits |= plan.limit < plan.wished.limit && plan.limit < workload.in_force.limit;
            requests |=
                plan.request < plan.wished.request && plan.request < workload.in_force.request;
            let limit_due = plan.limit_due.filter(|_| plan.limit == workload.in_force.limit);
            let request_due =
                plan.request_due.filter(|_| plan.request == workload.in_force.request);
            if let Some(until) = limit_due.into_iter().chain(request_due).min() {
                let uid = workload.uid().clone();
                self.note(Note::ChangeHeld { uid, until });
            }
        }
        if requests {
            self.note(Note::RequestsForced { capacity: self.capacity });
        }
        if limits {
            self.note(Note::LimitsForced { budget: self.limit_budget() });
        }
    }

    /// Turns plans that differ from what is in force into actions.
    fn act(&mut self, plans: &[Plan], now: Moment) -> Vec<Action> {
        let limits: Millicores = plans.iter().map(|plan| plan.limit).sum();
        let room = BurstRoom { limits, spare: self.limit_budget().saturating_sub(limits) };
        let (profile, mode) = (&self.profile, self.mode);
        let workloads = self.workloads.iter_mut().zip(plans);
        workloads
            .filter_map(|(workload, plan)| workload.carry_out(plan, profile, mode, room, now))
            .collect()
    }
}

impl Workload {
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

    /// Without a new sample the need stays what it was: what is not known never shrinks a workload.
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
            // Before the first second is known, the limit a workload came with is the best guess.
            Estimator::Window if profile.cap_rule != CapRule::Loose => self
                .window
                .need(self.bounds, &profile.window_rule())
                .unwrap_or_else(|| self.bounds.clamp(self.in_force.limit)),
            // A right is not a need: what is not needed is lent.
            Estimator::Window => self
                .window
                .need(Bounds::new(Millicores::ZERO, self.bounds.max()), &profile.window_rule())
                .unwrap_or(self.bounds.min()),
        });
    }

    /// What the market would like for this workload, damped.
    fn wishes(&mut self, profile: &Profile, grant: &Grant, now: Moment) -> Plan {
        let guards = Guards {
            grace_until: self.added_at + profile.startup_grace_ms,
            cooldown_until: self.last_change.map_or(now, |at| at + profile.cooldown_ms),
        };
        let most = self.bounds.max();
        // A workload that cannot run cannot show that it wants to.
        let floor = profile.limit_floor_milli.min(most);
        let base = match profile.cap_rule {
            CapRule::Grant => grant.amount.max(floor),
            // The workload's own need, and not what a price talked it into asking for: a cap is
            // loose.
            CapRule::Tight | CapRule::Loose => {
                let need = self.need.unwrap_or(grant.need).max(grant.need);
                let need = self.contained_at.map_or(need, |cap| need.min(cap));
                grant.amount.max(need).max(floor)
            }
        };
        let boosted = match self.contained_at {
            Some(_) => base,
            None => self.boost.limit(base, profile, now),
        };
        let limit_wish = Wish::Limit { amount: boosted.min(most.max(base)), most };
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
        // A request that follows its limit is not held back on its own.
        let request_due = request_due.filter(|_| profile.cap_rule == CapRule::Tight);
        Plan { limit, request, wished: Wished { limit, request }, limit_due, request_due }
    }

    /// The request as a part of the limit, and below it, so that the workload's class does not
    /// change.
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
        if plan.limit != plan.wished.limit {
            self.limit_track.was_set(plan.limit);
        }
        if plan.request != plan.wished.request {
            self.request_track.was_set(plan.request);
        }
        let why = self.why(plan, moved, self.grant?, profile);
        let (limit, request) = (plan.limit, plan.request);
        self.in_force.limit = limit;
        self.in_force.request = request;
        self.in_force.weight = Some(weight);
        self.in_force.burst = burst;
        Some(Action { uid: self.uid().clone(), limit, request, weight, burst, why })
    }

    fn why(&self, plan: &Plan, moved: bool, grant: Grant, profile: &Profile) -> Why {
        let limit_cut = plan.limit < self.in_force.limit;
        let request_cut = plan.request < self.in_force.request;
        // Who gets a larger limit is not told that it gets less, whatever becomes of its request.
        let raised = plan.limit > self.in_force.limit;
        let forced = (limit_cut && plan.limit < plan.wished.limit)
            || (request_cut && plan.request < plan.wished.request);
        if !moved {
            Why::Trimmed
        } else if forced {
            Why::Forced { raised, grant: grant.amount }
        } else if raised && plan.limit <= profile.limit_floor_milli && grant.need < plan.limit {
            // It needs less than it gets: no cap is tighter.
            Why::Cap { shrinks: false, rests_on: RestsOn::Comfort }
        } else {
            let shrinks = limit_cut || (request_cut && !raised);
            Why::Market { shrinks, need: grant.need, grant: grant.amount, reason: grant.reason }
        }
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
