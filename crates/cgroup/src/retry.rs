//! Trying again: three attempts with a growing pause between them.
//!
//! Used for every read and write of a control group. What passes by itself (an interrupted call, a
//! busy file, a text that was cut off) is tried again; what does not is passed on at once.

use std::time::Duration;

use rustix::thread::NanosleepRelativeResult;

/// How often something is tried.
pub(crate) const ATTEMPTS: u32 = 3;
/// The pause after the first attempt; each later one is four times as long.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_micros(500);

/// What came of one attempt.
#[derive(Debug)]
pub(crate) enum Failed<E> {
    /// It may work the next time.
    Passing(E),
    /// It will not.
    Lasting(E),
}

/// Tries up to three times and returns what came of the last one.
pub(crate) fn retry<T, E>(attempt: impl FnMut() -> Result<T, Failed<E>>) -> Result<T, E> {
    retry_with(sleep, attempt)
}

fn retry_with<T, E>(
    mut pause: impl FnMut(Duration),
    mut attempt: impl FnMut() -> Result<T, Failed<E>>,
) -> Result<T, E> {
    let mut length = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(Failed::Lasting(error)) => return Err(error),
            Err(Failed::Passing(_)) => {
                pause(length);
                length *= 4;
            }
        }
    }
    attempt().map_err(|failed| match failed {
        Failed::Passing(error) | Failed::Lasting(error) => error,
    })
}

/// Waits. A signal may end that early, which only makes the next attempt come sooner.
pub(crate) fn sleep(length: Duration) {
    let length = rustix::fs::Timespec {
        tv_sec: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(length.subsec_nanos()),
    };
    match rustix::thread::nanosleep(&length) {
        NanosleepRelativeResult::Ok
        | NanosleepRelativeResult::Interrupted(_)
        | NanosleepRelativeResult::Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of scripted attempts: `p` fails for now, `l` for good, `o` works.
    fn check(script: &str) -> String {
        let mut attempts = script.chars();
        let mut pauses_us = Vec::new();
        let result = retry_with(
            |pause| pauses_us.push(pause.as_micros()),
            || match attempts.next() {
                Some('o') => Ok("fine"),
                Some('p') => Err(Failed::Passing("passing")),
                Some('l') => Err(Failed::Lasting("lasting")),
                other => panic!("one attempt too many: {other:?}"),
            },
        );
        let result = result.unwrap_or_else(|error| error);
        format!("{result} after {pauses_us:?}, {} left", attempts.count())
    }

    #[test]
    fn what_passes_is_tried_three_times_with_growing_pauses() {
        assert_eq!(check("o"), "fine after [], 0 left");
        assert_eq!(check("po"), "fine after [500], 0 left");
        assert_eq!(check("ppo"), "fine after [500, 2000], 0 left");
        assert_eq!(check("pppo"), "passing after [500, 2000], 1 left");
    }

    #[test]
    fn what_lasts_is_not_tried_again() {
        assert_eq!(check("lo"), "lasting after [], 1 left");
        assert_eq!(check("plo"), "lasting after [500], 1 left");
    }
}
