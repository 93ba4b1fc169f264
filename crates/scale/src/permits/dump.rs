//! What a server of permits knows, for people: GET `/` on port 10298 is JSON, `/metrics` is what
//! Prometheus reads. Nothing can be changed here, and nothing secret is told.

use std::sync::Arc;

use serde::Serialize;
use walras_core::permit::{Standing, Vm};
use walras_core::units::{Resources, VmName};

use crate::http::{Asked, Handler, Told};

use super::{Node, Permits, metrics};

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dump {
    /// The nodes by name.
    pub nodes: Vec<NodeDump>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeDump {
    /// Its name.
    pub name: String,
    /// What may be handed out in all.
    pub budget: Amount,
    /// Above this, machines move away.
    pub watermark: Amount,
    /// What is not for machines.
    pub others: Amount,
    /// What machines hold.
    pub held: Amount,
    /// What is taken above the watermark.
    pub logical_pressure: Amount,
    /// What was asked for and denied.
    pub capacity_pressure: Amount,
    /// What moves that have begun will take away of both.
    pub accounted_for: Amount,
    /// What CPU costs there, where there is a market.
    pub price: Option<f64>,
    /// Its machines by name.
    pub vms: Vec<VmDump>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VmDump {
    /// Its name.
    pub name: String,
    /// What it is seen to use.
    pub using: Amount,
    /// The most that it can be using.
    pub held: Amount,
    /// What it asked for last and was not given.
    pub denied: Amount,
    /// The most it may be permitted.
    pub max: Amount,
    /// Whether it has yet to say what it holds.
    pub unheard: bool,
    /// Whether it moves away.
    pub moving: bool,
}

/// CPU and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// CPU, in thousandths of one.
    pub cpu_milli: u64,
    /// Memory.
    pub memory_bytes: u64,
}

/// Permits as they are shown.
#[derive(Debug)]
pub struct Shown(pub Arc<Permits>);

impl Permits {
    /// What it knows.
    #[must_use]
    pub fn dump(&self) -> Dump {
        let state = self.state();
        Dump { nodes: state.nodes.iter().map(|(name, node)| node_dump(name, node)).collect() }
    }
}

fn node_dump(name: &str, node: &Node) -> NodeDump {
    let Standing { budget, watermark, others, held, logical, denied, accounted } =
        node.ledger.standing();
    NodeDump {
        name: name.to_owned(),
        budget: budget.into(),
        watermark: watermark.into(),
        others: others.into(),
        held: held.into(),
        logical_pressure: logical.into(),
        capacity_pressure: denied.into(),
        accounted_for: accounted.into(),
        price: node.price,
        vms: node.ledger.vms().map(|(name, vm)| vm_dump(name, vm)).collect(),
    }
}

fn vm_dump(name: &VmName, vm: &Vm) -> VmDump {
    VmDump {
        name: name.as_str().to_owned(),
        using: vm.using.into(),
        held: vm.held.into(),
        denied: vm.denied.into(),
        max: vm.terms.max.into(),
        unheard: vm.unheard,
        moving: vm.leaving.is_some(),
    }
}

impl From<Resources> for Amount {
    fn from(amount: Resources) -> Self {
        Self { cpu_milli: amount.cpu.get(), memory_bytes: amount.memory.get() }
    }
}

impl Handler for Shown {
    fn answer(&self, asked: &Asked) -> Told {
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/") => {
                let text = serde_json::to_vec_pretty(&self.0.dump()).unwrap_or_default();
                Told::json(text)
            }
            ("GET", "/metrics") => {
                let (dump, tally) = (self.0.dump(), self.0.state().tally.clone());
                match metrics::text(dump, tally) {
                    Ok(text) => {
                        Told { kind: metrics::CONTENT_TYPE, ..Told::json(text.into_bytes()) }
                    }
                    Err(error) => Told::words(500, &error.to_string()),
                }
            }
            ("GET", _) => Told::words(404, "the state is at /, metrics are at /metrics"),
            _ => Told::words(405, "nothing can be changed here"),
        }
    }
}
