//! From two looks at counters to what happened between them.
//!
//! Counters of the kernel only grow, unless they wrap, which those of 32 bits do, or are started
//! anew, as when a device is plugged in again. A wrap is made good; after a fresh start nothing can
//! be said about the time in between. Time is the caller's.

use walras_core::units::{Moment, Span};

use crate::reading::{Seen, Unavailable};

/// Two looks that are further apart say nothing about now.
pub const GAP: Span = Span::from_ms(60_000);

/// A counter of 32 bits ends here.
const WRAP: u64 = 1 << 32;
/// A counter that wrapped was close to its end, and is now close to its beginning: nothing that is
/// counted in 32 bits grows by more than a quarter of them between two looks.
const CLOSE: u64 = WRAP / 4;

/// The time between two looks in seconds.
///
/// # Errors
///
/// Where none passed, or too much.
pub fn seconds_between(older: Moment, newer: Moment) -> Seen<f64> {
    if newer <= older {
        return Err(Unavailable::NoTime);
    }
    let passed = newer.since(older);
    if passed > GAP { Err(Unavailable::Gap) } else { Ok(count(passed.as_us()) / 1e6) }
}

/// How far a counter moved.
///
/// # Errors
///
/// Where it was started anew; `what` names it then.
pub fn moved(what: &'static str, older: u64, newer: u64) -> Seen<u64> {
    if newer >= older {
        return Ok(newer - older);
    }
    let wrapped = (WRAP - CLOSE..WRAP).contains(&older) && newer < CLOSE;
    if wrapped { Ok(WRAP - older + newer) } else { Err(Unavailable::Reset { what }) }
}

/// How much a counter moved in a second.
///
/// # Errors
///
/// As [`moved`] and [`seconds_between`].
pub fn per_second(
    what: &'static str,
    (then, older): (Moment, u64),
    (now, newer): (Moment, u64),
) -> Seen<f64> {
    Ok(count(moved(what, older, newer)?) / seconds_between(then, now)?)
}

/// The part that `part` is of `whole`; nothing of nothing is nothing.
#[must_use]
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { count(part) / count(whole) }
}

/// A counted number for arithmetic. What is lost above 2^53 does not matter to a rate.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a rate is no more precise than its clock")]
pub const fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESET: Unavailable = Unavailable::Reset { what: "x" };

    #[test]
    fn a_counter_that_grows_is_a_difference() {
        assert_eq!(moved("x", 5, 5), Ok(0));
        assert_eq!(moved("x", 5, 9), Ok(4));
        assert_eq!(moved("x", 0, u64::MAX), Ok(u64::MAX));
    }

    #[test]
    fn a_wrap_is_made_good_and_a_fresh_start_is_told() {
        assert_eq!(moved("x", WRAP - 10, 5), Ok(15));
        assert_eq!(moved("x", WRAP - CLOSE, 0), Ok(CLOSE));
        // Far from its end it cannot have wrapped.
        assert_eq!(moved("x", WRAP / 2, 5), Err(RESET));
        assert_eq!(moved("x", WRAP - 10, WRAP / 2), Err(RESET));
        // One of 64 bits has never been seen to wrap.
        assert_eq!(moved("x", u64::MAX - 1, 5), Err(RESET));
    }

    #[test]
    fn a_rate_is_per_second_of_the_callers_clock() {
        let at = Moment::from_us;
        assert_eq!(per_second("x", (at(0), 10), (at(500_000), 20)), Ok(20.0));
        assert_eq!(per_second("x", (at(7), 10), (at(7), 20)), Err(Unavailable::NoTime));
        assert_eq!(per_second("x", (at(8), 10), (at(7), 20)), Err(Unavailable::NoTime));
        let late = (at(60_000_001), 20);
        assert_eq!(per_second("x", (at(0), 10), late), Err(Unavailable::Gap));
        assert_eq!(per_second("x", (at(0), 10), (at(60_000_000), 610)), Ok(10.0));
    }

    #[test]
    fn nothing_of_nothing_is_nothing() {
        assert_eq!([share(0, 0), share(1, 4)], [0.0, 0.25]);
    }
}
