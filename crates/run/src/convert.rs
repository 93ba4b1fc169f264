//! Between the messages of the API and the core's types. Everything that comes in is checked here,
//! with all faults at once, each with its field and value; code behind this does not check again.

use std::collections::BTreeMap;
use std::fmt;

use walras_core::run::{
    Actual, Container, Desired, FieldFault, HealthCheck, Mount, Port, Protocol, Resources, Restart,
    Revision, Source, Spec, Status, Work, WorkloadId, is_variable,
};
use walras_core::units::{Bytes, Millicores, Span};
use walras_rpc::agent::workload_spec::Spec as AnySpec;
use walras_rpc::agent::{
    ActualState, ApplyWorkloadRequest, ContainerSpec, DesiredState, HealthCheckSpec,
    ManagedVolumeSpec, PortMapping, ResourceLimits, RestartPolicy, VolumeMount, WorkloadStatus,
    WorkloadType,
};

use crate::clock::seconds;

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// These fields are wrong.
    Faults(Vec<FieldFault>),
    /// This host cannot run that.
    Unsupported(String),
}

/// An apply in the core's types.
pub struct Request {
    /// Which workload.
    pub id: WorkloadId,
    /// What to run.
    pub spec: Spec,
    /// Whether to run it.
    pub desired: Desired,
    /// Its secrets.
    pub secrets: BTreeMap<String, String>,
}

/// Reads an apply.
///
/// # Errors
/// Everything that is wrong with it.
pub fn request(message: ApplyWorkloadRequest) -> Result<Request, SpecError> {
    let mut reader = Reader::default();
    let id = reader.keep("id", WorkloadId::new(&message.id));
    if message.id.len() == 1 {
        // It is the container's name, too.
        reader.fault("id", format!("`{}` is too short; Docker wants two letters", message.id));
    }
    let revision = reader.keep("revision_id", Revision::new(&message.revision_id));
    let desired = match DesiredState::try_from(message.desired_state) {
        Ok(DesiredState::Unspecified | DesiredState::Running) => Desired::Running,
        Ok(DesiredState::Stopped) => Desired::Stopped,
        Err(_) => {
            reader.fault("desired_state", format!("{} is none", message.desired_state));
            Desired::Running
        }
    };
    let spec = message.spec.unwrap_or_default();
    let (rollback, secrets) = (spec.rollback, spec.secrets);
    let kind = WorkloadType::try_from(message.r#type);
    let container = match (spec.spec, kind) {
        (Some(AnySpec::Compose(_) | AnySpec::Vm(_)), _)
        | (_, Ok(WorkloadType::Compose | WorkloadType::Vm)) => {
            let words = "type: this host runs containers only, for now";
            return Err(SpecError::Unsupported(words.to_owned()));
        }
        (Some(AnySpec::Container(container)), Ok(_)) => Some(reader.container(container)),
        (Some(AnySpec::Container(_)), Err(_)) => {
            reader.fault("type", format!("{} is none", message.r#type));
            None
        }
        (None, _) => {
            reader.fault("spec.container", "is missing");
            None
        }
    };
    reader.secrets(&secrets, container.as_ref());
    if let Some(container) = &container {
        reader.faults.extend(container.check());
    }
    match (id, revision, container) {
        (Some(id), Some(revision), Some(container)) if reader.faults.is_empty() => {
            let names = secrets.keys().cloned().collect();
            let work = Work::Container(container);
            let spec = Spec { revision, rollback, secrets: names, work };
            Ok(Request { id, spec, desired, secrets })
        }
        (_, _, _) => Err(SpecError::Faults(reader.faults)),
    }
}

/// The faults found so far.
#[derive(Default)]
struct Reader {
    faults: Vec<FieldFault>,
}

impl Reader {
    fn fault(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.faults.push(FieldFault { field: field.into(), what: what.into() });
    }

    fn keep<T>(&mut self, field: &str, read: Result<T, impl fmt::Display>) -> Option<T> {
        read.map_err(|error| self.fault(field, error.to_string())).ok()
    }

    /// A number that must not be negative; zero is "not said".
    fn number<T: TryFrom<i64>>(&mut self, field: &str, number: i64) -> Option<T> {
        if number == 0 {
            return None;
        }
        let read = T::try_from(number).ok().filter(|_| number > 0);
        if read.is_none() {
            self.fault(field, format!("{number} is out of range"));
        }
        read
    }

    fn container(&mut self, spec: ContainerSpec) -> Container {
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
        }
    }

    fn volume(&mut self, place: usize, volume: ManagedVolumeSpec) -> Mount {
        let field = |name: &str| format!("managed_volumes[{place}].{name}");
        let said = [
            ("driver", &*volume.driver, "local"),
            ("retain_policy", &*volume.retain_policy, "Retain"),
            ("access_mode", &*volume.access_mode, ""),
            ("fs_type", &*volume.fs_type, ""),
        ];
        for (name, value, only) in said {
            if !value.is_empty() && value != only {
                let only = if only.is_empty() { "nothing" } else { only };
                self.fault(field(name), format!("`{value}` is not supported; say {only}"));
            }
        }
        if volume.size_gb != 0 {
            let what = format!("{} is not supported; volumes have no size", volume.size_gb);
            self.fault(field("size_gb"), what);
        }
        let source = Source::Volume(volume.name);
        Mount { source, path: volume.mount_path, read_only: volume.read_only }
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
        }
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

    /// Secrets by their names alone: their values are in no message.
    fn secrets(&mut self, secrets: &BTreeMap<String, String>, container: Option<&Container>) {
        for (name, value) in secrets {
            let field = format!("secrets.{}", name.chars().take(80).collect::<String>());
            if !is_variable(name) {
                self.fault(&field, "is no name of a variable");
            } else if value.contains('\0') || value.len() > 64 << 10 {
                self.fault(&field, "its value has a zero byte, or more than 64 KiB");
            } else if container.is_some_and(|container| container.env.contains_key(name)) {
                self.fault(&field, "is in env, too");
            }
        }
    }
}

fn mount(volume: VolumeMount) -> Mount {
    let VolumeMount { host_path, container_path, read_only } = volume;
    Mount { source: Source::Path(host_path), path: container_path, read_only }
}

/// What is told of a workload.
pub(crate) fn status(id: &WorkloadId, status: &Status, handles: &[String]) -> WorkloadStatus {
    let desired = match status.desired {
        Desired::Running => DesiredState::Running,
        Desired::Stopped => DesiredState::Stopped,
    };
    let actual = match status.actual {
        Actual::Pending => ActualState::Pending,
        Actual::Running => ActualState::Running,
        Actual::Stopped => ActualState::Stopped,
        Actual::Failed => ActualState::Failed,
        Actual::Unknown => ActualState::Unknown,
    };
    let mut metadata = BTreeMap::new();
    let mut put = |name: &str, value: String| metadata.insert(name.to_owned(), value);
    if let Some(fault) = &status.fault {
        put("failure_reason", fault.kind.code().to_owned());
        put("last_error", fault.words.clone());
    }
    if let Some(failed) = &status.failed_revision {
        put("failed_revision", failed.to_string());
    }
    if status.terminal {
        put("retry_terminal", "true".to_owned());
    }
    if status.attempts > 0 {
        put("retry_attempts", status.attempts.to_string());
    }
    if let Some(at) = status.retry_at {
        put("next_retry_time", seconds(at).to_string());
    }
    if status.repairs > 0 {
        put("repairs", status.repairs.to_string());
    }
    if let Some(at) = status.answered_at {
        put("runtime_answered_at", seconds(at).to_string());
    }
    if !handles.is_empty() {
        put("container_id", handles.join(","));
    }
    WorkloadStatus {
        id: id.to_string(),
        r#type: WorkloadType::Container.into(),
        revision_id: status.revision.to_string(),
        desired_state: desired.into(),
        actual_state: actual.into(),
        message: status.message.clone(),
        created_at: seconds(status.created_at),
        updated_at: seconds(status.updated_at),
        metadata,
        usage: None,
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(words) => f.write_str(words),
            Self::Faults(faults) => {
                let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("; "))
            }
        }
    }
}

impl std::error::Error for SpecError {}

impl fmt::Debug for Request {
    /// Without its secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {:?}", self.id, self.desired, self.spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_rpc::agent::{ComposeSpec, WorkloadSpec};

    fn message(container: ContainerSpec) -> ApplyWorkloadRequest {
        ApplyWorkloadRequest {
            id: "web".to_owned(),
            r#type: WorkloadType::Container.into(),
            revision_id: "1".to_owned(),
            desired_state: DesiredState::Running.into(),
            spec: Some(WorkloadSpec {
                spec: Some(AnySpec::Container(container)),
                ..Default::default()
            }),
            dry_run: false,
        }
    }

    fn good() -> ContainerSpec {
        ContainerSpec { image: "busybox".to_owned(), ..Default::default() }
    }

    #[test]
    fn what_is_not_said_is_the_usual() {
        let read = request(message(good())).unwrap();
        let Work::Container(container) = &read.spec.work;
        assert_eq!(container.restart, Restart::Always);
        assert_eq!(container.resources, Resources::default());
        assert_eq!((read.desired, read.spec.rollback), (Desired::Running, false));
        let mut checked = message(good());
        checked.r#type = 0;
        checked.desired_state = 0;
        assert_eq!(request(checked).unwrap().desired, Desired::Running);
        let short = ApplyWorkloadRequest { id: "a".to_owned(), ..message(good()) };
        let refused = request(short).unwrap_err().to_string();
        assert_eq!(refused, "id: `a` is too short; Docker wants two letters");
    }

    #[test]
    fn every_field_out_of_range_is_told_at_once() {
        let mut bad = message(ContainerSpec {
            volumes: vec![VolumeMount {
                host_path: "../etc".to_owned(),
                container_path: "/x".to_owned(),
                read_only: false,
            }],
            managed_volumes: vec![ManagedVolumeSpec {
                name: "data".to_owned(),
                driver: "nfs".to_owned(),
                size_gb: 3,
                mount_path: "/data".to_owned(),
                retain_policy: "Delete".to_owned(),
                ..Default::default()
            }],
            ports: vec![
                PortMapping { host_port: 70_000, container_port: 80, protocol: String::new() },
                PortMapping { host_port: 1, container_port: 80, protocol: "sctp".to_owned() },
            ],
            resources: Some(ResourceLimits {
                cpu_shares: -1,
                memory_bytes: 1,
                ..Default::default()
            }),
            restart_policy: Some(RestartPolicy {
                policy: "sometimes".to_owned(),
                max_retry_count: -1,
            }),
            ..Default::default()
        });
        bad.id = "../web".to_owned();
        bad.revision_id = String::new();
        bad.desired_state = 9;
        let secrets = [("A=B".to_owned(), "hush".to_owned())];
        bad.spec.as_mut().unwrap().secrets = secrets.into_iter().collect();
        let error = request(bad).unwrap_err();
        let SpecError::Faults(faults) = &error else { panic!("{error}") };
        let fields: Vec<&str> = faults.iter().map(|fault| &*fault.field).collect();
        let expected = [
            "id",
            "revision_id",
            "desired_state",
            "managed_volumes[0].driver",
            "managed_volumes[0].retain_policy",
            "managed_volumes[0].size_gb",
            "ports[0].host_port",
            "ports[1].protocol",
            "resources.cpu_shares",
            "restart_policy.max_retry_count",
            "restart_policy.policy",
            "secrets.A=B",
            "image",
            "volumes[0].host_path",
            "resources.memory_bytes",
        ];
        assert_eq!(fields, expected);
        assert!(!error.to_string().contains("hush"), "{error}");
    }

    #[test]
    fn what_this_host_cannot_run_is_said_so() {
        let mut compose = message(good());
        let spec = AnySpec::Compose(ComposeSpec::default());
        compose.spec = Some(WorkloadSpec { spec: Some(spec), ..Default::default() });
        assert!(matches!(request(compose), Err(SpecError::Unsupported(_))));
        let mut vm = message(good());
        vm.r#type = WorkloadType::Vm.into();
        assert!(matches!(request(vm), Err(SpecError::Unsupported(_))));
    }
}
