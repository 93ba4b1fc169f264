//! What was answered, as metrics in Prometheus' text format.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use walras_brain::drift::Errors;
use walras_brain::verdict::{Basis, Verdict};

/// What was asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Score,
    Batch,
    Matrix,
}

/// Why an answer was neutral, in the order of the counters.
const NEUTRAL: [&str; 4] = ["no_model", "set_aside", "stale", "refused"];
/// The ends of the buckets of what an answer took, in microseconds.
const BUCKETS_US: [u64; 8] = [50, 100, 250, 500, 1_000, 2_500, 10_000, 50_000];

/// Counters.
#[derive(Debug, Default)]
pub(super) struct Counts {
    calls: [AtomicU64; 3],
    nodes: AtomicU64,
    neutral: [AtomicU64; 4],
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
    last_us: AtomicU64,
    swap_failures: AtomicU64,
}

/// How the model stands.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) model: String,
    pub(super) kind: &'static str,
    pub(super) aside: bool,
    pub(super) swaps: u64,
    pub(super) errors: Option<Errors>,
}

impl Counts {
    pub(super) fn answered(&self, call: Call, verdicts: &[Verdict], took: Duration) {
        add(&self.calls[call as usize], 1);
        add(&self.nodes, u64::try_from(verdicts.len()).unwrap_or(u64::MAX));
        for verdict in verdicts {
            let place = match verdict.basis {
                Basis::Model => continue,
                Basis::NoModel => 0,
                Basis::SetAside => 1,
                Basis::Stale { .. } => 2,
                Basis::Refused(_) => 3,
            };
            add(&self.neutral[place], 1);
        }
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&self.buckets[BUCKETS_US.partition_point(|end| *end < took_us)], 1);
        add(&self.sum_us, took_us);
        self.last_us.store(took_us, Ordering::Relaxed);
    }

    /// A model could not be taken over.
    pub(super) fn swap_failed(&self) {
        add(&self.swap_failures, 1);
    }

    /// What the last batch took.
    pub(super) fn last_ms(&self) -> i64 {
        i64::try_from(get(&self.last_us) / 1000).unwrap_or(i64::MAX)
    }

    pub(super) fn text(&self, standing: &Standing) -> String {
        let mut text = Text::default();
        let calls = ["score", "batch_score", "score_matrix"].into_iter().zip(&self.calls);
        text.family("walras_brain_requests", "counter", "Requests that were answered");
        for (call, count) in calls {
            text.line("walras_brain_requests", &format!("_total{{call=\"{call}\"}}"), get(count));
        }
        text.family("walras_brain_nodes_scored", "counter", "Nodes in those requests");
        text.line("walras_brain_nodes_scored", "_total", get(&self.nodes));
        text.family("walras_brain_nodes_neutral", "counter", "Nodes that got a neutral answer");
        for (why, count) in NEUTRAL.into_iter().zip(&self.neutral) {
            let labels = format!("_total{{because=\"{why}\"}}");
            text.line("walras_brain_nodes_neutral", &labels, get(count));
        }
        self.took(&mut text);
        text.family("walras_brain_swaps", "counter", "How often the model was changed");
        text.line("walras_brain_swaps", "_total", standing.swaps);
        text.family("walras_brain_swap_failures", "counter", "Models that could not be used");
        text.line("walras_brain_swap_failures", "_total", get(&self.swap_failures));
        text.family("walras_brain_model", "gauge", "The model in service");
        let name = standing.model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
        let labels = format!("{{name=\"{name}\",kind=\"{}\"}}", standing.kind);
        text.line("walras_brain_model", &labels, 1);
        text.family("walras_brain_set_aside", "gauge", "Whether the model did worse than none");
        text.line("walras_brain_set_aside", "", u64::from(standing.aside));
        if let Some(errors) = standing.errors {
            text.family("walras_brain_error_points", "gauge", "How far scores are off, lately");
            text.line("walras_brain_error_points", "", format!("{:.3}", errors.model));
            let name = "walras_brain_neutral_error_points";
            text.family(name, "gauge", "How far 50 for everybody would be off");
            text.line(name, "", format!("{:.3}", errors.neutral));
            text.family("walras_brain_outcomes", "gauge", "Outcomes that this rests on");
            text.line("walras_brain_outcomes", "", errors.outcomes);
        }
        text.0 + "# EOF\n"
    }

    fn took(&self, text: &mut Text) {
        let name = "walras_brain_answer_seconds";
        text.family(name, "histogram", "What scoring takes");
        let mut below = 0;
        for (end_us, count) in BUCKETS_US.iter().zip(&self.buckets) {
            below += get(count);
            let end = seconds(*end_us);
            text.line(name, &format!("_bucket{{le=\"{end}\"}}"), below);
        }
        below += get(&self.buckets[BUCKETS_US.len()]);
        text.line(name, "_bucket{le=\"+Inf\"}", below);
        text.line(name, "_sum", seconds(get(&self.sum_us)));
        text.line(name, "_count", below);
    }
}

/// Text of metrics.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n").ok();
    }

    fn line(&mut self, name: &str, rest: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{name}{rest} {value}").ok();
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn seconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_is_told() {
        let counts = Counts::default();
        let verdicts = [Verdict::NO_MODEL, Verdict::stale(11_000)];
        counts.answered(Call::Batch, &verdicts, Duration::from_micros(1_200));
        let standing = Standing {
            model: "a \"b\" (mlp)".to_owned(),
            kind: "mlp",
            aside: true,
            swaps: 3,
            errors: Some(Errors { model: 31.5, neutral: 30.0, outcomes: 40 }),
        };
        let text = counts.text(&standing);
        for line in [
            "walras_brain_requests_total{call=\"batch_score\"} 1",
            "walras_brain_nodes_scored_total 2",
            "walras_brain_nodes_neutral_total{because=\"stale\"} 1",
            "walras_brain_answer_seconds_bucket{le=\"0.001\"} 0",
            "walras_brain_answer_seconds_bucket{le=\"0.0025\"} 1",
            "walras_brain_answer_seconds_count 1",
            "walras_brain_model{name=\"a \\\"b\\\" (mlp)\",kind=\"mlp\"} 1",
            "walras_brain_set_aside 1",
            "walras_brain_error_points 31.500",
            "# EOF",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
        }
        assert_eq!(counts.last_ms(), 1);
    }
}
