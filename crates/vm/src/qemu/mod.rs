//! Machines as QEMU processes: defined, started, found again, stopped and removed.
//!
//! A machine is *defined* (its folder says what it is), *live* (a process is there) or *ended*. The
//! folder is the truth, so a daemon that is started anew finds every machine as it is, and starts
//! none twice: QEMU itself refuses to run where another one holds the file with its number.

mod guest;
mod keep;
mod live;
mod migrate;
mod read;
mod resize;
mod snapshot;
mod start;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, broadcast};
use tokio::{task, time};
use walras_cgroup::{CgroupPath, Layout};

use crate::accel;
use crate::error::VmError;
use crate::folder::{Ending, Folder, Saved};
use crate::group::Groups;
use crate::port::{Machine as _, RunState};
use crate::process::Process;
use crate::spec::{MachineSpec, is_name};

pub use self::guest::WayIn;
pub use self::live::QemuMachine;
pub use self::snapshot::Snapshot;
pub use self::start::seed_image;

/// How long a process may take to end once it was told to.
const END: Duration = Duration::from_secs(10);
/// So many changes are kept for a listener that is behind.
const CHANGES_KEPT: usize = 256;

/// How machines are run.
#[derive(Clone, Debug)]
pub struct QemuOptions {
    /// QEMU.
    pub program: PathBuf,
    /// The program that makes images.
    pub image_program: PathBuf,
    /// Where machines are kept.
    pub state: PathBuf,
    /// Where sockets and seeds are: in memory, and with a short path.
    pub run: PathBuf,
    /// The control groups and the group in which machines get theirs; nothing for none, and then
    /// machines have whole CPUs.
    pub group: Option<(Layout, CgroupPath)>,
    /// How long the guest may take for a change of its size.
    pub change_within: Duration,
}

/// All machines of a host.
#[derive(Debug)]
pub struct Qemu {
    options: QemuOptions,
    groups: Option<Groups>,
    live: Mutex<BTreeMap<String, Arc<QemuMachine>>>,
    /// Whose turn it is to start or to clear up, by name.
    turns: Mutex<BTreeMap<String, Arc<Turn>>>,
    changes: broadcast::Sender<String>,
    kvm: OnceCell<bool>,
}

type Turn = tokio::sync::Mutex<()>;

/// A machine as it is found.
#[derive(Clone, Debug)]
pub struct Look {
    /// What it is.
    pub spec: MachineSpec,
    /// What whoever defined it wants to know again.
    pub tags: BTreeMap<String, String>,
    /// What it does.
    pub life: Life,
    /// How often it was started.
    pub starts: u64,
}

/// What a machine does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// It was never started.
    Defined,
    /// Its process is there.
    Live {
        /// What its guest does.
        state: RunState,
        /// Tells one start from another.
        start: String,
    },
    /// Its process ended.
    Ended(Ending),
}

impl QemuOptions {
    /// As Debian installs QEMU, with machines in `state` and control groups in `walras`.
    #[must_use]
    pub fn new(state: PathBuf, run: PathBuf) -> Self {
        let layout = Layout::of_this_machine().ok();
        Self {
            program: "qemu-system-x86_64".into(),
            image_program: "qemu-img".into(),
            state,
            run,
            group: layout.zip(CgroupPath::new(b"walras")),
            change_within: Duration::from_secs(9),
        }
    }
}

impl Qemu {
    /// All machines below `options.state`. None is touched until somebody asks.
    ///
    /// # Errors
    /// There is a control group to be used, and it cannot be.
    pub fn new(options: QemuOptions) -> Result<Self, VmError> {
        let groups = options.group.clone().map(|(layout, path)| Groups::new(layout, path));
        let groups = groups.transpose();
        let groups = groups.map_err(|source| VmError::Group { name: "machines".into(), source })?;
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        let (live, turns, kvm) = (Mutex::default(), Mutex::default(), OnceCell::new());
        Ok(Self { options, groups, live, turns, changes, kvm })
    }

    /// Whether QEMU can be used at all, and its version.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn version(&self) -> Result<String, VmError> {
        let told = output(&self.options.program, vec!["--version".to_owned()]).await;
        let told = told.map_err(|source| VmError::Io {
            name: "qemu".to_owned(),
            what: format!("run {} --version", self.options.program.display()),
            source,
        })?;
        Ok(told.lines().next().unwrap_or_default().to_owned())
    }

    /// Defines a machine. Its disks that are not there are made.
    ///
    /// # Errors
    /// The spec is wrong, there is such a machine already, or a disk cannot be made.
    pub async fn define(
        &self,
        spec: MachineSpec,
        tags: BTreeMap<String, String>,
    ) -> Result<(), VmError> {
        spec.check().map_err(VmError::Spec)?;
        let folder = self.folder(&spec.name);
        if folder.exists() {
            let source = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(failed(&spec.name, "define it", source));
        }
        self.make_disks(&spec).await?;
        let name = spec.name.clone();
        let kept = folder.make().and_then(|()| folder.save(&Saved::new(spec, tags)));
        kept.map_err(|source| failed(&name, "keep it", source))
    }

    /// How a machine is; nothing if it is not defined.
    ///
    /// # Errors
    /// What is kept of it cannot be read, or its process does not answer.
    pub async fn look(self: &Arc<Self>, name: &str) -> Result<Option<Look>, VmError> {
        let folder = self.folder(name);
        if !is_name(name, 128) || !folder.exists() {
            return Ok(None);
        }
        let saved = folder.load().map_err(|source| failed(name, "read it", source))?;
        let life = match self.machine(name).await {
            Ok(machine) => match machine.observe().await {
                Ok(seen) => Life::Live { state: seen.state, start: machine.start_stamp() },
                Err(VmError::Gone { .. }) => ended(&folder),
                Err(error) => return Err(error),
            },
            Err(VmError::Gone { .. }) => ended(&folder),
            Err(error) => return Err(error),
        };
        let starts = folder.starts();
        Ok(Some(Look { spec: saved.spec, tags: saved.tags, life, starts }))
    }

    /// The names of all machines that are defined.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, VmError> {
        let entries = match fs::read_dir(&self.options.state) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed("machines", "list them", source)),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| self.folder(name).exists()).collect();
        names.sort();
        Ok(names)
    }

    /// A machine whose process is there, to be seen, sized and moved.
    ///
    /// # Errors
    /// [`VmError::Gone`] if there is none.
    pub async fn machine(self: &Arc<Self>, name: &str) -> Result<Arc<QemuMachine>, VmError> {
        let folder = self.folder(name);
        let Some(process) = Process::find(&folder.pid()) else {
            self.kept().remove(name);
            return Err(VmError::Gone { name: name.to_owned() });
        };
        if let Some(known) = self.kept().get(name).filter(|known| known.process() == process) {
            return Ok(Arc::clone(known));
        }
        let saved = folder.load().map_err(|source| failed(name, "read it", source))?;
        let found = QemuMachine::new(saved.spec, folder, process, self.groups.clone());
        let found = Arc::new(found.with_patience(self.options.change_within));
        // Another may have found it meanwhile; one of them is kept, and looked after.
        let mut kept = self.kept();
        if let Some(known) = kept.get(name).filter(|known| known.process() == process) {
            return Ok(Arc::clone(known));
        }
        kept.insert(name.to_owned(), Arc::clone(&found));
        keep::keep(Arc::downgrade(self), Arc::clone(&found));
        Ok(found)
    }

    /// The names of machines with which something happened, from now on.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<String> {
        self.changes.subscribe()
    }

    /// Stops a machine: asks its guest, and ends it if it is still there after `grace`. One that is
    /// not there is fine.
    ///
    /// # Errors
    /// Its process cannot be ended.
    pub async fn stop(self: &Arc<Self>, name: &str, grace: Duration) -> Result<(), VmError> {
        match self.machine(name).await {
            Ok(machine) => {
                let ending = machine.shut_down(grace).await?;
                self.ended(&machine, &ending).await
            }
            Err(VmError::Gone { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a machine that does not run. Its disks stay.
    ///
    /// # Errors
    /// It runs, or a file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), VmError> {
        let folder = self.folder(name);
        if Process::find(&folder.pid()).is_some() {
            let source = io::Error::other("it runs");
            return Err(failed(name, "remove it", source));
        }
        self.kept().remove(name);
        self.clear_group(name);
        folder.remove().map_err(|source| failed(name, "remove it", source))
    }

    /// What a machine wrote to its console from a place on, and the place at which that ends; all
    /// that is kept where no place is given.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn console(&self, name: &str, place: Option<u64>) -> Result<(Vec<u8>, u64), VmError> {
        let read = self.folder(name).console_from(place);
        read.map_err(|source| failed(name, "read its console", source))
    }

    /// The number of a machine's process, if it is there.
    #[must_use]
    pub fn pid(&self, name: &str) -> Option<u32> {
        Process::find(&self.folder(name).pid()).map(|process| process.pid())
    }

    fn folder(&self, name: &str) -> Folder {
        Folder::of(&self.options.state, &self.options.run, name)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Arc<QemuMachine>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a process, unless another has taken its place.
    fn forget(&self, machine: &QemuMachine) {
        let mut kept = self.kept();
        let name = &machine.spec().name;
        if kept.get(name).is_some_and(|known| known.process() == machine.process()) {
            kept.remove(name);
        }
    }

    fn turn(&self, name: &str) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(name.to_owned()).or_default())
    }

    /// Takes note of a machine's end, and waits until its process is gone.
    async fn ended(&self, machine: &QemuMachine, ending: &Ending) -> Result<(), VmError> {
        let turn = self.turn(&machine.spec().name);
        let _turn = turn.lock().await;
        self.ended_in_turn(machine, ending).await
    }

    /// The same for who has the turn. Only the first who notices does anything: afterwards another
    /// process may be in its place.
    async fn ended_in_turn(&self, machine: &QemuMachine, ending: &Ending) -> Result<(), VmError> {
        if machine.is_over.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let (name, folder) = (machine.spec().name.clone(), machine.folder());
        let kept = folder.save_ending(ending);
        kept.map_err(|source| failed(&name, "keep how it ended", source))?;
        machine.quit().await;
        let process = machine.process();
        if !gone_within(process, END).await {
            process.kill().map_err(|source| failed(&name, "end its process", source))?;
            if !gone_within(process, END).await {
                let source = io::Error::from(io::ErrorKind::TimedOut);
                return Err(failed(&name, "end its process", source));
            }
        }
        self.forget(machine);
        self.clear_group(&name);
        folder.clear_run().map_err(|source| failed(&name, "remove what was in memory", source))?;
        self.tell(&name);
        Ok(())
    }

    /// Somebody may be listening.
    fn tell(&self, name: &str) {
        self.changes.send(name.to_owned()).ok();
    }

    fn clear_group(&self, name: &str) {
        if let Some(groups) = &self.groups
            && let Err(error) = groups.remove(name)
        {
            tracing::warn!("{name}: its control group stays: {error}");
        }
    }

    /// Whether KVM works, which is found out once.
    async fn kvm_works(&self) -> bool {
        let probe = || async {
            fs::create_dir_all(&self.options.run).ok();
            let works = accel::kvm_works(&self.options.program, &self.options.run).await;
            tracing::info!("KVM {}", if works { "is used" } else { "is not used: it was tried" });
            works
        };
        *self.kvm.get_or_init(probe).await
    }
}

/// How a machine without a process came to be so.
fn ended(folder: &Folder) -> Life {
    match folder.ending() {
        Some(ending) => Life::Ended(ending),
        None if folder.starts() > 0 => {
            let words = crate::process::words(&folder.log());
            Life::Ended(Ending { code: 1, words: format!("QEMU ended by itself: {words}") })
        }
        None => Life::Defined,
    }
}

/// Waits for a process to be gone.
async fn gone_within(process: Process, limit: Duration) -> bool {
    let gone = async {
        while process.lives() {
            time::sleep(Duration::from_millis(20)).await;
        }
    };
    time::timeout(limit, gone).await.is_ok()
}

/// What a program writes, within a minute.
async fn output(program: &Path, args: Vec<String>) -> io::Result<String> {
    let program = program.to_owned();
    let run = task::spawn_blocking(move || std::process::Command::new(program).args(args).output());
    let done = time::timeout(Duration::from_secs(60), run).await;
    let output = done.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    let output = output.map_err(io::Error::other)??;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn failed(name: &str, what: &str, source: io::Error) -> VmError {
    VmError::Io { name: name.to_owned(), what: what.to_owned(), source }
}
