//! Pods and nodes of the API server as the rebalancer of `walras-core` wants them.
//!
//! What a pod requires and is not understood here makes it one that stays: volumes that are bound
//! to a place, devices, claims, and selectors of namespaces.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeSelectorTerm, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use walras_core::parse::quantity;
use walras_core::rebalance::fit::{
    All, Near, Needs, Operator, Requirement, Resident, Room, Spread, Taint, Toleration,
};
use walras_core::rebalance::stay::{Facts, Owner};
use walras_core::units::{Bytes, Millicores, Resources, Span, WorkloadUid};

use crate::names;
use crate::pod::millicores;

/// Annotations by which pods say that they want to stay, with the value that means so.
const STAYS: [(&str, &str); 4] = [
    (names::REBALANCE, "false"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true"),
];
/// The annotation that allows an eviction whatever else holds.
const SAFE: (&str, &str) = ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true");
/// The annotation of a pod that the kubelet runs from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Pods of this priority and above keep the cluster going.
const CRITICAL: i32 = 2_000_000_000;

/// A node, with what its pods request.
pub(super) fn room(node: &Node, requested: Resources, pods: usize) -> Room {
    let spec = node.spec.as_ref();
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let places = allocatable.and_then(|all| all.get("pods")).and_then(|it| it.0.parse().ok());
    let ready = status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
        conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True")
    });
    let taints = spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let hard = taints.into_iter().filter(|taint| taint.effect != "PreferNoSchedule");
    Room {
        name: node.metadata.name.clone().unwrap_or_default(),
        allocatable: amounts(allocatable),
        requested,
        places: places.unwrap_or(110_u32).saturating_sub(u32::try_from(pods).unwrap_or(u32::MAX)),
        open: ready && spec.and_then(|spec| spec.unschedulable) != Some(true),
        labels: node.metadata.labels.clone().unwrap_or_default(),
        taints: hard
            .map(|taint| Taint {
                key: taint.key,
                value: taint.value.unwrap_or_default(),
                effect: taint.effect,
            })
            .collect(),
    }
}

/// A pod that is on a node; nothing if it is on none, or has ended.
pub(super) fn resident(pod: &Pod) -> Option<Resident> {
    let spec = pod.spec.as_ref()?;
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return None;
    }
    Some(Resident {
        uid: WorkloadUid::new(pod.metadata.uid.as_deref()?),
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        node: spec.node_name.clone()?,
        needs: needs(spec, pod.metadata.namespace.as_deref().unwrap_or_default()),
    })
}

/// What is known of a pod that might be moved.
pub(super) fn facts(pod: &Pod, excluded: bool, replicas: u32, now_ms: u64) -> Facts {
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let says = |(name, value): &(&str, &str)| annotations.get(*name).is_some_and(|it| it == value);
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let started = status.and_then(|status| status.start_time.as_ref());
    let started_ms = started.and_then(|time| u64::try_from(time.0.as_millisecond()).ok());
    let age = Span::from_ms(started_ms.map_or(0, |then| now_ms.saturating_sub(then)));
    let running = status.and_then(|status| status.phase.as_deref()) == Some("Running")
        && pod.metadata.deletion_timestamp.is_none();
    let volumes = spec.and_then(|spec| spec.volumes.as_ref());
    let keeps = volumes.is_some_and(|all| {
        all.iter().any(|volume| volume.empty_dir.is_some() || volume.host_path.is_some())
    });
    Facts {
        owner: owner(pod, &annotations),
        replicas,
        running,
        age,
        excluded,
        opted_out: STAYS.iter().find(|it| says(it)).map(|(name, _)| *name),
        safe_to_evict: says(&SAFE),
        keeps_files: keeps,
        critical: spec.and_then(|spec| spec.priority).is_some_and(|it| it >= CRITICAL),
        unclear: spec.is_none_or(|spec| unclear(spec).is_some()),
    }
}

/// The owner of a pod, by kind and name; its own name, if it has none.
pub(super) fn owner_name(pod: &Pod) -> String {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let owners = pod.metadata.owner_references.iter().flatten();
    match owners.into_iter().find(|owner| owner.controller == Some(true)) {
        Some(owner) => format!("{namespace}/{}/{}", owner.kind, owner.uid),
        None => format!("{namespace}/{}", pod.metadata.name.as_deref().unwrap_or_default()),
    }
}

fn owner(pod: &Pod, annotations: &BTreeMap<String, String>) -> Owner {
    if annotations.contains_key(MIRROR) {
        return Owner::Kubelet;
    }
    let mut owners = pod.metadata.owner_references.iter().flatten();
    match owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.kind.as_str()) {
        None => Owner::Nobody,
        Some("DaemonSet") => Owner::DaemonSet,
        Some("Node") => Owner::Kubelet,
        Some("Job") => Owner::Job,
        Some(_) => Owner::Controller,
    }
}

fn needs(spec: &PodSpec, namespace: &str) -> Needs {
    let mut nodes = Vec::new();
    if let Some(selector) = spec.node_selector.as_ref().filter(|all| !all.is_empty()) {
        nodes.push(vec![selector.iter().map(|(key, value)| equals(key, value)).collect()]);
    }
    let affinity = spec.affinity.clone().unwrap_or_default();
    let required = affinity
        .node_affinity
        .as_ref()
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    if let Some(selector) = required {
        nodes.push(selector.node_selector_terms.iter().map(term).collect());
    }
    let (near, apart) = neighbours(&affinity, namespace);
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    let ports = ports.filter_map(|port| u16::try_from(port.host_port?).ok());
    let spread = spec.topology_spread_constraints.iter().flatten();
    let tolerations = spec.tolerations.iter().flatten();
    Needs {
        requests: requests(spec),
        tolerations: tolerations.map(|it| toleration(it.clone())).collect(),
        nodes,
        ports: ports.collect(),
        near,
        apart,
        spread: spread.filter(|it| it.when_unsatisfiable == "DoNotSchedule").map(even).collect(),
        unknown: unclear(spec),
    }
}

/// What of a pod is not understood here, if anything.
fn unclear(spec: &PodSpec) -> Option<&'static str> {
    let volumes = spec.volumes.iter().flatten();
    let bound = volumes
        .into_iter()
        .any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some());
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut asked = containers.filter_map(|it| it.resources.as_ref()?.requests.as_ref());
    let device = asked.any(|all| {
        all.keys().any(|name| !["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()))
    });
    let affinity = spec.affinity.as_ref();
    let terms = affinity.into_iter().flat_map(required_terms);
    let mut by_namespace = terms.filter(|it| it.namespace_selector.is_some());
    if bound {
        Some("a volume that may be bound to a place")
    } else if device {
        Some("a device")
    } else if spec.resource_claims.as_ref().is_some_and(|all| !all.is_empty()) {
        Some("a resource claim")
    } else if by_namespace.next().is_some() {
        Some("an affinity to namespaces by their labels")
    } else {
        None
    }
}

fn required_terms(affinity: &Affinity) -> Vec<&PodAffinityTerm> {
    let near = affinity.pod_affinity.as_ref();
    let near = near.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let apart = affinity.pod_anti_affinity.as_ref();
    let apart =
        apart.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    near.into_iter().chain(apart).flatten().collect()
}

fn neighbours(affinity: &Affinity, namespace: &str) -> (Vec<Near>, Vec<Near>) {
    let one = |term: &PodAffinityTerm| {
        let said = term.namespaces.clone().unwrap_or_default();
        let own = || BTreeSet::from([namespace.to_owned()]);
        Near {
            namespaces: if said.is_empty() { own() } else { said.into_iter().collect() },
            labels: term.label_selector.as_ref().map(selector).unwrap_or_default(),
            topology: term.topology_key.clone(),
        }
    };
    let near = affinity.pod_affinity.as_ref();
    let near = near.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let apart = affinity.pod_anti_affinity.as_ref();
    let apart =
        apart.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let all = |terms: Option<&Vec<PodAffinityTerm>>| terms.into_iter().flatten().map(one).collect();
    (all(near), all(apart))
}

fn even(constraint: &TopologySpreadConstraint) -> Spread {
    Spread {
        topology: constraint.topology_key.clone(),
        skew: u32::try_from(constraint.max_skew).unwrap_or(1),
        labels: constraint.label_selector.as_ref().map(selector).unwrap_or_default(),
    }
}

fn selector(selector: &LabelSelector) -> All {
    let equal = selector.match_labels.iter().flatten();
    let mut all: All = equal.map(|(key, value)| equals(key, value)).collect();
    for one in selector.match_expressions.iter().flatten() {
        all.push(requirement(&one.key, &one.operator, one.values.as_deref()));
    }
    all
}

fn term(term: &NodeSelectorTerm) -> All {
    let mut all = All::new();
    for one in term.match_expressions.iter().flatten() {
        all.push(requirement(&one.key, &one.operator, one.values.as_deref()));
    }
    for one in term.match_fields.iter().flatten() {
        // The one field there is; kubelets label their nodes with it.
        let key = if one.key == "metadata.name" { "kubernetes.io/hostname" } else { &one.key };
        all.push(requirement(key, &one.operator, one.values.as_deref()));
    }
    all
}

fn equals(key: &str, value: &str) -> Requirement {
    requirement(key, "In", Some(&[value.to_owned()]))
}

fn requirement(key: &str, operator: &str, values: Option<&[String]>) -> Requirement {
    let values = || values.unwrap_or_default().iter().cloned().collect::<BTreeSet<String>>();
    let number = || values().first().and_then(|it| it.parse().ok());
    let what = match operator {
        "In" => Operator::In(values()),
        "NotIn" => Operator::NotIn(values()),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::Absent,
        "Gt" => Operator::Above(number().unwrap_or(i64::MAX)),
        "Lt" => Operator::Below(number().unwrap_or(i64::MIN)),
        // An operator of a newer Kubernetes: nothing meets it.
        _ => Operator::In(BTreeSet::new()),
    };
    Requirement { key: key.to_owned(), what }
}

fn toleration(one: k8s_openapi::api::core::v1::Toleration) -> Toleration {
    let full = |text: Option<String>| text.filter(|text| !text.is_empty());
    let any = one.operator.as_deref() == Some("Exists");
    Toleration {
        key: full(one.key),
        value: if any { None } else { Some(one.value.unwrap_or_default()) },
        effect: full(one.effect),
    }
}

/// What a pod requests, as kube-scheduler counts it.
pub(super) fn requests(spec: &PodSpec) -> Resources {
    let of = |container: &k8s_openapi::api::core::v1::Container| {
        amounts(container.resources.as_ref().and_then(|it| it.requests.as_ref()))
    };
    let mut running = spec.containers.iter().fold(Resources::ZERO, |sum, one| sum + of(one));
    let (mut sidecars, mut starting) = (Resources::ZERO, Resources::ZERO);
    for one in spec.init_containers.iter().flatten() {
        if one.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars + of(one);
            starting = starting.max(sidecars);
        } else {
            starting = starting.max(sidecars + of(one));
        }
    }
    running = running + sidecars;
    running.max(starting) + amounts(spec.overhead.as_ref())
}

fn amounts(said: Option<&BTreeMap<String, Quantity>>) -> Resources {
    let text = |name: &str| said.and_then(|all| all.get(name)).map(|amount| amount.0.as_str());
    let cpu = text("cpu").and_then(|cpu| millicores(cpu).ok()).unwrap_or(Millicores::ZERO);
    let memory = text("memory").and_then(|memory| quantity(memory.as_bytes()).ok());
    Resources::new(cpu, memory.map_or(Bytes::ZERO, |memory| memory.bytes_ceil()))
}
