//! What the scheduler counts, as `/metrics` shows it; the predecessor's names beside ours.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use walras_core::place::breaker::BreakerState;
use walras_rpc::telemetry::Unwelcome;

use super::table::Counts;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Telemetry {
    telemetry: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decision {
    decision: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeName {
    node: String,
}

/// What became of a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    /// The pod is where it was recommended.
    Match,
    /// It is elsewhere.
    Differ,
    /// Several nodes were as good, so nothing can be told.
    Tie,
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) answers: Histogram,
    pub(crate) inference_ms: Histogram,
    pub(crate) snapshots: Counter,
    pub(crate) not_written: Counter,
    requests_refused: Family<Reason, Counter>,
    telemetry_refused: Family<Reason, Counter>,
    decisions: Family<Decision, Counter>,
    match_rate: Gauge<f64, AtomicU64>,
    breaker: Gauge,
    nodes: Family<Telemetry, Gauge>,
    oldest: Gauge<f64, AtomicU64>,
    estimates: Gauge,
    scores: Family<NodeName, Gauge<f64, AtomicU64>>,
    memory: Gauge,
}

/// What is looked up at the moment of a scrape.
#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) counts: Counts,
    pub(crate) estimates: usize,
    pub(crate) breaker: BreakerState,
    /// What each node scores for an ordinary pod.
    pub(crate) scores: Vec<(String, f64)>,
    /// What this process has in memory.
    pub(crate) resident: u64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let seconds = [5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.045, 0.1, 1.0];
        let ms = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 45.0];
        let mut metrics = Self {
            registry: Registry::default(),
            answers: Histogram::new(seconds),
            inference_ms: Histogram::new(ms),
            snapshots: Counter::default(),
            not_written: Counter::default(),
            requests_refused: Family::default(),
            telemetry_refused: Family::default(),
            decisions: Family::default(),
            match_rate: Gauge::default(),
            breaker: Gauge::default(),
            nodes: Family::default(),
            oldest: Gauge::default(),
            estimates: Gauge::default(),
            scores: Family::default(),
            memory: Gauge::default(),
        };
        metrics.register();
        // What never happened is told as 0, so that an alert can compare.
        for why in Unwelcome::ALL {
            drop(metrics.telemetry_refused.get_or_create(&Reason { reason: why.name() }));
        }
        metrics
    }

    /// Telemetry was refused.
    pub(crate) fn telemetry_refused(&self, why: Unwelcome) {
        self.telemetry_refused.get_or_create(&Reason { reason: why.name() }).inc();
    }

    /// A question was refused.
    pub(crate) fn request_refused(&self, reason: &'static str) {
        self.requests_refused.get_or_create(&Reason { reason }).inc();
    }

    /// A pod that nodes were scored for was bound.
    pub(crate) fn became(&self, became: Became) {
        let count = |decision| self.decisions.get_or_create(&Decision { decision }).clone();
        match became {
            Became::Match => count("match").inc(),
            Became::Differ => count("differ").inc(),
            Became::Tie => count("tie").inc(),
        };
        let (matched, differed) = (count("match").get(), count("differ").get());
        if matched + differed > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a share of a few millions")]
            self.match_rate.set(matched as f64 / (matched + differed) as f64);
        }
    }

    /// All figures, for Prometheus.
    pub(crate) fn text(&self, now: &Now) -> Result<String, fmt::Error> {
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (telemetry, count) in
            [("fresh", now.counts.fresh), ("stale", now.counts.stale), ("never", now.counts.never)]
        {
            self.nodes.get_or_create(&Telemetry { telemetry }).set(whole(count));
        }
        self.oldest.set(f64::from(u32::try_from(now.counts.oldest_ms).unwrap_or(u32::MAX)) / 1e3);
        self.estimates.set(whole(now.estimates));
        self.breaker.set(i64::from(now.breaker.number()));
        self.memory.set(i64::try_from(now.resident).unwrap_or(i64::MAX));
        self.scores.clear();
        for (node, score) in &now.scores {
            self.scores.get_or_create(&NodeName { node: node.clone() }).set(*score);
        }
        let mut told = String::new();
        text::encode(&mut told, &self.registry)?;
        Ok(told)
    }

    fn register(&mut self) {
        macro_rules! register {
            ($name:literal, $help:literal, $metric:expr) => {
                self.registry.register($name, $help, $metric.clone())
            };
        }
        register!(
            "walras_scheduler_prioritize_duration_seconds",
            "From a question of kube-scheduler to its answer",
            self.answers
        );
        register!(
            "kubeattention_brain_inference_latency_ms",
            "What scoring the candidates of one question takes",
            self.inference_ms
        );
        register!("walras_scheduler_snapshots", "Snapshots of nodes taken in", self.snapshots);
        register!(
            "walras_scheduler_telemetry_refused",
            "Telemetry that was refused, by reason",
            self.telemetry_refused
        );
        register!(
            "walras_scheduler_requests_refused",
            "Questions that could not be read, by reason",
            self.requests_refused
        );
        register!(
            "walras_scheduler_annotations_dropped",
            "Recommendations that were not written onto their pods, since too many waited",
            self.not_written
        );
        register!(
            "walras_scheduler_placements",
            "Pods that were bound after nodes were scored for them, by what became of it",
            self.decisions
        );
        register!(
            "kubeattention_shadow_match_rate",
            "Of the pods with one best node, the part that was put there",
            self.match_rate
        );
        register!(
            "kubeattention_circuit_breaker_state",
            "0 the model is asked, 1 it is left alone, 2 it is tried",
            self.breaker
        );
        register!("walras_scheduler_nodes", "Nodes, by how their telemetry stands", self.nodes);
        register!(
            "walras_scheduler_telemetry_age_max_seconds",
            "The age of the oldest telemetry",
            self.oldest
        );
        register!(
            "walras_scheduler_estimated_pods",
            "Pods that count by their requests, since telemetry does not show them yet",
            self.estimates
        );
        register!(
            "kubeattention_brain_node_score",
            "What each node scores for an ordinary pod",
            self.scores
        );
        register!("kubeattention_brain_memory_bytes", "Memory of this process", self.memory);
    }
}
