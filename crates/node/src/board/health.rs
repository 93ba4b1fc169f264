//! Whether the loop still ticks, judged by how long ago it last did.

use std::fmt;
use std::time::Duration;

use walras_core::units::Span;

/// A loop is late when it misses its time by this much, and by a few of its own intervals.
const LATE_AFTER: Span = Span::from_s(10);
/// So many intervals may be missed.
const INTERVALS: u64 = 3;

/// Whether the loop still ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It ticked lately, or has only just been started.
    Fine,
    /// It was started a while ago and never ticked.
    NeverTicked,
    /// It last ticked so long ago.
    Late(Span),
}

/// Judges a loop that ticks every `interval`.
pub(super) fn judge(last_tick: Option<Duration>, uptime: Duration, interval: Span) -> Health {
    let allowed = LATE_AFTER.as_us().saturating_add(interval.as_us().saturating_mul(INTERVALS));
    match last_tick {
        Some(age) if micros(age) > allowed => Health::Late(Span::from_us(micros(age))),
        None if micros(uptime) > allowed => Health::NeverTicked,
        Some(_) | None => Health::Fine,
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fine => f.write_str("the loop ticks"),
            Self::NeverTicked => f.write_str("the loop never ticked"),
            Self::Late(age) => {
                write!(f, "the loop last ticked {} s ago", age.as_ms_floor() / 1000)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(last_tick_s: Option<u64>, uptime_s: u64) -> String {
        let last_tick = last_tick_s.map(Duration::from_secs);
        judge(last_tick, Duration::from_secs(uptime_s), Span::from_ms(200)).to_string()
    }

    #[test]
    fn a_loop_is_late_after_ten_seconds_and_a_few_intervals() {
        assert_eq!(check(Some(0), 0), "the loop ticks");
        assert_eq!(check(Some(10), 99), "the loop ticks");
        assert_eq!(check(Some(11), 99), "the loop last ticked 11 s ago");
        assert_eq!(check(None, 3), "the loop ticks", "it has only just been started");
        assert_eq!(check(None, 11), "the loop never ticked");
    }
}
