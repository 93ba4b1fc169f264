//! Programs in Python that were made of our protocols by gRPC's own tools: a client and a control
//! plane, neither of which knows anything else of Walras.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::engine::tool;
use crate::host::Host;

/// An authority, and certificates of it in folders of their own.
pub(crate) struct Certs(TempDir);

impl Certs {
    /// With a server `localhost` that lets these clients do everything.
    pub(crate) fn new(clients: &[&str]) -> Self {
        let certs = Self(tempfile::tempdir().unwrap());
        certs.make(&["init"]);
        certs.make(&["issue", "--use", "server", "--name", "localhost", "--ip", "127.0.0.1"]);
        for client in clients {
            certs.make(&["issue", "--use", "client", "--name", client]);
        }
        fs::write(certs.of("localhost").join("clients"), clients.join("\n")).unwrap();
        certs
    }

    pub(crate) fn of(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn make(&self, args: &[&str]) {
        let folder = self.0.path().display().to_string();
        let args = [&["certs"][..], args, &["--dir", &folder]].concat();
        assert!(Host::program(&args).status().unwrap().success(), "{args:?}");
    }
}

/// Makes Python of a protocol.
pub(crate) fn stubs(protocol: &str) -> TempDir {
    let stubs = tempfile::tempdir().unwrap();
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let made = python()
        .args(["-m", "grpc_tools.protoc", "-I"])
        .arg(&proto)
        .arg(format!("--python_out={}", stubs.path().display()))
        .arg(format!("--grpc_python_out={}", stubs.path().display()))
        .arg(proto.join(protocol))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    stubs
}

/// A client of the workload API.
pub(crate) struct Client {
    pub(crate) stubs: TempDir,
    pub(crate) certificates: PathBuf,
    pub(crate) address: String,
}

impl Client {
    pub(crate) fn asks(&self, task: &str, count: u32) -> Value {
        let output = python()
            .arg(beside("client.py"))
            .arg(self.stubs.path())
            .arg(&self.address)
            .arg(&self.certificates)
            .args(["walras-test:1", task])
            .arg(count.to_string())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// A control plane. It is killed with this value.
pub(crate) struct ControlPlane {
    process: Child,
    pub(crate) port: u16,
    wishes: PathBuf,
    calls: Arc<Mutex<Vec<Value>>>,
    _stubs: TempDir,
}

impl ControlPlane {
    /// Starts one that shows these certificates.
    pub(crate) fn start(certificates: &Path) -> Self {
        let stubs = stubs("control.proto");
        let wishes = stubs.path().join("wishes");
        fs::write(&wishes, "").unwrap();
        let mut command = python();
        command.arg(beside("control.py")).arg(stubs.path()).arg(certificates).arg(&wishes);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&calls);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let call = serde_json::from_str(&line).unwrap();
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            }
        });
        Self { process, port, wishes, calls, _stubs: stubs }
    }

    /// Behaves so from now on.
    pub(crate) fn wishes(&self, words: &str) {
        fs::write(&self.wishes, words).unwrap();
    }

    /// What it was told so far.
    pub(crate) fn heard(&self, call: &str) -> Vec<Value> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().filter(|it| it["call"] == call).cloned().collect()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn python() -> Command {
    Command::new(tool("python", "bin/python"))
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/docker").join(name)
}
