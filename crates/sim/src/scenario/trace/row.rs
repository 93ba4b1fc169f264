//! A trace file as lines of cells, with the place of every fault.
//!
//! Called by every format. A line may end in a carriage return, the file may begin with a byte
//! order mark and end with empty lines. Cells are cut off on demand, so a file of many columns
//! costs no more than the ones that are read.

use super::error::{Place, TraceError};
use super::{Format, LINES_MAX};

/// Values are shown up to this many characters.
const SHOWN_MAX: usize = 40;

/// All lines of a file.
#[derive(Clone, Debug)]
pub(super) struct Lines<'a> {
    file: &'a str,
    rest: Option<&'a [u8]>,
    number: usize,
}

/// One line, as cells between separators.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    file: &'a str,
    line: usize,
    text: &'a str,
}

/// A column: its place, counted from 0, and what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) place: usize,
    pub(super) name: &'static str,
}

/// How the columns of a format are told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) separator: char,
    /// How many columns a row has at least.
    pub(super) needed: usize,
}

// === impl Lines ===

impl<'a> Lines<'a> {
    /// The lines of a file, unless it is empty or has too many.
    pub(super) fn new(bytes: &'a [u8], file: &'a str) -> Result<Self, TraceError> {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let bytes = bytes.trim_ascii_end();
        if bytes.is_empty() {
            return Err(TraceError::Empty { file: file.to_owned() });
        }
        if bytes.iter().filter(|&&byte| byte == b'\n').count() >= LINES_MAX {
            return Err(TraceError::TooLong { file: file.to_owned() });
        }
        Ok(Self { file, rest: Some(bytes), number: 0 })
    }

    fn row(&self, line: &'a [u8]) -> Result<Row<'a>, TraceError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match str::from_utf8(line) {
            Ok(text) => Ok(Row { file: self.file, line: self.number, text }),
            Err(error) => {
                let byte = error.valid_up_to();
                Err(TraceError::NotText {
                    at: Place { file: self.file.to_owned(), line: self.number, column: None },
                    byte: byte + 1,
                    value: line.get(byte).copied().unwrap_or_default(),
                })
            }
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Row<'a>, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        self.number += 1;
        let end = rest.iter().position(|&byte| byte == b'\n');
        let line = match end {
            Some(end) => {
                self.rest = rest.get(end + 1..);
                rest.get(..end).unwrap_or_default()
            }
            None => rest,
        };
        Some(self.row(line))
    }
}

// === impl Row ===

impl<'a> Row<'a> {
    /// The whole line.
    pub(super) const fn text(&self) -> &'a str {
        self.text
    }

    /// The number of the line, counted from 1.
    pub(super) const fn line(&self) -> usize {
        self.line
    }

    /// Where the line is.
    pub(super) fn place(&self) -> Place {
        Place { file: self.file.to_owned(), line: self.line, column: None }
    }

    /// Where a cell of it is.
    pub(super) fn place_of(&self, column: Column) -> Place {
        Place { column: Some((column.place + 1, column.name)), ..self.place() }
    }

    /// The cells, without the space around them.
    pub(super) fn cells(&self, separator: char) -> impl Iterator<Item = &'a str> {
        self.text.split(separator).map(str::trim)
    }

    /// The cell in a column.
    pub(super) fn cell(&self, layout: &Layout, column: Column) -> Result<&'a str, TraceError> {
        self.cells(layout.separator).nth(column.place).ok_or_else(|| TraceError::TooFewColumns {
            at: self.place(),
            found: self.cells(layout.separator).count(),
            needed: layout.needed,
            format: layout.format,
        })
    }

    /// The number in a column: finite, and at least zero and at most `most`.
    pub(super) fn number(
        &self,
        layout: &Layout,
        column: Column,
        most: f64,
    ) -> Result<f64, TraceError> {
        let cell = self.cell(layout, column)?;
        match cell.parse::<f64>() {
            Ok(number) if (0.0..=most).contains(&number) => Ok(number),
            Ok(_) | Err(_) => Err(TraceError::Value {
                at: self.place_of(column),
                value: shown(cell),
                wanted: format!("a number from 0 to {most}"),
            }),
        }
    }
}

/// A value as it is printed: quoted, escaped and cut.
pub(super) fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}...", value.get(..end).unwrap_or_default()),
        None => format!("{value:?}"),
    }
}
