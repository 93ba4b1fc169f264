//! How the agents of a process stand, for people: GET `/` on port 10300 is JSON, `/metrics` is what
//! Prometheus reads, under the predecessor's names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde::Serialize;
use walras_core::units::VmName;
use walras_core::vm::VmBounds;

use crate::http::{Asked, Handler, Told};
use crate::permits::dump::Amount;

use super::{Event, Running, Shown, Tally, lock};

/// The agents of a process.
#[derive(Debug, Default)]
pub struct Agents(Mutex<BTreeMap<VmName, Running>>);

/// Agents as they are shown.
#[derive(Debug)]
pub struct AgentsShown(pub Arc<Agents>);

#[derive(Debug, Serialize)]
struct AgentDump {
    vm: String,
    using: Option<Amount>,
    permit: Option<Amount>,
    goal: Option<Amount>,
    why: Option<String>,
    agreed: Option<Amount>,
    moving: bool,
    notes: Vec<String>,
}

impl Agents {
    /// An agent was started. One of the same machine stops.
    pub fn add(&self, vm: VmName, agent: Running) {
        drop(lock(&self.0).insert(vm, agent));
    }

    /// The agent of a machine stops.
    pub fn remove(&self, vm: &VmName) {
        drop(lock(&self.0).remove(vm));
    }

    /// Other bounds hold for a machine.
    pub async fn bounds_changed(&self, vm: &VmName, bounds: VmBounds) {
        let events = lock(&self.0).get(vm).map(Running::events);
        if let Some(events) = events {
            // An agent that has ended meanwhile sizes nothing.
            drop(events.send(Event::Bounds(bounds)).await);
        }
    }

    /// How the agent of a machine stands.
    #[must_use]
    pub fn shown(&self, vm: &VmName) -> Option<Shown> {
        lock(&self.0).get(vm).map(Running::shown)
    }

    /// How all stand.
    #[must_use]
    pub fn all(&self) -> Vec<(VmName, Shown)> {
        lock(&self.0).iter().map(|(vm, agent)| (vm.clone(), agent.shown())).collect()
    }
}

impl Handler for AgentsShown {
    fn answer(&self, asked: &Asked) -> Told {
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/") => {
                let all: Vec<AgentDump> = self.0.all().into_iter().map(AgentDump::of).collect();
                Told::json(serde_json::to_vec_pretty(&all).unwrap_or_default())
            }
            ("GET", "/metrics") => match metrics(self.0.all()) {
                Ok(text) => {
                    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                    Told { kind, ..Told::json(text.into_bytes()) }
                }
                Err(error) => Told::words(500, &error.to_string()),
            },
            ("GET", _) => Told::words(404, "the state is at /, metrics are at /metrics"),
            _ => Told::words(405, "nothing can be changed here"),
        }
    }
}

impl AgentDump {
    fn of((vm, shown): (VmName, Shown)) -> Self {
        Self {
            vm: vm.as_str().to_owned(),
            using: shown.using.map(Into::into),
            permit: shown.permit.map(Into::into),
            goal: shown.goal.map(Into::into),
            why: shown.why,
            agreed: shown.agreed.map(Into::into),
            moving: shown.moving,
            notes: shown.notes.into(),
        }
    }
}

// === Metrics ===

fn metrics(all: Vec<(VmName, Shown)>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(all)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape(Vec<(VmName, Shown)>);

/// A counter of requests: its name, what it counts, and how to find both figures.
type Requests = (&'static str, &'static str, fn(&Tally) -> [u64; 2]);

const REQUESTS: &[Requests] = &[
    ("autoscaling_agent_scheduler_plugin_requests", "Questions for permits", |tally| tally.asked),
    ("autoscaling_agent_neonvm_outbound_requests", "Changes of machines", |tally| tally.patched),
    ("autoscaling_agent_informant_outbound_requests", "Messages to guests", |tally| tally.told),
];

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, help, find) in REQUESTS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            let sum = |place: usize| self.0.iter().map(|(_, it)| find(&it.tally)[place]).sum();
            let (all, failed): (u64, u64) = (sum(0), sum(1));
            for (code, count) in [("ok", all - failed), ("failed", failed)] {
                let labels = [("code", code)];
                family
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
            }
        }
        let wished: u64 = self.0.iter().map(|(_, it)| it.tally.wished).sum();
        let name = "autoscaling_agent_informant_inbound_requests";
        let help = "Times that guests asked for more";
        let mut wishes = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        wishes.encode_counter::<NoLabelSet, _, f64>(&wished, None)?;
        let refused: u64 = self.0.iter().map(|(_, it)| it.tally.refused).sum();
        let name = "autoscaling_agent_scaling_full_denials";
        let help = "Times that guests refused to shrink";
        let mut denials = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        denials.encode_counter::<NoLabelSet, _, f64>(&refused, None)?;
        let name = "autoscaling_agent_tracked_vms_current";
        let mut tracked =
            encoder.encode_descriptor(name, "Machines with an agent", None, MetricType::Gauge)?;
        tracked.encode_gauge(&i64::try_from(self.0.len()).unwrap_or(i64::MAX))
    }
}
