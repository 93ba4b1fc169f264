//! A running program with a `proc` of its own, which tests write.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The key of all tests.
pub(crate) const KEY: &str = "5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c";

/// A program, and the guest that it believes to be in.
pub(crate) struct World {
    child: Child,
    folder: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) metrics: SocketAddr,
}

impl World {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| write(folder.path(), name, text);
        file("key", &format!("{KEY}\n"));
        file("sys/devices/system/cpu/online", "0\n");
        file("sys/devices/system/cpu/present", "0\n");
        file("proc/stat", "cpu  1 2 3 400 50 6 7 8 0 0\n");
        file("proc/loadavg", "0.10 0.20 0.30 1/80 4711\n");
        file("proc/meminfo", &meminfo(950, 200));
        let mut child = Command::new(env!("CARGO_BIN_EXE_walras-informant"))
            .args(["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"])
            .arg("--key-file")
            .arg(folder.path().join("key"))
            .arg("--root")
            .arg(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("text");
        thread::spawn(move || lines.for_each(drop));
        let (_, rest) = line.split_once("answered on ").expect("where it listens");
        let (address, port) = rest.split_once(", metrics are on port ").expect("both");
        let port: u16 = port.parse().expect("a port");
        let metrics = SocketAddr::from(([127, 0, 0, 1], port));
        Self { child, folder, address: address.parse().expect("an address"), metrics }
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        write(self.folder.path(), name, text);
    }

    pub(crate) fn memory(&self, total_mib: u64, used_mib: u64) {
        self.write("proc/meminfo", &meminfo(total_mib, used_mib));
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// What the kernel says of the program's own memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the program runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// The CPU time it used, in ticks of 10 ms.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("the program runs");
        let (_, rest) = stat.rsplit_once(") ").expect("fields after the name");
        let fields: Vec<&str> = rest.split(' ').collect();
        fields[11].parse::<u64>().expect("ticks") + fields[12].parse::<u64>().expect("ticks")
    }

    /// Starts the program anew, on the same ports.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ended");
        let mut child = Command::new(env!("CARGO_BIN_EXE_walras-informant"))
            .arg(format!("--listen={}", self.address))
            .arg(format!("--metrics-listen={}", self.metrics))
            .arg("--key-file")
            .arg(self.folder.path().join("key"))
            .arg("--root")
            .arg(self.folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("text");
        assert!(line.contains("answered on"), "{line}");
        thread::spawn(move || lines.for_each(drop));
        self.child = child;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits for a condition, a generous time.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "waited for 60 s: {what}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// In the place of what was there at once, so that nobody reads half of it.
fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).expect("it can be written");
    fs::rename(&fresh, &path).expect("it can be renamed");
}

fn meminfo(total_mib: u64, used_mib: u64) -> String {
    let (total, available) = (total_mib << 10, (total_mib - used_mib) << 10);
    format!("MemTotal: {total} kB\nMemFree: 1000 kB\nMemAvailable: {available} kB\n")
}
