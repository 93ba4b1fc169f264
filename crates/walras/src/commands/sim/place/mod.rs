//! `walras sim place`: who slows down whom, under each rule that chooses nodes.
//!
//! `asked` finds out what is meant by what was typed, `text` and `json` print what came of it.

mod args;
mod asked;
mod json;
mod text;

use std::io::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use walras_brain::events;
use walras_sim::place::contest::{Ground, PlaceStanding, compete};
use walras_sim::place::teach;
use walras_sim::report;

pub(crate) use self::args::PlaceArgs;
use self::asked::Asked;
use super::asked::threads_of;
use crate::failure::Failure;
use crate::page::Target;
use crate::screen::{self, Look};

const BAR: &str = "{bar:32} {pos} of {len} runs, {eta} left";

/// A town, and what became of it under each rule.
struct Outcome {
    ground: Ground,
    standings: Vec<PlaceStanding>,
}

/// Places, and tells who was slowed down.
pub(super) fn run(args: &PlaceArgs) -> Result<(), Failure> {
    if let Some(path) = &args.events {
        let target = Target::new(path)?;
        let events = teach::events(&teach::SHIPPED, threads_of(args.threads));
        target.write(&events::written(&events))?;
        let mut output = screen::output();
        writeln!(output, "{}: {} events", path.display(), events.len())?;
        return Ok(output.flush()?);
    }
    let asked = Asked::of(args)?;
    let target = args.report.as_deref().map(Target::new).transpose()?;
    let outcomes = compare(&asked);
    if let Some(target) = &target {
        let chapters: Vec<report::Placement<'_>> = outcomes.iter().map(chapter).collect();
        target.write(&report::placement(&chapters))?;
    }
    let mut output = screen::output();
    if args.json {
        json::print(&mut output, &outcomes)?;
    } else {
        text::print(&mut output, &outcomes, Look::of_stdout())?;
    }
    Ok(output.flush()?)
}

fn compare(asked: &Asked) -> Vec<Outcome> {
    let runs: usize = asked.grounds.iter().map(|ground| ground.seeds * asked.placers.len()).sum();
    // Draws nothing where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(BAR);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let run_done = || bar.inc(1);
    let outcome = |ground: &Ground| Outcome {
        ground: *ground,
        standings: compete(&asked.placers, ground, asked.threads, &run_done),
    };
    let outcomes = asked.grounds.iter().map(outcome).collect();
    bar.finish_and_clear();
    outcomes
}

fn chapter(outcome: &Outcome) -> report::Placement<'_> {
    report::Placement {
        town: outcome.ground.recipe.name,
        introduction: text::introduction(&outcome.ground),
        standings: &outcome.standings,
        verdicts: text::verdicts(&outcome.standings),
    }
}
