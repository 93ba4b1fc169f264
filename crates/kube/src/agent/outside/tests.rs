//! A node on plain files that look like control groups, with pods that a test shows it.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::agent::latency::Questions;
use crate::agent::pods::{Data, World};
use crate::agent::publish::{Key, Outbox};

const UID: &str = "0f6c1c1e-3a53-4f0e-9b2e-1d2f3a4b5c6d";

struct Stage {
    _root: TempDir,
    kubernetes: Kubernetes,
    shared: Shared,
}

/// The settings that lines of `key: value` make.
fn config(lines: &str) -> AgentConfig {
    let pairs = lines.lines().map(|line| line.split_once(": ").unwrap());
    let data = pairs.map(|(key, value)| (key.trim().to_owned(), value.to_owned()));
    AgentConfig::read(&data.collect(), |_| None).unwrap()
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

fn make(root: &Path, path: &str) {
    let folder = root.join(path);
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("cgroup.procs", ""),
        ("cpu.stat", "usage_usec 70\nnr_periods 9\nnr_throttled 3\nthrottled_usec 40\n"),
        ("cpu.max", "40000 100000\n"),
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
    for path in [String::new(), "/a1".to_owned()] {
        make(root.path(), &format!("kubepods/burstable/pod{UID}{path}"));
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
        questions: Arc::new(Questions::default()),
    };
    shared.world.set_config(Data::new());
    let layout = layout(Some(&root.path().to_owned())).unwrap();
    let kubernetes = Kubernetes::new(layout, terms, shared.clone(), Moment::ORIGIN);
    Stage { _root: root, kubernetes, shared }
}

impl Stage {
    /// Shows these pods, looks, and says what would be written then.
    fn look(&mut self, pods: &[Pod]) -> Vec<String> {
        self.shared.world.show(pods.to_vec());
        self.kubernetes.look();
        self.shared.outbox.wanted()
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
fn whoever_gets_something_back_has_an_allocation_sized_or_not() {
    let original = r#""walras.dev/original-resources": "{\"app\":{\"cpuRequestMilli\":50,\"cpuLimitMilli\":200}}""#;
    let opted_out = format!(r#""mbcas.io/managed": "false", {original}"#);
    let mut stage = stage(Some("mode: limits-only"));
    assert_eq!(stage.look(&[pod(&opted_out)]), [""; 0], "it is left alone");
    for settings in ["mode: restore", "mode: restore\nexcludedNamespaces: shop"] {
        let terms = Terms { config: config(settings), ..stage.kubernetes.terms.clone() };
        stage.kubernetes.set_terms(terms);
        assert_eq!(stage.look(&[pod(original)]), ["shop-web 50m/200m"]);
        assert_eq!(stage.look(&[pod(&opted_out)]), ["shop-web 50m/200m"]);
        assert_eq!(stage.look(&[pod("")]), [""; 0], "nobody ever changed it");
    }
}
