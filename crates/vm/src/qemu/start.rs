//! Starts a machine, from nothing or to be received from another host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time;
use walras_core::units::Bytes;

use crate::accel;
use crate::args::{self, Engine, Files, Plugged};
use crate::error::VmError;
use crate::folder::{Ending, Folder, Saved};
use crate::iso;
use crate::port::{Destination, Handover, RunState};
use crate::process::{self, Process};
use crate::scaling::KEY;
use crate::sizing::{self, Limits};
use crate::spec::{Accel, DiskFormat, Firmware, MachineSpec, MemoryBy, Secrets, Seed, SpecError};

use super::migrate::new_key;
use super::{Qemu, QemuMachine, failed, output};

/// How long QEMU may take until its monitor answers.
const UP: Duration = Duration::from_secs(60);
/// How often that is tried.
const BETWEEN: Duration = Duration::from_millis(20);
/// Where Debian's package `ovmf` and others have UEFI.
const UEFI: [(&str, &str); 3] = [
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
    ("/usr/share/edk2/x64/OVMF_CODE.fd", "/usr/share/edk2/x64/OVMF_VARS.fd"),
];

impl Qemu {
    /// Starts a machine that is defined. One that runs already is left as it is, and one that was
    /// not let go yet goes on.
    ///
    /// # Errors
    /// It is not defined, or QEMU does not start; what it wrote is in the error.
    pub async fn start(
        self: &Arc<Self>,
        name: &str,
        secrets: &Secrets,
    ) -> Result<Arc<QemuMachine>, VmError> {
        secrets.check().map_err(|fault| VmError::Spec(vec![fault]))?;
        let turn = self.turn(name);
        let _turn = turn.lock().await;
        let saved = self.folder(name).load();
        let saved = saved.map_err(|source| failed(name, "read what it is", source))?;
        let mut there = match self.machine(name).await {
            Ok(machine) => Some(machine),
            Err(VmError::Gone { .. }) => None,
            Err(error) => return Err(error),
        };
        if let Some(machine) = &there
            && machine.state().await? == RunState::Ended
        {
            self.ended_in_turn(machine, &Ending::by_guest()).await?;
            there = None;
        }
        let machine = match there {
            Some(machine) => machine,
            None => self.spawn(&saved.spec, secrets, &at_the_start(&saved.spec)?, false).await?,
        };
        if machine.state().await? == RunState::Paused {
            machine.let_go().await?;
        }
        self.tell(name);
        Ok(machine)
    }

    /// Receives a machine from another host: starts a QEMU that waits for it at the address `host`,
    /// with a key that only who is told it can send with.
    ///
    /// # Errors
    /// There is such a machine already, or QEMU does not start.
    pub async fn receive(
        self: &Arc<Self>,
        handover: &Handover,
        tags: BTreeMap<String, String>,
        secrets: &Secrets,
        host: &str,
    ) -> Result<(Arc<QemuMachine>, Destination), VmError> {
        let mut spec = handover.spec.clone();
        spec.check().map_err(VmError::Spec)?;
        secrets.check().map_err(|fault| VmError::Spec(vec![fault]))?;
        let name = spec.name.clone();
        let folder = self.folder(&name);
        if folder.exists() {
            let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(failed(&name, "receive it", source));
        }
        let plugged = Plugged {
            cpus: handover.cpus.iter().copied().collect(),
            dimms: handover.dimms.iter().copied().collect(),
            extra: Bytes::ZERO,
        };
        let mut saved = Saved::new(spec.clone(), tags);
        saved.received = Some(handover.clone());
        let kept = folder.make().and_then(|()| folder.save(&saved));
        let kept = kept.and_then(|()| folder.save_version(handover.version + 1));
        kept.map_err(|source| failed(&name, "keep it", source))?;
        // What does not come leaves nothing behind.
        spec.accel = handover.spec.accel;
        let received = async {
            let machine = self.spawn(&spec, secrets, &plugged, true).await?;
            let destination = machine.await_another(host).await?;
            Ok((machine, destination))
        };
        let received = received.await;
        if received.is_err() {
            self.give_up(&name).await;
        }
        received
    }

    /// Ends and removes a machine that was to be received and did not come.
    ///
    /// # Errors
    /// It came, and runs here.
    pub async fn give_up_receiving(self: &Arc<Self>, name: &str) -> Result<(), VmError> {
        if let Ok(machine) = self.machine(name).await
            && machine.state().await? != RunState::Receiving
        {
            let because = "it has come, and runs here".to_owned();
            return Err(VmError::NotMoved { name: name.to_owned(), because });
        }
        self.give_up(name).await;
        Ok(())
    }

    async fn give_up(self: &Arc<Self>, name: &str) {
        if let Err(error) = self.stop(name, Duration::ZERO).await {
            tracing::warn!("{error}");
        }
        if let Err(error) = self.remove(name) {
            tracing::warn!("{error}");
        }
    }

    /// Starts the process, and waits until its monitor answers.
    async fn spawn(
        self: &Arc<Self>,
        spec: &MachineSpec,
        secrets: &Secrets,
        plugged: &Plugged,
        incoming: bool,
    ) -> Result<Arc<QemuMachine>, VmError> {
        let name = &spec.name;
        let folder = self.folder(name);
        let works = match spec.accel {
            Accel::Auto | Accel::Kvm => self.kvm_works().await,
            Accel::Tcg => false,
        };
        let engine = accel::choose(spec.accel, works, name)?;
        let secrets = with_key(spec, secrets)
            .map_err(|source| failed(name, "make a key for its guest", source))?;
        let prepare = || {
            folder.clear_run()?;
            folder.make()?;
            folder.begun()?;
            if let Some(key) = secrets.0.get(KEY).filter(|_| spec.scaling.is_some()) {
                Folder::write_private(&folder.guest_key(), key)?;
            }
            prepare(spec, &folder, &secrets)
        };
        let files = prepare().map_err(|source| failed(name, "prepare its files", source));
        let machine = match &files {
            Ok(files) => {
                let args = args::arguments(spec, engine, files, plugged, incoming);
                let pid = process::spawn(&self.options.program, &args, &folder.log());
                match pid.map_err(|source| failed(name, "start QEMU", source)) {
                    Ok(pid) => self.up(name, &folder, pid).await,
                    Err(error) => Err(error),
                }
            }
            Err(_) => Err(VmError::Gone { name: name.clone() }),
        };
        // QEMU has read them, or never will; without a process the seed is of no use either.
        let wiped = match (&files, &machine) {
            (Ok(files), Ok(_)) => files.secrets.iter().try_for_each(|it| fs::remove_file(&it.1)),
            (_, _) => wipe(&folder, &secrets),
        };
        files?;
        wiped.map_err(|source| failed(name, "remove a secret", source))?;
        let machine = machine?;
        if let Some(groups) = &self.groups {
            let group = |source| VmError::Group { name: name.clone(), source };
            groups.put(name, machine.process().pid()).map_err(group)?;
            let limits = limits(spec);
            let quota = sizing::want(spec.start(), &limits).ok().and_then(|want| want.quota);
            groups.limit(name, quota).map_err(group)?;
        } else if !spec.cpus.start.get().is_multiple_of(1000) {
            let fault = SpecError::new(
                "cpus.start",
                spec.cpus.start,
                "is a fraction, which takes control groups, and there are none here",
            );
            self.give_up_start(&machine).await;
            return Err(VmError::Spec(vec![fault]));
        }
        Ok(machine)
    }

    async fn give_up_start(&self, machine: &QemuMachine) {
        machine.quit().await;
        if let Err(error) = machine.process().kill() {
            tracing::warn!("{}: its process cannot be ended: {error}", machine.spec().name);
        }
    }

    /// Waits until QEMU has written its number and its monitor answers.
    async fn up(
        self: &Arc<Self>,
        name: &str,
        folder: &Folder,
        pid: u32,
    ) -> Result<Arc<QemuMachine>, VmError> {
        let deadline = Instant::now() + UP;
        loop {
            let there = Process::find(&folder.pid()).is_some() && folder.qmp().exists();
            if there
                && let Ok(machine) = self.machine(name).await
                && machine.state().await.is_ok()
            {
                return Ok(machine);
            }
            let because = if !process::is_there(pid) {
                process::words(&folder.log())
            } else if Instant::now() > deadline {
                format!("its monitor did not answer within {} s", UP.as_secs())
            } else {
                time::sleep(BETWEEN).await;
                continue;
            };
            return Err(VmError::NotStarted { name: name.to_owned(), because });
        }
    }

    /// Makes the disks that are not there.
    pub(super) async fn make_disks(&self, spec: &MachineSpec) -> Result<(), VmError> {
        for disk in &spec.disks {
            let Some(size) = disk.create.filter(|_| !disk.path.exists()) else { continue };
            let format = match disk.format {
                DiskFormat::Qcow2 => "qcow2",
                DiskFormat::Raw => "raw",
            };
            let path = disk.path.to_string_lossy().into_owned();
            let args = ["create", "-q", "-f", format, &path, &size.get().to_string()];
            let args = args.map(str::to_owned).to_vec();
            let made = output(&self.options.image_program, args).await;
            made.map_err(|source| failed(&spec.name, &format!("make the disk {path}"), source))?;
        }
        Ok(())
    }
}

/// Removes what was written for a start that failed.
fn wipe(folder: &Folder, secrets: &Secrets) -> std::io::Result<()> {
    let paths = secrets.0.keys().map(|name| folder.secret(name));
    for path in paths.chain([folder.seed()]) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// What is handed to a guest: for one that is sized also a key, unless it comes with one.
fn with_key(spec: &MachineSpec, secrets: &Secrets) -> std::io::Result<Secrets> {
    let mut all = secrets.clone();
    if spec.scaling.is_some() && !all.0.contains_key(KEY) {
        all.0.insert(KEY.to_owned(), new_key()?.into_bytes());
    }
    Ok(all)
}

/// What the machine can have.
pub(super) const fn limits(spec: &MachineSpec) -> Limits {
    Limits {
        cpus_max: spec.cpus.max,
        memory_min: spec.memory.min,
        memory_max: spec.memory.max,
        memory_by: spec.memory_by,
    }
}

/// What is plugged in when a machine starts.
fn at_the_start(spec: &MachineSpec) -> Result<Plugged, VmError> {
    let want = sizing::want(spec.start(), &limits(spec)).map_err(|_| {
        let because = "is more or less than it can have";
        VmError::Spec(vec![SpecError::new("cpus.start, memory.start", spec.start(), because)])
    })?;
    let dimms = match spec.memory_by {
        MemoryBy::VirtioMem => BTreeSet::new(),
        MemoryBy::Dimms { size } => {
            let count = want.extra.get() / size.get().max(1);
            (0..u32::try_from(count).unwrap_or(0)).collect()
        }
    };
    Ok(Plugged { cpus: (1..want.cpus).collect(), dimms, extra: want.extra })
}

/// Writes what QEMU reads at its start.
fn prepare(spec: &MachineSpec, folder: &Folder, secrets: &Secrets) -> std::io::Result<Files> {
    let seed = match &spec.seed {
        Some(seed) => {
            let image = seed_image(seed, &spec.name, secrets);
            Folder::write_private(&folder.seed(), &image)?;
            Some(folder.seed())
        }
        None => None,
    };
    let uefi = match spec.boot.firmware {
        Firmware::Bios => None,
        Firmware::Uefi => Some(uefi(&folder.uefi_variables())?),
    };
    let mut handed = Vec::new();
    for (secret, value) in &secrets.0 {
        let path = folder.secret(secret);
        Folder::write_private(&path, value)?;
        handed.push((secret.clone(), path));
    }
    Ok(Files {
        qmp: folder.qmp(),
        pid: folder.pid(),
        console: folder.console(),
        seed,
        uefi,
        secrets: handed,
    })
}

/// UEFI's code, and the machine's variables, which are made of the empty ones the first time.
fn uefi(variables: &Path) -> std::io::Result<(PathBuf, PathBuf)> {
    let found = UEFI.iter().find(|(code, _)| Path::new(code).exists());
    let Some((code, empty)) = found else {
        let words = "UEFI is not installed; install the package `ovmf`";
        return Err(std::io::Error::other(words));
    };
    if !variables.exists() {
        fs::copy(empty, variables)?;
    }
    Ok(((*code).into(), variables.to_owned()))
}

/// What cloud-init reads as an image, with secrets where `${secret:NAME}` stands for them.
#[must_use]
pub fn seed_image(seed: &Seed, name: &str, secrets: &Secrets) -> Vec<u8> {
    let meta = format!("instance-id: {name}\nlocal-hostname: {name}\n");
    let network = "version: 2\nethernets:\n  all:\n    match: {name: \"e*\"}\n    dhcp4: true\n";
    let or = |text: &str, other: &str| {
        let text = if text.is_empty() { other } else { text }.to_owned();
        secrets.0.iter().fold(text, |text, (name, value)| {
            text.replace(&format!("${{secret:{name}}}"), &String::from_utf8_lossy(value))
        })
    };
    let texts = [
        ("meta-data", or(&seed.meta_data, &meta)),
        ("network-config", or(&seed.network_config, network)),
        ("user-data", or(&seed.user_data, "#cloud-config\n")),
        ("vendor-data", or(&seed.vendor_data, "")),
    ];
    let files: Vec<(&str, &[u8])> =
        texts.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    iso::image("cidata", &files)
}

impl Engine {
    /// The same as a wish, so that another host does likewise.
    pub(super) const fn as_wish(self) -> Accel {
        match self {
            Self::Kvm => Accel::Kvm,
            Self::Tcg => Accel::Tcg,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stand_in_the_seed_where_they_are_asked_for() {
        let seed = Seed { user_data: "key: ${secret:KEY}\n".to_owned(), ..Seed::default() };
        let secrets = Secrets([("KEY".to_owned(), b"hunter2".to_vec())].into());
        let has = |image: &[u8], words: &[u8]| image.windows(words.len()).any(|w| w == words);
        assert!(has(&seed_image(&seed, "db", &secrets), b"key: hunter2\n"));
        let without = seed_image(&seed, "db", &Secrets::default());
        assert!(has(&without, b"key: ${secret:KEY}\n"));
        assert!(has(&without, b"instance-id: db\n"));
    }
}
