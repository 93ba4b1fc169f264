//! How long to wait before something is tried again.
//!
//! Doubling from 5 s to 2 min. A part of it differs from workload to workload, so that many that
//! failed together do not try again together; it is drawn from the id, and thus the same each time.

use crate::rng::Rng;
use crate::units::{Moment, Span};

use super::spec::WorkloadId;

/// The wait after the first failure.
pub const BACKOFF_FIRST: Span = Span::from_s(5);
/// The longest wait, without the part that differs.
pub const BACKOFF_MAX: Span = Span::from_s(120);
/// An operation that failed so often in a row has failed for good: after about a quarter of an
/// hour.
pub const ATTEMPTS_MAX: u32 = 10;
/// A workload that was repaired longer ago than this counts as steady.
pub const STEADY_AFTER: Span = Span::from_s(600);
/// No wait that was saved is longer: a clock that stepped back keeps nobody waiting.
const WAIT_MAX: Span = Span::from_s(180);

/// The wait after `attempts` failures in a row: none without failures.
pub(super) fn delay(id: &WorkloadId, attempts: u32) -> Span {
    let Some(doublings) = attempts.checked_sub(1) else { return Span::ZERO };
    let factor = 1_u64 << doublings.min(10);
    let whole = BACKOFF_FIRST.as_us().saturating_mul(factor).min(BACKOFF_MAX.as_us());
    let mut seed = u64::from(attempts);
    for byte in id.as_str().bytes() {
        seed = seed.wrapping_mul(0x0100_0000_01B3).wrapping_add(u64::from(byte));
    }
    let more = Rng::from_seed(seed).below(whole / 4);
    Span::from_us(whole + more)
}

/// Whether a wait until `until` is still on.
pub(super) fn waits(until: Option<Moment>, now: Moment) -> Option<Moment> {
    until.filter(|until| *until > now && *until <= now + WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_two_minutes_and_differ_by_a_quarter_at_most() {
        let id = WorkloadId::new("web").unwrap();
        assert_eq!(delay(&id, 0), Span::ZERO);
        for (attempts, seconds) in [(1, 5), (2, 10), (3, 20), (5, 80), (6, 120), (4_000_000, 120)] {
            let (least, found) = (Span::from_s(seconds), delay(&id, attempts));
            assert!(found >= least && found.as_us() <= least.as_us() * 5 / 4, "{found:?}");
            assert_eq!(found, delay(&id, attempts));
        }
        let other = WorkloadId::new("db").unwrap();
        assert_ne!(delay(&id, 3), delay(&other, 3));
    }

    #[test]
    fn a_clock_that_stepped_back_keeps_nobody_waiting() {
        let at = |s: u64| Moment::from_ms(s * 1000);
        assert_eq!(waits(Some(at(10)), at(9)), Some(at(10)));
        assert_eq!(waits(Some(at(10)), at(10)), None);
        assert_eq!(waits(Some(at(1000)), at(10)), None);
        assert_eq!(waits(None, at(10)), None);
    }
}
