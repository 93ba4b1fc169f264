//! What to tell Docker to make of a container.

use std::collections::BTreeMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount as DockerMount,
    MountType, PortBinding, RestartPolicy, RestartPolicyNameEnum,
};
use walras_core::run::{Container, Protocol, Restart, Source};

use super::secrets::SecretFiles;
use super::{MANAGED, REVISION, WORKLOAD};
use crate::runtime::Job;

/// What to tell the engine to make.
pub(super) fn body(
    job: Job<'_>,
    container: &Container,
    files: &SecretFiles,
) -> ContainerCreateBody {
    let words = |words: &[String]| (!words.is_empty()).then(|| words.to_vec());
    let secrets = job.secrets.iter().filter(|_| !container.secrets_as_files);
    let both = container.env.iter().chain(secrets);
    let env: Vec<String> = both.map(|(name, value)| format!("{name}={value}")).collect();
    let exposed: Vec<String> = container.ports.iter().map(port_name).collect();
    ContainerCreateBody {
        image: Some(container.image.clone()),
        entrypoint: words(&container.command),
        cmd: words(&container.args),
        env: Some(env),
        exposed_ports: Some(exposed),
        labels: Some(labels(job, container).into_iter().collect()),
        healthcheck: container.health.as_ref().map(|health| {
            let ns = |span: walras_core::units::Span| {
                i64::try_from(span.as_us().saturating_mul(1000)).unwrap_or(i64::MAX)
            };
            let test = core::iter::once("CMD".to_owned()).chain(health.command.iter().cloned());
            HealthConfig {
                test: Some(test.collect()),
                interval: Some(ns(health.interval)),
                timeout: Some(ns(health.timeout)),
                retries: Some(health.retries.into()),
                start_period: Some(ns(health.start_period)),
                start_interval: None,
            }
        }),
        host_config: Some(host_config(job, container, files)),
        ..Default::default()
    }
}

fn labels(job: Job<'_>, container: &Container) -> BTreeMap<String, String> {
    let mut labels = container.labels.clone();
    labels.insert(MANAGED.to_owned(), "true".to_owned());
    labels.insert(WORKLOAD.to_owned(), job.id.to_string());
    labels.insert(REVISION.to_owned(), job.spec.revision.to_string());
    let resources = &container.resources;
    for (name, cpu) in [("min-cpu", resources.cpu_min), ("max-cpu", resources.cpu_max)] {
        if let Some(cpu) = cpu {
            labels.insert(format!("walras.dev/{name}"), format!("{}m", cpu.get()));
        }
    }
    if let Some(weight) = resources.weight_thousandths {
        let weight = format!("{}.{:03}", weight / 1000, weight % 1000);
        labels.insert("walras.dev/weight".to_owned(), weight);
    }
    if let Some(latency) = resources.target_latency_ms {
        labels.insert("walras.dev/target-latency-ms".to_owned(), latency.to_string());
    }
    labels
}

fn host_config(job: Job<'_>, container: &Container, files: &SecretFiles) -> HostConfig {
    let bytes = |bytes: walras_core::units::Bytes| i64::try_from(bytes.get()).unwrap_or(i64::MAX);
    let resources = &container.resources;
    let bindings = container.ports.iter().map(|port| {
        let host = PortBinding { host_ip: None, host_port: Some(port.host.to_string()) };
        (port_name(port), Some(vec![host]))
    });
    let secrets = (container.secrets_as_files && !job.spec.secrets.is_empty()).then(|| {
        let source = Some(files.folder(job.id).display().to_string());
        let (target, typ) = (Some("/run/secrets".to_owned()), Some(MountType::BIND));
        DockerMount { target, source, typ, read_only: Some(true), ..Default::default() }
    });
    let mounts = container.mounts.iter().map(|mount| {
        let (typ, source) = match &mount.source {
            Source::Path(path) => (MountType::BIND, path),
            Source::Volume(name) => (MountType::VOLUME, name),
        };
        DockerMount {
            target: Some(mount.path.clone()),
            source: Some(source.clone()),
            typ: Some(typ),
            read_only: Some(mount.read_only),
            ..Default::default()
        }
    });
    let (name, retries) = match container.restart {
        Restart::No => (RestartPolicyNameEnum::NO, None),
        Restart::OnFailure { retries } => (RestartPolicyNameEnum::ON_FAILURE, Some(retries.into())),
        // With `always`, Docker would start what we stopped when it starts itself.
        Restart::Always => (RestartPolicyNameEnum::UNLESS_STOPPED, None),
    };
    let bounds = container.logs;
    let bounds =
        [("max-size", bounds.max.get().to_string()), ("max-file", bounds.files.to_string())];
    let bounds = bounds.map(|(name, value)| (name.to_owned(), value));
    HostConfig {
        cpu_shares: resources.cpu_shares.map(Into::into),
        memory: resources.memory.map(bytes),
        memory_swap: resources.memory_swap.map(bytes),
        mounts: Some(mounts.chain(secrets).collect()),
        // The others are connected before it starts.
        network_mode: container.networks.first().cloned(),
        runtime: container.oci_runtime.clone(),
        port_bindings: Some(bindings.collect()),
        restart_policy: Some(RestartPolicy { name: Some(name), maximum_retry_count: retries }),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(bounds.into_iter().collect()),
        }),
        ..Default::default()
    }
}

fn port_name(port: &walras_core::run::Port) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    format!("{}/{protocol}", port.container)
}
