//! A cluster of a test's own, an agent as a process, and what a test wants to know of both.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use walras_testbed::{Image, NODE_LABEL, PATIENCE, Spec, Testbed, groups, wait_for};

/// The namespace of the agent.
const OWN: &str = "mbcas-system";
/// Clusters take memory, and throttling takes CPU, so one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A cluster of a test's own.
pub(crate) struct Stage {
    pub(crate) testbed: Testbed,
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// A pod to be run.
pub(crate) struct Load {
    pub(crate) request: &'static str,
    pub(crate) limit: &'static str,
    /// Its request and limit of memory.
    pub(crate) memory: &'static str,
    pub(crate) annotations: Value,
}

/// The agent under test.
pub(crate) struct Agent {
    child: Child,
    log: PathBuf,
    address: SocketAddr,
}

/// A pod that burns CPU: where its container is.
pub(crate) struct Burning {
    group: PathBuf,
}

impl Default for Load {
    fn default() -> Self {
        Self { request: "50m", limit: "200m", memory: "", annotations: json!({}) }
    }
}

impl Load {
    /// The spec of a pod whose only container has its name.
    fn spec(&self, name: &str) -> Value {
        let amounts = |cpu: &'static str| {
            let both = [("cpu", cpu), ("memory", self.memory)];
            let said = both.into_iter().filter(|(_, amount)| !amount.is_empty());
            said.collect::<BTreeMap<_, _>>()
        };
        json!({
            "nodeSelector": { NODE_LABEL: "real" },
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": name, "image": Image::Loadgen.reference(),
                "imagePullPolicy": "Never", "args": ["0.0.0.0:8080"],
                "resources": {
                    "requests": amounts(self.request), "limits": amounts(self.limit),
                },
            }],
        })
    }
}

/// The limit that an allocation asks for, in thousandths of a core.
pub(crate) fn limit_in(allocation: &Value) -> u64 {
    let text = allocation["spec"]["desiredCPULimit"].as_str().unwrap();
    text.strip_suffix('m').unwrap().parse().unwrap()
}

/// What a web server answers to `GET path`: the body, if all is well. The load generator reads no
/// headers, and answers when nothing more is asked; others may take that for a client that is gone.
fn get(address: SocketAddr, path: &str, headers: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\n{headers}\r\n")?;
    if headers.is_empty() {
        stream.shutdown(Shutdown::Write)?;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    anyhow::ensure!(head.starts_with("HTTP/1.1 200 "), "{head}");
    Ok(body.to_owned())
}

// === impl Stage ===

impl Stage {
    /// A cluster with one real node that knows PodAllocations.
    pub(crate) fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let testbed = Testbed::fresh(Spec::new(1, false)).unwrap();
        let kubectl = testbed.kubectl().unwrap();
        let definition = serde_json::to_value(walras_kube::crd::definition()).unwrap();
        kubectl.apply(&definition).unwrap();
        kubectl.run(&["create", "namespace", OWN]).unwrap();
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        let established = ["wait", "--for=condition=Established", "crd", &name, "--timeout=120s"];
        kubectl.run(&established).unwrap();
        for namespace in [OWN, "kube-system"] {
            wait_for("a service account", PATIENCE, || {
                Ok(kubectl.run(&["get", "serviceaccount", "default", "-n", namespace]).ok())
            })
            .unwrap();
        }
        Self { testbed, folder: tempfile::tempdir().unwrap(), _turn: turn }
    }

    /// Waits until `found` finds something.
    pub(crate) fn wait<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let result = wait_for(what, PATIENCE, || Ok(found()));
        result.unwrap_or_else(|error| {
            let logs = fs::read_dir(self.folder.path()).unwrap();
            let texts = logs.map(|log| fs::read_to_string(log.unwrap().path()).unwrap());
            let texts: Vec<String> = texts.collect();
            panic!("{error:#}\n{}", texts.join("\n----\n"));
        })
    }

    /// Sets the agent's ConfigMap.
    pub(crate) fn configure(&self, data: &Value) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "mbcas-agent-config", "namespace": OWN },
            "data": data,
        });
        self.testbed.kubectl().unwrap().apply(&map).unwrap();
    }

    /// Runs a pod of the load generator, and does not wait for it.
    pub(crate) fn run(&self, namespace: &str, name: &str, load: &Load) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": namespace, "annotations": load.annotations,
            },
            "spec": load.spec(name),
        });
        self.testbed.kubectl().unwrap().apply(&pod).unwrap();
    }

    /// Runs a Deployment of one such pod.
    pub(crate) fn deploy(&self, namespace: &str, name: &str, load: &Load) {
        let labels = json!({ "app": name });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name, "namespace": namespace },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": load.spec(name) },
            },
        });
        self.testbed.kubectl().unwrap().apply(&deployment).unwrap();
    }

    /// The name of the first pod with the label of a Deployment, or nothing.
    pub(crate) fn pod_of(&self, namespace: &str, deployment: &str) -> String {
        let label = format!("app={deployment}");
        let pods =
            self.testbed.kubectl().unwrap().json(&["get", "pods", "-n", namespace, "-l", &label]);
        let name = pods.unwrap()["items"][0]["metadata"]["name"].as_str().map(str::to_owned);
        name.unwrap_or_default()
    }

    /// Lets a pod want a whole core until it had that for a minute.
    pub(crate) fn burn(&self, namespace: &str, name: &str) -> Burning {
        let pod = self.wait("an address of the pod", || {
            let pod = self.pod(namespace, name);
            pod["status"]["podIP"].is_string().then_some(pod)
        });
        let address = pod["status"]["podIP"].as_str().unwrap();
        let address: SocketAddr = format!("{address}:8080").parse().unwrap();
        self.wait("the load generator", || get(address, "/burst?ms=60000&threads=1", "").ok());
        let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap();
        let id = id.rsplit('/').next().unwrap();
        let folders = groups(&self.testbed.state().cgroup());
        let group = folders.into_iter().find(|group| {
            group.ends_with(id)
                && (group.join("cpu.max").exists() || group.join("cpu.cfs_quota_us").exists())
        });
        Burning { group: group.unwrap() }
    }

    /// The quota of a container's cgroup, in microseconds.
    pub(crate) fn quota(&self, burning: &Burning) -> u64 {
        walras_testbed::cpu_max(&burning.group).unwrap().quota_us.unwrap()
    }

    /// The burst buffer of a container's cgroup, in microseconds.
    pub(crate) fn burst(&self, burning: &Burning) -> u64 {
        let files = ["cpu.max.burst", "cpu.cfs_burst_us"].map(|file| burning.group.join(file));
        let text = files.iter().find_map(|file| fs::read_to_string(file).ok());
        text.expect("the kernel has burst buffers").trim().parse().unwrap()
    }

    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Value {
        self.testbed.kubectl().unwrap().json(&["get", "pod", name, "-n", namespace]).unwrap()
    }

    pub(crate) fn restarts(&self, namespace: &str, name: &str) -> u64 {
        let pod = self.pod(namespace, name);
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap()
    }

    /// Resizes the only container of a pod, as a controller would.
    pub(crate) fn resize(&self, namespace: &str, name: &str, limit: u64) {
        let patch = json!({ "spec": { "containers": [{
            "name": name, "resources": { "limits": { "cpu": format!("{limit}m") } },
        }] } });
        let patch = patch.to_string();
        let args = ["patch", "pod", name, "-n", namespace, "--subresource=resize", "-p", &patch];
        self.testbed.kubectl().unwrap().run(&args).unwrap();
    }

    /// The names of all allocations of a namespace.
    pub(crate) fn allocations(&self, namespace: &str) -> Vec<String> {
        let kubectl = self.testbed.kubectl().unwrap();
        let list = kubectl.json(&["get", "podallocations", "-n", namespace]).unwrap();
        let names = list["items"].as_array().unwrap().iter();
        names.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The allocation of a pod.
    pub(crate) fn allocation(&self, namespace: &str, pod: &str) -> Option<Value> {
        let kubectl = self.testbed.kubectl().unwrap();
        let name = format!("{namespace}-{pod}");
        kubectl.json(&["get", "podallocation", &name, "-n", namespace]).ok()
    }

    /// What was learned, as the API server keeps it.
    pub(crate) fn tables(&self) -> BTreeMap<String, String> {
        let kubectl = self.testbed.kubectl().unwrap();
        let map = kubectl.json(&["get", "configmap", "mbcas-qtable-node-1", "-n", OWN]);
        map.ok()
            .and_then(|map| serde_json::from_value(map["data"].clone()).ok())
            .unwrap_or_default()
    }

    /// Starts an agent.
    pub(crate) fn agent(&self, more: &[&str]) -> Agent {
        let count = fs::read_dir(self.folder.path()).unwrap().count();
        let log = self.folder.path().join(format!("agent-{count}.log"));
        let child = Command::new(env!("CARGO_BIN_EXE_walras"))
            .args(["agent", "--node-name", "node-1", "--listen", "127.0.0.1:0"])
            .arg("--kubeconfig")
            .arg(self.testbed.kubeconfig())
            .args(more)
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut agent = Agent { child, log, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        agent.address = self.wait("the agent's address", || {
            let log = agent.log();
            let (_, rest) = log.split_once("address=")?;
            rest.split_whitespace().next()?.parse().ok()
        });
        agent
    }
}

// === impl Agent ===

impl Agent {
    /// What it has said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// What it answers to `GET path`.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        let headers = format!("Host: {}\r\nConnection: close\r\n", self.address);
        get(self.address, path, &headers)
    }

    /// Waits until it says that it is ready.
    pub(crate) fn wait_until_ready(&self) {
        let ready = wait_for("the agent", PATIENCE, || Ok(self.get("/readyz").ok()));
        ready.unwrap_or_else(|error| panic!("{error:#}\n{}", self.log()));
    }

    /// How it sees a pod.
    pub(crate) fn pod(&self, name: &str) -> Option<Value> {
        let state: Value = serde_json::from_str(&self.get("/api/v1/state").ok()?).ok()?;
        let ends = format!("/{name}");
        let mut pods = state["pods"].as_array()?.iter();
        pods.find(|pod| pod["name"].as_str().is_some_and(|it| it.ends_with(&ends))).cloned()
    }

    /// What a pod used lately, as it sees it.
    pub(crate) fn usage(&self, name: &str) -> Option<Value> {
        Some(self.pod(name)?["usage_milli"].clone())
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}\n{}", self.log());
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It has ended already, or ends now.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
