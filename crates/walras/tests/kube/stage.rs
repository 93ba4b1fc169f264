//! Where each test plays: a namespace of its own, pods in it, and programs that end with the test.
//!
//! Nothing waits for a fixed time: a condition is awaited, with a deadline that no working cluster
//! reaches. What a test asserts about requests comes from the API server's own audit log.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};
use walras_testbed::{CpuMax, Image, Kubectl, Namespace, PATIENCE, Spec, Testbed, wait_for};

/// One test at a time has the cluster.
static TURN: Mutex<()> = Mutex::new(());
const SYSTEM: &str = "mbcas-system";

/// A namespace of a cluster that nobody else uses meanwhile.
pub(crate) struct Stage {
    pub(crate) testbed: &'static Testbed,
    pub(crate) kubectl: Kubectl,
    namespace: Namespace<'static>,
    folder: tempfile::TempDir,
    /// How many requests the audit log had at the beginning.
    begun: usize,
    _turn: MutexGuard<'static, ()>,
}

/// A running `walras`, killed when this value goes.
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

/// A container of a pod: its name, its CPU request and limit; `-` is none.
pub(crate) type Container<'a> = (&'a str, &'a str, &'a str);

fn cluster() -> &'static Testbed {
    static ONCE: OnceLock<Testbed> = OnceLock::new();
    ONCE.get_or_init(|| {
        // It ends with this process.
        let testbed = Testbed::fresh(Spec::new(1, false)).unwrap();
        let kubectl = testbed.kubectl().unwrap();
        let definition = serde_json::to_value(walras_kube::crd::definition()).unwrap();
        kubectl.apply(&definition).unwrap();
        let name = "podallocations.allocation.mbcas.io";
        let established = ["wait", "--for=condition=Established", "crd", name];
        kubectl.run(&[&established[..], &["--timeout=120s"]].concat()).unwrap();
        let system =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM } });
        kubectl.apply(&system).unwrap();
        testbed
    })
}

// === impl Stage ===

impl Stage {
    /// Waits for its turn, and begins with the settings that are usual in tests.
    pub(crate) fn set(purpose: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let testbed = cluster();
        let stage = Self {
            kubectl: testbed.kubectl().unwrap(),
            namespace: testbed.namespace(purpose).unwrap(),
            folder: tempfile::tempdir().unwrap(),
            begun: testbed.audit().unwrap().len(),
            testbed,
            _turn: turn,
        };
        stage.settings(&[]);
        stage
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace.name
    }

    /// The settings of everybody, beside a short cooldown.
    pub(crate) fn settings(&self, more: &[(&str, &str)]) {
        let mut data = json!({ "cooldown": "1s" });
        for (key, value) in more {
            data[*key] = json!(value);
        }
        let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": { "name": "mbcas-agent-config", "namespace": SYSTEM } });
        self.kubectl.apply(&config).unwrap();
    }

    /// Starts `walras` with these arguments and the cluster's kubeconfig.
    pub(crate) fn start(&self, arguments: &[&str]) -> Program {
        let mut name = String::from("log");
        for place in 0.. {
            name.clear();
            write!(name, "log-{place}").unwrap();
            if !self.folder.path().join(&name).exists() {
                break;
            }
        }
        let log = self.folder.path().join(name);
        let child = Command::new(env!("CARGO_BIN_EXE_walras"))
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.testbed.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Program { child, log }
    }

    /// Starts a controller that is the only one.
    pub(crate) fn controller(&self) -> Program {
        self.start(&["controller", "--listen", "127.0.0.1:0", "--no-leader-election"])
    }

    /// Starts a controller that is one of several.
    pub(crate) fn elected_controller(&self) -> Program {
        self.start(&["controller", "--listen", "127.0.0.1:0"])
    }

    /// A pod as JSON, to be changed before it is applied.
    pub(crate) fn pod_json(&self, name: &str, containers: &[Container<'_>]) -> Value {
        let part = |at: usize, (name, request, limit): &Container<'_>| {
            let mut resources = json!({ "requests": {}, "limits": {} });
            for (kind, cpu) in [("requests", request), ("limits", limit)] {
                if *cpu != "-" {
                    resources[kind]["cpu"] = json!(cpu);
                }
            }
            let port = 8080 + at;
            json!({ "name": name, "image": Image::Loadgen.reference(), "imagePullPolicy": "Never",
                "args": [format!("0.0.0.0:{port}")], "resources": resources })
        };
        let parts: Vec<Value> =
            containers.iter().enumerate().map(|(at, container)| part(at, container)).collect();
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": self.namespace() },
            "spec": { "terminationGracePeriodSeconds": 0, "containers": parts },
        })
    }

    /// A pod that runs and whose node says what it has.
    pub(crate) fn pod(&self, name: &str, containers: &[Container<'_>]) -> Value {
        self.run(&self.pod_json(name, containers))
    }

    /// Applies a pod and waits until it runs and its node says what it has.
    pub(crate) fn run(&self, pod: &Value) -> Value {
        self.kubectl.apply(pod).unwrap();
        let name = pod["metadata"]["name"].as_str().unwrap();
        wait_for(&format!("pod {name}"), PATIENCE, || {
            let pod = self.get("pod", name);
            let statuses = pod["status"]["containerStatuses"].as_array().cloned();
            let ready = statuses.is_some_and(|all| {
                all.iter().all(|one| one["started"] == true && one["resources"].is_object())
            });
            Ok((pod["status"]["phase"] == "Running" && ready).then_some(pod))
        })
        .unwrap()
    }

    /// An object of this namespace.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        self.kubectl.json(&["get", kind, name, "-n", self.namespace()]).unwrap()
    }

    /// The allocation of a pod as JSON, to be changed before it is applied.
    pub(crate) fn allocation_json(&self, pod: &Value, request: &str, limit: &str) -> Value {
        let name = pod["metadata"]["name"].as_str().unwrap();
        json!({
            "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
            "metadata": {
                "name": self.allocation_of(name), "namespace": self.namespace(),
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": name,
                    "uid": pod["metadata"]["uid"] }],
            },
            "spec": { "namespace": self.namespace(), "podName": name,
                "desiredCPURequest": request, "desiredCPULimit": limit },
        })
    }

    /// The name of a pod's allocation.
    pub(crate) fn allocation_of(&self, pod: &str) -> String {
        format!("{}-{pod}", self.namespace())
    }

    /// Writes what a pod should have.
    pub(crate) fn allocate(&self, pod: &Value, request: &str, limit: &str) {
        self.kubectl.apply(&self.allocation_json(pod, request, limit)).unwrap();
    }

    /// The status of the object `name`, once its reason is `reason` for what it says now.
    pub(crate) fn told(&self, name: &str, reason: &str) -> Value {
        self.told_one_of(name, &[reason])
    }

    /// The same for one of several reasons.
    pub(crate) fn told_one_of(&self, name: &str, reasons: &[&str]) -> Value {
        let mut last = Value::Null;
        let found = wait_for(&format!("{reasons:?} of {name}"), PATIENCE, || {
            last = self.get("podallocation", name);
            let status = &last["status"];
            let now = status["observedGeneration"] == last["metadata"]["generation"];
            let known = reasons.iter().any(|reason| status["reason"] == *reason);
            Ok((now && known).then(|| status.clone()))
        });
        found.unwrap_or_else(|error| panic!("{error}: {last:#}"))
    }

    /// The status of a pod's allocation, once its reason is `reason`.
    pub(crate) fn told_of(&self, pod: &str, reason: &str) -> Value {
        self.told(&self.allocation_of(pod), reason)
    }

    /// Every write to `resource` of this namespace since the test began, as the audit log has it.
    pub(crate) fn writes(&self, resource: &str, subresource: &str) -> Vec<Value> {
        let mut audit = self.testbed.audit().unwrap();
        let since = audit.split_off(self.begun.min(audit.len()));
        let mine = |event: &Value| {
            let object = &event["objectRef"];
            object["namespace"] == self.namespace()
                && object["resource"] == resource
                && object["subresource"].as_str().unwrap_or_default() == subresource
                && ["patch", "update", "create"].contains(&event["verb"].as_str().unwrap_or(""))
        };
        since.into_iter().filter(mine).collect()
    }

    /// Every resize of a pod of this namespace that was asked for.
    pub(crate) fn resizes(&self) -> Vec<Value> {
        self.writes("pods", "resize")
    }

    /// The limit that the kernel enforces for a container of a pod, in thousandths of a core.
    pub(crate) fn cgroup_limit(&self, pod: &Value, container: &str) -> Option<u64> {
        let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
        let status = statuses.iter().find(|status| status["name"] == container).unwrap();
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        let id = status["containerID"].as_str().unwrap();
        let CpuMax { quota_us, period_us } = self.testbed.cpu_max(uid, id).unwrap();
        quota_us.map(|quota_us| quota_us * 1000 / period_us)
    }
}

/// The CPU request and limit in a pod's spec, and in force, of every container.
pub(crate) fn resources(pod: &Value) -> Vec<String> {
    let cpu = |at: &Value, kind: &str| at[kind]["cpu"].as_str().unwrap_or("-").to_owned();
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers
        .iter()
        .map(|container| {
            let resources = &container["resources"];
            let name = container["name"].as_str().unwrap();
            format!("{name} {}/{}", cpu(resources, "requests"), cpu(resources, "limits"))
        })
        .collect()
}

// === impl Program ===

impl Program {
    /// What it said so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it says this.
    pub(crate) fn says(&self, words: &str) {
        let said = || Ok(self.log().contains(words).then_some(()));
        wait_for(&format!("`{words}` in the log"), PATIENCE, said)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
    }

    /// What it answers to `GET path`.
    pub(crate) fn ask(&self, path: &str) -> String {
        self.says("address=");
        let log = self.log();
        let after = log.split("address=").nth(1).unwrap();
        let address = after.split_whitespace().next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Asks it to stop, and waits until it has; whether it ended well.
    pub(crate) fn stop(mut self) -> bool {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().success()
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            walras_testbed::say(&format!("the program said:\n{log}"));
        }
    }
}
