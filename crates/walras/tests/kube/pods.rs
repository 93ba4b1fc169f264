//! The manifests as they are shipped, with our image: agent and controller run as pods, with the
//! accounts, mounts and restrictions that users get.
//!
//! The testbed has no way from pods to the API server but the network of the machine, so that is
//! what they get here, and the server's address; both are the only things that differ.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};
use walras_testbed::{Image, Settings, wait_for};

use crate::installed::{Installed, PATIENCE, SYSTEM};

/// `workload` as this testbed can run it.
fn fitted(installed: &Installed, mut workload: Value) -> Value {
    let state = installed.testbed.state();
    let pod = &mut workload["spec"]["template"]["spec"];
    pod["hostNetwork"] = true.into();
    let container = &mut pod["containers"][0];
    container["image"] = Image::Walras.reference().into();
    container["imagePullPolicy"] = "Never".into();
    let env = container["env"].as_array_mut().unwrap();
    for (name, value) in [
        ("KUBERNETES_SERVICE_HOST", state.address().to_string()),
        ("KUBERNETES_SERVICE_PORT", state.ports.api.to_string()),
    ] {
        env.push(json!({ "name": name, "value": value }));
    }
    if workload["kind"] == "Deployment" {
        // Two would want the same port of the one node.
        workload["spec"]["replicas"] = 1.into();
    }
    workload
}

#[test]
fn the_manifests_run_agent_and_controller_as_pods_that_size_others() {
    let installed = Installed::prepare(&[]);
    let settings = Settings::read().unwrap();
    installed.testbed.import(&[Image::Walras], &settings).unwrap();
    let kubectl = installed.testbed.kubectl().unwrap();
    let manifests = Installed::manifests(&kubectl).unwrap();
    let is_workload =
        |object: &&Value| object["kind"] == "DaemonSet" || object["kind"] == "Deployment";
    for workload in manifests.iter().filter(is_workload) {
        kubectl.apply(&fitted(&installed, workload.clone())).unwrap();
    }
    let ready = |kind: &str, name: &str, path: &str| {
        wait_for(&format!("{name} to be ready"), PATIENCE, || {
            let object = installed.object(kind, SYSTEM, name)?;
            Ok((object.pointer(path) == Some(&json!(1))).then_some(()))
        })
    };
    let told = || {
        let logs = |what: &str| kubectl.run(&["logs", what, "-n", SYSTEM]).unwrap_or_default();
        let pods = kubectl.run(&["describe", "pods", "-n", SYSTEM]).unwrap_or_default();
        format!("{pods}\n{}\n{}", logs("ds/walras-agent"), logs("deploy/walras-controller"))
    };
    let agent = ready("daemonset", "walras-agent", "/status/numberReady");
    agent.unwrap_or_else(|error| panic!("{error:#}\n{}", told()));
    let controller = ready("deployment", "walras-controller", "/status/readyReplicas");
    controller.unwrap_or_else(|error| panic!("{error:#}\n{}", told()));

    let pod = installed.run("default", "web", "100m", "200m");
    pod.burst(300_000, 1);
    let raised = wait_for("a larger quota", PATIENCE, || {
        Ok((installed.quota(&pod)? > 20_000 && installed.is_applied(&pod)).then_some(()))
    });
    raised.unwrap_or_else(|error| panic!("{error:#}\n{}", told()));
    assert_eq!(installed.restarts(&pod).unwrap(), 0);
}

#[test]
fn the_plugin_asks_agents_through_the_api_server() {
    let installed = Installed::prepare(&[]);
    let settings = Settings::read().unwrap();
    installed.testbed.import(&[Image::Walras], &settings).unwrap();
    let kubectl = installed.testbed.kubectl().unwrap();
    // In the network of pods it does not reach the API server, but whoever asks it has an answer.
    let mut pod = installed.pod(SYSTEM, "lone-agent", "50m", "100m");
    pod["metadata"]["labels"] =
        json!({ "app.kubernetes.io/name": "walras", "app.kubernetes.io/component": "agent" });
    pod["spec"]["containers"][0]["image"] = Image::Walras.reference().into();
    let arguments = ["agent", "--node-name", "node-1", "--listen", "0.0.0.0:8082"];
    pod["spec"]["containers"][0]["args"] = json!(arguments);
    kubectl.apply(&pod).unwrap();
    installed.place(SYSTEM, "lone-agent");

    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-walras");
    symlink(env!("CARGO_BIN_EXE_walras"), &plugin).unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(&plugin);
        command.args(arguments).arg("--kubeconfig").arg(installed.testbed.kubeconfig());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    wait_for("an answer of the agent", PATIENCE, || {
        let (code, told) = ask(&["top"]);
        Ok((code == Some(0) && told.starts_with("node-1: ")).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}: {:?}", ask(&["top"])));
    let (_, told) = ask(&["top", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told[0]["node"], "node-1");
    assert_eq!(told[0]["state"]["host"], "node-1", "{told:#}");
    assert_eq!(ask(&["top", "--node", "nowhere"]).0, Some(2));

    // Pausing and going on, for everybody, on a real cluster.
    let mode = || {
        let config = installed.object("configmap", SYSTEM, "mbcas-agent-config").unwrap();
        config["data"]["mode"].as_str().map(str::to_owned)
    };
    let before = mode();
    assert_eq!(ask(&["pause", "--all"]).0, Some(0));
    assert_eq!(mode().as_deref(), Some("off"));
    assert_eq!(ask(&["resume", "--all"]).0, Some(0));
    assert_eq!(mode(), before);
}
