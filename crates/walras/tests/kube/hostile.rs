//! Tenants who write what they like to their own objects, and what that does to their neighbours.

use serde_json::{Value, json};
use walras_testbed::{Spec, wait_for};

use crate::installed::{Installed, PATIENCE};

/// What the agent says of a pod.
fn of_pod(state: &Value, name: &str) -> Option<Value> {
    state["pods"].as_array()?.iter().find(|pod| pod["name"] == name).cloned()
}

#[test]
fn what_a_tenant_claims_or_wishes_for_takes_nothing_from_its_neighbours() {
    let mut installed = Installed::start(&[("slowLoopInterval", "1s")]);
    let kubectl = installed.testbed.kubectl().unwrap();
    // What an administrator allows: 50m of rights beyond what pods requested.
    kubectl.run(&["annotate", "namespace", "default", "walras.dev/max-rights=50m"]).unwrap();
    let mut greedy = installed.pod("default", "greedy", "10m", "100m");
    let claim = r#"{"app":{"cpuRequestMilli":1000000000,"cpuLimitMilli":1000000000}}"#;
    greedy["metadata"]["annotations"] = json!({
        "walras.dev/original-resources": claim,
        "mbcas.io/min-cpu": "16",
        "mbcas.io/priority-multiplier": "10",
    });
    let refused = wait_for("a refusal", PATIENCE, || {
        // A policy holds a moment after it was written.
        let told = kubectl.apply(&greedy);
        if told.is_ok() {
            kubectl.run(&["delete", "pod", "greedy", "--now"])?;
        }
        Ok(told.err().map(|error| error.to_string()))
    })
    .unwrap();
    assert!(refused.contains("are written by Walras alone"), "{refused}");

    // As in a cluster where the policy is not installed.
    kubectl.run(&["delete", "validatingadmissionpolicybinding", "walras-annotations"]).unwrap();
    let victim = installed.run("default", "victim", "500m", "600m");
    wait_for("the claim to be written", PATIENCE, || Ok(kubectl.apply(&greedy).ok())).unwrap();
    let greedy = installed.place("default", "greedy");
    for pod in [&greedy, &victim] {
        pod.burst(600_000, 2);
    }
    let mut first_tick = None;
    wait_for("twenty clearings with both", PATIENCE, || {
        installed.check_alive();
        let state = installed.agent_state()?;
        let Some(pod) = of_pod(&state, "default/greedy") else {
            return Ok(None);
        };
        let right = pod["min_milli"].as_u64().unwrap_or(u64::MAX);
        assert_eq!(right, 60, "its request and what is allowed beyond that: {state:#}");
        let tick = state["slow_ticks"].as_u64().unwrap_or_default();
        Ok((tick >= *first_tick.get_or_insert(tick) + 20).then_some(()))
    })
    .unwrap();
    for event in installed.resizes().unwrap() {
        if event["objectRef"]["name"] == "victim" {
            let asked = &event["requestObject"]["spec"]["containers"][0]["resources"];
            assert_eq!(asked["requests"]["cpu"], "500m", "{asked}");
        }
    }
    assert!(installed.quota(&victim).unwrap() >= 60_000, "it was cut below what it came with");
    let object = installed.object("pod", "default", "greedy").unwrap();
    let written = object["metadata"]["annotations"]["walras.dev/original-resources"].as_str();
    let truth = r#"{"app":{"cpuRequestMilli":10,"cpuLimitMilli":100}}"#;
    // Put right as soon as it is resized for the first time, and left alone until then.
    assert!([Some(claim), Some(truth)].contains(&written), "{written:?}");
}

/// So many pods want more than their quota, and so many others want as much.
const REFUSED: usize = 60;
const OTHERS: usize = 6;

fn list(items: Vec<Value>) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// Makes a namespace, with a quota of CPU limits that so many pods use up, if there is to be one.
fn make(installed: &Installed, namespace: &str, quota_of: Option<usize>) {
    installed.namespace(namespace);
    let Some(pods) = quota_of else { return };
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "cpu", "namespace": namespace },
        "spec": { "hard": { "limits.cpu": format!("{}m", 100 * pods) } },
    });
    // Before the pods, which are counted as they come.
    installed.testbed.kubectl().unwrap().apply(&quota).unwrap();
    wait_for("the quota to count", PATIENCE, || {
        let quota = installed.object("resourcequota", namespace, "cpu")?;
        Ok(quota["status"]["used"]["limits.cpu"].is_string().then_some(()))
    })
    .unwrap();
}

/// Runs pods in a namespace, on a node that exists in the API alone; what each of them wants.
fn wishes(installed: &Installed, namespace: &str, count: usize) -> Value {
    let pod = |number: usize| {
        let mut pod = installed.pod(namespace, &format!("web-{number}"), "50m", "100m");
        pod["spec"]["nodeName"] = "kwok-1".into();
        pod["spec"]["nodeSelector"] = Value::Null;
        pod
    };
    let kubectl = installed.testbed.kubectl().unwrap();
    kubectl.apply(&list((0..count).map(pod).collect())).unwrap();
    let running = ["get", "pods", "-n", namespace, "--field-selector=status.phase=Running"];
    let pods = wait_for("all pods to run", PATIENCE, || {
        let pods = kubectl.json(&running)?["items"].as_array().cloned().unwrap_or_default();
        Ok((pods.len() == count).then_some(pods))
    })
    .unwrap();
    let allocation = |pod: Value| {
        let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
        json!({
            "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
            "metadata": {
                "name": format!("{namespace}-{}", name.as_str().unwrap_or_default()),
                "namespace": namespace, "labels": { "walras.dev/node": "kwok-1" },
                "ownerReferences": [
                    { "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid },
                ],
            },
            "spec": { "namespace": namespace, "podName": name, "desiredCPURequest": "50m",
                "desiredCPULimit": "150m" },
        })
    };
    list(pods.into_iter().map(allocation).collect())
}

/// The answers to all resizes in a namespace since the log had so many entries, oldest first, each
/// with its place in the log.
fn answers(installed: &Installed, namespace: &str, since: usize) -> Vec<(usize, Value)> {
    let events = installed.testbed.audit().unwrap().into_iter().enumerate().skip(since);
    let resizes = events.filter(|(_, event)| {
        event["objectRef"]["namespace"] == namespace
            && event["objectRef"]["subresource"] == "resize"
    });
    resizes.map(|(place, event)| (place, event["responseStatus"]["code"].clone())).collect()
}

#[test]
fn a_namespace_whose_quota_is_used_up_holds_back_nobody_else() {
    let one_a_second = [("resizesPerSecond", "1")];
    let mut installed = Installed::prepare_on(Spec::new(1, true), &one_a_second);
    let kubectl = installed.testbed.kubectl().unwrap();
    make(&installed, "tight", Some(REFUSED));
    make(&installed, "shop", None);
    let (tight, shop) = (wishes(&installed, "tight", REFUSED), wishes(&installed, "shop", OTHERS));
    installed.start_controller();
    kubectl.apply(&tight).unwrap();
    wait_for("the first refusal", PATIENCE, || {
        Ok(answers(&installed, "tight", 0).iter().any(|(_, code)| *code == 403).then_some(()))
    })
    .unwrap();
    let since = installed.testbed.audit().unwrap().len();
    kubectl.apply(&shop).unwrap();
    let granted = wait_for("the resizes of the others", PATIENCE, || {
        let granted = answers(&installed, "shop", since);
        Ok((granted.len() >= OTHERS).then_some(granted))
    })
    .unwrap();
    assert!(granted.iter().all(|(_, code)| *code == 200), "{granted:?}");
    // Those that stood in line before them would each have used up a second.
    let last = granted.last().map_or(0, |(place, _)| *place);
    let refused = answers(&installed, "tight", 0);
    let between = refused.iter().filter(|(place, _)| (since..last).contains(place)).count();
    assert!(between <= OTHERS, "{between} were refused before {OTHERS} were resized");
    assert!(refused.iter().all(|(_, code)| *code == 403), "{refused:?}");
}
