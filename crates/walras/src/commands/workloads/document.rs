//! What `walras apply` reads: workloads as YAML or JSON, one or several documents.
//!
//! Names are those of the API. What is unknown is refused, since a misspelt limit is none. The host
//! checks the values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use walras_rpc::agent::workload_spec::Spec as AnySpec;
use walras_rpc::agent::{
    ApplyWorkloadRequest, ComposeSpec, ContainerSpec, CustomSpec, DesiredState, HealthCheckSpec,
    LogBounds, ManagedVolumeSpec, PortMapping, ResourceLimits, RestartPolicy, VolumeMount,
    WorkloadSpec, WorkloadType,
};

use super::vm::Vm;

/// More of a file is not read.
const DOCUMENTS_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    id: String,
    #[serde(default)]
    r#type: Option<Kind>,
    #[serde(default)]
    revision_id: Option<String>,
    #[serde(default)]
    desired_state: State,
    spec: Spec,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Container,
    Compose,
    Vm,
    Custom,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    #[default]
    Running,
    Stopped,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    #[serde(default)]
    rollback: bool,
    #[serde(default)]
    secrets: BTreeMap<String, String>,
    #[serde(default)]
    secrets_as_files: bool,
    #[serde(default)]
    container: Option<Container>,
    #[serde(default)]
    compose: Option<Compose>,
    #[serde(default)]
    vm: Option<Vm>,
    #[serde(default)]
    custom: Option<Custom>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Compose {
    #[serde(default)]
    project_name: String,
    #[serde(default)]
    compose_yaml: String,
    /// A file with it, beside the document.
    #[serde(default)]
    compose_file: Option<PathBuf>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Custom {
    runtime: String,
    #[serde(default)]
    settings: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Container {
    image: String,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    volumes: Vec<Volume>,
    #[serde(default)]
    ports: Vec<Port>,
    #[serde(default)]
    resources: Resources,
    #[serde(default)]
    restart_policy: Restart,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    managed_volumes: Vec<NamedVolume>,
    #[serde(default)]
    health_check: Option<Health>,
    #[serde(default)]
    networks: Vec<String>,
    #[serde(default)]
    oci_runtime: String,
    #[serde(default)]
    logs: Logs,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Logs {
    max_bytes: i64,
    max_files: i32,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Volume {
    host_path: String,
    container_path: String,
    #[serde(default)]
    read_only: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct NamedVolume {
    name: String,
    mount_path: String,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    driver: String,
    #[serde(default)]
    retain_policy: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Port {
    #[serde(default)]
    host_port: i32,
    container_port: i32,
    #[serde(default)]
    protocol: String,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Resources {
    cpu_shares: i64,
    memory_bytes: i64,
    memory_swap_bytes: i64,
    cpu_min_milli: i64,
    cpu_max_milli: i64,
    weight: f64,
    target_latency_ms: i64,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Restart {
    policy: String,
    max_retry_count: i32,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Health {
    command: Vec<String>,
    #[serde(default)]
    interval_s: i32,
    #[serde(default)]
    timeout_s: i32,
    #[serde(default)]
    retries: i32,
    #[serde(default)]
    start_period_s: i32,
}

/// The requests that a text stands for. Files that it names are looked for in `folder`.
///
/// # Errors
/// What is wrong with it, and where.
pub(super) fn read(
    text: &str,
    folder: &Path,
    dry_run: bool,
) -> Result<Vec<ApplyWorkloadRequest>, String> {
    let documents: Vec<Document> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    if documents.is_empty() {
        return Err("there is no workload in it".to_owned());
    }
    if documents.len() > DOCUMENTS_MAX {
        let count = documents.len();
        return Err(format!("it has {count} workloads of at most {DOCUMENTS_MAX}; split it"));
    }
    documents.into_iter().map(|document| request(document, folder, dry_run)).collect()
}

fn request(
    document: Document,
    folder: &Path,
    dry_run: bool,
) -> Result<ApplyWorkloadRequest, String> {
    let Document { id, r#type: kind, revision_id, desired_state, mut spec } = document;
    if let Some(compose) = &mut spec.compose {
        read_file(compose, folder).map_err(|words| format!("{id}: {words}"))?;
    }
    let revision_id = revision_id.unwrap_or_else(|| made_from(&spec));
    let desired_state = match desired_state {
        State::Running => DesiredState::Running,
        State::Stopped => DesiredState::Stopped,
    };
    let kind = match kind {
        None => WorkloadType::Unspecified,
        Some(Kind::Container) => WorkloadType::Container,
        Some(Kind::Compose) => WorkloadType::Compose,
        Some(Kind::Vm) => WorkloadType::Vm,
        Some(Kind::Custom) => WorkloadType::Custom,
    };
    let Spec { rollback, secrets, secrets_as_files, container, compose, vm, custom } = spec;
    let any = match (container, compose, vm, custom) {
        (Some(container), None, None, None) => AnySpec::Container(message(container)),
        (None, Some(compose), None, None) => AnySpec::Compose(ComposeSpec {
            project_name: compose.project_name,
            compose_yaml: compose.compose_yaml,
            env: compose.env,
        }),
        (None, None, Some(vm), None) => AnySpec::Vm(vm.into()),
        (None, None, None, Some(custom)) => AnySpec::Custom(CustomSpec {
            runtime: custom.runtime,
            settings: Some(walras_rpc::from_json(custom.settings)),
        }),
        (_, _, _, _) => {
            return Err(format!("{id}: spec: say one of container, compose, vm and custom"));
        }
    };
    Ok(ApplyWorkloadRequest {
        id,
        r#type: kind.into(),
        revision_id,
        desired_state: desired_state.into(),
        spec: Some(WorkloadSpec { rollback, secrets, secrets_as_files, spec: Some(any) }),
        dry_run,
    })
}

/// Puts the file that a project names into it.
fn read_file(compose: &mut Compose, folder: &Path) -> Result<(), String> {
    let Some(file) = compose.compose_file.take() else { return Ok(()) };
    if !compose.compose_yaml.is_empty() {
        return Err("say compose_yaml or compose_file, and not both".to_owned());
    }
    let file = folder.join(file);
    compose.compose_yaml = std::fs::read_to_string(&file)
        .map_err(|error| format!("compose_file: {}: {error}", file.display()))?;
    Ok(())
}

/// A revision for who named none: another one whenever anything but a secret's value is another.
fn made_from(spec: &Spec) -> String {
    let names: Vec<&String> = spec.secrets.keys().collect();
    let Spec { rollback, secrets_as_files, container, compose, vm, custom, .. } = spec;
    let text = (rollback, names, secrets_as_files, container, compose, vm, custom);
    let text = serde_json::to_string(&text);
    let mut sum = 0xCBF2_9CE4_8422_2325_u64;
    for byte in text.expect("text, numbers and lists can be written").bytes() {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    format!("{sum:016x}")
}

fn message(container: Container) -> ContainerSpec {
    let limits = container.resources;
    ContainerSpec {
        image: container.image,
        command: container.command,
        args: container.args,
        env: container.env,
        volumes: container
            .volumes
            .into_iter()
            .map(|Volume { host_path, container_path, read_only }| VolumeMount {
                host_path,
                container_path,
                read_only,
            })
            .collect(),
        ports: container
            .ports
            .into_iter()
            .map(|Port { host_port, container_port, protocol }| PortMapping {
                host_port,
                container_port,
                protocol,
            })
            .collect(),
        resources: Some(ResourceLimits {
            cpu_shares: limits.cpu_shares,
            memory_bytes: limits.memory_bytes,
            memory_swap_bytes: limits.memory_swap_bytes,
            cpu_min_milli: limits.cpu_min_milli,
            cpu_max_milli: limits.cpu_max_milli,
            weight: limits.weight,
            target_latency_ms: limits.target_latency_ms,
        }),
        restart_policy: Some(RestartPolicy {
            policy: container.restart_policy.policy,
            max_retry_count: container.restart_policy.max_retry_count,
        }),
        labels: container.labels,
        managed_volumes: container
            .managed_volumes
            .into_iter()
            .map(|volume| ManagedVolumeSpec {
                name: volume.name,
                mount_path: volume.mount_path,
                read_only: volume.read_only,
                driver: volume.driver,
                retain_policy: volume.retain_policy,
                ..Default::default()
            })
            .collect(),
        health_check: container.health_check.map(|health| HealthCheckSpec {
            command: health.command,
            interval_s: health.interval_s,
            timeout_s: health.timeout_s,
            retries: health.retries,
            start_period_s: health.start_period_s,
        }),
        networks: container.networks,
        oci_runtime: container.oci_runtime,
        logs: Some(LogBounds {
            max_bytes: container.logs.max_bytes,
            max_files: container.logs.max_files,
        }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, dry_run: bool) -> Result<Vec<ApplyWorkloadRequest>, String> {
        super::read(text, Path::new("."), dry_run)
    }

    #[test]
    fn a_project_may_name_its_file_and_a_custom_workload_its_settings() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("c.yaml"), "services: {a: {image: x}}").unwrap();
        let text = "id: shop\nspec: {compose: {compose_file: c.yaml, env: {A: b}}}";
        let of = |text: &str| super::read(text, dir.path(), false);
        let read = of(text).unwrap().remove(0);
        let request = walras_run::request(read.clone()).unwrap();
        assert_eq!(request.spec.work.kind().name(), "compose");
        std::fs::write(dir.path().join("c.yaml"), "services: {a: {image: y}}").unwrap();
        assert_ne!(of(text).unwrap()[0].revision_id, read.revision_id);
        assert!(of(&text.replace("c.yaml", "d.yaml")).unwrap_err().contains("d.yaml"));
        let custom = "id: aa\nspec: {custom: {runtime: wasm, settings: {n: 1}}}";
        let request = walras_run::request(of(custom).unwrap().remove(0)).unwrap();
        assert_eq!(request.spec.work.kind().name(), "custom");
    }

    #[test]
    fn several_documents_of_yaml_or_json_are_read() {
        let yaml = "id: aa\nspec: {container: {image: x}}\n---\nid: bb\ndesired_state: stopped\n\
                    revision_id: \"7\"\nspec: {container: {image: y}}\n";
        let read_ones = read(yaml, true).unwrap();
        assert_eq!(read_ones.len(), 2);
        assert_eq!((&*read_ones[1].id, &*read_ones[1].revision_id), ("bb", "7"));
        assert_eq!(read_ones[1].desired_state(), DesiredState::Stopped);
        assert!(read_ones[0].dry_run);
        let json = r#"{"id": "aa", "spec": {"container": {"image": "x"}}}"#;
        let same = read(json, true).unwrap();
        assert_eq!(same[0], read_ones[0]);
        walras_run::request(same[0].clone()).unwrap();
    }

    #[test]
    fn a_revision_that_is_not_said_follows_what_is_said_but_no_secret() {
        let of = |text: &str| read(text, false).unwrap().remove(0).revision_id;
        let one = of("id: a\nspec: {secrets: {T: a}, container: {image: x}}");
        assert_eq!(one.len(), 16);
        assert_eq!(one, of("id: a\nspec: {secrets: {T: b}, container: {image: x}}"));
        assert_ne!(one, of("id: a\nspec: {secrets: {U: a}, container: {image: x}}"));
        assert_ne!(one, of("id: a\nspec: {secrets: {T: a}, container: {image: y}}"));
    }

    #[test]
    fn what_is_unknown_or_missing_is_refused_with_its_place() {
        for (text, expected) in [
            ("id: a\nspec: {container: {image: x, memroy: 1}}", "memroy"),
            ("id: a\nspec: {container: {}}", "image"),
            ("id: a\nspec: {container: {image: x, gpus: all}}", "gpus"),
            ("id: a\nspec: {}", "say one of"),
            ("id: a\nspec: {container: {image: x}, compose: {}}", "say one of"),
            ("id: a\ntype: pod\nspec: {container: {image: x}}", "pod"),
            ("id: a\ndesired_state: on\nspec: {container: {image: x}}", "on"),
            ("", "no workload"),
        ] {
            let error = read(text, false).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
