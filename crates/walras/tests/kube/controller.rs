//! The controller: what it does with hand-written allocations, and what it does not.

use serde_json::{Value, json};
use walras_testbed::{PATIENCE, wait_for};

use crate::stage::{Program, Stage, resources};

#[test]
fn a_hand_written_allocation_resizes_a_pod_in_place() {
    let stage = Stage::set("apply");
    let controller = stage.controller();
    let pod = stage.pod("web", &[("web", "100m", "200m")]);
    assert_eq!(stage.cgroup_limit(&pod, "web"), Some(200));
    stage.allocate(&pod, "300m", "500m");
    let status = stage.told_of("web", "Applied");
    assert_eq!(status["phase"], "Applied");
    assert_eq!(status["appliedCPURequest"], "300m");
    assert_eq!(status["appliedCPULimit"], "500m");
    let after = stage.get("pod", "web");
    assert_eq!(stage.cgroup_limit(&after, "web"), Some(500));
    assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 0);
    let before = &pod["status"]["containerStatuses"][0]["containerID"];
    assert_eq!(after["status"]["containerStatuses"][0]["containerID"], *before);
    let written = &after["metadata"]["annotations"]["walras.dev/original-resources"];
    assert_eq!(*written, r#"{"web":{"cpuRequestMilli":100,"cpuLimitMilli":200}}"#);
    let resizes = stage.resizes();
    assert_eq!(resizes.len(), 1, "{resizes:#?}");
    assert_eq!(resizes[0]["requestObject"]["metadata"]["uid"], pod["metadata"]["uid"]);
    // What it came with, that it is attempted, the resize, and what became of it: no more writes.
    assert_eq!(stage.writes("pods", "").len(), 2, "the pod itself and its annotation");
    let statuses = stage.writes("podallocations", "status");
    assert_eq!(statuses.len(), 2, "{statuses:#?}");
    let metrics = controller.ask("/metrics");
    assert!(metrics.contains("\nmbcas_controller_resize_verified_total 1\n"), "{metrics}");
    assert!(controller.ask("/readyz").ends_with("ok\n"));
    let events = stage.kubectl.json(&["get", "events", "-n", stage.namespace()]).unwrap();
    let events = events["items"].as_array().unwrap();
    assert!(events.iter().any(|event| event["reason"] == "CPUApplied"), "{events:#?}");
    assert!(controller.stop());
}

#[test]
fn another_pod_of_the_same_name_is_never_touched() {
    // The API server itself compares the uid, so that nothing can happen in between.
    let stage = Stage::set("uid");
    stage.pod("web", &[("web", "100m", "200m")]);
    let patch = r#"{"metadata":{"uid":"00000000-0000-0000-0000-000000000000"},"spec":{"containers":
        [{"name":"web","resources":{"limits":{"cpu":"300m"}}}]}}"#;
    let place = ["patch", "pod", "web", "-n", stage.namespace(), "--subresource=resize"];
    let error = stage.kubectl.run(&[&place[..], &["-p", patch]].concat()).unwrap_err().to_string();
    assert!(error.contains("metadata.uid: Invalid value"), "{error}");
    assert_eq!(resources(&stage.get("pod", "web")), ["web 100m/200m"]);
}

#[test]
fn two_containers_share_in_proportion_and_a_sidecar_counts() {
    let stage = Stage::set("split");
    let mut pod = stage.pod_json("web", &[("app", "100m", "300m"), ("log", "50m", "100m")]);
    let mut sidecar =
        stage.pod_json("x", &[("mesh", "20m", "100m")])["spec"]["containers"][0].clone();
    sidecar["restartPolicy"] = json!("Always");
    sidecar["args"] = json!(["0.0.0.0:9090"]);
    pod["spec"]["initContainers"] = json!([sidecar]);
    let pod = stage.run(&pod);
    let _controller = stage.controller();
    stage.allocate(&pod, "500m", "1000m");
    stage.told_of("web", "Applied");
    let after = stage.get("pod", "web");
    assert_eq!(resources(&after), ["app 300m/600m", "log 100m/200m"]);
    let mesh = &after["spec"]["initContainers"][0]["resources"];
    assert_eq!(mesh["limits"]["cpu"], "200m");
    assert_eq!(stage.cgroup_limit(&after, "log"), Some(200));
    // Shares are those of what the pod came with, so nothing drifts however small it was between.
    stage.allocate(&pod, "110m", "130m");
    stage.told_of("web", "Applied");
    assert_ne!(resources(&stage.get("pod", "web")), resources(&after));
    stage.allocate(&pod, "500m", "1000m");
    stage.told_of("web", "Applied");
    assert_eq!(resources(&stage.get("pod", "web")), resources(&after));
}

#[test]
fn bad_objects_are_refused_with_a_reason_and_nothing_is_patched() {
    let stage = Stage::set("bad");
    let usual = [("web", "100m", "200m")];
    let mut pods = Vec::new();
    let mut make = |name: &str, containers: &[crate::stage::Container<'_>], managed: bool| {
        let mut pod = stage.pod_json(name, containers);
        if !managed {
            pod["metadata"]["annotations"] = json!({ "mbcas.io/managed": "false" });
        }
        pods.push((name.to_owned(), stage.run(&pod)));
    };
    make("absurd", &usual, true);
    make("foreign", &usual, true);
    make("stale", &usual, true);
    make("twice", &usual, true);
    make("opted-out", &usual, false);
    make("best-effort", &[("web", "-", "-")], true);
    make("huge-step", &[("web", "10m", "20m")], true);
    let mut guaranteed = stage.pod_json("guaranteed", &[("web", "100m", "100m")]);
    for kind in ["requests", "limits"] {
        guaranteed["spec"]["containers"][0]["resources"][kind]["memory"] = json!("32Mi");
    }
    let guaranteed = stage.run(&guaranteed);
    let pod = |name: &str| pods.iter().find(|(one, _)| one == name).unwrap().1.clone();
    let _controller = stage.controller();

    let told = |object: &Value, phase: &str, reason: &str| {
        stage.kubectl.apply(object).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        let status = stage.told(name, reason);
        assert_eq!(status["phase"], phase, "{status:#}");
        assert!(status["message"].as_str().unwrap().ends_with('.'), "{status:#}");
    };
    let refused = |object: &Value, reason: &str| told(object, "Failed", reason);
    refused(&stage.allocation_json(&pod("absurd"), "1", "99999999"), "InvalidDesiredCPU");
    let mut foreign = stage.allocation_json(&pod("foreign"), "150m", "300m");
    foreign["spec"]["namespace"] = json!("kube-system");
    refused(&foreign, "ForeignNamespace");
    let mut stale = stage.allocation_json(&pod("stale"), "150m", "300m");
    stale["metadata"]["ownerReferences"][0]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    // The garbage collector would remove an object whose owner never was.
    stale["metadata"]["ownerReferences"][0]["uid"] = pod("twice")["metadata"]["uid"].clone();
    stale["metadata"]["ownerReferences"][0]["name"] = json!("twice");
    refused(&stale, "StalePod");
    let mut twice = stage.allocation_json(&pod("twice"), "150m", "300m");
    twice["metadata"]["name"] = json!("another-name");
    refused(&twice, "WrongName");
    told(&stage.allocation_json(&pod("opted-out"), "150m", "300m"), "Applied", "Excluded");
    refused(&stage.allocation_json(&pod("best-effort"), "150m", "300m"), "BestEffortQoS");
    told(&stage.allocation_json(&guaranteed, "150m", "300m"), "Applied", "GuaranteedQoS");
    let mut nobody = stage.allocation_json(&pod("absurd"), "150m", "300m");
    nobody["metadata"]["name"] = json!(stage.allocation_of("nobody"));
    nobody["spec"]["podName"] = json!("nobody");
    refused(&nobody, "PodNotFound");

    // What the schema can see never arrives.
    for (request, limit) in [("400m", "300m"), ("150m", "0"), ("-1", "300m"), ("x", "300m")] {
        let object = stage.allocation_json(&pod("twice"), request, limit);
        assert!(stage.kubectl.apply(&object).is_err(), "{request} {limit}");
    }
    let mut missing = stage.allocation_json(&pod("twice"), "1", "1");
    missing["spec"].as_object_mut().unwrap().remove("desiredCPULimit");
    assert!(stage.kubectl.apply(&missing).is_err());

    // Too large a step waits, and says so.
    stage.allocate(&pod("huge-step"), "100m", "1500m");
    let status = stage.told_of("huge-step", "StepSizeExceeded");
    assert_eq!(status["phase"], "Pending");
    assert!(status["nextAttemptTime"].is_string(), "{status:#}");

    assert_eq!(stage.resizes(), Vec::<Value>::new());
    for (name, before) in &pods {
        assert_eq!(resources(&stage.get("pod", name)), resources(before));
    }
}

#[test]
fn modes_are_kept_and_restore_gives_everything_back() {
    let stage = Stage::set("mode");
    let _controller = stage.controller();
    let mut pod = stage.pod_json("web", &[("app", "100m", "300m"), ("log", "50m", "100m")]);
    pod["metadata"]["annotations"] = json!({ "walras.dev/mode": "off" });
    let pod = stage.run(&pod);
    stage.allocate(&pod, "500m", "600m");
    assert_eq!(stage.told_of("web", "RecommendOnly")["phase"], "Pending");
    assert_eq!(stage.resizes(), Vec::<Value>::new());

    let annotate = |mode: &str| {
        let mode = format!("walras.dev/mode={mode}");
        let namespace = ["-n", stage.namespace(), "--overwrite"];
        let args = ["annotate", "pod", "web", &mode];
        stage.kubectl.run(&[&args[..], &namespace].concat()).unwrap();
    };
    annotate("limits-only");
    stage.told_of("web", "Applied");
    assert_eq!(resources(&stage.get("pod", "web")), ["app 100m/450m", "log 50m/150m"]);

    annotate("sideways");
    assert_eq!(stage.told_of("web", "InvalidMode")["phase"], "Failed");

    // What the pod says goes before what its namespace says, unless everybody gets everything back.
    let namespace = ["annotate", "namespace", stage.namespace(), "walras.dev/mode=off"];
    stage.kubectl.run(&namespace).unwrap();
    annotate("requests-and-limits");
    stage.told_of("web", "Applied");
    assert_eq!(resources(&stage.get("pod", "web")), ["app 375m/450m", "log 125m/150m"]);

    stage.settings(&[("mode", "restore")]);
    assert_eq!(stage.told_of("web", "Restored")["phase"], "Applied");
    let after = stage.get("pod", "web");
    assert_eq!(resources(&after), resources(&pod));
    assert_eq!(stage.cgroup_limit(&after, "app"), Some(300));
    assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 0);
    let events = ["get", "events", "-n", stage.namespace()];
    let told = || {
        let events = stage.kubectl.json(&events)?;
        let mut each = events["items"].as_array().into_iter().flatten();
        Ok(each.any(|event| event["reason"] == "Restored").then_some(()))
    };
    wait_for("an event that says so", PATIENCE, told).unwrap();
}

#[test]
fn a_quota_is_told_and_tried_again_when_there_is_room() {
    let stage = Stage::set("quota");
    let quota = |cpu: &str| {
        stage
            .kubectl
            .apply(&json!({ "apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": { "name": "cpu", "namespace": stage.namespace() },
                "spec": { "hard": { "limits.cpu": cpu } } }))
            .unwrap();
    };
    let counts = |used: &str| {
        wait_for("the quota to count", PATIENCE, || {
            let quota = stage.get("resourcequota", "cpu");
            Ok((quota["status"]["used"]["limits.cpu"] == used).then_some(()))
        })
        .unwrap();
    };
    // Before the pod: what comes is counted at once, and what was there every few minutes only,
    // where the API server was away.
    quota("300m");
    counts("0");
    let pod = stage.pod("web", &[("web", "100m", "200m")]);
    counts("200m");
    let _controller = stage.controller();
    stage.allocate(&pod, "100m", "500m");
    let status = stage.told_of("web", "QuotaExceeded");
    assert_eq!(status["phase"], "Pending");
    assert!(status["nextAttemptTime"].is_string(), "{status:#}");
    assert_eq!(stage.resizes().len(), 1);
    // It is not asked again at every opportunity.
    stage.kubectl.run(&["label", "pod", "web", "-n", stage.namespace(), "a=b"]).unwrap();
    quota("1");
    stage.told_of("web", "Applied");
    assert_eq!(stage.resizes().len(), 2);
}

#[test]
fn a_limit_range_is_told_and_a_smaller_wish_goes_through_at_once() {
    let stage = Stage::set("range");
    let pod = stage.pod("web", &[("web", "100m", "200m")]);
    stage
        .kubectl
        .apply(&json!({ "apiVersion": "v1", "kind": "LimitRange",
            "metadata": { "name": "cpu", "namespace": stage.namespace() },
            "spec": { "limits": [{ "type": "Container", "max": { "cpu": "400m" } }] } }))
        .unwrap();
    let _controller = stage.controller();
    stage.allocate(&pod, "100m", "500m");
    assert_eq!(stage.told_of("web", "LimitRangeViolated")["phase"], "Pending");
    stage.allocate(&pod, "100m", "400m");
    stage.told_of("web", "Applied");
    assert_eq!(stage.resizes().len(), 2);
}

#[test]
fn what_the_node_can_never_give_is_asked_for_once() {
    let stage = Stage::set("never");
    let pod = stage.pod("web", &[("web", "100m", "9")]);
    let controller = stage.controller();
    stage.allocate(&pod, "20", "25");
    let status = stage.told_of("web", "Infeasible");
    assert_eq!(status["phase"], "Failed");
    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|one| one["type"] == "Infeasible"), "{conditions:#?}");
    stage.allocate(&pod, "21", "25");
    stage.told_of("web", "Infeasible");
    let infeasible = |controller: &Program, count: usize| {
        let line = format!("\nwalras_controller_infeasible {count}\n");
        let told = || Ok(controller.ask("/metrics").contains(&line).then_some(()));
        wait_for(&line, PATIENCE, told).unwrap();
    };
    infeasible(&controller, 1);
    controller.kill();
    // The next controller knows it from the status.
    let controller = stage.controller();
    controller.says("the controller runs");
    stage.allocate(&pod, "200m", "9");
    stage.told_of("web", "Applied");
    let resizes = stage.resizes();
    assert_eq!(resizes.len(), 2, "{resizes:#?}");
    infeasible(&controller, 0);
    let metrics = controller.ask("/metrics");
    assert!(metrics.contains("\nwalras_controller_leader 1\n"), "{metrics}");
}

#[test]
fn what_the_node_has_no_room_for_now_waits_and_comes_when_there_is_room() {
    let stage = Stage::set("later");
    let nodes = stage.kubectl.json(&["get", "nodes"]).unwrap();
    let cpu = nodes["items"][0]["status"]["allocatable"]["cpu"].as_str().unwrap().to_owned();
    let whole_milli = walras_kube::pod::millicores(&cpu).unwrap().get();
    let most = format!("{}m", whole_milli - 400);
    stage.pod("big", &[("big", &most, "-")]);
    let pod = stage.pod("web", &[("web", "100m", "500m")]);
    let controller = stage.controller();
    stage.allocate(&pod, "700m", "800m");
    let status = stage.told_of("web", "Deferred");
    assert_eq!(status["phase"], "Pending");
    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|one| one["type"] == "Deferred"), "{conditions:#?}");
    let metrics = controller.ask("/metrics");
    assert!(metrics.contains("\nwalras_controller_deferred 1\n"), "{metrics}");
    stage.kubectl.run(&["delete", "pod", "big", "-n", stage.namespace()]).unwrap();
    let status = stage.told_of("web", "Applied");
    assert_eq!(status["appliedCPURequest"], "700m");
    assert_eq!(stage.resizes().len(), 1);
}

#[test]
fn of_two_controllers_one_acts_and_the_other_takes_over() {
    let stage = Stage::set("two");
    let first = stage.elected_controller();
    first.says("this controller acts now");
    let second = stage.elected_controller();
    let synced = || Ok(second.ask("/readyz").ends_with("ok\n").then_some(()));
    wait_for("the second to be ready", PATIENCE, synced).unwrap();
    let pods: Vec<Value> =
        (0..4).map(|at| stage.pod(&format!("web-{at}"), &[("web", "50m", "100m")])).collect();
    for pod in &pods {
        stage.allocate(pod, "60m", "200m");
    }
    for at in 0..4 {
        stage.told_of(&format!("web-{at}"), "Applied");
    }
    assert_eq!(stage.resizes().len(), 4, "each once");
    assert!(!second.log().contains("asked for"), "{}", second.log());
    first.kill();
    for pod in &pods {
        stage.allocate(pod, "60m", "300m");
    }
    second.says("this controller acts now");
    for at in 0..4 {
        stage.told_of(&format!("web-{at}"), "Applied");
    }
    assert_eq!(stage.resizes().len(), 8, "each once more");
    // Who is told to stop gives the lease back.
    assert!(second.stop());
    let lease = ["get", "lease", "mbcas-controller-leader-election", "-n", "mbcas-system"];
    let lease = stage.kubectl.json(&lease).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "");
}

#[test]
fn a_controller_outlives_the_api_server_and_catches_up() {
    let stage = Stage::set("outage");
    let pod = stage.pod("web", &[("web", "100m", "200m")]);
    let controller = stage.elected_controller();
    controller.says("this controller acts now");
    stage.allocate(&pod, "100m", "300m");
    stage.told_of("web", "Applied");
    stage.testbed.stop_api_server().unwrap();
    controller.says("this controller does not act any more");
    assert!(controller.ask("/healthz").ends_with("ok\n"), "it is alive");
    stage.testbed.start_api_server().unwrap();
    stage.allocate(&pod, "100m", "400m");
    stage.told_of("web", "Applied");
    assert_eq!(resources(&stage.get("pod", "web")), ["web 100m/400m"]);
    assert_eq!(stage.resizes().len(), 2);
    assert!(controller.stop());
}

#[test]
fn a_controller_that_dies_on_the_way_loses_nothing() {
    let stage = Stage::set("crash");
    let pod = stage.pod("web", &[("web", "100m", "200m")]);
    for round in 1..=4_u32 {
        let controller = stage.controller();
        let limit = format!("{}m", 200 + 50 * round);
        let before = stage.writes("podallocations", "status").len();
        stage.allocate(&pod, "100m", &limit);
        // As soon as anything was written for it.
        let begun = || Ok((stage.writes("podallocations", "status").len() > before).then_some(()));
        wait_for("the beginning of a resize", PATIENCE, begun).unwrap();
        controller.kill();
    }
    let _controller = stage.controller();
    // Whether the last one came to ask for it, nobody knows.
    stage.told_one_of(&stage.allocation_of("web"), &["Applied", "AlreadyApplied"]);
    let after = stage.get("pod", "web");
    assert_eq!(resources(&after), ["web 100m/400m"]);
    let written = &after["metadata"]["annotations"]["walras.dev/original-resources"];
    assert_eq!(*written, r#"{"web":{"cpuRequestMilli":100,"cpuLimitMilli":200}}"#);
    assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 0);
}
