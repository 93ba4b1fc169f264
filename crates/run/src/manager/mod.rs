//! Brings workloads to what is wanted of them: saves first, then lets the runtime act, then looks.
//!
//! Requests only change what is wanted, save it and put the workload into the queue; workers take
//! one out and do what `walras_core::run` says until there is nothing to do. The queue holds each
//! workload once, and a workload is with one worker at a time. Saving happens under the lock, so
//! that what is on disk is never older than what was answered. What cannot be saved is not done.

mod actions;
mod asked;
mod entry;
mod talk;
mod tally;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use walras_core::run::{
    Capacity, Fault, FieldFault, Kind, Op, Refusal, Status, Verdict, WorkloadId,
};

use crate::runtime::Runtimes;
use crate::store::{Quarantined, Store, StoreError};

use self::actions::Actions;
use self::entry::Entry;

pub use actions::{Action, ActionState, Filter};
pub use asked::Told;
pub(crate) use tally::Tally;

/// How often everything is looked at.
pub(crate) const RECONCILE_EVERY: Duration = Duration::from_secs(30);
/// So many workloads are worked on at once.
pub(crate) const WORKERS: usize = 10;
/// How long a question for a status may wait for the runtime.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// How a manager works.
#[derive(Clone, Copy, Debug)]
pub struct ManagerOptions {
    /// What the host has for workloads.
    pub capacity: Capacity,
    /// Where the process is to end at once, for tests of crashes.
    pub fault: Option<FaultPoint>,
}

/// A place in the life of an operation: before or after its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPoint {
    /// Which operation.
    pub op: Op,
    /// Whether after its effect, or else between saving and the effect.
    pub after: bool,
}

/// Runs the workloads of this host.
pub struct Manager {
    state: Mutex<State>,
    store: Box<dyn Store>,
    runtimes: Runtimes,
    wake: Notify,
    options: ManagerOptions,
}

struct State {
    entries: BTreeMap<WorkloadId, Entry>,
    /// Workloads to be worked on, each once.
    queue: VecDeque<WorkloadId>,
    drained: bool,
    quarantined: Vec<Quarantined>,
    actions: Actions,
    /// Runtimes that did not answer the last time, and why.
    silent: BTreeMap<&'static str, String>,
    tally: Tally,
}

/// What came of an apply.
#[derive(Clone, Debug)]
pub struct Applied {
    /// What it came to; nothing if the workload is new.
    pub verdict: Option<Verdict>,
    /// The action to follow.
    pub task: Option<u64>,
    /// How the workload is now.
    pub status: Status,
}

/// Why a request was not carried out. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// There is no such workload.
    #[error("{0}: there is no such workload")]
    NotFound(WorkloadId),
    /// It is being deleted.
    #[error("{0}: it is being deleted; try again when it is gone")]
    Deleting(WorkloadId),
    /// It is of another kind.
    #[error(
        "type: {id} is {}; delete it first to make it {}", there.name(), wanted.name()
    )]
    OtherKind {
        /// Which workload.
        id: WorkloadId,
        /// What it is.
        there: Kind,
        /// What it should become.
        wanted: Kind,
    },
    /// Another runtime has it.
    #[error("vm.hypervisor: {id} is run by {there}; delete it first to have it run by {wanted}")]
    OtherRuntime {
        /// Which workload.
        id: WorkloadId,
        /// Who runs it.
        there: &'static str,
        /// Who should.
        wanted: &'static str,
    },
    /// Something is being done about it.
    #[error("{0}: something is being done about it; try again")]
    Busy(WorkloadId),
    /// Its runtime did not do it.
    #[error("{id}: {fault}")]
    NotDone {
        /// Which workload.
        id: WorkloadId,
        /// Why not.
        fault: Fault,
    },
    /// This host has no runtime for it.
    #[error("{0}")]
    NoRuntime(String),
    /// Its runtime refuses these fields.
    #[error("{}", told(.0))]
    Faults(Vec<FieldFault>),
    /// Another workload has the project that it wants.
    #[error("project_name: `{project}` belongs to the workload {owner}")]
    Taken {
        /// Which project.
        project: String,
        /// Whose it is.
        owner: WorkloadId,
    },
    /// The host has no room for it.
    #[error("{0}")]
    NoRoom(#[from] Refusal),
    /// It could not be saved.
    #[error("nothing was changed: {0}")]
    NotSaved(#[from] StoreError),
}

// === impl Manager ===

impl Manager {
    /// Takes up what the store has. Nothing is done until somebody works: see [`Manager::serve`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(
        store: Box<dyn Store>,
        runtimes: Runtimes,
        options: ManagerOptions,
    ) -> Result<Arc<Self>, StoreError> {
        let loaded = store.load()?;
        let mut entries = BTreeMap::new();
        for mut workload in loaded.workloads {
            let before = workload.save();
            workload.drained(loaded.drained);
            let record = workload.save();
            if record != before {
                store.save(workload.id(), &record)?;
            }
            entries.insert(workload.id().clone(), Entry::new(workload));
        }
        let state = State {
            entries,
            queue: VecDeque::new(),
            drained: loaded.drained,
            quarantined: loaded.quarantined,
            actions: Actions::default(),
            silent: BTreeMap::new(),
            tally: Tally::default(),
        };
        let (state, wake) = (Mutex::new(state), Notify::new());
        Ok(Arc::new(Self { state, store, runtimes, wake, options }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a workload into the queue, if it is not there.
    fn enqueue(&self, state: &mut State, id: &WorkloadId) {
        let Some(entry) = state.entries.get_mut(id) else { return };
        if entry.busy {
            entry.again = true;
        } else if !entry.queued {
            entry.queued = true;
            state.queue.push_back(id.clone());
            self.wake.notify_one();
        }
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manager of {} workloads", self.lock().entries.len())
    }
}

/// Faults as one text.
fn told(faults: &[FieldFault]) -> String {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    faults.join("; ")
}

// === impl FaultPoint ===

impl FromStr for FaultPoint {
    type Err = String;

    /// Such as `before:create` or `after:start`.
    fn from_str(text: &str) -> Result<Self, String> {
        let ops = [Op::Prepare, Op::Create, Op::Start, Op::Stop, Op::Remove];
        let (when, name) = text.split_once(':').ok_or("must be before:OP or after:OP")?;
        let op = ops.into_iter().find(|op| op.name() == name);
        match (when, op) {
            ("before", Some(op)) => Ok(Self { op, after: false }),
            ("after", Some(op)) => Ok(Self { op, after: true }),
            (_, _) => Err("OP is prepare, create, start, stop or remove".to_owned()),
        }
    }
}
