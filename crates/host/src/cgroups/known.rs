//! What is known of a workload of a plain host: what it came with, and what its owner said.
//!
//! The kernel's weight that it came with stands for its share, as a request does on Kubernetes: 100
//! is what everybody has by default, and counts as one.

use walras_cgroup::{Settings, WeightInForce};
use walras_core::claim::{CameWith, Known, share_of_weight};
use walras_core::parse::CpuWeight;
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::{Millicores, Weight};

use crate::adopt::Adoption;

/// What is known of a workload that came with `original`, below groups that allow no more than
/// `above`.
pub(super) fn known(adoption: &Adoption, original: &Settings, above: Option<Millicores>) -> Known {
    let weight = kernel_weight(original.weight);
    Known {
        came_with: CameWith { request: None, limit: original.max.limit_floor(), weight },
        min: adoption.min,
        max: match (adoption.max, above) {
            (Some(max), Some(above)) => Some(max.min(above)),
            (max, above) => max.or(above),
        },
        share: weight.map_or(Weight::ONE, share_of_weight),
        priority: adoption.weight,
        nature: adoption.nature,
    }
}

/// A weight in the scale of the second version; nothing for a group that only gets what is left.
fn kernel_weight(weight: WeightInForce) -> Option<KernelWeight> {
    match weight {
        WeightInForce::V1(shares) => Some(CpuWeight::from_shares_nearest(shares).into()),
        WeightInForce::V2(weight) => Some(weight.into()),
        WeightInForce::Idle => None,
    }
}
