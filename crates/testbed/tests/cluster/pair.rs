//! Two real nodes on one machine: each runs pods, on its own CPUs, and nothing of either stays.

use serde_json::{Value, json};
use walras_testbed::{Image, Part, Real, Spec, Testbed, wait_for};

use crate::{PATIENCE, left};

/// A pod for one node. With a limit above its request it is not Guaranteed.
fn pod(namespace: &str, name: &str, node: Real, limit: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "nodeSelector": { "kubernetes.io/hostname": node.name() },
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "load", "image": Image::Loadgen.reference(), "imagePullPolicy": "Never",
                "args": ["0.0.0.0:8080"],
                "resources": {
                    "requests": { "cpu": "100m", "memory": "32Mi" },
                    "limits": { "cpu": limit, "memory": "32Mi" },
                },
            }],
        },
    })
}

#[test]
fn two_real_nodes_run_pods_on_cpus_of_their_own_and_leave_nothing() {
    let testbed = Testbed::fresh(Spec::with_real_nodes(2, 2)).unwrap();
    let kubectl = testbed.kubectl().unwrap();
    let state = testbed.state().clone();
    let nodes = [Real::First, Real::Second];
    let namespace = testbed.namespace("pair").unwrap();
    for node in nodes {
        // What is not its own is not offered to pods.
        let allocatable = ["get", "node", node.name(), "-o", "jsonpath={.status.allocatable.cpu}"];
        let cpus = node.cpus(&state);
        assert_eq!(kubectl.run(&allocatable).unwrap(), cpus.len().to_string());
        for (name, limit) in [("steady", "100m"), ("elastic", "200m")] {
            let name = format!("{name}-{}", node.name());
            kubectl.apply(&pod(&namespace.name, &name, node, limit)).unwrap();
        }
    }
    for node in nodes {
        for name in ["steady", "elastic"] {
            let pod = namespace.pod_in(&format!("{name}-{}", node.name()), "Running").unwrap();
            assert_eq!(pod["spec"]["nodeName"], node.name());
            let uid = pod["metadata"]["uid"].as_str().unwrap();
            let container = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap();
            let group = testbed.container_cgroup(uid, container).unwrap();
            let root = format!("{}/kubepods", node.cgroup(&state));
            assert!(group.display().to_string().contains(&root), "{}", group.display());
            assert_eq!(testbed.cpus_of(uid, container).unwrap(), node.cpus(&state), "{name}");
            let log = ["logs", "-n", &namespace.name, pod["metadata"]["name"].as_str().unwrap()];
            wait_for("an answer of the kubelet", PATIENCE, || Ok(kubectl.run(&log).ok())).unwrap();
        }
    }
    let addresses = kubectl.json(&["get", "pods", "-n", &namespace.name]).unwrap();
    let addresses: std::collections::BTreeSet<&str> = addresses["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| pod["status"]["podIP"].as_str().unwrap())
        .collect();
    assert_eq!(addresses.len(), 4, "{addresses:?}");
    assert!(testbed.runs(Part::SecondKubelet) && testbed.runs(Part::SecondContainerd));
    drop(namespace);
    testbed.down().unwrap();
    assert_eq!(left::of(&state), Vec::<String>::new());
}
