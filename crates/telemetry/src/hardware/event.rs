//! Events as devices describe them in `/sys/bus/event_source/devices`: text to numbers.
//!
//! A device says under `events` what can be counted (`event=0x04,umask=0x03`) and in which unit,
//! and under `format` which bits of the configuration a word of that means (`config:0-7`).

/// What the value of an event is multiplied with to be bytes; nothing if it counts something else.
pub(super) fn bytes_per_count(scale: &str, unit: &str) -> Option<f64> {
    let unit_bytes = match unit.trim() {
        "Bytes" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "MB" => 1e6,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    let scale = scale.trim().parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0)?;
    Some(scale * unit_bytes)
}

/// The configuration that `event` means; `format` gives the text of one of its words. Events with
/// anything outside of the first configuration word are not understood.
pub(super) fn config(event: &str, format: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut config = 0;
    for word in event.trim().split(',') {
        let (name, value) = word.split_once('=').unwrap_or((word, "1"));
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => value.parse().ok()?,
        };
        config |= spread(value, &format(name)?)?;
    }
    Some(config)
}

/// The bits of `value` where `format` wants them: `config:0-7,32-35`.
fn spread(mut value: u64, format: &str) -> Option<u64> {
    let ranges = format.trim().strip_prefix("config:")?;
    let mut spread = 0;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let width = last.checked_sub(first)?.checked_add(1).filter(|_| last < 64)?;
        let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        spread |= (value & mask) << first;
        value = value.checked_shr(width).unwrap_or(0);
    }
    (value == 0).then_some(spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the memory controller of a Xeon describes itself.
    fn xeon(word: &str) -> Option<String> {
        let bits = match word {
            "event" => "config:0-7\n",
            "umask" => "config:8-15\n",
            "edge" => "config:18\n",
            "split" => "config:0-3,8-11\n",
            "other" => "config1:0-7\n",
            _ => return None,
        };
        Some(bits.to_owned())
    }

    #[test]
    fn an_event_becomes_the_number_that_the_device_wants() {
        assert_eq!(config("event=0x04,umask=0x03\n", xeon), Some(0x0304));
        assert_eq!(config("event=255,edge", xeon), Some(0x4_00FF));
        assert_eq!(config("split=0xab", xeon), Some(0xA0B));
        for event in ["event=x", "what=1", "event=0x1ff", "other=1", "event=0x04,umask=", ""] {
            assert_eq!(config(event, xeon), None, "{event}");
        }
    }

    #[test]
    fn formats_that_make_no_sense_are_refused() {
        for bits in ["", "config:", "config:9-3", "config:0-64", "config:a", "0-7"] {
            assert_eq!(config("event=1", |_| Some(bits.to_owned())), None, "{bits}");
        }
        let wide = |_: &str| Some("config:0-63".to_owned());
        assert_eq!(config("event=0xffffffffffffffff", wide), Some(u64::MAX));
    }

    #[test]
    fn a_count_is_a_number_of_bytes_where_the_unit_says_so() {
        // A cache line, as Xeons have it.
        assert_eq!(bytes_per_count("6.103515625e-5\n", "MiB\n"), Some(64.0));
        assert_eq!(bytes_per_count("64", "Bytes"), Some(64.0));
        for (scale, unit) in [("1", "Joules"), ("x", "MiB"), ("-1", "MiB"), ("inf", "MiB")] {
            assert_eq!(bytes_per_count(scale, unit), None, "{scale} {unit}");
        }
    }
}
