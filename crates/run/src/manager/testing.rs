//! What tests of managers and stores have in common.

use std::sync::Arc;
use std::time::{Duration, Instant};

use walras_core::run::{Capacity, Container, Revision, Spec, Work, WorkloadId};
use walras_core::units::{Bytes, Millicores};

use super::{Manager, ManagerOptions};
use crate::runtime::Runtimes;
use crate::runtime::scripted::Scripted;
use crate::store::Store;

pub(crate) fn id(name: &str) -> WorkloadId {
    WorkloadId::new(name).unwrap()
}

pub(crate) fn spec(revision: &str) -> Spec {
    Spec {
        revision: Revision::new(revision).unwrap(),
        rollback: false,
        secrets: vec![],
        work: Work::Container(Container::new("busybox")),
    }
}

pub(crate) const OPTIONS: ManagerOptions = ManagerOptions {
    capacity: Capacity { cpu: Millicores::new(4000), memory: Bytes::new(1 << 30) },
    fault: None,
};

/// A manager at work; it stops when this is dropped.
pub(super) struct Working {
    pub(super) manager: Arc<Manager>,
    task: tokio::task::JoinHandle<()>,
}

impl Working {
    pub(super) fn start(store: Box<dyn Store>, runtime: &Arc<Scripted>) -> Self {
        let runtimes = Runtimes::new(vec![Arc::clone(runtime) as _]);
        let manager = Manager::new(store, runtimes, OPTIONS).unwrap();
        let task = tokio::spawn(Arc::clone(&manager).serve());
        Self { manager, task }
    }

    /// Waits until no task of it is left, so that a store can be opened again.
    pub(super) async fn kill(self) {
        self.task.abort();
        self.task.await.ok();
        drop(self.manager);
    }
}

/// Waits until something holds.
pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
