//! Pressure stall information: `cpu.pressure` and `memory.pressure`.
//!
//! A file has a line `some` (at least one task waited) and, on most kernels, a line `full` (all
//! tasks waited). The averages are written as percentages and given as ratios of one.

use super::error::ParseError;
use super::field::{Field, find, lines, pairs};
use crate::units::{Ratio, Span};

/// How much the tasks of a cgroup waited for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// While at least one task waited.
    pub some: PsiLine,
    /// While all tasks that were not idle waited; nothing on kernels that do not measure it.
    pub full: Option<PsiLine>,
}

/// One line of pressure stall information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PsiLine {
    /// The part of the last ten seconds.
    pub avg10: Ratio,
    /// The part of the last minute.
    pub avg60: Ratio,
    /// The part of the last five minutes.
    pub avg300: Ratio,
    /// The time since the cgroup was made.
    pub total: Span,
}

/// The keys of a line within it, in the order of [`PsiLine`].
const KEYS: [&str; 4] = ["avg10", "avg60", "avg300", "total"];
/// The same keys as errors name them.
const SOME_KEYS: [&str; 4] = ["some avg10", "some avg60", "some avg300", "some total"];
const FULL_KEYS: [&str; 4] = ["full avg10", "full avg60", "full avg300", "full total"];

/// `cpu.pressure`.
///
/// # Errors
///
/// Where the line `some`, or a number of one of the lines, is missing or no number.
pub fn cpu_pressure(text: &[u8]) -> Result<Pressure, ParseError> {
    pressure("cpu.pressure", text)
}

/// `memory.pressure`.
///
/// # Errors
///
/// Where the line `some`, or a number of one of the lines, is missing or no number.
pub fn memory_pressure(text: &[u8]) -> Result<Pressure, ParseError> {
    pressure("memory.pressure", text)
}

fn pressure(file: &'static str, text: &[u8]) -> Result<Pressure, ParseError> {
    let [some, full] = find(file, ["some", "full"], lines(text));
    let some = psi_line(some, SOME_KEYS)?;
    let full = full.text.is_some().then(|| psi_line(full, FULL_KEYS)).transpose()?;
    Ok(Pressure { some, full })
}

fn psi_line(line: Field<'_>, named: [&'static str; 4]) -> Result<PsiLine, ParseError> {
    let [name10, name60, name300, name_total] = named;
    let [avg10, avg60, avg300, total] = find(line.file, KEYS, pairs(line.required()?));
    Ok(PsiLine {
        avg10: percentage(avg10.called(name10))?,
        avg60: percentage(avg60.called(name60))?,
        avg300: percentage(avg300.called(name300))?,
        total: Span::from_us(total.called(name_total).number()?),
    })
}

/// A ten-thousandth of a percent is a millionth of one, so nothing is rounded.
fn percentage(field: Field<'_>) -> Result<Ratio, ParseError> {
    field.ten_thousandths().map(Ratio::from_millionths)
}
