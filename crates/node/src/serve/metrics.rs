//! `/metrics` in the OpenMetrics text format: our own figures, and the same under the names of the
//! predecessor (`mbcas_`) and of the allocator document (`apex_`), so that dashboards keep working.
//!
//! A workload's `namespace` is its own on Kubernetes, and on a plain host where it comes from.
//! Where two workloads have one name, the label has their uids, since two series must never have
//! the same labels.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use walras_core::market::Mode;
use walras_core::units::Millicores;
use walras_core::units::Span;
use walras_wire::state::{NodeState, WorkloadState};
use walras_wire::telemetry::NodeTelemetry;

use super::figures;
use crate::board::{BUCKETS_US, Duration, Tally, WorkloadKind};

/// What [`text()`] writes.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const MODES: [Mode; 3] = [Mode::Uncongested, Mode::Congested, Mode::Overloaded];

/// Everything that can be measured.
pub(super) fn text(
    state: NodeState,
    tally: Tally,
    telemetry: Option<NodeTelemetry>,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { state, tally, telemetry }));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

/// One look at the node.
#[derive(Debug)]
struct Scrape {
    state: NodeState,
    tally: Tally,
    telemetry: Option<NodeTelemetry>,
}

/// A figure of a workload: its name, what it means, and how to find it.
type WorkloadGauge = (&'static str, &'static str, fn(&WorkloadState) -> Option<f64>);

const POD_GAUGES: &[WorkloadGauge] = &[
    ("walras_pod_usage_millicores", "CPU in use", |workload| float(workload.usage_milli?)),
    ("walras_pod_need_millicores", "CPU needed", |workload| float(workload.need_milli?)),
    ("walras_pod_grant_millicores", "CPU granted by the market", |workload| {
        float(workload.grant_milli?)
    }),
    ("walras_pod_request_millicores", "The guarantee", |workload| float(workload.request_milli)),
    ("walras_pod_limit_millicores", "The cap, of pods that have one", |workload| {
        float(workload.limit_milli)
            .filter(|_| !Millicores::new(workload.limit_milli).is_unlimited())
    }),
    ("walras_pod_lent_millicores", "What it has a right to and does not need", |workload| {
        float(workload.lent_milli)
    }),
    ("walras_pod_contained", "Whether it is held because it takes all it can get", |workload| {
        flag(workload.contained_for.is_some())
    }),
    ("walras_pod_min_millicores", "The least it is granted", |workload| float(workload.min_milli)),
    ("walras_pod_max_millicores", "The most it is granted", |workload| float(workload.max_milli)),
    ("walras_pod_weight", "What its claim counts for", |workload| Some(workload.weight)),
    (
        "walras_pod_throttled_period_ratio",
        "Throttled periods over all periods, lately",
        |workload| workload.throttled_period_ratio,
    ),
    ("walras_pod_hot", "Whether every fast tick looks at it", |workload| flag(workload.hot)),
    ("walras_pod_latency_missed", "Whether it misses its latency target", |workload| {
        flag(workload.latency_missed)
    }),
    ("mbcas_need_milli", "CPU needed", |workload| float(workload.need_milli?)),
    ("mbcas_allocation_milli", "CPU granted by the market", |workload| {
        float(workload.grant_milli?)
    }),
    ("mbcas_throttling_ratio", "Throttled time over used time, lately", |workload| {
        workload.throttle_ratio
    }),
    ("apex_need_milli", "CPU needed", |workload| float(workload.need_milli?)),
    ("apex_allocation_milli", "CPU granted by the market", |workload| float(workload.grant_milli?)),
    (
        "apex_nash_reduction_ratio",
        "How much of what it bid for above its min was cut",
        |workload| workload.reduction_ratio,
    ),
    ("apex_headroom_utilization", "Usage over grant", |workload| {
        let grant = float(workload.grant_milli?).filter(|grant| *grant > 0.0)?;
        Some(float(workload.usage_milli?)? / grant)
    }),
];

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self { state, tally, telemetry } = self;
        if let Some(told) = telemetry {
            figures::encode(&mut encoder, told)?;
        }
        for &(name, help, value) in &node_gauges(state) {
            gauge(&mut encoder, name, help, value)?;
        }
        for &(name, help, value) in &counters(state, tally) {
            counter(&mut encoder, name, help, value)?;
        }
        modes(&mut encoder, state, tally)?;
        for (name, help, duration) in durations(tally) {
            histogram(&mut encoder, name, help, duration)?;
        }
        let names = names(&state.workloads);
        for (name, help, figure) in POD_GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (workload, name) in state.workloads.iter().zip(&names) {
                if let Some(value) = figure(workload) {
                    family.encode_family(&labels(workload, name))?.encode_gauge(&value)?;
                }
            }
        }
        Ok(())
    }
}

fn node_gauges(state: &NodeState) -> Vec<(&'static str, &'static str, f64)> {
    let milli = |amount: u64| float(amount).unwrap_or_default();
    let workloads = u64::try_from(state.workloads.len()).unwrap_or(u64::MAX);
    let granted: u64 = state.workloads.iter().filter_map(|workload| workload.grant_milli).sum();
    let measured = [
        ("walras_idle_millicores", "CPU of the machine that is idle", state.idle_milli),
        (
            "walras_unmanaged_millicores",
            "What others use that are not sized",
            state.unmanaged_milli,
        ),
    ];
    let measured =
        measured.into_iter().filter_map(|(name, help, it)| Some((name, help, milli(it?))));
    let mut gauges = vec![
        ("walras_up_seconds", "How long the daemon has been running", milli(state.uptime_s)),
        ("walras_acting", "Whether it changes anything", f64::from(u8::from(state.acting))),
        ("walras_pods", "Pods under the market", milli(workloads)),
        ("walras_problems", "Things a person should know", {
            milli(u64::try_from(state.problems.len()).unwrap_or(u64::MAX))
        }),
        ("walras_capacity_millicores", "CPU to divide", milli(state.capacity_milli)),
        (
            "walras_limit_budget_millicores",
            "What all limits together may reach",
            milli(state.limit_budget_milli),
        ),
        ("walras_usage_millicores", "All usages together", milli(state.usage_milli)),
        ("walras_need_millicores", "All needs together", milli(state.need_milli)),
        ("walras_request_millicores", "All requests together", milli(state.request_milli)),
        ("walras_limit_millicores", "All limits together", milli(state.limit_milli)),
        ("walras_idle_guard_millicores", "Below this idle CPU is scarce", milli(state.guard_milli)),
        ("walras_lent_millicores", "Rights that are not needed", milli(state.lent_milli)),
        ("walras_price", "The published price", state.price),
        ("walras_multiplier", "The solver's own price", state.multiplier),
        ("mbcas_managed_pods", "Pods under the market", milli(workloads)),
        ("mbcas_nash_shadow_price", "The published price", state.price),
        ("mbcas_shadow_price_cpu", "The published price", state.price),
        (
            "mbcas_nash_iterations",
            "Passes of the solver at a clearing: always one, since it is exact",
            1.0,
        ),
        ("mbcas_total_need_milli", "All needs together", milli(state.need_milli)),
        ("mbcas_total_allocation_milli", "All grants together", milli(granted)),
        ("mbcas_total_capacity_milli", "CPU to divide", milli(state.capacity_milli)),
    ];
    gauges.extend(measured);
    gauges
}

fn counters(state: &NodeState, tally: &Tally) -> [(&'static str, &'static str, u64); 10] {
    [
        ("walras_fast_ticks", "Ticks of the fast loop", state.fast_ticks),
        ("walras_slow_ticks", "Clearings", state.slow_ticks),
        ("walras_changes", "Changes that took effect", tally.changes),
        ("walras_changes_asked", "Changes that were asked for", tally.asked),
        ("walras_changes_only_watched", "Changes not made, only told", tally.only_watched),
        ("walras_change_failures", "Changes that failed", tally.failures),
        (
            "walras_direct_write_failures",
            "Changes that could not be written at once, and were asked for instead",
            tally.asked_instead,
        ),
        ("mbcas_agent_cgroup_read_errors", "Samples that could not be read", tally.read_errors),
        ("mbcas_controller_pod_patch_errors", "Changes that failed", tally.failures),
        ("mbcas_controller_resize_verified", "Changes that took effect", tally.changes),
    ]
}

fn durations(tally: &Tally) -> [(&'static str, &'static str, &Duration); 6] {
    let Tally { sampling, clearing, reacting, acting, .. } = tally;
    [
        ("walras_sampling_seconds", "Reading the counters that are due", sampling),
        ("walras_slow_tick_seconds", "Deciding at a clearing", clearing),
        ("walras_fast_tick_seconds", "Deciding in the fast loop", reacting),
        ("walras_acting_seconds", "Carrying out what a tick decided", acting),
        ("mbcas_agent_allocation_duration_seconds", "Deciding at a clearing", clearing),
        ("mbcas_controller_reconcile_duration_seconds", "Carrying out what a tick decided", acting),
    ]
}

/// The mode, in all the ways it was ever told.
fn modes(
    encoder: &mut DescriptorEncoder<'_>,
    state: &NodeState,
    tally: &Tally,
) -> Result<(), fmt::Error> {
    let is = |mode: Mode| flag(state.mode == mode.name()).unwrap_or_default();
    for name in ["walras_mode", "mbcas_nash_mode"] {
        let help = "How the market stands: 1 for the mode it is in";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for mode in MODES {
            family.encode_family(&[("mode", mode.name())])?.encode_gauge(&is(mode))?;
        }
    }
    let help = "How the market stands: 1 for the mode it is in";
    let mut family =
        encoder.encode_descriptor("apex_allocation_mode", help, None, MetricType::Gauge)?;
    for mode in MODES {
        let labels = [("node", state.host.as_str()), ("mode", mode.name())];
        family.encode_family(&labels)?.encode_gauge(&is(mode))?;
    }
    let help = "Clearings that ended in each mode";
    let mut family =
        encoder.encode_descriptor("walras_clearings", help, None, MetricType::Counter)?;
    for (mode, count) in MODES.into_iter().zip(tally.modes) {
        let labels = [("mode", mode.name())];
        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> Result<(), fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    duration: &Duration,
) -> Result<(), fmt::Error> {
    let bounds = BUCKETS_US.iter().map(|us| seconds(Span::from_us(*us))).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(duration.buckets).collect();
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(seconds(duration.sum), duration.count, &buckets, None)
}

/// What a workload is found by. A workload of Kubernetes is called `NAMESPACE/WORKLOAD` everywhere
/// else.
fn labels<'a>(workload: &'a WorkloadState, name: &'a str) -> [(&'static str, &'a str); 2] {
    let of_kubernetes =
        || name.split_once('/').filter(|_| workload.kind == WorkloadKind::Kubernetes.name());
    let (namespace, name) = of_kubernetes().unwrap_or((&workload.kind, name));
    [("pod", name), ("namespace", namespace)]
}

/// What each workload is called: by name, or by uid where a name is not its alone.
fn names(workloads: &[WorkloadState]) -> Vec<&str> {
    let mut times: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for workload in workloads {
        *times.entry((&workload.kind, &workload.name)).or_default() += 1;
    }
    let alone =
        |workload: &WorkloadState| times[&(workload.kind.as_str(), workload.name.as_str())] == 1;
    workloads
        .iter()
        .map(|workload| if alone(workload) { workload.name.as_str() } else { &workload.uid })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "figures of a node are far below 2^53")]
#[expect(clippy::unnecessary_wraps, reason = "what is used with it is optional")]
fn float(amount: u64) -> Option<f64> {
    Some(amount as f64)
}

#[expect(clippy::unnecessary_wraps, reason = "what is used with it is optional")]
fn flag(set: bool) -> Option<f64> {
    Some(f64::from(u8::from(set)))
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn seconds(span: Span) -> f64 {
    span.as_us() as f64 / 1e6
}
