//! A machine in the words of libvirt: a pure function of what it is and where its files are.
//!
//! Every value goes through [`text`], so that no name can become a tag.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use walras_vm::{Accel, DiskFormat, Firmware, Forward, MachineSpec, Network, Protocol};

/// Where a machine's files are.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) console: PathBuf,
    /// The image for cloud-init, where there is one.
    pub(super) seed: Option<PathBuf>,
    /// What is handed to the guest, by name.
    pub(super) secrets: Vec<(String, PathBuf)>,
}

/// The whole description.
pub(super) fn domain(spec: &MachineSpec, uuid: &str, files: &Files) -> String {
    let kind = match spec.accel {
        Accel::Kvm => "kvm",
        Accel::Tcg => "qemu",
        Accel::Auto if Path::new("/dev/kvm").exists() => "kvm",
        Accel::Auto => "qemu",
    };
    // QEMU's own network is something that libvirt only passes on.
    let mut xml = format!(
        "<domain type='{kind}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n  \
         <name>{}</name>\n  <uuid>{uuid}</uuid>\n",
        text(&spec.name)
    );
    let starts = spec.cpus.start.get().div_ceil(1000).max(1);
    let mut line = |words: String| {
        xml.push_str("  ");
        xml.push_str(&words);
        xml.push('\n');
    };
    line(format!("<memory unit='b'>{}</memory>", spec.memory.start.get()));
    line(format!("<vcpu current='{starts}'>{}</vcpu>", spec.cpus.max));
    if !spec.cpus.start.get().is_multiple_of(1000) {
        // A part of a CPU is a limit on all of them together.
        let quota = spec.cpus.start.get() * 100;
        line(format!(
            "<cputune><global_period>100000</global_period><global_quota>{quota}</global_quota>\
             </cputune>"
        ));
    }
    if !files.secrets.is_empty() {
        let entries = files.secrets.iter().map(|(name, path)| {
            format!("<entry name='opt/dev.walras/{}' file='{}'/>", text(name), path_text(path))
        });
        line(format!("<sysinfo type='fwcfg'>{}</sysinfo>", entries.collect::<String>()));
    }
    line(boot(spec));
    line("<features><acpi/></features>".to_owned());
    // A guest that switches itself off, or dies, is looked at by us.
    line("<on_poweroff>destroy</on_poweroff>".to_owned());
    line("<on_crash>destroy</on_crash>".to_owned());
    line("<devices>".to_owned());
    for (index, disk) in spec.disks.iter().enumerate() {
        let format = match disk.format {
            DiskFormat::Qcow2 => "qcow2",
            DiskFormat::Raw => "raw",
        };
        let order = match spec.boot.kernel {
            Some(_) => String::new(),
            None => format!("<boot order='{}'/>", if disk.boot { 1 } else { index + 2 }),
        };
        let read_only = if disk.read_only { "<readonly/>" } else { "" };
        line(disk_line(&disk.path, format, index, &format!("{order}{read_only}")));
    }
    if let Some(seed) = &files.seed {
        line(disk_line(seed, "raw", spec.disks.len(), "<readonly/>"));
    }
    let (cards, passed_on) = nics(spec);
    cards.into_iter().for_each(&mut line);
    let console = path_text(&files.console);
    line(format!("<serial type='file'><source path='{console}' append='on'/></serial>"));
    line("<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>".to_owned());
    line("</devices>".to_owned());
    if !passed_on.is_empty() {
        let all = passed_on.iter().map(|arg| format!("<qemu:arg value='{}'/>", text(arg)));
        line(format!("<qemu:commandline>{}</qemu:commandline>", all.collect::<String>()));
    }
    xml.push_str("</domain>\n");
    xml
}

/// Its network cards, and what libvirt only passes on to QEMU.
fn nics(spec: &MachineSpec) -> (Vec<String>, Vec<String>) {
    let (mut cards, mut passed_on) = (Vec::new(), Vec::new());
    for (index, nic) in spec.nics.iter().enumerate() {
        let mac = nic.mac.as_ref().map_or_else(String::new, |it| format!("<mac address='{it}'/>"));
        match &nic.network {
            Network::User { forwards } => passed_on.extend(user(index, forwards, nic.mac.as_ref())),
            Network::Tap { device } => cards.push(format!(
                "<interface type='ethernet'>{mac}<target dev='{}' managed='no'/>\
                 <model type='virtio'/></interface>",
                text(device)
            )),
            Network::Bridge { bridge } => cards.push(format!(
                "<interface type='bridge'>{mac}<source bridge='{}'/><model type='virtio'/>\
                 </interface>",
                text(bridge)
            )),
        }
    }
    (cards, passed_on)
}

fn boot(spec: &MachineSpec) -> String {
    let kind = spec.machine_type.as_deref().unwrap_or("q35");
    let firmware = match spec.boot.firmware {
        Firmware::Bios => "",
        Firmware::Uefi => " firmware='efi'",
    };
    let mut os = format!("<os{firmware}><type arch='x86_64' machine='{}'>hvm</type>", text(kind));
    for (tag, path) in [("kernel", &spec.boot.kernel), ("initrd", &spec.boot.initrd)] {
        if let Some(path) = path {
            // Writing to a text cannot fail.
            write!(os, "<{tag}>{}</{tag}>", path_text(path)).ok();
        }
    }
    if spec.boot.kernel.is_some() && !spec.boot.append.is_empty() {
        write!(os, "<cmdline>{}</cmdline>", text(&spec.boot.append)).ok();
    }
    os.push_str("</os>");
    if spec.boot.kernel.is_none() {
        return os;
    }
    os
}

fn disk_line(path: &Path, format: &str, index: usize, more: &str) -> String {
    let letter = char::from(b'a' + u8::try_from(index).unwrap_or(25).min(25));
    format!(
        "<disk type='file' device='disk'><driver name='qemu' type='{format}'/>\
         <source file='{}'/><target dev='vd{letter}' bus='virtio'/>{more}</disk>",
        path_text(path)
    )
}

/// QEMU's own network, with ports of the host's loopback address that lead into the guest.
fn user(index: usize, forwards: &[Forward], mac: Option<&String>) -> Vec<String> {
    let mut netdev = format!("user,id=walras{index}");
    for Forward { protocol, host, guest } in forwards {
        let protocol = match protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        netdev += &format!(",hostfwd={protocol}:127.0.0.1:{host}-:{guest}");
    }
    let mac = mac.map_or_else(String::new, |mac| format!(",mac={mac}"));
    // A place on the bus that libvirt gives to nobody.
    let device = format!("virtio-net-pci,netdev=walras{index},romfile=,addr=0x1{index:x}{mac}");
    ["-netdev", &netdev, "-device", &device].map(str::to_owned).to_vec()
}

fn path_text(path: &Path) -> String {
    text(&path.to_string_lossy())
}

/// A text as it stands in XML.
fn text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\'' => safe.push_str("&apos;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::units::{Bytes, Millicores};
    use walras_vm::{CpuRange, Disk, MemoryRange, Nic};

    #[test]
    fn a_machine_is_written_down_and_no_name_becomes_a_tag() {
        let size = Bytes::new(128 << 20);
        let cpus = CpuRange { start: Millicores::new(1500), max: 2 };
        let memory = MemoryRange { min: size, start: size, max: size };
        let mut spec = MachineSpec::new("db", cpus, memory);
        spec.accel = Accel::Tcg;
        spec.boot.kernel = Some("/boot/a&b".into());
        spec.boot.append = "console=ttyS0 x='<y>'".to_owned();
        let disk = Disk {
            path: "/srv/d'b.qcow2".into(),
            format: DiskFormat::Qcow2,
            create: None,
            read_only: false,
            shared: false,
            boot: true,
        };
        spec.disks.push(disk);
        let forwards = vec![Forward { protocol: Protocol::Tcp, host: 2222, guest: 22 }];
        spec.nics.push(Nic { network: Network::User { forwards }, mac: None });
        let files = Files {
            console: "/var/console".into(),
            seed: Some("/dev/shm/seed.iso".into()),
            secrets: vec![("KEY".to_owned(), "/dev/shm/key".into())],
        };
        let xml = domain(&spec, "11111111-2222-4333-8444-555555555555", &files);
        for part in [
            "<domain type='qemu'",
            "<vcpu current='2'>2</vcpu>",
            "<global_quota>150000</global_quota>",
            "<kernel>/boot/a&amp;b</kernel>",
            "<cmdline>console=ttyS0 x=&apos;&lt;y&gt;&apos;</cmdline>",
            "<source file='/srv/d&apos;b.qcow2'/><target dev='vda' bus='virtio'/></disk>",
            "<source file='/dev/shm/seed.iso'/><target dev='vdb' bus='virtio'/><readonly/></disk>",
            "<entry name='opt/dev.walras/KEY' file='/dev/shm/key'/>",
            "hostfwd=tcp:127.0.0.1:2222-:22",
        ] {
            assert!(xml.contains(part), "{part} is not in\n{xml}");
        }
    }
}
