//! A node on plain files that look like control groups, with pods that a test shows it.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use walras_core::node::Why;
use walras_core::smooth::weight::KernelWeight;
use walras_node::latency::Questions;

use super::*;
use crate::agent::pods::{Data, World};
use crate::agent::publish::{Key, Outbox};
use crate::settings::ClusterSettings;

const UID: &str = "0f6c1c1e-3a53-4f0e-9b2e-1d2f3a4b5c6d";

struct Stage {
    root: TempDir,
    kubernetes: Kubernetes,
    shared: Shared,
}

/// The settings that lines of `key: value` make.
fn config(lines: &str) -> AgentConfig {
    let pairs = lines.lines().map(|line| line.split_once(": ").unwrap());
    let data = pairs.map(|(key, value)| (key.trim().to_owned(), value.to_owned()));
    ClusterSettings::read(&data.collect(), |_| None).unwrap().agent
}

/// A running pod `shop/web` with a container of 400m, whose annotations are `annotations`.
fn pod(annotations: &str) -> Pod {
    let text = format!(
        r#"{{"metadata": {{"name": "web", "namespace": "shop", "uid": "{UID}",
          "annotations": {{{annotations}}}}},
        "spec": {{"containers": [{{"name": "app",
          "resources": {{"requests": {{"cpu": "100m"}}, "limits": {{"cpu": "400m"}}}}}}]}},
        "status": {{"phase": "Running", "qosClass": "Burstable", "containerStatuses": [
          {{"name": "app", "containerID": "containerd://a1"}}]}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn make(root: &Path, path: &str, max: &str) {
    let folder = root.join(path);
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("cgroup.procs", ""),
        ("cpu.stat", "usage_usec 70\nnr_periods 9\nnr_throttled 3\nthrottled_usec 40\n"),
        ("cpu.max", max),
        ("cpu.max.burst", "0\n"),
        ("cpu.weight", "10\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// A node with settings that hold, or with none.
fn stage(settings: Option<&str>) -> Stage {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("cgroup.controllers"), "cpu").unwrap();
    for path in ["kubepods", "kubepods/burstable"] {
        make(root.path(), path, "max 100000\n");
    }
    for path in ["", "/a1"] {
        let path = format!("kubepods/burstable/pod{UID}{path}");
        make(root.path(), &path, "40000 100000\n");
    }
    let terms = Terms {
        config: settings.map_or_else(AgentConfig::default, config),
        own_namespace: "mbcas-system".to_owned(),
        holds: settings.is_some(),
        dry_run: false,
    };
    let pace = Pace { interval: terms.config.write_interval, band: terms.config.min_change };
    let shared = Shared {
        world: Arc::new(World::default()),
        outbox: Arc::new(Outbox::new(pace, 1)),
        questions: Arc::new(Questions::new(latency::SETTINGS)),
    };
    shared.world.set_config(Data::new());
    let layout = layout(Some(&root.path().to_owned())).unwrap();
    let kubernetes = Kubernetes::new(layout, terms, shared.clone(), Moment::ORIGIN);
    Stage { root, kubernetes, shared }
}

impl Stage {
    /// Shows these pods, looks, and says what would be written then.
    fn look(&mut self, pods: &[Pod]) -> Vec<String> {
        self.shared.world.show(pods.to_vec());
        self.kubernetes.look();
        self.shared.outbox.wanted()
    }

    /// Raises the pod to 800m because it misses its latency target.
    fn raise(&mut self) -> Carried {
        self.set(800, Why::LatencyMissed)
    }

    fn set(&mut self, limit: u64, why: Why) -> Carried {
        let action = Action {
            uid: WorkloadUid::new(UID),
            limit: Millicores::new(limit),
            request: Millicores::new(100),
            weight: KernelWeight::from_request(Millicores::new(100)),
            burst: Millicores::new(limit),
            why,
        };
        self.kubernetes.carry_out(&action)
    }

    /// The quotas of the pod and its container.
    fn quotas(&self) -> String {
        let pod = self.root.path().join(format!("kubepods/burstable/pod{UID}"));
        let max = |path: &Path| fs::read_to_string(path.join("cpu.max")).unwrap();
        let first = |text: String| text.split(' ').next().unwrap().to_owned();
        format!("{} {}", first(max(&pod)), first(max(&pod.join("a1"))))
    }
}

#[test]
fn before_a_configuration_holds_nothing_is_written_or_deleted() {
    let mut stage = stage(None);
    let left = Key { namespace: "shop".to_owned(), name: "shop-old".to_owned() };
    stage.shared.outbox.found_only(left, "u0", Millicores::new(300));
    assert_eq!(stage.look(&[pod("")]), [""; 0]);
    let terms = Terms { holds: true, ..stage.kubernetes.terms.clone() };
    stage.kubernetes.set_terms(terms);
    assert_eq!(stage.look(&[pod("")]), ["shop-old deleted", "shop-web 100m/400m"]);
}

#[test]
fn whether_anything_may_change_is_said_for_everybody_or_for_one() {
    for (settings, annotations, is_acting) in [
        (None, "", false),
        (Some("mode: off"), "", false),
        (Some("mode: limits-only"), "", true),
        (Some("mode: off"), r#""walras.dev/mode": "limits-only""#, true),
    ] {
        let mut stage = stage(settings);
        stage.look(&[pod(annotations)]);
        assert_eq!(stage.kubernetes.is_acting(), is_acting, "{settings:?}, {annotations}");
    }
}

#[test]
fn whoever_gets_something_back_has_an_allocation_sized_or_not() {
    let original = r#""walras.dev/original-resources":
        "{\"app\":{\"cpuRequestMilli\":50,\"cpuLimitMilli\":200}}""#;
    let opted_out = format!(r#""mbcas.io/managed": "false", {original}"#);
    let mut stage = stage(Some("mode: limits-only"));
    assert_eq!(stage.look(&[pod(&opted_out)]), [""; 0], "it is left alone");
    for settings in ["mode: restore", "mode: restore\nexcludedNamespaces: shop"] {
        let terms = Terms { config: config(settings), ..stage.kubernetes.terms.clone() };
        stage.kubernetes.set_terms(terms);
        assert_eq!(stage.look(&[pod(original)]), ["shop-web 50m/200m"]);
        assert_eq!(stage.look(&[pod(&opted_out)]), ["shop-web 50m/200m"]);
    }
}

#[test]
fn who_is_sized_by_somebody_else_keeps_an_allocation_that_says_what_it_has() {
    let vertical = r#""walras.dev/autoscaler": "VerticalPodAutoscaler/web""#;
    let mut stage = stage(Some("mode: limits-only\nactuation: direct"));
    stage.look(&[pod("")]);
    assert_eq!(stage.raise(), Carried::Done);
    stage.shared.outbox.write_all(Moment::ORIGIN);
    stage.set(900, Why::Released);
    assert_eq!(stage.quotas(), "90000 90000");
    assert_eq!(stage.look(&[pod(vertical)]), [""; 0], "what was wished before is not written");
    assert!(stage.shared.outbox.is_idle());
    assert_eq!(stage.quotas(), "40000 40000", "what was written is given back");
    // Somebody deleted it: without it, nobody would hear when the autoscaler is gone.
    stage.shared.outbox.forget_all();
    assert_eq!(stage.look(&[pod(vertical)]), ["shop-web 100m/400m"]);
}

#[test]
fn whoever_was_never_changed_needs_no_allocation_to_get_it_back() {
    let mut stage = stage(Some("mode: restore"));
    assert_eq!(stage.look(&[pod("")]), [""; 0]);
}

#[test]
fn what_was_written_directly_is_given_back_as_soon_as_it_is_not_wanted() {
    let raised = || {
        let mut stage = stage(Some("mode: limits-only\nactuation: direct"));
        stage.look(&[pod("")]);
        assert_eq!(stage.raise(), Carried::Done);
        assert_eq!(stage.quotas(), "80000 80000");
        stage
    };
    for annotation in [r#""mbcas.io/managed": "false""#, r#""walras.dev/mode": "off""#] {
        let mut stage = raised();
        stage.look(&[pod(annotation)]);
        assert_eq!(stage.quotas(), "40000 40000", "{annotation}");
    }
    for settings in [
        "mode: limits-only\nactuation: api",
        "mode: off\nactuation: direct",
        "mode: restore\nactuation: direct",
        "mode: limits-only\nactuation: direct\nexcludedNamespaces: shop",
    ] {
        let mut stage = raised();
        let terms = Terms { config: config(settings), ..stage.kubernetes.terms.clone() };
        stage.kubernetes.set_terms(terms);
        assert_eq!(stage.quotas(), "40000 40000", "{settings}");
    }
    let mut stage = raised();
    assert_eq!(stage.kubernetes.give_back(), 1, "at the end");
    assert_eq!(stage.quotas(), "40000 40000");
}

#[test]
fn what_cannot_be_written_directly_is_asked_of_the_api_server() {
    let mut stage = stage(Some("mode: limits-only\nactuation: direct"));
    stage.look(&[pod("")]);
    assert_eq!(stage.shared.outbox.wanted(), ["shop-web 100m/400m"]);
    // A folder in the place of the file: the container's limit can be neither read nor written.
    let max = stage.root.path().join(format!("kubepods/burstable/pod{UID}/a1/cpu.max"));
    fs::remove_file(&max).unwrap();
    fs::create_dir(&max).unwrap();
    let Carried::AskedInstead { because, in_force } = stage.raise() else {
        panic!("it was not asked for")
    };
    assert!(because.contains("cpu.max"), "{because}");
    assert_eq!(in_force, Millicores::new(400), "and not what was asked for");
    assert_eq!(stage.shared.outbox.wanted(), ["shop-web 100m/800m"]);
    // What does not help is not tried again, also when the API server has something new to say.
    fs::remove_dir(&max).unwrap();
    fs::write(&max, "40000 100000\n").unwrap();
    stage.look(&[resized(pod(""), "500m")]);
    assert_eq!(stage.raise(), Carried::Asked);
    // Only with other settings.
    stage.kubernetes.set_terms(stage.kubernetes.terms.clone());
    stage.look(&[pod("")]);
    assert_eq!(stage.raise(), Carried::Done);
}

#[test]
fn what_could_not_be_written_goes_out_in_its_time_unless_it_is_a_raise() {
    for (limit, urgent) in [(800, true), (200, false)] {
        let mut stage = stage(Some("mode: limits-only\nactuation: direct"));
        stage.look(&[pod("")]);
        stage.shared.outbox.write_all(Moment::ORIGIN);
        let max = stage.root.path().join(format!("kubepods/burstable/pod{UID}/a1/cpu.max"));
        fs::remove_file(&max).unwrap();
        fs::create_dir(&max).unwrap();
        assert!(matches!(stage.set(limit, Why::LatencyMissed), Carried::AskedInstead { .. }));
        assert_eq!(stage.shared.outbox.is_urgent(), urgent, "{limit}");
    }
}

/// The pod with another limit by the API server.
fn resized(mut pod: Pod, limit: &str) -> Pod {
    pod.spec.containers[0].resources.limits.cpu = Some(limit.to_owned());
    pod
}

#[test]
fn what_one_resize_cannot_reach_is_asked_for_in_steps() {
    for settings in ["actuation: api", "actuation: direct"] {
        let mut stage = stage(Some(&format!("mode: limits-only\n{settings}")));
        stage.look(&[resized(pod(""), "100m")]);
        stage.set(12_000, Why::Trimmed);
        assert_eq!(stage.shared.outbox.wanted(), ["shop-web 100m/1000m"], "{settings}");
        for (has, wanted) in [("1", "10000m"), ("10", "12000m"), ("12", "12000m")] {
            let wanted = format!("shop-web 100m/{wanted}");
            assert_eq!(stage.look(&[resized(pod(""), has)]), [wanted], "{settings}, {has}");
        }
    }
}

#[test]
fn how_far_one_resize_reaches_is_what_the_settings_say() {
    let steps = "market.max_step_factor: 2\nmarket.max_step_milli: 1000";
    let mut stage = stage(Some(&format!("mode: limits-only\n{steps}")));
    stage.look(&[resized(pod(""), "300m")]);
    stage.set(12_000, Why::Trimmed);
    assert_eq!(stage.shared.outbox.wanted(), ["shop-web 100m/600m"]);
    assert_eq!(stage.look(&[resized(pod(""), "2")]), ["shop-web 100m/3000m"]);
}

impl Stage {
    /// Lets the container's limit be neither read nor written, or mends that.
    fn break_container(&self, is_broken: bool) {
        let max = self.root.path().join(format!("kubepods/burstable/pod{UID}/a1/cpu.max"));
        if is_broken {
            fs::remove_file(&max).unwrap();
            fs::create_dir(&max).unwrap();
        } else {
            fs::remove_dir(&max).unwrap();
            fs::write(&max, "80000 100000\n").unwrap();
        }
    }

    /// Looks so often that everything had its turn.
    fn look_a_round(&mut self, pod: &Pod) {
        for _ in 0..LOOKS_PER_ROUND {
            self.look(std::slice::from_ref(pod));
        }
    }
}

#[test]
fn what_cannot_be_given_back_at_once_is_given_back_later() {
    let opted_out = pod(r#""mbcas.io/managed": "false""#);
    for (settings, shown) in [
        ("mode: limits-only\nactuation: direct", opted_out),
        ("mode: off\nactuation: direct", pod("")),
        ("mode: limits-only\nactuation: api", pod("")),
    ] {
        let mut stage = stage(Some("mode: limits-only\nactuation: direct"));
        stage.look(&[pod("")]);
        stage.raise();
        stage.break_container(true);
        let terms = Terms { config: config(settings), ..stage.kubernetes.terms.clone() };
        stage.kubernetes.set_terms(terms);
        stage.look(std::slice::from_ref(&shown));
        stage.break_container(false);
        stage.look_a_round(&shown);
        assert_eq!(stage.quotas(), "40000 40000", "{settings}");
    }
}

#[test]
fn what_was_written_before_a_crash_is_not_kept_unless_it_is_wanted() {
    for (settings, dry_run, quotas) in [
        ("mode: limits-only\nactuation: api", false, "40000 40000"),
        ("mode: off\nactuation: direct", false, "40000 40000"),
        ("mode: limits-only\nactuation: direct", false, "80000 80000"),
        ("mode: off\nactuation: direct", true, "80000 80000"),
    ] {
        let mut stage = stage(Some(settings));
        for path in ["", "/a1"] {
            let path = format!("kubepods/burstable/pod{UID}{path}");
            make(stage.root.path(), &path, "80000 100000\n");
        }
        stage.kubernetes.terms.dry_run = dry_run;
        stage.look_a_round(&pod(""));
        assert_eq!(stage.quotas(), quotas, "{settings}, {dry_run}");
        assert_eq!(stage.kubernetes.give_back(), usize::from(quotas == "80000 80000" && !dry_run));
    }
}

#[test]
fn prometheus_is_asked_about_who_has_a_target_and_what_is_wrong_with_it_is_a_problem() {
    let settings = "mode: off\nprometheusURL: http://p:9090\nprometheusQuery: q\n\
                    p99ThresholdMultiplier: 1.5";
    let mut stage = stage(Some(settings));
    stage.look(&[pod("")]);
    assert_eq!(stage.shared.questions.get().targets, [], "it has no target");
    stage.look(&[pod(r#""mbcas.io/target-latency-ms": "50""#)]);
    let target = latency::target(WorkloadUid::new(UID), "shop", "web", 75.0);
    let url = Some("http://p:9090".to_owned());
    let expected = Question { url, query: "q".to_owned(), targets: vec![target] };
    assert_eq!(stage.shared.questions.get(), expected);
    stage.shared.questions.tell(vec!["prometheusQuery: does not work".to_owned()]);
    assert_eq!(stage.kubernetes.problems(), ["prometheusQuery: does not work"]);
}

#[test]
fn a_container_that_cannot_be_read_is_told_to_the_loop_which_counts_it() {
    let mut stage = stage(Some("mode: limits-only"));
    stage.look(&[pod("")]);
    let uid = WorkloadUid::new(UID);
    let counters = format!("kubepods/burstable/pod{UID}/a1/cpu.stat");
    assert!(stage.kubernetes.sample(&uid, Moment::ORIGIN).is_ok());
    fs::write(stage.root.path().join(counters), "rubbish").unwrap();
    let told = stage.kubernetes.sample(&uid, Moment::ORIGIN);
    assert!(matches!(told, Err(Trouble::Unreadable(_))), "{told:?}");
    assert!(stage.kubernetes.held.contains_key(&uid), "the pod is still there");
}

#[test]
fn a_price_that_moved_is_written_although_nothing_else_did() {
    let mut stage = stage(Some("mode: limits-only"));
    let price = |percent| Ratio::from_percent(percent);
    stage.look(&[pod("")]);
    stage.kubernetes.set_price(price(40));
    stage.shared.outbox.write_all(Moment::ORIGIN);
    stage.kubernetes.set_price(price(42));
    assert_eq!(stage.shared.outbox.wanted(), [""; 0], "within the band");
    stage.kubernetes.set_price(price(0));
    assert_eq!(stage.shared.outbox.wanted(), ["shop-web 100m/400m"]);
}
