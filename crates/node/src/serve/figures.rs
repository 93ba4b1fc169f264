//! The node's figures among the metrics, under the names that `walras telemetry` prints them by.
//!
//! A figure that was not measured has no sample; that it was not, and why, is a sample of its own.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use walras_wire::telemetry::NodeTelemetry;

/// Writes all of them.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    told: &NodeTelemetry,
) -> Result<(), fmt::Error> {
    let node = told.node.as_str();
    for figure in &told.figures {
        let Some(value) = figure.value else { continue };
        let mut family =
            encoder.encode_descriptor(&figure.metric, &figure.about, None, MetricType::Gauge)?;
        family.encode_family(&[("node", node)])?.encode_gauge(&value)?;
    }
    let help = "Whether a figure was measured, its source, and why if not";
    let mut family =
        encoder.encode_descriptor("walras_node_figure_measured", help, None, MetricType::Gauge)?;
    for figure in &told.figures {
        let labels = [
            ("node", node),
            ("figure", &figure.name),
            ("source", &figure.source),
            ("why", figure.unavailable.as_deref().unwrap_or_default()),
        ];
        let measured = i64::from(figure.value.is_some());
        family.encode_family(&labels)?.encode_gauge(&measured)?;
    }
    let help = "Packets that the kernel threw away in a second";
    let name = "walras_node_packets_dropped_by_reason";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for drops in &told.drops {
        let labels = [("node", node), ("reason", drops.reason.as_str())];
        family.encode_family(&labels)?.encode_gauge(&drops.per_second)?;
    }
    let help = "How old these figures are; above 10 they tell nothing about now";
    let name = "walras_node_telemetry_age_seconds";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    family.encode_family(&[("node", node)])?.encode_gauge(&seconds(told.age_ms))
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}
