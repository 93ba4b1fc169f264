//! What a contest over placement came to, for programs. Names and order of the keys are a promise.

use std::io::Write;

use serde::Serialize;
use walras_sim::place::contest::{Comparison, Estimate, PlaceStanding, RIVALS};
use walras_sim::place::tally::PlaceFigures;

use super::Outcome;
use crate::failure::Failure;

#[derive(Serialize)]
struct Document {
    towns: Vec<TownOut>,
}

#[derive(Serialize)]
struct TownOut {
    town: &'static str,
    for_training: bool,
    has_counters: bool,
    nodes: usize,
    hours: usize,
    first_seed: u64,
    seeds: usize,
    rules: Vec<RuleOut>,
    comparisons: Vec<ComparisonOut>,
}

#[derive(Serialize)]
struct RuleOut {
    rule: &'static str,
    p99_slowdown: EstimateOut,
    p99_slowdown_waited_for: EstimateOut,
    mean_slowdown: EstimateOut,
    slow_ratio: EstimateOut,
    cpu_used_ratio: EstimateOut,
    nodes_used: EstimateOut,
    waiting_ratio: EstimateOut,
    p99_slowdown_by_seed: Vec<f64>,
}

#[derive(Serialize)]
struct ComparisonOut {
    rule: &'static str,
    best_rival: &'static str,
    p99_lower_ratio: EstimateOut,
    p99_above_one_lower_ratio: EstimateOut,
}

#[derive(Serialize)]
struct EstimateOut {
    mean: f64,
    interval: [f64; 2],
}

/// Prints it all as one document.
pub(super) fn print(output: &mut impl Write, outcomes: &[Outcome]) -> Result<(), Failure> {
    let document = Document { towns: outcomes.iter().map(town).collect() };
    serde_json::to_writer_pretty(&mut *output, &document)
        .map_err(|error| Failure::Output(error.into()))?;
    Ok(output.write_all(b"\n")?)
}

fn town(outcome: &Outcome) -> TownOut {
    let ground = &outcome.ground;
    let all = &outcome.standings;
    let ours = all.iter().filter(|standing| !RIVALS.contains(&standing.policy));
    let compared = ours.filter_map(|one| Some(comparison(one.policy, &one.against_best(all)?)));
    TownOut {
        town: ground.recipe.name,
        for_training: ground.recipe.for_training,
        has_counters: ground.recipe.has_counters,
        nodes: ground.nodes,
        hours: ground.hours,
        first_seed: ground.seed,
        seeds: ground.seeds,
        rules: all.iter().map(rule).collect(),
        comparisons: compared.collect(),
    }
}

fn rule(standing: &PlaceStanding) -> RuleOut {
    let of = |figure: fn(&PlaceFigures) -> f64| estimate(standing.of(figure));
    RuleOut {
        rule: standing.policy,
        p99_slowdown: of(|it| it.p99),
        p99_slowdown_waited_for: of(|it| it.p99_latency),
        mean_slowdown: of(|it| it.mean),
        slow_ratio: of(|it| it.slow),
        cpu_used_ratio: of(|it| it.utilisation),
        nodes_used: of(|it| it.nodes_used),
        waiting_ratio: of(|it| it.pending),
        p99_slowdown_by_seed: standing.runs.iter().map(|it| it.p99).collect(),
    }
}

fn comparison(rule: &'static str, found: &Comparison) -> ComparisonOut {
    ComparisonOut {
        rule,
        best_rival: found.rival,
        p99_lower_ratio: estimate(found.lower),
        p99_above_one_lower_ratio: estimate(found.excess_lower),
    }
}

fn estimate(found: Estimate) -> EstimateOut {
    let Estimate { mean, half } = found;
    EstimateOut { mean, interval: [mean - half, mean + half] }
}
