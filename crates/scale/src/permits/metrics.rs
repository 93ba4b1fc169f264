//! Metrics of permits, under the names of the predecessor, so that dashboards keep working.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Tally;
use super::dump::{Amount, Dump, NodeDump};

/// What [`text()`] writes.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All of it.
pub(super) fn text(dump: Dump, tally: Tally) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { dump, tally }));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape {
    dump: Dump,
    tally: Tally,
}

/// A field of a node's figures, and how to find it.
type Field = (&'static str, fn(&NodeDump) -> Amount);

const FIELDS: &[Field] = &[
    ("Total", |node| node.budget),
    ("Watermark", |node| node.watermark),
    ("Reserved", |node| node.held),
    ("Other", |node| node.others),
    ("LogicalPressure", |node| node.logical_pressure),
    ("CapacityPressure", |node| node.capacity_pressure),
    ("PressureAccountedFor", |node| node.accounted_for),
];

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.requests(&mut encoder)?;
        self.results(&mut encoder)?;
        let cpu = ("autoscaling_plugin_node_cpu_resources_current", "CPU of a node, in CPUs");
        self.nodes(&mut encoder, cpu, |amount| float(amount.cpu_milli) / 1000.0)?;
        let memory =
            ("autoscaling_plugin_node_mem_resources_current", "Memory of a node, in bytes");
        self.nodes(&mut encoder, memory, |amount| float(amount.memory_bytes))?;
        self.vms(&mut encoder)
    }
}

impl Scrape {
    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "autoscaling_plugin_resource_requests";
        let help = "Answers to agents, by status";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (status, count) in &self.tally.answers {
            let labels = [("code", status.to_string())];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(count, None)?;
        }
        Ok(())
    }

    fn results(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "autoscaling_plugin_resource_requests_results";
        let help = "Permits, by what came of the question";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        let Tally { whole, partial, moves, .. } = &self.tally;
        for (result, count) in [("whole", whole), ("partial", partial), ("migrate", moves)] {
            let labels = [("result", result)];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(count, None)?;
        }
        Ok(())
    }

    fn nodes(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        value: impl Fn(Amount) -> f64,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for node in &self.dump.nodes {
            for (field, find) in FIELDS {
                let labels = [("node", node.name.as_str()), ("field", *field)];
                family.encode_family(&labels)?.encode_gauge(&value(find(node)))?;
            }
        }
        Ok(())
    }

    fn vms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let vms = || self.dump.nodes.iter().flat_map(|node| &node.vms);
        let mut cpu = encoder.encode_descriptor(
            "autoscaling_vm_cpu_cores",
            "What a machine may use of CPUs",
            None,
            MetricType::Gauge,
        )?;
        for vm in vms() {
            let labels = [("vm", vm.name.as_str())];
            cpu.encode_family(&labels)?.encode_gauge(&(float(vm.held.cpu_milli) / 1000.0))?;
        }
        let mut memory = encoder.encode_descriptor(
            "autoscaling_vm_memory_bytes",
            "What a machine may use of memory",
            None,
            MetricType::Gauge,
        )?;
        for vm in vms() {
            let labels = [("vm", vm.name.as_str())];
            memory.encode_family(&labels)?.encode_gauge(&float(vm.held.memory_bytes))?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a floating point number")]
const fn float(value: u64) -> f64 {
    value as f64
}
