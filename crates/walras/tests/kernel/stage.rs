//! Where each test plays: cgroups of its own, processes that burn CPU in them, and a daemon that
//! knows nothing but those cgroups.
//!
//! Everything goes with the value it belongs to, also after a failed test. Nothing waits for a
//! fixed time: a condition is awaited, with a deadline that no working machine reaches.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::Value;
use walras_cgroup::{CgroupPath, Created, Group, Layout, Version, remove_left_behind};
use walras_core::units::Moment;

/// Nothing that a test waits for takes this long, however busy the machine is.
const DEADLINE: Duration = Duration::from_secs(300);
/// What the groups of these tests are called.
const PREFIX: &[u8] = b"walras-host-test-";

/// Tests share the machine, but for those that take all of it.
static MACHINE: RwLock<()> = RwLock::new(());

/// The cgroups and folders of one test.
pub(crate) struct Stage {
    _machine: Machine,
    pub(crate) layout: Layout,
    top: CgroupPath,
    /// From the outermost to the innermost.
    made: Vec<Made>,
    pub(crate) folder: tempfile::TempDir,
}

/// A cgroup, and the process that makes a workload of it: an empty one is none.
struct Made {
    // Goes before the group does, which could not be removed otherwise.
    sleeper: Option<Burner>,
    group: Created,
}

/// What a test has of the machine, until this value goes.
enum Machine {
    /// Others play beside it.
    Shared { _guard: RwLockReadGuard<'static, ()> },
    /// Nobody else does.
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// A process that burns CPU, or sleeps, until this value goes.
pub(crate) struct Burner(Child);

/// A daemon.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

/// Waits until `found` finds something.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "{what} did not come about");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[expect(clippy::disallowed_methods, reason = "the user's word")]
fn is_left_out() -> bool {
    std::env::var("WALRAS_WITHOUT_CGROUPS").is_ok_and(|value| value == "1")
}

// === impl Stage ===

impl Stage {
    /// A stage for one test; nothing if the user wants to do without.
    pub(crate) fn prepared() -> Option<Self> {
        Self::on(|| Machine::Shared {
            _guard: MACHINE.read().unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// The same for a test that needs idle CPU.
    pub(crate) fn on_a_quiet_machine() -> Option<Self> {
        Self::on(|| Machine::Alone {
            _guard: MACHINE.write().unwrap_or_else(PoisonError::into_inner),
        })
    }

    fn on(machine: impl FnOnce() -> Machine) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if is_left_out() {
            // Past the harness, which hides what passing tests print.
            let words = "NOT RUN: A TEST ON REAL CGROUPS, BECAUSE WALRAS_WITHOUT_CGROUPS=1\n";
            std::io::stderr().write_all(words.as_bytes()).unwrap();
            return None;
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let mut name = PREFIX.to_vec();
        name.extend(format!("{}-{number}", std::process::id()).bytes());
        let needs = "needs root and a writable cpu controller; WALRAS_WITHOUT_CGROUPS=1 leaves it \
                     out";
        let layout = Layout::of_this_machine().expect(needs);
        remove_left_behind(&layout, &CgroupPath::ROOT, PREFIX).expect(needs);
        let top = CgroupPath::ROOT.join(&name).unwrap();
        let group = Created::create(&layout, &top).expect(needs);
        let made = vec![Made { sleeper: None, group }];
        Some(Self { _machine: machine(), layout, top, made, folder: tempfile::tempdir().unwrap() })
    }

    /// For a test that takes the whole machine: nobody else plays until the value goes. Nothing if
    /// the user wants to do without.
    pub(crate) fn alone() -> Option<(RwLockWriteGuard<'static, ()>, Layout)> {
        let layout = Self::prepared()?.layout.clone();
        Some((MACHINE.write().unwrap_or_else(PoisonError::into_inner), layout))
    }

    /// Makes a workload with this quota of a period of 100 ms; none where it is nothing. There is a
    /// process in it that sleeps.
    pub(crate) fn make(&mut self, name: &str, quota_ms: Option<u32>) -> CgroupPath {
        let path = self.make_empty(name);
        if let Some(quota) = quota_ms {
            self.set_quota(&path, quota);
        }
        self.fill(&path);
        path
    }

    /// Makes a cgroup without a process.
    pub(crate) fn make_empty(&mut self, name: &str) -> CgroupPath {
        let names = name.split('/').map(str::as_bytes);
        let path = names.fold(self.top.clone(), |path, name| path.join(name).unwrap());
        let group = Created::create(&self.layout, &path).unwrap();
        self.made.push(Made { sleeper: None, group });
        path
    }

    /// Puts a process into a cgroup that sleeps.
    pub(crate) fn fill(&mut self, path: &CgroupPath) {
        let made = self.made.iter_mut().find(|made| made.group.path() == path).unwrap();
        let child = Command::new("sleep").arg("infinity").spawn().unwrap();
        made.group.put(child.id()).unwrap();
        made.sleeper = Some(Burner(child));
    }

    /// Makes a container's cgroup, where Docker makes them without systemd.
    pub(crate) fn make_container(&mut self, id: &str, quota_ms: u32) -> CgroupPath {
        let docker = CgroupPath::new(b"docker").unwrap();
        // Somebody's real containers may be in there.
        if let Ok(group) = Created::create(&self.layout, &docker) {
            self.made.push(Made { sleeper: None, group });
        }
        let path = docker.join(id.as_bytes()).unwrap();
        let group = Created::create(&self.layout, &path).unwrap();
        self.made.push(Made { sleeper: None, group });
        self.set_quota(&path, quota_ms);
        self.fill(&path);
        path
    }

    /// Removes a workload.
    pub(crate) fn unmake(&mut self, path: &CgroupPath) {
        let place = self.made.iter().position(|made| made.group.path() == path).unwrap();
        let Made { sleeper, group } = self.made.remove(place);
        drop(sleeper);
        group.remove().unwrap();
    }

    /// Burns CPU with so many threads in a workload.
    pub(crate) fn burn(&self, path: &CgroupPath, threads: u32) -> Vec<Burner> {
        let group = &self.made.iter().find(|made| made.group.path() == path).unwrap().group;
        let start = |_| {
            let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
            group.put(child.id()).unwrap();
            Burner(child)
        };
        (0..threads).map(start).collect()
    }

    pub(crate) fn set_quota(&self, path: &CgroupPath, quota_ms: u32) {
        let us = quota_ms * 1000;
        let (file, text) = match self.layout.version() {
            Version::V1 => ("cpu.cfs_quota_us", us.to_string()),
            Version::V2 => ("cpu.max", format!("{us} 100000")),
        };
        fs::write(path.under(self.layout.cpu_root()).join(file), text).unwrap();
    }

    /// The quota of a workload in microseconds, read without the crate under test.
    pub(crate) fn quota(&self, path: &CgroupPath) -> Option<u64> {
        let file = match self.layout.version() {
            Version::V1 => "cpu.cfs_quota_us",
            Version::V2 => "cpu.max",
        };
        let text = fs::read_to_string(path.under(self.layout.cpu_root()).join(file)).unwrap();
        text.split_whitespace().next().unwrap().parse().ok()
    }

    /// The weight of a workload as the kernel has it.
    pub(crate) fn weight(&self, path: &CgroupPath) -> u64 {
        let file = match self.layout.version() {
            Version::V1 => "cpu.shares",
            Version::V2 => "cpu.weight",
        };
        let text = fs::read_to_string(path.under(self.layout.cpu_root()).join(file)).unwrap();
        text.trim().parse().unwrap()
    }

    /// CPU time that a workload has used, in microseconds.
    pub(crate) fn used_us(&self, path: &CgroupPath) -> u64 {
        let group = Group::open(&self.layout, path).unwrap();
        group.sample(Moment::ORIGIN).unwrap().usage.as_us()
    }

    /// The uid of a workload.
    pub(crate) fn uid(path: &CgroupPath) -> String {
        path.to_string().trim_start_matches('/').to_owned()
    }

    /// The configuration's file: these workloads and no others, and what else is said.
    pub(crate) fn configure(&self, more: &str) -> PathBuf {
        self.configure_paths(more, &["*"])
    }

    /// The same with workloads that have these paths below the group of this test.
    pub(crate) fn configure_paths(&self, more: &str, paths: &[&str]) -> PathBuf {
        let file = self.folder.path().join("host.toml");
        let top = Self::uid(&self.top);
        let paths: Vec<String> = paths.iter().map(|path| format!("\"{top}/{path}\"")).collect();
        let text = format!(
            "{more}\n[adopt]\ndocker = \"none\"\npodman = \"none\"\nsystemd = \"none\"\n\
             walras = \"none\"\npaths = [{}]\n",
            paths.join(", ")
        );
        // As people do it who replace a file: whoever reads sees the old or the new one.
        let fresh = self.folder.path().join("fresh.toml");
        fs::write(&fresh, text).unwrap();
        fs::rename(&fresh, &file).unwrap();
        file
    }

    /// Runs `walras host` with folders of its own.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_walras"));
        let at = |name: &str| self.folder.path().join(name);
        let usual = [
            ("--listen", PathBuf::from("127.0.0.1:0")),
            ("--config", at("host.toml")),
            ("--state-dir", at("state")),
            ("--run-dir", at("run")),
        ];
        command.arg("host").args(arguments);
        for (flag, value) in usual.iter().filter(|(flag, _)| !arguments.contains(flag)) {
            command.arg(flag).arg(value);
        }
        command
    }

    /// Starts a daemon and waits until it is at work.
    pub(crate) fn start(&self, arguments: &[&str]) -> Daemon {
        static LOGS: AtomicU32 = AtomicU32::new(0);
        let number = LOGS.fetch_add(1, Ordering::Relaxed);
        let log = self.folder.path().join(format!("log-{number}"));
        let child = self
            .command(arguments)
            .args(["--log-format", "json", "--log-level", "debug"])
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut daemon = Daemon { child, log };
        wait_for("a running daemon", || {
            assert!(daemon.child.try_wait().unwrap().is_none(), "{}", daemon.log());
            daemon.address()
        });
        daemon
    }

    /// What `walras host` says when it does not start, and its exit code.
    pub(crate) fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let mut child = self.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        let code = child.wait().unwrap().code().unwrap();
        (code, told.trim_end().to_owned())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        while self.made.pop().is_some() {}
    }
}

// === impl Burner ===

impl Drop for Burner {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

// === impl Daemon ===

impl Daemon {
    /// Everything it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Where it serves, once it does.
    pub(crate) fn address(&self) -> Option<String> {
        let log = self.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut addresses = lines.filter_map(|line| Some(line["address"].as_str()?.to_owned()));
        addresses.next()
    }

    /// What it answers to a request.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address().unwrap()).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        let mut body = String::new();
        reader.read_to_string(&mut body).unwrap();
        body
    }

    /// The figures of the machine, once there are some.
    pub(crate) fn figures(&self) -> Option<Value> {
        let told: Value = serde_json::from_str(&self.get("/api/v1/telemetry")).ok()?;
        told["figures"].is_array().then_some(told)
    }

    /// One of them.
    pub(crate) fn figure(&self, name: &str) -> Option<Value> {
        let told = self.figures()?;
        told["figures"].as_array()?.iter().find(|figure| figure["name"] == name).cloned()
    }

    /// What it tells about itself.
    pub(crate) fn state(&self) -> Value {
        serde_json::from_str(&self.get("/api/v1/state")).unwrap()
    }

    /// What it tells about a workload, if it knows it.
    pub(crate) fn pod(&self, path: &CgroupPath) -> Option<Value> {
        let uid = Stage::uid(path);
        let state = self.state();
        state["pods"].as_array().unwrap().iter().find(|pod| pod["uid"] == *uid).cloned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it as systemd does.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        wait_for("the end of the daemon", || self.child.try_wait().unwrap())
    }

    /// Stops it, and says what it logged to the end.
    pub(crate) fn log_after_stop(mut self) -> String {
        self.signal("TERM");
        wait_for("the end of the daemon", || self.child.try_wait().unwrap());
        self.log()
    }

    /// Kills it at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
