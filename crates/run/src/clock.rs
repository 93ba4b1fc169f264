//! What time it is, for the core: microseconds since 1970, so that what is saved means the same
//! after a restart.

use std::time::{SystemTime, UNIX_EPOCH};

use walras_core::units::Moment;

/// Now.
pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_us(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// Whole seconds since 1970, as the API has them.
pub(crate) fn seconds(moment: Moment) -> i64 {
    i64::try_from(moment.as_ms_floor() / 1000).unwrap_or(i64::MAX)
}
