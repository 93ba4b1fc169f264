//! The controller's one clock: it never steps back, and can be compared with time stamps.
//!
//! A moment is how long ago the process started, added to what time it was then. So a clock that is
//! set while the controller runs moves no deadline, and a stamp in an object is still a moment.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use walras_core::units::{Moment, Span};

/// Tells the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_us: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_us: micros(since_epoch) }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::from_us(self.started_us.saturating_add(micros(self.started.elapsed())))
    }

    /// How long it is until `then`; nothing, if that has passed.
    pub(crate) fn until(&self, then: Moment) -> Duration {
        Duration::from_micros(then.since(self.now()).as_us())
    }
}

/// The moment that a stamp names.
pub(crate) fn moment(time: &Time) -> Moment {
    Moment::from_us(u64::try_from(time.0.as_microsecond()).unwrap_or(0))
}

/// A moment as a stamp, to the second, as the API server keeps it.
pub(crate) fn stamp(moment: Moment) -> Time {
    let ms = i64::try_from(moment.as_ms_floor()).unwrap_or(i64::MAX);
    Time(Timestamp::from_second(ms / 1000).unwrap_or(Timestamp::MAX))
}

/// The same, rounded up: nobody should come too early because of it.
pub(crate) fn stamp_ceil(moment: Moment) -> Time {
    stamp(moment + Span::from_ms(999))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
