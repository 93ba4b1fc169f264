//! Times in events: RFC 3339 as Kubernetes writes them, or a number of seconds or milliseconds.

/// Numbers below are seconds, from it on milliseconds: it is the year 5138 in the one, 1973 in the
/// other.
const MILLISECONDS_FROM: f64 = 1e11;

/// Milliseconds since 1970 of a number.
pub(super) fn of_number(value: f64) -> Option<i64> {
    let ms = if value < MILLISECONDS_FROM { value * 1000.0 } else { value };
    if !(0.0..1e15).contains(&ms) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 10^15, which 64 bits hold")]
    let whole = ms as i64;
    Some(whole)
}

/// Milliseconds since 1970 of a time such as `2026-11-17T08:30:00.25Z` or one with an offset.
#[must_use]
pub fn of_text(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (year, month, day) = three(date, '-')?;
    let (clock, offset_s) = offset(time)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let (hour, minute, second) = three(clock, ':')?;
    let sane = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (1970..=9999).contains(&year)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !sane {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset_s;
    Some(seconds * 1000 + milliseconds(fraction)?)
}

/// The time of so many milliseconds since 1970, as Kubernetes writes it, with milliseconds. Times
/// before 1970 are 1970.
#[must_use]
pub fn to_text(ms: i64) -> String {
    let ms = ms.max(0);
    let (seconds, fraction) = (ms / 1000, ms % 1000);
    let (day, clock) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(day);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

/// The day of the Gregorian calendar that is so many days after 1970 began.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Months of a year that begins in March.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, day)
}

/// The clock, and how many seconds it is ahead of Greenwich.
fn offset(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = time.rfind(['+', '-'])?;
    let (clock, offset) = (time.get(..at)?, time.get(at + 1..)?);
    let (hours, minutes) = offset.split_once(':')?;
    let seconds = whole(hours)? * 3600 + whole(minutes)? * 60;
    Some((clock, if time.as_bytes().get(at) == Some(&b'-') { -seconds } else { seconds }))
}

fn three(text: &str, between: char) -> Option<(i64, i64, i64)> {
    let mut parts = text.split(between).map(whole);
    let found = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(found)
}

fn whole(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn milliseconds(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(3);
    Some(digits.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

/// Days since 1970 of a day of the Gregorian calendar, whose years begin in March here.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(to_text(1_763_368_200_250), "2025-11-17T08:30:00.250Z");
        assert_eq!((to_text(0), to_text(-1)), (to_text(0), to_text(0)));
        // Every month of two centuries, leap years among them, at odd times of the day.
        for ms in (0..7_000_000_000_000).step_by(1_234_567_891) {
            assert_eq!(of_text(&to_text(ms)), Some(ms), "{}", to_text(ms));
        }
    }

    #[test]
    fn times_are_read_as_kubernetes_writes_them() {
        // Checked with `date -u -d ... +%s`.
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-17T08:30:00Z", 1_794_904_200_000),
            ("2026-11-17T08:30:00.25Z", 1_794_904_200_250),
            ("2026-11-17T08:30:00.123456789Z", 1_794_904_200_123),
            ("2026-11-17T09:30:00+01:00", 1_794_904_200_000),
            ("2026-11-17T03:00:00-05:30", 1_794_904_200_000),
            ("2024-02-29T12:00:00Z", 1_709_208_000_000),
            ("2000-03-01T00:00:00Z", 951_868_800_000),
        ] {
            assert_eq!(of_text(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "2026-11-17",
            "2026-11-17T08:30",
            "2026-13-17T08:30:00Z",
            "T::Z",
            "2026-11-17T08:30:00",
            "2026-11-17T25:30:00Z",
            "2026-11-17T08:30:00.Z",
            "-2026-11-17T08:30:00Z",
            "2026-11-17T08:30:00+0100",
        ] {
            assert_eq!(of_text(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_seconds_or_milliseconds() {
        assert_eq!(of_number(1_794_904_200.5), Some(1_794_904_200_500));
        assert_eq!(of_number(1_794_904_200_250.0), Some(1_794_904_200_250));
        for value in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(of_number(value), None, "{value}");
        }
    }
}
