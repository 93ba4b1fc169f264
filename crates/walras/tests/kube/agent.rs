//! What the agent writes, reads and leaves alone, on a node with a real kubelet.
//!
//! There is no controller here: where a resize is needed, the test asks for it.

mod stage;

use serde_json::{Value, json};

use self::stage::{Agent, Load, Stage, limit_in};

/// Somebody wrote this: it has the name of one pod and names another.
fn by_hand(shop: &str) -> Value {
    json!({ "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
        "metadata": { "name": format!("{shop}-web"), "namespace": shop,
            "labels": { "walras.dev/node": "node-1" } },
        "spec": { "namespace": "elsewhere", "podName": "another",
            "desiredCPURequest": "100m", "desiredCPULimit": "200m" } })
}

#[test]
fn every_pod_that_wants_it_gets_an_allocation_and_nobody_is_changed() {
    let stage = Stage::new();
    let namespace = stage.testbed.namespace("shop").unwrap();
    let shop = &namespace.name;
    stage.configure(&json!({ "mode": "off", "startupGracePeriod": "0s" }));
    stage.run(shop, "web", &Load::default());
    stage.run(shop, "hungry", &Load { limit: "100m", ..Load::default() });
    let out = Load { annotations: json!({ "mbcas.io/managed": "false" }), ..Load::default() };
    stage.run(shop, "out", &out);
    let typo = Load { annotations: json!({ "mbcas.io/min-cpu": "lots" }), ..Load::default() };
    stage.run(shop, "typo", &typo);
    stage.run("kube-system", "system", &Load::default());
    let same = Load { request: "100m", limit: "100m", memory: "64Mi", ..Load::default() };
    stage.run(shop, "guaranteed", &same);
    stage.run(shop, "best-effort", &Load { request: "", limit: "", ..Load::default() });
    for pod in ["web", "hungry", "out", "typo", "guaranteed", "best-effort"] {
        namespace.pod_in(pod, "Running").unwrap();
    }
    stage.testbed.kubectl().unwrap().apply(&by_hand(shop)).unwrap();
    let agent = stage.agent(&[]);
    agent.wait_until_ready();
    let names = stage.wait("allocations of three pods", || {
        let names = stage.allocations(shop);
        (names.len() == 3).then_some(names)
    });
    assert_eq!(names, [format!("{shop}-hungry"), format!("{shop}-typo"), format!("{shop}-web")]);
    assert_eq!(stage.allocations("kube-system"), Vec::<String>::new());
    let web = stage.wait("the one by hand to be put right", || {
        let web = stage.allocation(shop, "web")?;
        (web["spec"]["podName"] == "web").then_some(web)
    });
    let owner = &web["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Pod"), &json!("web")));
    assert_eq!(web["metadata"]["labels"]["walras.dev/node"], "node-1");
    assert_eq!(web["spec"]["namespace"], shop.as_str());
    stage.wait("a complaint about the annotation", || {
        let problems = agent.get("/api/v1/state").unwrap_or_default();
        problems.contains("the annotation mbcas.io/min-cpu is").then_some(())
    });

    // A throttled pod should have more, and has not got it.
    let hungry = stage.burn(shop, "hungry");
    stage.wait("a higher limit for who is held back", || {
        let allocation = stage.allocation(shop, "hungry")?;
        (limit_in(&allocation) >= 200).then_some(())
    });
    let told = stage.allocation(shop, "hungry").unwrap()["spec"]["explanation"].to_string();
    assert!(told.contains("throttled") || told.contains("its cap is"), "{told}");
    assert_eq!(stage.quota(&hungry), 10_000, "it only recommends");

    // A configuration that is wrong changes nothing and is told of.
    stage.configure(&json!({ "mode": "of", "slowLoopIntervall": "1s" }));
    stage.wait("an alert about the configuration", || {
        let state = agent.get("/api/v1/state").ok()?;
        let both = state.contains("is not one of off") && state.contains("did you mean slowLoop");
        both.then_some(())
    });
    let state: Value = serde_json::from_str(&agent.get("/api/v1/state").unwrap()).unwrap();
    assert_eq!(state["pods"].as_array().map(Vec::len), Some(3), "the old one goes on");

    the_machine_is_looked_at_and_labels_say_where_it_is(&stage, &agent, &state);
    let kubectl = stage.testbed.kubectl().unwrap();

    // Who opts out later, and who goes, loses its allocation.
    kubectl.run(&["annotate", "pod", "web", "-n", shop, "mbcas.io/managed=false"]).unwrap();
    kubectl.run(&["delete", "pod", "typo", "-n", shop, "--wait=false"]).unwrap();
    stage.wait("the end of two allocations", || {
        (stage.allocations(shop) == [format!("{shop}-hungry")]).then_some(())
    });
    let metrics = agent.get("/metrics").unwrap();
    assert!(metrics.contains("mbcas_managed_pods"), "{metrics}");
    let labels = format!("{{pod=\"hungry\",namespace=\"{shop}\"}}");
    assert!(metrics.contains(&labels), "{metrics}");
    agent.stop();
    assert_eq!(stage.allocations(shop), [format!("{shop}-hungry")], "stopping deletes nothing");
}

fn the_machine_is_looked_at_and_labels_say_where_it_is(
    stage: &Stage,
    agent: &Agent,
    state: &Value,
) {
    let kubectl = stage.testbed.kubectl().unwrap();
    let node = state["host"].as_str().unwrap();
    kubectl.run(&["label", "node", node, "topology.kubernetes.io/rack=r7"]).unwrap();
    stage.wait("figures of the machine, and the rack of the node", || {
        let told: Value = serde_json::from_str(&agent.get("/api/v1/telemetry").ok()?).unwrap();
        let measured = told["figures"][0]["value"].as_f64()?;
        (measured > 0.0 && told["rack"] == "r7" && told["node"] == node).then_some(())
    });
    kubectl.run(&["label", "node", node, "topology.kubernetes.io/rack-"]).unwrap();
}

#[test]
fn what_was_asked_for_is_seen_in_the_cgroup_and_the_agent_outlives_the_api_server() {
    let stage = Stage::new();
    let namespace = stage.testbed.namespace("shop").unwrap();
    let shop = &namespace.name;
    stage.configure(&json!({
        "mode": "limits-only", "startupGracePeriod": "0s", "profile": "seed",
        "slowLoopInterval": "2s", "fastLoopInterval": "1s", "writeInterval": "1s",
    }));
    stage.run(shop, "web", &Load { limit: "100m", ..Load::default() });
    namespace.pod_in("web", "Running").unwrap();
    let agent = stage.agent(&["--log-level", "debug"]);
    agent.wait_until_ready();
    let web = stage.burn(shop, "web");
    stage.wait("what was asked for to be in force", || {
        let limit = limit_in(&stage.allocation(shop, "web")?);
        if limit > 100 {
            // What a controller would do.
            stage.resize(shop, "web", limit);
        }
        agent.log().contains("what was asked for is in force").then_some(())
    });
    assert!(stage.quota(&web) > 10_000);
    assert_eq!(stage.restarts(shop, "web"), 0);

    stage.testbed.stop_api_server().unwrap();
    stage.wait("a problem with the API server", || {
        agent.get("/api/v1/state").ok()?.contains("The API server cannot be asked").then_some(())
    });
    assert_eq!(agent.get("/healthz").unwrap(), "ok\n", "the loop never waits for the network");
    let before = agent.usage("web");
    stage.wait("the loop to go on", || (agent.usage("web") != before).then_some(()));
    stage.testbed.start_api_server().unwrap();
    stage.run(shop, "late", &Load::default());
    stage.wait("an allocation of a pod that came later", || stage.allocation(shop, "late"));
    stage.wait("no more problems", || {
        (!agent.get("/api/v1/state").ok()?.contains("The API server cannot")).then_some(())
    });

    // What was learned outlives a crash.
    let table = format!("{shop}_Pod_web_web");
    stage.wait("a learned table in the ConfigMap", || stage.tables().get(&table).cloned());
    agent.kill();
    let agent = stage.agent(&["--log-level", "debug"]);
    agent.wait_until_ready();
    stage.wait("the table to be loaded", || {
        agent.log().contains("tables that were learned before").then_some(())
    });
    assert!(!agent.log().contains(" 0 tables"), "{}", agent.log());
    agent.stop();
}

#[test]
fn what_was_learned_of_a_workload_serves_the_pod_that_replaces_another() {
    let stage = Stage::new();
    let namespace = stage.testbed.namespace("shop").unwrap();
    let shop = &namespace.name;
    stage.configure(&json!({
        "mode": "off", "startupGracePeriod": "0s", "profile": "seed", "slowLoopInterval": "2s",
    }));
    stage.deploy(shop, "api", &Load::default());
    let agent = stage.agent(&["--log-level", "debug"]);
    agent.wait_until_ready();
    let table = format!("{shop}_ReplicaSet_api_api");
    let updates = || {
        let saved: Value = serde_json::from_str(stage.tables().get(&table)?).unwrap();
        Some(saved["updates"].as_u64().unwrap())
    };
    let learned = stage.wait("a table with a few lessons", || updates().filter(|n| *n >= 3));
    agent.kill();

    // Another agent, and another pod.
    let first = stage.pod_of(shop, "api");
    stage.testbed.kubectl().unwrap().run(&["delete", "pod", &first, "-n", shop]).unwrap();
    let second = stage.wait("another pod", || {
        Some(stage.pod_of(shop, "api")).filter(|pod| !pod.is_empty() && *pod != first)
    });
    namespace.pod_in(&second, "Running").unwrap();
    let agent = stage.agent(&["--log-level", "debug"]);
    agent.wait_until_ready();
    stage.wait("more lessons than before", || {
        let now = updates()?;
        assert!(now >= learned, "it begins anew, with {now} lessons after {learned}");
        (now > learned).then_some(())
    });
    agent.stop();
}

#[test]
fn direct_acting_raises_the_quota_at_once_and_the_kubelet_wins() {
    let stage = Stage::new();
    let namespace = stage.testbed.namespace("shop").unwrap();
    let shop = &namespace.name;
    stage.configure(&json!({ "actuation": "direct", "mode": "limits-only" }));
    stage.run(shop, "web", &Load { limit: "100m", ..Load::default() });
    namespace.pod_in("web", "Running").unwrap();
    let agent = stage.agent(&["--log-level", "debug"]);
    agent.wait_until_ready();
    let web = stage.burn(shop, "web");
    stage.wait("a higher quota in the container's cgroup", || {
        (stage.quota(&web) > 20_000).then_some(())
    });
    stage.wait("a burst buffer", || (stage.burst(&web) > 0).then_some(()));
    stage.wait("the lasting value in the allocation", || {
        (limit_in(&stage.allocation(shop, "web")?) > 100).then_some(())
    });
    assert_eq!(stage.restarts(shop, "web"), 0);

    // A resize goes through although the agent has written to the same groups.
    stage.resize(shop, "web", 1500);
    stage.wait("the resize to be done", || {
        let pod = stage.pod(shop, "web");
        let status = &pod["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"];
        (status == "1500m").then_some(())
    });
    stage.wait("the agent to hear of it", || {
        agent.log().contains("the API server has 1500m for it now").then_some(())
    });
    agent.stop();
    assert_eq!(stage.quota(&web), 150_000, "what the API server has is left behind");
    assert_eq!(stage.burst(&web), 0);
    assert_eq!(stage.restarts(shop, "web"), 0);
}
