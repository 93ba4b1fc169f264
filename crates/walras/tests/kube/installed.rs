//! Walras installed on a cluster of a test's own: definitions, accounts and rights from `deploy/`,
//! and the agent and the controller as processes of this machine, each under its own account.
//!
//! They are processes and not pods so that a test can kill them and read what they say; what they
//! may do is what the manifests let them do. Whole installations run one at a time: the machine is
//! small.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use walras_testbed::{Image, Kubectl, Spec, Testbed, wait_for};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Where Walras is installed.
pub(crate) const SYSTEM: &str = "mbcas-system";
/// Where the load generator listens.
const LOAD_PORT: u16 = 8080;
/// What of the manifests makes sense without the pods that the installed programs stand in for.
const KINDS: [&str; 11] = [
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A cluster with Walras in it.
pub(crate) struct Installed {
    pub(crate) testbed: Testbed,
    folder: tempfile::TempDir,
    agent: Option<Running>,
    controllers: Vec<Running>,
    /// Where programs reach the API server, if it is not where the testbed says.
    through: Option<SocketAddr>,
    /// What programs are started with besides.
    environment: Vec<(&'static str, PathBuf)>,
    _turn: MutexGuard<'static, ()>,
}

/// A program at work, which is killed when dropped.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
    pub(crate) address: SocketAddr,
}

/// A container on the real node: its pod, and what the kernel holds it to.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) container: String,
    pub(crate) address: Option<SocketAddr>,
}

impl Installed {
    /// A fresh cluster with one real node, with definitions, accounts and settings in place.
    /// Nothing runs yet.
    pub(crate) fn prepare(settings: &[(&str, &str)]) -> Self {
        Self::prepare_on(Spec::new(1, false), settings)
    }

    /// The same on another kind of cluster.
    pub(crate) fn prepare_on(spec: Spec, settings: &[(&str, &str)]) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let testbed = Testbed::fresh(spec).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (agent, controllers, through) = (None, Vec::new(), None);
        let environment = Vec::new();
        let it = Self { testbed, folder, agent, controllers, through, environment, _turn: turn };
        it.apply_manifests().unwrap();
        it.configure(settings).unwrap();
        // A pod is refused as long as there is no account for it.
        let kubectl = it.testbed.kubectl().unwrap();
        wait_for("the service account of pods", PATIENCE, || {
            Ok(kubectl.run(&["get", "serviceaccount", "default", "-n", "default"]).ok())
        })
        .unwrap();
        it
    }

    /// The same with an agent and a controller at work.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let mut it = Self::prepare(settings);
        it.start_controller();
        it.start_agent();
        it
    }

    /// Every object of the plain manifests.
    pub(crate) fn manifests(kubectl: &Kubectl) -> Result<Vec<Value>> {
        Self::manifests_in(kubectl, "kubernetes")
    }

    /// Every object that a folder of `deploy` makes.
    pub(crate) fn manifests_in(kubectl: &Kubectl, folder: &str) -> Result<Vec<Value>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(folder);
        let folder = folder.to_str().context("a path that is text")?;
        // One document after the other.
        let args = ["create", "--dry-run=client", "-k", folder, "-o", "json"];
        let all = kubectl.run(&args)?;
        let items = serde_json::Deserializer::from_str(&all).into_iter::<Value>();
        let items = items.collect::<Result<Vec<Value>, _>>()?;
        ensure!(!items.is_empty(), "no manifests in {folder}");
        Ok(items)
    }

    fn apply_manifests(&self) -> Result<()> {
        let kubectl = self.testbed.kubectl()?;
        let items = Self::manifests(&kubectl)?;
        // Kinds before objects of them.
        for kind in KINDS {
            for object in items.iter().filter(|item| item["kind"] == kind) {
                kubectl.apply(object)?;
            }
        }
        wait_for("the definition of allocations", PATIENCE, || {
            let args = ["get", "podallocations", "-A"];
            Ok(kubectl.run(&args).ok())
        })?;
        Ok(())
    }

    /// Sets keys of the settings; the others stay as they are shipped.
    pub(crate) fn configure(&self, settings: &[(&str, &str)]) -> Result<()> {
        let data: serde_json::Map<String, Value> =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
        let patch = json!({ "data": data }).to_string();
        let args = ["patch", "configmap", "mbcas-agent-config", "-n", SYSTEM, "-p", &patch];
        self.testbed.kubectl()?.run(&args)?;
        Ok(())
    }

    /// A kubeconfig for a service account, as a pod of it on `node` would have it.
    fn kubeconfig_of(&self, account: &str, node: Option<&str>) -> Result<PathBuf> {
        let kubectl = self.testbed.kubectl()?;
        let mut args = vec!["create", "token", account, "-n", SYSTEM, "--duration=24h"];
        args.extend(node.map(|_| "--bound-object-kind=Node"));
        let bound = node.map(|node| format!("--bound-object-name={node}"));
        args.extend(bound.as_deref());
        let token = kubectl.run(&args)?;
        let mut config: Value =
            serde_json::from_str(&fs::read_to_string(self.testbed.kubeconfig())?)?;
        config["users"][0]["user"] = json!({ "token": token.trim() });
        if let Some(address) = self.through {
            config["clusters"][0]["cluster"]["server"] = format!("https://{address}").into();
        }
        let path = self.folder.path().join(format!("{account}.kubeconfig"));
        fs::write(&path, config.to_string())?;
        Ok(path)
    }

    fn spawn(&self, role: &str, number: usize, args: &[&str]) -> Running {
        let node = args.windows(2).find(|pair| pair[0] == "--node-name").map(|pair| pair[1]);
        let kubeconfig = self.kubeconfig_of(&format!("walras-{role}"), node).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let log = self.folder.path().join(format!("{role}-{number}.log"));
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_walras"))
            .args([role, "--namespace", SYSTEM, "--listen", &address.to_string()])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(args)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Running { child, log, address }
    }

    /// Starts the agent of the real node.
    pub(crate) fn start_agent(&mut self) {
        let running = self.spawn("agent", 0, &["--node-name", "node-1"]);
        self.agent = Some(running);
    }

    /// Starts the agent of another node.
    pub(crate) fn start_agent_of(&mut self, node: &str) {
        self.agent = Some(self.spawn("agent", 0, &["--node-name", node]));
    }

    /// Programs that are started from now on reach the API server there.
    pub(crate) fn through(&mut self, address: SocketAddr) {
        self.through = Some(address);
    }

    /// Programs that are started from now on have these variables.
    pub(crate) fn with_environment(&mut self, environment: Vec<(&'static str, PathBuf)>) {
        self.environment = environment;
    }

    /// The same with more arguments.
    pub(crate) fn start_agent_with(&mut self, more: &[String]) {
        let mut args = vec!["--node-name", "node-1"];
        args.extend(more.iter().map(String::as_str));
        self.agent = Some(self.spawn("agent", 0, &args));
    }

    /// Starts the agent anew, with a recording of what it is told.
    pub(crate) fn record_agent(&mut self) -> PathBuf {
        self.kill_agent();
        let file = self.folder.path().join("agent.jsonl");
        let args = ["--node-name", "node-1", "--record", &file.display().to_string()];
        self.agent = Some(self.spawn("agent", 0, &args));
        file
    }

    /// Starts one more controller.
    pub(crate) fn start_controller(&mut self) {
        let running = self.spawn("controller", self.controllers.len(), &[]);
        self.controllers.push(running);
    }

    /// Kills the agent, as a crash would.
    pub(crate) fn kill_agent(&mut self) {
        self.agent = None;
    }

    /// Kills the first controller, as a crash would.
    pub(crate) fn kill_controller(&mut self) {
        if !self.controllers.is_empty() {
            self.controllers.remove(0);
        }
    }

    /// Whether a program that should be at work has ended by itself.
    pub(crate) fn check_alive(&mut self) {
        for running in self.agent.iter_mut().chain(&mut self.controllers) {
            if let Some(status) = running.child.try_wait().unwrap() {
                panic!("{} ended with {status}:\n{}", running.log.display(), running.said());
            }
        }
    }

    /// The process of the agent, and of the first controller.
    pub(crate) fn pids(&self) -> (Option<u32>, Option<u32>) {
        let agent = self.agent.as_ref().map(|running| running.child.id());
        (agent, self.controllers.first().map(|running| running.child.id()))
    }

    /// Where the programs serve that are at work.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.agent.iter().chain(&self.controllers).map(|running| running.address).collect()
    }

    /// Makes a namespace that pods can be put into.
    pub(crate) fn namespace(&self, name: &str) {
        let kubectl = self.testbed.kubectl().unwrap();
        kubectl.run(&["create", "namespace", name]).unwrap();
        wait_for("the service account of pods", PATIENCE, || {
            Ok(kubectl.run(&["get", "serviceaccount", "default", "-n", name]).ok())
        })
        .unwrap();
    }

    /// The first controller's metrics.
    pub(crate) fn controller_metrics(&self) -> Result<String> {
        let address = self.controllers.first().context("no controller")?.address;
        get(address, "/metrics")
    }

    /// The agent's metrics.
    pub(crate) fn agent_metrics(&self) -> Result<String> {
        let address = self.agent.as_ref().context("no agent")?.address;
        get(address, "/metrics")
    }

    /// What the agent says of its node.
    pub(crate) fn agent_state(&self) -> Result<Value> {
        let address = self.agent.as_ref().context("no agent")?.address;
        Self::state(address, "/api/v1/state")
    }

    /// What the first controller says of the cluster.
    pub(crate) fn controller_state(&self) -> Result<Value> {
        let address = self.controllers.first().context("no controller")?.address;
        Self::state(address, "/api/v1/cluster")
    }

    fn state(address: SocketAddr, path: &str) -> Result<Value> {
        let answer = get(address, path)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
        Ok(serde_json::from_str(body)?)
    }

    /// A pod of the load generator, with this request and this limit, on the real node.
    pub(crate) fn pod(&self, namespace: &str, name: &str, request: &str, limit: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "namespace": namespace },
            "spec": {
                "nodeSelector": { "walras.dev/testbed-node": "real" },
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "app",
                    "image": Image::Loadgen.reference(),
                    "imagePullPolicy": "Never",
                    "args": [format!("0.0.0.0:{LOAD_PORT}")],
                    "resources": {
                        "requests": { "cpu": request, "memory": "16Mi" },
                        "limits": { "cpu": limit, "memory": "64Mi" },
                    },
                }],
            },
        })
    }

    /// Creates a pod, and waits until it runs.
    pub(crate) fn run(&self, namespace: &str, name: &str, request: &str, limit: &str) -> Place {
        let kubectl = self.testbed.kubectl().unwrap();
        kubectl.apply(&self.pod(namespace, name, request, limit)).unwrap();
        self.place(namespace, name)
    }

    /// Where a pod is, once it runs.
    pub(crate) fn place(&self, namespace: &str, name: &str) -> Place {
        let what = format!("pod {name} to run");
        wait_for(&what, PATIENCE, || {
            let pod = self.object("pod", namespace, name)?;
            let status = &pod["status"]["containerStatuses"][0];
            let container = status["containerID"].as_str();
            let address = pod["status"]["podIP"].as_str();
            Ok(match (status["ready"].as_bool(), container, address) {
                (Some(true), Some(container), Some(address)) => Some(Place {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    uid: pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
                    container: container.to_owned(),
                    address: format!("{address}:{LOAD_PORT}").parse().ok(),
                }),
                (_, _, _) => None,
            })
        })
        .unwrap()
    }

    /// An object.
    pub(crate) fn object(&self, kind: &str, namespace: &str, name: &str) -> Result<Value> {
        self.testbed.kubectl()?.json(&["get", kind, name, "-n", namespace])
    }

    /// The quota of a container, in microseconds per period of 100 ms.
    pub(crate) fn quota(&self, place: &Place) -> Result<u64> {
        let max = self.testbed.cpu_max(&place.uid, &place.container)?;
        max.quota_us.context("no quota")
    }

    /// The allocation of a pod.
    pub(crate) fn allocation(&self, place: &Place) -> Result<Value> {
        let name = format!("{}-{}", place.namespace, place.name);
        self.object("podallocation", &place.namespace, &name)
    }

    /// Whether a pod has an allocation and what it says.
    pub(crate) fn is_applied(&self, place: &Place) -> bool {
        self.allocation(place).is_ok_and(|one| one["status"]["phase"] == "Applied")
    }

    /// Every resize that the API server has carried out, oldest first.
    pub(crate) fn resizes(&self) -> Result<Vec<Value>> {
        let events = self.testbed.audit()?;
        let ours = |event: &Value| {
            event["objectRef"]["subresource"] == "resize"
                && event["verb"] == "patch"
                && event["stage"] == "ResponseComplete"
                && event["responseStatus"]["code"] == 200
        };
        Ok(events.into_iter().filter(ours).collect())
    }

    /// How often the containers of a pod were restarted.
    pub(crate) fn restarts(&self, place: &Place) -> Result<i64> {
        let pod = self.object("pod", &place.namespace, &place.name)?;
        let each = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        Ok(each.iter().filter_map(|one| one["restartCount"].as_i64()).sum())
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for running in self.agent.iter().chain(&self.controllers) {
                eprintln!("=== {}\n{}", running.log.display(), running.said());
            }
        }
    }
}

// === impl Running ===

impl Running {
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

// === impl Place ===

impl Place {
    /// Burns CPU on `threads` threads for so long, and does not wait for the end of it.
    pub(crate) fn burst(&self, ms: u64, threads: u32) {
        let address = self.address.expect("the pod has an address");
        let path = format!("/burst?ms={ms}&threads={threads}");
        let answer = wait_for("the load generator", PATIENCE, || Ok(get(address, &path).ok()));
        assert!(answer.unwrap().ends_with("started\n"));
    }
}

/// What a web server answers to `GET path`.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    if address.port() == LOAD_PORT {
        // The load generator closes when nothing more is asked.
        stream.shutdown(std::net::Shutdown::Write)?;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
