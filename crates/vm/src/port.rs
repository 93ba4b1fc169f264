//! What somebody who sizes and moves a machine asks of it.
//!
//! An agent (`core::vm`) is driven against this trait and knows nothing of QEMU. Each answer is
//! what the machine was found to be, and not what it was asked to become.

use std::fmt;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use walras_core::units::{Bytes, Millicores, Resources};
use walras_core::vm::Seen;

use crate::error::VmError;
use crate::spec::MachineSpec;

/// A machine that can be seen, sized and moved.
pub trait Machine: Send + Sync {
    /// Its name on this host.
    fn name(&self) -> &str;

    /// What it is now.
    fn observe(&self) -> BoxFuture<'_, Result<Observed, VmError>>;

    /// Gives it so much, if it still has `version`, and returns what it then is. It is done when
    /// the guest has taken or given back what changed, and fails if that takes too long; then it
    /// may still come. Its version grows even where it has as much already, and whatever was asked
    /// for before and did not come yet is no longer wanted.
    fn resize(&self, to: Resources, version: u64) -> BoxFuture<'_, Result<Observed, VmError>>;

    /// What another host needs to receive it.
    fn handover(&self) -> BoxFuture<'_, Result<Handover, VmError>>;

    /// Begins to move it to the QEMU that waits at `to`. Returns when the move has begun;
    /// [`Machine::migration`] says how far it is. Nothing is resized meanwhile.
    fn migrate<'a>(
        &'a self,
        to: &'a Destination,
        terms: MigrationTerms,
    ) -> BoxFuture<'a, Result<(), VmError>>;

    /// How far a move is. After a failed or cancelled one the machine runs on here.
    fn migration(&self) -> BoxFuture<'_, Result<Migration, VmError>>;

    /// Ends a move that has not switched over yet. The machine runs on here.
    fn cancel_migration(&self) -> BoxFuture<'_, Result<(), VmError>>;
}

/// A machine at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// What its guest does, as far as QEMU knows.
    pub state: RunState,
    /// Grows with every change.
    pub version: u64,
    /// CPUs that are plugged in.
    pub cpus: u32,
    /// The most CPUs it can have.
    pub cpus_max: u32,
    /// What its process may use of the host's CPUs; nothing where that is not limited.
    pub quota: Option<Millicores>,
    /// Memory that its guest has.
    pub memory: Bytes,
    /// Memory that its guest was asked to have; what it has moves towards it.
    pub memory_wanted: Bytes,
    /// The least it can have.
    pub memory_min: Bytes,
    /// The most it can have.
    pub memory_max: Bytes,
}

/// What a guest does, as far as QEMU knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It runs.
    Running,
    /// It does not, and can go on.
    Paused,
    /// It waits for another host to send it.
    Receiving,
    /// It was sent to another host, and must not run here any more.
    Sent,
    /// It ended by itself.
    Ended,
    /// It crashed, or its disk failed.
    Failed,
}

/// What another host needs to receive a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// What it is. Its machine type is the exact one, so that another QEMU builds the same.
    pub spec: MachineSpec,
    /// The CPUs that are plugged in beside the first, by their number.
    pub cpus: Vec<u32>,
    /// The memory modules that are plugged in, by their number; empty where it has none.
    pub dimms: Vec<u32>,
    /// Its version.
    pub version: u64,
}

/// Where a QEMU waits for a machine. Whoever has this may send one, so it is told only to the host
/// that does.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// Its address, such as `10.0.0.2`.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The key that both ends prove to have, in hexadecimal digits; what is sent is encrypted with
    /// it. Nothing for plain text, which is for tests.
    pub key: Option<String>,
}

/// How to move a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrationTerms {
    /// Bytes a second at most; nothing for no limit.
    pub bandwidth: Option<u64>,
    /// How long the guest may stand still at the switch.
    pub downtime_ms: u64,
    /// Slow the guest down if it writes faster than can be sent.
    pub auto_converge: bool,
    /// Switch over after the first pass, and fetch the rest on demand. From then on a failure of
    /// either host is the end of the machine, which is why it is not the default.
    pub post_copy: bool,
    /// A move that takes longer is cancelled.
    pub within_s: u64,
}

/// How far a move is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// Where it stands.
    pub phase: MigrationPhase,
    /// Bytes that were sent.
    pub sent: Bytes,
    /// Bytes that are left, as of now; the guest goes on writing.
    pub remaining: Bytes,
    /// Bytes of the guest's memory.
    pub total: Bytes,
    /// How long the guest stood still, or is expected to.
    pub downtime_ms: Option<u64>,
    /// How much the guest is slowed down, in percent.
    pub throttle_percent: u64,
    /// What went wrong, in QEMU's words.
    pub error: Option<String>,
}

/// Where a move stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigrationPhase {
    /// There was none.
    None,
    /// It is under way, and can be cancelled.
    Active,
    /// The other host runs it, and fetches what is missing. It cannot be cancelled.
    PostCopy,
    /// The other host has all of it.
    Completed,
    /// It failed; the machine runs on here.
    Failed,
    /// It was cancelled; the machine runs on here.
    Cancelled,
}

// === impl Destination ===

impl fmt::Debug for Destination {
    /// Without its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

// === impl Observed ===

impl Observed {
    /// What it has: its CPUs, or what its process may use of them, and its memory.
    #[must_use]
    pub fn using(&self) -> Resources {
        let cpus = Millicores::from_cores(self.cpus);
        let cpu = self.quota.map_or(cpus, |quota| quota.min(cpus));
        Resources::new(cpu, self.memory)
    }

    /// The same for the agent of the machine.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen { using: self.using(), version: self.version }
    }
}

// === impl MigrationTerms ===

impl Default for MigrationTerms {
    fn default() -> Self {
        Self {
            bandwidth: None,
            downtime_ms: 300,
            auto_converge: true,
            post_copy: false,
            within_s: 600,
        }
    }
}

// === impl MigrationPhase ===

impl MigrationPhase {
    /// Whether it goes on by itself.
    #[must_use]
    pub const fn is_under_way(self) -> bool {
        match self {
            Self::Active | Self::PostCopy => true,
            Self::None | Self::Completed | Self::Failed | Self::Cancelled => false,
        }
    }
}
