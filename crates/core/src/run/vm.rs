//! A virtual machine as it was asked for.
//!
//! What the machine is gets kept in the words of whoever runs it (`crates/vm`), and was checked by
//! it; here is only what decisions need.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::units::{Bytes, Millicores};

use super::spec::{Needs, Restart};

/// Who runs a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hypervisor {
    /// QEMU, as a process of its own.
    #[default]
    Qemu,
    /// libvirt, which runs QEMU.
    Libvirt,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vm {
    /// What the machine is.
    pub machine: Value,
    /// The CPU that it starts with.
    pub cpu: Millicores,
    /// The memory that it starts with.
    pub memory: Bytes,
    /// What happens when its guest switches it off, or it dies.
    pub restart: Restart,
    /// Who runs it.
    #[serde(default)]
    pub hypervisor: Hypervisor,
}

impl Vm {
    /// What it needs for itself.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        Needs { cpu: self.cpu, memory: self.memory }
    }
}
