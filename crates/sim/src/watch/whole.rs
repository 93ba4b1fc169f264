//! The promises about the node as a whole: sums, needs, wake-up times, and books that agree.

use walras_core::market::Mode;
use walras_core::node::{InForce, Loop, Node, Outcome};
use walras_core::profile::CapRule;
use walras_core::units::{Millicores, WorkloadUid};

use super::{Broken, Watch};

impl Watch {
    /// After a slow tick, everything that is set adds up.
    pub(super) fn sums_fit(&self) -> Result<(), Broken> {
        let (capacity, budget) = (self.capacity, self.budget());
        let requests = self.total(|in_force| in_force.request);
        promise!(requests <= capacity, "requests of {requests} exceed a capacity of {capacity}");
        let limits = self.total(|in_force| in_force.limit);
        // A step larger than the controller accepts takes several ticks.
        promise!(
            limits <= budget || self.stepped,
            "limits of {limits} exceed a budget of {budget}"
        );
        Ok(())
    }

    /// Everybody was granted something, and no more than there is.
    pub(super) fn grants_fit(&self, node: &Node) -> Result<(), Broken> {
        let capacity = self.capacity;
        let granted =
            node.workloads().filter_map(|workload| workload.grant.map(|grant| grant.amount)).sum();
        promise!(capacity >= granted, "grants of {granted} exceed a capacity of {capacity}");
        promise!(
            node.workloads().all(|workload| workload.grant.is_some()),
            "a workload was not granted anything"
        );
        Ok(())
    }

    /// A need lies within bounds, and stays what it was without a new sample.
    pub(super) fn needs_are_right(&mut self, node: &Node) -> Result<(), Broken> {
        for report in node.workloads() {
            let Some(workload) = self.workloads.get_mut(report.uid) else {
                return Err(Broken(format!("{} is reported but gone", report.uid)));
            };
            let Some(need) = report.need else {
                return Err(Broken(format!("{} was cleared without a need", report.uid)));
            };
            // Where caps are loose a right is not a need: what is not needed is lent.
            let is_within = match self.profile.cap_rule {
                CapRule::Grant | CapRule::Tight => workload.bounds.clamp(need) == need,
                CapRule::Loose => need <= workload.bounds.max(),
            };
            promise!(is_within, "{} needs {need}", report.uid);
            let lent = workload.bounds.min().saturating_sub(need);
            promise!(report.lent == lent, "{} lends {}, not {lent}", report.uid, report.lent);
            promise!(
                workload.sampled_since_clearing
                    || workload.need.is_none_or(|before| before == need),
                "{} was not sampled, and yet its need went from {:?} to {need}",
                report.uid,
                workload.need
            );
            workload.need = Some(need);
            workload.sampled_since_clearing = false;
        }
        Ok(())
    }

    /// The next tick is not in the past, not now without cause, and not after a slow interval.
    pub(super) fn wakes_in_time(&self, outcome: &Outcome) -> Result<(), Broken> {
        let (now, profile) = (self.now, &self.profile);
        let wake_at = outcome.wake_at;
        let fast_due = self.last_fast + profile.fast_loop_interval_ms;
        let slow_due = self.last_slow + profile.slow_loop_interval_ms;
        promise!(wake_at >= now, "to be woken in the past: at {wake_at:?}, and it is {now:?}");
        promise!(
            wake_at <= now + profile.slow_loop_interval_ms,
            "to be woken after a slow interval: at {wake_at:?}, and it is {now:?}"
        );
        let due = match outcome.wake_for {
            Loop::Fast => fast_due <= now,
            Loop::Slow => slow_due <= now || self.clear_wanted || self.joined,
        };
        promise!(wake_at > now || due, "to be woken at once for no reason");
        Ok(())
    }

    /// What the node reports is what its actions said, and it always holds together.
    pub(super) fn books_agree(&self, node: &Node) -> Result<(), Broken> {
        let reported: Vec<(&WorkloadUid, InForce)> =
            node.workloads().map(|workload| (workload.uid, workload.in_force)).collect();
        let seen: Vec<(&WorkloadUid, InForce)> =
            self.workloads.iter().map(|(uid, workload)| (uid, workload.in_force)).collect();
        promise!(reported == seen, "reported {reported:?}, but seen {seen:?}");
        for (uid, in_force) in seen {
            let InForce { limit, request, burst, .. } = in_force;
            promise!(request <= limit, "{uid}: a limit of {limit} below a request of {request}");
            promise!(burst <= limit, "{uid}: a burst of {burst} above a limit of {limit}");
            promise!(
                burst == Millicores::ZERO
                    || (self.profile.burst_buffer && node.mode() != Mode::Overloaded),
                "{uid}: a burst of {burst}, though there should be none"
            );
        }
        let limits = self.total(|in_force| in_force.limit);
        promise!(
            self.profile.cap_rule == CapRule::Loose || limits <= self.budget() + self.brought,
            "limits of {limits} exceed a budget of {} by more than arrivals brought",
            self.budget()
        );
        Ok(())
    }
}
