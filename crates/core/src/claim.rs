//! What a workload may claim, from what is known of it: its right, its most and its weight.
//!
//! The one place where these are made, for the agent, the host, the simulator and replays alike, so
//! that what is tried in one of them is what happens in the others. They come from what a workload
//! came with and what its owner wrote, never from what was made of it since.
//!
//! Always: the right is at most the most; the same facts make the same claim.

use crate::need::Bounds;
use crate::profile::CapRule;
use crate::smooth::weight::KernelWeight;
use crate::units::{Millicores, Ratio, Weight};

/// What a workload came with, before anybody sized it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CameWith {
    /// Its request, where it had one.
    pub request: Option<Millicores>,
    /// Its limit; none where it had none.
    pub limit: Option<Millicores>,
    /// The kernel's weight of it, where that was read and is ours to divide anew.
    pub weight: Option<KernelWeight>,
}

/// What kind of work a workload does, as far as its owner said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nature {
    /// It is not said; it is judged by what it does.
    #[default]
    Unknown,
    /// It takes what is left over: batch work, best effort.
    Batch,
    /// Clients wait for its answers: it is never contained.
    Service,
}

impl Nature {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Unknown, Self::Batch, Self::Service];

    /// The name a user types.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Batch => "batch",
            Self::Service => "service",
        }
    }
}

/// What is known of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it came with.
    pub came_with: CameWith,
    /// The least its owner wants for it.
    pub min: Option<Millicores>,
    /// The most it may have, where that is said.
    pub max: Option<Millicores>,
    /// What the kernel's weight that it came with stands for: on Kubernetes its request.
    pub share: Weight,
    /// What its owner multiplies that by.
    pub priority: Weight,
    /// What kind of work it does, as far as its owner said so.
    pub nature: Nature,
}

/// What holds for every workload of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    /// What becomes of a grant.
    pub cap_rule: CapRule,
    /// What a workload may have at least in the documents' market. Elsewhere there is no right by
    /// being there: a hundred such rights would be more than there is.
    pub baseline: Millicores,
    /// The node.
    pub node: Millicores,
    /// Whether no workload gets more than the limit it came with.
    pub respect_limits: bool,
}

/// What a workload may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// From its right to the most it may have.
    pub bounds: Bounds,
    /// What it counts for where CPU is scarce.
    pub weight: Weight,
}

/// Makes the claim of a workload.
#[must_use]
pub fn claim(known: &Known, ground: &Ground) -> Claim {
    let request = known.came_with.request.unwrap_or(Millicores::ZERO);
    let limit = known.came_with.limit.filter(|_| ground.respect_limits);
    // A reserve of the node gives way to what a workload came with.
    let node = ground.node.max(request);
    let max = known.max.or(limit).unwrap_or(node).min(node);
    let baseline = match ground.cap_rule {
        CapRule::Grant | CapRule::Tight => ground.baseline,
        CapRule::Loose => Millicores::ZERO,
    };
    // Batch work takes what is left: only a min makes a right of it.
    let requested = match (ground.cap_rule, known.nature) {
        (CapRule::Loose, Nature::Batch) => Millicores::ZERO,
        _ => request,
    };
    let right = baseline.max(requested).max(known.min.unwrap_or(Millicores::ZERO));
    // A max below the baseline or the request is meant.
    let is_named = known.max.is_some() || limit.is_some();
    let right = if known.min.is_none() && is_named { right.min(max) } else { right };
    Claim { bounds: Bounds::new(right.min(node), max), weight: weight(known) }
}

/// The weight that a kernel's weight stands for: everybody has 100 by default, which is one.
#[must_use]
pub fn share_of_weight(weight: KernelWeight) -> Weight {
    Weight::from_thousandths(weight.get().saturating_mul(10)).unwrap_or(Weight::ONE)
}

/// The weight of a request: on Kubernetes the kernel weighs workloads by what they request.
#[must_use]
pub fn share_of_request(request: Millicores) -> Weight {
    let thousandths = request.get().max(1).saturating_mul(1000);
    let thousandths = u32::try_from(thousandths).unwrap_or(u32::MAX);
    Weight::from_thousandths(thousandths.min(Weight::LIMIT_THOUSANDTHS)).unwrap_or(Weight::ONE)
}

fn weight(known: &Known) -> Weight {
    let factor = Ratio::from_millionths(u64::from(known.priority.thousandths()) * 1000);
    known.share.scale_nearest(factor)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    /// A request, limit, min and max in millicores, 0 for none; says right, max and weight.
    fn check(ground: &Ground, known: [u64; 4], priority: u32) -> String {
        let [request, limit, min, max] =
            known.map(|milli| (milli > 0).then(|| Millicores::new(milli)));
        let known = Known {
            came_with: CameWith { request, limit, weight: None },
            min,
            max,
            share: share_of_request(request.unwrap_or_default()),
            priority: Weight::from_thousandths(priority).unwrap(),
            nature: Nature::Unknown,
        };
        let Claim { bounds, weight } = claim(&known, ground);
        alloc::format!("{} {} {weight}", bounds.min(), bounds.max())
    }

    fn ground(cap_rule: CapRule) -> Ground {
        Ground {
            cap_rule,
            baseline: Millicores::new(100),
            node: Millicores::from_cores(4),
            respect_limits: false,
        }
    }

    #[test]
    fn a_right_is_the_request_or_the_min_and_a_weight_is_the_request_times_the_priority() {
        let loose = ground(CapRule::Loose);
        assert_eq!(check(&loose, [200, 1500, 0, 0], 1000), "200m 4000m 200");
        assert_eq!(check(&loose, [200, 1500, 900, 0], 2500), "900m 4000m 500");
        assert_eq!(check(&loose, [0, 0, 0, 0], 1000), "0m 4000m 1");
        assert_eq!(check(&loose, [30, 0, 0, 0], 1000), "30m 4000m 30");
    }

    #[test]
    fn only_the_documents_market_knows_a_baseline() {
        assert_eq!(check(&ground(CapRule::Grant), [30, 0, 0, 0], 1000), "100m 4000m 30");
    }

    #[test]
    fn a_max_counts_against_the_request_and_the_limit_only_where_it_is_respected() {
        let mut ground = ground(CapRule::Loose);
        assert_eq!(check(&ground, [200, 1500, 0, 100], 1000), "100m 100m 200");
        assert_eq!(check(&ground, [200, 1500, 300, 100], 1000), "300m 300m 200");
        assert_eq!(check(&ground, [200, 1500, 0, 9000], 1000), "200m 4000m 200");
        ground.respect_limits = true;
        assert_eq!(check(&ground, [200, 1500, 0, 0], 1000), "200m 1500m 200");
        assert_eq!(check(&ground, [5000, 0, 0, 0], 1000), "5000m 5000m 5000");
    }
}
