//! One container as it was asked for, and what is wrong with a container that cannot be.
//!
//! [`Container::check`] tells every fault at once, each with its field and value. What passes can
//! be handed to a runtime as it is: no path leads upwards, no label claims to be ours.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Millicores, Span};

use super::check::Faults;
use super::spec::{Needs, Restart};

/// Labels that begin so are ours.
pub const OUR_LABELS: &str = "persys.";
/// A container with less memory than this cannot start.
pub const MEMORY_MIN: Bytes = Bytes::new(6 << 20);
/// The smallest and the largest file of what a container writes.
pub(super) const LOG_MIN: Bytes = Bytes::new(4 << 10);
pub(super) const LOG_MAX: Bytes = Bytes::new(10 << 30);
/// The most entries of any list of a container.
pub(super) const ENTRIES_MAX: usize = 1000;
/// The most bytes of any text of a container.
pub(super) const TEXT_MAX: usize = 64 << 10;

/// One container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// The image to start from.
    pub image: String,
    /// What to run in the place of the image's entry point; the image's own where it is empty.
    pub command: Vec<String>,
    /// Its arguments; the image's own where they are empty.
    pub args: Vec<String>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Folders of the host and named volumes in it.
    pub mounts: Vec<Mount>,
    /// Ports of the host that lead into it.
    pub ports: Vec<Port>,
    /// Its part of the machine.
    pub resources: Resources,
    /// What happens when it ends.
    pub restart: Restart,
    /// Labels of its owner.
    pub labels: BTreeMap<String, String>,
    /// How to find out whether it is well.
    pub health: Option<HealthCheck>,
    /// Bridges that it is connected to; Docker's own where there are none.
    #[serde(default)]
    pub networks: Vec<String>,
    /// Another OCI runtime than Docker's usual one.
    #[serde(default)]
    pub oci_runtime: Option<String>,
    /// How much of what it writes is kept.
    #[serde(default)]
    pub logs: LogBounds,
    /// Whether its secrets are files in memory, and not environment.
    #[serde(default)]
    pub secrets_as_files: bool,
}

/// How much of what a container writes is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogBounds {
    /// The largest file.
    pub max: Bytes,
    /// The most files.
    pub files: u32,
}

/// Something of the host in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// What.
    pub source: Source,
    /// Where in the container.
    pub path: String,
    /// Whether the container may only read it.
    pub read_only: bool,
    /// Whether a named volume goes when its workload is deleted.
    #[serde(default)]
    pub goes_with_workload: bool,
}

/// What of the host is in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A folder or file of the host.
    Path(String),
    /// A named volume, which outlives its container.
    Volume(String),
}

/// A port of the host that leads into a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// On the host; zero is any that is free.
    pub host: u16,
    /// In the container.
    pub container: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A container's part of the machine. What is not said is the runtime's own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// The kernel's weight for CPU, where 1024 is usual.
    pub cpu_shares: Option<u32>,
    /// The most memory.
    pub memory: Option<Bytes>,
    /// The most memory and swap together.
    pub memory_swap: Option<Bytes>,
    /// CPU that it has a right to in the market.
    pub cpu_min: Option<Millicores>,
    /// The most CPU that the market gives it.
    pub cpu_max: Option<Millicores>,
    /// What its claim counts for in the market, in thousandths.
    #[serde(default)]
    pub weight_thousandths: Option<u64>,
    /// How soon it has to answer, in milliseconds.
    #[serde(default)]
    pub target_latency_ms: Option<u64>,
}

/// How to find out whether a container is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthCheck {
    /// What to run in it; ending with 0 is well.
    pub command: Vec<String>,
    /// How often.
    pub interval: Span,
    /// How long it may take.
    pub timeout: Span,
    /// After so many failures in a row it is not well.
    pub retries: u32,
    /// Failures in this time after the start do not count.
    pub start_period: Span,
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct FieldFault {
    /// Which field.
    pub field: String,
    /// What is wrong with it, with its value.
    pub what: String,
}

// === impl LogBounds ===

impl Default for LogBounds {
    /// Three files of 10 MB.
    fn default() -> Self {
        Self { max: Bytes::new(10 << 20), files: 3 }
    }
}

// === impl Container ===

impl Container {
    /// The container of an image, with nothing else said.
    #[must_use]
    pub fn new(image: &str) -> Self {
        Self {
            image: image.to_owned(),
            command: Vec::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            mounts: Vec::new(),
            ports: Vec::new(),
            resources: Resources::default(),
            restart: Restart::Always,
            labels: BTreeMap::new(),
            health: None,
            networks: Vec::new(),
            oci_runtime: None,
            logs: LogBounds::default(),
            secrets_as_files: false,
        }
    }

    /// What it needs for itself.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        let Resources { memory, cpu_min, .. } = self.resources;
        Needs {
            cpu: match cpu_min {
                Some(cpu) => cpu,
                None => Millicores::ZERO,
            },
            memory: match memory {
                Some(memory) => memory,
                None => Bytes::new(0),
            },
        }
    }

    /// Everything that is wrong with it, in the order of its fields.
    #[must_use]
    pub fn check(&self) -> Vec<FieldFault> {
        let mut faults = Faults(Vec::new());
        faults.image(&self.image);
        faults.texts("command", &self.command);
        faults.texts("args", &self.args);
        faults.env(&self.env);
        faults.mounts(&self.mounts);
        faults.ports(&self.ports);
        faults.resources(&self.resources);
        faults.labels(&self.labels);
        faults.health(self.health.as_ref());
        faults.networks(&self.networks);
        faults.oci_runtime(self.oci_runtime.as_deref());
        faults.logs(self.logs);
        faults.0
    }
}
