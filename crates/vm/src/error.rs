//! What can go wrong with a machine, by kind, so that nobody has to read words.

use std::io;

use crate::spec::SpecError;

/// Why something could not be done about a machine.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// The spec cannot be used.
    #[error("{}", in_words(.0))]
    Spec(Vec<SpecError>),
    /// There is no QEMU process of this machine.
    #[error("{name}: there is no such machine running")]
    Gone {
        /// Whose.
        name: String,
    },
    /// QEMU did not answer in time. The process may still run, and do what it was asked to.
    #[error("{name}: QEMU did not answer `{command}` within {waited_ms} ms")]
    Silent {
        /// Whose.
        name: String,
        /// What it was asked.
        command: String,
        /// How long somebody waited.
        waited_ms: u64,
    },
    /// QEMU refused. It says why.
    #[error("{name}: QEMU refuses `{command}`: {because}")]
    Refused {
        /// Whose.
        name: String,
        /// What it was asked.
        command: String,
        /// In its own words.
        because: String,
    },
    /// The machine changed since it was seen.
    #[error("{name}: it has version {found} and not {expected}; look at it again")]
    Stale {
        /// Whose.
        name: String,
        /// What it is.
        found: u64,
        /// What it was thought to be.
        expected: u64,
    },
    /// The guest did not do what it has to do for a change, in time.
    #[error("{name}: the guest did not {what} within {waited_ms} ms")]
    GuestSlow {
        /// Whose.
        name: String,
        /// What it had to do.
        what: String,
        /// How long somebody waited.
        waited_ms: u64,
    },
    /// The guest said no.
    #[error("{name}: the guest refused to {what} (ACPI status {status})")]
    GuestRefused {
        /// Whose.
        name: String,
        /// What it had to do.
        what: String,
        /// The status that it gave.
        status: i64,
    },
    /// More or less than the machine can have.
    #[error("{name}: {wanted} is not possible; it can have {bounds}")]
    OutOfBounds {
        /// Whose.
        name: String,
        /// What was asked for.
        wanted: String,
        /// What is possible.
        bounds: String,
    },
    /// It moves to another host, so that nothing else can be changed.
    #[error("{name}: it is being moved to another host")]
    Moving {
        /// Whose.
        name: String,
    },
    /// The move failed, and the machine runs on where it was.
    #[error("{name}: it was not moved: {because}")]
    NotMoved {
        /// Whose.
        name: String,
        /// Why.
        because: String,
    },
    /// QEMU did not start.
    #[error("{name}: QEMU did not start: {because}")]
    NotStarted {
        /// Whose.
        name: String,
        /// What it wrote before it ended.
        because: String,
    },
    /// A file or a process of the machine cannot be used.
    #[error("{name}: cannot {what}: {source}")]
    Io {
        /// Whose.
        name: String,
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// A control group cannot be used.
    #[error("{name}: {source}")]
    Group {
        /// Whose.
        name: String,
        /// Why not.
        source: walras_cgroup::CgroupError,
    },
}

fn in_words(faults: &[SpecError]) -> String {
    let words: Vec<String> = faults.iter().map(ToString::to_string).collect();
    words.join("; ")
}
