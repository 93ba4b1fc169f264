//! The names of pods, workloads and virtual machines: shared text, cheap to clone, compared
//! as text.

use alloc::sync::Arc;
use core::fmt;

/// The name of one pod (or container, or unit) for as long as it lives. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(Arc<str>);

/// The name of a workload: what a recreated pod has in common with its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey(Arc<str>);

/// The name of a virtual machine, wherever it runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VmName(Arc<str>);

// === impl PodUid, WorkloadKey, VmName ===

impl PodUid {
    /// A uid as the outside spells it.
    #[must_use]
    pub fn new(uid: &str) -> Self {
        Self(Arc::from(uid))
    }

    /// The uid as the outside spells it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl WorkloadKey {
    /// A key as the outside spells it.
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self(Arc::from(key))
    }

    /// The key as the outside spells it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl VmName {
    /// A name as the outside spells it.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// The name as the outside spells it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
