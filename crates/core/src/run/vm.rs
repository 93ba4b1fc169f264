//! A virtual machine as it was asked for.
//!
//! What the machine is gets kept in the words of whoever runs it (`crates/vm`), and was checked by
//! it; here is only what decisions need.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::units::{Bytes, Millicores};

use super::spec::{Needs, Restart};

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
}

impl Vm {
    /// What it needs for itself.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        Needs { cpu: self.cpu, memory: self.memory }
    }
}
