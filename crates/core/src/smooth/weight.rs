//! What the kernel's weight becomes: the one knob that shares idle CPU within milliseconds.
//!
//! Weights are in cgroup v2's scale, 1 to 10000, where 100 is what everybody has by default.

use crate::parse::CpuWeight;
use crate::profile::{Profile, WeightSource};
use crate::units::{Millicores, Weight};

/// A weight as cgroup v2's `cpu.weight` holds it. Always 1 to 10000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelWeight(u32);

/// The kernel weight of a pod.
#[must_use]
pub fn kernel_weight(profile: &Profile, request: Millicores, weight: Weight) -> KernelWeight {
    match profile.weight_source {
        WeightSource::Request => KernelWeight::from_request(request),
        WeightSource::Bargaining => KernelWeight::from_bargaining(weight),
    }
}

impl KernelWeight {
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
        Self(u32::try_from(weight.clamp(1, 10_000)).expect("at most 10000"))
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
