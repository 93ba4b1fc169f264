//! A virtual machine as it is written in a document for `walras apply`, and as a message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use walras_rpc::agent::{
    CloudInitConfig, DiskConfig, NetworkConfig, PortMapping, RestartPolicy, VmScaling, VmSpec,
};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vm {
    #[serde(default)]
    name: String,
    vcpus: i32,
    memory_mb: i64,
    #[serde(default)]
    disks: Vec<Disk>,
    #[serde(default)]
    networks: Vec<Network>,
    #[serde(default)]
    cloud_init: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    cloud_init_config: Option<CloudInit>,
    #[serde(default)]
    cpu_milli: i64,
    #[serde(default)]
    vcpus_max: i32,
    #[serde(default)]
    memory_min_mb: i64,
    #[serde(default)]
    memory_max_mb: i64,
    #[serde(default)]
    firmware: String,
    #[serde(default)]
    kernel: String,
    #[serde(default)]
    initrd: String,
    #[serde(default)]
    kernel_args: String,
    #[serde(default)]
    accel: String,
    #[serde(default)]
    restart_policy: Restart,
    #[serde(default)]
    ports: Vec<Port>,
    #[serde(default)]
    scaling: Option<Scaling>,
    // Not written where it is not said, so that what it is does not get another revision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    hypervisor: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Scaling {
    unit_cpu_milli: i64,
    unit_memory_mb: i64,
    #[serde(default)]
    cpu_min_milli: i64,
    #[serde(default)]
    may_move: bool,
    #[serde(default)]
    guest_address: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Disk {
    path: String,
    #[serde(default)]
    format: String,
    #[serde(default)]
    size_gb: i64,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    boot: bool,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    shared: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Network {
    #[serde(default)]
    network: String,
    #[serde(default)]
    mac_address: String,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct CloudInit {
    user_data: String,
    meta_data: String,
    network_config: String,
    vendor_data: String,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Restart {
    policy: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Port {
    host_port: i32,
    guest_port: i32,
    #[serde(default)]
    protocol: String,
}

impl From<Vm> for VmSpec {
    fn from(vm: Vm) -> Self {
        Self {
            name: vm.name,
            vcpus: vm.vcpus,
            memory_mb: vm.memory_mb,
            disks: vm.disks.into_iter().map(DiskConfig::from).collect(),
            networks: vm
                .networks
                .into_iter()
                .map(|Network { network, mac_address }| NetworkConfig {
                    network,
                    mac_address,
                    ip_address: String::new(),
                })
                .collect(),
            cloud_init: vm.cloud_init,
            metadata: vm.metadata,
            cloud_init_config: vm.cloud_init_config.map(|config| CloudInitConfig {
                user_data: config.user_data,
                meta_data: config.meta_data,
                network_config: config.network_config,
                vendor_data: config.vendor_data,
            }),
            managed_volumes: Vec::new(),
            cpu_milli: vm.cpu_milli,
            vcpus_max: vm.vcpus_max,
            memory_min_mb: vm.memory_min_mb,
            memory_max_mb: vm.memory_max_mb,
            firmware: vm.firmware,
            kernel: vm.kernel,
            initrd: vm.initrd,
            kernel_args: vm.kernel_args,
            accel: vm.accel,
            restart_policy: Some(RestartPolicy {
                policy: vm.restart_policy.policy,
                max_retry_count: 0,
            }),
            ports: vm
                .ports
                .into_iter()
                .map(|Port { host_port, guest_port, protocol }| PortMapping {
                    host_port,
                    container_port: guest_port,
                    protocol,
                })
                .collect(),
            scaling: vm.scaling.map(|scaling| VmScaling {
                unit_cpu_milli: scaling.unit_cpu_milli,
                unit_memory_mb: scaling.unit_memory_mb,
                cpu_min_milli: scaling.cpu_min_milli,
                may_move: scaling.may_move,
                guest_address: scaling.guest_address,
            }),
            hypervisor: vm.hypervisor,
        }
    }
}

impl From<Disk> for DiskConfig {
    fn from(disk: Disk) -> Self {
        Self {
            path: disk.path,
            device: String::new(),
            format: disk.format,
            size_gb: disk.size_gb,
            r#type: disk.r#type,
            boot: disk.boot,
            read_only: disk.read_only,
            shared: disk.shared,
        }
    }
}
