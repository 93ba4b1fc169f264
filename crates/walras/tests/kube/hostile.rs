//! Tenants who write what they like to their own objects, and what that does to their neighbours.

use serde_json::{Value, json};
use walras_testbed::wait_for;

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
