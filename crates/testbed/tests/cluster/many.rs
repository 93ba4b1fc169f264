//! Nodes that exist in the API alone, beside a real one.

use serde_json::{Value, json};
use walras_testbed::{Image, NODE_LABEL, Spec, Testbed, wait_for};

use crate::PATIENCE;

#[test]
fn kwok_nodes_are_ready_hold_leases_and_run_pods() {
    let testbed = Testbed::fresh(Spec::new(3, false)).unwrap();
    let kubectl = testbed.kubectl().unwrap();
    let kind = |kind: &str| {
        let selector = format!("-l{NODE_LABEL}={kind}");
        let nodes = kubectl.json(&["get", "nodes", &selector]).unwrap();
        let names = nodes["items"].as_array().unwrap().iter();
        names.map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kind("real"), ["node-1"]);
    assert_eq!(kind("kwok"), ["kwok-1", "kwok-2"]);
    wait_for("leases of all nodes", PATIENCE, || {
        let leases = kubectl.json(&["get", "leases", "-n", "kube-node-lease"])?;
        Ok((leases["items"].as_array().map(Vec::len) == Some(3)).then_some(()))
    })
    .unwrap();

    let namespace = testbed.namespace("many").unwrap();
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "played", "namespace": namespace.name },
        "spec": {
            "nodeSelector": { NODE_LABEL: "kwok" },
            "containers": [{
                "name": "c", "image": Image::Loadgen.reference(),
                "resources": { "requests": { "cpu": "1" } },
            }],
        },
    });
    kubectl.apply(&pod).unwrap();
    let played = namespace.pod_in("played", "Running").unwrap();
    assert!(played["spec"]["nodeName"].as_str().unwrap().starts_with("kwok-"));
    let ready = played.pointer("/status/containerStatuses/0/ready");
    assert_eq!(ready, Some(&Value::from(true)));
    // The real node is not played: what runs there has a cgroup.
    namespace.run("real", Image::Loadgen, &["0.0.0.0:8080"], "50m").unwrap();
    let real = namespace.pod_in("real", "Running").unwrap();
    let id = real.pointer("/status/containerStatuses/0/containerID").unwrap();
    testbed.cpu_max(real["metadata"]["uid"].as_str().unwrap(), id.as_str().unwrap()).unwrap();
}
