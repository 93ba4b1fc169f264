//! A scenario: a node, its pods, and what they are going to want. Plain data.
//!
//! It comes from a TOML file ([`read`], [`parse`]), from one of those that are built in
//! ([`builtin`]), or from nothing but traces ([`from_traces`]).

mod builtin;
#[cfg(test)]
mod cases;
mod disk;
mod file;
mod groups;
mod kind;
mod load;
mod problem;
mod recorded;
pub mod trace;

use walras_core::claim::Nature;
use walras_core::units::{Millicores, Weight};

pub use builtin::{Builtin, builtin};
pub use disk::{from_traces, read};
pub use file::parse;
pub use load::Reader;
pub use problem::ScenarioError;
pub use recorded::recorded;

use crate::load::{LoadSpec, Memory, Shape, Startup};
use crate::machine::CpuSet;
use crate::run::cores;

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// What it is for.
    pub suite: Suite,
    /// Where its random numbers start.
    pub seed: u64,
    /// How long it goes on.
    pub duration_s: u32,
    /// The node.
    pub node: NodeSpec,
    /// How many nodes like it, each with other random numbers.
    pub nodes: u32,
    /// The pods of each node.
    pub pods: Vec<PodSpec>,
}

/// What a scenario is for. Constants are tuned on some scenarios and judged by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suite {
    /// For tuning.
    Train,
    /// For judging, and therefore never for tuning.
    Test,
    /// For neither.
    #[default]
    Other,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSpec {
    /// Its CPU.
    pub capacity: Millicores,
    /// What runs on it outside of all pods, if anything does.
    pub system: Option<SystemSpec>,
}

/// The processes of a node that belong to no pod: one group beside the pods, that nobody sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemSpec {
    /// What they want to run, in cores.
    pub cores: Shape,
    /// Their weight among the pods, in cgroup v2's scale.
    pub weight: u32,
}

/// A pod as its owner declared it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSpec {
    /// What it is called.
    pub name: String,
    /// What it is going to want.
    pub load: LoadSpec,
    /// Work to do before it is ready.
    pub startup: Option<Startup>,
    /// The declared request.
    pub request: Millicores,
    /// The declared limit; none where there is none.
    pub limit: Option<Millicores>,
    /// The least it must be granted, where its owner said so.
    pub min: Option<Millicores>,
    /// The most it may be given, where its owner said so.
    pub max: Option<Millicores>,
    /// What kind of work it does, as its owner would tell a policy.
    pub nature: Nature,
    /// What its claim counts for: its priority.
    pub weight: Weight,
    /// When it starts.
    pub start_s: f64,
    /// When it stops, if it does.
    pub stop_s: Option<f64>,
    /// Its latency target for the 99th percentile of a minute; by default twice what it would have
    /// alone on the node without limits.
    pub slo_ms: Option<f64>,
    /// Whether the pod's owner told the policy of the latency target.
    pub slo_known: bool,
    /// Whether the policy sizes it. Where it does not, the pod keeps what was declared, and the
    /// policy sees of it only what it does to the node.
    pub managed: bool,
    /// The CPUs it is bound to, where it is.
    pub cpus: Option<CpuSet>,
    /// The groups below its own; empty where its processes are in its own.
    pub containers: Vec<ContainerSpec>,
    /// The memory it takes, where its owner said so. Nothing decides on it.
    pub memory: Option<Memory>,
}

/// A container of a pod: a group below the pod's.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSpec {
    /// What it is called.
    pub name: String,
    /// What part of the pod's work it does, in proportion to the other containers.
    pub share: f64,
    /// The declared limit; none where there is none.
    pub limit: Option<Millicores>,
    /// Its weight among the pod's containers, in cgroup v2's scale.
    pub weight: u32,
}

// === impl NodeSpec ===

impl NodeSpec {
    /// A node of this size on which only pods run.
    #[must_use]
    pub const fn new(capacity: Millicores) -> Self {
        Self { capacity, system: None }
    }
}

// === impl PodSpec ===

impl PodSpec {
    /// A pod that says no more than it must: it runs all the time and has no limit.
    #[must_use]
    pub fn new(name: &str, load: LoadSpec, request: Millicores) -> Self {
        Self {
            name: name.to_owned(),
            load,
            startup: None,
            request,
            limit: None,
            min: None,
            max: None,
            nature: Nature::Unknown,
            weight: Weight::ONE,
            start_s: 0.0,
            stop_s: None,
            slo_ms: None,
            slo_known: false,
            managed: true,
            cpus: None,
            containers: Vec::new(),
            memory: None,
        }
    }

    /// The cores of a node on which it can run.
    #[must_use]
    pub fn cores_on(&self, node: &NodeSpec) -> f64 {
        let node_cores = cores(node.capacity);
        self.cpus.map_or(node_cores, |cpus| cpus.cores(node_cores))
    }
}
