//! What is asked of the API server for what the market decided.
//!
//! A pod keeps its class, no limit that is asked for is below the request, and none is further away
//! than one resize can reach: the controller refuses what is, and would refuse it for ever. The
//! rest of the way is asked for when that much was carried out.

use walras_core::node::{Action, Why};
use walras_core::units::{Millicores, Ratio};

use crate::agent::find::Qos;
use crate::agent::params::Params;
use crate::agent::publish::Desired;
use crate::pod::Mode;

/// Whether a decision is the market's, and not a raise that decays again.
pub(super) const fn lasts(why: &Why) -> bool {
    match why {
        // What follows idle CPU moves too often for the API server.
        Why::Throttled { .. } | Why::LatencyMissed | Why::Contained { .. } => false,
        Why::Market { .. }
        | Why::Cap { .. }
        | Why::RequestRestored { .. }
        | Why::Request { .. }
        | Why::Released
        | Why::Forced { .. }
        | Why::Trimmed => true,
    }
}

// === impl Params ===

impl Params {
    /// What is written for an action.
    pub(super) fn desired(&self, action: &Action, price: Ratio) -> Desired {
        let limit = self.in_reach(action.limit);
        let (limit, request) = match (self.qos, self.mode) {
            (Qos::Guaranteed, _) => (limit, limit),
            (_, Mode::LimitsOnly) => (limit.max(self.request), self.request),
            (_, Mode::Off | Mode::RequestsAndLimits | Mode::Restore) => {
                (limit, action.request.min(limit))
            }
        };
        let mut why = action.why.to_string();
        if let Some(name) = &self.scaled_by {
            why += &format!(
                "; its request stays as it is, because the HorizontalPodAutoscaler {name} goes by \
                 use over request"
            );
        }
        Desired { request, limit, price, why }
    }

    /// The limit nearest to `limit` that one resize can reach.
    pub(super) fn in_reach(&self, limit: Millicores) -> Millicores {
        match (&self.step, self.mode) {
            // Nothing is carried out, so what is written is for people.
            (_, Mode::Off) | (None, _) => limit,
            (Some(step), _) => limit.clamp(*step.start(), *step.end()),
        }
    }

    /// Whether the market has to be told nothing new.
    pub(super) fn is_same_claim(&self, other: &Self) -> bool {
        self.bounds == other.bounds
            && self.weight == other.weight
            && self.nature == other.nature
            && self.request_rule == other.request_rule
            && self.came_with() == other.came_with()
            && self.family == other.family
            && self.target_latency_ms == other.target_latency_ms
    }
}

#[cfg(test)]
mod tests {
    use walras_core::profile::CapRule;
    use walras_core::smooth::weight::KernelWeight;
    use walras_core::units::WorkloadUid;

    use super::*;
    use crate::agent::params::{Rules, judge};

    /// What is asked for a pod with a limit that should have another, in cores or with an m.
    fn check(mode: Mode, has: &str, wants: u64) -> String {
        let text = format!(
            r#"{{"spec": {{"containers": [{{"name": "app",
              "resources": {{"requests": {{"cpu": "20m"}}, "limits": {{{has}}}}}}}]}},
            "status": {{"phase": "Running", "qosClass": "Burstable"}}}}"#
        );
        let rules = Rules {
            baseline: Millicores::new(100),
            cap_rule: CapRule::Loose,
            node: Millicores::from_cores(128),
            guaranteed: false,
            respect_limits: false,
            excluded: Vec::new(),
            mode,
            target_latency_ms: None,
        };
        let params = judge(&serde_json::from_str(&text).unwrap(), None, &rules).unwrap();
        let limit = Millicores::new(wants);
        let action = Action {
            uid: WorkloadUid::new("u1"),
            limit,
            request: limit,
            weight: KernelWeight::from_request(limit),
            burst: Millicores::ZERO,
            why: Why::Trimmed,
        };
        let Desired { request, limit, .. } = params.desired(&action, Ratio::ZERO);
        format!("{request}/{limit}")
    }

    #[test]
    fn no_more_is_asked_for_than_one_resize_can_reach() {
        let both = Mode::RequestsAndLimits;
        assert_eq!(check(both, r#""cpu": "500m""#, 5000), "5000m/5000m");
        assert_eq!(check(both, r#""cpu": "500m""#, 5001), "5000m/5000m", "ten times");
        assert_eq!(check(both, r#""cpu": "30m""#, 4000), "1000m/1000m", "ten times 100m");
        assert_eq!(check(both, r#""cpu": "8""#, 40_000), "28000m/28000m", "20 cores more");
        assert_eq!(check(both, r#""cpu": "64""#, 4000), "4000m/44000m", "20 cores less");
        assert_eq!(check(both, "", 40_000), "40000m/40000m", "it has no limit");
        assert_eq!(check(Mode::LimitsOnly, r#""cpu": "500m""#, 9000), "20m/5000m");
        assert_eq!(check(Mode::Off, r#""cpu": "500m""#, 9000), "9000m/9000m", "for people");
    }
}
