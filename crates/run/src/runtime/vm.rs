//! Virtual machines on QEMU, run by `crates/vm`.
//!
//! A machine is named after its workload; what its revision is and that it is ours is kept with it.
//! It lives on when this daemon ends, and is found again. Disks are never removed. Secrets are
//! handed to the guest when it starts, so a machine that has some cannot start without them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::broadcast::error::RecvError;
use tokio::time;
use walras_core::run::{
    Fault, FaultKind, Hypervisor, Instance, InstanceState, Op, Work, WorkloadId,
};
use walras_vm::{Life, Look, MachineSpec, Qemu, QemuOptions, RunState, Secrets, VmError};

use super::{Job, Part, Runtime, RuntimeEvents, RuntimeLogs, Snapshot, SnapshotWish};
use crate::machines::Machines;

/// What is kept with a machine.
const MANAGED: &str = "persys.managed";
const REVISION: &str = "persys.revision_id";
/// How long a guest has to switch itself off.
const STOP_KINDLY: Duration = Duration::from_secs(30);
/// How often the console is looked at by who follows it.
const FOLLOW_EVERY: Duration = Duration::from_millis(300);

/// QEMU.
#[derive(Debug)]
pub struct VmRuntime {
    qemu: Arc<Qemu>,
    /// Who sizes machines, where somebody does.
    machines: Option<Arc<Machines>>,
}

impl VmRuntime {
    /// The machines that are kept in `state`, run by `program`; `memory` is a folder in memory.
    ///
    /// # Errors
    /// Their control groups cannot be used.
    pub fn on(program: PathBuf, state: PathBuf, memory: PathBuf) -> Result<Self, String> {
        let mut options = QemuOptions::new(state, memory);
        options.image_program = program.with_file_name("qemu-img");
        options.program = program;
        let qemu = Qemu::new(options).map_err(|error| error.to_string())?;
        Ok(Self { qemu: Arc::new(qemu), machines: None })
    }

    /// The same, with somebody who sizes machines, and has to have room for each that starts.
    #[must_use]
    pub fn sized_by(self, machines: Arc<Machines>) -> Self {
        Self { machines: Some(machines), ..self }
    }

    /// The machines themselves, for who sizes and moves them.
    #[must_use]
    pub const fn machines(&self) -> &Arc<Qemu> {
        &self.qemu
    }

    async fn carry_out(&self, job: Job<'_>) -> Result<(), Fault> {
        let name = job.id.as_str();
        match job.op {
            Op::Prepare => prepare(&machine(job)?),
            Op::Create => {
                let tags = [(MANAGED, "true"), (REVISION, job.spec.revision.as_str())];
                let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
                self.qemu.define(machine(job)?, tags).await.map_err(|error| fault(&error))
            }
            Op::Start => {
                let handed = job.secrets.iter();
                let handed = handed.map(|(name, value)| (name.clone(), value.clone().into_bytes()));
                if let Some(machines) = &self.machines {
                    let admitted = machines.admit(&machine(job)?).await;
                    admitted.map_err(|words| Fault::new(FaultKind::Runtime, words))?;
                }
                let started = self.qemu.start(name, &Secrets(handed.collect())).await;
                if let (Err(_), Some(machines)) = (&started, &self.machines) {
                    machines.not_started(name);
                }
                started.map(|_| ()).map_err(|error| fault(&error))
            }
            Op::Stop => self.qemu.stop(name, STOP_KINDLY).await.map_err(|error| fault(&error)),
            Op::Remove => {
                let stopped = self.qemu.stop(name, Duration::ZERO).await;
                stopped.map_err(|error| fault(&error))?;
                self.qemu.remove(name).map_err(|error| fault(&error))
            }
        }
    }

    async fn found(&self, id: &WorkloadId) -> Result<Option<Instance>, Fault> {
        let look = self.qemu.look(id.as_str()).await.map_err(|error| fault(&error))?;
        Ok(look.filter(|look| look.tags.contains_key(MANAGED)).map(|look| instance(id, look)))
    }
}

impl Runtime for VmRuntime {
    fn name(&self) -> &'static str {
        "qemu"
    }

    fn takes(&self, work: &Work) -> bool {
        matches!(work, Work::Vm(vm) if vm.hypervisor == Hypervisor::Qemu)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async {
            let answered = self.qemu.version().await;
            let silent = |error: VmError| Fault::new(FaultKind::Silent, error.to_string());
            answered.map(|_| ()).map_err(silent)
        })
    }

    fn act<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.carry_out(job))
    }

    fn look<'a>(&'a self, id: &'a WorkloadId) -> BoxFuture<'a, Result<Vec<Instance>, Fault>> {
        Box::pin(async move { Ok(self.found(id).await?.into_iter().collect()) })
    }

    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<WorkloadId, Vec<Instance>>, Fault>> {
        Box::pin(async {
            let mut all = BTreeMap::new();
            for name in self.qemu.names().map_err(|error| fault(&error))? {
                let Ok(id) = WorkloadId::new(&name) else { continue };
                if let Some(instance) = self.found(&id).await? {
                    all.insert(id, vec![instance]);
                }
            }
            Ok(all)
        })
    }

    fn events(&self) -> RuntimeEvents<'_> {
        let heard = stream::unfold(self.qemu.changes(), |mut changes| async move {
            loop {
                match changes.recv().await {
                    Ok(name) => match WorkloadId::new(&name) {
                        Ok(id) => return Some((Ok(id), changes)),
                        Err(_) => continue,
                    },
                    // Some were missed: whoever listens looks at everything then.
                    Err(RecvError::Lagged(_)) => {
                        let missed = Fault::new(FaultKind::Silent, "some events were missed");
                        return Some((Err(missed), changes));
                    }
                    Err(RecvError::Closed) => return None,
                }
            }
        });
        heard.boxed()
    }

    fn snapshot<'a>(
        &'a self,
        id: &'a WorkloadId,
        wish: SnapshotWish,
    ) -> BoxFuture<'a, Result<Vec<Snapshot>, Fault>> {
        Box::pin(async move {
            let (qemu, name) = (&self.qemu, id.as_str());
            let done = match &wish {
                SnapshotWish::List => Ok(()),
                SnapshotWish::Take(tag) => qemu.take_snapshot(name, tag).await,
                SnapshotWish::Revert(tag) => qemu.revert(name, tag).await,
                SnapshotWish::Drop(tag) => qemu.drop_snapshot(name, tag).await,
            };
            done.map_err(|error| fault(&error))?;
            let there = qemu.snapshots(name).await.map_err(|error| fault(&error))?;
            Ok(there
                .into_iter()
                .map(|it| Snapshot { name: it.name, taken_s: it.taken_s })
                .collect())
        })
    }

    fn logs<'a>(&'a self, part: Part<'a>, tail: u32, follow: bool) -> RuntimeLogs<'a> {
        let name = part.id.as_str();
        let read = move |place| self.qemu.console(name, place).map_err(|error| fault(&error));
        console_lines(tail, follow, read)
    }
}

/// The end of a console, and what follows, as `read` gives it from a place on.
pub(super) fn console_lines<'a>(
    tail: u32,
    follow: bool,
    read: impl Fn(Option<u64>) -> Result<(Vec<u8>, u64), Fault> + Send + Sync + 'a,
) -> RuntimeLogs<'a> {
    let told = stream::unfold((None, read), move |(seen, read): (Option<u64>, _)| async move {
        loop {
            if seen.is_some() && !follow {
                return None;
            }
            if seen.is_some() {
                time::sleep(FOLLOW_EVERY).await;
            }
            let (text, end) = match read(seen) {
                Ok(read) => read,
                Err(fault) => return Some((Err(fault), (Some(u64::MAX), read))),
            };
            let text = if seen.is_none() { last_lines(&text, tail) } else { text };
            if seen.is_none() || !text.is_empty() {
                return Some((Ok(text), (Some(end), read)));
            }
        }
    });
    told.boxed()
}

/// QEMU where distributions put it, if it is there.
#[must_use]
pub fn usual_qemu() -> Option<PathBuf> {
    let places = ["/usr/bin/qemu-system-x86_64", "/usr/local/bin/qemu-system-x86_64"];
    places.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// What the machine of a workload is.
pub(super) fn machine(job: Job<'_>) -> Result<MachineSpec, Fault> {
    let Work::Vm(vm) = &job.spec.work else {
        return Err(Fault::new(FaultKind::InvalidSpec, "it is no virtual machine"));
    };
    serde_json::from_value(vm.machine.clone())
        .map_err(|error| Fault::new(FaultKind::InvalidSpec, error.to_string()))
}

/// Whether the files are there that nobody makes.
pub(super) fn prepare(machine: &MachineSpec) -> Result<(), Fault> {
    let boot = [&machine.boot.kernel, &machine.boot.initrd].into_iter().flatten();
    let disks = machine.disks.iter().filter(|disk| disk.create.is_none()).map(|disk| &disk.path);
    match boot.chain(disks).find(|path| !path.exists()) {
        Some(path) => {
            let words = format!("there is no {}", path.display());
            Err(Fault::new(FaultKind::ImageNotFound, words))
        }
        None => Ok(()),
    }
}

fn instance(id: &WorkloadId, look: Look) -> Instance {
    let state = match look.life {
        Life::Defined => InstanceState::Created,
        Life::Live { state, .. } => what_it_does(state),
        Life::Ended(ending) => InstanceState::Exited { code: ending.code },
    };
    let started = if look.starts == 0 { String::new() } else { look.starts.to_string() };
    let revision = look.tags.get(REVISION).cloned().unwrap_or_default();
    Instance { handle: id.to_string(), revision, started, state, health: None }
}

const fn what_it_does(state: RunState) -> InstanceState {
    match state {
        RunState::Running | RunState::Receiving => InstanceState::Running,
        RunState::Paused => InstanceState::Paused,
        RunState::Sent | RunState::Ended => InstanceState::Exited { code: 0 },
        RunState::Failed => InstanceState::Exited { code: 1 },
    }
}

/// What an error means, by its kind.
fn fault(error: &VmError) -> Fault {
    let kind = match error {
        VmError::Spec(_) | VmError::OutOfBounds { .. } => FaultKind::InvalidSpec,
        VmError::Gone { .. } => FaultKind::NotFound,
        VmError::Silent { .. } => FaultKind::Silent,
        VmError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
            FaultKind::NameInUse
        }
        VmError::Io { .. } => FaultKind::Storage,
        VmError::NotStarted { .. }
        | VmError::Refused { .. }
        | VmError::Stale { .. }
        | VmError::GuestSlow { .. }
        | VmError::GuestRefused { .. }
        | VmError::Moving { .. }
        | VmError::NotMoved { .. }
        | VmError::Group { .. } => FaultKind::Runtime,
    };
    Fault::new(kind, error.to_string())
}

/// The end of a text.
fn last_lines(text: &[u8], tail: u32) -> Vec<u8> {
    let tail = usize::try_from(tail).unwrap_or(usize::MAX);
    let whole = text.strip_suffix(b"\n").unwrap_or(text);
    let ends = whole.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let start = match tail {
        0 => text.len(),
        tail => ends.map(|(index, _)| index + 1).nth(tail - 1).unwrap_or(0),
    };
    text[start..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_told() {
        assert_eq!(last_lines(b"a\nb\nc\n", 2), b"b\nc\n");
        assert_eq!(last_lines(b"a\nb\nc", 2), b"b\nc");
        assert_eq!(last_lines(b"a\nb\n", 5), b"a\nb\n");
        assert_eq!(last_lines(b"a\nb\n", 0), b"");
        assert_eq!(last_lines(b"", 3), b"");
    }

    #[test]
    fn errors_are_told_by_their_kind() {
        let name = || "db".to_owned();
        let kind = |error: VmError| fault(&error).kind;
        let silent = VmError::Silent { name: name(), command: "quit".into(), waited_ms: 1 };
        assert_eq!(kind(silent), FaultKind::Silent);
        assert_eq!(kind(VmError::Gone { name: name() }), FaultKind::NotFound);
        let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        let there = VmError::Io { name: name(), what: "define it".into(), source };
        assert_eq!(kind(there), FaultKind::NameInUse);
    }
}
