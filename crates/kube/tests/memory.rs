//! What the controller keeps of each pod and its allocation, in memory of its own.
//!
//! A process of its own with one test in it, so that nothing else is counted. The controller is the
//! one of the page's tests: what its watches would have seen is told to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, also in what it calls")]

use std::fs;

use serde_json::json;
use walras_kube::controller::{Options, Staged};

const PODS: u32 = 20_000;
/// What a controller with a limit of 128 MiB can afford for 80,000 pods.
const MOST_BYTES: u64 = 1_500;

/// Memory of this process that no file stands behind, in bytes.
fn own_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

/// A pod as Deployments make them, and its allocation, both settled.
fn tell(staged: &Staged, number: u32) {
    let namespace = format!("team-{}", number % 50);
    let workload = format!("web-{}", number / 3);
    let name = format!("{workload}-5d9c7bf6d8-{number:05}");
    let node = format!("node-{:04}.eu-central-1.compute.internal", number % 1000);
    let uid = |kind: u32| format!("{number:08x}-8a4b-4c3d-9e8f-{kind:012x}");
    let cpu = json!({ "requests": { "cpu": "150m" }, "limits": { "cpu": "300m" } });
    let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true,
        "name": format!("{workload}-5d9c7bf6d8"), "uid": uid(3) });
    let status = json!({ "name": "server", "resources": cpu, "restartCount": 0,
        "allocatedResources": { "cpu": "150m" } });
    let pod = json!({
        "metadata": { "name": name, "namespace": namespace, "uid": uid(1), "generation": 3,
            "resourceVersion": (1_000_000 + number).to_string(), "ownerReferences": [owner],
            "labels": { "pod-template-hash": "5d9c7bf6d8" } },
        "spec": { "nodeName": node, "containers": [{ "name": "server", "resources": cpu }] },
        "status": { "phase": "Running", "qosClass": "Burstable", "observedGeneration": 3,
            "containerStatuses": [status] },
    });
    staged.pod_seen(&serde_json::from_value(pod).unwrap());
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid(1) });
    let allocation = json!({
        "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
        "metadata": { "name": format!("{namespace}-{name}"), "namespace": namespace,
            "uid": uid(2), "generation": 4, "labels": { "walras.dev/node": node },
            "resourceVersion": (2_000_000 + number).to_string(), "ownerReferences": [owner] },
        "spec": { "namespace": namespace, "podName": name, "shadowPriceCPU": 0.25,
            "desiredCPURequest": "150m", "desiredCPULimit": "300m",
            "explanation": "it needs 130m, and there is enough for everybody" },
    });
    staged.allocation_seen(serde_json::from_value(allocation).unwrap());
}

#[test]
fn a_pod_and_its_allocation_take_less_than_one_and_a_half_kilobytes() {
    let staged = Staged::new(&Options {
        kubeconfig: None,
        namespace: "mbcas-system".to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        probe_listen: None,
        dry_run: false,
        elect: false,
        rebalance: None,
        collect: None,
    });
    staged.settings_seen(&[("mode", "requests-and-limits")]);
    let before = own_bytes();
    for number in 0..PODS {
        tell(&staged, number);
    }
    staged.all_listed();
    // With the words about each of them.
    staged.look_at_all();
    let each = own_bytes().saturating_sub(before) / u64::from(PODS);
    println!("{each} bytes for each of {PODS} pods and their allocations");
    assert!((100..MOST_BYTES).contains(&each), "{each} bytes");
}
