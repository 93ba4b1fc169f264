//! What a machine is: its CPUs, memory, disks, networks and how it boots.
//!
//! A [`MachineSpec`] is kept in the machine's folder, and sent to the host that receives it, so it
//! holds nothing secret: what must not rest anywhere is in [`Secrets`]. [`MachineSpec::check`] says
//! what is wrong with one, by field and value; whoever starts a machine calls it first.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use walras_core::units::{Bytes, Millicores, Resources};

use crate::scaling::Scaling;

/// The most CPUs of a machine. What QEMU's `q35` has without more devices is 288.
const CPUS_MAX: u32 = 255;
/// What memory is counted in: a block of the guest's kernel is a multiple of it.
const MEMORY_STEP: u64 = 2 << 20;
/// No guest boots with less.
const MEMORY_MIN: u64 = 64 << 20;
/// The most disks, and the most network cards.
const DEVICES_MAX: usize = 16;
/// The most of all texts of a seed together.
const SEED_MAX: usize = 256 << 10;
/// The most secrets, and the most bytes of one.
const SECRETS_MAX: usize = 32;
const SECRET_MAX: usize = 64 << 10;

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Its name on its host: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// How many CPUs.
    pub cpus: CpuRange,
    /// How much memory.
    pub memory: MemoryRange,
    /// How memory grows and shrinks.
    #[serde(default)]
    pub memory_by: MemoryBy,
    /// How it boots.
    #[serde(default)]
    pub boot: Boot,
    /// Its disks, in order.
    #[serde(default)]
    pub disks: Vec<Disk>,
    /// Its network cards, in order.
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// What cloud-init finds at its first boot.
    #[serde(default)]
    pub seed: Option<Seed>,
    /// Who runs its instructions.
    #[serde(default)]
    pub accel: Accel,
    /// QEMU's name of the machine type; `q35` of its version if nothing is said.
    #[serde(default)]
    pub machine_type: Option<String>,
    /// How it is sized while it runs; it stays as it starts if nothing is said.
    #[serde(default)]
    pub scaling: Option<Scaling>,
}

/// How many CPUs a machine has, and can have. It boots with one that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuRange {
    /// What it starts with: a fraction is a limit on what its process may use.
    pub start: Millicores,
    /// The most CPUs.
    pub max: u32,
}

/// How much memory a machine has, and can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryRange {
    /// The least, which it cannot give back.
    pub min: Bytes,
    /// What it starts with.
    pub start: Bytes,
    /// The most.
    pub max: Bytes,
}

/// How memory grows and shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum MemoryBy {
    /// In blocks, by a device that the guest's driver `virtio_mem` serves.
    #[default]
    VirtioMem,
    /// In modules of this size, which any guest with ACPI takes and few give back.
    Dimms {
        /// How large one is.
        size: Bytes,
    },
}

/// How a machine boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// What runs first.
    #[serde(default)]
    pub firmware: Firmware,
    /// A kernel that is loaded without a boot loader.
    #[serde(default)]
    pub kernel: Option<PathBuf>,
    /// Its first file system.
    #[serde(default)]
    pub initrd: Option<PathBuf>,
    /// Its command line.
    #[serde(default)]
    pub append: String,
}

/// What runs first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Firmware {
    /// QEMU's own BIOS.
    #[default]
    Bios,
    /// UEFI, from the package `ovmf`.
    Uefi,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// The image.
    pub path: PathBuf,
    /// Its format.
    pub format: DiskFormat,
    /// Made with this size if it is not there.
    #[serde(default)]
    pub create: Option<Bytes>,
    /// The guest cannot write it.
    #[serde(default)]
    pub read_only: bool,
    /// Whether other hosts see the same image under the same path. Without that a machine cannot be
    /// moved, except for disks that nobody writes and that are there too.
    #[serde(default)]
    pub shared: bool,
    /// Whether it is booted from before the others.
    #[serde(default)]
    pub boot: bool,
}

/// The format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskFormat {
    /// QEMU's own, which grows as it is written.
    Qcow2,
    /// The bytes of the disk.
    Raw,
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// What it is plugged into.
    pub network: Network,
    /// Its address; one made of the machine's name if nothing is said.
    #[serde(default)]
    pub mac: Option<String>,
}

/// What a network card is plugged into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Network {
    /// QEMU's own, which needs no rights: the guest reaches out, and nobody reaches it but through
    /// these ports.
    User {
        /// Ports of the host that lead into the guest.
        #[serde(default)]
        forwards: Vec<Forward>,
    },
    /// A tap device that is there.
    Tap {
        /// Its name.
        device: String,
    },
    /// A bridge, by QEMU's helper, which must allow it.
    Bridge {
        /// Its name.
        bridge: String,
    },
}

/// A port of the host that leads into the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// Which protocol.
    pub protocol: Protocol,
    /// The port of the host, on the loopback address.
    pub host: u16,
    /// The port of the guest.
    pub guest: u16,
}

/// A protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What cloud-init finds on a small disk called `cidata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// What to do.
    #[serde(default)]
    pub user_data: String,
    /// Who the machine is; made of its name if nothing is said.
    #[serde(default)]
    pub meta_data: String,
    /// Its networks; DHCP on every card if nothing is said.
    #[serde(default)]
    pub network_config: String,
    /// What whoever runs the host adds.
    #[serde(default)]
    pub vendor_data: String,
}

/// Who runs a guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accel {
    /// KVM where it was tried and works, else QEMU itself.
    #[default]
    Auto,
    /// KVM, or the machine does not start.
    Kvm,
    /// QEMU itself, which is slower and works everywhere.
    Tcg,
}

/// What a machine is given at its start and what rests nowhere: by name, each readable for root in
/// the guest, at `/sys/firmware/qemu_fw_cfg/by_name/opt/dev.walras/NAME/raw`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(pub BTreeMap<String, Vec<u8>>);

/// What is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: `{value}` {because}")]
pub struct SpecError {
    /// Which field.
    pub field: String,
    /// What it says.
    pub value: String,
    /// Why that cannot be.
    pub because: String,
}

// === impl MachineSpec ===

impl MachineSpec {
    /// A machine without disks and networks.
    #[must_use]
    pub fn new(name: &str, cpus: CpuRange, memory: MemoryRange) -> Self {
        Self {
            name: name.to_owned(),
            cpus,
            memory,
            memory_by: MemoryBy::default(),
            boot: Boot::default(),
            disks: Vec::new(),
            nics: Vec::new(),
            seed: None,
            accel: Accel::default(),
            machine_type: None,
            scaling: None,
        }
    }

    /// What it starts with.
    #[must_use]
    pub const fn start(&self) -> Resources {
        Resources::new(self.cpus.start, self.memory.start)
    }

    /// What is wrong with it, all at once.
    ///
    /// # Errors
    /// Something is; the list is not empty.
    pub fn check(&self) -> Result<(), Vec<SpecError>> {
        let mut faults = Vec::new();
        if !is_name(&self.name, 128) {
            let because = "is no name: 1 to 128 letters, digits, `-`, `_` and `.`, beginning with \
                           a letter or a digit";
            faults.push(SpecError::new("name", &self.name, because));
        }
        self.check_sizes(&mut faults);
        self.check_boot(&mut faults);
        if self.disks.len() > DEVICES_MAX {
            faults.push(SpecError::new("disks", self.disks.len(), "are more than 16"));
        }
        for (index, disk) in self.disks.iter().enumerate() {
            check_path(&mut faults, &format!("disks[{index}].path"), &disk.path);
        }
        if self.nics.len() > DEVICES_MAX {
            faults.push(SpecError::new("nics", self.nics.len(), "are more than 16"));
        }
        for (index, nic) in self.nics.iter().enumerate() {
            nic.check(index, &mut faults);
        }
        if let Some(seed) = &self.seed {
            seed.check(&mut faults);
        }
        if let Some(scaling) = &self.scaling {
            scaling.check(self, &mut faults);
        }
        if let Some(kind) = self.machine_type.as_ref().filter(|kind| !is_name(kind, 64)) {
            faults.push(SpecError::new("machine_type", kind, "is no machine type of QEMU"));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn check_sizes(&self, faults: &mut Vec<SpecError>) {
        let CpuRange { start, max } = self.cpus;
        if !(1..=CPUS_MAX).contains(&max) {
            let because = format!("is not between 1 and {CPUS_MAX}");
            faults.push(SpecError::new("cpus.max", max, &because));
        } else if start.get() < 10 || start > Millicores::from_cores(max) {
            let because = format!("is not between 10m and {max} CPUs");
            faults.push(SpecError::new("cpus.start", start, &because));
        }
        let MemoryRange { min, start, max } = self.memory;
        for (field, value) in [("memory.min", min), ("memory.start", start), ("memory.max", max)] {
            if value.get() < MEMORY_MIN || !value.get().is_multiple_of(MEMORY_STEP) {
                let because = "is less than 64 MiB, or no multiple of 2 MiB";
                faults.push(SpecError::new(field, value, because));
            }
        }
        if start < min || max < start {
            let because = format!("is not between memory.min ({min}) and memory.max ({max})");
            faults.push(SpecError::new("memory.start", start, &because));
        }
        if let MemoryBy::Dimms { size } = self.memory_by {
            let extra = max.saturating_sub(min).get();
            // The guest's kernel takes memory in blocks of this size.
            let block = 128 << 20;
            if size.get() == 0 || !size.get().is_multiple_of(block) {
                faults.push(SpecError::new("memory_by.size", size, "is no multiple of 128 MiB"));
            } else if !extra.is_multiple_of(size.get()) || extra / size.get() > 200 {
                let because = "does not divide memory.max - memory.min into at most 200 modules";
                faults.push(SpecError::new("memory_by.size", size, because));
            }
        }
    }

    fn check_boot(&self, faults: &mut Vec<SpecError>) {
        let Boot { kernel, initrd, append, .. } = &self.boot;
        for (field, path) in [("boot.kernel", kernel), ("boot.initrd", initrd)] {
            if let Some(path) = path {
                check_path(faults, field, path);
            }
        }
        if kernel.is_none() && (initrd.is_some() || !append.is_empty()) {
            let what = initrd.as_ref().map_or(append.clone(), |path| path.display().to_string());
            faults.push(SpecError::new("boot", what, "is of no use without boot.kernel"));
        }
        if append.len() > 2000 || append.contains(['\0', '\n']) {
            let because = "has more than 2000 bytes, or a line break";
            faults.push(SpecError::new("boot.append", append, because));
        }
    }
}

// === impl Nic, Seed, Secrets ===

impl Nic {
    fn check(&self, index: usize, faults: &mut Vec<SpecError>) {
        let field = |rest: &str| format!("nics[{index}].{rest}");
        match &self.network {
            Network::User { forwards } => {
                for Forward { host, guest, .. } in forwards {
                    if *host == 0 || *guest == 0 {
                        let value = format!("{host}:{guest}");
                        let because = "needs a port of the host and one of the guest";
                        faults.push(SpecError::new(&field("forwards"), value, because));
                    }
                }
            }
            Network::Tap { device: name } | Network::Bridge { bridge: name } => {
                if !is_name(name, 15) {
                    let because = "is no name of a network device";
                    faults.push(SpecError::new(&field("network"), name, because));
                }
            }
        }
        if let Some(mac) = self.mac.as_ref().filter(|mac| !is_mac(mac)) {
            let because = "is no address of one card, such as 52:54:00:12:34:56";
            faults.push(SpecError::new(&field("mac"), mac, because));
        }
    }
}

impl Seed {
    fn texts(&self) -> [(&'static str, &String); 4] {
        [
            ("seed.user_data", &self.user_data),
            ("seed.meta_data", &self.meta_data),
            ("seed.network_config", &self.network_config),
            ("seed.vendor_data", &self.vendor_data),
        ]
    }

    fn check(&self, faults: &mut Vec<SpecError>) {
        for (field, text) in self.texts() {
            if text.contains('\0') {
                faults.push(SpecError::new(field, "...", "has a zero byte"));
            }
        }
        let all: usize = self.texts().iter().map(|(_, text)| text.len()).sum();
        if all > SEED_MAX {
            let value = format!("{all} bytes");
            faults.push(SpecError::new("seed", value, "are more than 256 KiB together"));
        }
    }
}

impl Secrets {
    /// Whether it can be handed to a guest.
    ///
    /// # Errors
    /// A name is none, or something is too much. Values are never in the words.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.0.len() > SECRETS_MAX {
            return Err(SpecError::new("secrets", self.0.len(), "are more than 32"));
        }
        for (name, value) in &self.0 {
            if !is_name(name, 40) {
                return Err(SpecError::new("secrets", name, "is no name of up to 40 characters"));
            }
            if value.len() > SECRET_MAX {
                return Err(SpecError::new("secrets", name, "has more than 64 KiB"));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Secrets {
    /// Names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

// === impl SpecError ===

impl SpecError {
    pub(crate) fn new(field: &str, value: impl fmt::Display, because: &str) -> Self {
        let value: String = value.to_string().chars().take(200).collect();
        Self { field: field.to_owned(), value, because: because.to_owned() }
    }
}

fn check_path(faults: &mut Vec<SpecError>, field: &str, path: &Path) {
    let text = path.to_string_lossy();
    let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
    if !path.is_absolute() || climbs || text.contains(['\0', '\n']) || path.to_str().is_none() {
        faults.push(SpecError::new(field, text, "is no absolute path without `..`"));
    }
}

/// Whether `text` is a name that is no path and no option.
pub(crate) fn is_name(text: &str, longest: usize) -> bool {
    let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    begins && text.len() <= longest && text.chars().all(fits)
}

fn is_mac(text: &str) -> bool {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2))
        .collect();
    // The lowest bit of the first byte is for groups.
    bytes.is_some_and(|bytes| bytes.len() == 6 && bytes[0] & 1 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mib(mib: u64) -> Bytes {
        Bytes::new(mib << 20)
    }

    fn good() -> MachineSpec {
        let memory = MemoryRange { min: mib(256), start: mib(512), max: mib(2048) };
        MachineSpec::new("db", CpuRange { start: Millicores::new(1500), max: 4 }, memory)
    }

    fn fields(change: impl FnOnce(&mut MachineSpec)) -> Vec<String> {
        let mut spec = good();
        change(&mut spec);
        let faults = spec.check().err().unwrap_or_default();
        faults.into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn what_is_wrong_is_said_by_field() {
        assert_eq!(fields(|_| {}), Vec::<String>::new());
        assert_eq!(fields(|spec| spec.name = "../x".into()), ["name"]);
        assert_eq!(fields(|spec| spec.cpus.max = 0), ["cpus.max"]);
        assert_eq!(fields(|spec| spec.cpus.max = 1), ["cpus.start"]);
        assert_eq!(fields(|spec| spec.memory.max = mib(256)), ["memory.start"]);
        assert_eq!(fields(|spec| spec.memory.start = Bytes::new(1 << 29 | 1)), ["memory.start"]);
        let dimms = |mib: u64| MemoryBy::Dimms { size: Bytes::new(mib << 20) };
        assert_eq!(fields(|spec| spec.memory_by = dimms(100)), ["memory_by.size"]);
        assert_eq!(fields(|spec| spec.memory_by = dimms(1024)), ["memory_by.size"]);
        assert_eq!(fields(|spec| spec.memory_by = dimms(256)), Vec::<String>::new());
        assert_eq!(fields(|spec| spec.boot.append = "quiet".into()), ["boot"]);
        let disk = |path: &str| Disk {
            path: path.into(),
            format: DiskFormat::Raw,
            create: None,
            read_only: false,
            shared: false,
            boot: false,
        };
        assert_eq!(fields(|spec| spec.disks = vec![disk("/a/../b")]), ["disks[0].path"]);
        assert_eq!(fields(|spec| spec.disks = vec![disk("/a,b")]), Vec::<String>::new());
        let tap = |device: &str| Network::Tap { device: device.into() };
        let nic = |network| Nic { network, mac: Some("01:00:00:00:00:00".into()) };
        let both = ["nics[0].network", "nics[0].mac"];
        assert_eq!(fields(|spec| spec.nics = vec![nic(tap("a,script=/x"))]), both);
        let seed = Seed { user_data: "x".repeat(SEED_MAX + 1), ..Seed::default() };
        assert_eq!(fields(|spec| spec.seed = Some(seed)), ["seed"]);
    }

    #[test]
    fn everything_wrong_is_said_at_once_with_its_value() {
        let mut spec = good();
        spec.name = String::new();
        spec.cpus.max = 300;
        let words: Vec<String> =
            spec.check().unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(words.len(), 2);
        assert_eq!(words[1], "cpus.max: `300` is not between 1 and 255");
    }

    #[test]
    fn secrets_are_never_shown() {
        let secrets = Secrets([("key".to_owned(), b"hunter2".to_vec())].into());
        assert_eq!(format!("{secrets:?}"), "{\"key\"}");
        let bad = Secrets([("a/b".to_owned(), b"hunter2".to_vec())].into());
        assert!(!bad.check().unwrap_err().to_string().contains("hunter2"));
    }

    #[test]
    fn a_spec_that_is_kept_comes_back_and_unknown_fields_are_refused() {
        let text = serde_json::to_string(&good()).unwrap();
        assert_eq!(serde_json::from_str::<MachineSpec>(&text).unwrap(), good());
        let more = text.replacen('{', "{\"gpu\":1,", 1);
        assert!(serde_json::from_str::<MachineSpec>(&more).is_err());
    }
}
