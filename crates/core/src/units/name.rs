//! The names of workloads, families and virtual machines: shared text, cheap to clone, compared
//! as text.

use alloc::sync::Arc;
use core::fmt;

/// The name of one workload (or container, or unit) for as long as it lives. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadUid(Arc<str>);

/// The name of a family: what a recreated workload has in common with its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyKey(Arc<str>);

/// The name of a virtual machine, wherever it runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VmName(Arc<str>);

// === impl WorkloadUid, FamilyKey, VmName ===

impl WorkloadUid {
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

impl fmt::Display for WorkloadUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FamilyKey {
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

impl fmt::Display for FamilyKey {
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
