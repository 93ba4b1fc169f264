//! Virtual machines through libvirt, by its program `virsh` and without linking it.
//!
//! A machine is named after its workload, and is ours if it has the identifier that `kept` has of
//! it; nothing else is touched. It lives on when this daemon or libvirt's ends. Disks are never
//! removed. Secrets are handed to the guest when it starts, on files in memory that are removed
//! when QEMU has read them, or did not start.

mod kept;
mod virsh;
mod xml;

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::sync::mpsc;
use tokio::time;
use walras_core::run::{
    Fault, FaultKind, Hypervisor, Instance, InstanceState, Op, Spec, Work, WorkloadId,
};
use walras_vm::{DiskFormat, MachineSpec, Secrets, seed_image};

use self::kept::{Folders, Kept, new_uuid};
use self::virsh::{CHANGE, Domain, DomainState, Virsh};
use self::xml::Files;
use super::program::{self, Ended};
use super::vm::{console_lines, machine, prepare};
use super::{Job, Part, Runtime, RuntimeEvents, RuntimeLogs};

/// How long a guest has to switch itself off.
const STOP_KINDLY: Duration = Duration::from_secs(30);
/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// So much of a console's end is told.
const CONSOLE_MAX: u64 = 1 << 20;

/// libvirt.
#[derive(Debug)]
pub struct LibvirtRuntime {
    virsh: Virsh,
    folders: Folders,
}

impl LibvirtRuntime {
    /// The libvirt at `uri`, asked by `program`; `state` is a folder on the disk and `memory` one
    /// in memory.
    #[must_use]
    pub fn new(program: PathBuf, uri: String, state: PathBuf, memory: PathBuf) -> Self {
        Self { virsh: Virsh { program, uri }, folders: Folders { state, memory } }
    }

    async fn carry_out(&self, job: Job<'_>) -> Result<(), Fault> {
        match job.op {
            Op::Prepare => prepare(&machine(job)?),
            Op::Create => self.create(job).await,
            Op::Start => self.start(job).await,
            Op::Stop => self.stop(job.id, STOP_KINDLY).await,
            Op::Remove => self.remove(job.id).await,
        }
    }

    async fn create(&self, job: Job<'_>) -> Result<(), Fault> {
        let machine = machine(job)?;
        if self.virsh.domains().await?.contains_key(job.id.as_str()) {
            let words = format!("libvirt has a machine {} already, and it is left alone", job.id);
            return Err(Fault::new(FaultKind::NameInUse, words));
        }
        make_disks(&machine).await?;
        let uuid = new_uuid().map_err(|error| storage(&error))?;
        let revision = job.spec.revision.to_string();
        let kept = Kept { uuid, revision, starts: 0 };
        self.folders.save(job.id, &kept).map_err(|error| storage(&error))?;
        let xml = self.described(job, &machine, &kept);
        self.virsh.change(&["define", "/dev/stdin"], Some(&xml)).await
    }

    async fn start(&self, job: Job<'_>) -> Result<(), Fault> {
        let (mut kept, domain) = self.ours(job.id).await?;
        let name = job.id.as_str();
        match domain.state {
            DomainState::Running => return Ok(()),
            DomainState::Paused => return self.virsh.change(&["resume", name], None).await,
            DomainState::Off { .. } => {}
        }
        let machine = machine(job)?;
        kept.starts += 1;
        self.folders.save(job.id, &kept).map_err(|error| storage(&error))?;
        let handed = self.hand(job, &machine).map_err(|error| storage(&error));
        let started = match handed {
            Ok(()) => self.virsh.change(&["start", name], None).await,
            Err(fault) => Err(fault),
        };
        // QEMU has read them, or never will. The seed is a disk, and stays while the machine runs.
        let wiped = match &started {
            Ok(()) => job
                .secrets
                .keys()
                .try_for_each(|secret| std::fs::remove_file(self.folders.secret(job.id, secret))),
            Err(_) => self.folders.wipe(job.id),
        };
        started.and(wiped.map_err(|error| storage(&error)))
    }

    /// Writes what the guest is handed, in memory.
    fn hand(&self, job: Job<'_>, machine: &MachineSpec) -> io::Result<()> {
        let handed = job.secrets.iter();
        let handed = handed.map(|(name, value)| (name.clone(), value.clone().into_bytes()));
        let secrets = Secrets(handed.collect());
        for (name, value) in &secrets.0 {
            Folders::write_private(&self.folders.secret(job.id, name), value)?;
        }
        if let Some(seed) = &machine.seed {
            let image = seed_image(seed, &machine.name, &secrets);
            Folders::write_private(&self.folders.seed(job.id), &image)?;
        }
        Ok(())
    }

    async fn stop(&self, id: &WorkloadId, grace: Duration) -> Result<(), Fault> {
        if !grace.is_zero() && self.is_off(id).await? {
            return Ok(());
        }
        if !grace.is_zero() {
            self.virsh.change(&["shutdown", id.as_str()], None).await?;
            if self.is_off_within(id, grace).await? {
                return Ok(());
            }
        }
        if !self.is_off(id).await? {
            self.virsh.change(&["destroy", id.as_str()], None).await?;
        }
        if self.is_off_within(id, CHANGE).await? {
            return Ok(());
        }
        Err(Fault::new(FaultKind::Timeout, "it was ended, and is still there"))
    }

    async fn is_off_within(&self, id: &WorkloadId, within: Duration) -> Result<bool, Fault> {
        let deadline = Instant::now() + within;
        loop {
            if self.is_off(id).await? {
                return Ok(true);
            }
            if Instant::now() > deadline {
                return Ok(false);
            }
            time::sleep(LOOK_EVERY).await;
        }
    }

    async fn is_off(&self, id: &WorkloadId) -> Result<bool, Fault> {
        match self.ours(id).await {
            Ok((_, domain)) => Ok(matches!(domain.state, DomainState::Off { .. })),
            Err(fault) if fault.kind == FaultKind::NotFound => Ok(true),
            Err(fault) => Err(fault),
        }
    }

    async fn remove(&self, id: &WorkloadId) -> Result<(), Fault> {
        match self.ours(id).await {
            Ok((_, domain)) => {
                if !matches!(domain.state, DomainState::Off { .. }) {
                    self.stop(id, Duration::ZERO).await?;
                }
                let undefine = ["undefine", id.as_str(), "--nvram", "--snapshots-metadata"];
                self.virsh.change(&undefine, None).await?;
            }
            Err(fault) if fault.kind == FaultKind::NotFound => {}
            Err(fault) => return Err(fault),
        }
        self.folders.remove(id).map_err(|error| storage(&error))
    }

    /// A machine of ours, as libvirt has it.
    async fn ours(&self, id: &WorkloadId) -> Result<(Kept, Domain), Fault> {
        let none =
            || Fault::new(FaultKind::NotFound, "libvirt has no machine of ours by that name");
        let kept = self.folders.load(id).map_err(|error| storage(&error))?.ok_or_else(none)?;
        let domain = self.virsh.domains().await?.remove(id.as_str());
        let domain = domain.filter(|domain| domain.uuid == kept.uuid).ok_or_else(none)?;
        Ok((kept, domain))
    }

    fn described(&self, job: Job<'_>, machine: &MachineSpec, kept: &Kept) -> String {
        let secrets = job.spec.secrets.iter();
        let secrets = secrets.map(|name| (name.clone(), self.folders.secret(job.id, name)));
        let files = Files {
            console: self.folders.console(job.id),
            seed: machine.seed.as_ref().map(|_| self.folders.seed(job.id)),
            secrets: secrets.collect(),
        };
        xml::domain(machine, &kept.uuid, &files)
    }
}

impl Runtime for LibvirtRuntime {
    fn name(&self) -> &'static str {
        "libvirt"
    }

    fn takes(&self, work: &Work) -> bool {
        matches!(work, Work::Vm(vm) if vm.hypervisor == Hypervisor::Libvirt)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { self.virsh.asked(&["version", "--daemon"]).await.map(|_| ()) })
    }

    fn act<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.carry_out(job))
    }

    fn look<'a>(&'a self, id: &'a WorkloadId) -> BoxFuture<'a, Result<Vec<Instance>, Fault>> {
        Box::pin(async move {
            // Libvirt is asked in any case: one that does not answer is silent.
            let mut there = self.virsh.domains().await?;
            let kept = self.folders.load(id).map_err(|error| storage(&error))?;
            let found = kept.and_then(|kept| instance(id, &kept, there.remove(id.as_str())));
            Ok(found.into_iter().collect())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<WorkloadId, Vec<Instance>>, Fault>> {
        Box::pin(async {
            let mut there = self.virsh.domains().await?;
            let mut all = BTreeMap::new();
            for id in self.folders.ids().map_err(|error| storage(&error))? {
                let kept = self.folders.load(&id).map_err(|error| storage(&error))?;
                let found = kept.and_then(|kept| instance(&id, &kept, there.remove(id.as_str())));
                all.insert(id, found.into_iter().collect());
            }
            Ok(all)
        })
    }

    fn events(&self) -> RuntimeEvents<'_> {
        let heard = stream::unfold(listen(&self.virsh), |mut lines| async move {
            loop {
                match lines.recv().await {
                    Some(line) => match named(&line) {
                        Some(id) => return Some((Ok(id), lines)),
                        None => continue,
                    },
                    None => {
                        let fault = Fault::new(FaultKind::Silent, "libvirt is no longer heard");
                        return Some((Err(fault), lines));
                    }
                }
            }
        });
        heard.boxed()
    }

    fn forget<'a>(&'a self, id: &'a WorkloadId, _: &'a Spec) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move { self.folders.remove(id).map_err(|error| storage(&error)) })
    }

    fn logs<'a>(&'a self, part: Part<'a>, tail: u32, follow: bool) -> RuntimeLogs<'a> {
        let path = self.folders.console(part.id);
        console_lines(tail, follow, move |place| end_of(&path, place))
    }
}

/// `virsh` where distributions put it, if it is there.
pub(crate) fn usual_virsh() -> Option<PathBuf> {
    let places = ["/usr/bin/virsh", "/usr/local/bin/virsh"];
    places.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Makes the disks that are not there.
async fn make_disks(machine: &MachineSpec) -> Result<(), Fault> {
    for disk in &machine.disks {
        let Some(size) = disk.create.filter(|_| !disk.path.exists()) else { continue };
        let format = match disk.format {
            DiskFormat::Qcow2 => "qcow2",
            DiskFormat::Raw => "raw",
        };
        let mut command = Command::new("qemu-img");
        command.args(["create", "-q", "-f", format]).arg(&disk.path).arg(size.get().to_string());
        let words = match program::run(command, None, CHANGE).await {
            Ok(Ended { well: true, .. }) => continue,
            Ok(Ended { errors, .. }) => errors,
            Err(error) => error.to_string(),
        };
        let words = format!("{}: the disk cannot be made: {words}", disk.path.display());
        return Err(Fault::new(FaultKind::Storage, words));
    }
    Ok(())
}

/// A machine of ours, if libvirt has it.
fn instance(id: &WorkloadId, kept: &Kept, domain: Option<Domain>) -> Option<Instance> {
    let domain = domain.filter(|domain| domain.uuid == kept.uuid)?;
    let state = match domain.state {
        DomainState::Running => InstanceState::Running,
        DomainState::Paused => InstanceState::Paused,
        DomainState::Off { .. } if kept.starts == 0 => InstanceState::Created,
        DomainState::Off { by_guest } => InstanceState::Exited { code: i64::from(!by_guest) },
    };
    let started = if kept.starts == 0 { String::new() } else { kept.starts.to_string() };
    let revision = kept.revision.clone();
    Some(Instance { handle: id.to_string(), revision, started, state, health: None })
}

/// Lines that libvirt tells as something happens, until it is gone or nobody listens.
fn listen(virsh: &Virsh) -> mpsc::Receiver<String> {
    let (to, lines) = mpsc::channel(64);
    let mut command = Command::new(&virsh.program);
    command
        .args(["--connect", &virsh.uri, "event", "--event", "lifecycle", "--loop"])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    std::thread::spawn(move || {
        let Ok(mut child) = command.spawn() else { return };
        let told = child.stdout.take().map(BufReader::new);
        let told = told.into_iter().flat_map(io::BufRead::lines).map_while(Result::ok);
        for line in told {
            if to.blocking_send(line).is_err() {
                break;
            }
        }
        // It ends with libvirt; where nobody listens any more, by us.
        child.kill().ok();
        child.wait().ok();
    });
    lines
}

/// Whose event a line is: `event 'lifecycle' for domain 'NAME': ...`.
fn named(line: &str) -> Option<WorkloadId> {
    let (_, rest) = line.split_once(" domain '")?;
    WorkloadId::new(rest.split_once('\'')?.0).ok()
}

/// What a file has from a place on, and where that ends; of a new one its end.
fn end_of(path: &std::path::Path, place: Option<u64>) -> Result<(Vec<u8>, u64), Fault> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let read = || -> io::Result<(Vec<u8>, u64)> {
        let mut file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let from = place.filter(|place| *place <= length);
        let from = from.unwrap_or_else(|| length.saturating_sub(CONSOLE_MAX));
        file.seek(SeekFrom::Start(from))?;
        let mut text = Vec::new();
        file.take(CONSOLE_MAX).read_to_end(&mut text)?;
        let end = from + text.len() as u64;
        Ok((text, end))
    };
    read().map_err(|error| storage(&error))
}

fn storage(error: &io::Error) -> Fault {
    Fault::new(FaultKind::Storage, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_heard_by_name() {
        let line = "event 'lifecycle' for domain 'db': Stopped Failed";
        assert_eq!(named(line), WorkloadId::new("db").ok());
        assert_eq!(named("event loop interrupted"), None);
    }

    #[test]
    fn only_a_machine_with_our_identifier_is_ours() {
        let id = WorkloadId::new("db").unwrap();
        let kept = Kept { uuid: "u1".to_owned(), revision: "7".to_owned(), starts: 1 };
        let domain = |uuid: &str, state| Some(Domain { uuid: uuid.to_owned(), state });
        assert_eq!(instance(&id, &kept, None), None);
        assert_eq!(instance(&id, &kept, domain("u2", DomainState::Running)), None);
        let found = instance(&id, &kept, domain("u1", DomainState::Running)).unwrap();
        assert_eq!((&*found.revision, found.state), ("7", InstanceState::Running));
        let off = |by_guest| instance(&id, &kept, domain("u1", DomainState::Off { by_guest }));
        assert_eq!(off(true).unwrap().state, InstanceState::Exited { code: 0 });
        assert_eq!(off(false).unwrap().state, InstanceState::Exited { code: 1 });
        let fresh = Kept { starts: 0, ..kept };
        let made = instance(&id, &fresh, domain("u1", DomainState::Off { by_guest: false }));
        assert_eq!(made.unwrap().state, InstanceState::Created);
    }
}
