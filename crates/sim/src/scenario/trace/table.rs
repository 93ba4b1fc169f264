//! The formats that are tables: rows with a time, and perhaps a machine.
//!
//! Columns are found by the names in the header where there is one, so others may stand between
//! them. Times go forward; what goes back is refused and not sorted, because it usually means that
//! rows of several machines or containers are mixed.

use super::error::TraceError;
use super::even::{Sample, evenly};
use super::row::{Column, Layout, Lines, Row, shown};
use super::{Format, VALUE_MAX};

/// The column that tells a file of Bitbrains.
pub(super) const BITBRAINS_USAGE: &str = "CPU usage [%]";
/// The column that tells a file of Google's.
pub(super) const GOOGLE_USAGE: &str = "average_usage_cpus";

/// The latest time, in seconds or microseconds. Differences of such times are exact to a
/// microsecond.
const TIME_MAX: f64 = 1e15;
/// The most that a percentage of a whole machine can be.
const PERCENT_MAX: f64 = 100.0;
/// How long the only row of a file lasts.
const BITBRAINS_STEP_S: f64 = 300.0;
/// The column of Alibaba's files that holds the usage.
pub(super) const ALIBABA_USAGE: &str = "cpu_util_percent";
const ALIBABA_STEP_S: f64 = 10.0;

/// The levels and the length of a step.
type Levels = (Vec<f64>, f64);

pub(super) fn bitbrains(mut lines: Lines<'_>, file: &str) -> Result<Levels, TraceError> {
    let mut layout = Layout { format: Format::Bitbrains, separator: ';', needed: 0 };
    let names = ["Timestamp [ms]", "CPU cores", BITBRAINS_USAGE];
    let [time, cores, usage] = columns(&mut lines, file, &mut layout, names)?;
    let mut samples = Samples::new(time);
    for row in lines {
        let row = row?;
        let at_s = row.number(&layout, time, TIME_MAX)?;
        let cores = row.number(&layout, cores, VALUE_MAX)?;
        let percent = row.number(&layout, usage, VALUE_MAX)?;
        let level = percent / 100.0 * cores;
        samples.add(&row, &layout, Sample { at_s, level, line: row.line() })?;
    }
    evenly(file, &samples.all, BITBRAINS_STEP_S)
}

pub(super) fn alibaba(
    lines: Lines<'_>,
    file: &str,
    machine_wanted: Option<&str>,
    cores: f64,
) -> Result<Levels, TraceError> {
    let layout = Layout { format: Format::Alibaba, separator: ',', needed: 3 };
    let [machine, time, usage] = [(0, "machine_id"), (1, "time_stamp"), (2, ALIBABA_USAGE)]
        .map(|(place, name)| Column { place, name });
    let mut samples = Samples::new(time);
    let mut wanted = Wanted::new(machine_wanted);
    for row in lines {
        let row = row?;
        let of = row.cell(&layout, machine)?;
        let is_header = row.line() == 1 && of == machine.name;
        if is_header || !wanted.is(of) {
            continue;
        }
        let at_s = row.number(&layout, time, TIME_MAX)?;
        let percent = row.number(&layout, usage, PERCENT_MAX)?;
        let level = percent / 100.0 * cores;
        samples.add(&row, &layout, Sample { at_s, level, line: row.line() })?;
    }
    wanted.found(file, &samples)?;
    evenly(file, &samples.all, ALIBABA_STEP_S)
}

pub(super) fn google(
    mut lines: Lines<'_>,
    file: &str,
    machine_wanted: Option<&str>,
) -> Result<Levels, TraceError> {
    let mut layout = Layout { format: Format::Google, separator: ',', needed: 0 };
    let names = ["start_time", "end_time", "machine_id", GOOGLE_USAGE];
    let [start, end, machine, usage] = columns(&mut lines, file, &mut layout, names)?;
    let mut samples = Samples::new(start);
    let mut wanted = Wanted::new(machine_wanted);
    let mut before = (0.0, 0.0);
    for row in lines {
        let row = row?;
        if !wanted.is(row.cell(&layout, machine)?) {
            continue;
        }
        let start_us = row.number(&layout, start, TIME_MAX)?;
        let end_us = row.number(&layout, end, TIME_MAX)?;
        if end_us <= start_us {
            return Err(TraceError::Value {
                at: row.place_of(end),
                value: shown(row.cell(&layout, end)?),
                wanted: "after start_time".to_owned(),
            });
        }
        let level = row.number(&layout, usage, VALUE_MAX)?;
        match samples.all.last_mut() {
            Some(same) if before == (start_us, end_us) => same.level += level,
            Some(_) if start_us < before.1 => {
                return Err(TraceError::Overlap {
                    at: row.place_of(start),
                    value: shown(row.cell(&layout, start)?),
                    end: before.1.to_string(),
                });
            }
            Some(_) | None => {
                let at_s = start_us / 1e6;
                samples.add(&row, &layout, Sample { at_s, level, line: row.line() })?;
            }
        }
        before = (start_us, end_us);
    }
    wanted.found(file, &samples)?;
    evenly(file, &samples.all, (before.1 - before.0) / 1e6)
}

/// Reads the header: the columns of these names. Tells the layout how many a row needs.
fn columns<const COUNT: usize>(
    lines: &mut Lines<'_>,
    file: &str,
    layout: &mut Layout,
    names: [&'static str; COUNT],
) -> Result<[Column; COUNT], TraceError> {
    let Some(header) = lines.next() else {
        return Err(TraceError::Empty { file: file.to_owned() });
    };
    let header = header?;
    let mut columns = names.map(|name| Column { place: 0, name });
    for column in &mut columns {
        let Some(place) = header.cells(layout.separator).position(|cell| cell == column.name)
        else {
            let (at, format) = (header.place(), layout.format);
            return Err(TraceError::NoColumn { at, column: column.name, format });
        };
        column.place = place;
        layout.needed = layout.needed.max(place + 1);
    }
    Ok(columns)
}

/// Samples in the order of time.
struct Samples {
    /// The column that has the time.
    time: Column,
    all: Vec<Sample>,
}

/// The machine whose rows count.
struct Wanted<'a> {
    machine: Option<&'a str>,
    /// The machine of the first row.
    first: Option<&'a str>,
}

// === impl Samples ===

impl Samples {
    const fn new(time: Column) -> Self {
        Self { time, all: Vec::new() }
    }

    fn add(&mut self, row: &Row<'_>, layout: &Layout, sample: Sample) -> Result<(), TraceError> {
        if let Some(last) = self.all.last()
            && sample.at_s <= last.at_s
        {
            return Err(TraceError::NotLater {
                at: row.place_of(self.time),
                value: shown(row.cell(layout, self.time)?),
                before: last.at_s.to_string(),
            });
        }
        self.all.push(sample);
        Ok(())
    }
}

// === impl Wanted ===

impl<'a> Wanted<'a> {
    const fn new(machine: Option<&'a str>) -> Self {
        Self { machine, first: None }
    }

    /// Whether rows of this machine count. Where none was named, the first one does.
    fn is(&mut self, machine: &'a str) -> bool {
        let first = *self.first.get_or_insert(machine);
        machine == self.machine.unwrap_or(first)
    }

    /// Refuses a machine of which there was no row.
    fn found(&self, file: &str, samples: &Samples) -> Result<(), TraceError> {
        match (self.machine, self.first) {
            (Some(wanted), Some(first)) if samples.all.is_empty() => {
                Err(TraceError::NoSuchMachine {
                    file: file.to_owned(),
                    wanted: wanted.to_owned(),
                    first: first.to_owned(),
                })
            }
            (Some(_) | None, _) => Ok(()),
        }
    }
}
