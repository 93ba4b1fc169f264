//! What can become of a pod.

use serde::{Deserialize, Serialize};

/// What became of a pod in the window after it was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It runs.
    Running,
    /// A container of it was started again.
    Restarted,
    /// A container of it ended.
    Terminated,
    /// A container of it had no memory left.
    OomKilled,
    /// It was sent away.
    Evicted,
    /// It failed for another reason.
    Failed,
    /// It was deleted before anything could be said.
    Deleted,
    /// Nothing is known.
    Unknown,
    /// The window is not over.
    Pending,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Running,
        Self::Restarted,
        Self::Terminated,
        Self::OomKilled,
        Self::Evicted,
        Self::Failed,
        Self::Deleted,
        Self::Unknown,
        Self::Pending,
    ];

    /// Its name in events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Restarted => "restarted",
            Self::Terminated => "terminated",
            Self::OomKilled => "oom_killed",
            Self::Evicted => "evicted",
            Self::Failed => "failed",
            Self::Deleted => "deleted",
            Self::Unknown => "unknown",
            Self::Pending => "pending",
        }
    }

    /// The outcome of this name; an empty one is pending.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name.is_empty() {
            return Some(Self::Pending);
        }
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}
