//! What can be wrong with a trace file. Each message names the file, and where there is one the
//! line, the column and the value.

use std::fmt;

use super::{Format, LINES_MAX};

/// Why a trace was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Nothing in it.
    #[error("{file}: is empty; a trace has at least one value")]
    Empty {
        /// The file.
        file: String,
    },
    /// Longer than any trace may be.
    #[error("{file}: has more than {LINES_MAX} lines; cut it, or take out one machine")]
    TooLong {
        /// The file.
        file: String,
    },
    /// Not text.
    #[error("{at}: is not UTF-8 text; byte {byte} of the line is 0x{value:02x}")]
    NotText {
        /// Where.
        at: Place,
        /// Which byte of the line, counted from 1.
        byte: usize,
        /// The byte.
        value: u8,
    },
    /// A value that is no value of its kind.
    #[error("{at}: {value} is not {wanted}")]
    Value {
        /// Where.
        at: Place,
        /// What is there.
        value: String,
        /// What would have been accepted.
        wanted: String,
    },
    /// A row that ends too early.
    #[error("{at}: has too few columns for the format {format}: {found} of at least {needed}")]
    TooFewColumns {
        /// Where.
        at: Place,
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
        /// The format it was read in.
        format: Format,
    },
    /// A header that lacks a column.
    #[error("{at}: the header has no column {column:?}, which the format {format} needs")]
    NoColumn {
        /// Where.
        at: Place,
        /// The column.
        column: &'static str,
        /// The format it was read in.
        format: Format,
    },
    /// A first line that no format begins with.
    #[error("{at}: {value} is not how any known format begins; known are {known}")]
    UnknownFormat {
        /// Where.
        at: Place,
        /// The line.
        value: String,
        /// The names of all formats.
        known: String,
    },
    /// A row that is not later than the one before.
    #[error(
        "{at}: {value} is not after {before}, the time of the row before; sort the file by time"
    )]
    NotLater {
        /// Where.
        at: Place,
        /// The time.
        value: String,
        /// What it should be after.
        before: String,
    },
    /// A row that begins before the one before it ends.
    #[error(
        "{at}: {value} is before {end}, the end of the row before; rows of one machine are of the \
         same time, and add up, or follow each other"
    )]
    Overlap {
        /// Where.
        at: Place,
        /// The time.
        value: String,
        /// What it should not be before.
        end: String,
    },
    /// The machine that was asked for is not there.
    #[error("{file}: has no row of machine {wanted:?}; the first row is of {first:?}")]
    NoSuchMachine {
        /// The file.
        file: String,
        /// The machine that was asked for.
        wanted: String,
        /// A machine that is there.
        first: String,
    },
    /// A machine was asked for where there are none.
    #[error("{file}: machine {wanted:?} is asked for, but a {format} trace is of one machine")]
    NoMachines {
        /// The file.
        file: String,
        /// The machine that was asked for.
        wanted: String,
        /// The format.
        format: Format,
    },
    /// The size of a machine was told where it does not matter.
    #[error("{file}: 100 % is said to be {cores} cores, but a {format} trace is not in percent")]
    NotInPercent {
        /// The file.
        file: String,
        /// The size.
        cores: String,
        /// The format.
        format: Format,
    },
    /// A gap so long that filling it makes the trace too long.
    #[error(
        "{at}: the gap before this row makes the trace longer than {LINES_MAX} steps of {step_s} s"
    )]
    Gap {
        /// Where.
        at: Place,
        /// The usual step, in seconds.
        step_s: String,
    },
}

/// A place in a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1, and what it holds.
    pub column: Option<(usize, &'static str)>,
}

// === impl Place ===

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: line {}", self.file, self.line)?;
        match self.column {
            Some((column, name)) => write!(f, ", column {column} ({name})"),
            None => Ok(()),
        }
    }
}
