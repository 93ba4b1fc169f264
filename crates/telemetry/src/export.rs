//! A snapshot as metrics in Prometheus' text format, for whoever serves them.
//!
//! A figure that was not measured has no sample; that it was not, and why, is a sample of its own.
//! Names are `walras_node_` and the metric's name, and are described in `docs/metrics.md`.

use std::fmt::Write as _;

use crate::metric::{METRICS, Metric};
use crate::snapshot::Snapshot;

const MEASURED: &str = "walras_node_figure_measured";
const AGE: &str = "walras_node_telemetry_age_seconds";
const DROPS: &str = "walras_node_packets_dropped_by_reason";

/// The served names, in the order of [`Metric::ALL`].
const NAMES: [&str; METRICS] = [
    "walras_node_cpu_utilization",
    "walras_node_cpu_throttle_rate",
    "walras_node_memory_utilization",
    "walras_node_memory_bandwidth_gbps",
    "walras_node_l3_cache_miss_rate",
    "walras_node_l3_cache_occupancy_mb",
    "walras_node_disk_io_wait_ms",
    "walras_node_disk_iops",
    "walras_node_network_rx_packets_sec",
    "walras_node_network_tx_packets_sec",
    "walras_node_network_drop_rate",
    "walras_node_node_cost_index",
    "walras_node_is_spot_instance",
    "walras_node_spot_interruption_risk",
    "walras_node_zone_diversity_score",
    "walras_node_run_queue_latency_us",
    "walras_node_run_queue_latency_p99_us",
    "walras_node_block_latency_us",
    "walras_node_block_latency_p99_us",
    "walras_node_context_switches_sec",
    "walras_node_cpu_pressure",
    "walras_node_memory_pressure",
    "walras_node_io_pressure",
    "walras_node_packets_dropped_sec",
];

/// What a figure is served as.
#[must_use]
pub fn served_as(metric: Metric) -> &'static str {
    NAMES.get(metric.place()).copied().unwrap_or(MEASURED)
}

/// The metrics of a snapshot at `now_unix_ms`.
#[must_use]
pub fn prometheus(snapshot: &Snapshot, now_unix_ms: u64) -> String {
    let mut text = String::new();
    let node = escaped(&snapshot.node);
    for (metric, name) in Metric::ALL.into_iter().zip(NAMES) {
        if let Some(value) = snapshot.value(metric) {
            heading(&mut text, name, metric.about());
            put(&mut text, format_args!("{name}{{node=\"{node}\"}} {value}"));
        }
    }
    heading(&mut text, MEASURED, "Whether a figure was measured, its source, and why if not.");
    for metric in Metric::ALL {
        let figure = snapshot.figure(metric);
        let why = figure.reading.why_not().map(|why| escaped(&why.to_string()));
        let (measured, why) = (u8::from(why.is_none()), why.unwrap_or_default());
        let source = figure.source;
        put(
            &mut text,
            format_args!(
                "{MEASURED}{{node=\"{node}\",figure=\"{metric}\",source=\"{source}\",\
                 why=\"{why}\"}} {measured}"
            ),
        );
    }
    if !snapshot.drops.is_empty() {
        heading(&mut text, DROPS, "Packets that the kernel threw away in a second.");
    }
    for drops in &snapshot.drops {
        let (reason, value) = (escaped(&drops.reason), drops.per_second);
        put(&mut text, format_args!("{DROPS}{{node=\"{node}\",reason=\"{reason}\"}} {value}"));
    }
    heading(&mut text, AGE, "How old these figures are; above 10 they tell nothing about now.");
    let age = snapshot.age(now_unix_ms).span().as_us() / 1000;
    put(&mut text, format_args!("{AGE}{{node=\"{node}\"}} {}.{:03}", age / 1000, age % 1000));
    text
}

fn heading(text: &mut String, name: &str, about: &str) {
    put(text, format_args!("# HELP {name} {about}"));
    put(text, format_args!("# TYPE {name} gauge"));
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a text cannot fail.
    writeln!(text, "{line}").ok();
}

/// The value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::samples;
    use crate::reading::{Reading, Unavailable};
    use crate::snapshot::{Drops, Source};

    #[test]
    fn names_are_those_of_the_metrics() {
        for (metric, name) in Metric::ALL.into_iter().zip(NAMES) {
            assert_eq!(name, format!("walras_node_{metric}"));
        }
    }

    #[test]
    fn what_was_measured_has_a_sample_and_what_was_not_says_why() {
        let why = Unavailable::NoHardware { what: "cache counters of the CPU" };
        let mut snapshot = Snapshot::empty("a\"b\\", 1_000, Source::Perf, why);
        snapshot.set(Metric::CpuUtilization, Reading::Measured(0.25), Source::ProcStat);
        let reason = "no_socket".to_owned();
        snapshot.drops = vec![Drops { reason, per_second: 2.5 }];
        let text = prometheus(&snapshot, 3_500);
        let (found, wrong) = samples(&text);
        assert_eq!(wrong, 0, "{text}");
        let named = |name: &str| found.iter().filter(|it| it.name == name).collect::<Vec<_>>();
        let [cpu] = named("walras_node_cpu_utilization")[..] else { panic!("{text}") };
        assert_eq!((cpu.value, cpu.label("node")), (0.25, Some("a\"b\\")));
        assert_eq!(named("walras_node_l3_cache_miss_rate").len(), 0);
        let measured = named(MEASURED);
        assert_eq!(measured.len(), METRICS);
        let missing = measured.iter().find(|it| it.label("figure") == Some("l3_cache_miss_rate"));
        let missing = missing.unwrap();
        assert_eq!(missing.value, 0.0);
        let words = "this hardware shows no cache counters of the CPU";
        assert_eq!(missing.label("why"), Some(words));
        assert_eq!(named(AGE)[0].value, 2.5);
        assert_eq!(named(DROPS)[0].label("reason"), Some("no_socket"));
    }
}
