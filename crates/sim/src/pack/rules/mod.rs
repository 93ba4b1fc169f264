//! Who decides what pods request: what people use today, ours, and yardsticks.
//!
//! A sizer sees what its original could see: what pods used in each window, and where they are. It
//! says what pods should request; the cluster grants it where it fits. Every sizer has one setting
//! that makes it more or less careful, so that all can be compared at equal misses.

mod cruisekube;
mod fixed;
mod histogram;
mod percentile;
mod vpa;
mod walras;

use walras_core::units::Millicores;

use super::cluster::Cluster;
use super::workload::Town;

pub use cruisekube::CruiseKube;
pub use fixed::{Declared, Oracle};
pub use percentile::Percentile;
pub use vpa::Vpa;
pub use walras::{Sharing, Walras};

/// What a pod did in a window, in cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// What it got on average.
    pub cores: f64,
    /// What fifteen seconds of the window were, which is what metrics-server tells.
    pub sampled_cores: f64,
    /// In what part of the window it waited for CPU.
    pub stalled: f64,
    /// Whether it was there.
    pub is_seen: bool,
}

/// What a sizer sees when a window is over.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What there is.
    pub town: &'a Town,
    /// Who is where.
    pub cluster: &'a Cluster,
    /// What each pod did.
    pub uses: &'a [Use],
    /// Which window is over.
    pub window: usize,
}

/// What a pod should request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which pod.
    pub pod: usize,
    /// What it should request.
    pub request: Millicores,
    /// Whether it is to be moved if that does not fit where it is.
    pub or_move: bool,
}

/// Decides over requests.
pub trait Sizer {
    /// What a new pod of a workload requests when it comes: what its owner declared, unless a
    /// webhook knows better.
    fn at_arrival(&self, town: &Town, workload: usize) -> Millicores {
        town.workloads[workload].declared
    }

    /// A window is over, and this was used. Nothing is decided.
    fn window_passed(&mut self, seen: &Seen<'_>);

    /// What pods should request by now.
    fn decide(&mut self, seen: &Seen<'_>, wishes: &mut Vec<Wish>);
}

/// Cores as whole millicores.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(super) fn millicores_nearest(cores: f64) -> Millicores {
    Millicores::new((cores * 1000.0).round().clamp(0.0, 1e9) as u64)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(super) fn cores(amount: Millicores) -> f64 {
    amount.get() as f64 / 1000.0
}
