//! Numbers as people read them: a few digits, never more than the value is worth.

/// What is shown where there is no value.
pub const ABSENT: &str = "-";

/// With three significant digits or so: `0.042`, `8.7`, `128`, `12 400`.
#[must_use]
pub fn short(value: f64) -> String {
    let size = value.abs();
    let decimals = if size > 0.0 && size < 0.0995 { 3 } else { decimals_of(size) };
    let text = trimmed(value, decimals);
    if decimals == 0 { spaced(&text) } else { text }
}

/// With so many decimals, but without zeros at the end: `1.5`, `2`.
#[must_use]
pub fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    };
    // What rounds to nothing has no sign.
    if text == "-0" { "0".to_owned() } else { text }
}

/// How many decimals a value gets that is shown with about three digits.
#[must_use]
pub fn decimals_of(value: f64) -> usize {
    if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    }
}

/// How many decimals all values of a column get whose largest is `largest`.
#[must_use]
pub fn decimals_for(largest: f64) -> usize {
    if largest >= 999.5 {
        0
    } else if largest >= 99.95 {
        1
    } else {
        2
    }
}

/// A number and what it counts: `1 pod`, `3 pods`.
#[must_use]
pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A length of time in the largest unit that fits: `1 hour`, `1.5 hours`, `30 minutes`.
#[must_use]
pub fn duration(seconds: u32) -> String {
    let (unit, per_unit) = match seconds {
        3600.. => ("hour", 3600.0),
        60..3600 => ("minute", 60.0),
        0..60 => ("second", 1.0),
    };
    let amount = trimmed(f64::from(seconds) / per_unit, 2);
    let plural = if amount == "1" { "" } else { "s" };
    format!("{amount} {unit}{plural}")
}

/// Whole numbers of five digits and more in groups of three.
fn spaced(whole: &str) -> String {
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    if digits.len() < 5 {
        return whole.to_owned();
    }
    let mut text = sign.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.0421, "0.042"),
            (0.5, "0.5"),
            (8.704, "8.7"),
            (9.996, "10"),
            (11.84, "11.8"),
            (128.4, "128"),
            (1284.0, "1284"),
            (12_843.0, "12 843"),
            (-1_234_567.0, "-1 234 567"),
            (-0.0001, "0"),
        ];
        for (value, expected) in cases {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn time_is_told_in_the_largest_unit_that_fits() {
        let cases = [
            (3600, "1 hour"),
            (5400, "1.5 hours"),
            (86_400, "24 hours"),
            (360, "6 minutes"),
            (60, "1 minute"),
            (36, "36 seconds"),
            (1, "1 second"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!((count(1, "pod"), count(0, "pod")), ("1 pod".to_owned(), "0 pods".to_owned()));
    }
}
