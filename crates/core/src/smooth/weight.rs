//! What the kernel's weight becomes: the one knob that shares CPU within milliseconds.
//!
//! Weights are in cgroup v2's scale, 1 to 10000, where 100 is what everybody has by default.
//!
//! A *standing* weight is a workload's right and its share, by bargaining weight, of what all
//! rights leave of the node. Need, use and grant never enter, so it stands while they come and go:
//! what is lent comes back as soon as its owner wants to run. Together they are the node, so none
//! gets less than its right while the rights fit.

use alloc::vec::Vec;

use crate::parse::CpuWeight;
use crate::profile::{Profile, WeightSource};
use crate::units::{Millicores, Weight};

/// A weight as cgroup v2's `cpu.weight` holds it. Always 1 to 10000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelWeight(u32);

/// What one workload stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it has a right to.
    pub right: Millicores,
    /// What it counts for beyond that; nothing where it gets no share of what the rights leave.
    pub weight: Option<Weight>,
    /// The kernel's weight it came with, where that is known.
    pub came_with: Option<KernelWeight>,
}

impl Standing {
    fn thousandths(&self) -> u128 {
        self.weight.map_or(0, |weight| u128::from(weight.thousandths()))
    }
}

/// The kernel weight of a workload, where that depends on no other.
#[must_use]
pub fn kernel_weight(profile: &Profile, request: Millicores, weight: Weight) -> KernelWeight {
    match profile.weight_source {
        WeightSource::Request => KernelWeight::from_request(request),
        WeightSource::Bargaining | WeightSource::Standing => KernelWeight::from_bargaining(weight),
    }
}

/// The standing weights of all workloads of a node, in their order.
///
/// Together they weigh what they weighed when they came, so that a neighbour that is not sized
/// keeps its standing. Where that is not known, the whole node is the largest weight there is: the
/// finest the kernel can hold. Where the rights do not fit, all are cut in the same proportion.
#[must_use]
pub fn standing(
    node: Millicores,
    workloads: impl Iterator<Item = Standing> + Clone,
) -> Vec<KernelWeight> {
    let rights: u128 = workloads.clone().map(|workload| u128::from(workload.right.get())).sum();
    let weights: u128 = workloads.clone().map(|workload| workload.thousandths()).sum();
    let whole = u128::from(node.get()).max(rights).max(1);
    let spare = whole - rights;
    let weights = weights.max(1);
    let together = workloads
        .clone()
        .try_fold(0, |sum: u128, workload| Some(sum + u128::from(workload.came_with?.get())));
    let together = together.unwrap_or(u128::from(KernelWeight::MAX));
    workloads
        .map(|workload| {
            let share = spare * workload.thousandths();
            let stands = u128::from(workload.right.get()) * weights + share;
            // To the nearest: what rounding takes from one it gives to another.
            let (dividend, divisor) = (stands * together, whole * weights);
            KernelWeight::clamped(
                u64::try_from((dividend + divisor / 2) / divisor).unwrap_or(u64::MAX),
            )
        })
        .collect()
}

impl KernelWeight {
    /// The largest there is.
    const MAX: u32 = 10_000;

    /// The number that is written.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// As Kubernetes derives it: a request becomes shares (1024 per core, at least 2), and shares
    /// from 2 to 262144 are spread linearly over 1 to 10000.
    #[must_use]
    pub fn from_request(request: Millicores) -> Self {
        let shares = (request.get().saturating_mul(1024) / 1000).clamp(2, 262_144);
        Self::clamped(1 + (shares - 2) * 9999 / 262_142)
    }

    /// The neutral bargaining weight is the kernel's default of 100.
    fn from_bargaining(weight: Weight) -> Self {
        Self::clamped(u64::from(weight.thousandths()).div_ceil(10))
    }

    fn clamped(weight: u64) -> Self {
        Self(u32::try_from(weight.clamp(1, u64::from(Self::MAX))).expect("at most 10000"))
    }
}

impl From<CpuWeight> for KernelWeight {
    fn from(weight: CpuWeight) -> Self {
        Self(weight.get())
    }
}

impl From<KernelWeight> for CpuWeight {
    fn from(weight: KernelWeight) -> Self {
        Self::new(weight.0).expect("both have the scale 1 to 10000")
    }
}
