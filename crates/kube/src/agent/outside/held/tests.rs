//! A pod on plain files that look like control groups.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use walras_cgroup::Version;
use walras_core::node::Why;
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::PodUid;

use super::*;
use crate::agent::params::{Rules, judge};
use crate::pod::Mode;

const DEADLINE: Span = Span::from_s(15);
const UID: &str = "0f6c1c1e-3a53-4f0e-9b2e-1d2f3a4b5c6d";

struct Stage {
    root: TempDir,
    layout: Layout,
    held: Held,
}

/// A running pod with two containers of 300m and 100m.
fn pod(ids: [&str; 2]) -> Arc<Pod> {
    let text = format!(
        r#"{{"metadata": {{"name": "web", "namespace": "shop", "uid": "{UID}"}},
        "spec": {{"containers": [
          {{"name": "app",
            "resources": {{"requests": {{"cpu": "50m"}}, "limits": {{"cpu": "300m"}}}}}},
          {{"name": "log",
            "resources": {{"requests": {{"cpu": "50m"}}, "limits": {{"cpu": "100m"}}}}}}]}},
        "status": {{"phase": "Running", "qosClass": "Burstable", "containerStatuses": [
          {{"name": "app", "containerID": "containerd://{}"}},
          {{"name": "log", "containerID": "containerd://{}"}}]}}}}"#,
        ids[0], ids[1]
    );
    Arc::new(serde_json::from_str(&text).unwrap())
}

fn params(pod: &Pod) -> Params {
    let rules = Rules {
        baseline: Millicores::new(100),
        node: Millicores::new(4000),
        guaranteed: false,
        respect_limits: false,
        excluded: Vec::new(),
        mode: Mode::LimitsOnly,
        target_latency_ms: None,
    };
    judge(pod, None, &rules).unwrap()
}

fn make(root: &Path, path: &str, quota: u64) {
    let folder = root.join(path);
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("cgroup.procs", String::new()),
        ("cpu.stat", "usage_usec 70\nnr_periods 9\nnr_throttled 3\nthrottled_usec 40\n".to_owned()),
        ("cpu.max", format!("{quota} 100000\n")),
        ("cpu.max.burst", "0\n".to_owned()),
        ("cpu.weight", "10\n".to_owned()),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

fn stage(actuation: Actuation) -> Stage {
    let root = tempfile::tempdir().unwrap();
    make(root.path(), "pod", 40_000);
    make(root.path(), "pod/a1", 30_000);
    make(root.path(), "pod/b1", 10_000);
    let layout = Layout::at(Version::V2, root.path().to_owned(), root.path().to_owned());
    let pod = pod(["a1", "b1"]);
    let path = CgroupPath::new(b"pod").unwrap();
    let held = Held::open(&layout, &path, &pod, params(&pod), actuation).unwrap();
    assert_eq!(held.limit, Millicores::new(400));
    Stage { root, layout, held }
}

impl Stage {
    fn set(&self, quota: u64) {
        fs::write(self.root.path().join("pod/cpu.max"), format!("{quota} 100000\n")).unwrap();
    }

    fn get(&self, file: &str) -> String {
        fs::read_to_string(self.root.path().join(file)).unwrap().trim().to_owned()
    }

    fn ask(&mut self, limit: u64, at_s: u64) -> Carried {
        self.held.asked(Millicores::new(limit), true, Moment::from_ms(at_s * 1000))
    }

    fn see(&mut self, at_s: u64) -> Seen {
        self.held.compare(Moment::from_ms(at_s * 1000), DEADLINE)
    }

    fn write(&mut self, limit: u64, burst: u64) -> Carried {
        let action = Action {
            uid: PodUid::new(UID),
            limit: Millicores::new(limit),
            request: Millicores::new(100),
            weight: KernelWeight::from_request(Millicores::new(100)),
            burst: Millicores::new(burst),
            why: Why::LatencyMissed,
        };
        self.held.write(&self.layout, &action)
    }
}

#[test]
fn what_was_asked_for_takes_effect_when_the_group_has_it() {
    let mut stage = stage(Actuation::Api);
    assert_eq!(stage.ask(800, 0), Carried::Asked);
    assert_eq!(stage.see(1), Seen::Nothing);
    stage.set(80_500);
    assert_eq!(stage.see(2), Seen::Took, "805m is close enough to 800m");
    assert!(!stage.held.is_waiting());
    assert_eq!(stage.see(3), Seen::Nothing);
}

#[test]
fn what_does_not_come_is_given_up_once_and_may_still_come() {
    let mut stage = stage(Actuation::Api);
    stage.ask(800, 0);
    assert_eq!(stage.see(14), Seen::Nothing);
    assert_eq!(stage.see(15), Seen::Other(Millicores::new(400)));
    assert_eq!(stage.see(16), Seen::Nothing, "it was told once");
    stage.set(80_000);
    assert_eq!(stage.see(17), Seen::Other(Millicores::new(800)), "nobody expects it any more");
}

#[test]
fn another_limit_than_was_asked_for_is_what_is_in_force() {
    let mut stage = stage(Actuation::Api);
    stage.ask(800, 0);
    stage.set(60_000);
    assert_eq!(stage.see(1), Seen::Other(Millicores::new(600)));
    stage.set(20_000);
    assert_eq!(stage.see(2), Seen::Other(Millicores::new(200)));
    stage.held.wish = None;
    stage.set(30_000);
    assert_eq!(stage.see(3), Seen::Other(Millicores::new(300)), "also if nothing was asked for");
}

#[test]
fn what_is_in_force_already_is_done() {
    let mut stage = stage(Actuation::Api);
    assert_eq!(stage.ask(405, 0), Carried::Done);
    assert!(!stage.held.is_waiting());
}

#[test]
fn containers_keep_their_part_and_get_a_burst_buffer() {
    let mut stage = stage(Actuation::Direct);
    assert!(stage.held.can_be_written());
    assert_eq!(stage.write(800, 800), Carried::Done);
    assert_eq!(stage.get("pod/cpu.max"), "80000 100000");
    assert_eq!(stage.get("pod/a1/cpu.max"), "60000 100000");
    assert_eq!(stage.get("pod/b1/cpu.max"), "20000 100000");
    assert_eq!(stage.get("pod/a1/cpu.max.burst"), "60000");
    assert_eq!(stage.get("pod/cpu.weight"), "10", "weights are the kubelet's");
    assert_eq!(stage.write(400, 0), Carried::Done);
    assert_eq!(stage.get("pod/a1/cpu.max.burst"), "0");
    assert_eq!(stage.get("pod/a1/cpu.max"), "30000 100000");
}

#[test]
fn what_the_kubelet_sets_counts_and_a_restarted_container_holds_its_pod_back() {
    let mut stage = stage(Actuation::Direct);
    stage.write(800, 800);
    assert_eq!(stage.see(1), Seen::Nothing);
    stage.set(50_000);
    assert_eq!(stage.see(2), Seen::Other(Millicores::new(500)));
    stage.write(800, 800);
    // The container comes back in a new group with what the API server has for it.
    make(stage.root.path(), "pod/a2", 30_000);
    fs::remove_dir_all(stage.root.path().join("pod/a1")).unwrap();
    let again = pod(["a2", "b1"]);
    let params = params(&again);
    assert!(!stage.held.is_of(&again, &params));
    stage.held.follow(&stage.layout, &again, params, Actuation::Direct);
    assert_eq!(stage.see(3), Seen::Other(Millicores::new(500)), "300m and 200m");
    stage.write(800, 800);
    assert_eq!(stage.get("pod/a2/cpu.max"), "60000 100000");
    assert!(stage.held.give_back(&stage.layout));
    assert_eq!(stage.get("pod/a2/cpu.max"), "30000 100000");
    assert_eq!(stage.get("pod/cpu.max"), "40000 100000");
}
