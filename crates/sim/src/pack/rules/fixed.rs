//! Requests that do not follow anything: as declared, and by knowing the future.

use walras_core::units::Millicores;

use super::{Seen, Sizer, Wish, millicores_nearest};
use crate::pack::workload::{Kind, Town};

/// As owners wrote them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared;

/// Each workload's own largest window of what is to come: no pod ever wants more than it requests,
/// as far as windows tell.
#[derive(Clone, Debug)]
pub struct Oracle {
    peaks: Vec<Millicores>,
}

// === impl Declared ===

impl Sizer for Declared {
    fn window_passed(&mut self, _: &Seen<'_>) {}
    fn decide(&mut self, _: &Seen<'_>, _: &mut Vec<Wish>) {}
}

// === impl Oracle ===

impl Oracle {
    /// Looks at everything from a window on, times a factor.
    #[must_use]
    pub fn new(town: &Town, from: usize, factor: f64) -> Self {
        let peak = |workload: usize| {
            let of_pod = |pod: usize| {
                let windows = (from..town.windows).map(|window| town.wanted(pod, window));
                windows.fold(0.0, f64::max)
            };
            let it = &town.workloads[workload];
            match it.kind {
                // It has no peak but its threads; what its owner declared is what it is promised.
                Kind::Batch => it.declared,
                Kind::Service | Kind::Riser => {
                    let peak = town.pods_of(workload).map(of_pod).fold(0.0, f64::max);
                    millicores_nearest(peak * factor).max(Millicores::new(10))
                }
            }
        };
        Self { peaks: (0..town.workloads.len()).map(peak).collect() }
    }
}

impl Sizer for Oracle {
    fn at_arrival(&self, _: &Town, workload: usize) -> Millicores {
        self.peaks[workload]
    }

    fn window_passed(&mut self, _: &Seen<'_>) {}
    fn decide(&mut self, _: &Seen<'_>, _: &mut Vec<Wish>) {}
}
