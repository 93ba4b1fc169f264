//! `walras replay`: gives a node's history to a market and tells what it decides, tick by tick.
//!
//! One line is held at a time. What was decided before a bad line is printed before the failure
//! is told.

mod ledger;
mod text;

use std::io::{BufReader, Read, Write};

use walras_wire::json::Lines;
use walras_wire::replay::{self, Fact, Replay, TickLine, Ticked};

use self::ledger::Ledger;
use crate::cli::ReplayArgs;
use crate::failure::Failure;
use crate::input::Source;
use crate::screen::{self, Look};

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
    let outcome = replay_all(&source, input, &mut printer, &mut output);
    let flushed = output.flush();
    // Bad input is told even where nobody is left to read the output.
    outcome?;
    Ok(flushed?)
}

fn replay_all(
    source: &Source,
    input: impl Read,
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
            printer.tick(output, &ticked)?;
            // Whoever pipes facts in may be waiting for each answer.
            if *source == Source::Standard {
                output.flush()?;
            }
        }
    }
    replay.end().map_err(|error| source.refused(&error))?;
    printer.end(output)
}

// === impl Printer ===

impl Printer {
    fn fact(&mut self, fact: &Fact) {
        match self {
            Self::Json => {}
            Self::Text { ledger, .. } => ledger.fact(fact),
        }
    }

    fn tick(&mut self, output: &mut impl Write, ticked: &Ticked) -> Result<(), Failure> {
        match self {
            Self::Json => {
                serde_json::to_writer(&mut *output, &TickLine::new(ticked))
                    .map_err(|error| Failure::Output(error.into()))?;
                output.write_all(b"\n")?;
            }
            Self::Text { look, ledger } => {
                let changes = ledger.tick(ticked);
                output.write_all(text::tick(ticked, &changes, *look).as_bytes())?;
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
