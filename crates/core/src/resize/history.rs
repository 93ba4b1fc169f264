//! What a pod's earlier patches teach: when the next one may come, and what its node can never do.
//!
//! Always: a refusal is forgotten only for a smaller one, and a patch only for a later one.

use super::Allocation;
use crate::units::{Millicores, Moment};

/// What happened to a pod's earlier patches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// When a patch was last applied.
    pub last_applied_at: Option<Moment>,
    /// Whether that one gave nobody more: a raise need not wait after a cut.
    pub last_was_cut: bool,
    /// The smallest request the node has called infeasible.
    pub infeasible: Option<InfeasibleMark>,
}

/// A request that this pod's node can never satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfeasibleMark {
    /// The request, summed over the pod.
    pub request: Millicores,
    /// When it was refused.
    pub at: Moment,
}

// === impl History ===

impl History {
    /// Records that a patch was applied, which starts the cooldown. `was_cut` as
    /// [`is_cut`](super::is_cut) says.
    pub fn resize_applied(&mut self, was_cut: bool, now: Moment) {
        self.last_applied_at = Some(now);
        self.last_was_cut = was_cut;
    }

    /// Records that the node called `asked` infeasible: neither this request nor a larger one is
    /// planned for the pod again. Pass what the patch asked for
    /// ([`Plan::asked`](super::Plan::asked)), which is more than the allocation's request where the
    /// pod is Guaranteed.
    pub fn resize_refused_as_infeasible(&mut self, asked: &Allocation, now: Moment) {
        let smallest = self.infeasible.is_none_or(|known| asked.request < known.request);
        if smallest {
            self.infeasible = Some(InfeasibleMark { request: asked.request, at: now });
        }
    }
}
