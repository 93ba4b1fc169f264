//! QEMU's command line for a machine: a pure function of what it is and where its files are.
//!
//! A machine that is received gets the same devices in the same order as the one that is sent, with
//! the CPUs and modules that were plugged in meanwhile. Paths go through JSON or have their commas
//! doubled, so that no name can become an option.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use walras_core::units::Bytes;

use crate::scaling::{INFORMANT_PORT, METRICS_PORT};
use crate::spec::{
    Boot, Disk, DiskFormat, Firmware, Forward, MachineSpec, MemoryBy, Network, Nic, Protocol,
};

/// Who runs the instructions, once that is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Kvm,
    Tcg,
}

/// Where a machine's files are.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) qmp: PathBuf,
    pub(crate) pid: PathBuf,
    pub(crate) console: PathBuf,
    /// The image for cloud-init, where there is one.
    pub(crate) seed: Option<PathBuf>,
    /// UEFI's code and the machine's own variables, where it boots so.
    pub(crate) uefi: Option<(PathBuf, PathBuf)>,
    /// What is handed to the guest, by name.
    pub(crate) secrets: Vec<(String, PathBuf)>,
}

/// What is plugged in from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plugged {
    /// CPUs beside the first.
    pub(crate) cpus: BTreeSet<u32>,
    /// Memory modules.
    pub(crate) dimms: BTreeSet<u32>,
    /// Memory beside the least.
    pub(crate) extra: Bytes,
}

/// The command line.
pub(crate) fn arguments(
    spec: &MachineSpec,
    engine: Engine,
    files: &Files,
    plugged: &Plugged,
    incoming: bool,
) -> Vec<String> {
    let mut args = Args::default();
    args.add("-name", format!("guest={},debug-threads=on", spec.name));
    args.flags(&["-nodefaults", "-no-user-config", "-no-shutdown"]);
    args.add("-display", "none");
    let spawn = spec.nics.iter().any(|nic| matches!(nic.network, Network::Bridge { .. }));
    let spawn = if spawn { "allow" } else { "deny" };
    let sandbox = "on,obsolete=deny,elevateprivileges=deny,resourcecontrol=deny";
    args.add("-sandbox", format!("{sandbox},spawn={spawn}"));
    args.processor(spec, engine, plugged);
    args.memory(spec, plugged);
    args.boot(&spec.boot, files);
    for (index, disk) in spec.disks.iter().enumerate() {
        args.disk(index, disk);
    }
    if let Some(seed) = &files.seed {
        args.seed(seed);
    }
    let is_user = |nic: &Nic| matches!(nic.network, Network::User { .. });
    let way_in = spec.nics.iter().position(is_user).filter(|_| spec.scaling.is_some());
    for (index, nic) in spec.nics.iter().enumerate() {
        args.nic(&spec.name, index, nic, way_in == Some(index));
    }
    args.add("-device", "virtio-rng-pci,id=rng0");
    for (name, path) in &files.secrets {
        args.add("-fw_cfg", format!("name=opt/dev.walras/{name},file={}", escaped(path)));
    }
    let console = escaped(&files.console);
    args.add("-chardev", format!("file,id=console,path={console},append=on"));
    args.add("-serial", "chardev:console");
    args.add("-qmp", format!("unix:{},server=on,wait=off", escaped(&files.qmp)));
    args.add("-pidfile", files.pid.to_string_lossy());
    if incoming {
        args.add("-incoming", "defer");
    } else {
        // It runs when its limits are set.
        args.flags(&["-S"]);
    }
    args.0
}

/// QEMU's name of the kind of CPU, as a device.
pub(crate) const fn cpu_device(engine: Engine) -> &'static str {
    match engine {
        Engine::Kvm => "host-x86_64-cpu",
        Engine::Tcg => "qemu64-x86_64-cpu",
    }
}

/// What QEMU knows the CPU with this number by.
pub(crate) fn cpu_id(number: u32) -> String {
    format!("cpu-{number}")
}

/// And the memory module.
pub(crate) fn dimm_id(number: u32) -> String {
    format!("dimm-{number}")
}

#[derive(Default)]
struct Args(Vec<String>);

impl Args {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }

    fn add(&mut self, option: &str, value: impl Into<String>) {
        self.0.extend([option.to_owned(), value.into()]);
    }

    fn processor(&mut self, spec: &MachineSpec, engine: Engine, plugged: &Plugged) {
        let kind = spec.machine_type.as_deref().unwrap_or("q35");
        let (accel, cpu) = match engine {
            Engine::Kvm => ("kvm", "host"),
            Engine::Tcg => ("tcg", "qemu64"),
        };
        let mut machine = format!("{kind},accel={accel}");
        if spec.boot.firmware == Firmware::Uefi {
            machine += ",pflash0=uefi-code,pflash1=uefi-vars";
        }
        self.add("-machine", machine);
        self.add("-cpu", cpu);
        let max = spec.cpus.max;
        self.add("-smp", format!("1,sockets=1,cores={max},threads=1,maxcpus={max}"));
        for number in &plugged.cpus {
            let device = cpu_device(engine);
            let id = cpu_id(*number);
            self.add(
                "-device",
                format!("{device},id={id},socket-id=0,core-id={number},thread-id=0"),
            );
        }
    }

    fn memory(&mut self, spec: &MachineSpec, plugged: &Plugged) {
        let mib = |bytes: Bytes| bytes.get() >> 20;
        let (min, max) = (spec.memory.min, spec.memory.max);
        let extra = max.saturating_sub(min);
        if extra == Bytes::ZERO {
            self.add("-m", format!("size={}M", mib(min)));
            return;
        }
        match spec.memory_by {
            MemoryBy::VirtioMem => {
                self.add("-m", format!("size={}M,maxmem={}M", mib(min), mib(max)));
                let size = mib(extra);
                let backend = format!("memory-backend-ram,id=mem0,size={size}M,reserve=off");
                self.add("-object", backend);
                let wanted = plugged.extra.get();
                let device = "virtio-mem-pci,id=vmem0,memdev=mem0,node=0";
                self.add("-device", format!("{device},requested-size={wanted}"));
            }
            MemoryBy::Dimms { size } => {
                let slots = extra.get() / size.get().max(1);
                let (min, max) = (mib(min), mib(max));
                self.add("-m", format!("size={min}M,slots={slots},maxmem={max}M"));
                for number in &plugged.dimms {
                    let (id, size) = (dimm_id(*number), mib(size));
                    self.add("-object", format!("memory-backend-ram,id=mem-{id},size={size}M"));
                    let device = format!("pc-dimm,id={id},memdev=mem-{id},slot={number}");
                    self.add("-device", device);
                }
            }
        }
    }

    fn boot(&mut self, boot: &Boot, files: &Files) {
        if let Some((code, vars)) = &files.uefi {
            self.blockdev("uefi-code", "raw", code, true);
            self.blockdev("uefi-vars", "raw", vars, false);
        }
        let paths = [("-kernel", &boot.kernel), ("-initrd", &boot.initrd)];
        for (option, path) in paths {
            if let Some(path) = path {
                self.add(option, path.to_string_lossy());
            }
        }
        if boot.kernel.is_some() && !boot.append.is_empty() {
            self.add("-append", boot.append.clone());
        }
    }

    fn disk(&mut self, index: usize, disk: &Disk) {
        let format = match disk.format {
            DiskFormat::Qcow2 => "qcow2",
            DiskFormat::Raw => "raw",
        };
        let node = format!("disk{index}");
        self.blockdev(&node, format, &disk.path, disk.read_only);
        // What is booted first has the lowest number.
        let order = if disk.boot { 0 } else { index + 1 };
        self.add("-device", format!("virtio-blk-pci,id=blk{index},drive={node},bootindex={order}"));
    }

    fn seed(&mut self, image: &Path) {
        self.blockdev("seed", "raw", image, true);
        self.add("-device", "virtio-blk-pci,id=blk-seed,drive=seed");
    }

    fn blockdev(&mut self, node: &str, format: &str, path: &Path, read_only: bool) {
        let file = json!({ "driver": "file", "filename": path.to_string_lossy() });
        let value: Value = json!({
            "node-name": node, "driver": format, "read-only": read_only, "file": file,
        });
        self.add("-blockdev", value.to_string());
    }

    /// A card, with a way to the program in the guest where its agent comes in by it.
    fn nic(&mut self, name: &str, index: usize, nic: &Nic, way_in: bool) {
        let netdev = match &nic.network {
            Network::User { forwards } => {
                let mut netdev = format!("user,id=net{index}");
                for Forward { protocol, host, guest } in forwards {
                    let protocol = match protocol {
                        Protocol::Tcp => "tcp",
                        Protocol::Udp => "udp",
                    };
                    netdev += &format!(",hostfwd={protocol}:127.0.0.1:{host}-:{guest}");
                }
                // Any free port; which one QEMU took is asked for when it runs.
                for port in [INFORMANT_PORT, METRICS_PORT].iter().filter(|_| way_in) {
                    netdev += &format!(",hostfwd=tcp:127.0.0.1:0-:{port}");
                }
                netdev
            }
            Network::Tap { device } => {
                format!("tap,id=net{index},ifname={device},script=no,downscript=no")
            }
            Network::Bridge { bridge } => format!("bridge,id=net{index},br={bridge}"),
        };
        self.add("-netdev", netdev);
        let mac = nic.mac.clone().unwrap_or_else(|| mac_of(name, index));
        // Without the code for booting from a network, which not every host has.
        let device = format!("virtio-net-pci,id=nic{index},netdev=net{index},mac={mac},romfile=");
        self.add("-device", device);
    }
}

/// An address that stays the same for the same machine, in the range that QEMU uses.
fn mac_of(name: &str, index: usize) -> String {
    let hash = hash(&format!("{name}/{index}"));
    let [.., a, b, c] = hash.to_be_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}

/// A number made of a text (FNV-1a), the same on every host.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A path inside of an option with commas.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{CpuRange, MemoryRange};
    use walras_core::units::Millicores;

    fn mib(mib: u64) -> Bytes {
        Bytes::new(mib << 20)
    }

    fn spec() -> MachineSpec {
        let memory = MemoryRange { min: mib(256), start: mib(512), max: mib(1280) };
        MachineSpec::new("db", CpuRange { start: Millicores::new(2000), max: 4 }, memory)
    }

    fn files() -> Files {
        Files {
            qmp: "/run/a,b/qmp.sock".into(),
            pid: "/s/db/pid".into(),
            console: "/s/db/console.log".into(),
            seed: None,
            uefi: None,
            secrets: Vec::new(),
        }
    }

    fn line(spec: &MachineSpec, plugged: &Plugged, incoming: bool) -> String {
        arguments(spec, Engine::Tcg, &files(), plugged, incoming).join(" ")
    }

    #[test]
    fn a_machine_boots_with_one_cpu_and_the_others_can_be_taken_out() {
        let plugged = Plugged { cpus: [1].into(), dimms: BTreeSet::new(), extra: mib(256) };
        let line = line(&spec(), &plugged, false);
        assert!(line.contains("-smp 1,sockets=1,cores=4,threads=1,maxcpus=4"), "{line}");
        let cpu = "-device qemu64-x86_64-cpu,id=cpu-1,socket-id=0,core-id=1,thread-id=0";
        assert!(line.contains(cpu), "{line}");
        assert!(line.contains("-m size=256M,maxmem=1280M"), "{line}");
        assert!(line.contains("size=1024M,reserve=off"), "{line}");
        assert!(line.contains("requested-size=268435456"), "{line}");
        assert!(line.ends_with("-pidfile /s/db/pid -S"), "{line}");
        assert!(line.contains("unix:/run/a,,b/qmp.sock,server=on"), "{line}");
    }

    #[test]
    fn what_is_received_waits_and_does_not_stand_still_afterwards() {
        let line = line(&spec(), &Plugged::default(), true);
        assert!(line.ends_with("-incoming defer"), "{line}");
        assert!(!line.contains(" -S"), "{line}");
    }

    #[test]
    fn modules_have_their_slots() {
        let mut spec = spec();
        spec.memory_by = MemoryBy::Dimms { size: mib(256) };
        let plugged = Plugged { dimms: [0, 2].into(), ..Plugged::default() };
        let line = line(&spec, &plugged, false);
        assert!(line.contains("-m size=256M,slots=4,maxmem=1280M"), "{line}");
        assert!(line.contains("-device pc-dimm,id=dimm-2,memdev=mem-dimm-2,slot=2"), "{line}");
    }

    #[test]
    fn no_name_becomes_an_option() {
        let mut spec = spec();
        spec.disks.push(Disk {
            path: "/d/a,readonly=off\".img".into(),
            format: DiskFormat::Qcow2,
            create: None,
            read_only: true,
            shared: false,
            boot: true,
        });
        let forward = Forward { protocol: Protocol::Tcp, host: 2222, guest: 22 };
        let network = Network::User { forwards: vec![forward] };
        spec.nics.push(Nic { network, mac: None });
        let args = arguments(&spec, Engine::Kvm, &files(), &Plugged::default(), false);
        let disk = args.iter().find(|arg| arg.contains("disk0\"")).unwrap();
        let disk: Value = serde_json::from_str(disk).unwrap();
        assert_eq!(disk["file"]["filename"], "/d/a,readonly=off\".img");
        assert_eq!(disk["read-only"], true);
        let line = args.join(" ");
        assert!(line.contains("user,id=net0,hostfwd=tcp:127.0.0.1:2222-:22"), "{line}");
        assert!(line.contains("-cpu host"), "{line}");
        assert!(line.contains("spawn=deny"), "{line}");
        assert_eq!(mac_of("db", 0), mac_of("db", 0));
        assert_ne!(mac_of("db", 0), mac_of("db", 1));
    }

    #[test]
    fn a_guest_that_is_sized_can_be_reached_by_the_first_card_of_its_own_network() {
        let mut spec = spec();
        let user = || Nic { network: Network::User { forwards: Vec::new() }, mac: None };
        let tap = Nic { network: Network::Tap { device: "tap0".to_owned() }, mac: None };
        spec.nics = vec![tap, user(), user()];
        let ways = "hostfwd=tcp:127.0.0.1:0-:10301,hostfwd=tcp:127.0.0.1:0-:9100";
        assert!(!line(&spec, &Plugged::default(), false).contains("hostfwd"));
        spec.scaling = Some(crate::scaling::Scaling {
            unit_cpu: Millicores::new(1000),
            unit_memory: mib(256),
            cpu_min: Millicores::new(1000),
            may_move: false,
            guest: None,
        });
        let line = line(&spec, &Plugged::default(), false);
        assert!(line.contains(&format!("user,id=net1,{ways}")), "{line}");
        assert_eq!(line.matches("10301").count(), 1, "{line}");
    }
}
