//! What can go wrong with an operation, and what is to be done about it.
//!
//! Runtimes tell the kind of a fault, from codes and never from words. Only a fault that can go
//! away by itself is tried again.

use alloc::format;
use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// There is no such image, or nobody may have it.
    ImageNotFound,
    /// The image could not be fetched this time.
    ImagePull,
    /// The runtime refuses the spec.
    InvalidSpec,
    /// A port of the host is taken.
    PortInUse,
    /// Something else has the name that the workload needs.
    NameInUse,
    /// What the operation is about is not there.
    NotFound,
    /// A network could not be used.
    Network,
    /// A volume could not be used.
    Storage,
    /// The runtime failed.
    Runtime,
    /// The operation took too long.
    Timeout,
    /// The runtime does not answer at all.
    Silent,
    /// The workload ended with this code.
    Exited,
    /// The workload is not well, or does not keep running.
    Unhealthy,
}

/// What to do about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Try again later.
    Retry,
    /// Keep it: trying again changes nothing.
    Keep,
    /// Wait until the runtime answers.
    Wait,
}

/// What went wrong, in a code and in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// In words, for a person.
    pub words: String,
}

// === impl FaultKind ===

impl FaultKind {
    /// What to do about it.
    #[must_use]
    pub const fn remedy(self) -> Remedy {
        match self {
            Self::ImagePull
            | Self::PortInUse
            | Self::Network
            | Self::Storage
            | Self::Runtime
            | Self::NameInUse
            | Self::NotFound
            | Self::Timeout => Remedy::Retry,
            Self::ImageNotFound | Self::InvalidSpec | Self::Exited | Self::Unhealthy => {
                Remedy::Keep
            }
            Self::Silent => Remedy::Wait,
        }
    }

    /// Its name for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::ImageNotFound => "IMAGE_NOT_FOUND",
            Self::ImagePull => "IMAGE_PULL_FAILED",
            Self::InvalidSpec => "INVALID_SPEC",
            Self::PortInUse => "PORT_IN_USE",
            Self::NameInUse => "NAME_IN_USE",
            Self::NotFound => "NOT_FOUND",
            Self::Network => "NETWORK_ERROR",
            Self::Storage => "STORAGE_ERROR",
            Self::Runtime => "RUNTIME_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::Silent => "RUNTIME_NOT_AVAILABLE",
            Self::Exited => "EXITED",
            Self::Unhealthy => "UNHEALTHY",
        }
    }
}

// === impl Fault ===

/// The longest explanation that is kept.
const WORDS_MAX: usize = 1000;

impl Fault {
    /// A fault; very long words are cut.
    #[must_use]
    pub fn new(kind: FaultKind, words: impl Into<String>) -> Self {
        let words: String = words.into();
        let words = match words.char_indices().nth(WORDS_MAX) {
            Some((end, _)) => format!("{}...", &words[..end]),
            None => words,
        };
        Self { kind, words }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.code(), self.words)
    }
}
