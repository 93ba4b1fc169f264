//! When what an engine has on record about a container's limit is brought in step.
//!
//! An engine can write its record and the control group only together. So a limit is put on record
//! when it has stood still for a while, and not often: the market may want another one at any
//! moment, and what it wants goes before.

use crate::units::{Millicores, Moment, Span};

/// A limit that has not changed for so long may be put on record.
pub const STEADY_FOR: Span = Span::from_s(5);
/// So long after a container's record was written it is not written again.
pub const RECORD_EVERY: Span = Span::from_s(30);

/// Whether a container's `limit`, in force since `since`, is to be put on record at `now`, when
/// `recorded` was put there last.
#[must_use]
pub fn record_is_due(
    limit: Millicores,
    since: Moment,
    recorded: Option<(Millicores, Moment)>,
    now: Moment,
) -> bool {
    let steady = now.since(since) >= STEADY_FOR;
    steady && recorded.is_none_or(|(there, at)| there != limit && now.since(at) >= RECORD_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_put_on_record_when_it_stands_still_and_not_often() {
        let at = |s: u64| Moment::from_ms(s * 1000);
        let (one, two) = (Millicores::new(1000), Millicores::new(2000));
        assert!(!record_is_due(one, at(0), None, at(4)));
        assert!(record_is_due(one, at(0), None, at(5)));
        // It is there already.
        assert!(!record_is_due(one, at(0), Some((one, at(5))), at(500)));
        // Another, and not so soon after the last.
        assert!(!record_is_due(two, at(6), Some((one, at(5))), at(34)));
        assert!(record_is_due(two, at(6), Some((one, at(5))), at(35)));
        assert!(!record_is_due(two, at(33), Some((one, at(5))), at(36)));
    }
}
