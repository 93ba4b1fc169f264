//! What a pod's earlier patches teach: when the next one may come, and what its node can never do.
//!
//! Always: a refusal is forgotten only for a smaller one or when it is over, and a patch only for a
//! later one.

use super::Allocation;
use crate::units::{Millicores, Moment, Span};

/// A node that could never do something may have grown since: it is asked again after this.
const INFEASIBLE_FOR: Span = Span::from_s(600);

/// What happened to a pod's earlier patches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// When a patch was last applied.
    pub last_applied_at: Option<Moment>,
    /// Whether that one gave no container more: a raise need not wait after a cut.
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

    /// What of it counts at `now`: a refusal that is over does not.
    #[must_use]
    pub fn at(&self, now: Moment) -> Self {
        let infeasible = self.infeasible.filter(|mark| now < mark.until());
        Self { infeasible, ..self.clone() }
    }

    /// Records that the node called `asked` infeasible: neither this request nor a larger one is
    /// planned for the pod again for a while. Pass what the patch asked for
    /// ([`Plan::asked`](super::Plan::asked)), which is more than the allocation's request where the
    /// pod is Guaranteed.
    pub fn resize_refused_as_infeasible(&mut self, asked: &Allocation, now: Moment) {
        let counts = |known: InfeasibleMark| asked.request < known.request || now >= known.until();
        if self.infeasible.is_none_or(counts) {
            self.infeasible = Some(InfeasibleMark { request: asked.request, at: now });
        }
    }
}

// === impl InfeasibleMark ===

impl InfeasibleMark {
    /// When it is worth asking again.
    #[must_use]
    pub fn until(&self) -> Moment {
        self.at + INFEASIBLE_FOR
    }
}
