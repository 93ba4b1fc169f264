//! Where the measuring takes place: control groups, and a daemon that knows no others.
//!
//! Everything goes with the value it belongs to; what a killed benchmark left is removed by the
//! next one.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use walras_cgroup::{CgroupPath, Created, Layout, Version, remove_left_behind};

use crate::Outcome;

/// Nothing that is waited for takes this long.
const DEADLINE: Duration = Duration::from_secs(60);
const PREFIX: &str = "walras-host-bench-";

/// Control groups in one of their own.
pub(crate) struct Ground {
    pub(crate) layout: Layout,
    top: CgroupPath,
    /// A process in each of them that sleeps: an empty group is no workload.
    sleepers: Vec<Sleeper>,
    /// The group they are in, and then those.
    made: Vec<Created>,
    /// The group that the daemon is in.
    own: Created,
}

/// A process that sleeps until this value goes.
struct Sleeper(Child);

/// A daemon, with folders of its own.
pub(crate) struct Daemon {
    child: Child,
    folder: tempfile::TempDir,
}

/// What a daemon has used up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) cpu: Duration,
    pub(crate) at: Instant,
}

/// Waits until `found` finds something.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Outcome<Option<T>>) -> Outcome<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = found()? {
            return Ok(value);
        }
        if start.elapsed() > DEADLINE {
            return Err(format!("{what} did not come about").into());
        }
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// Lets time pass.
pub(crate) fn pass(span: Duration) {
    let start = Instant::now();
    while let Some(rest) = span.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) {
        thread::park_timeout(rest);
    }
}

/// The CPU time of a thread as the kernel counts it, from its `schedstat`.
pub(crate) fn cpu_time(schedstat: &str) -> Outcome<Duration> {
    let ns = schedstat.split(' ').next().ok_or("schedstat is empty")?;
    Ok(Duration::from_nanos(ns.parse()?))
}

// === impl Sleeper ===

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

// === impl Ground ===

impl Ground {
    /// So many groups without a quota, or with one of a period of 100 ms.
    pub(crate) fn new(count: usize, quota_ms: Option<u32>) -> Outcome<Self> {
        let layout = Layout::of_this_machine()?;
        remove_left_behind(&layout, &CgroupPath::ROOT, PREFIX.as_bytes())?;
        let name = format!("{PREFIX}{}", std::process::id());
        let top = CgroupPath::ROOT.join(name.as_bytes()).ok_or("a name")?;
        let mut made = vec![Created::create(&layout, &top)?];
        let mut sleepers = Vec::new();
        for number in 0..count {
            let path = top.join(format!("pod-{number:03}").as_bytes()).ok_or("a name")?;
            let group = Created::create(&layout, &path)?;
            let sleeper = Sleeper(Command::new("sleep").arg("infinity").spawn()?);
            group.put(sleeper.0.id())?;
            sleepers.push(sleeper);
            made.push(group);
        }
        let own = CgroupPath::ROOT.join(format!("{name}-daemon").as_bytes()).ok_or("a name")?;
        let own = Created::create(&layout, &own)?;
        let ground = Self { layout, top, sleepers, made, own };
        ground.take_precedence()?;
        if let Some(quota) = quota_ms {
            let us = quota * 1000;
            let text = match ground.layout.version() {
                Version::V1 => us.to_string(),
                Version::V2 => format!("{us} 100000"),
            };
            for group in ground.groups() {
                fs::write(ground.quota_file(group), &text)?;
            }
        }
        Ok(ground)
    }

    /// Goes before what else runs on this machine, so that a busy one is as good as a quiet one.
    fn take_precedence(&self) -> Outcome<()> {
        let (file, most) = match self.layout.version() {
            Version::V1 => ("cpu.shares", "262144"),
            Version::V2 => ("cpu.weight", "10000"),
        };
        for group in [&self.made[0], &self.own] {
            fs::write(self.place(group).join(file), most)?;
        }
        Ok(())
    }

    /// The groups.
    pub(crate) fn groups(&self) -> &[Created] {
        &self.made[1..]
    }

    /// Where a group's counters and settings are.
    pub(crate) fn place(&self, group: &Created) -> PathBuf {
        group.path().under(self.layout.cpu_root())
    }

    /// The file with a group's quota; its first word is what counts.
    pub(crate) fn quota_file(&self, group: &Created) -> PathBuf {
        self.place(group).join(match self.layout.version() {
            Version::V1 => "cpu.cfs_quota_us",
            Version::V2 => "cpu.max",
        })
    }

    /// Starts a daemon that sizes these groups, with this `[market]` beside the defaults.
    pub(crate) fn start(&self, capacity_cores: usize, market: &str) -> Outcome<Daemon> {
        let folder = tempfile::tempdir()?;
        let top = self.top.to_string();
        let config = format!(
            "capacity = {capacity_cores}\n[market]\n{market}\n[adopt]\ndocker = \"none\"\n\
             podman = \"none\"\nsystemd = \"none\"\nwalras = \"none\"\npaths = [\"{}/*\"]\n",
            top.trim_start_matches('/')
        );
        let at = |name: &str| folder.path().join(name);
        fs::write(at("host.toml"), config)?;
        let child = Command::new(env!("CARGO_BIN_EXE_walras"))
            .args(["host", "--act", "--listen", "127.0.0.1:0", "--log-format", "json"])
            .arg("--config")
            .arg(at("host.toml"))
            .arg("--state-dir")
            .arg(at("state"))
            .arg("--run-dir")
            .arg(at("run"))
            .stderr(File::create(at("log"))?)
            .spawn()?;
        let mut daemon = Daemon { child, folder };
        self.own.put(daemon.child.id())?;
        wait_for("a daemon with all its pods", || {
            if daemon.child.try_wait()?.is_some() {
                return Err(format!("the daemon ended: {}", daemon.log()?).into());
            }
            let came = daemon.log()?.matches("a workload came").count();
            Ok((came == self.groups().len()).then_some(()))
        })?;
        Ok(daemon)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // A group can be removed only once nothing is in it.
        self.sleepers.clear();
        while self.made.pop().is_some() {}
    }
}

// === impl Daemon ===

impl Daemon {
    fn log(&self) -> Outcome<String> {
        Ok(fs::read_to_string(self.folder.path().join("log"))?)
    }

    /// One of its metrics; those of all pods are added up.
    pub(crate) fn metric(&self, name: &str) -> Outcome<f64> {
        let log = self.log()?;
        let address = log.split("\"address\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let mut stream = TcpStream::connect(address.ok_or("it tells its address")?)?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
            rest.rsplit(' ').next()?.parse::<f64>().ok()
        });
        let values: Vec<f64> = values.collect();
        if values.is_empty() {
            return Err(format!("there is no metric {name}").into());
        }
        Ok(values.iter().sum())
    }

    /// The CPU time of all its threads until now.
    pub(crate) fn used(&self) -> Outcome<Used> {
        let mut cpu = Duration::ZERO;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            cpu += cpu_time(&fs::read_to_string(task?.path().join("schedstat"))?)?;
        }
        Ok(Used { cpu, at: Instant::now() })
    }

    /// Its resident memory in MB: of its own, and all of it including what it maps from its file.
    pub(crate) fn resident_mb(&self) -> Outcome<(f64, f64)> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| -> Outcome<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib: u32 = line.and_then(|it| it.split_whitespace().next()).ok_or("kB")?.parse()?;
            Ok(f64::from(kib) * 1.024 / 1000.0)
        };
        Ok((field("RssAnon:")?, field("VmRSS:")?))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
