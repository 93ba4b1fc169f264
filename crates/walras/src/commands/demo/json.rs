//! The figures for programs. Names and order of the keys are a promise.

use std::io::Write;

use serde::Serialize;

use super::outcome::Phase;
use crate::failure::Failure;

/// What is printed.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub(super) simulated: bool,
    /// Why, where that was not asked for.
    pub(super) because: Option<&'a str>,
    pub(super) cores: f64,
    pub(super) seconds_per_phase: u32,
    pub(super) summary: &'a str,
    /// Where the page is.
    pub(super) report: &'a str,
    pub(super) phases: Vec<PhaseOut<'a>>,
}

/// One phase.
#[derive(Serialize)]
pub(super) struct PhaseOut<'a> {
    policy: &'a str,
    web_throttled_period_ratio: f64,
    web_latency_p50_ms: f64,
    web_latency_p95_ms: f64,
    web_latency_p99_ms: f64,
    web_requests: u64,
    web_unanswered: Option<u64>,
    batch_core_s: f64,
    greedy_share_ratio: f64,
    sleeper_first_second_ratio: Option<f64>,
    allocated_core_s: f64,
    used_core_s: f64,
    changes: u64,
    workloads: Vec<WorkloadOut<'a>>,
}

#[derive(Serialize)]
struct WorkloadOut<'a> {
    name: &'a str,
    allocated_core_s: f64,
    used_core_s: f64,
    periods: f64,
    throttled_periods: f64,
}

/// Prints the document.
pub(super) fn print(output: &mut impl Write, document: &Document<'_>) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *output, document)
        .map_err(|error| Failure::Output(error.into()))?;
    Ok(output.write_all(b"\n")?)
}

/// A phase as it is printed.
pub(super) fn phase(phase: &Phase) -> PhaseOut<'_> {
    let figures = phase.figures();
    PhaseOut {
        policy: phase.policy,
        web_throttled_period_ratio: figures.web_throttled_ratio,
        web_latency_p50_ms: figures.web_p50_ms,
        web_latency_p95_ms: figures.web_p95_ms,
        web_latency_p99_ms: figures.web_p99_ms,
        web_requests: phase.latencies.total(),
        web_unanswered: phase.unanswered,
        batch_core_s: figures.batch_core_s,
        greedy_share_ratio: figures.greedy_ratio,
        sleeper_first_second_ratio: figures.woken_ratio,
        allocated_core_s: figures.allocated_core_s,
        used_core_s: figures.used_core_s,
        changes: phase.changes,
        workloads: phase
            .pods
            .iter()
            .map(|pod| WorkloadOut {
                name: &pod.name,
                allocated_core_s: pod.limit_core_s,
                used_core_s: pod.used_core_s,
                periods: pod.periods,
                throttled_periods: pod.throttled_periods,
            })
            .collect(),
    }
}
