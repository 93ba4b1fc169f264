//! How a bidder's table is kept between runs: one line of JSON with a version.
//!
//! The workload store calls [`QTable::save`] and [`QTable::load`]. What always holds: a table loads
//! exactly as it was saved, generator included, so a restart changes no later choice; and anything
//! that is not a whole table (cut short, another version, a value no learning leads to) is refused
//! with a [`TableNote`] and replaced by a fresh table, never by a repaired one.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use thiserror::Error;

use super::{Action, LearnConfig, QTable, STATES, State, VALUE_LIMIT, probability};
use crate::rng::Rng;

/// The longest saved table that is read, in bytes. A table is about two thousand.
pub const SAVED_BYTES_MAX: usize = 64 * 1024;

/// The version [`QTable::save`] writes and [`QTable::load`] accepts.
const VERSION: u64 = 1;

/// Why a saved table was not taken and a fresh one was started instead.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TableNote {
    /// More bytes than any table has.
    #[error("The saved table has {found_bytes} bytes, more than the {SAVED_BYTES_MAX} allowed.")]
    TooLong {
        /// How many bytes there are.
        found_bytes: usize,
    },
    /// Not JSON, or cut short.
    #[error("The saved table is not valid JSON at line {line}, column {column}.")]
    NotJson {
        /// The line of the first fault, from 1.
        line: usize,
        /// The column of the first fault, from 1.
        column: usize,
    },
    /// JSON of something else.
    #[error(
        "The saved table has a missing, unknown or unfit field at line {line}, column {column}."
    )]
    NotATable {
        /// The line of the first fault, from 1.
        line: usize,
        /// The column of the first fault, from 1.
        column: usize,
    },
    /// A version this program does not read.
    #[error("The saved table has the version {found}, but only version {VERSION} is understood.")]
    WrongVersion {
        /// The version it has.
        found: u64,
    },
    /// Too few or too many values.
    #[error("The saved table has {found} values instead of {}.", STATES * Action::ALL.len())]
    WrongSize {
        /// How many values it has.
        found: usize,
    },
    /// A value no learning leads to.
    #[error("The saved value of {action} in {state} is {value}, larger than {VALUE_LIMIT}.")]
    ValueOutOfRange {
        /// The state of the value.
        state: State,
        /// The action of the value.
        action: Action,
        /// The value.
        value: f64,
    },
    /// A probability of exploration that is not one.
    #[error("The saved epsilon is {epsilon}, which is not between 0 and 1.")]
    EpsilonOutOfRange {
        /// The epsilon.
        epsilon: f64,
    },
}

/// The table as it is written. The version comes first, for people who open the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u64,
    updates: u64,
    epsilon: f64,
    generator: Rng,
    values: Vec<f64>,
}

/// The one field every version has.
#[derive(Deserialize)]
struct Stamp {
    version: u64,
}

// === impl QTable ===

impl QTable {
    /// The table as one line of JSON, from which [`QTable::load`] restores it exactly.
    #[must_use]
    pub fn save(&self) -> String {
        let saved = Saved {
            version: VERSION,
            updates: self.updates,
            epsilon: self.epsilon,
            generator: self.generator.clone(),
            values: self.values.as_flattened().to_vec(),
        };
        serde_json::to_string(&saved).expect("finite numbers under fixed names have a JSON form")
    }

    /// The table that was saved as `bytes`, or, with a note saying why, a fresh one from `seed`.
    ///
    /// The only thing that may differ from what was saved is epsilon, and only where the
    /// configuration now starts lower than that.
    #[must_use]
    pub fn load(bytes: &[u8], seed: u64, config: &LearnConfig) -> (Self, Option<TableNote>) {
        match Self::parse(bytes) {
            Ok(mut table) => {
                table.epsilon = table.epsilon.min(probability(config.exploration_start));
                (table, None)
            }
            Err(note) => (Self::new(seed, config), Some(note)),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, TableNote> {
        if bytes.len() > SAVED_BYTES_MAX {
            return Err(TableNote::TooLong { found_bytes: bytes.len() });
        }
        // The version is read by itself first, so that a newer layout is named as such.
        let stamp: Stamp = serde_json::from_slice(bytes).map_err(|e| TableNote::unread(&e))?;
        if stamp.version != VERSION {
            return Err(TableNote::WrongVersion { found: stamp.version });
        }
        let saved: Saved = serde_json::from_slice(bytes).map_err(|e| TableNote::unread(&e))?;
        if !(0.0..=1.0).contains(&saved.epsilon) {
            return Err(TableNote::EpsilonOutOfRange { epsilon: saved.epsilon });
        }
        let mut values = [[0.0; Action::ALL.len()]; STATES];
        if saved.values.len() != values.as_flattened().len() {
            return Err(TableNote::WrongSize { found: saved.values.len() });
        }
        values.as_flattened_mut().copy_from_slice(&saved.values);
        for state in State::all() {
            for action in Action::ALL {
                let value = values[usize::from(state.0)][action.column()];
                if !(-VALUE_LIMIT..=VALUE_LIMIT).contains(&value) {
                    return Err(TableNote::ValueOutOfRange { state, action, value });
                }
            }
        }
        let Saved { updates, epsilon, generator, .. } = saved;
        Ok(Self { values, epsilon, generator, updates })
    }
}

// === impl TableNote ===

impl TableNote {
    /// Only the place is kept of a parser's message, which may quote what the file says.
    fn unread(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            Category::Syntax | Category::Eof | Category::Io => Self::NotJson { line, column },
            Category::Data => Self::NotATable { line, column },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Experience;
    use crate::units::Ratio;
    use alloc::borrow::ToOwned;
    use alloc::string::ToString;

    const CONFIG: LearnConfig = LearnConfig::DEFAULT;

    /// A table whose values have as many digits as values come to have.
    fn trained(seed: u64) -> QTable {
        let mut table = QTable::new(seed, &CONFIG);
        let mut world = Rng::from_seed(seed ^ 0xABCD);
        let mut draw = || {
            let index = u8::try_from(world.below(27)).unwrap();
            (State::from_index(index).unwrap(), world.unit() * 200.0 - 150.0)
        };
        for _ in 0..2000 {
            let ((state, reward), (next, _)) = (draw(), draw());
            let action = table.choose(state, Ratio::ZERO);
            table.update(&Experience { state, action, reward, next }, &CONFIG);
        }
        table
    }

    /// What is noted about `text`; the table it gives must then be the fresh one of the seed.
    fn check(text: &str) -> String {
        match QTable::load(text.as_bytes(), 77, &CONFIG) {
            (table, Some(note)) => {
                assert_eq!(table, QTable::new(77, &CONFIG));
                note.to_string()
            }
            (_, None) => "taken".to_owned(),
        }
    }

    fn fresh_text() -> String {
        QTable::new(1, &CONFIG).save()
    }

    #[test]
    fn a_table_is_one_short_line_that_starts_with_its_version() {
        let text = trained(1).save();
        assert!(text.starts_with(r#"{"version":1,"updates":2000,"epsilon":0."#), "{text}");
        assert!(!text.contains(char::is_whitespace));
        assert!(text.len() < 2000, "{} bytes", text.len());
    }

    #[test]
    fn a_table_loads_bit_for_bit_as_it_was_saved() {
        for seed in 0..50 {
            let mut table = trained(seed);
            // The awkward ones: a negative zero, the smallest number, the largest allowed.
            table.values[3] = [-0.0, f64::from_bits(1), -VALUE_LIMIT];
            let (loaded, note) = QTable::load(table.save().as_bytes(), 0, &CONFIG);
            assert_eq!(note, None);
            let bits = |table: &QTable| {
                table.values.as_flattened().iter().map(|v| v.to_bits()).collect::<Vec<_>>()
            };
            assert_eq!(bits(&loaded), bits(&table), "seed {seed}");
            assert_eq!(loaded.epsilon.to_bits(), table.epsilon.to_bits(), "seed {seed}");
            assert_eq!(loaded, table, "seed {seed}");
        }
    }

    #[test]
    fn a_loaded_generator_goes_on_where_it_was_saved() {
        let config = LearnConfig { exploration_start: 1.0, exploration_decay: 1.0, ..CONFIG };
        let mut table = QTable::new(u64::MAX, &config);
        let state = State::from_index(0).unwrap();
        let choices = |table: &mut QTable| {
            (0..100).map(|_| table.choose(state, Ratio::ZERO)).collect::<Vec<_>>()
        };
        choices(&mut table);
        let (mut loaded, note) = QTable::load(table.save().as_bytes(), 0, &config);
        assert_eq!(note, None);
        assert_eq!(choices(&mut loaded), choices(&mut table));
    }

    #[test]
    fn a_loaded_table_explores_no_more_than_the_configuration_starts_with() {
        let quiet = LearnConfig { exploration_start: 0.0, ..CONFIG };
        let (loaded, note) = QTable::load(fresh_text().as_bytes(), 0, &quiet);
        assert_eq!((loaded.epsilon(), note), (0.0, None));
    }

    #[test]
    fn each_kind_of_corruption_is_refused_and_named() {
        let text = fresh_text();
        assert_eq!(check(&text), "taken");
        for (find, replace, note) in [
            (
                r#""version":1"#,
                r#""version":2,"other":[]"#,
                "The saved table has the version 2, but only version 1 is understood.",
            ),
            (
                r#""epsilon":0.2"#,
                r#""epsilon":1.5"#,
                "The saved epsilon is 1.5, which is not between 0 and 1.",
            ),
            (
                r#""epsilon":0.2"#,
                r#""epsilon":-0.1"#,
                "The saved epsilon is -0.1, which is not between 0 and 1.",
            ),
            ("[0.0,0.0,", "[0.0,", "The saved table has 80 values instead of 81."),
            ("[0.0,", "[0.0,0.0,", "The saved table has 82 values instead of 81."),
            (
                "[0.0,0.0,",
                "[0.0,-1000000001,",
                "The saved value of normal in low:none:low is -1000000001, larger than 1000000000.",
            ),
            ("[0.0,", "[1e999,", "The saved table is not valid JSON at"),
            ("{", "{{", "The saved table is not valid JSON at"),
            ("0]}", "0]}}", "The saved table is not valid JSON at"),
            ("[0.0,", "[null,", "The saved table has a missing, unknown or unfit field at"),
            (r#""updates":0,"#, "", "The saved table has a missing, unknown or unfit field at"),
            (
                r#""updates":0,"#,
                r#""updates":0,"extra":1,"#,
                "The saved table has a missing, unknown or unfit field at",
            ),
            (
                r#""generator":1"#,
                r#""generator":-1"#,
                "The saved table has a missing, unknown or unfit field at",
            ),
        ] {
            let changed = text.replacen(find, replace, 1);
            assert_ne!(changed, text, "{find} is not in the text");
            let noted = check(&changed);
            assert!(noted.starts_with(note), "{find} => {replace}: {noted}");
        }
        assert_eq!(check(""), "The saved table is not valid JSON at line 1, column 0.");
        assert_eq!(check(&text[..200]), "The saved table is not valid JSON at line 1, column 200.");
    }

    #[test]
    fn only_so_much_is_read() {
        let mut text = fresh_text();
        text.push_str(&" ".repeat(SAVED_BYTES_MAX - text.len()));
        assert_eq!(check(&text), "taken");
        text.push(' ');
        assert_eq!(check(&text), "The saved table has 65537 bytes, more than the 65536 allowed.");
        let deep = alloc::format!("{{\"version\":1,\"values\":{}", "[".repeat(60_000));
        assert!(check(&deep).starts_with("The saved table is not valid JSON"));
    }

    #[test]
    fn damaged_bytes_never_panic_and_never_load_as_something_impossible() {
        for seed in 0..3000 {
            let mut dice = Rng::from_seed(seed);
            let mut bytes = trained(seed % 3).save().into_bytes();
            if seed % 4 == 0 {
                bytes.clear();
            }
            for _ in 0..=dice.below(5) {
                let [byte, ..] = dice.next_u64().to_le_bytes();
                let at = usize::try_from(dice.below(bytes.len() as u64 + 1)).unwrap();
                match dice.below(3) {
                    0 => bytes.insert(at, byte),
                    1 => bytes.truncate(at),
                    _ => bytes.iter_mut().skip(at).take(1).for_each(|old| *old = byte),
                }
            }
            let (table, _) = QTable::load(&bytes, seed, &CONFIG);
            assert!(table.values.as_flattened().iter().all(|v| v.abs() <= VALUE_LIMIT), "{seed}");
            assert!((0.0..=1.0).contains(&table.epsilon), "seed {seed}");
            assert_eq!(QTable::load(table.save().as_bytes(), 0, &CONFIG), (table, None), "{seed}");
        }
    }
}
