//! What people use instead of the market, transcribed from the rules their authors published.
//!
//! Every file states its rule, the published constants, what was simplified, and which fair setting
//! was chosen. Nobody is helped or hurt on purpose: where the original has a choice, it gets the
//! better one. A rival that only moves limits leaves requests and weights as they were declared.
//!
//! Always: nothing above the node's capacity is set as a limit, since the kernel would treat it as
//! the whole node and counting more would only make a rival look dearer.

mod autothrottle;
mod cruisekube;
#[cfg(test)]
mod hand;
mod koordinator;
mod mbcas;
mod suppress;
mod vpa;

use walras_core::units::{Millicores, Span};

use crate::scenario::PodSpec;

pub use autothrottle::{AUTOTHROTTLE_TARGETS, Autothrottle, AutothrottleSettings, autothrottle_at};
pub use cruisekube::{CruiseKube, CruiseKubeSettings, cruisekube};
pub use koordinator::{
    Classes, Koordinator, KoordinatorSettings, koordinator, koordinator_with_best_effort,
};
pub use mbcas::{Mbcas, MbcasSettings, mbcas};
pub use vpa::{Vpa, VpaSettings, vpa};

/// All requests of a node, as its kubelet adds them up.
#[derive(Clone, Copy, Debug)]
struct Room {
    capacity: Millicores,
    requested: Millicores,
}

/// What pods that a rival does not size hold of the node for good.
fn unmanaged_requests(pods: &[PodSpec]) -> Millicores {
    pods.iter().filter(|pod| !pod.managed).map(|pod| pod.request).sum()
}

/// Average use over a window, in cores, from CPU time.
fn cores_used(core_ms: f64, window: Span) -> f64 {
    core_ms / milliseconds(window)
}

/// A length of time in milliseconds, as counters have it.
#[expect(clippy::cast_precision_loss, reason = "no run is 2^53 microseconds long")]
fn milliseconds(span: Span) -> f64 {
    span.as_us() as f64 / 1000.0
}

/// Millicores as cores.
#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 millicores")]
fn to_cores(amount: Millicores) -> f64 {
    amount.get() as f64 / 1000.0
}

/// Cores as millicores, rounded down; more than any machine has becomes what any machine can have.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn millicores_floor(cores: f64) -> Millicores {
    Millicores::new((cores.clamp(0.0, 1e6) * 1000.0) as u64)
}

/// Cores as millicores, rounded to the nearest.
fn millicores_nearest(cores: f64) -> Millicores {
    millicores_floor(cores + 0.0005)
}

// === impl Room ===

impl Room {
    fn of(
        capacity: Millicores,
        managed: impl Iterator<Item = Millicores>,
        unmanaged: Millicores,
    ) -> Self {
        Self { capacity, requested: managed.sum::<Millicores>() + unmanaged }
    }

    /// Whether the kubelet lets a request move, and if so counts it: down always, up only while all
    /// requests fit the node. What it puts off is asked for again in the next round.
    fn admits(&mut self, before: Millicores, after: Millicores) -> bool {
        let requested = self.requested.saturating_sub(before) + after;
        let admitted = after <= before || requested <= self.capacity;
        if admitted {
            self.requested = requested;
        }
        admitted
    }
}
