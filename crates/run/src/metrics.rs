//! The figures of workloads for `/metrics`, under the names that agents of this interface have.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use walras_core::run::{Actual, Kind};

use crate::machine::InUse;
use crate::manager::Tally;

const STATES: [Actual; 5] =
    [Actual::Pending, Actual::Running, Actual::Stopped, Actual::Failed, Actual::Unknown];
const KINDS: [Kind; 4] = [Kind::Container, Kind::Compose, Kind::Vm, Kind::Custom];

/// One look at everything.
#[derive(Debug)]
pub(crate) struct Scrape {
    pub(crate) workloads: Vec<(Kind, Actual)>,
    pub(crate) tally: Tally,
    pub(crate) queue: usize,
    /// Every runtime, and whether it answers.
    pub(crate) runtimes: Vec<(&'static str, bool)>,
    pub(crate) in_use: InUse,
    pub(crate) drained: bool,
    pub(crate) quarantined: usize,
}

/// As text, which ends with a line that says so.
pub(crate) fn written(scrape: Scrape) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.states(&mut encoder)?;
        for (name, help, value) in self.gauges() {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        for (name, help, value) in self.counters() {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        let (name, help) = ("persys_agent_runtime_health_status", "Whether a runtime answers");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (runtime, answers) in &self.runtimes {
            let value = u64::from(*answers);
            family.encode_family(&[("runtime", *runtime)])?.encode_gauge(&value)?;
        }
        let (name, help) = ("persys_agent_errors", "Operations that failed, by why");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (code, count) in &self.tally.faults {
            let labels = [("error_code", *code)];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        self.operations(&mut encoder)
    }
}

impl Scrape {
    /// How many workloads are in each state: of all kinds together, and of each.
    fn states(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let count = |fits: &dyn Fn(&(Kind, Actual)) -> bool| {
            let found = self.workloads.iter().filter(|it| fits(it)).count();
            u64::try_from(found).unwrap_or(u64::MAX)
        };
        let (name, help) = ("persys_workloads_total", "Workloads in each state");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for state in STATES {
            let found = count(&|(_, actual)| *actual == state);
            family.encode_family(&[("state", lower(state))])?.encode_gauge(&found)?;
        }
        let (name, help) = ("persys_agent_workload_count", "Workloads by state and type");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for kind in KINDS {
            for state in STATES {
                let found = count(&|it| *it == (kind, state));
                let labels = [("state", lower(state)), ("type", kind.name().to_owned())];
                family.encode_family(&labels)?.encode_gauge(&found)?;
            }
        }
        Ok(())
    }

    fn gauges(&self) -> [(&'static str, &'static str, f64); 6] {
        let InUse { memory, cpu, disk } = self.in_use;
        let flag = |set: bool| f64::from(u8::from(set));
        let small = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        [
            ("persys_agent_system_memory_utilization_percent", "Memory in use", memory),
            ("persys_agent_system_cpu_utilization_percent", "CPU in use since the last look", cpu),
            ("persys_agent_system_disk_utilization_percent", "The root disk in use", disk),
            ("persys_agent_task_queue_depth", "Workloads that wait for a worker", {
                small(self.queue)
            }),
            ("persys_agent_drained", "Whether the host is drained", flag(self.drained)),
            ("persys_agent_quarantined_records", "Records that could not be read", {
                small(self.quarantined)
            }),
        ]
    }

    fn counters(&self) -> [(&'static str, &'static str, u64); 4] {
        let failed: u64 = self.tally.operations.values().map(|(_, badly)| badly).sum();
        [
            ("persys_agent_workload_created", "Applies that changed something", self.tally.applied),
            ("persys_agent_workload_deleted", "Deletes that were asked for", self.tally.deleted),
            ("persys_agent_workload_failed", "Operations that failed", failed),
            ("persys_agent_workload_reconcile", "Looks at everything", self.tally.reconciled),
        ]
    }

    fn operations(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let families = [
            ("persys_agent_task_executions", "Operations that ended, by what they were"),
            ("persys_agent_task_failures", "Operations that failed, by what they were"),
        ];
        for (place, (name, help)) in families.into_iter().enumerate() {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (op, (well, badly)) in &self.tally.operations {
                let count = if place == 0 { well + badly } else { *badly };
                let labels = [("action_type", *op)];
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        Ok(())
    }
}

fn lower(state: Actual) -> String {
    state.name().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_names_that_agents_have() {
        let mut tally = Tally { applied: 3, ..Tally::default() };
        tally.operations.insert("start", (4, 1));
        tally.faults.insert("TIMEOUT", 1);
        let text = written(Scrape {
            workloads: vec![
                (Kind::Container, Actual::Running),
                (Kind::Container, Actual::Running),
                (Kind::Compose, Actual::Failed),
            ],
            tally,
            queue: 2,
            runtimes: vec![("docker", true), ("compose", false)],
            in_use: InUse::default(),
            drained: false,
            quarantined: 0,
        })
        .unwrap();
        for line in [
            "persys_workloads_total{state=\"running\"} 2",
            "persys_workloads_total{state=\"unknown\"} 0",
            "persys_agent_workload_count{state=\"failed\",type=\"compose\"} 1",
            "persys_agent_runtime_health_status{runtime=\"compose\"} 0",
            "persys_agent_workload_created_total 3",
            "persys_agent_task_executions_total{action_type=\"start\"} 5",
            "persys_agent_task_failures_total{action_type=\"start\"} 1",
            "persys_agent_errors_total{error_code=\"TIMEOUT\"} 1",
            "persys_agent_task_queue_depth 2.0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
