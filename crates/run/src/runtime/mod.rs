//! What a runtime has to do, in the manager's words.
//!
//! A runtime carries out one operation at a time for a workload, says what is there of it, and
//! tells when something happens. It tells faults by their kind, from codes and never from words,
//! and a runtime that cannot be reached is
//! [`FaultKind::Silent`](walras_core::run::FaultKind::Silent). It touches only what has the label
//! of Walras.

mod docker;
#[cfg(test)]
pub(crate) mod scripted;

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use walras_core::run::{Fault, Instance, Op, Spec, WorkloadId};

pub use docker::Docker;

/// Workloads to which something happened; an error when the runtime is no longer heard.
pub type RuntimeEvents<'a> = BoxStream<'a, Result<WorkloadId, Fault>>;
/// Lines that a workload wrote.
pub type RuntimeLogs<'a> = BoxStream<'a, Result<String, Fault>>;

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
}

/// A runtime.
pub trait Runtime: Send + Sync {
    /// Its name for people.
    fn name(&self) -> &'static str;
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
    /// The last `tail` lines that an instance wrote, and those that follow if `follow`.
    fn logs<'a>(&'a self, handle: &'a str, tail: u32, follow: bool) -> RuntimeLogs<'a>;
}

impl fmt::Debug for Job<'_> {
    /// Without its secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.op, self.id)
    }
}
