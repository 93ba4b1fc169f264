//! Recorded load from files: requests per second, or cores used, at even steps.
//!
//! Called by [`super::parse`] for the traces a scenario names, and by [`super::from_traces`].
//! Parsers take bytes and a name for messages, accept any bytes without panicking, and refuse what
//! they do not understand: no line is skipped and no value repaired. What may be left out is in
//! [`Format`]: rows of other machines than the one that is wanted are not looked at.
//!
//! Always: a trace has at least one level, its levels are finite and not negative, and its step is
//! longer than zero.

mod error;
mod even;
mod row;
mod table;

use std::fmt;
use std::sync::Arc;

pub use error::{Place, TraceError};
use row::{Column, Layout, Lines, Row};

/// A trace has at most so many lines.
pub const LINES_MAX: usize = 10_000_000;

/// The largest value of a cell. It is far beyond what any machine does.
const VALUE_MAX: f64 = 1e6;

/// How long a value of [`Format::Percent`] stays.
const PERCENT_STEP_S: f64 = 300.0;

/// A recorded series.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The levels.
    pub levels: Arc<[f64]>,
    /// How long each stays.
    pub step_s: f64,
    /// What they count.
    pub unit: Unit,
}

/// What the levels of a trace count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Requests per second.
    Requests,
    /// Cores in use.
    Cores,
}

/// How a trace is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Requests per second: one number a line, one line a second.
    Requests,
    /// CPU in percent: one number a line, one line every 300 s, as PlanetLab's traces have it.
    /// 100 is one core, unless [`Reading::machine_cores`] says otherwise.
    Percent,
    /// The GWA-T-12 files of Bitbrains: a header, `;` between the columns, and one row for every
    /// moment. A level is `CPU usage [%]` of `CPU cores`. `Timestamp [ms]` is in seconds, whatever
    /// the header says.
    Bitbrains,
    /// The `machine_usage.csv` of Alibaba's traces: `machine_id,time_stamp,cpu_util_percent,...`,
    /// in seconds and percent, usually without a header. 100 is one core, unless
    /// [`Reading::machine_cores`] says otherwise. The first machine counts unless one is named.
    Alibaba,
    /// CPU usage in the manner of Google's 2019 traces: a header with at least `start_time`,
    /// `end_time`, `machine_id` and `average_usage_cpus`, in microseconds and cores. Rows of one
    /// machine and the same time add up, since each is of one instance. The first machine counts
    /// unless one is named.
    Google,
}

/// How a trace is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading<'a> {
    /// The format; found out from the first line where it is not given.
    pub format: Option<Format>,
    /// The machine whose rows count, in the formats that have several.
    pub machine: Option<&'a str>,
    /// How many cores 100 percent is, in the formats that do not say; one where it is not given.
    pub machine_cores: Option<f64>,
}

/// Reads a trace. Without a format, it is found out: a header tells [`Format::Bitbrains`] and
/// [`Format::Google`], numbers in the second and third column tell [`Format::Alibaba`], and one is
/// [`Format::Requests`]. Nothing tells [`Format::Percent`], so it has to be given.
///
/// # Errors
/// Where the file is not what it should be, with the place of the first fault.
pub fn parse(bytes: &[u8], file: &str, how: &Reading<'_>) -> Result<Trace, TraceError> {
    let lines = Lines::new(bytes, file)?;
    let format = match how.format {
        Some(format) => format,
        None => detect(lines.clone(), file)?,
    };
    if let (Some(wanted), false) = (how.machine, format.has_machines()) {
        let (file, wanted) = (file.to_owned(), wanted.to_owned());
        return Err(TraceError::NoMachines { file, wanted, format });
    }
    if let (Some(cores), false) = (how.machine_cores, format.is_in_percent()) {
        let (file, cores) = (file.to_owned(), cores.to_string());
        return Err(TraceError::NotInPercent { file, cores, format });
    }
    let cores = how.machine_cores.unwrap_or(1.0);
    let (levels, step_s) = match format {
        Format::Requests => (one_a_line(lines, format, 1.0)?, 1.0),
        Format::Percent => (one_a_line(lines, format, cores / 100.0)?, PERCENT_STEP_S),
        Format::Bitbrains => table::bitbrains(lines, file)?,
        Format::Alibaba => table::alibaba(lines, file, how.machine, cores)?,
        Format::Google => table::google(lines, file, how.machine)?,
    };
    Ok(Trace { levels: Arc::from(levels), step_s, unit: format.unit() })
}

/// The path and the machine that a name of a trace stands for: `usage.csv#m_17` is the machine
/// `m_17` in `usage.csv`.
#[must_use]
pub fn split_name(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('#') {
        Some((path, machine)) if !path.is_empty() && !machine.is_empty() => (path, Some(machine)),
        Some(_) | None => (name, None),
    }
}

/// The format of a file, by its first line.
fn detect(mut lines: Lines<'_>, file: &str) -> Result<Format, TraceError> {
    let Some(first) = lines.next() else {
        return Err(TraceError::Empty { file: file.to_owned() });
    };
    let first = first?;
    let has = |separator, name| first.cells(separator).any(|cell| cell == name);
    if has(';', table::BITBRAINS_USAGE) {
        Ok(Format::Bitbrains)
    } else if has(',', table::GOOGLE_USAGE) {
        Ok(Format::Google)
    } else if is_alibaba(&first) {
        Ok(Format::Alibaba)
    } else if first.cells(',').count() == 1 && first.cells(';').count() == 1 {
        Ok(Format::Requests)
    } else {
        Err(unknown_format(&first))
    }
}

/// Whether a line begins a file of Alibaba's: by its name of a column, or by a number where the
/// time and the usage are. A heading of another file has neither.
fn is_alibaba(first: &Row<'_>) -> bool {
    let is_number = |cell: &str| cell.parse::<f64>().is_ok();
    let measured = || first.cells(',').skip(1).take(2);
    measured().count() == 2
        && measured().any(|cell| cell == table::ALIBABA_USAGE || is_number(cell))
}

fn unknown_format(first: &Row<'_>) -> TraceError {
    let known = Format::ALL.map(Format::name).join(", ");
    TraceError::UnknownFormat { at: first.place(), value: row::shown(first.text()), known }
}

/// One number a line, each times `scale`.
fn one_a_line(lines: Lines<'_>, format: Format, scale: f64) -> Result<Vec<f64>, TraceError> {
    // No line has this character, so a line is one cell.
    let layout = Layout { format, separator: '\n', needed: 1 };
    let column = Column { place: 0, name: format.name() };
    lines.map(|row| Ok(row?.number(&layout, column, VALUE_MAX)? * scale)).collect()
}

// === impl Trace ===

impl Trace {
    /// The mean level.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.levels.iter().sum::<f64>() / count(self.levels.len())
    }

    /// The highest level.
    #[must_use]
    pub fn peak(&self) -> f64 {
        self.levels.iter().copied().fold(0.0, f64::max)
    }

    /// The highest mean over `window_s` seconds; over a step or over the whole trace where the
    /// window is shorter than the one or longer than the other.
    #[must_use]
    pub fn peak_of_mean(&self, window_s: f64) -> f64 {
        let width = steps_within(window_s, self.step_s).clamp(1, self.levels.len());
        let (head, tail) = self.levels.split_at(width);
        let mut sum: f64 = head.iter().sum();
        let mut highest = sum;
        for (entering, leaving) in tail.iter().zip(&*self.levels) {
            sum += entering - leaving;
            highest = highest.max(sum);
        }
        highest / count(width)
    }

    /// How long it is.
    #[must_use]
    pub fn length_s(&self) -> f64 {
        self.step_s * count(self.levels.len())
    }
}

// === impl Unit ===

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests per second",
            Self::Cores => "cores",
        })
    }
}

// === impl Format ===

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] =
        [Self::Requests, Self::Percent, Self::Bitbrains, Self::Alibaba, Self::Google];

    /// The name a scenario calls it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Percent => "percent",
            Self::Bitbrains => "bitbrains",
            Self::Alibaba => "alibaba",
            Self::Google => "google",
        }
    }

    /// What its levels count.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Requests => Unit::Requests,
            Self::Percent | Self::Bitbrains | Self::Alibaba | Self::Google => Unit::Cores,
        }
    }

    /// Whether its values are percentages of a machine whose size the file does not tell.
    const fn is_in_percent(self) -> bool {
        match self {
            Self::Percent | Self::Alibaba => true,
            Self::Requests | Self::Bitbrains | Self::Google => false,
        }
    }

    /// Whether a file has rows of several machines.
    const fn has_machines(self) -> bool {
        match self {
            Self::Requests | Self::Percent | Self::Bitbrains => false,
            Self::Alibaba | Self::Google => true,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a trace is shorter than 2^53")]
fn count(levels: usize) -> f64 {
    levels as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
fn steps_within(window_s: f64, step_s: f64) -> usize {
    (window_s / step_s) as usize
}

#[cfg(test)]
mod tests {
    use walras_core::rng::Rng;

    use super::*;
    use crate::scenario::cases;

    const BITBRAINS: &str = "\
Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\t\
CPU usage [%];\tMemory
1000;\t4;\t8000.0;\t800.0;\t10.0;\t1
1300;\t4;\t8000.0;\t1600.0;\t20.0;\t1
1900;\t4;\t8000.0;\t2400.0;\t30.0;\t1
2200;\t2;\t4000.0;\t1200.0;\t30.0;\t1
";

    /// A trace as text; how it is to be read is in the words after the title's colon.
    fn told(title: &str, input: &str) -> String {
        let mut how = Reading::default();
        for word in title.split_once(':').map_or("", |(_, words)| words).split_whitespace() {
            match word.split_once('=').expect("words are key=value") {
                ("format", name) => {
                    how.format = Format::ALL.into_iter().find(|format| format.name() == name);
                }
                ("machine", machine) => how.machine = Some(machine),
                ("cores", cores) => how.machine_cores = cores.parse().ok(),
                (other, _) => panic!("{other} is no way to read a trace"),
            }
        }
        match parse(input.as_bytes(), "trace.csv", &how) {
            Ok(trace) => format!("{:?} every {} s, {}", trace.levels, trace.step_s, trace.unit),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn traces_are_read_or_refused_as_the_cases_say() {
        cases::check(include_str!("../../../testdata/traces.txt"), told);
    }

    #[test]
    fn a_file_of_tabs_is_read_as_bitbrains() {
        assert_eq!(told("", BITBRAINS), "[0.4, 0.8, 0.8, 1.2, 0.6] every 300 s, cores");
    }

    #[test]
    fn what_is_not_text_is_refused_with_its_place() {
        let error = parse(b"1\n2\xFF\n", "a.txt", &Reading::default()).expect_err("not text");
        assert_eq!(
            error.to_string(),
            "a.txt: line 2: is not UTF-8 text; byte 2 of the line is 0xff"
        );
    }

    #[test]
    fn windows_line_ends_and_a_byte_order_mark_are_accepted() {
        let read = parse(b"\xEF\xBB\xBF1\r\n2\r\n\r\n", "a.txt", &Reading::default());
        assert_eq!(read.expect("fine").levels.as_ref(), [1.0, 2.0]);
    }

    #[test]
    fn a_file_of_too_many_lines_is_refused() {
        let lines = |count: usize| "0\n".repeat(count);
        let read = |text: &str| parse(text.as_bytes(), "a.txt", &Reading::default());
        assert_eq!(read(&lines(LINES_MAX)).expect("just fits").levels.len(), LINES_MAX);
        let error = read(&lines(LINES_MAX + 1)).expect_err("one too many").to_string();
        assert_eq!(error, "a.txt: has more than 10000000 lines; cut it, or take out one machine");
    }

    #[test]
    fn the_peak_of_the_mean_is_that_of_the_best_window() {
        let trace =
            |levels: &[f64]| Trace { levels: Arc::from(levels), step_s: 1.0, unit: Unit::Cores };
        let spike = trace(&[1.0, 1.0, 9.0, 5.0, 1.0]);
        assert_eq!(
            [0.5, 1.0, 2.0, 3.0, 60.0].map(|window_s| spike.peak_of_mean(window_s)),
            [9.0, 9.0, 7.0, 5.0, 3.4]
        );
        assert_eq!((spike.peak(), spike.mean(), spike.length_s()), (9.0, 3.4, 5.0));
    }

    #[test]
    fn no_bytes_make_a_parser_panic() {
        let alibaba = "m_1,0,10,20,,,1,1,1\nm_2,0,5,5\nm_1,10,30,20,,,1,1,1\n";
        let google =
            "start_time,end_time,machine_id,average_usage_cpus\n0,300,7,0.5\n300,600,7,1\n";
        let samples = [
            ("1\n2.5\n300\n", Format::Requests),
            (BITBRAINS, Format::Bitbrains),
            (alibaba, Format::Alibaba),
            (google, Format::Google),
        ];
        let mut rng = Rng::from_seed(20);
        let mut refused = 0_u32;
        for round in 0..20_000_usize {
            let (text, own) = samples[round % samples.len()];
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=rng.below(4) {
                mutate(&mut bytes, &mut rng);
            }
            let format = match rng.below(4) {
                0 => None,
                1 => Format::ALL.get(round % 5).copied(),
                _ => Some(own),
            };
            let machine = (round % 7 == 0).then_some("m_2");
            let how = Reading { format, machine, machine_cores: None };
            match parse(&bytes, "mutant", &how) {
                Ok(trace) => {
                    assert!(!trace.levels.is_empty() && trace.step_s > 0.0, "{trace:?}");
                    assert!(trace.levels.iter().all(|level| (0.0..1e12).contains(level)));
                }
                Err(error) => {
                    assert!(error.to_string().starts_with("mutant: "), "{error}");
                    refused += 1;
                }
            }
        }
        assert!((1000..19_000).contains(&refused), "{refused}");
    }

    fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
        let mut place = || {
            let length = u64::try_from(bytes.len()).expect("small");
            usize::try_from(rng.below(length)).expect("small")
        };
        let (one, other) = (place(), place());
        match (bytes.get(one).copied(), rng.below(5)) {
            (None, _) => {}
            (Some(_), 0) => bytes.truncate(one),
            (Some(byte), 1) => bytes.insert(other, byte),
            (Some(_), 2) => {
                bytes.remove(one);
            }
            (Some(byte), 3) => bytes[other] = byte,
            (Some(_), _) => bytes[one] = rng.next_u64().to_le_bytes()[0],
        }
    }
}
