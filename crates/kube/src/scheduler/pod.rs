//! A pod as kube-scheduler sends it, as far as placing it is concerned.
//!
//! Of the whole object only what is named here is read. What it requests is counted as
//! kube-scheduler does: containers and sidecars together, or the largest init container with the
//! sidecars before it, whichever is more, and the overhead of its runtime.

use std::collections::BTreeMap;

use serde::Deserialize;
use walras_brain::features::{Criticality, PodFacts, Workload};
use walras_core::parse::quantity;
use walras_core::units::{Bytes, Millicores, Resources};

use crate::names;
use crate::pod::{Amounts, Container, millicores};

/// A pod of this priority and above is of the system itself.
const SYSTEM: i32 = 1_000_000_000;
/// A pod of this priority and above is important to its owner.
const IMPORTANT: i32 = 1_000_000;

/// A pod that is to be placed, or was.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodToPlace {
    pub(crate) metadata: Meta,
    pub(crate) spec: Spec,
}

/// Who it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// What it asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub(crate) priority: Option<i32>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) init_containers: Vec<Container>,
    pub(crate) overhead: Option<Amounts>,
}

/// Go writes `null` for a map or a list without anything in it.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// What a model is told of a pod.
pub(crate) fn facts(pod: &PodToPlace) -> PodFacts {
    let requests = requests(&pod.spec.containers, &pod.spec.init_containers, &pod.spec.overhead);
    let said = |name: &str| {
        let Meta { annotations, labels, .. } = &pod.metadata;
        annotations.get(name).or_else(|| labels.get(name))
    };
    let workload = said(names::WORKLOAD_TYPE).map_or(Workload::Unknown, |it| Workload::named(it));
    let criticality = said(names::CRITICALITY).map(|it| Criticality::named(it));
    PodFacts {
        cpu_milli: requests.cpu.get(),
        memory_bytes: requests.memory.get(),
        workload,
        criticality: criticality.unwrap_or_else(|| by_priority(pod.spec.priority)),
    }
}

/// How much depends on a pod that says nothing of it, by its priority.
fn by_priority(priority: Option<i32>) -> Criticality {
    match priority {
        None | Some(0) => Criticality::Unknown,
        Some(priority) if priority < 0 => Criticality::Low,
        Some(priority) if priority >= SYSTEM => Criticality::High,
        Some(priority) if priority >= IMPORTANT => Criticality::High,
        Some(_) => Criticality::Medium,
    }
}

/// What a pod requests. What cannot be read counts as nothing.
pub(crate) fn requests(
    containers: &[Container],
    init: &[Container],
    overhead: &Option<Amounts>,
) -> Resources {
    let of = |container: &Container| amounts(&container.resources.requests);
    let mut running = containers.iter().fold(Resources::ZERO, |sum, one| sum + of(one));
    let mut sidecars = Resources::ZERO;
    let mut starting = Resources::ZERO;
    for container in init {
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars + of(container);
            starting = starting.max(sidecars);
        } else {
            starting = starting.max(sidecars + of(container));
        }
    }
    running = running + sidecars;
    running.max(starting) + overhead.as_ref().map_or(Resources::ZERO, amounts)
}

fn amounts(said: &Amounts) -> Resources {
    let cpu = said.cpu.as_deref().and_then(|cpu| millicores(cpu).ok()).unwrap_or_default();
    let memory = said.memory.as_deref().and_then(|memory| quantity(memory.as_bytes()).ok());
    Resources::new(
        cpu.min(Millicores::LIMIT),
        memory.map_or(Bytes::ZERO, |it| it.bytes_ceil()).min(MEMORY_MAX),
    )
}

/// More memory than any node has.
const MEMORY_MAX: Bytes = Bytes::new(1 << 50);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> PodFacts {
        facts(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn requests_are_counted_as_kube_scheduler_does() {
        let pod = read(
            r#"{"metadata": {"name": "p", "labels": null}, "spec": {
                "overhead": {"cpu": "10m"},
                "initContainers": [
                    {"name": "proxy", "restartPolicy": "Always",
                     "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}},
                    {"name": "migrate", "resources": {"requests": {"cpu": "2"}}}],
                "containers": [
                    {"name": "a", "resources": {"requests": {"cpu": "300m", "memory": "64Mi"}}},
                    {"name": "b", "resources": {}}]}}"#,
        );
        assert_eq!(pod.cpu_milli, 2110, "the init container with the sidecar before it");
        assert_eq!(pod.memory_bytes, 65 << 20);
        assert_eq!(read(r#"{"metadata": {}, "spec": {"containers": null}}"#).cpu_milli, 0);
    }

    #[test]
    fn what_a_pod_is_comes_from_annotations_labels_and_priority() {
        let pod = read(
            r#"{"metadata": {"labels": {"kubeattention.io/workload-type": "io_bound"},
                "annotations": {"kubeattention.io/criticality": "low"}},
                "spec": {"priority": 2000000000}}"#,
        );
        assert_eq!((pod.workload, pod.criticality), (Workload::IoBound, Criticality::Low));
        for (priority, criticality) in [
            (-5, Criticality::Low),
            (0, Criticality::Unknown),
            (1000, Criticality::Medium),
            (1_000_000, Criticality::High),
            (2_000_000_000, Criticality::High),
        ] {
            let pod = read(&format!(r#"{{"spec": {{"priority": {priority}}}}}"#));
            assert_eq!(pod.criticality, criticality, "{priority}");
        }
    }
}
