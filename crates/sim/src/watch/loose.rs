//! What loose caps promise: a cap is for containing, and never a bet against the next burst.
//!
//! A fast tick raises, or follows with a contained pod, and leaves requests alone. After a slow
//! tick nobody who is not contained is below what it came with or has a right to, unless a cooldown
//! or the largest step holds it; requests that are to be kept are what the pods came with; weights
//! add up, each at least the part of the node that is its right; and nobody is contained while CPU
//! is not scarce.

use std::collections::BTreeSet;

use walras_core::market::Mode;
use walras_core::node::{Action, MachineSample, Node, Note, Outcome, Why};
use walras_core::profile::WeightSource;
use walras_core::request::RequestRule;
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::{Millicores, PodUid, Span};

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
    pub(super) fn loose_fast_action_is_right(
        &self,
        pod: &Seen,
        action: &Action,
        node: &Node,
    ) -> Result<(), Broken> {
        let before = &pod.in_force;
        promise!(
            action.limit <= pod.bounds.max() || action.limit < before.limit,
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
                    action.limit >= pod.bounds.min() || action.limit > before.limit,
                    "contained below its right"
                );
                // A request is below its cap, whatever becomes of that.
                promise!(
                    action.request == before.request.min(action.limit),
                    "a fast tick changed the request"
                );
                promise!(action.burst == Millicores::ZERO, "a contained pod has a burst buffer");
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

    pub(super) fn loose_slow_action_is_right(
        &self,
        pod: &Seen,
        action: &Action,
        node: &Node,
    ) -> Result<(), Broken> {
        let (before, profile) = (&pod.in_force, &self.profile);
        match &action.why {
            Why::Throttled { .. }
            | Why::LatencyMissed
            | Why::Contained { .. }
            | Why::Market { .. }
            | Why::Forced { .. } => {
                return Err(Broken("no reason of a slow tick with loose caps".to_owned()));
            }
            Why::Cap { .. } | Why::Released => {
                promise!(!self.is_contained(action, node), "the cap of a contained pod moved");
            }
            Why::RequestRestored { .. } | Why::Trimmed => {}
            Why::Request { .. } => {
                promise!(
                    pod.request_rule == RequestRule::Follows,
                    "a request follows use although it is to be kept"
                );
            }
        }
        let moved = action.limit != before.limit || action.request != before.request;
        let rested = pod.last_change.is_none_or(|at| self.now >= at + profile.cooldown_ms);
        promise!(!moved || rested, "a pod was changed again too soon");
        if action.limit > before.limit {
            promise!(
                action.limit <= pod.bounds.max() || pod.bounds.max() >= self.capacity,
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
                self.now >= pod.added_at + profile.startup_grace_ms,
                "a pod was shrunk while it starts up"
            );
            promise!(
                self.now >= pod.limit_set_at + profile.shrink_hold_ms,
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
        node.pods().any(|pod| *pod.uid == action.uid && pod.containment.is_some())
    }
}

// === impl Watch: promises about a whole tick ===

impl Watch {
    /// The pods whose cap or request may not be what it should: changed too recently to be changed
    /// again, or by as much as the controller accepts. Asked before the tick's actions are taken
    /// over.
    pub(super) fn held_back(&self, outcome: &Outcome) -> BTreeSet<PodUid> {
        let cooling = self.pods.iter().filter(|(_, pod)| {
            pod.last_change.is_some_and(|at| self.now < at + self.profile.cooldown_ms)
        });
        let stepping = outcome.actions.iter().filter(|action| {
            self.pods.get(&action.uid).is_some_and(|pod| {
                let before = pod.in_force.limit;
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
        held: &BTreeSet<PodUid>,
        node: &Node,
    ) -> Result<(), Broken> {
        for report in node.pods() {
            let uid = report.uid;
            let Some(pod) = self.pods.get(uid) else {
                return Err(Broken(format!("{uid} is reported but gone")));
            };
            let (limit, request) = (pod.in_force.limit, pod.in_force.request);
            let contained = report.containment.is_some();
            promise!(
                !contained || outcome.mode != Mode::Uncongested,
                "{uid} is contained though CPU is not scarce"
            );
            if held.contains(uid) {
                continue;
            }
            if !contained {
                let max = pod.bounds.max();
                let most = if max >= self.capacity { Millicores::UNLIMITED } else { max };
                let least = pod.came_with.limit.unwrap_or(Millicores::UNLIMITED).min(most);
                promise!(
                    limit >= least.min(Millicores::UNLIMITED),
                    "{uid} has {limit} and came with {:?}, of at most {most}",
                    pod.came_with.limit
                );
                promise!(
                    limit >= pod.bounds.min() || limit.is_unlimited(),
                    "{uid} has {limit} and a right to {}",
                    pod.bounds.min()
                );
            }
            if let (Some(came_with), true) = (pod.came_with.request, pod.keeps_request()) {
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
            .pods
            .values()
            .map(|pod| pod.in_force.weight.map(|weight| u64::from(weight.get())))
            .collect();
        let Some(weights) = weights else {
            return Err(Broken("a clearing left a pod without a weight".to_owned()));
        };
        match self.profile.weight_source {
            WeightSource::Bargaining => {}
            WeightSource::Request => {
                for (uid, pod) in &self.pods {
                    let came_with = pod.came_with.request.filter(|_| pod.keeps_request());
                    let Some(request) = came_with else {
                        continue;
                    };
                    promise!(
                        pod.in_force.weight == Some(KernelWeight::from_request(request)),
                        "{uid} weighs {:?} with a request of {request}",
                        pod.in_force.weight
                    );
                }
            }
            WeightSource::Standing => {
                let rights: Millicores = self.pods.values().map(|pod| pod.bounds.min()).sum();
                let whole = u128::from(self.capacity.max(rights).get().max(1));
                for ((uid, pod), weight) in self.pods.iter().zip(&weights) {
                    let right = u128::from(pod.bounds.min().get());
                    let part = u64::try_from(right * u128::from(WHOLE) / whole).unwrap_or(u64::MAX);
                    promise!(*weight >= part, "{uid} weighs {weight}, and its right {part}");
                }
                // To the nearest, and at least one each.
                let sum: u64 = weights.iter().sum();
                let count = u64::try_from(weights.len()).unwrap_or(u64::MAX);
                let some_free = node.pods().any(|pod| pod.containment.is_none());
                promise!(sum <= WHOLE + count, "weights add up to {sum}");
                promise!(!some_free || sum + count >= WHOLE, "weights add up to {sum} only");
            }
        }
        Ok(())
    }
}
