//! What a contest came to, for programs. Names and order of the keys are a promise.

use std::io::Write;

use serde::Serialize;
use walras_sim::contest::Standing;
use walras_sim::measure::Figures;
use walras_sim::report::scores::{oracle_core_hours, vs_oracle};

use super::play::Outcome;
use crate::failure::Failure;

#[derive(Serialize)]
struct Document<'a> {
    scenarios: Vec<ScenarioOut<'a>>,
}

#[derive(Serialize)]
struct ScenarioOut<'a> {
    name: &'a str,
    seed: u64,
    policies: Vec<PolicyOut>,
}

#[derive(Serialize)]
struct PolicyOut {
    policy: &'static str,
    core_hours: f64,
    request_core_hours: f64,
    used_core_hours: f64,
    slack_ratio: f64,
    throttled_period_ratio: f64,
    latency_p50_ms: Option<f64>,
    latency_p95_ms: Option<f64>,
    latency_p99_ms: Option<f64>,
    slo_violation_minutes: f64,
    batch_completion_s: Option<f64>,
    resizes_per_pod_hour: f64,
    reaction_s: Option<f64>,
    jain_index: f64,
    vs_oracle: Option<f64>,
    /// Only there where a pod of the scenario says what memory it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_peak_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_mean_mib: Option<f64>,
}

/// Prints all outcomes as one document.
pub(super) fn print(output: &mut impl Write, outcomes: &[Outcome<'_>]) -> Result<(), Failure> {
    let scenario = |outcome: &'_ Outcome<'_>| {
        let oracle = oracle_core_hours(&outcome.standings);
        outcome.standings.iter().map(|standing| policy(standing, oracle)).collect()
    };
    let document = Document {
        scenarios: outcomes
            .iter()
            .map(|outcome| ScenarioOut {
                name: &outcome.scenario.name,
                seed: outcome.scenario.seed,
                policies: scenario(outcome),
            })
            .collect(),
    };
    serde_json::to_writer_pretty(&mut *output, &document)
        .map_err(|error| Failure::Output(error.into()))?;
    Ok(output.write_all(b"\n")?)
}

fn policy(standing: &Standing, oracle_core_hours: Option<f64>) -> PolicyOut {
    let figures: &Figures = &standing.figures;
    PolicyOut {
        policy: standing.policy,
        core_hours: figures.core_hours,
        request_core_hours: figures.request_core_hours,
        used_core_hours: figures.used_core_hours,
        slack_ratio: figures.slack_ratio,
        throttled_period_ratio: figures.throttled_period_ratio,
        latency_p50_ms: figures.latency_p50_ms,
        latency_p95_ms: figures.latency_p95_ms,
        latency_p99_ms: figures.latency_p99_ms,
        slo_violation_minutes: figures.slo_violation_minutes,
        batch_completion_s: figures.batch_completion_s,
        resizes_per_pod_hour: figures.resizes_per_pod_hour,
        reaction_s: figures.reaction_s,
        jain_index: figures.jain_index,
        vs_oracle: vs_oracle(figures, oracle_core_hours),
        memory_peak_mib: figures.memory_mib.map(|memory| memory.peak),
        memory_mean_mib: figures.memory_mib.map(|memory| memory.mean),
    }
}
