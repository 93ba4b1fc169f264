//! Clusters come, stay, share the machine and go without a trace, however their users end.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use walras_testbed::{Image, Part, Settings, Spec, State, Testbed, end_stale, wait_for};

use crate::{PATIENCE, left};

/// `cargo xtask testbed` with `args`.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_walras-testbed"));
    command.args(args);
    command
}

fn succeed(args: &[&str]) -> String {
    let output = command(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ends the testbed of this name, also if the test fails.
struct Ends(String);

impl Drop for Ends {
    fn drop(&mut self) {
        walras_testbed::end(&Settings::read().unwrap().testbeds().join(&self.0)).unwrap();
    }
}

fn pids_of(dir: &Path) -> Vec<u32> {
    let found = left::processes(dir);
    found.iter().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn up_twice_does_nothing_the_second_time_and_down_leaves_nothing() {
    let name = format!("twice-{}", std::process::id());
    let _ends = Ends(name.clone());
    let up = ["up", "--control-plane-only", "--name", &name];
    let first = succeed(&up);
    let line = first.lines().last().unwrap();
    let kubeconfig = PathBuf::from(line.strip_prefix("kubeconfig: ").unwrap());
    assert!(kubeconfig.is_file());
    let dir = kubeconfig.parent().unwrap();
    let state = State::load(dir).unwrap();
    let before = left::processes(dir);
    assert_eq!(before.len(), 5, "{before:?}");
    assert_eq!(succeed(&up).lines().last(), Some(line));
    assert_eq!(left::processes(dir), before, "the second call started and ended nothing");
    assert!(succeed(&["status"]).contains(&format!("{name}: up (a control plane only)")));

    let other = command(&["up", "--control-plane-only", "--nodes=2", "--name", &name]).output();
    let other = stderr(&other.unwrap());
    let expected = "is up with a control plane only, not with a control plane and 2 KWOK nodes";
    assert!(other.contains(expected), "{other}");

    assert_eq!(succeed(&["down", "--name", &name]), format!("{name} is down\n"));
    assert_eq!(left::of(&state), Vec::<String>::new());
    let again = command(&["down", "--name", &name]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(stderr(&again), format!("error: there is no testbed named {name}\n"));
}

#[test]
fn two_clusters_with_real_nodes_do_not_meet_and_leave_nothing() {
    let one = Testbed::fresh(Spec::new(1, false)).unwrap();
    let two = Testbed::fresh(Spec::new(1, false)).unwrap();
    let (first, second) = (one.state().clone(), two.state().clone());
    assert_ne!(first.address(), second.address());
    let mut namespaces = Vec::new();
    for testbed in [&one, &two] {
        let namespace = testbed.namespace("side").unwrap();
        namespace.run("load", Image::Loadgen, &["0.0.0.0:8080"], "50m").unwrap();
        let pod = namespace.pod_in("load", "Running").unwrap();
        let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap();
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        testbed.cpu_max(uid, id).expect("the container is in its own testbed's cgroup");
        let other = if testbed.state() == &first { &two } else { &one };
        assert!(other.cpu_max(uid, id).is_err(), "and not in the other's");
        let groups = walras_testbed::groups(&testbed.state().cgroup());
        let procs = groups.iter().map(|group| fs::read_to_string(group.join("cgroup.procs")));
        let procs: String = procs.map(Result::unwrap_or_default).collect();
        let mut pids: Vec<u32> = procs.lines().map(|line| line.parse().unwrap()).collect();
        pids.extend(pids_of(testbed.dir()));
        let ours = left::namespaces_of(&[std::process::id()]);
        let theirs = left::namespaces_of(&pids).into_iter().filter(|one| !ours.contains(one));
        namespaces.extend(theirs);
    }
    assert!(!namespaces.is_empty());
    one.down().unwrap();
    assert_eq!(left::of(&first), Vec::<String>::new());
    assert!(two.runs(Part::Kubelet), "the other goes on");
    two.kubectl().unwrap().run(&["get", "nodes"]).unwrap();
    drop(two);
    assert_eq!(left::of(&second), Vec::<String>::new());
    wait_for("the end of all namespaces", PATIENCE, || {
        Ok(left::still_used(&namespaces).is_empty().then_some(()))
    })
    .unwrap();
}

/// Starts a process that holds a control plane, and returns it with the control plane's state.
fn holder() -> (std::process::Child, State) {
    let mut child = command(&["hold"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, State::load(Path::new(line.trim())).unwrap())
}

#[test]
fn a_cluster_ends_when_its_user_is_killed() {
    let (mut child, state) = holder();
    assert!(!left::of(&state).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the end of the testbed", PATIENCE, || Ok(left::of(&state).is_empty().then_some(())))
        .unwrap();
}

#[test]
fn a_start_that_is_interrupted_leaves_nothing() {
    let name = format!("broken-{}", std::process::id());
    let _ends = Ends(name.clone());
    let dir = Settings::read().unwrap().testbeds().join(&name);
    let mut up = command(&["up", "--control-plane-only", "--name", &name]);
    let mut child = up.stdout(Stdio::null()).spawn().unwrap();
    let state = wait_for("the first component", PATIENCE, || {
        let started = left::processes(&dir).iter().any(|process| process.ends_with(" etcd"));
        Ok(started.then(|| State::load(&dir).unwrap()))
    })
    .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the end of the testbed", PATIENCE, || Ok(left::of(&state).is_empty().then_some(())))
        .unwrap();
}

#[test]
fn a_cluster_whose_user_and_keeper_were_killed_is_found_and_ended() {
    let (mut child, state) = holder();
    let keeper = left::processes(&state.dir).into_iter().find(|p| p.contains("walras-testbed"));
    let keeper = keeper.expect("somebody keeps the testbed");
    let keeper = keeper.split(' ').nth(1).unwrap();
    assert!(Command::new("kill").args(["-9", keeper]).status().unwrap().success());
    child.kill().unwrap();
    child.wait().unwrap();
    // The next test that starts a cluster may be faster than we are.
    let settings = Settings::read().unwrap();
    end_stale(&settings).unwrap();
    wait_for("the end of the testbed", PATIENCE, || Ok(left::of(&state).is_empty().then_some(())))
        .unwrap();
}

#[test]
fn wrong_usage_is_refused_before_anything_is_started() {
    for args in [
        &["up", "--nodes", "0"][..],
        &["up", "--nodes", "-1"],
        &["up", "--nodes", "20001"],
        &["up", "--nodes", "many"],
        &["up", "--sideways"],
        &["down", "--all", "--name", "x"],
        &["sideways"],
        &[],
    ] {
        let output = command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    }
    let output = command(&["up", "--name", "../x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("`../x` cannot be the name of a testbed"));
}

#[test]
fn what_a_folder_of_ready_programs_lacks_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let mut up = command(&["up", "--control-plane-only", "--name", "never"]);
    let output = up.env("WALRAS_KUBE_ASSETS", empty.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("which lacks etcd, kube-apiserver, kube-controller-manager"), "{said}");
}
