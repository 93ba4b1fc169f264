//! What is asked of the API server for what the market decided.
//!
//! A pod keeps its class, and no limit that is asked for is below the request.

use walras_core::node::{Action, Why};
use walras_core::units::Ratio;

use crate::agent::find::Qos;
use crate::agent::params::Params;
use crate::agent::publish::Desired;
use crate::pod::Mode;

/// Whether a decision is the market's, and not a raise that decays again.
pub(super) const fn lasts(why: &Why) -> bool {
    match why {
        Why::Throttled { .. } | Why::LatencyMissed => false,
        Why::Market { .. } | Why::Forced { .. } | Why::Trimmed => true,
    }
}

// === impl Params ===

impl Params {
    /// What is written for an action. A pod keeps its class, and a limit is never below a request.
    pub(super) fn desired(&self, action: &Action, price: Ratio) -> Desired {
        let (limit, request) = match (self.qos, self.mode) {
            (Qos::Guaranteed, _) => (action.limit, action.limit),
            (_, Mode::LimitsOnly) => (action.limit.max(self.request), self.request),
            (_, Mode::Off | Mode::RequestsAndLimits | Mode::Restore) => {
                (action.limit, action.request.min(action.limit))
            }
        };
        Desired { request, limit, price, why: action.why.to_string() }
    }

    /// Whether the market has to be told nothing new.
    pub(super) fn is_same_claim(&self, other: &Self) -> bool {
        self.bounds == other.bounds
            && self.weight == other.weight
            && self.workload == other.workload
            && self.target_latency_ms == other.target_latency_ms
    }
}
