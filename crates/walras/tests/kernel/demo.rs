//! `walras demo` on the cgroups of this machine: that it helps, and that it leaves nothing.
//!
//! Nobody else plays meanwhile: a demonstration takes the whole machine, which would starve other
//! tests, and what is asserted is what the market does for workloads that have it to themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use walras_cgroup::Layout;

use crate::stage::{Stage, wait_for};

/// A demonstration that was started.
struct Demo {
    child: Child,
    folder: tempfile::TempDir,
}

impl Demo {
    fn start(seconds: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_walras"))
            .args(["demo", "--json", "--seconds", &seconds.to_string()])
            .current_dir(folder.path())
            .stdout(Stdio::from(fs::File::create(folder.path().join("out")).unwrap()))
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    /// Waits until all five work, and says who they are.
    fn playing(&self, layout: &Layout) -> Vec<PathBuf> {
        wait_for("five workloads in their cgroups", || {
            let group = group_of(layout, self.child.id())?;
            let names = ["steady", "web", "batch", "sleeper", "greedy"];
            let procs = names.map(|name| fs::read_to_string(group.join(name).join("cgroup.procs")));
            let pids = procs.into_iter().map(|text| text.ok()?.trim().parse::<u32>().ok());
            let pids: Option<Vec<u32>> = pids.collect();
            Some(pids?.iter().map(|pid| PathBuf::from(format!("/proc/{pid}"))).collect())
        })
    }

    fn ended(&mut self) -> Option<i32> {
        wait_for("the end", || self.child.try_wait().unwrap()).code()
    }

    fn result(mut self) -> Value {
        assert_eq!(self.ended(), Some(0));
        assert!(self.folder.path().join("walras-demo.html").is_file());
        let text = fs::read_to_string(self.folder.path().join("out")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The group of the demonstration with that process.
fn group_of(layout: &Layout, pid: u32) -> Option<PathBuf> {
    let prefix = format!("walras-demo-{pid}-");
    let mut entries = fs::read_dir(layout.cpu_root()).unwrap().flatten();
    let found = entries.find(|it| it.file_name().to_string_lossy().starts_with(&prefix));
    found.map(|entry| entry.path())
}

fn is_there(path: &PathBuf) -> bool {
    Path::new(path).exists()
}

#[test]
fn the_market_helps_and_nothing_is_left() {
    let Some((_alone, layout)) = Stage::alone() else { return };
    let demo = Demo::start(8);
    let (pid, players) = (demo.child.id(), demo.playing(&layout));
    let result = demo.result();
    assert_eq!(result["simulated"], false, "{result}");
    let figure = |phase: usize, name: &str| result["phases"][phase][name].as_f64().unwrap();
    let throttled = |phase| figure(phase, "web_throttled_period_ratio");
    assert!(throttled(0) > 0.4 && throttled(1) < throttled(0) / 2.0, "{result}");
    for latency in ["web_latency_p50_ms", "web_latency_p95_ms", "web_latency_p99_ms"] {
        assert!(figure(1, latency) < figure(0, latency), "{latency}: {result}");
    }
    assert!(result["phases"][1]["changes"].as_u64().unwrap() > 0, "{result}");
    assert_eq!(group_of(&layout, pid), None);
    assert!(!players.iter().any(is_there), "a workload is still there");
}

#[test]
fn whoever_interrupts_it_finds_nothing_left() {
    let Some((_alone, layout)) = Stage::alone() else { return };
    for signal in ["INT", "TERM"] {
        let mut demo = Demo::start(60);
        let (pid, players) = (demo.child.id(), demo.playing(&layout));
        let kill = Command::new("kill").args(["-s", signal, &pid.to_string()]).status();
        assert!(kill.unwrap().success());
        assert_eq!(demo.ended(), Some(130), "{signal}");
        assert_eq!(group_of(&layout, pid), None, "{signal}");
        assert!(!players.iter().any(is_there), "{signal}");
    }
}

#[test]
fn what_a_killed_one_left_is_removed_by_the_next_and_two_at_once_do_not_meet() {
    let Some((_alone, layout)) = Stage::alone() else { return };
    let mut killed = Demo::start(60);
    let (pid, players) = (killed.child.id(), killed.playing(&layout));
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    wait_for("the end of its workloads", || (!players.iter().any(is_there)).then_some(()));
    assert!(group_of(&layout, pid).is_some(), "nothing was left, so nothing can be removed");
    // They start at the same moment, so they meet if they can.
    let both = [Demo::start(2), Demo::start(2)];
    let pids = [both[0].child.id(), both[1].child.id()];
    for result in both.map(Demo::result) {
        assert_eq!(result["simulated"], false, "{result}");
    }
    for pid in [pid, pids[0], pids[1]] {
        assert_eq!(group_of(&layout, pid), None, "{pid}");
    }
}

#[test]
fn where_cgroups_cannot_be_written_it_says_so_and_simulates() {
    let Some((_alone, layout)) = Stage::alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = layout.cpu_root().display();
    let script = format!("mount -o remount,bind,ro {root} && exec \"$0\" \"$@\"");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_walras"), "demo"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.starts_with("Simulated, because "), "{told}");
    assert!(told.contains("mounted read-only") && told.lines().count() == 1, "{told}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Simulated, not measured.\n"), "{text}");
    assert!(folder.path().join("walras-demo.html").is_file());
}
