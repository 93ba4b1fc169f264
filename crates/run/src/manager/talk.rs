//! What workloads write, and commands that are run in them. Each has a task of its own, which ends
//! when whoever listens is gone.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use walras_core::run::{Fault, FaultKind, WorkloadId};

use crate::clock::now;
use crate::runtime::{Output, Part, Runtime, Snapshot, SnapshotWish};

use super::{ActionState, Denied, Manager, Tally};

/// So many pieces wait for a slow listener; then the runtime waits.
const WAITING: usize = 16;

impl Manager {
    /// The last lines that a workload wrote, and those that follow.
    ///
    /// # Errors
    /// There is no such workload.
    pub fn logs(
        &self,
        id: &WorkloadId,
        service: Option<String>,
        tail: u32,
        follow: bool,
    ) -> Result<mpsc::Receiver<Result<Vec<u8>, Fault>>, Denied> {
        let runtime = self.existing(id)?;
        let (to, from) = mpsc::channel(WAITING);
        let id = id.clone();
        tokio::spawn(async move {
            let part = Part { id: &id, service: service.as_deref() };
            let mut lines = runtime.logs(part, tail, follow);
            loop {
                let line = tokio::select! {
                    line = lines.next() => line,
                    () = to.closed() => None,
                };
                let Some(line) = line else { return };
                if to.send(line).await.is_err() {
                    return;
                }
            }
        });
        Ok(from)
    }

    /// Runs a command in a workload, because `who` asked for it.
    ///
    /// # Errors
    /// There is no such workload.
    pub fn exec(
        self: &Arc<Self>,
        id: &WorkloadId,
        service: Option<String>,
        command: Vec<String>,
        input: Option<mpsc::Receiver<Vec<u8>>>,
        who: &str,
    ) -> Result<mpsc::Receiver<Result<Output, Fault>>, Denied> {
        let runtime = self.existing(id)?;
        let reason = format!("by {who}");
        let task = self.lock().actions.begin(Some(id), "exec", reason, now());
        let (to, from) = mpsc::channel(WAITING);
        let (id, manager) = (id.clone(), Arc::clone(self));
        tokio::spawn(async move {
            let part = Part { id: &id, service: service.as_deref() };
            let mut pieces = runtime.exec(part, command, input);
            let mut outcome = ActionState::Failed("nobody listened any more".to_owned());
            loop {
                let piece = tokio::select! {
                    piece = pieces.next() => piece,
                    () = to.closed() => None,
                };
                let Some(piece) = piece else { break };
                match &piece {
                    Ok(Output::Ended(0)) => outcome = ActionState::Completed,
                    Ok(Output::Ended(code)) => {
                        outcome = ActionState::Failed(format!("it ended with code {code}"));
                    }
                    Err(fault) => outcome = ActionState::Failed(fault.to_string()),
                    Ok(Output::Out(_) | Output::Error(_)) => {}
                }
                if to.send(piece).await.is_err() {
                    break;
                }
            }
            manager.lock().actions.end(task, outcome, now());
        });
        Ok(from)
    }

    /// Does something with snapshots of a workload, because `who` asked for it, and says which
    /// there are then. Nothing else is done about the workload meanwhile.
    ///
    /// # Errors
    /// There is no such workload, something is being done about it, or its runtime refuses.
    pub async fn snapshot(
        self: &Arc<Self>,
        id: &WorkloadId,
        wish: SnapshotWish,
        who: &str,
    ) -> Result<Vec<Snapshot>, Denied> {
        let runtime = self.existing(id)?;
        let not_done = |fault| Denied::NotDone { id: id.clone(), fault };
        if wish == SnapshotWish::List {
            return runtime.snapshot(id, wish).await.map_err(not_done);
        }
        let task = {
            let mut state = self.lock();
            let entry = state.entries.get_mut(id).ok_or_else(|| Denied::NotFound(id.clone()))?;
            if entry.busy || entry.queued {
                return Err(Denied::Busy(id.clone()));
            }
            entry.busy = true;
            state.actions.begin(Some(id), "snapshot", format!("by {who}"), now())
        };
        // To its end, also if whoever asked is gone.
        let (manager, asked) = (Arc::clone(self), id.clone());
        let done = tokio::spawn(async move {
            let done = runtime.snapshot(&asked, wish).await;
            let outcome = match &done {
                Ok(_) => ActionState::Completed,
                Err(fault) => ActionState::Failed(fault.to_string()),
            };
            manager.lock().actions.end(task, outcome, now());
            manager.give_back(&asked);
            done
        });
        let gone = |_| Fault::new(FaultKind::Runtime, "it was not done to its end");
        done.await.map_err(gone).and_then(|done| done).map_err(not_done)
    }

    fn existing(&self, id: &WorkloadId) -> Result<Arc<dyn Runtime>, Denied> {
        let state = self.lock();
        let entry = state.entries.get(id).ok_or_else(|| Denied::NotFound(id.clone()))?;
        let none = || Denied::NoRuntime(format!("{id}: this host has no runtime for it"));
        self.runtime_of(&entry.workload).ok_or_else(none)
    }

    /// What was counted, how long the queue is, and what is silent.
    pub(crate) fn counted(&self) -> (Tally, usize, Vec<&'static str>) {
        let state = self.lock();
        let silent = state.silent.keys().copied().collect();
        (state.tally.clone(), state.queue.len(), silent)
    }

    /// The names of all runtimes.
    pub(crate) fn runtime_names(&self) -> Vec<&'static str> {
        self.runtimes.all().map(|runtime| runtime.name()).collect()
    }

    /// The images that workloads name, now or to go back to.
    pub(crate) fn images(&self) -> std::collections::BTreeSet<String> {
        use walras_core::run::{Spec, Work};
        let of = |spec: &Spec| match &spec.work {
            Work::Container(container) => vec![container.image.clone()],
            Work::Compose(compose) => compose.images(&spec.secrets).unwrap_or_default(),
            Work::Vm(_) | Work::Custom(_) => Vec::new(),
        };
        let state = self.lock();
        let specs = state.entries.values().flat_map(|entry| entry.workload.specs());
        specs.flat_map(of).collect()
    }
}
