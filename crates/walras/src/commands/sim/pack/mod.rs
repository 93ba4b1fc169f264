//! `walras sim run --pack`: how many nodes are needed under each policy, and at what price.
//!
//! `asked` finds out what is meant by what was typed, `text` and `json` print what came of it.

mod asked;
mod json;
mod text;

use std::io::Write;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use walras_sim::pack::contest::{Entrant, PackStanding, compete};
use walras_sim::pack::schedule::Score;
use walras_sim::pack::workload::{DAY, Town};
use walras_sim::report::{self, Frontier};

use self::asked::Asked;
use crate::cli::SimRunArgs;
use crate::failure::Failure;
use crate::page::Target;
use crate::screen::{self, Look};

/// Which of the nodes with room a scheduler prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScoreChoice {
    /// The fullest, so that others become empty
    Most,
    /// The emptiest, as Kubernetes does unless it is told otherwise
    Least,
}

const BAR: &str = "{bar:32} {pos} of {len} days, {eta} left";

/// What was packed, and what became of it.
struct Outcome<'a> {
    asked: &'a Asked,
    town: &'a Town,
    standings: Vec<PackStanding>,
}

/// Packs, and tells how many nodes it took.
pub(super) fn run(args: &SimRunArgs) -> Result<(), Failure> {
    let asked = Asked::of(args)?;
    let target = args.report.as_deref().map(Target::new).transpose()?;
    let town = asked.recipe.build(&asked.size, &asked.traces);
    let runs: usize = asked.entrants.iter().map(|entrant| Entrant::runs(entrant)).sum();
    let days = (runs * town.windows / DAY) as u64;
    // Draws nothing where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(Some(days), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(BAR);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let day_done = || bar.inc(1);
    let standings = compete(&asked.entrants, &town, asked.score, asked.threads, &day_done);
    bar.finish_and_clear();
    let outcome = Outcome { asked: &asked, town: &town, standings };
    if let Some(target) = &target {
        target.write(&report::frontier(&Frontier {
            introduction: &format!("{}: {}", town.name, text::introduction(&outcome)),
            standings: &outcome.standings,
            verdicts: &text::verdicts(&outcome.standings),
        }))?;
    }
    let mut output = screen::output();
    if args.json {
        json::print(&mut output, &outcome)?;
    } else {
        text::print(&mut output, &outcome, Look::of_stdout())?;
    }
    Ok(output.flush()?)
}

impl From<ScoreChoice> for Score {
    fn from(choice: ScoreChoice) -> Self {
        match choice {
            ScoreChoice::Most => Self::Most,
            ScoreChoice::Least => Self::Least,
        }
    }
}
