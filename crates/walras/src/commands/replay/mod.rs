//! `walras replay`: gives a node's history to a market and tells what it decides, tick by tick.
//!
//! One line is held at a time. What was decided before a bad line is printed before the failure
//! is told.

mod chosen;
mod ledger;
mod text;

use std::io::{BufReader, Read, Write};
use std::path::PathBuf;

use clap::Args;
use walras_core::units::Moment;
use walras_wire::json::Lines;
use walras_wire::replay::{self, Fact, Replay, TickLine, Ticked};

use self::chosen::Chosen;
use self::ledger::Ledger;
use crate::failure::Failure;
use crate::input::Source;
use crate::screen::{self, Look};

/// How to replay.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The facts as JSON lines; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    pub(crate) file: Option<PathBuf>,
    /// Print one JSON line per tick for programs, not text for people
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only ticks that change something
    #[arg(long)]
    pub(crate) changes: bool,
    /// Print only what is decided and noticed about this pod, by its uid
    #[arg(long, value_name = "UID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) pod: Option<String>,
    /// Print nothing before this time, in seconds, as in the first column
    #[arg(long, value_name = "SECONDS", value_parser = moment)]
    pub(crate) from: Option<Moment>,
    /// Print nothing after this time, in seconds, as in the first column
    #[arg(long, value_name = "SECONDS", value_parser = moment)]
    pub(crate) to: Option<Moment>,
    /// Print the JSON Schema of input and output lines, and read nothing
    #[arg(long)]
    pub(crate) schema: bool,
}

/// Where what was decided goes.
enum Printer {
    /// JSON lines, for programs.
    Json,
    /// Text, for people, who want to know what was before as well.
    Text { look: Look, ledger: Box<Ledger> },
}

/// Replays facts, and prints what each tick decides.
pub(crate) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let mut output = screen::output();
    let file = match &args.file {
        Some(file) if !args.schema => file,
        Some(_) | None => {
            writeln!(output, "{:#}", replay::schema())?;
            return Ok(output.flush()?);
        }
    };
    let source = Source::named(file);
    let input = source.open("walras replay examples/incident.jsonl")?;
    let mut printer = if args.json {
        Printer::Json
    } else {
        Printer::Text { look: Look::of_stdout(), ledger: Box::default() }
    };
    let chosen = Chosen::of(args);
    let outcome = replay_all(&source, input, &chosen, &mut printer, &mut output);
    let flushed = output.flush();
    // Bad input is told even where the output is not read any more.
    outcome?;
    Ok(flushed?)
}

fn replay_all(
    source: &Source,
    input: impl Read,
    chosen: &Chosen,
    printer: &mut Printer,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let mut lines = Lines::new(BufReader::with_capacity(64 << 10, input));
    let mut replay = Replay::new();
    while let Some((number, line)) = lines.next_line().map_err(|error| source.refused(&error))? {
        let (fact, ticked) = replay::parse_line(line, number)
            .and_then(|fact| replay.take_in(number, &fact).map(|ticked| (fact, ticked)))
            .map_err(|error| source.refused(&error))?;
        printer.fact(&fact);
        if let Some(ticked) = ticked {
            printer.tick(output, &ticked, chosen)?;
            // The writer of the facts may be waiting for each answer.
            if *source == Source::Standard {
                output.flush()?;
            }
        }
    }
    replay.end().map_err(|error| source.refused(&error))?;
    printer.end(output)
}

/// A time of a replay. Later than any recording is refused, so that milliseconds are exact.
fn moment(text: &str) -> Result<Moment, String> {
    const LATEST_S: f64 = 1e10;
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=LATEST_S).contains(seconds));
    let seconds = seconds.ok_or_else(|| format!("must be a number from 0 to {LATEST_S}"))?;
    #[expect(clippy::cast_possible_truncation, reason = "it is at most 1e13")]
    #[expect(clippy::cast_sign_loss, reason = "it is not negative")]
    let ms = (seconds * 1000.0).round() as u64;
    Ok(Moment::from_ms(ms))
}

// === impl Printer ===

impl Printer {
    fn fact(&mut self, fact: &Fact) {
        match self {
            Self::Json => {}
            Self::Text { ledger, .. } => ledger.fact(fact),
        }
    }

    /// Takes note of a tick, and prints what was chosen of it.
    fn tick(
        &mut self,
        output: &mut impl Write,
        ticked: &Ticked,
        chosen: &Chosen,
    ) -> Result<(), Failure> {
        match self {
            Self::Json => {
                if let Some(ticked) = chosen.part(ticked) {
                    serde_json::to_writer(&mut *output, &TickLine::new(&ticked))
                        .map_err(|error| Failure::Output(error.into()))?;
                    output.write_all(b"\n")?;
                }
            }
            Self::Text { look, ledger } => {
                let changes = ledger.tick(ticked);
                if let Some(part) = chosen.part(ticked) {
                    let changes = chosen.changes(ticked, changes);
                    output.write_all(text::tick(&part, &changes, *look).as_bytes())?;
                }
            }
        }
        Ok(())
    }

    fn end(&self, output: &mut impl Write) -> Result<(), Failure> {
        match self {
            Self::Json => Ok(()),
            Self::Text { ledger, .. } => {
                Ok(writeln!(output, "{}", text::summary(&ledger.totals()))?)
            }
        }
    }
}
