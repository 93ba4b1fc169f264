//! Messages of virtual machines in the words of `crates/vm`, which checks what they say.

use std::path::PathBuf;

use walras_core::run::{Hypervisor, Restart, Vm};
use walras_core::units::{Bytes, Millicores};
use walras_rpc::agent::{
    CloudInitConfig, DiskConfig, NetworkConfig, PortMapping, RestartPolicy, VmScaling, VmSpec,
};
use walras_vm::{
    Accel, Boot, CpuRange, Disk, DiskFormat, Firmware, Forward, MachineSpec, MemoryRange, Network,
    Nic, Protocol, Scaling, Seed,
};

use super::Reader;

/// What memory is counted in.
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Reader {
    /// A virtual machine; its name is the workload's.
    pub(super) fn vm(&mut self, id: &str, spec: VmSpec) -> Option<Vm> {
        let faults_before = self.faults.len();
        if !spec.name.is_empty() && spec.name != id {
            let name: String = spec.name.chars().take(80).collect();
            self.fault("vm.name", format!("`{name}` is not the workload's id, `{id}`"));
        }
        if !spec.managed_volumes.is_empty() {
            let what = "is not possible for machines; name a disk with `size_gb`";
            self.fault("vm.managed_volumes", what);
        }
        let (cpus, memory) = (self.cpus(&spec), self.memory(&spec));
        let mut machine = MachineSpec::new(id, cpus, memory);
        machine.boot = self.boot(&spec);
        machine.accel = match spec.accel.as_str() {
            "" | "auto" => Accel::Auto,
            "kvm" => Accel::Kvm,
            "tcg" => Accel::Tcg,
            other => {
                self.fault("vm.accel", format!("`{other}` is none of auto, kvm and tcg"));
                Accel::Auto
            }
        };
        for (index, disk) in spec.disks.into_iter().enumerate() {
            machine.disks.extend(self.disk(index, disk));
        }
        let ports = self.forwards(&spec.ports);
        for (index, network) in spec.networks.into_iter().enumerate() {
            machine.nics.extend(self.nic(index, network));
        }
        self.forward(&mut machine, ports);
        machine.scaling = spec.scaling.map(|scaling| self.scaling(&scaling, cpus));
        machine.seed = seed(spec.cloud_init, spec.cloud_init_config);
        let hypervisor = match spec.hypervisor.as_str() {
            "" | "qemu" => Hypervisor::Qemu,
            "libvirt" => Hypervisor::Libvirt,
            other => {
                self.fault("vm.hypervisor", format!("`{other}` is none of qemu and libvirt"));
                Hypervisor::Qemu
            }
        };
        if hypervisor == Hypervisor::Libvirt && machine.scaling.is_some() {
            let what = "is possible with the hypervisor qemu only";
            self.fault("vm.scaling", what);
        }
        let restart = self.vm_restart(spec.restart_policy.as_ref());
        if let Err(faults) = machine.check() {
            for fault in faults {
                let what = format!("`{}` {}", fault.value, fault.because);
                self.fault(format!("vm.{}", fault.field), what);
            }
        }
        let kept = serde_json::to_value(&machine);
        let kept = self.keep("vm", kept).filter(|_| self.faults.len() == faults_before)?;
        let (cpu, memory) = (cpus.start, memory.start);
        Some(Vm { machine: kept, cpu, memory, restart, hypervisor })
    }

    fn cpus(&mut self, spec: &VmSpec) -> CpuRange {
        let vcpus = self.number::<u32>("vm.vcpus", i64::from(spec.vcpus)).unwrap_or(1);
        let start = self.number::<u64>("vm.cpu_milli", spec.cpu_milli).map(Millicores::new);
        let start = start.unwrap_or(Millicores::from_cores(vcpus));
        if start > Millicores::from_cores(vcpus) {
            let what = format!("{} is more than vcpus ({vcpus})", spec.cpu_milli);
            self.fault("vm.cpu_milli", what);
        }
        let max = self.number("vm.vcpus_max", i64::from(spec.vcpus_max)).unwrap_or(vcpus);
        CpuRange { start, max }
    }

    fn memory(&mut self, spec: &VmSpec) -> MemoryRange {
        let mut mib = |field: &str, number: i64| {
            let number = self.number::<u64>(field, number);
            number.map(|mib| Bytes::new(mib.saturating_mul(MIB)))
        };
        let start = mib("vm.memory_mb", spec.memory_mb);
        let min = mib("vm.memory_min_mb", spec.memory_min_mb);
        let max = mib("vm.memory_max_mb", spec.memory_max_mb);
        if start.is_none() {
            self.fault("vm.memory_mb", "is missing");
        }
        let start = start.unwrap_or(Bytes::new(64 * MIB));
        MemoryRange { min: min.unwrap_or(start), start, max: max.unwrap_or(start) }
    }

    /// What is not said of a unit is missing: no default fits every machine.
    fn scaling(&mut self, scaling: &VmScaling, cpus: CpuRange) -> Scaling {
        let mut number = |field: &str, number: i64| {
            if number == 0 {
                self.fault(format!("vm.scaling.{field}"), "is missing");
            }
            self.number::<u64>(&format!("vm.scaling.{field}"), number)
        };
        let unit_cpu = number("unit_cpu_milli", scaling.unit_cpu_milli).map(Millicores::new);
        let unit_cpu = unit_cpu.unwrap_or(cpus.start);
        let unit_memory = number("unit_memory_mb", scaling.unit_memory_mb);
        let unit_memory = Bytes::new(unit_memory.unwrap_or(2).saturating_mul(MIB));
        let cpu_min = self.number::<u64>("vm.scaling.cpu_min_milli", scaling.cpu_min_milli);
        let cpu_min = cpu_min.map_or(unit_cpu.min(cpus.start), Millicores::new);
        let address = &scaling.guest_address;
        let guest = match address.parse() {
            Ok(address) => Some(address),
            Err(_) if address.is_empty() => None,
            Err(_) => {
                let text: String = address.chars().take(80).collect();
                self.fault("vm.scaling.guest_address", format!("`{text}` is no address"));
                None
            }
        };
        Scaling { unit_cpu, unit_memory, cpu_min, may_move: scaling.may_move, guest }
    }

    fn boot(&mut self, spec: &VmSpec) -> Boot {
        let firmware = match spec.firmware.as_str() {
            "" | "bios" => Firmware::Bios,
            "uefi" => Firmware::Uefi,
            other => {
                self.fault("vm.firmware", format!("`{other}` is neither bios nor uefi"));
                Firmware::Bios
            }
        };
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        let (kernel, initrd) = (path(&spec.kernel), path(&spec.initrd));
        Boot { firmware, kernel, initrd, append: spec.kernel_args.clone() }
    }

    fn disk(&mut self, index: usize, disk: DiskConfig) -> Option<Disk> {
        let field = |rest: &str| format!("vm.disks[{index}].{rest}");
        let format = match disk.format.as_str() {
            "" | "qcow2" => DiskFormat::Qcow2,
            "raw" => DiskFormat::Raw,
            other => {
                self.fault(field("format"), format!("`{other}` is neither qcow2 nor raw"));
                return None;
            }
        };
        let cdrom = match disk.r#type.as_str() {
            "" | "disk" => false,
            "cdrom" => true,
            other => {
                self.fault(field("type"), format!("`{other}` is neither disk nor cdrom"));
                return None;
            }
        };
        let create = self.number::<u64>(&field("size_gb"), disk.size_gb);
        Some(Disk {
            path: disk.path.into(),
            format,
            create: create.map(|gib| Bytes::new(gib.saturating_mul(GIB))),
            read_only: cdrom || disk.read_only,
            shared: disk.shared,
            boot: disk.boot,
        })
    }

    fn nic(&mut self, index: usize, network: NetworkConfig) -> Option<Nic> {
        let field = |rest: &str| format!("vm.networks[{index}].{rest}");
        if !network.ip_address.is_empty() {
            let what = "is not possible; say it in cloud_init_config.network_config";
            self.fault(field("ip_address"), what);
        }
        let mac = (!network.mac_address.is_empty()).then_some(network.mac_address);
        let plugged = match network.network.split_once(':') {
            None if ["", "user"].contains(&network.network.as_str()) => {
                Network::User { forwards: Vec::new() }
            }
            Some(("tap", device)) => Network::Tap { device: device.to_owned() },
            Some(("bridge", bridge)) => Network::Bridge { bridge: bridge.to_owned() },
            None | Some(_) => {
                let name: String = network.network.chars().take(80).collect();
                let what = format!("`{name}` is none of user, tap:DEVICE and bridge:NAME");
                self.fault(field("network"), what);
                return None;
            }
        };
        Some(Nic { network: plugged, mac })
    }

    fn forwards(&mut self, ports: &[PortMapping]) -> Vec<Forward> {
        let mut forwards = Vec::new();
        for (index, port) in ports.iter().enumerate() {
            let protocol = match port.protocol.as_str() {
                "" | "tcp" => Protocol::Tcp,
                "udp" => Protocol::Udp,
                other => {
                    let field = format!("vm.ports[{index}].protocol");
                    self.fault(field, format!("`{other}` is neither tcp nor udp"));
                    continue;
                }
            };
            let number = |port: i32| u16::try_from(port).ok().filter(|port| *port > 0);
            match (number(port.host_port), number(port.container_port)) {
                (Some(host), Some(guest)) => forwards.push(Forward { protocol, host, guest }),
                (_, _) => {
                    let what = format!(
                        "{}:{} needs a port of the host and one of the guest",
                        port.host_port, port.container_port
                    );
                    self.fault(format!("vm.ports[{index}]"), what);
                }
            }
        }
        forwards
    }

    /// Ports lead into the first card on QEMU's own network, which is there if nothing is said.
    fn forward(&mut self, machine: &mut MachineSpec, ports: Vec<Forward>) {
        if machine.nics.is_empty() {
            machine.nics.push(Nic { network: Network::User { forwards: ports }, mac: None });
            return;
        }
        let first = machine.nics.iter_mut().find_map(|nic| match &mut nic.network {
            Network::User { forwards } => Some(forwards),
            Network::Tap { .. } | Network::Bridge { .. } => None,
        });
        match first {
            Some(forwards) => *forwards = ports,
            None if ports.is_empty() => {}
            None => self.fault("vm.ports", "need a network `user`, and there is none"),
        }
    }

    fn vm_restart(&mut self, policy: Option<&RestartPolicy>) -> Restart {
        match policy.map_or("", |policy| policy.policy.as_str()) {
            "" | "always" | "unless-stopped" => Restart::Always,
            "no" => Restart::No,
            other => {
                let other: String = other.chars().take(80).collect();
                let what = format!("`{other}` is none of no, always and unless-stopped");
                self.fault("vm.restart_policy.policy", what);
                Restart::Always
            }
        }
    }
}

/// What cloud-init is told, in the newer or the older field.
fn seed(user_data: String, config: Option<CloudInitConfig>) -> Option<Seed> {
    let seed = match config {
        Some(config) => Seed {
            user_data: if config.user_data.is_empty() { user_data } else { config.user_data },
            meta_data: config.meta_data,
            network_config: config.network_config,
            vendor_data: config.vendor_data,
        },
        None => Seed { user_data, ..Seed::default() },
    };
    (seed != Seed::default()).then_some(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> VmSpec {
        VmSpec { vcpus: 2, memory_mb: 512, ..VmSpec::default() }
    }

    fn read(spec: VmSpec) -> Result<MachineSpec, Vec<String>> {
        let mut reader = Reader::default();
        match reader.vm("db", spec) {
            Some(vm) => Ok(serde_json::from_value(vm.machine).unwrap()),
            None => Err(reader.faults.into_iter().map(|fault| fault.to_string()).collect()),
        }
    }

    #[test]
    fn a_small_machine_has_what_it_says_and_a_network() {
        let machine = read(small()).unwrap();
        assert_eq!((machine.cpus.start, machine.cpus.max), (Millicores::new(2000), 2));
        assert_eq!(machine.memory.max, Bytes::new(512 * MIB));
        assert_eq!(machine.nics.len(), 1);
        assert_eq!(machine.seed, None);
    }

    #[test]
    fn a_machine_that_grows_says_between_what() {
        let port = PortMapping { host_port: 2222, container_port: 22, protocol: String::new() };
        let spec = VmSpec {
            cpu_milli: 500,
            vcpus_max: 4,
            memory_min_mb: 256,
            memory_max_mb: 2048,
            ports: vec![port],
            cloud_init: "#cloud-config".to_owned(),
            scaling: Some(VmScaling {
                unit_cpu_milli: 250,
                unit_memory_mb: 256,
                may_move: true,
                ..VmScaling::default()
            }),
            ..small()
        };
        let machine = read(spec).unwrap();
        assert_eq!((machine.cpus.start, machine.cpus.max), (Millicores::new(500), 4));
        assert_eq!(machine.memory.min, Bytes::new(256 * MIB));
        assert_eq!(machine.seed.unwrap().user_data, "#cloud-config");
        let scaling = machine.scaling.unwrap();
        assert_eq!((scaling.cpu_min, scaling.may_move), (Millicores::new(250), true));
        let Network::User { forwards } = &machine.nics[0].network else { panic!() };
        assert_eq!((forwards[0].host, forwards[0].guest), (2222, 22));
    }

    #[test]
    fn every_fault_is_told_with_its_field() {
        let faults = |change: &dyn Fn(&mut VmSpec)| {
            let mut spec = small();
            change(&mut spec);
            read(spec).unwrap_err().join("\n")
        };
        let disk = |path: &str, format: &str| DiskConfig {
            path: path.to_owned(),
            format: format.to_owned(),
            ..DiskConfig::default()
        };
        let network = |network: &str, ip: &str| NetworkConfig {
            network: network.to_owned(),
            ip_address: ip.to_owned(),
            ..NetworkConfig::default()
        };
        let scaling = |cpu: i64, memory: i64, address: &str| {
            let (unit_cpu_milli, unit_memory_mb) = (cpu, memory);
            let guest_address = address.to_owned();
            Some(VmScaling { unit_cpu_milli, unit_memory_mb, guest_address, ..Default::default() })
        };
        type Spoil<'a> = &'a dyn Fn(&mut VmSpec);
        let cases: [(&str, Spoil<'_>); 15] = [
            ("vm.scaling.unit_cpu_milli: is missing", &|spec| spec.scaling = scaling(0, 256, "")),
            ("vm.scaling.unit_memory: `", &|spec| spec.scaling = scaling(500, 255, "")),
            ("vm.scaling.guest_address: `here` is no", &|spec| {
                spec.scaling = scaling(500, 256, "here");
            }),
            ("vm.name: `x` is not the workload's id", &|spec| spec.name = "x".to_owned()),
            ("vm.vcpus: -1 is out of range", &|spec| spec.vcpus = -1),
            ("vm.cpus.max: `300` is not between", &|spec| spec.vcpus_max = 300),
            ("vm.cpu_milli: 3000 is more than", &|spec| spec.cpu_milli = 3000),
            ("vm.memory_mb: is missing", &|spec| spec.memory_mb = 0),
            ("vm.memory.start: `", &|spec| spec.memory_max_mb = 256),
            ("vm.accel: `fast` is none of", &|spec| spec.accel = "fast".to_owned()),
            ("vm.firmware: `coreboot` is", &|spec| spec.firmware = "coreboot".to_owned()),
            ("vm.disks[0].format: `vmdk` is", &|spec| spec.disks = vec![disk("/d", "vmdk")]),
            ("vm.disks[0].path: `/a/../b` is no", &|spec| spec.disks = vec![disk("/a/../b", "")]),
            ("vm.networks[0].network: `nat` is", &|spec| spec.networks = vec![network("nat", "")]),
            ("vm.networks[0].ip_address: is not possible", &|spec| {
                spec.networks = vec![network("", "10.0.0.1")];
            }),
        ];
        for (expected, change) in cases {
            let told = faults(change);
            assert!(told.contains(expected), "{expected}: {told}");
        }
    }
}
