//! What a runtime has to do, in the manager's words.
//!
//! A runtime carries out one operation at a time for a workload, says what is there of it, and
//! tells when something happens. It tells faults by their kind, from codes and never from words,
//! and a runtime that cannot be reached is
//! [`FaultKind::Silent`](walras_core::run::FaultKind::Silent). It touches only what has the label
//! of Walras. A new runtime is one file and one line in `daemon`; see docs/runtimes.md.

mod compose;
mod docker;
mod libvirt;
mod program;
#[cfg(test)]
pub(crate) mod scripted;
mod vm;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::mpsc;
use walras_core::run::{Fault, FaultKind, FieldFault, Instance, Op, Spec, Work, WorkloadId};

pub use compose::ComposeRuntime;
pub use compose::usual_program as usual_compose;
pub use docker::{Docker, DockerOptions, Unneeded};
pub use libvirt::LibvirtRuntime;
pub(crate) use libvirt::usual_virsh;
pub use vm::VmRuntime;
pub use vm::usual_qemu;

/// Workloads to which something happened; an error when the runtime is no longer heard.
pub type RuntimeEvents<'a> = BoxStream<'a, Result<WorkloadId, Fault>>;
/// What a workload wrote.
pub type RuntimeLogs<'a> = BoxStream<'a, Result<Vec<u8>, Fault>>;
/// What a command in a workload writes, and how it ends.
pub type RuntimeOutput<'a> = BoxStream<'a, Result<Output, Fault>>;

/// One operation.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// What to do.
    pub op: Op,
    /// About which workload.
    pub id: &'a WorkloadId,
    /// What to make of it.
    pub spec: &'a Spec,
    /// Its secrets. They are handed to the workload and to nothing else.
    pub secrets: &'a BTreeMap<String, String>,
    /// What is there of it.
    pub instances: &'a [Instance],
    /// To be told how far a long operation is, in words.
    pub progress: &'a (dyn Fn(&str) + Send + Sync),
}

/// Which part of a workload is meant.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The workload.
    pub id: &'a WorkloadId,
    /// One of its services, where it has several.
    pub service: Option<&'a str>,
}

/// A piece of what a command writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To its standard output.
    Out(Vec<u8>),
    /// To its standard error.
    Error(Vec<u8>),
    /// It ended with this code.
    Ended(i64),
}

/// What to do with snapshots of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotWish {
    /// Say which there are.
    List,
    /// Keep its disks as they are under this name.
    Take(String),
    /// Make its disks what they were.
    Revert(String),
    /// Forget this one.
    Drop(String),
}

/// A snapshot of a workload's disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// When it was taken, in seconds since 1970.
    pub taken_s: i64,
}

/// A runtime.
pub trait Runtime: Send + Sync {
    /// Its name, for people and in `custom { runtime }`.
    fn name(&self) -> &'static str;
    /// Whether a workload is for it.
    fn takes(&self, work: &Work) -> bool;
    /// What is wrong with a workload that is for it, beyond what everybody checks.
    fn check(&self, _: &Work, _: &BTreeMap<String, String>) -> Vec<FieldFault> {
        Vec::new()
    }
    /// Whether it answers.
    fn ping(&self) -> BoxFuture<'_, Result<(), Fault>>;
    /// Does one thing about one workload.
    fn act<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Result<(), Fault>>;
    /// What is there of one workload.
    fn look<'a>(&'a self, id: &'a WorkloadId) -> BoxFuture<'a, Result<Vec<Instance>, Fault>>;
    /// What is there of all workloads.
    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<WorkloadId, Vec<Instance>>, Fault>>;
    /// Tells when something happens, from now on.
    fn events(&self) -> RuntimeEvents<'_>;
    /// A deleted workload is gone: removes what was only kept for it.
    fn forget<'a>(&'a self, _: &'a WorkloadId, _: &'a Spec) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
    /// The last `tail` lines that a workload wrote, and those that follow if `follow`.
    fn logs<'a>(&'a self, _: Part<'a>, _: u32, _: bool) -> RuntimeLogs<'a> {
        stream::once(async { Err(self.cannot("tell what a workload wrote")) }).boxed()
    }
    /// Runs a command in a workload, with this input.
    fn exec<'a>(
        &'a self,
        _: Part<'a>,
        _: Vec<String>,
        _: Option<mpsc::Receiver<Vec<u8>>>,
    ) -> RuntimeOutput<'a> {
        stream::once(async { Err(self.cannot("run commands in a workload")) }).boxed()
    }
    /// Does something with snapshots of a workload's disks, and says which there are then.
    fn snapshot<'a>(
        &'a self,
        _: &'a WorkloadId,
        _: SnapshotWish,
    ) -> BoxFuture<'a, Result<Vec<Snapshot>, Fault>> {
        Box::pin(async { Err(self.cannot("keep the disks of a workload")) })
    }
    /// What this runtime cannot do.
    fn cannot(&self, what: &str) -> Fault {
        Fault::new(FaultKind::InvalidSpec, format!("the runtime {} cannot {what}", self.name()))
    }
}

/// The runtimes of a host.
#[derive(Clone)]
pub struct Runtimes(Vec<Arc<dyn Runtime>>);

impl Runtimes {
    /// These. The first that takes a workload gets it.
    #[must_use]
    pub fn new(all: Vec<Arc<dyn Runtime>>) -> Self {
        Self(all)
    }

    /// The one for a workload.
    pub(crate) fn of(&self, work: &Work) -> Option<&Arc<dyn Runtime>> {
        self.0.iter().find(|runtime| runtime.takes(work))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Runtime>> {
        self.0.iter()
    }
}

impl fmt::Debug for Runtimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|runtime| runtime.name())).finish()
    }
}

impl fmt::Debug for Job<'_> {
    /// Without its secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.op, self.id)
    }
}
