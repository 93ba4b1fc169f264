//! A Docker of one's own: its own data, socket and processes, no network, and one image.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::host::until;

/// Where a host finds its Docker.
pub(crate) trait Docker {
    fn socket(&self) -> PathBuf;
}

/// A Docker that is gone with this value.
pub(crate) struct Engine {
    dir: TempDir,
    programs: PathBuf,
    daemon: Option<Child>,
}

impl Engine {
    pub(crate) fn start() -> Self {
        let programs = programs();
        let dir = tempfile::Builder::new().prefix("walras-docker-").tempdir().unwrap();
        let mut engine = Self { dir, programs, daemon: None };
        engine.start_again();
        engine.import();
        engine
    }

    /// What a host's configuration says so that its market finds these containers.
    pub(crate) fn adoption(&self) -> String {
        let (socket, root) = (self.socket(), self.dir.path().join("data"));
        format!("[adopt]\ndocker_socket = {socket:?}\ndocker_root = {root:?}\n")
    }

    /// Starts the daemon, with what an earlier one left.
    pub(crate) fn start_again(&mut self) {
        let path = |name: &str| self.dir.path().join(name).display().to_string();
        let log = File::options().create(true).append(true).open(path("log")).unwrap();
        // Left by a daemon that was killed. Where nobody buries the dead, it would take its dead
        // containerd for a living one.
        fs::remove_file(path("pid")).ok();
        fs::remove_file(path("exec/containerd/containerd.pid")).ok();
        let daemon = Command::new(self.programs.join("usr/sbin/dockerd"))
            .args(["--host", &format!("unix://{}", self.socket().display())])
            .args(["--data-root", &path("data"), "--exec-root", &path("exec")])
            .args(["--pidfile", &path("pid"), "--iptables=false", "--ip6tables=false"])
            .args(["--bridge=none", "--userland-proxy=false"])
            .env("PATH", self.search_path())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemon = Some(daemon);
        until("Docker answers", || self.command(&["version"]).output().unwrap().status.success());
    }

    /// Kills the daemon, and not its containers.
    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// What the client of Docker prints.
    pub(crate) fn docker(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "docker {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The names of all containers, one a line.
    pub(crate) fn containers(&self) -> String {
        self.docker(&["ps", "--all", "--format", "{{.Names}}"])
    }

    /// Looks for a text in everything that Docker keeps on the disk.
    pub(crate) fn greps_nothing(&self, text: &str) {
        let found = Command::new("grep")
            .args(["--recursive", "--files-with-matches", "--fixed-strings", "--text", "-e", text])
            .arg("--devices=skip")
            .arg(self.dir.path().join("data"))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "it is on the disk");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join("usr/bin/docker"));
        command.env("DOCKER_HOST", format!("unix://{}", self.socket().display())).args(args);
        command.stdin(Stdio::null());
        command
    }

    fn search_path(&self) -> String {
        let bins = ["usr/sbin", "usr/bin"].map(|bin| self.programs.join(bin).display().to_string());
        format!("{}:{}:/usr/sbin:/usr/bin:/sbin:/bin", bins[0], bins[1])
    }

    /// Makes an image of a static busybox.
    fn import(&self) {
        let root = self.dir.path().join("image");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::copy(self.programs.join("bin/busybox"), root.join("bin/busybox")).unwrap();
        for name in ["sh", "sleep", "cat", "echo", "touch", "true", "false"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
        }
        let archive = self.dir.path().join("image.tar");
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(&archive).arg("-C").arg(&root).arg(".");
        assert!(tar.status().unwrap().success());
        self.docker(&["import", &archive.display().to_string(), "walras-test:1"]);
    }
}

impl Docker for Engine {
    fn socket(&self) -> PathBuf {
        self.dir.path().join("docker.sock")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.daemon.is_none() {
            self.start_again();
        }
        let all = self.containers();
        let names: Vec<&str> = all.lines().collect();
        if !names.is_empty() {
            self.docker(&[&["rm", "--force"][..], &names[..]].concat());
        }
        let Some(mut daemon) = self.daemon.take() else { return };
        // Kindly, so that it ends what it started.
        let pid = daemon.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        daemon.wait().unwrap();
        unmount_below(self.dir.path());
    }
}

/// A daemon that was killed left mounts; the folder cannot be removed before they are.
fn unmount_below(folder: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let folder = folder.display().to_string();
    for line in mounts.lines().rev() {
        let place = line.split(' ').nth(1).unwrap_or_default();
        if place.starts_with(&folder) {
            Command::new("umount").arg(place).status().unwrap();
        }
    }
}

/// A program that `cargo xtask docker` built or unpacked.
pub(crate) fn tool(folder: &str, name: &str) -> PathBuf {
    let tool = cache().join(folder).join(name);
    assert!(tool.is_file(), "{} is missing; run `cargo xtask docker`", tool.display());
    tool
}

/// What `cargo xtask docker` unpacked.
fn programs() -> PathBuf {
    let programs = cache().join("docker");
    let there = programs.join("usr/sbin/dockerd").is_file();
    assert!(there, "{} has no Docker; run `cargo xtask docker`", programs.display());
    programs
}

#[expect(clippy::disallowed_methods, reason = "a test is told by xtask where its programs are")]
fn cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = folder("WALRAS_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|base| base.join("walras")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/walras")));
    cache.expect("HOME is set")
}
