//! Virtual machines through the API: with QEMU directly and through a libvirt of one's own, in both
//! cases without hardware support. The guest is that of the tier `vm`: it serves a page, counts on
//! its disk how often it was booted, and says so on its console.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::engine::{Docker, tool};
use crate::host::{Host, until};

const SECRET: &str = "a key that rests nowhere at all";

/// These hosts run no containers.
struct NoDocker;

impl Docker for NoDocker {
    fn socket(&self) -> PathBuf {
        PathBuf::from("/nowhere/docker.sock")
    }
}

/// A machine with a disk and a port, for a document.
struct Machine {
    id: String,
    port: u16,
    disk: PathBuf,
    hypervisor: &'static str,
}

impl Machine {
    fn new(name: &str, folder: &TempDir, hypervisor: &'static str) -> Self {
        // Other tests of this machine may have one of the same name.
        let id = format!("{name}{}", std::process::id());
        let disk = folder.path().join(format!("{name}.qcow2"));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { id, port, disk, hypervisor }
    }

    fn document(&self, desired: &str) -> String {
        let (kernel, initrd) = (tool("guest", "vmlinuz"), tool("guest", "machine.cpio"));
        format!(
            "id: {}\nrevision_id: \"1\"\ndesired_state: {desired}\nspec:\n  \
             secrets: {{KEY: {SECRET}}}\n  vm:\n    hypervisor: {}\n    vcpus: 1\n    \
             memory_mb: 256\n    accel: tcg\n    kernel: {}\n    initrd: {}\n    \
             kernel_args: console=ttyS0 quiet panic=-1 no_timer_check walras.disk\n    \
             disks: [{{path: {}, size_gb: 1}}]\n    cloud_init: \"key: ${{secret:KEY}}\"\n    \
             ports: [{{host_port: {}, guest_port: 80}}]\n",
            self.id,
            self.hypervisor,
            kernel.display(),
            initrd.display(),
            self.disk.display(),
            self.port
        )
    }

    fn serves(&self) -> bool {
        let page = ureq::get(format!("http://127.0.0.1:{}/index.html", self.port)).call();
        let text = page.ok().and_then(|mut page| page.body_mut().read_to_string().ok());
        text.is_some_and(|text| text.contains("served by a guest"))
    }

    /// How often its guest said something on its console.
    fn says(&self, host: &Host, words: &str) -> usize {
        let told = host.walras(&["logs", &self.id, "--tail", "100000"]);
        told.lines().filter(|line| line.trim() == words).count()
    }

    /// The process that is the machine.
    fn pid(&self) -> Option<u32> {
        let name = format!("guest={},", self.id);
        let all = fs::read_dir("/proc").unwrap().flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut found = numbers.filter(|pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&name)
        });
        found.next()
    }
}

#[test]
fn a_machine_serves_outlives_the_daemon_and_goes_back_to_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new("db", &folder, "qemu");
    let id = &*machine.id;
    let mut host = Host::start(&NoDocker, &[]);
    host.apply(&machine.document("running"), &["--wait"]);
    until("its guest serves", || machine.serves());
    assert_eq!(machine.says(&host, "guest> disk 0"), 1);
    let pid = machine.pid();
    // The host's market has it, by the group of its process.
    let uid = format!("walras/vm-{id}");
    until("the market has it", || host.state().contains(&uid));
    // It outlives the daemon, and the next one finds it.
    host.restart(&NoDocker, &[]);
    host.becomes(id, "RUNNING");
    assert!(machine.serves() && machine.pid() == pid);
    host.greps_nothing(SECRET);
    // Taken while it runs; the same name again is refused.
    until("it is kept", || host.ends_with(&["snapshot", id, "--take", "one"]).0 == Some(0));
    assert_eq!(host.ends_with(&["snapshot", id, "--take", "one"]).0, Some(2));
    let told: Value = serde_json::from_str(&host.walras(&["snapshot", id, "--json"])).unwrap();
    assert_eq!(told[0]["name"], "one", "{told}");
    // A machine that runs does not go back.
    assert_eq!(host.ends_with(&["snapshot", id, "--revert", "one"]).0, Some(2));
    host.apply(&machine.document("stopped"), &["--wait"]);
    assert_eq!(machine.pid(), None);
    host.apply(&machine.document("running"), &["--wait"]);
    until("it booted once more", || machine.says(&host, "guest> disk 1") == 1);
    host.apply(&machine.document("stopped"), &["--wait"]);
    until("it went back", || host.ends_with(&["snapshot", id, "--revert", "one"]).0 == Some(0));
    host.apply(&machine.document("running"), &["--wait"]);
    until("its disk is what it was", || machine.says(&host, "guest> disk 1") == 2);
    assert_eq!(machine.says(&host, "guest> disk 2"), 0);
    until("it is forgotten", || host.ends_with(&["snapshot", id, "--drop", "one"]).0 == Some(0));
    assert_eq!(host.walras(&["snapshot", id]).trim(), "There are no snapshots.");
    // One that is killed is started again.
    let before = machine.pid().unwrap();
    kill(before);
    until("another process", || machine.pid().is_some_and(|pid| pid != before));
    until("its guest serves again", || machine.serves());
    host.walras(&["delete", id, "--wait"]);
    assert_eq!(machine.pid(), None);
    assert!(machine.disk.exists(), "disks stay");
    host.greps_nothing(SECRET);
}

#[test]
fn a_machine_of_libvirt_runs_on_when_libvirt_dies_and_those_of_others_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut libvirt = Libvirt::start();
    let uri = libvirt.uri();
    let machine = Machine::new("lv", &folder, "libvirt");
    let id = &*machine.id;
    let host = Host::start(&NoDocker, &["--run-libvirt", &uri]);
    host.apply(&machine.document("running"), &["--wait"]);
    until("its guest serves", || machine.serves());
    let pid = machine.pid();
    // libvirt dies: the machine runs on, and nobody knows; then it is found as it is.
    libvirt.kill();
    host.becomes(id, "UNKNOWN");
    assert!(machine.serves() && machine.pid() == pid);
    let health = host.walras_may_fail(&["health"]);
    assert!(health.contains("not well") && health.contains("libvirt: "), "{health}");
    libvirt.start_again();
    host.becomes(id, "RUNNING");
    assert!(machine.serves() && machine.pid() == pid, "it was not touched");
    // Somebody ends it: it is started again.
    libvirt.virsh(&["destroy", id]);
    until("another process", || machine.pid().is_some_and(|it| Some(it) != pid));
    host.becomes(id, "RUNNING");
    // Only a guest that has booted hears that it is to switch itself off.
    until("its guest serves again", || machine.serves());
    // A machine that somebody else made is never touched, whatever is asked for under its name.
    let theirs = format!("theirs{}", std::process::id());
    libvirt.define(&theirs);
    let uuid = libvirt.virsh(&["domuuid", &theirs]);
    let other = Machine { id: theirs.clone(), ..Machine::new("theirs", &folder, "libvirt") };
    host.apply(&other.document("running"), &[]);
    until("it is refused", || host.status(&theirs).contains("left alone"));
    host.walras(&["delete", &theirs, "--wait"]);
    assert_eq!(libvirt.virsh(&["domuuid", &theirs]), uuid);
    assert_eq!(libvirt.virsh(&["domstate", &theirs]), "running");
    libvirt.virsh(&["destroy", &theirs]);
    libvirt.virsh(&["undefine", &theirs]);
    // Stopped by its guest, and removed; its disk stays.
    host.apply(&machine.document("stopped"), &["--wait"]);
    assert_eq!(machine.says(&host, "guest> switching off"), 1);
    assert_eq!(machine.pid(), None);
    host.walras(&["delete", id, "--wait"]);
    assert_eq!(libvirt.virsh(&["list", "--all", "--name"]), "");
    assert!(machine.disk.exists(), "disks stay");
    host.greps_nothing(SECRET);
    libvirt.greps_nothing(SECRET);
}

/// A libvirt with files of its own. It is gone with this value.
struct Libvirt {
    dir: TempDir,
    /// What keeps its view of the machine's folders.
    anchor: Child,
    daemon: Option<Child>,
}

/// Where libvirt insists on having its files.
const FOLDERS: [&str; 5] =
    ["/etc/libvirt", "/var/lib/libvirt", "/run/libvirt", "/var/cache/libvirt", "/var/log/libvirt"];

impl Libvirt {
    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("walras-libvirt-").tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        // Whoever restarts libvirt finds the same files; nobody else on this machine sees them.
        let mut script = String::from("set -e\n");
        for (number, folder) in FOLDERS.iter().enumerate() {
            let own = path(&number.to_string());
            fs::create_dir(&own).unwrap();
            script += &format!("mkdir -p {folder}; mount --bind {} {folder}\n", own.display());
        }
        for (file, line) in [
            ("passwd", "libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin\n"),
            ("group", "libvirt-qemu:x:64055:\nkvm:x:64056:\n"),
        ] {
            let text = fs::read_to_string(format!("/etc/{file}")).unwrap();
            fs::write(path(file), text + line).unwrap();
            script += &format!("mount --bind {} /etc/{file}\n", path(file).display());
        }
        script += &format!("touch {}; exec sleep infinity\n", path("ready").display());
        let plain = "user = \"root\"\ngroup = \"root\"\nsecurity_driver = \"none\"\n\
                     remember_owner = 0\nnamespaces = []\nstdio_handler = \"file\"\n";
        fs::write(path("0/qemu.conf"), plain).unwrap();
        let socket = format!("unix_sock_dir = \"{}\"\n", dir.path().display());
        fs::write(path("conf"), socket + "auth_unix_rw = \"none\"\n").unwrap();
        let anchor = Command::new("unshare").args(["--mount", "sh", "-c", &script]).spawn();
        let mut libvirt = Self { dir, anchor: anchor.unwrap(), daemon: None };
        until("its folders are there", || libvirt.path("ready").exists());
        libvirt.start_again();
        libvirt
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn uri(&self) -> String {
        format!("qemu:///system?socket={}", self.path("libvirt-sock").display())
    }

    fn start_again(&mut self) {
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let daemon = Command::new("nsenter")
            .args(["--mount", "--target", &self.anchor.id().to_string(), "libvirtd", "--config"])
            .arg(self.path("conf"))
            .arg("--pid-file")
            .arg(self.path("pid"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemon = Some(daemon);
        until("libvirt answers", || self.command(&["list"]).output().unwrap().status.success());
    }

    /// Kills it, and not its machines.
    fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    fn virsh(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "virsh {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A machine that somebody else made, and started.
    fn define(&self, name: &str) {
        let file = self.path("theirs.xml");
        let xml = format!(
            "<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory>\
             <vcpu>1</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"
        );
        fs::write(&file, xml).unwrap();
        self.virsh(&["define", &file.display().to_string()]);
        self.virsh(&["start", name]);
    }

    /// Looks for a text in everything that it keeps.
    fn greps_nothing(&self, text: &str) {
        let found = Command::new("grep")
            .args(["--recursive", "--files-with-matches", "--fixed-strings", "--text", "-e", text])
            .arg("--devices=skip")
            .arg(self.dir.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "it is on the disk");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("virsh");
        command.args(["--connect", &self.uri(), "--quiet"]).args(args).stdin(Stdio::null());
        command
    }
}

impl Drop for Libvirt {
    fn drop(&mut self) {
        // A test that failed may have left machines.
        let left = self.command(&["list", "--name"]).output().unwrap().stdout;
        for name in String::from_utf8_lossy(&left).lines().filter(|name| !name.is_empty()) {
            self.command(&["destroy", name]).output().unwrap();
        }
        if let Some(mut daemon) = self.daemon.take() {
            Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().unwrap();
            daemon.wait().unwrap();
        }
        self.anchor.kill().ok();
        self.anchor.wait().ok();
    }
}

fn kill(pid: u32) {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success() && Path::new("/proc").exists());
}
