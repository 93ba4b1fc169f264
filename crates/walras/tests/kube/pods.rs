//! The manifests as they are shipped, with our image: agent and controller run as pods, with the
//! accounts, mounts and restrictions that users get.
//!
//! The testbed has no way from pods to the API server but the network of the machine, so that is
//! what they get here, and the server's address; both are the only things that differ.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};
use walras_testbed::{Image, Settings, wait_for};

use crate::installed::{Installed, PATIENCE, Place, SYSTEM, get};

/// Where one of our programs listens, by its manifest.
#[derive(Clone, Copy, Debug)]
struct Ports {
    served: u16,
    probes: u16,
}

const AGENT: Ports = Ports { served: 8082, probes: 8083 };
const CONTROLLER: Ports = Ports { served: 8080, probes: 8081 };
/// More connections than any of them takes.
const HELD: usize = 300;

/// A connection that begins to ask and does not go on; nothing where none is let in any more.
fn half_a_request(to: (&str, u16)) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(to).ok()?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").ok()?;
    Some(stream)
}

/// The first line of the answer to a probe.
fn asked(to: (&str, u16)) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

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

    // Whoever holds connections keeps neither probes from their answers nor pods from their CPU.
    let node = installed.object("node", "", "node-1").unwrap();
    let address = node["status"]["addresses"][0]["address"].as_str().unwrap().to_owned();
    let held: Vec<TcpStream> = [AGENT, CONTROLLER]
        .iter()
        .flat_map(|ports| std::iter::repeat_n(ports.served, HELD))
        .filter_map(|port| half_a_request((&*address, port)))
        .collect();
    assert!(held.len() > HELD, "{} connections", held.len());
    for ports in [AGENT, CONTROLLER] {
        assert_eq!(asked((&*address, ports.probes)), "HTTP/1.1 200 OK", "{ports:?}");
    }
    let pod = installed.run("default", "web", "100m", "200m");
    pod.burst(300_000, 1);
    let raised = wait_for("a larger quota", PATIENCE, || {
        Ok((installed.quota(&pod)? > 20_000 && installed.is_applied(&pod)).then_some(()))
    });
    raised.unwrap_or_else(|error| panic!("{error:#}\n{}", told()));
    assert_eq!(installed.restarts(&pod).unwrap(), 0);
    drop(held);
    let path = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
    let restarts = kubectl.run(&["get", "pods", "-n", SYSTEM, "-o", path]).unwrap();
    assert_eq!(restarts.trim(), "0 0", "agent and controller\n{}", told());
    of_direct(&installed, &pod);
}

/// The agent as it is shipped for writing control groups: it does, and can write to those of pods
/// alone.
fn of_direct(installed: &Installed, pod: &Place) {
    let kubectl = installed.testbed.kubectl().unwrap();
    let group = installed.testbed.container_cgroup(&pod.uid, &pod.container).unwrap();
    let pods = group.ancestors().find(|folder| folder.ends_with("kubepods")).unwrap();
    let manifests = Installed::manifests_in(&kubectl, "direct").unwrap();
    let agent = manifests.into_iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    // Where the testbed's kubelet has them.
    let agent = fitted(installed, agent).to_string();
    let agent = agent.replace("/sys/fs/cgroup/kubepods.slice", pods.to_str().unwrap());
    kubectl.apply(&serde_json::from_str(&agent).unwrap()).unwrap();
    installed.configure(&[("actuation", "direct")]).unwrap();
    let rollout = ["rollout", "status", "ds/walras-agent", "-n", SYSTEM, "--timeout=180s"];
    kubectl.run(&rollout).unwrap();
    let label = "app.kubernetes.io/component=agent";
    let all = kubectl.json(&["get", "pods", "-n", SYSTEM, "-l", label]).unwrap();
    let is_new = |it: &&Value| it["metadata"]["deletionTimestamp"].is_null();
    let found = all["items"].as_array().unwrap().iter().find(is_new).unwrap();
    let agent = installed.place(SYSTEM, found["metadata"]["name"].as_str().unwrap());

    let group = installed.testbed.container_cgroup(&agent.uid, &agent.container).unwrap();
    let processes = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
    let process = processes.lines().next().unwrap();
    let mounts = std::fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap();
    let writable: Vec<&str> = mounts
        .lines()
        .filter(|line| line.contains(" - cgroup"))
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(4);
            let (place, options) = (fields.next()?, fields.next()?);
            options.split(',').all(|option| option != "ro").then_some(place)
        })
        .collect();
    assert_eq!(writable, [pods.to_str().unwrap()], "{mounts}");

    let hot = installed.run("default", "hot", "50m", "100m");
    hot.burst(300_000, 1);
    wait_for("a larger quota", PATIENCE, || Ok((installed.quota(&hot)? > 10_000).then_some(())))
        .unwrap();
    let metrics = get(([127, 0, 0, 1], AGENT.served).into(), "/metrics").unwrap();
    let failures = metrics.lines().find(|line| line.starts_with("walras_direct_write_failures"));
    assert!(failures.is_none_or(|line| line.ends_with(" 0")), "{failures:?}");
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
