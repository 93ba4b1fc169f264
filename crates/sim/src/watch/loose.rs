//! What loose caps promise: a cap is for containing, and never a bet against the next burst.
//!
//! A fast tick raises, or follows with a contained workload, and leaves requests alone. After a
//! slow tick nobody who is not contained is below what it came with or has a right to, unless a
//! cooldown or the largest step holds it; requests that are to be kept are what the workloads came
//! with; weights add up, each at least the part of the node that is its right; and nobody is
//! contained while CPU is not scarce.

use std::collections::BTreeSet;

use walras_core::market::Mode;
use walras_core::node::{Action, MachineSample, Node, Note, Outcome, Why};
use walras_core::profile::WeightSource;
use walras_core::request::RequestRule;
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::{Millicores, Span, WorkloadUid};

use super::{Broken, Seen, Watch};

/// A shorter look at the machine says nothing.
const LOOK_AT_LEAST: Span = Span::from_ms(50);
/// The largest weight the kernel knows, which stands for the whole node.
const WHOLE: u64 = 10_000;

/// What is known of the machine from outside.
#[derive(Clone, Debug, Default)]
pub(super) struct Looked {
    latest: Option<MachineSample>,
    idle: Option<Millicores>,
}

// === impl Looked ===

impl Looked {
    pub(super) fn sampled(&mut self, sample: &MachineSample) {
        let Some(latest) = self.latest else {
            self.latest = Some(*sample);
            return;
        };
        let window_us = sample.at.since(latest.at).as_us();
        let idle_us = sample.idle.as_us().checked_sub(latest.idle.as_us());
        let busy_us = sample.busy.as_us().checked_sub(latest.busy.as_us());
        match (idle_us, busy_us) {
            (Some(idle_us), Some(_)) if window_us >= LOOK_AT_LEAST.as_us() => {
                let milli = u128::from(idle_us) * 1000 / u128::from(window_us);
                self.idle = Some(Millicores::new(u64::try_from(milli).unwrap_or(u64::MAX)));
                self.latest = Some(*sample);
            }
            // Too short to say anything: the window goes on.
            (Some(_), Some(_)) if window_us > 0 => {}
            _ => self.latest = Some(*sample),
        }
    }
}

// === impl Watch: promises about one action ===

impl Watch {
    pub(super) fn loose_raise_is_right(
        &self,
        workload: &Seen,
        action: &Action,
        node: &Node,
    ) -> Result<(), Broken> {
        let before = &workload.in_force;
        promise!(
            action.limit <= workload.bounds.max() || action.limit < before.limit,
            "a fast tick raised beyond the max"
        );
        promise!(
            before.weight.is_none_or(|weight| weight == action.weight),
            "a fast tick changed the weight"
        );
        self.loose_step_is_accepted(before.limit, action.limit)?;
        match &action.why {
            Why::Throttled { .. } | Why::LatencyMissed => {
                promise!(action.request == before.request, "a fast tick changed the request");
                promise!(
                    self.machine.idle.is_none_or(|idle| idle > node.guard()),
                    "raised though only {:?} were idle",
                    self.machine.idle
                );
            }
            Why::Contained { .. } => {
                promise!(self.is_contained(action, node), "follows who is not contained");
                promise!(
                    action.limit >= workload.bounds.min() || action.limit > before.limit,
                    "contained below its right"
                );
                // A request is below its cap, whatever becomes of that.
                promise!(
                    action.request == before.request.min(action.limit),
                    "a fast tick changed the request"
                );
                promise!(
                    action.burst == Millicores::ZERO,
                    "a contained workload has a burst buffer"
                );
            }
            Why::Market { .. }
            | Why::Cap { .. }
            | Why::RequestRestored { .. }
            | Why::Request { .. }
            | Why::Released
            | Why::Forced { .. }
            | Why::Trimmed => {
                return Err(Broken("a fast tick gave a slow tick's reason".to_owned()));
            }
        }
        Ok(())
    }

    pub(super) fn loose_move_is_right(
        &self,
        workload: &Seen,
        action: &Action,
        node: &Node,
    ) -> Result<(), Broken> {
        let (before, profile) = (&workload.in_force, &self.profile);
        match &action.why {
            Why::Throttled { .. }
            | Why::LatencyMissed
            | Why::Contained { .. }
            | Why::Market { .. }
            | Why::Forced { .. } => {
                return Err(Broken("no reason of a slow tick with loose caps".to_owned()));
            }
            Why::Cap { .. } | Why::Released => {
                promise!(!self.is_contained(action, node), "the cap of a contained workload moved");
            }
            Why::RequestRestored { .. } | Why::Trimmed => {}
            Why::Request { .. } => {
                promise!(
                    workload.request_rule == RequestRule::Follows,
                    "a request follows use although it is to be kept"
                );
            }
        }
        let moved = action.limit != before.limit || action.request != before.request;
        let rested = workload.last_change.is_none_or(|at| self.now >= at + profile.cooldown_ms);
        promise!(!moved || rested, "a workload was changed again too soon");
        if action.limit > before.limit {
            promise!(
                action.limit <= workload.bounds.max() || workload.bounds.max() >= self.capacity,
                "a cap was raised beyond the max"
            );
        }
        if action.limit < before.limit {
            let present = before.limit.min(self.capacity.max(action.limit));
            promise!(
                self.is_outside_band(present, action.limit) || present < before.limit,
                "a cap shrank inside its band"
            );
            promise!(
                self.now >= workload.added_at + profile.startup_grace_ms,
                "a workload was shrunk while it starts up"
            );
            promise!(
                self.now >= workload.limit_set_at + profile.shrink_hold_ms,
                "a cap shrank that was not too large for long enough"
            );
        }
        self.loose_step_is_accepted(before.limit, action.limit)
    }

    /// What a limit has above the whole node, and what stands for none, is not worth steps.
    fn loose_step_is_accepted(&self, before: Millicores, after: Millicores) -> Result<(), Broken> {
        if after.is_unlimited() {
            return Ok(());
        }
        let present = before.min(self.capacity.max(after));
        self.step_is_accepted(present, after)
    }

    fn is_contained(&self, action: &Action, node: &Node) -> bool {
        node.workloads()
            .any(|workload| *workload.uid == action.uid && workload.containment.is_some())
    }
}

// === impl Watch: promises about a whole tick ===

impl Watch {
    /// The workloads whose cap or request may not be what it should: changed too recently to be
    /// changed again, or by as much as the controller accepts. Asked before the tick's actions are
    /// taken over.
    pub(super) fn held_back(&self, outcome: &Outcome) -> BTreeSet<WorkloadUid> {
        let cooling = self.workloads.iter().filter(|(_, workload)| {
            workload.last_change.is_some_and(|at| self.now < at + self.profile.cooldown_ms)
        });
        let stepping = outcome.actions.iter().filter(|action| {
            self.workloads.get(&action.uid).is_some_and(|workload| {
                let before = workload.in_force.limit;
                let base = before.max(Millicores::new(100));
                let highest = base.scale_floor(self.profile.max_step_factor);
                action.limit == highest.min(before + self.profile.max_step_milli)
            })
        });
        let cooling = cooling.map(|(uid, _)| uid.clone());
        cooling.chain(stepping.map(|action| action.uid.clone())).collect()
    }

    /// A raise is refused only where next to nothing is idle, or at the max.
    pub(super) fn refusals_are_right(&self, outcome: &Outcome, node: &Node) -> Result<(), Broken> {
        for note in &outcome.notes {
            if let Note::NothingIdle { uid, idle, .. } = note {
                promise!(*idle <= node.guard(), "{uid} was not raised though {idle} are idle");
            }
        }
        Ok(())
    }

    /// Nobody who is not contained is below what it came with, and nobody is contained in vain.
    pub(super) fn caps_are_loose(
        &self,
        outcome: &Outcome,
        held: &BTreeSet<WorkloadUid>,
        node: &Node,
    ) -> Result<(), Broken> {
        for report in node.workloads() {
            let uid = report.uid;
            let Some(workload) = self.workloads.get(uid) else {
                return Err(Broken(format!("{uid} is reported but gone")));
            };
            let (limit, request) = (workload.in_force.limit, workload.in_force.request);
            let contained = report.containment.is_some();
            promise!(
                !contained || outcome.mode != Mode::Uncongested,
                "{uid} is contained though CPU is not scarce"
            );
            if held.contains(uid) {
                continue;
            }
            if !contained {
                let max = workload.bounds.max();
                let most = if max >= self.capacity { Millicores::UNLIMITED } else { max };
                let least = workload.came_with.limit.unwrap_or(Millicores::UNLIMITED).min(most);
                promise!(
                    limit >= least.min(Millicores::UNLIMITED),
                    "{uid} has {limit} and came with {:?}, of at most {most}",
                    workload.came_with.limit
                );
                promise!(
                    limit >= workload.bounds.min() || limit.is_unlimited(),
                    "{uid} has {limit} and a right to {}",
                    workload.bounds.min()
                );
            }
            if let (Some(came_with), true) = (workload.came_with.request, workload.keeps_request())
            {
                promise!(
                    request == came_with.min(limit),
                    "{uid} requests {request} and came with {came_with}"
                );
            }
        }
        Ok(())
    }

    /// Standing weights are the node; weights by request are those of Kubernetes.
    pub(super) fn weights_are_right(&self, node: &Node) -> Result<(), Broken> {
        let weights: Option<Vec<u64>> = self
            .workloads
            .values()
            .map(|workload| workload.in_force.weight.map(|weight| u64::from(weight.get())))
            .collect();
        let Some(weights) = weights else {
            return Err(Broken("a clearing left a workload without a weight".to_owned()));
        };
        match self.profile.weight_source {
            WeightSource::Bargaining => {}
            WeightSource::Request => {
                for (uid, workload) in &self.workloads {
                    let came_with = workload.came_with.request.filter(|_| workload.keeps_request());
                    let Some(request) = came_with else {
                        continue;
                    };
                    promise!(
                        workload.in_force.weight == Some(KernelWeight::from_request(request)),
                        "{uid} weighs {:?} with a request of {request}",
                        workload.in_force.weight
                    );
                }
            }
            WeightSource::Standing => {
                let rights: Millicores =
                    self.workloads.values().map(|workload| workload.bounds.min()).sum();
                let whole = u128::from(self.capacity.max(rights).get().max(1));
                for ((uid, workload), weight) in self.workloads.iter().zip(&weights) {
                    let right = u128::from(workload.bounds.min().get());
                    let part = u64::try_from(right * u128::from(WHOLE) / whole).unwrap_or(u64::MAX);
                    promise!(*weight >= part, "{uid} weighs {weight}, and its right {part}");
                }
                // To the nearest, and at least one each.
                let sum: u64 = weights.iter().sum();
                let count = u64::try_from(weights.len()).unwrap_or(u64::MAX);
                let some_free = node.workloads().any(|workload| workload.containment.is_none());
                promise!(sum <= WHOLE + count, "weights add up to {sum}");
                promise!(!some_free || sum + count >= WHOLE, "weights add up to {sum} only");
            }
        }
        Ok(())
    }
}
