//! `walras sim`: runs scenarios in the simulator and tells how each policy did.
//!
//! `asked` finds out what is meant by what was typed, `play` runs it, `table` and `json` print
//! what came of it. `pack` counts nodes, `place` chooses them, `tune` searches constants, and
//! `list` lists.

mod asked;
mod json;
mod list;
pub(crate) mod pack;
pub(crate) mod place;
mod play;
mod table;
mod tune;

use std::io::Write;

use walras_sim::report::{self, Chapter, words};

pub(super) use self::asked::threads_of;

use self::asked::Asked;
use self::play::{Outcome, Stage};
use crate::cli::{SimArgs, SimCommand, SimRunArgs};
use crate::failure::Failure;
use crate::page::Target;
use crate::screen::{self, Look};

/// Simulates, searches constants, or lists what can be simulated.
pub(crate) fn run(args: SimArgs) -> Result<(), Failure> {
    match args.command {
        SimCommand::Run(args) if args.pack => pack::run(&args),
        SimCommand::Run(args) => simulate(&args),
        SimCommand::Place(args) => place::run(&args),
        SimCommand::Tune(args) => tune::run(&args),
        SimCommand::List(args) => list::run(&args),
    }
}

fn simulate(args: &SimRunArgs) -> Result<(), Failure> {
    let asked = Asked::of(args)?;
    // A run may take minutes; what would keep its report from being written is told before.
    let target = args.report.as_deref().map(Target::new).transpose()?;
    if let Some(note) = &asked.note {
        // There is no one to tell if this cannot be written.
        writeln!(anstream::stderr().lock(), "{note}").ok();
    }
    let stage = Stage::new(&asked, target.is_some());
    let look = Look::of_stdout();
    let mut outcomes = Vec::with_capacity(asked.scenarios.len());
    for scenario in &asked.scenarios {
        let outcome = stage.play(scenario);
        if !args.json {
            stage.aside(|| print_text(&outcome, outcomes.is_empty(), look))?;
        }
        outcomes.push(outcome);
    }
    stage.end();
    if let Some(target) = &target {
        target.write(&report::html(&chapters(&outcomes)))?;
    }
    if args.json {
        let mut output = screen::output();
        json::print(&mut output, &outcomes)?;
        output.flush()?;
    }
    Ok(())
}

/// One scenario for people: a sentence, the table, and how the market did.
fn print_text(outcome: &Outcome<'_>, first: bool, look: Look) -> Result<(), Failure> {
    let mut output = screen::output();
    if !first {
        writeln!(output)?;
    }
    let name = look.heading(&format!("{}:", outcome.scenario.name));
    writeln!(output, "{name} {}\n", words::introduction(outcome.scenario))?;
    table::print(&mut output, &report::scores::scores(&outcome.standings), look)?;
    if let Some(comparison) = words::comparison(&outcome.standings) {
        writeln!(output, "\n{comparison}")?;
    }
    Ok(output.flush()?)
}

fn chapters<'a>(outcomes: &'a [Outcome<'a>]) -> Vec<Chapter<'a>> {
    let chapter = |outcome: &'a Outcome<'a>| Chapter {
        scenario: outcome.scenario,
        standings: &outcome.standings,
        recordings: &outcome.recordings,
    };
    outcomes.iter().map(chapter).collect()
}
