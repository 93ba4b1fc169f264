//! A container's message in the core's types.

use walras_core::run::{
    Container, HealthCheck, LogBounds, Mount, Port, Protocol, Resources, Restart, Source,
};
use walras_core::units::{Bytes, Millicores, Span};
use walras_rpc::agent::{
    ContainerSpec, HealthCheckSpec, ManagedVolumeSpec, PortMapping, ResourceLimits, RestartPolicy,
    VolumeMount,
};

use super::Reader;

impl Reader {
    pub(super) fn container(&mut self, spec: ContainerSpec) -> Container {
        for (field, value) in [("gpus", &spec.gpus), ("sriov", &spec.sriov), ("vault", &spec.vault)]
        {
            if !value.is_empty() {
                self.fault(field, "is not supported yet; it is on the roadmap");
            }
        }
        let mut mounts: Vec<Mount> = spec.volumes.into_iter().map(mount).collect();
        for (place, volume) in spec.managed_volumes.into_iter().enumerate() {
            mounts.push(self.volume(place, volume));
        }
        let mut ports = Vec::new();
        for (place, port) in spec.ports.iter().enumerate() {
            ports.extend(self.port(place, port));
        }
        Container {
            image: spec.image,
            command: spec.command,
            args: spec.args,
            env: spec.env,
            mounts,
            ports,
            resources: self.resources(&spec.resources.unwrap_or_default()),
            restart: self.restart(&spec.restart_policy.unwrap_or_default()),
            labels: spec.labels,
            health: spec.health_check.map(|health| self.health(health)),
            networks: spec.networks,
            oci_runtime: Some(spec.oci_runtime).filter(|name| !name.is_empty()),
            logs: self.logs(&spec.logs.unwrap_or_default()),
            secrets_as_files: false,
        }
    }

    fn volume(&mut self, place: usize, volume: ManagedVolumeSpec) -> Mount {
        let field = |name: &str| format!("managed_volumes[{place}].{name}");
        let said = [
            ("driver", &*volume.driver, "local"),
            ("access_mode", &*volume.access_mode, ""),
            ("fs_type", &*volume.fs_type, ""),
        ];
        for (name, value, only) in said {
            if !value.is_empty() && value != only {
                let only = if only.is_empty() { "nothing" } else { only };
                let roadmap = ["nfs", "ceph-rbd", "ceph"].contains(&value);
                let more = if roadmap { " yet; it is on the roadmap" } else { "" };
                self.fault(field(name), format!("`{value}` is not supported{more}; say {only}"));
            }
        }
        if volume.size_gb != 0 {
            let what = format!("{} is not supported; volumes have no size", volume.size_gb);
            self.fault(field("size_gb"), what);
        }
        let goes_with_workload = match &*volume.retain_policy {
            "" | "Retain" => false,
            "Delete" => true,
            other => {
                let what = format!("`{other}` is neither Retain nor Delete");
                self.fault(field("retain_policy"), what);
                false
            }
        };
        let (path, read_only) = (volume.mount_path, volume.read_only);
        Mount { source: Source::Volume(volume.name), path, read_only, goes_with_workload }
    }

    fn port(&mut self, place: usize, port: &PortMapping) -> Option<Port> {
        let protocol = match &*port.protocol {
            "" | "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            other => {
                let what = format!("`{other}` is neither tcp nor udp");
                self.fault(format!("ports[{place}].protocol"), what);
                return None;
            }
        };
        let mut number = |name: &str, number: i32| {
            let read = u16::try_from(number);
            if read.is_err() {
                let what = format!("{number} is outside 0 to 65535");
                self.fault(format!("ports[{place}].{name}"), what);
            }
            read.ok()
        };
        let (host, container) =
            (number("host_port", port.host_port), number("container_port", port.container_port));
        Some(Port { host: host?, container: container?, protocol })
    }

    fn resources(&mut self, limits: &ResourceLimits) -> Resources {
        let mut number =
            |name: &str, value| -> Option<u64> { self.number(&format!("resources.{name}"), value) };
        let memory = number("memory_bytes", limits.memory_bytes);
        let memory_swap = number("memory_swap_bytes", limits.memory_swap_bytes);
        let cpu_min = number("cpu_min_milli", limits.cpu_min_milli);
        let cpu_max = number("cpu_max_milli", limits.cpu_max_milli);
        Resources {
            cpu_shares: self.number("resources.cpu_shares", limits.cpu_shares),
            memory: memory.map(Bytes::new),
            memory_swap: memory_swap.map(Bytes::new),
            cpu_min: cpu_min.map(Millicores::new),
            cpu_max: cpu_max.map(Millicores::new),
            weight_thousandths: self.weight(limits.weight),
            target_latency_ms: self.number("resources.target_latency_ms", limits.target_latency_ms),
        }
    }

    /// In thousandths; zero is "not said".
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was looked whether it fits"
    )]
    fn weight(&mut self, weight: f64) -> Option<u64> {
        if weight == 0.0 {
            return None;
        }
        if !(0.001..=1_000_000.0).contains(&weight) {
            self.fault("resources.weight", format!("{weight} is outside 0.001 to 1000000"));
            return None;
        }
        Some((weight * 1000.0).round() as u64)
    }

    fn logs(&mut self, bounds: &walras_rpc::agent::LogBounds) -> LogBounds {
        let usual = LogBounds::default();
        let max: Option<u64> = self.number("logs.max_bytes", bounds.max_bytes);
        let files: Option<u32> = self.number("logs.max_files", bounds.max_files.into());
        LogBounds { max: max.map_or(usual.max, Bytes::new), files: files.unwrap_or(usual.files) }
    }

    fn restart(&mut self, policy: &RestartPolicy) -> Restart {
        let retries = u32::try_from(policy.max_retry_count);
        if retries.is_err() {
            let what = format!("{} is negative", policy.max_retry_count);
            self.fault("restart_policy.max_retry_count", what);
        }
        match &*policy.policy {
            "" | "always" | "unless-stopped" => Restart::Always,
            "no" => Restart::No,
            "on-failure" => Restart::OnFailure { retries: retries.unwrap_or(0) },
            other => {
                let known = "no, always, on-failure and unless-stopped";
                let what = format!("`{other}` is none; there are {known}");
                self.fault("restart_policy.policy", what);
                Restart::Always
            }
        }
    }

    fn health(&mut self, health: HealthCheckSpec) -> HealthCheck {
        let mut number = |name: &str, value: i32, usual: u32| -> u32 {
            let read = self.number(&format!("health_check.{name}"), value.into());
            read.unwrap_or(usual)
        };
        let interval = number("interval_s", health.interval_s, 30);
        let timeout = number("timeout_s", health.timeout_s, 5);
        let retries = number("retries", health.retries, 3);
        let start_period = number("start_period_s", health.start_period_s, 0);
        HealthCheck {
            command: health.command,
            interval: Span::from_s(interval.into()),
            timeout: Span::from_s(timeout.into()),
            retries,
            start_period: Span::from_s(start_period.into()),
        }
    }
}

fn mount(volume: VolumeMount) -> Mount {
    let VolumeMount { host_path, container_path, read_only } = volume;
    let source = Source::Path(host_path);
    Mount { source, path: container_path, read_only, goes_with_workload: false }
}
