//! Runs workloads on this host, as `walras host` with `--run-listen` or `--run-socket` does.
//!
//! [`start`] opens the store, looks at what is there, and serves the workload API until it is told
//! to stop. What to do about a workload is decided by `walras_core::run`; here it is carried out:
//! saved first (`store`), then done by a runtime (`runtime`), then told (`api`). Nothing is removed
//! because something does not answer or is not known.
#![forbid(unsafe_code)]

mod api;
mod beside;
mod clock;
mod control;
mod convert;
mod daemon;
mod machine;
mod machines;
mod manager;
mod metrics;
mod record;
mod runtime;
mod store;

pub use beside::Beside;
pub use control::ControlOptions;
pub use convert::{Request, SpecError, request};
pub use daemon::{Options, RunError, Running, serve, start};
pub use machines::{Machines, Market, NoMarket, Others, SizingError, SizingOptions};
pub use manager::{
    Action, ActionState, Applied, Denied, FaultPoint, Filter, Manager, ManagerOptions, Told,
};
pub use record::{LimitRecord, LimitRecords};
pub use runtime::{
    ComposeRuntime, Docker, DockerOptions, Job, LibvirtRuntime, Output, Part, Runtime,
    RuntimeEvents, RuntimeLogs, RuntimeOutput, Runtimes, Snapshot, SnapshotWish, Unneeded,
    VmRuntime, usual_compose, usual_qemu,
};
pub use store::{Loaded, MemoryStore, Quarantined, RedbStore, Store, StoreError};
