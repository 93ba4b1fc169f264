//! The clock of a loop: it starts where it is told, never steps back, and knows the time of day for
//! people and recordings.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use walras_core::units::{Moment, Span};

/// Tells the time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    origin: Moment,
}

impl Clock {
    /// A clock that shows `origin` now.
    #[must_use]
    pub fn start(origin: Moment) -> Self {
        Self { started: Instant::now(), origin }
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> Moment {
        let passed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.origin + Span::from_ms(passed)
    }

    /// The time of day, in milliseconds since 1970.
    #[must_use]
    pub fn unix_ms() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
