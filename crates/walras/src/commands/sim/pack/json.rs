//! What a contest over nodes came to, for programs. Names and order of the keys are a promise.

use std::io::Write;

use serde::Serialize;
use walras_sim::pack::contest::PackStanding;
use walras_sim::pack::frontier::{Comparison, LEVEL};
use walras_sim::pack::tally::PackFigures;

use super::Outcome;
use crate::failure::Failure;

#[derive(Serialize)]
struct Document<'a> {
    town: &'a str,
    seed: u64,
    days: u32,
    node_cores: u32,
    workloads: usize,
    pods: usize,
    policies: Vec<PolicyOut>,
    comparisons: Vec<ComparisonOut>,
}

#[derive(Serialize)]
struct PolicyOut {
    policy: &'static str,
    default_percent: u32,
    settings: Vec<PointOut>,
}

#[derive(Serialize)]
struct PointOut {
    percent: u32,
    nodes: f64,
    nodes_most: f64,
    broken_ratio: f64,
    broken_worst_ratio: f64,
    missed_ratio: f64,
    missed_worst_ratio: f64,
    risers_broken_ratio: f64,
    slack_ratio: f64,
    changes_per_pod_hour: f64,
    moves_per_pod_hour: f64,
    batch_core_hours: f64,
    bound_nodes: f64,
}

#[derive(Serialize)]
struct ComparisonOut {
    policy: &'static str,
    rival: &'static str,
    fewer_than_default_ratio: Option<f64>,
    fewer_than_best_ratio: Option<f64>,
    at_broken_ratio: f64,
}

/// Prints it all as one document.
pub(super) fn print(output: &mut impl Write, outcome: &Outcome<'_>) -> Result<(), Failure> {
    let standings = &outcome.standings;
    let pairs = standings.iter().flat_map(|one| standings.iter().map(move |other| (one, other)));
    let compared = pairs.filter(|(one, other)| one.policy != other.policy);
    let document = Document {
        town: &outcome.town.name,
        seed: outcome.asked.size.seed,
        days: outcome.asked.days,
        node_cores: outcome.asked.recipe.node_cores,
        workloads: outcome.town.workloads.len(),
        pods: outcome.town.pods.len(),
        policies: standings.iter().map(policy).collect(),
        comparisons: compared.map(|(one, other)| comparison(&one.against(other))).collect(),
    };
    serde_json::to_writer_pretty(&mut *output, &document)
        .map_err(|error| Failure::Output(error.into()))?;
    Ok(output.write_all(b"\n")?)
}

fn policy(standing: &PackStanding) -> PolicyOut {
    let point = |(percent, it): &(u32, PackFigures)| PointOut {
        percent: *percent,
        nodes: it.nodes,
        nodes_most: it.nodes_most,
        broken_ratio: it.broken,
        broken_worst_ratio: it.broken_worst,
        missed_ratio: it.missed,
        missed_worst_ratio: it.missed_worst,
        risers_broken_ratio: it.risers_broken,
        slack_ratio: it.slack,
        changes_per_pod_hour: it.changes_per_pod_hour,
        moves_per_pod_hour: it.moves_per_pod_hour,
        batch_core_hours: it.batch_core_hours,
        bound_nodes: it.bound_nodes,
    };
    PolicyOut {
        policy: standing.policy,
        default_percent: standing.usual,
        settings: standing.points.iter().map(point).collect(),
    }
}

fn comparison(found: &Comparison) -> ComparisonOut {
    ComparisonOut {
        policy: found.policy,
        rival: found.rival,
        fewer_than_default_ratio: found.fewer_than_default,
        fewer_than_best_ratio: found.fewer_than_best,
        at_broken_ratio: LEVEL,
    }
}
