//! What somebody wants of a workload: its id, its revision, what to run and whether to run it.
//!
//! A [`Spec`] is kept on disk, so it names its secrets and does not hold them. Everything in it was
//! checked when it was made (see `check`): code behind that edge does not check again.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Millicores};

use super::compose::Compose;
use super::container::Container;
use super::vm::Vm;

/// The longest id, which is a container's name too.
pub const ID_MAX: usize = 128;
/// The longest revision.
pub const REVISION_MAX: usize = 256;

/// A workload's name on its host: letters, digits, `-`, `_` and `.`, beginning with a letter or a
/// digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkloadId(String);

/// Which version of a spec this is, in the words of whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(String);

/// Why something is no id or no revision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is no id.
    #[error(
        "`{0}` is no id: 1 to {ID_MAX} letters, digits, `-`, `_` and `.`, beginning with a letter \
         or a digit"
    )]
    Id(String),
    /// It is no revision.
    #[error("a revision has 1 to {REVISION_MAX} characters, and this one has {0}")]
    Revision(usize),
}

/// Whether a workload should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Desired {
    /// It should run.
    Running,
    /// It should be there and not run.
    Stopped,
}

/// What happens when a workload ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// It stays ended: it ran once.
    No,
    /// It is started again after a failure, by the runtime, so often at most; zero is no limit.
    OnFailure {
        /// How often at most.
        retries: u32,
    },
    /// It is started again whenever it ends.
    Always,
}

/// What to run, in one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Which version this is.
    pub revision: Revision,
    /// Whether a new revision that fails gives way to the last one that was good.
    pub rollback: bool,
    /// The names of the secrets that it cannot be created without.
    pub secrets: Vec<String>,
    /// What it is.
    pub work: Work,
}

/// The kinds of workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "nearly all workloads are containers")]
pub enum Work {
    /// One container.
    Container(Container),
    /// Several containers that belong together, as a compose file says.
    Compose(Compose),
    /// One virtual machine.
    Vm(Vm),
    /// What a runtime of one's own understands.
    Custom(Custom),
}

/// What kind of workload it is. A workload stays what it is: another kind is another workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One container.
    Container,
    /// A compose project.
    Compose,
    /// A virtual machine.
    Vm,
    /// Of a runtime of one's own.
    Custom,
}

/// A workload of a runtime that the API does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Custom {
    /// Which runtime.
    pub runtime: String,
    /// What that runtime is told.
    pub settings: serde_json::Value,
}

/// What a workload needs of its host for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// CPU that it has a right to.
    pub cpu: Millicores,
    /// Memory that it may use.
    pub memory: Bytes,
}

// === impl WorkloadId, Revision ===

impl WorkloadId {
    /// The id `text`.
    ///
    /// # Errors
    /// It is no id.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if begins && text.len() <= ID_MAX && text.chars().all(fits) {
            return Ok(Self(text.into()));
        }
        Err(NameError::Id(text.chars().take(ID_MAX).collect()))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for WorkloadId {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(&text)
    }
}

impl From<WorkloadId> for String {
    fn from(id: WorkloadId) -> Self {
        id.0
    }
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Revision {
    /// The revision `text`.
    ///
    /// # Errors
    /// It is empty or too long.
    pub fn new(text: &str) -> Result<Self, NameError> {
        match text.chars().count() {
            1..=REVISION_MAX => Ok(Self(text.into())),
            other => Err(NameError::Revision(other)),
        }
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Spec ===

impl Spec {
    /// What happens when it ends.
    #[must_use]
    pub const fn restart(&self) -> Restart {
        match &self.work {
            Work::Container(container) => container.restart,
            Work::Compose(compose) => compose.restart,
            Work::Vm(vm) => vm.restart,
            Work::Custom(_) => Restart::Always,
        }
    }

    /// What it needs for itself.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        match &self.work {
            Work::Container(container) => container.needs(),
            Work::Compose(compose) => Needs { cpu: Millicores::ZERO, memory: compose.memory },
            Work::Vm(vm) => vm.needs(),
            Work::Custom(_) => Needs { cpu: Millicores::ZERO, memory: Bytes::new(0) },
        }
    }
}

// === impl Work, Kind ===

impl Work {
    /// What kind of workload it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Container(_) => Kind::Container,
            Self::Compose(_) => Kind::Compose,
            Self::Vm(_) => Kind::Vm,
            Self::Custom(_) => Kind::Custom,
        }
    }
}

impl Kind {
    /// Its name for people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Compose => "compose",
            Self::Vm => "vm",
            Self::Custom => "custom",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_names_that_are_no_path_and_no_option() {
        for good in ["web", "a", "Web-1.2_x", "0"] {
            assert_eq!(WorkloadId::new(good).map(|id| id.as_str().into()), Ok(String::from(good)));
        }
        let long = "a".repeat(ID_MAX + 1);
        for bad in ["", "-web", ".web", "..", "a/b", "a b", "wéb", "a\n", &long] {
            assert!(WorkloadId::new(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<WorkloadId>("\"../x\"").is_err());
    }

    #[test]
    fn revisions_are_bounded() {
        assert_eq!(Revision::new(""), Err(NameError::Revision(0)));
        assert_eq!(Revision::new(&"é".repeat(257)), Err(NameError::Revision(257)));
        assert!(Revision::new(&"é".repeat(256)).is_ok());
    }
}
