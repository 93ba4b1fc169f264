//! When pods may be evicted: hours of the day, in UTC.

use std::str::FromStr;

const MINUTE_MS: u64 = 60_000;
const DAY_MINUTES: u64 = 24 * 60;

/// Parts of the day; none means always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows(Vec<(u64, u64)>);

/// Why a text is no list of windows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no part of the day; write HH:MM-HH:MM, such as 22:00-06:00, in UTC")]
pub struct WindowError(String);

impl Windows {
    /// Whether one is open at `now_ms`, in milliseconds since 1970.
    #[must_use]
    pub fn are_open(&self, now_ms: u64) -> bool {
        let now = now_ms / MINUTE_MS % DAY_MINUTES;
        self.0.is_empty()
            || self.0.iter().any(|(from, to)| {
                if from <= to { (*from..*to).contains(&now) } else { now >= *from || now < *to }
            })
    }
}

impl FromStr for Windows {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let windows = text.split(',').map(str::trim).filter(|window| !window.is_empty());
        let read = windows.map(|window| window_in(window).ok_or(WindowError(window.to_owned())));
        read.collect::<Result<_, _>>().map(Self)
    }
}

fn window_in(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once('-')?;
    Some((minute_in(from.trim())?, minute_in(to.trim())?))
}

fn minute_in(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 24 && minutes < 60 && hours * 60 + minutes <= DAY_MINUTES)
        .then_some(hours * 60 + minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_go_past_midnight() {
        let at = |hour: u64, minute: u64| (hour * 60 + minute) * MINUTE_MS + 5 * 86_400_000;
        let night: Windows = "22:00-06:00".parse().unwrap();
        assert!(night.are_open(at(22, 0)) && night.are_open(at(5, 59)));
        assert!(!night.are_open(at(6, 0)) && !night.are_open(at(21, 59)));
        let two: Windows = "01:00-02:00, 12:30-12:45".parse().unwrap();
        assert!(two.are_open(at(1, 30)) && two.are_open(at(12, 30)) && !two.are_open(at(12, 45)));
        assert!(Windows::default().are_open(at(3, 0)), "without windows it is always");
        assert_eq!("".parse(), Ok(Windows::default()));
    }

    #[test]
    fn what_is_no_window_is_named() {
        for bad in ["22-6", "25:00-26:00", "a:b-c:d", "10:60-11:00", "10:00"] {
            let error = bad.parse::<Windows>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{bad}`")), "{error}");
        }
    }
}
