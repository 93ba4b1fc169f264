//! `walras sim tune`: searches the market's constants on some scenarios and judges what it found by
//! others, beside rivals.
//!
//! `asked` finds out what is meant by what was typed; `text` and `json` print what came of it.

mod asked;
mod json;
mod text;

use std::io::Write;
use std::num::NonZeroUsize;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use walras_core::profile::Profile;
use walras_sim::contest::{Contestant, Standing};
use walras_sim::measure::Figures;
use walras_sim::scenario::Scenario;
use walras_sim::target::with_targets;
use walras_sim::tune::{Change, Search, Trial, cost, judge};

use self::asked::Asked;
use super::play::Stage;
use crate::cli::SimTuneArgs;
use crate::failure::Failure;
use crate::screen::{self, Look};

/// Who is shown beside the market: those that set limits and miss the fewest targets.
const RIVALS: [&str; 2] = ["koordinator", "autothrottle"];
const BAR: &str = "{bar:32} {pos} of {len} sets of constants, {eta} left  {msg}";

/// What a search came to.
#[derive(Debug)]
struct Found {
    /// The constants that differ now, by name.
    changes: Vec<Change>,
    /// How many sets of constants were tried.
    evaluations: u32,
    train: Judged,
    test: Judged,
}

/// What the constants do on some scenarios, before the search and after it.
#[derive(Debug)]
struct Judged {
    cost_before: f64,
    cost_after: f64,
    scenarios: Vec<OnScenario>,
}

#[derive(Debug)]
struct OnScenario {
    name: String,
    seed: u64,
    before: Figures,
    after: Figures,
    /// None where the scenario was searched on.
    rivals: Vec<Standing>,
}

/// Searches, judges, and tells.
pub(super) fn run(args: &SimTuneArgs) -> Result<(), Failure> {
    let asked = Asked::of(args)?;
    let found = find(&asked);
    let mut output = screen::output();
    if args.json {
        json::print(&mut output, &asked, &found)?;
    } else {
        text::print(&mut output, &asked, &found, Look::of_stdout())?;
    }
    Ok(output.flush()?)
}

fn find(asked: &Asked) -> Found {
    let bar = ProgressBar::with_draw_target(
        Some(u64::from(asked.evaluations)),
        // Draws nothing where standard error is no terminal.
        ProgressDrawTarget::stderr(),
    );
    let style = ProgressStyle::with_template(BAR);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message("the present constants");
    let start = Profile::named(asked.profile);
    let mut search = Search::new(start.clone(), &asked.training, asked.threads);
    bar.set_message(format!("{:.2} core-hours so far", search.start_cost()));
    search.run(asked.evaluations, asked.seed, &mut |trial: &Trial| {
        bar.inc(1);
        if trial.kept {
            let Trial { key, value, cost, .. } = trial;
            bar.set_message(format!("{cost:.2} core-hours so far, by {key} = {value}"));
        }
    });
    bar.finish_and_clear();
    let judged = |scenarios: &[Scenario], rivals| {
        judged(scenarios, (&start, search.best()), rivals, asked.threads)
    };
    Found {
        train: judged(&asked.training, asked.training.iter().map(|_| Vec::new()).collect()),
        test: judged(&asked.tests, rivals(asked)),
        evaluations: search.tried(),
        changes: search.changes(),
    }
}

fn judged(
    scenarios: &[Scenario],
    (start, best): (&Profile, &Profile),
    rivals: Vec<Vec<Standing>>,
    threads: NonZeroUsize,
) -> Judged {
    let settled: Vec<Scenario> =
        scenarios.iter().map(|scenario| with_targets(scenario, threads)).collect();
    let [before, after] = [start, best].map(|profile| judge(profile, &settled, threads));
    Judged {
        cost_before: cost(start, &before),
        cost_after: cost(best, &after),
        scenarios: scenarios
            .iter()
            .zip(before.into_iter().zip(after).zip(rivals))
            .map(|(scenario, ((before, after), rivals))| OnScenario {
                name: scenario.name.clone(),
                seed: scenario.seed,
                before,
                after,
                rivals,
            })
            .collect(),
    }
}

/// How the rivals do on each scenario for judging.
fn rivals(asked: &Asked) -> Vec<Vec<Standing>> {
    let contest = super::asked::Asked {
        scenarios: asked.tests.clone(),
        contestants: RIVALS.iter().filter_map(|name| Contestant::named(name)).collect(),
        threads: asked.threads,
        note: None,
    };
    let stage = Stage::new(&contest, false);
    let standings =
        contest.scenarios.iter().map(|scenario| stage.play(scenario).standings).collect();
    stage.end();
    standings
}
