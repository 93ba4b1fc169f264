//! A cluster that does not exist: a few hundred pods and their allocations, in every state that a
//! person may have to understand, as the API server would have them.
//!
//! What is said of most of them is decided by the real controller. Only what comes from the API
//! server's answer to a resize is written down here.

use std::net::SocketAddr;

use serde_json::{Value, json};
use walras_kube::controller::{Options, Staged};

/// How many pods there are of each kind.
pub(crate) const EACH: usize = 40;
/// A name that would be a picture if somebody took it for HTML.
pub(crate) const HOSTILE: &str = "<img src=x onerror=\"document.title='broken'\">";

const WORKLOADS: [&str; 5] = [
    "frontend-7d9f8b6c5d",
    "checkout",
    "postgres",
    "nightly-report-of-everything-that-was-sold-29384756",
    "search-index-0",
];
const NAMESPACES: [&str; 3] = ["shop", "bank", "team-with-a-rather-long-name"];

/// How a pod and its allocation stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has what it should have.
    Applied,
    /// Its node has no room now.
    Deferred,
    /// Its node never has room.
    Infeasible,
    /// A quota of its namespace does not allow it.
    Quota,
    /// The node was asked a moment ago.
    Asked,
    /// Its owner wants nothing to be changed.
    Off,
    /// Its owner wrote something that is not a mode.
    BadMode,
    /// Nobody has looked at what it asks for now.
    Unanswered,
}

pub(crate) const KINDS: [Kind; 8] = [
    Kind::Applied,
    Kind::Deferred,
    Kind::Infeasible,
    Kind::Quota,
    Kind::Asked,
    Kind::Off,
    Kind::BadMode,
    Kind::Unanswered,
];

/// Whether a controller is one of several, and whether it may change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Elected,
    DryRun,
}

/// A controller that has read nothing yet.
pub(crate) fn controller(role: Role) -> Staged {
    Staged::new(&Options {
        kubeconfig: None,
        namespace: "mbcas-system".to_owned(),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        probe_listen: None,
        dry_run: role == Role::DryRun,
        elect: role == Role::Elected,
        rebalance: None,
        collect: None,
    })
}

/// A controller that leads and has read a cluster with so many pods of each of `kinds`.
pub(crate) fn leading(kinds: &[Kind], each: usize) -> Staged {
    let controller = controller(Role::Elected);
    controller.lease_taken();
    controller.settings_seen(&[("mode", "requests-and-limits")]);
    for (place, kind) in kinds.iter().enumerate() {
        for number in 0..each {
            add(&controller, *kind, place * each + number);
        }
    }
    controller.all_listed();
    controller.look_at_all();
    controller
}

/// An allocation for a pod that is not there and cannot be.
pub(crate) fn add_hostile(controller: &Staged) {
    let object = allocation("shop", "hostile", HOSTILE, &Value::Null);
    controller.allocation_seen(serde_json::from_value(object).expect("an allocation"));
    controller.look_at_all();
}

fn add(controller: &Staged, kind: Kind, number: usize) {
    let namespace = NAMESPACES[number % NAMESPACES.len()];
    let name = format!("{}-{number:03}", WORKLOADS[number % WORKLOADS.len()]);
    let pod = pod(namespace, &name, kind, number);
    controller.pod_seen(&serde_json::from_value(pod).expect("a pod"));
    let status = status(kind, &name);
    let object = allocation(namespace, &format!("{namespace}-{name}"), &name, &status);
    controller.allocation_seen(serde_json::from_value(object).expect("an allocation"));
}

fn pod(namespace: &str, name: &str, kind: Kind, number: usize) -> Value {
    let small = json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": "400m" } });
    let large = json!({ "requests": { "cpu": "550m" }, "limits": { "cpu": "1200m" } });
    let asked = matches!(kind, Kind::Applied | Kind::Deferred | Kind::Infeasible);
    let has = if kind == Kind::Applied { &large } else { &small };
    let mode = match kind {
        Kind::Off => Some("off"),
        Kind::BadMode => Some("<b>on</b>"),
        Kind::Applied
        | Kind::Deferred
        | Kind::Infeasible
        | Kind::Quota
        | Kind::Asked
        | Kind::Unanswered => None,
    };
    let pending = match kind {
        Kind::Deferred => Some((
            "Deferred",
            "Node didn't have enough resource: cpu, requested: 550, used: 3700, capacity: 4000",
        )),
        Kind::Infeasible => Some((
            "Infeasible",
            "Node didn't have enough capacity: cpu, requested: 550, capacity: 500",
        )),
        Kind::Applied
        | Kind::Quota
        | Kind::Asked
        | Kind::Off
        | Kind::BadMode
        | Kind::Unanswered => None,
    };
    let conditions = pending.map(|(reason, message)| {
        json!([{ "type": "PodResizePending", "status": "True", "reason": reason,
            "message": message, "lastTransitionTime": "2026-11-16T02:53:20Z" }])
    });
    let annotations = mode.map(|mode| json!({ "walras.dev/mode": mode }));
    json!({
        "metadata": { "name": name, "namespace": namespace, "uid": format!("u{number}"),
            "generation": 2, "resourceVersion": "7", "annotations": annotations },
        "spec": { "nodeName": node(number), "containers": [{ "name": "app",
            "resources": if asked { &large } else { &small } }] },
        "status": { "phase": "Running", "qosClass": "Burstable", "observedGeneration": 2,
            "conditions": conditions.unwrap_or(json!([])),
            "containerStatuses": [{ "name": "app", "resources": has,
                "allocatedResources": { "cpu": has["requests"]["cpu"] } }] },
    })
}

fn allocation(namespace: &str, object: &str, pod: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
        "metadata": { "name": object, "namespace": namespace, "generation": 4,
            "resourceVersion": "9" },
        "spec": { "namespace": namespace, "podName": pod, "desiredCPURequest": "550m",
            "desiredCPULimit": "1200m", "shadowPriceCPU": price(object) },
        "status": status,
    })
}

/// What the controller said before, where what it says depends on the API server.
fn status(kind: Kind, name: &str) -> Value {
    match kind {
        Kind::Quota => json!({ "phase": "Pending", "reason": "QuotaExceeded",
            "observedGeneration": 4, "message": format!(
                "A ResourceQuota of the namespace does not allow it: pods \"{name}\" is forbidden: \
                 exceeded quota: cpu-of-the-team, requested: limits.cpu=800m, used: \
                 limits.cpu=15800m, limited: limits.cpu=16.") }),
        Kind::Asked => json!({ "phase": "Pending", "reason": "Applying", "observedGeneration": 4,
            "message": "The node is asked for app request 550m and limit 1200m." }),
        Kind::Unanswered => json!({ "phase": "Applied", "reason": "Applied",
            "observedGeneration": 3, "message": "The resize is in force." }),
        Kind::Applied | Kind::Deferred | Kind::Infeasible | Kind::Off | Kind::BadMode => {
            Value::Null
        }
    }
}

fn node(number: usize) -> String {
    format!("node-{:02}.eu-central.example", number % 12)
}

/// Scarce on some nodes.
fn price(object: &str) -> f64 {
    if object.ends_with('0') { 1.375 } else { 0.0 }
}
