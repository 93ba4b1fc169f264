//! What the controller counts, as `/metrics` shows it.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use walras_core::units::Span;

use super::collect::Counts;
use super::store::Figures;

/// What [`Metrics::text`] writes.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) reconciles: Histogram,
    pub(crate) patch_errors: Counter,
    pub(crate) resizes: Counter,
    pub(crate) events_left_out: Counter,
    verified: Counter,
    resize_seconds: Histogram,
    refusals: Family<Reason, Counter>,
    infeasible: Gauge,
    deferred: Gauge,
    deferred_age: Gauge<f64, AtomicU64>,
    leader: Gauge,
    queue_depth: Gauge,
    allocations: Gauge,
    pods: Gauge,
    problems: Gauge,
    collected: Family<Kind, Gauge>,
    collect_open: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let reconcile_buckets = [1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0];
        let resize_buckets = [0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0];
        let mut metrics = Self {
            registry: Registry::default(),
            reconciles: Histogram::new(reconcile_buckets),
            patch_errors: Counter::default(),
            resizes: Counter::default(),
            events_left_out: Counter::default(),
            verified: Counter::default(),
            resize_seconds: Histogram::new(resize_buckets),
            refusals: Family::default(),
            infeasible: Gauge::default(),
            deferred: Gauge::default(),
            deferred_age: Gauge::default(),
            leader: Gauge::default(),
            queue_depth: Gauge::default(),
            allocations: Gauge::default(),
            pods: Gauge::default(),
            problems: Gauge::default(),
            collected: Family::default(),
            collect_open: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    /// How many resizes were seen in force.
    pub(crate) fn verified_count(&self) -> u64 {
        self.verified.get()
    }

    fn register(&mut self) {
        macro_rules! register {
            ($name:literal, $help:literal, $metric:expr) => {
                self.registry.register($name, $help, $metric.clone())
            };
        }
        register!(
            "mbcas_controller_reconcile_duration_seconds",
            "How long one look at an allocation takes",
            self.reconciles
        );
        register!(
            "mbcas_controller_pod_patch_errors",
            "Resizes that the API server did not take",
            self.patch_errors
        );
        register!(
            "mbcas_controller_resize_verified",
            "Resizes that were seen to be in force",
            self.verified
        );
        register!("walras_controller_resizes", "Resizes that were asked for", self.resizes);
        register!("walras_controller_events_left_out", "Events not made", self.events_left_out);
        register!(
            "walras_controller_resize_duration_seconds",
            "From the patch until the resize is seen to be in force",
            self.resize_seconds
        );
        register!(
            "walras_controller_refusals",
            "Allocations that were not obeyed, by reason",
            self.refusals
        );
        register!(
            "walras_controller_infeasible",
            "Pods whose node has refused a request for good",
            self.infeasible
        );
        register!(
            "walras_controller_deferred",
            "Pods whose node has no room for their resize now",
            self.deferred
        );
        register!(
            "walras_controller_deferred_age_seconds",
            "For how long the longest of them has waited",
            self.deferred_age
        );
        register!("walras_controller_leader", "Whether this controller acts", self.leader);
        register!(
            "walras_controller_queue_depth",
            "Allocations that wait to be looked at, now or later",
            self.queue_depth
        );
        register!("walras_controller_allocations", "Allocations known", self.allocations);
        register!("walras_controller_pods", "Pods known", self.pods);
        register!(
            "walras_controller_settings_refused",
            "Settings that are not used because they make no sense",
            self.problems
        );
        register!(
            "walras_collector_lines",
            "Placements and events written down, those that could not be, and pods passed over",
            self.collected
        );
        register!("walras_collector_open", "Pods whose outcome is waited for", self.collect_open);
    }

    /// What was collected.
    pub(crate) fn collected(&self, counts: Counts) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for (kind, number) in [
            ("opened", counts.opened),
            ("settled", counts.settled),
            ("failed", counts.failures),
            ("passed_over", counts.passed_over),
        ] {
            self.collected.get_or_create(&Kind { kind }).set(whole(number));
        }
        self.collect_open.set(i64::try_from(counts.open).unwrap_or(i64::MAX));
    }

    /// A resize was seen to be in force, so long after it was asked for.
    pub(crate) fn verified(&self, after: Span) {
        self.verified.inc();
        self.resize_seconds.observe(seconds(after));
    }

    /// An allocation is not obeyed.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Reason { reason }).inc();
    }

    /// All of it, as text. How single allocations stand is told by the controller that acts, so
    /// that nothing is counted twice.
    pub(crate) fn text(
        &self,
        figures: Figures,
        waiting: usize,
        acts: bool,
    ) -> Result<String, fmt::Error> {
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let told = if acts { figures } else { Figures::default() };
        self.infeasible.set(whole(told.infeasible));
        self.deferred.set(whole(told.deferred));
        self.deferred_age.set(seconds(told.deferred_age_max));
        self.leader.set(i64::from(acts));
        self.queue_depth.set(whole(waiting));
        self.allocations.set(whole(figures.allocations));
        self.pods.set(whole(figures.pods));
        self.problems.set(whole(figures.problems));
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

/// For figures only.
#[expect(clippy::cast_precision_loss, reason = "a display value; exact up to 2^53 microseconds")]
fn seconds(span: Span) -> f64 {
    span.as_us() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_act_any_more_does_not_tell_how_allocations_stand() {
        let metrics = Metrics::new();
        let figures = Figures {
            allocations: 7,
            infeasible: 2,
            deferred: 3,
            deferred_age_max: Span::from_s(60),
            ..Figures::default()
        };
        let told = |acts: bool| metrics.text(figures, 0, acts).unwrap();
        let has = |text: &str, line: &str| text.lines().any(|one| one == line);
        let (acting, standing_by) = (told(true), told(false));
        for (name, acts, stands_by) in [
            ("leader", "1", "0"),
            ("infeasible", "2", "0"),
            ("deferred", "3", "0"),
            ("deferred_age_seconds", "60.0", "0.0"),
            ("allocations", "7", "7"),
        ] {
            assert!(has(&acting, &format!("walras_controller_{name} {acts}")), "{acting}");
            let line = format!("walras_controller_{name} {stands_by}");
            assert!(has(&standing_by, &line), "{standing_by}");
        }
    }
}
