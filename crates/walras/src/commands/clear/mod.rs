//! `walras clear`: clears one market and tells who gets what, and why.

mod sentence;
mod table;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use walras_core::market::Clearing;
use walras_core::profile::Profile;
use walras_wire::market::{self, ClearOutput, Market};

use crate::cli::{FairnessChoice, ProfileChoice};
use crate::failure::Failure;
use crate::input::Source;
use crate::screen::{self, Look};

/// How to clear.
#[derive(Debug, Args)]
pub(crate) struct ClearArgs {
    /// The market as JSON; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// By whose rules: as a daemon with this profile would divide it
    #[arg(long, value_enum, default_value_t = ProfileChoice::Direct)]
    profile: ProfileChoice,
    /// How to share what is left above the rights when CPU is scarce, whatever the file says; where
    /// neither says anything, the profile's: nash, except in seed
    #[arg(long, value_enum)]
    fairness: Option<FairnessChoice>,
    /// Print JSON for programs, not a table for people
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of input and output, and read nothing
    #[arg(long)]
    schema: bool,
}

/// Reads a market, clears it, and prints the outcome.
pub(crate) fn run(args: &ClearArgs) -> Result<(), Failure> {
    let mut output = screen::output();
    if args.schema {
        writeln!(output, "{:#}", market::schema())?;
        return Ok(output.flush()?);
    }
    let source = Source::named(&args.file);
    let input = source.open("walras clear examples/market.json")?;
    let profile = Profile::named(args.profile.into());
    let mut market = market::read(input, &profile).map_err(|error| source.refused(&error))?;
    if let Some(fairness) = args.fairness {
        market.terms.fairness = fairness.into();
    }
    let clearing = market.clear();
    if args.json {
        print_json(&mut output, &market, &clearing)?;
    } else {
        print_text(&mut output, &market, &clearing, Look::of_stdout())?;
    }
    Ok(output.flush()?)
}

fn print_json(
    output: &mut impl Write,
    market: &Market,
    clearing: &Clearing,
) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *output, &ClearOutput::new(market, clearing))
        .map_err(|error| Failure::Output(error.into()))?;
    Ok(output.write_all(b"\n")?)
}

fn print_text(
    output: &mut impl Write,
    market: &Market,
    clearing: &Clearing,
    look: Look,
) -> Result<(), Failure> {
    writeln!(output, "{}", sentence::what_happened(market, clearing, look))?;
    if !market.workloads().is_empty() {
        writeln!(output)?;
        table::print(output, market, clearing, look)?;
        writeln!(output)?;
        writeln!(output, "{}", sentence::totals(market, clearing))?;
    }
    Ok(())
}
