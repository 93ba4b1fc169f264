//! Clusters that are broken on purpose recover, and the verbs break what they say.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use walras_testbed::{Image, Part, Spec, Testbed, Way, wait_for};

use crate::PATIENCE;

/// A request that gives up soon, as one that waits for a broken server must.
const GET: [&str; 4] = ["get", "nodes", "--request-timeout=3s", "--no-headers"];

#[test]
fn watches_recover_after_the_api_server_was_stopped_and_started() {
    let testbed = Testbed::fresh(Spec::new(1, false)).unwrap();
    let namespace = testbed.namespace("watch").unwrap();
    namespace.run("before", Image::Loadgen, &["0.0.0.0:8080"], "50m").unwrap();
    namespace.pod_in("before", "Running").unwrap();
    // A client with a watch that began before, on the way that users take.
    let timeout = format!("--timeout={}s", PATIENCE.as_secs());
    let label = "--for=jsonpath={.metadata.labels.seen}=yes";
    let wait = ["wait", label, "pod/before", "-n", &namespace.name, &timeout];
    let mut watcher = testbed.user_kubectl().unwrap().command(&wait);
    let mut watcher = watcher.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the watch", PATIENCE, || {
        let audit = testbed.audit()?;
        let is_it = |event: &&Value| {
            event["verb"] == "watch"
                && event["objectRef"]["namespace"] == namespace.name.as_str()
                && event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("kubectl"))
        };
        Ok(audit.iter().find(is_it).map(drop))
    })
    .unwrap();

    testbed.stop_api_server().unwrap();
    assert!(!testbed.runs(Part::ApiServer));
    assert!(testbed.kubectl().unwrap().run(&GET).is_err());
    assert!(watcher.try_wait().unwrap().is_none(), "the watcher waits for better times");
    testbed.start_api_server().unwrap();

    // The scheduler's, the controllers' and the kubelet's watches have to work for that.
    namespace.run("after", Image::Loadgen, &["0.0.0.0:8080"], "50m").unwrap();
    namespace.pod_in("after", "Running").unwrap();
    let kubectl = testbed.kubectl().unwrap();
    kubectl.run(&["label", "pod", "before", "seen=yes", "-n", &namespace.name]).unwrap();
    let output = watcher.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let before = namespace.pod_in("before", "Running").unwrap();
    assert_eq!(before.pointer("/status/containerStatuses/0/restartCount"), Some(&Value::from(0)));
}

#[test]
fn containers_outlive_a_kubelet_that_was_killed() {
    let testbed = Testbed::fresh(Spec::new(1, false)).unwrap();
    let namespace = testbed.namespace("kubelet").unwrap();
    namespace.run("load", Image::Loadgen, &["0.0.0.0:8080"], "50m").unwrap();
    let pod = namespace.pod_in("load", "Running").unwrap();
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let id = |pod: &Value| pod.pointer("/status/containerStatuses/0/containerID").cloned();
    testbed.kill_kubelet().unwrap();
    assert!(!testbed.runs(Part::Kubelet));
    let container = id(&pod).unwrap();
    testbed.cpu_max(uid, container.as_str().unwrap()).expect("the container has its cgroup");
    testbed.start_kubelet().unwrap();
    assert!(testbed.runs(Part::Kubelet));
    namespace.run("next", Image::Loadgen, &["0.0.0.0:8080"], "50m").unwrap();
    namespace.pod_in("next", "Running").unwrap();
    assert_eq!(id(&namespace.pod_in("load", "Running").unwrap()), Some(container));
}

#[test]
fn a_paused_etcd_stops_the_api_server_until_it_goes_on() {
    let testbed = Testbed::fresh(Spec::new(0, true)).unwrap();
    let kubectl = testbed.kubectl().unwrap();
    let create = |name: &str| kubectl.run(&["create", "ns", name, "--request-timeout=3s"]);
    create("one").unwrap();
    testbed.pause_etcd().unwrap();
    assert!(create("two").is_err());
    assert!(testbed.runs(Part::Etcd), "it is paused and not gone");
    testbed.resume_etcd().unwrap();
    wait_for("a namespace", PATIENCE, || Ok(create("three").ok())).unwrap();
}

#[test]
fn disturbed_traffic_disturbs_users_and_nobody_else() {
    let testbed = Testbed::fresh(Spec::new(0, true)).unwrap();
    let user = testbed.user_kubectl().unwrap();
    let direct = testbed.kubectl().unwrap();
    user.run(&GET).unwrap();

    let delay = Duration::from_millis(400);
    testbed.delay_api_traffic(Way::Clients, delay).unwrap();
    let begun = Instant::now();
    let version = ["get", "--raw=/version", "--request-timeout=60s"];
    user.run(&version).unwrap();
    assert!(begun.elapsed() >= 2 * delay, "a request and its answer are late");

    testbed.drop_api_traffic(Way::Clients).unwrap();
    assert!(user.run(&GET).is_err());
    direct.run(&GET).unwrap();

    testbed.cut_api_traffic(Way::Clients).unwrap();
    assert!(user.run(&GET).is_err());
    direct.run(&GET).unwrap();

    testbed.restore_api_traffic(Way::Clients).unwrap();
    user.run(&GET).unwrap();
}
