//! The constants that are a choice between rules rather than a number.

use serde::{Deserialize, Serialize};

/// Which set of constants a market starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// As the predecessor's documents say.
    Seed,
    /// Where acting is a cgroup write.
    Direct,
    /// Where acting is an API write.
    Api,
    /// The smallest caps that keep latency, where acting is a cgroup write.
    Tight,
}

/// How need is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// From the throttling signal, between min and max.
    Spec,
    /// From recent usage, with a headroom that learns from throttling.
    Window,
}

/// How the fast loop raises a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoostRule {
    /// By 20 to 40 %, in proportion to the throttle ratio.
    Step,
    /// By a factor, after throttled periods in a row.
    Double,
}

/// What becomes of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapRule {
    /// It is the limit; the request is a part of it.
    Grant,
    /// It is the request; the limit is a small cap above it, and all limits fit a budget.
    Tight,
    /// A limit is never below what the workload came with, unless it is contained.
    Loose,
}

/// Where the kernel's weight comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightSource {
    /// The request, as Kubernetes does it.
    Request,
    /// The bargaining weight.
    Bargaining,
    /// The right, and a share of what all rights leave.
    Standing,
}

impl ProfileName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Seed, Self::Direct, Self::Api, Self::Tight];

    /// The name a user types.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Direct => "direct",
            Self::Api => "api",
            Self::Tight => "tight",
        }
    }
}
