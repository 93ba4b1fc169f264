//! What a contest over placement came to, for people: a sentence, a table, and comparisons.

use std::io::Write;

use walras_sim::place::contest::{Comparison, Estimate, Ground, ORACLE, PlaceStanding, RIVALS};
use walras_sim::report::number::trimmed;

use super::super::table::columns;
use super::Outcome;
use crate::failure::Failure;
use crate::screen::Look;

const HEADINGS: [&str; 8] = [
    "rule",
    "p99 slowdown",
    "p99, waited for",
    "mean",
    "slow, %",
    "CPU used, %",
    "nodes used",
    "waiting, ppm",
];
/// What is aimed at.
const TARGET: f64 = 0.25;

/// Prints it all.
pub(super) fn print(
    output: &mut impl Write,
    outcomes: &[Outcome],
    look: Look,
) -> Result<(), Failure> {
    for (number, outcome) in outcomes.iter().enumerate() {
        if number > 0 {
            writeln!(output)?;
        }
        let name = look.heading(&format!("{}:", outcome.ground.recipe.name));
        writeln!(output, "{name} {}\n", introduction(&outcome.ground))?;
        let rows = outcome.standings.iter().map(row);
        columns(output, &HEADINGS, rows, &[1, 2, 3, 4, 5, 6, 7], look)?;
        for verdict in verdicts(&outcome.standings) {
            writeln!(output, "\n{verdict}")?;
        }
    }
    Ok(())
}

/// What was placed, in a few sentences.
pub(super) fn introduction(ground: &Ground) -> String {
    let recipe = ground.recipe;
    let sizes: Vec<String> = recipe.cores.iter().map(u32::to_string).collect();
    let counters = if recipe.has_counters { "with" } else { "without" };
    let trained = if recipe.for_training {
        " The models that are built in have learned from this town: this is no judgement of them."
    } else {
        ""
    };
    format!(
        "{}. {} nodes of {} cores {counters} hardware counters, {} hours, seeds {} to {}; pods \
         request {} % of what nodes have. Slowdowns are of every minute of every pod, with 95 % \
         intervals over seeds.{trained}",
        recipe.about,
        ground.nodes,
        sizes.join(" and "),
        ground.hours,
        ground.seed,
        ground.seed + ground.seeds as u64 - 1,
        trimmed(recipe.load * 100.0, 0),
    )
}

fn row(standing: &PlaceStanding) -> [String; 8] {
    let with = |estimate: Estimate, decimals: usize| {
        format!("{:.decimals$} ± {:.decimals$}", estimate.mean, estimate.half)
    };
    let percent = |estimate: Estimate| trimmed(estimate.mean * 100.0, 1);
    [
        standing.policy.to_owned(),
        with(standing.of(|it| it.p99), 2),
        with(standing.of(|it| it.p99_latency), 2),
        trimmed(standing.of(|it| it.mean).mean, 3),
        percent(standing.of(|it| it.slow)),
        percent(standing.of(|it| it.utilisation)),
        trimmed(standing.of(|it| it.nodes_used).mean, 1),
        trimmed(standing.of(|it| it.pending).mean * 1e6, 0),
    ]
}

/// How ours compare with the best of the others, a sentence each.
pub(super) fn verdicts(standings: &[PlaceStanding]) -> Vec<String> {
    let others = standings.iter().filter(|standing| !RIVALS.contains(&standing.policy));
    others
        .filter_map(|standing| {
            let found = standing.against_best(standings)?;
            Some(verdict(standing.policy, &found))
        })
        .collect()
}

fn verdict(policy: &str, found: &Comparison) -> String {
    let percent = |estimate: Estimate| {
        let word = if estimate.mean < 0.0 { "higher" } else { "lower" };
        let half = trimmed(estimate.half * 100.0, 1);
        format!("{} % {word} (± {half})", trimmed(estimate.mean.abs() * 100.0, 1))
    };
    let aim = match (policy == ORACLE, found.lower.mean >= TARGET) {
        (true, _) => "the yardstick",
        (false, true) => "the target of 25 % is met",
        (false, false) => "the target of 25 % is missed",
    };
    format!(
        "{policy} beside {}, the best of what people use: p99 slowdown {}; of what is above 1, {}; \
         {aim}.",
        found.rival,
        percent(found.lower),
        percent(found.excess_lower)
    )
}
