//! A pod on plain files that look like control groups.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use walras_cgroup::Version;
use walras_core::node::Why;
use walras_core::profile::CapRule;
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::WorkloadUid;

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
        cap_rule: CapRule::Loose,
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
    /// The kubelet sets the quotas of the pod and of each container, by their part.
    fn set(&self, quota: u64) {
        for (group, part) in [("pod", 4), ("pod/a1", 3), ("pod/b1", 1)] {
            self.set_one(group, &(quota * part / 4).to_string());
        }
    }

    fn set_one(&self, group: &str, quota: &str) {
        let file = self.root.path().join(group).join("cpu.max");
        fs::write(file, format!("{quota} 100000\n")).unwrap();
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
            uid: WorkloadUid::new(UID),
            limit: Millicores::new(limit),
            request: Millicores::new(100),
            weight: KernelWeight::from_request(Millicores::new(100)),
            burst: Millicores::new(burst),
            why: Why::LatencyMissed,
        };
        self.held.write(&action)
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
    assert_eq!(stage.see(15), Seen::Late(Millicores::new(400)));
    assert_eq!(stage.see(16), Seen::Nothing, "it was told once");
    stage.set(80_000);
    assert_eq!(stage.see(17), Seen::Other(Millicores::new(800)), "nobody expects it any more");
}

#[test]
fn what_is_late_is_not_believed_for_being_asked_for_again() {
    let mut stage = stage(Actuation::Api);
    assert_eq!(stage.ask(800, 0), Carried::Asked);
    assert_eq!(stage.see(15), Seen::Late(Millicores::new(400)));
    for second in 16..60 {
        assert_eq!(stage.ask(800, second), Carried::Late(Millicores::new(400)));
        assert_eq!(stage.ask(805, second), Carried::Late(Millicores::new(400)), "nearly the same");
        assert_eq!(stage.see(second), Seen::Nothing, "nothing is new");
    }
    for limit in [600, 900, 500] {
        assert_eq!(stage.ask(limit, 60), Carried::Late(Millicores::new(400)), "no raise comes");
        assert_eq!(stage.see(60), Seen::Nothing);
    }
    assert_eq!(stage.ask(400, 61), Carried::Done);
    assert_eq!(stage.ask(600, 62), Carried::Late(Millicores::new(400)), "still no raise");
    assert_eq!(stage.ask(300, 63), Carried::Asked, "to shrink may be possible");
    assert_eq!(stage.see(77), Seen::Nothing);
    assert_eq!(stage.see(78), Seen::Late(Millicores::new(400)));
    stage.set(50_000);
    assert_eq!(stage.see(79), Seen::Other(Millicores::new(500)));
    assert_eq!(stage.ask(600, 80), Carried::Asked, "something came");
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
fn a_pod_may_use_no_more_than_its_containers_whatever_its_own_group_says() {
    for actuation in [Actuation::Api, Actuation::Direct] {
        let mut stage = stage(actuation);
        // As the kubelet has it beside an init container without a limit, or with a larger one.
        for whole in ["max", "200000"] {
            stage.set_one("pod", whole);
            assert_eq!(stage.see(1), Seen::Nothing, "{whole}");
            let (path, pod) = (stage.held.group.path().clone(), pod(["a1", "b1"]));
            let held = Held::open(&stage.layout, &path, &pod, params(&pod), actuation).unwrap();
            assert_eq!(held.limit, Millicores::new(400), "{whole}");
        }
        assert_eq!(stage.ask(800, 2), Carried::Asked);
        stage.set_one("pod/a1", "60000");
        stage.set_one("pod/b1", "20000");
        assert_eq!(stage.see(3), Seen::Took);
        stage.set_one("pod/b1", "max");
        assert_eq!(stage.see(4), Seen::Other(Millicores::new(2000)), "one has no limit");
    }
}

#[test]
fn a_container_without_a_group_counts_with_what_the_api_server_has_for_it() {
    let mut stage = stage(Actuation::Api);
    stage.set_one("pod", "max");
    fs::remove_dir_all(stage.root.path().join("pod/a1")).unwrap();
    assert_eq!(stage.see(1), Seen::Nothing, "it is being replaced");
    stage.set_one("pod/b1", "20000");
    assert_eq!(stage.see(2), Seen::Other(Millicores::new(500)), "300m and 200m");
}

#[test]
fn quotas_that_are_rounded_up_do_not_add_up() {
    let mut stage = stage(Actuation::Api);
    stage.set_one("pod", "max");
    stage.set_one("pod/a1", "30900");
    stage.set_one("pod/b1", "10900");
    assert_eq!(stage.see(1), Seen::Nothing);
}

/// What a group has counted: throttled time and throttled periods.
fn count(stage: &Stage, group: &str, throttled_us: u64, periods: u64) {
    let text = format!(
        "usage_usec 500\nnr_periods 90\nnr_throttled {periods}\nthrottled_usec {throttled_us}\n"
    );
    fs::write(stage.root.path().join(group).join("cpu.stat"), text).unwrap();
}

#[test]
fn a_container_that_cannot_be_read_is_not_one_that_wants_nothing() {
    let mut stage = stage(Actuation::Api);
    let sample = |stage: &mut Stage| {
        let sample = stage.held.sample(Moment::ORIGIN)?;
        Ok::<_, CgroupError>((sample.throttled.as_us(), sample.nr_throttled))
    };
    assert_eq!(sample(&mut stage).unwrap(), (0, 0));
    count(&stage, "pod/a1", 140, 13);
    assert_eq!(sample(&mut stage).unwrap(), (100, 10));
    fs::write(stage.root.path().join("pod/a1/cpu.stat"), "rubbish").unwrap();
    let error = sample(&mut stage).unwrap_err();
    assert!(!error.is_gone(), "{error}");
    assert!(error.to_string().contains("pod/a1"), "{error}");
    // What happened meanwhile is seen as soon as it can be read again.
    count(&stage, "pod/a1", 940, 63);
    assert_eq!(sample(&mut stage).unwrap(), (900, 60));
}

#[test]
fn containers_keep_their_part_and_get_a_burst_buffer() {
    let mut stage = stage(Actuation::Direct);
    assert!(stage.held.can_be_written());
    assert_eq!(stage.write(800, 800), Carried::Done);
    assert_eq!(stage.get("pod/cpu.max"), "80000 100000");
    assert_eq!(stage.get("pod/a1/cpu.max"), "60000 100000");
    assert_eq!(stage.get("pod/b1/cpu.max"), "20000 100000");
    assert_eq!(stage.get("pod/a1/cpu.max.burst"), "30000", "no more than the API server's limit");
    assert_eq!(stage.get("pod/cpu.max.burst"), "40000");
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
    stage.set_one("pod", "50000");
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

/// The pod with these limits by the API server, and what it is told.
fn resized(app: &str, annotations: &str) -> Arc<Pod> {
    let mut pod = Pod::clone(&pod(["a1", "b1"]));
    pod.spec.containers[0].resources.limits.cpu = Some(app.to_owned());
    let pairs = annotations.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pod.metadata.annotations = Some(pairs.collect());
    Arc::new(pod)
}

impl Stage {
    fn follow(&mut self, pod: &Arc<Pod>) {
        self.held.follow(&self.layout, pod, params(pod), Actuation::Direct);
    }

    /// Quotas of the pod and its containers, and the largest burst buffer.
    fn told(&self) -> String {
        let groups = ["pod", "pod/a1", "pod/b1"];
        let quota = |group: &&str| {
            let max = self.get(&format!("{group}/cpu.max"));
            max.strip_suffix(" 100000").unwrap().to_owned()
        };
        let burst =
            |group: &&str| self.get(&format!("{group}/cpu.max.burst")).parse::<u64>().unwrap();
        let quotas: Vec<String> = groups.iter().map(quota).collect();
        format!("{} burst {}", quotas.join(" "), groups.iter().map(burst).max().unwrap())
    }
}

#[test]
fn what_was_written_is_given_back_when_the_mode_forbids_it() {
    for mode in ["off", "restore"] {
        let mut stage = stage(Actuation::Direct);
        stage.write(800, 800);
        assert_eq!(stage.told(), "80000 60000 20000 burst 40000");
        stage.follow(&resized("300m", &format!("walras.dev/mode={mode}")));
        assert_eq!(stage.told(), "40000 30000 10000 burst 0", "{mode}");
        assert_eq!(stage.held.limit, Millicores::new(400), "{mode}");
        assert!(!stage.held.give_back(&stage.layout), "there is nothing left");
    }
}

#[test]
fn what_was_written_is_given_back_when_the_pod_is_let_go_of() {
    let mut stage = stage(Actuation::Direct);
    stage.write(800, 800);
    // With what the API server has for it now, and not when it was written.
    let pod = resized("500m", "mbcas.io/managed=false");
    let Stage { root, layout, mut held } = stage;
    assert!(held.leave(&layout, &pod));
    let max = |group: &str| fs::read_to_string(root.path().join(group).join("cpu.max")).unwrap();
    assert_eq!(max("pod"), "60000 100000");
    assert_eq!(max("pod/a1"), "50000 100000");
    assert_eq!(max("pod/b1"), "10000 100000");
}

#[test]
fn a_quota_that_the_kubelet_has_set_since_is_left_to_it() {
    let mut stage = stage(Actuation::Direct);
    stage.write(800, 800);
    stage.set_one("pod", "60000");
    assert!(stage.held.give_back(&stage.layout));
    assert_eq!(stage.told(), "60000 30000 10000 burst 0");
}

#[test]
fn a_restarted_container_does_not_keep_its_pod_from_being_given_back() {
    let mut stage = stage(Actuation::Direct);
    stage.write(800, 800);
    make(stage.root.path(), "pod/a2", 30_000);
    fs::remove_dir_all(stage.root.path().join("pod/a1")).unwrap();
    stage.follow(&pod(["a2", "b1"]));
    assert!(stage.held.give_back(&stage.layout));
    assert_eq!(stage.get("pod/cpu.max"), "40000 100000");
    assert_eq!(stage.get("pod/b1/cpu.max"), "10000 100000");
    assert_eq!(stage.get("pod/a2/cpu.max"), "30000 100000");
}

#[test]
fn who_had_no_quota_at_all_gets_none() {
    let mut stage = stage(Actuation::Direct);
    // The kubelet was told not to enforce limits.
    for group in ["pod", "pod/a1", "pod/b1"] {
        fs::write(stage.root.path().join(group).join("cpu.max"), "max 100000\n").unwrap();
    }
    stage.write(800, 0);
    assert_eq!(stage.get("pod/cpu.max"), "80000 100000");
    assert!(stage.held.give_back(&stage.layout));
    assert_eq!(stage.told(), "max max max burst 0");
}

#[test]
fn a_burst_buffer_makes_room_for_a_smaller_limit_of_the_api_server() {
    let mut stage = stage(Actuation::Direct);
    stage.write(800, 800);
    stage.follow(&resized("100m", ""));
    // The kubelet may set 20000 and 10000 now, which the kernel refuses below the buffer.
    assert_eq!(stage.told(), "80000 60000 20000 burst 20000");
    assert_eq!(stage.get("pod/a1/cpu.max.burst"), "10000");
}

/// The pod as resized, where its node has agreed to so much for the first container.
fn agreed(app: &str, limit: &str) -> Arc<Pod> {
    let mut pod = Pod::clone(&resized(app, ""));
    let mut resources = pod.spec.containers[0].resources.clone();
    resources.limits.cpu = Some(limit.to_owned());
    pod.status.container_statuses[0].resources = Some(resources);
    Arc::new(pod)
}

#[test]
fn a_resize_that_the_node_has_not_agreed_to_is_not_given_back() {
    let mut stage = stage(Actuation::Direct);
    stage.write(800, 0);
    // Deferred or infeasible: the kubelet may never set it.
    stage.follow(&agreed("600m", "300m"));
    assert!(stage.held.give_back(&stage.layout));
    assert_eq!(stage.told(), "40000 30000 10000 burst 0");
}

#[test]
fn a_burst_buffer_is_no_larger_than_any_limit_that_may_come() {
    let mut stage = stage(Actuation::Direct);
    for (wanted, agreed_to) in [("600m", "300m"), ("300m", "600m")] {
        stage.follow(&agreed(wanted, agreed_to));
        stage.write(1000, 1000);
        assert_eq!(stage.get("pod/a1/cpu.max.burst"), "30000", "{wanted}, {agreed_to}");
        assert_eq!(stage.get("pod/cpu.max.burst"), "40000", "{wanted}, {agreed_to}");
    }
}

#[test]
fn what_a_container_may_have_follows_what_its_node_agrees_to() {
    let mut stage = stage(Actuation::Direct);
    stage.follow(&agreed("700m", "300m"));
    stage.write(800, 0);
    assert_eq!(stage.get("pod/a1/cpu.max"), "60000 100000", "three of four parts");
    stage.follow(&agreed("700m", "700m"));
    stage.write(800, 0);
    assert_eq!(stage.get("pod/a1/cpu.max"), "70000 100000", "seven of eight");
}

impl Stage {
    /// The agent crashes, and another one finds the pod.
    fn crash(self, pod: &Arc<Pod>) -> Self {
        let Self { root, layout, held } = self;
        let path = held.group.path().clone();
        let mut held = Held::open(&layout, &path, pod, params(pod), Actuation::Api).unwrap();
        held.remember(&layout);
        Self { root, layout, held }
    }
}

#[test]
fn what_was_written_before_a_crash_is_given_back() {
    for burst in [800, 0] {
        let mut stage = stage(Actuation::Direct);
        stage.write(800, burst);
        let mut stage = stage.crash(&pod(["a1", "b1"]));
        assert!(stage.held.give_back(&stage.layout));
        assert_eq!(stage.told(), "40000 30000 10000 burst 0");
    }
}

#[test]
fn what_the_kubelet_set_is_not_taken_for_written() {
    let untouched = stage(Actuation::Direct);
    // Beside a larger init container, and rounded up.
    untouched.set_one("pod", "200000");
    untouched.set_one("pod/a1", "31000");
    let after = untouched.crash(&pod(["a1", "b1"]));
    assert!(!after.held.owes());
    // A resize is under way: the kubelet may have set any of it.
    let mut resizing = stage(Actuation::Direct);
    resizing.write(800, 800);
    let mut resizing = resizing.crash(&agreed("600m", "300m"));
    assert!(resizing.held.give_back(&resizing.layout));
    assert_eq!(resizing.told(), "80000 60000 20000 burst 0");
}

#[test]
fn what_cannot_be_given_back_is_not_forgotten_while_its_group_is_there() {
    let mut stage = stage(Actuation::Direct);
    stage.write(800, 800);
    let max = stage.root.path().join("pod/b1/cpu.max");
    fs::remove_file(&max).unwrap();
    fs::create_dir(&max).unwrap();
    assert!(!stage.held.give_back(&stage.layout));
    assert!(stage.held.owes());
    fs::remove_dir(&max).unwrap();
    fs::write(&max, "20000 100000\n").unwrap();
    assert!(stage.held.give_back(&stage.layout));
    assert_eq!(stage.told(), "40000 30000 10000 burst 0");
}

#[test]
fn a_group_that_is_gone_takes_what_was_written_with_it() {
    let mut stage = stage(Actuation::Direct);
    stage.write(800, 0);
    fs::remove_dir_all(stage.root.path().join("pod/a1")).unwrap();
    stage.follow(&pod(["a2", "b1"]));
    // The kubelet sets on another group what was once written to one of that name.
    make(stage.root.path(), "pod/a1", 60_000);
    stage.follow(&pod(["a1", "b1"]));
    assert!(stage.held.give_back(&stage.layout));
    assert_eq!(stage.told(), "40000 60000 10000 burst 0");
}
