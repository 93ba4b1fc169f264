//! A runtime that keeps workloads in memory: what it is told to run runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use walras_core::run::{Fault, Instance, InstanceState, Op, Work, WorkloadId};
use walras_run::{Job, Runtime, RuntimeEvents};

/// Workloads in memory.
#[derive(Default)]
pub(crate) struct Played(Mutex<BTreeMap<WorkloadId, Instance>>);

impl Played {
    fn done(&self, job: Job<'_>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match job.op {
            Op::Prepare => return,
            Op::Create => InstanceState::Created,
            Op::Start => InstanceState::Running,
            Op::Stop => InstanceState::Exited { code: 143 },
            Op::Remove => {
                all.remove(job.id);
                return;
            }
        };
        let (handle, revision) = (job.id.to_string(), job.spec.revision.to_string());
        let one = Instance { handle, revision, started: "1".to_owned(), state, health: None };
        all.insert(job.id.clone(), one);
    }

    /// A host that was restarted finds what it left.
    pub(crate) fn runs(&self, id: WorkloadId, revision: &str) {
        let (handle, revision) = (id.to_string(), revision.to_owned());
        let state = InstanceState::Running;
        let one = Instance { handle, revision, started: "1".to_owned(), state, health: None };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, one);
    }
}

impl Runtime for Played {
    fn name(&self) -> &'static str {
        "played"
    }

    fn takes(&self, _: &Work) -> bool {
        true
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    fn act<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Result<(), Fault>> {
        self.done(job);
        Box::pin(async { Ok(()) })
    }

    fn look<'a>(&'a self, id: &'a WorkloadId) -> BoxFuture<'a, Result<Vec<Instance>, Fault>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.get(id).cloned().into_iter().collect();
        Box::pin(async move { Ok(found) })
    }

    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<WorkloadId, Vec<Instance>>, Fault>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().map(|(id, one)| (id.clone(), vec![one.clone()])).collect();
        Box::pin(async move { Ok(found) })
    }

    fn events(&self) -> RuntimeEvents<'_> {
        stream::pending().boxed()
    }
}
