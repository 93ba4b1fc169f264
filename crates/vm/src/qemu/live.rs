//! A machine whose process is there: the connection to it, and how it is stopped.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Mutex, broadcast};
use tokio::time;
use walras_core::units::Resources;

use crate::error::VmError;
use crate::folder::{Ending, Folder};
use crate::group::Groups;
use crate::port::{Destination, Handover, Machine, Migration, MigrationTerms, Observed, RunState};
use crate::process::Process;
use crate::qmp::{Event, Qmp, QmpError};
use crate::spec::MachineSpec;

/// A guest that did not hear the button is asked again after this.
const PRESS_AGAIN: Duration = Duration::from_secs(5);
/// What is waited for is looked at so often, even if nobody says that something happened.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A machine whose process is there.
#[derive(Debug)]
pub struct QemuMachine {
    spec: MachineSpec,
    folder: Folder,
    process: Process,
    groups: Option<Groups>,
    qmp: Mutex<Option<Qmp>>,
    /// Held by whoever changes the machine.
    pub(super) change: Mutex<()>,
    pub(super) change_within: Duration,
    /// Whether its end was taken note of.
    pub(super) is_over: AtomicBool,
}

impl QemuMachine {
    pub(super) fn new(
        spec: MachineSpec,
        folder: Folder,
        process: Process,
        groups: Option<Groups>,
    ) -> Self {
        let (qmp, change) = (Mutex::new(None), Mutex::new(()));
        let change_within = Duration::from_secs(9);
        let is_over = AtomicBool::new(false);
        Self { spec, folder, process, groups, qmp, change, change_within, is_over }
    }

    pub(super) fn with_patience(self, change_within: Duration) -> Self {
        Self { change_within, ..self }
    }

    /// What it was defined as.
    #[must_use]
    pub const fn spec(&self) -> &MachineSpec {
        &self.spec
    }

    /// The number of its process.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(super) const fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(super) const fn process(&self) -> Process {
        self.process
    }

    pub(super) const fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref()
    }

    /// Tells one start from another.
    #[must_use]
    pub fn start_stamp(&self) -> String {
        self.process.stamp()
    }

    /// A connection, made anew where it ended.
    pub(super) async fn qmp(&self) -> Result<Qmp, VmError> {
        let mut kept = self.qmp.lock().await;
        if let Some(qmp) = kept.as_ref().filter(|qmp| !qmp.is_closed()) {
            return Ok(qmp.clone());
        }
        let connected = Qmp::connect(&self.folder.qmp()).await;
        let connected = connected.map_err(|error| self.fault("connect", error))?;
        *kept = Some(connected.clone());
        Ok(connected)
    }

    /// Asks QEMU.
    pub(super) async fn ask(&self, command: &str, arguments: Value) -> Result<Value, VmError> {
        let answer = self.qmp().await?.ask(command, arguments).await;
        answer.map_err(|error| self.fault(command, error))
    }

    /// What an error of the monitor means.
    pub(super) fn fault(&self, command: &str, error: QmpError) -> VmError {
        let (name, command) = (self.spec.name.clone(), command.to_owned());
        match error {
            QmpError::Closed(_) if !self.process.lives() => VmError::Gone { name },
            QmpError::Closed(_) => VmError::Silent { name, command, waited_ms: 0 },
            QmpError::Silent(waited) => {
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                VmError::Silent { name, command, waited_ms }
            }
            QmpError::Refused { desc, .. } => VmError::Refused { name, command, because: desc },
        }
    }

    /// What its guest does.
    pub(super) async fn state(&self) -> Result<RunState, VmError> {
        let answer = self.ask("query-status", Value::Null).await?;
        Ok(run_state(answer.get("status").and_then(Value::as_str).unwrap_or_default()))
    }

    /// Lets a machine go on that stands still.
    pub(super) async fn let_go(&self) -> Result<(), VmError> {
        self.ask("cont", Value::Null).await.map(|_| ())
    }

    /// Tells QEMU to end. What comes of it shows by the process.
    pub(super) async fn quit(&self) {
        if let Err(error) = self.ask("quit", Value::Null).await {
            tracing::debug!("{error}");
        }
    }

    /// Asks the guest to switch itself off, for as long as `grace`, and says how it ended.
    pub(super) async fn shut_down(&self, grace: Duration) -> Result<Ending, VmError> {
        // A move or a change that is under way comes first, but not for ever.
        let turn = time::timeout(self.change_within, self.change.lock()).await.ok();
        let deadline = Instant::now() + grace;
        let forced = |words: &str| Ending { code: 0, words: words.to_owned() };
        match self.state().await {
            Ok(RunState::Running) if !grace.is_zero() => {}
            Ok(RunState::Ended) => return Ok(Ending::by_guest()),
            Ok(_) => return Ok(forced("it was stopped while it did not run")),
            Err(VmError::Gone { .. }) => return Ok(forced("its process had ended")),
            Err(error) => {
                tracing::warn!("{error}; its process is ended");
                return Ok(forced("it was stopped by force, because QEMU did not answer"));
            }
        }
        let mut press_at = Instant::now();
        while Instant::now() < deadline {
            if Instant::now() >= press_at {
                press_at = Instant::now() + PRESS_AGAIN;
                self.ask("system_powerdown", Value::Null).await?;
            }
            match self.state().await {
                Ok(RunState::Ended) => return Ok(Ending::by_guest()),
                Ok(_) => {}
                Err(VmError::Gone { .. }) => return Ok(Ending::by_guest()),
                Err(error) => tracing::warn!("{error}"),
            }
            time::sleep(LOOK_EVERY).await;
        }
        drop(turn);
        let words = format!("it was stopped by force after {} s", grace.as_secs());
        Ok(forced(&words))
    }

    /// Waits for something that has to be looked at again and again: see [`Watch::pause`].
    pub(super) async fn watch(
        &self,
        deadline: Instant,
        what: &'static str,
    ) -> Result<Watch<'_>, VmError> {
        let events = self.qmp().await?.events();
        Ok(Watch { machine: self, events, began: Instant::now(), deadline, what })
    }

    /// The kind of machine that QEMU made, without its ending.
    pub(super) async fn machine_type(&self) -> Result<String, VmError> {
        let path = json!({ "path": "/machine", "property": "type" });
        let kind = self.ask("qom-get", path).await?;
        let kind = kind.as_str().unwrap_or_default();
        Ok(kind.strip_suffix("-machine").unwrap_or(kind).to_owned())
    }
}

/// Something that is waited for.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    machine: &'a QemuMachine,
    events: broadcast::Receiver<Event>,
    began: Instant,
    deadline: Instant,
    what: &'static str,
}

impl Watch<'_> {
    /// Returns when it is worth looking again: when QEMU says that something happened, and every
    /// now and then.
    ///
    /// # Errors
    /// It takes too long.
    pub(super) async fn pause(&mut self) -> Result<(), VmError> {
        if Instant::now() >= self.deadline {
            let waited_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let (name, what) = (self.machine.spec.name.clone(), self.what.to_owned());
            return Err(VmError::GuestSlow { name, what, waited_ms });
        }
        let heard = time::timeout(LOOK_EVERY, self.events.recv()).await;
        if heard.is_ok_and(|event| event.is_err()) {
            // Some were missed, or the connection ended.
            time::sleep(LOOK_EVERY).await;
            self.events = self.machine.qmp().await?.events();
        }
        Ok(())
    }
}

impl Machine for QemuMachine {
    fn name(&self) -> &str {
        &self.spec.name
    }

    fn observe(&self) -> BoxFuture<'_, Result<Observed, VmError>> {
        Box::pin(async { self.read().await.map(|(observed, _)| observed) })
    }

    fn resize(&self, to: Resources, version: u64) -> BoxFuture<'_, Result<Observed, VmError>> {
        Box::pin(self.change_size(to, version))
    }

    fn handover(&self) -> BoxFuture<'_, Result<Handover, VmError>> {
        Box::pin(self.hand_over())
    }

    fn migrate<'a>(
        &'a self,
        to: &'a Destination,
        terms: MigrationTerms,
    ) -> BoxFuture<'a, Result<(), VmError>> {
        Box::pin(self.send(to, terms))
    }

    fn migration(&self) -> BoxFuture<'_, Result<Migration, VmError>> {
        Box::pin(self.progress())
    }

    fn cancel_migration(&self) -> BoxFuture<'_, Result<(), VmError>> {
        Box::pin(async { self.ask("migrate_cancel", Value::Null).await.map(|_| ()) })
    }
}

/// What QEMU's word for a state means.
fn run_state(word: &str) -> RunState {
    match word {
        "running" | "finish-migrate" | "watchdog" => RunState::Running,
        "inmigrate" => RunState::Receiving,
        "postmigrate" => RunState::Sent,
        "shutdown" => RunState::Ended,
        "guest-panicked" | "internal-error" | "io-error" => RunState::Failed,
        _ => RunState::Paused,
    }
}

impl Ending {
    pub(super) fn by_guest() -> Self {
        Self { code: 0, words: "its guest switched it off".to_owned() }
    }
}
