//! The one reader of settings: TOML files, and values that are written elsewhere.
//!
//! A file's keys are taken one by one, each with its kind. Everything that is wrong is told at
//! once, with its key, its value, its line, what is accepted, and the key that was probably meant.

mod field;
mod kind;
mod problem;

pub use self::field::{Fields, line_at};
pub use self::kind::{
    AbsolutePath, Address, BargainingWeight, Cpu, Flag, HostName, HttpAddress, Kind, Latency,
    Number, Query, Whole, Word, cpu_from, latency_from, nearest_u64, number, text, weight_from,
    whole,
};
pub use self::problem::{Problem, Problems};
