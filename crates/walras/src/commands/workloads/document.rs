//! What `walras apply` reads: workloads as YAML or JSON, one or several documents.
//!
//! Names are those of the API. What is unknown is refused, since a misspelt limit is none. The host
//! checks the values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use walras_rpc::agent::workload_spec::Spec as AnySpec;
use walras_rpc::agent::{
    ApplyWorkloadRequest, ContainerSpec, DesiredState, HealthCheckSpec, ManagedVolumeSpec,
    PortMapping, ResourceLimits, RestartPolicy, VolumeMount, WorkloadSpec, WorkloadType,
};

/// More of a file is not read.
const DOCUMENTS_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    id: String,
    #[serde(default)]
    r#type: Kind,
    #[serde(default)]
    revision_id: Option<String>,
    #[serde(default)]
    desired_state: State,
    spec: Spec,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Container,
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
    container: Container,
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

/// The requests that a text stands for.
///
/// # Errors
/// What is wrong with it, and where.
pub(super) fn read(text: &str, dry_run: bool) -> Result<Vec<ApplyWorkloadRequest>, String> {
    let documents: Vec<Document> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    if documents.is_empty() {
        return Err("there is no workload in it".to_owned());
    }
    if documents.len() > DOCUMENTS_MAX {
        let count = documents.len();
        return Err(format!("it has {count} workloads of at most {DOCUMENTS_MAX}; split it"));
    }
    Ok(documents.into_iter().map(|document| request(document, dry_run)).collect())
}

fn request(document: Document, dry_run: bool) -> ApplyWorkloadRequest {
    let Document { id, r#type: Kind::Container, revision_id, desired_state, spec } = document;
    let Spec { rollback, secrets, container } = spec;
    let revision_id = revision_id.unwrap_or_else(|| made_from(rollback, &secrets, &container));
    let desired_state = match desired_state {
        State::Running => DesiredState::Running,
        State::Stopped => DesiredState::Stopped,
    };
    ApplyWorkloadRequest {
        id,
        r#type: WorkloadType::Container.into(),
        revision_id,
        desired_state: desired_state.into(),
        spec: Some(WorkloadSpec {
            rollback,
            secrets,
            spec: Some(AnySpec::Container(message(container))),
        }),
        dry_run,
    }
}

/// A revision for who named none: another one whenever anything but a secret's value is another.
fn made_from(rollback: bool, secrets: &BTreeMap<String, String>, container: &Container) -> String {
    let names: Vec<&String> = secrets.keys().collect();
    let text = serde_json::to_string(&(rollback, names, container));
    let mut sum = 0xCBF2_9CE4_8422_2325_u64;
    for byte in text.expect("text, numbers and lists can be written").bytes() {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    format!("{sum:016x}")
}

fn message(container: Container) -> ContainerSpec {
    let Resources { cpu_shares, memory_bytes, memory_swap_bytes, cpu_min_milli, cpu_max_milli } =
        container.resources;
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
            cpu_shares,
            memory_bytes,
            memory_swap_bytes,
            cpu_min_milli,
            cpu_max_milli,
        }),
        restart_policy: Some(RestartPolicy {
            policy: container.restart_policy.policy,
            max_retry_count: container.restart_policy.max_retry_count,
        }),
        labels: container.labels,
        managed_volumes: container
            .managed_volumes
            .into_iter()
            .map(|NamedVolume { name, mount_path, read_only }| ManagedVolumeSpec {
                name,
                mount_path,
                read_only,
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("id: a\ntype: vm\nspec: {container: {image: x}}", "vm"),
            ("id: a\ndesired_state: on\nspec: {container: {image: x}}", "on"),
            ("", "no workload"),
        ] {
            let error = read(text, false).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
