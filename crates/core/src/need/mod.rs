//! How much CPU a workload needs right now: two estimators behind one seam.
//!
//! [`spec`] maps the throttling signal onto the range between min and max. It has no memory beyond
//! a count of misses, so it is what a single clearing uses. [`Window`] watches what the workload
//! really used, second by second, and adds a headroom that grows while the workload is throttled.
//!
//! Always: an estimate lies within the workload's bounds, and memory per workload is constant.

mod look;
mod peak;
mod spec;
mod window;

use crate::units::Millicores;

pub use look::{Estimate, NeedFrom, at_a_look};
pub use peak::Peak;
pub use spec::{SpecFacts, headroom, spec};
pub use window::{Window, WindowRule};

/// The least and the most CPU a workload may be granted. Always `min <= max <= Millicores::LIMIT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    min: Millicores,
    max: Millicores,
}

impl Bounds {
    /// Bounds from `min` to `max`. A max below the min is raised to it, and both are cut to what
    /// any machine can have; the edge of the system refuses such input before it gets here.
    #[must_use]
    pub fn new(min: Millicores, max: Millicores) -> Self {
        let min = min.min(Millicores::LIMIT);
        Self { min, max: max.min(Millicores::LIMIT).max(min) }
    }

    /// The floor.
    #[must_use]
    pub const fn min(&self) -> Millicores {
        self.min
    }

    /// The ceiling.
    #[must_use]
    pub const fn max(&self) -> Millicores {
        self.max
    }

    /// `amount`, brought within the bounds.
    #[must_use]
    pub fn clamp(&self, amount: Millicores) -> Millicores {
        amount.clamp(self.min, self.max)
    }
}
