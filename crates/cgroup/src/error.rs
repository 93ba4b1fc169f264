//! What can go wrong with one control group, in words that name the group and the file.
//!
//! [`CgroupError::Gone`] is not a fault but news: the caller lets go of the group.

use std::error::Error;
use std::io;

use walras_core::parse::ParseError;

use crate::path::CgroupPath;

/// Why something could not be done with a control group.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The group was removed, or another one has its name now.
    #[error("the control group {path} is gone")]
    Gone {
        /// The group.
        path: CgroupPath,
    },
    /// This process may not do that.
    #[error("{path}: not allowed to use {}; this usually takes root", named(file))]
    NotAllowed {
        /// The group.
        path: CgroupPath,
        /// The file in it, or `.` for the group itself.
        file: &'static str,
    },
    /// The hierarchy is mounted read-only.
    #[error(
        "{path}: {} cannot be written, because control groups are mounted read-only",
        named(file)
    )]
    ReadOnly {
        /// The group.
        path: CgroupPath,
        /// The file in it, or `.` for the group itself.
        file: &'static str,
    },
    /// The cpu controller is not switched on for the group, so there is nothing to set.
    #[error("{path}: the cpu controller is not switched on for it ({file} is missing)")]
    NoController {
        /// The group.
        path: CgroupPath,
        /// The file that is missing.
        file: &'static str,
    },
    /// The group is there for the controller `cpu` and not for `cpuacct`, so what it uses is not
    /// counted.
    #[error("{path}: is in the hierarchy of cpu and not in that of cpuacct; make it there, too")]
    NotCounted {
        /// The group.
        path: CgroupPath,
    },
    /// The kernel refused a value.
    #[error("{path}: the kernel refused {value:?} for {file}: {source}")]
    Refused {
        /// The group.
        path: CgroupPath,
        /// The file.
        file: &'static str,
        /// What was written.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Anything else that the kernel said.
    #[error("{path}: {file}: {source}")]
    Io {
        /// The group.
        path: CgroupPath,
        /// The file in it, or `.` for the group itself.
        file: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file holds something else than expected, three times in a row.
    #[error("{path}: {source}")]
    Text {
        /// The group.
        path: CgroupPath,
        /// What is wrong; it names the file.
        source: ParseError,
    },
    /// A file is longer than any that the kernel writes.
    #[error("{path}: {file} is longer than {limit_bytes} bytes")]
    TooLong {
        /// The group.
        path: CgroupPath,
        /// The file.
        file: &'static str,
        /// What was expected at most.
        limit_bytes: usize,
    },
    /// The original settings could not be kept, so the group was not adopted.
    #[error("{path} is left alone, because its settings could not be kept: {source}")]
    NotKept {
        /// The group.
        path: CgroupPath,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// A file of a group, in words.
fn named(file: &str) -> &str {
    if file == "." { "the group itself" } else { file }
}

// === impl CgroupError ===

impl CgroupError {
    /// Whether the group does not exist any more.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        match self {
            Self::Gone { .. } => true,
            Self::NotAllowed { .. }
            | Self::ReadOnly { .. }
            | Self::NoController { .. }
            | Self::NotCounted { .. }
            | Self::Refused { .. }
            | Self::Io { .. }
            | Self::Text { .. }
            | Self::TooLong { .. }
            | Self::NotKept { .. } => false,
        }
    }
}
