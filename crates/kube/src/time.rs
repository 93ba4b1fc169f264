//! Times as people write them in settings, which is as Go writes them: `500ms`, `1.5s`, `1m30s`.

use walras_core::units::Span;

/// The longest time that anybody sets.
const DAY_US: f64 = 86_400e6;

/// A time such as `1m30s`; nothing if it is none, or longer than a day.
pub(crate) fn span_from(text: &str) -> Option<Span> {
    let mut rest = text;
    let mut total_us = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let unit_us = match unit {
            "us" | "µs" => 1.0,
            "ms" => 1e3,
            "s" => 1e6,
            "m" => 60e6,
            "h" => 3600e6,
            _ => return None,
        };
        total_us += number.parse::<f64>().ok()? * unit_us;
        rest = tail;
    }
    (!text.is_empty() && total_us <= DAY_US).then(|| Span::from_us(nearest_u64(total_us)))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within a day")]
fn nearest_u64(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_go_writes_them() {
        let check = |text| span_from(text).map(Span::as_us);
        assert_eq!(check("1s"), Some(1_000_000));
        assert_eq!(check("1m30s"), Some(90_000_000));
        assert_eq!(check("1.5s"), Some(1_500_000));
        assert_eq!(check("500ms"), Some(500_000));
        for bad in ["", "5", "s", "5x", "-1s", "1e9h", "48h", "1..5s"] {
            assert_eq!(check(bad), None, "{bad}");
        }
    }
}
