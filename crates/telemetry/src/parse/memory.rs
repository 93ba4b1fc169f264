//! `/proc/meminfo`: how much memory there is, and how much is available.

use super::{lines, number, words};

/// What the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total_bytes: u64,
    /// What could be used without swapping.
    pub available_bytes: u64,
}

/// Reads the file.
#[must_use]
pub fn memory(text: &[u8]) -> Option<Memory> {
    let (mut total, mut available) = (None, None);
    for line in lines(text) {
        let mut words = words(line);
        let place = match words.next()? {
            b"MemTotal:" => &mut total,
            b"MemAvailable:" => &mut available,
            _ => continue,
        };
        *place = Some(number(words.next()?)?.checked_mul(1024)?);
        if let (Some(total_bytes), Some(available_bytes)) = (total, available) {
            return Some(Memory { total_bytes, available_bytes });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_are_needed() {
        let text = b"MemTotal:       24681600 kB\nMemFree: 1 kB\nMemAvailable:   100 kB\nx\n";
        let expected = Memory { total_bytes: 25_273_958_400, available_bytes: 102_400 };
        assert_eq!(memory(text), Some(expected));
        for text in ["", "MemTotal: 1 kB\n", "MemTotal: x\nMemAvailable: 1\n", "MemTotal:\n"] {
            assert_eq!(memory(text.as_bytes()), None, "{text}");
        }
    }
}
