//! How a record is kept between runs: one line of JSON with a version.
//!
//! What always holds: a record loads exactly as it was saved; and anything that is not a whole
//! record (cut short, another version, counts that no seeing leads to) is refused with a
//! [`RecordNote`], never repaired. Without a record a family begins anew.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::record::{BUCKETS, DAY_WINDOWS, DAYS_MAX, Day, UseRecord};

/// The longest saved record that is read, in bytes. One is a few thousand.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;

/// The version [`UseRecord::save`] writes and [`UseRecord::load`] accepts.
const VERSION: u64 = 1;

/// Why a saved record was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordNote {
    /// More bytes than any record has.
    #[error("The saved record has {found_bytes} bytes, more than the {RECORD_BYTES_MAX} allowed.")]
    TooLong {
        /// How many bytes there are.
        found_bytes: usize,
    },
    /// Not JSON, or JSON of something else.
    #[error("The saved record cannot be understood at line {line}, column {column}.")]
    NotARecord {
        /// The line of the first fault, from 1.
        line: usize,
        /// The column of the first fault, from 1.
        column: usize,
    },
    /// A version this program does not read.
    #[error("The saved record has the version {found}, but only version {VERSION} is understood.")]
    WrongVersion {
        /// The version it has.
        found: u64,
    },
    /// More days than are kept.
    #[error("The saved record has {found} days, more than {}.", DAYS_MAX + 1)]
    TooManyDays {
        /// How many it has.
        found: usize,
    },
    /// A day that no seeing leads to.
    #[error("Day {day} of the saved record makes no sense.")]
    StrangeDay {
        /// Which, from 1 for the oldest.
        day: usize,
    },
}

/// The record as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u64,
    days: Vec<SavedDay>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedDay {
    windows: u16,
    /// Buckets and how often each was seen.
    counts: Vec<(u16, u16)>,
}

/// The one field every version has.
#[derive(Deserialize)]
struct Stamp {
    version: u64,
}

// === impl UseRecord ===

impl UseRecord {
    /// The record as one line of JSON, from which [`UseRecord::load`] restores it exactly.
    #[must_use]
    pub fn save(&self) -> String {
        let day = |day: &Day| SavedDay { windows: day.windows, counts: day.counts.clone() };
        let saved = Saved { version: VERSION, days: self.days.iter().map(day).collect() };
        serde_json::to_string(&saved).expect("whole numbers under fixed names have a JSON form")
    }

    /// The record that was saved as `bytes`.
    ///
    /// # Errors
    /// It is not one.
    pub fn load(bytes: &[u8]) -> Result<Self, RecordNote> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(RecordNote::TooLong { found_bytes: bytes.len() });
        }
        // The version is read by itself first, so that a newer layout is named as such.
        let stamp: Stamp = serde_json::from_slice(bytes).map_err(|e| RecordNote::unread(&e))?;
        if stamp.version != VERSION {
            return Err(RecordNote::WrongVersion { found: stamp.version });
        }
        let saved: Saved = serde_json::from_slice(bytes).map_err(|e| RecordNote::unread(&e))?;
        let found = saved.days.len();
        if found > DAYS_MAX + 1 {
            return Err(RecordNote::TooManyDays { found });
        }
        let mut days = VecDeque::with_capacity(found);
        for (day, SavedDay { windows, counts }) in (1..).zip(saved.days) {
            let is_over = windows == DAY_WINDOWS;
            let goes_on = day == found && windows > 0 && windows < DAY_WINDOWS;
            if !(is_over || goes_on) || !is_seen(windows, &counts) {
                return Err(RecordNote::StrangeDay { day });
            }
            days.push_back(Day { windows, counts });
        }
        Ok(Self::of_days(days))
    }
}

/// Whether a day of so many windows may have these counts: buckets that exist, in their order, and
/// at least one workload in every window.
fn is_seen(windows: u16, counts: &[(u16, u16)]) -> bool {
    let ordered = counts.is_sorted_by(|one, other| one.0 < other.0);
    let exist = counts.iter().all(|(bucket, count)| *bucket < BUCKETS && *count > 0);
    let seen: u64 = counts.iter().map(|(_, count)| u64::from(*count)).sum();
    ordered && exist && seen >= u64::from(windows)
}

// === impl RecordNote ===

impl RecordNote {
    fn unread(error: &serde_json::Error) -> Self {
        Self::NotARecord { line: error.line(), column: error.column() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::units::Millicores;
    use alloc::string::ToString;
    use alloc::vec;

    fn record(windows: u64) -> UseRecord {
        let mut rng = Rng::from_seed(windows);
        let mut record = UseRecord::default();
        for _ in 0..windows {
            let workloads = 1 + rng.below(3);
            let used: Vec<_> = (0..workloads).map(|_| Millicores::new(rng.below(9000))).collect();
            record.window_passed(&used);
        }
        record
    }

    #[test]
    fn a_record_loads_as_it_was_saved() {
        for windows in [0, 1, 287, 288, 289, 2016, 2304, 5000] {
            let record = record(windows);
            assert_eq!(UseRecord::load(record.save().as_bytes()), Ok(record), "{windows}");
        }
    }

    #[test]
    fn what_is_no_record_is_refused_and_says_why() {
        let check = |text: &str| match UseRecord::load(text.as_bytes()) {
            Ok(_) => "taken".to_string(),
            Err(note) => note.to_string(),
        };
        let of_days = |days: &str| check(&alloc::format!(r#"{{"version":1,"days":[{days}]}}"#));
        assert_eq!(of_days(""), "taken");
        assert_eq!(of_days(r#"{"windows":2,"counts":[[5,2]]}"#), "taken");
        for strange in [
            r#"{"windows":0,"counts":[]}"#,
            r#"{"windows":289,"counts":[[5,289]]}"#,
            r#"{"windows":2,"counts":[[5,1]]}"#,
            r#"{"windows":2,"counts":[[5,2],[4,1]]}"#,
            r#"{"windows":2,"counts":[[5,2],[5,1]]}"#,
            r#"{"windows":2,"counts":[[5,2],[6,0]]}"#,
            r#"{"windows":2,"counts":[[272,2]]}"#,
            r#"{"windows":2,"counts":[[5,2]]},{"windows":2,"counts":[[5,2]]}"#,
        ] {
            assert_eq!(of_days(strange), "Day 1 of the saved record makes no sense.", "{strange}");
        }
        let whole = r#"{"windows":288,"counts":[[5,288]]}"#;
        assert_eq!(of_days(&[whole; 8].join(",")), "taken");
        assert_eq!(of_days(&[whole; 9].join(",")), "The saved record has 9 days, more than 8.");
        let newer = "The saved record has the version 2, but only version 1 is understood.";
        assert_eq!(check(r#"{"version":2,"more":[]}"#), newer);
        let unread = "The saved record cannot be understood at line 1, column";
        for text in ["", "x", "{}", r#"{"version":1,"days":[],"more":1}"#, r#"{"version":1}"#] {
            assert!(check(text).starts_with(unread), "{text}: {}", check(text));
        }
    }

    /// Bytes that went wrong in every way bytes do: none of them makes it panic, and whatever is
    /// taken is a record that saves and loads again.
    #[test]
    fn no_bytes_make_it_panic_or_believe_what_cannot_be() {
        let whole = record(700).save().into_bytes();
        let mut rng = Rng::from_seed(1);
        let mut taken = 0;
        for case in 0..20_000_u64 {
            let mut bytes = whole.clone();
            match case % 3 {
                0 => bytes.truncate(usize::try_from(rng.below(1 + bytes.len() as u64)).unwrap()),
                1 => {
                    let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                    bytes[at] = u8::try_from(rng.below(256)).unwrap();
                }
                _ => {
                    let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                    bytes[at] = b'0' + u8::try_from(rng.below(10)).unwrap();
                }
            }
            if let Ok(record) = UseRecord::load(&bytes) {
                taken += 1;
                assert_eq!(UseRecord::load(record.save().as_bytes()), Ok(record), "case {case}");
            }
        }
        assert!(taken > 100, "a digit in the place of another is often no fault: {taken}");
        let long = vec![b' '; RECORD_BYTES_MAX + 1];
        let found_bytes = long.len();
        assert_eq!(UseRecord::load(&long), Err(RecordNote::TooLong { found_bytes }));
    }
}
