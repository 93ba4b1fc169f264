//! The chart makes what the plain manifests say, so that the two cannot drift apart. No cluster is
//! started for this.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use walras_testbed::{Program, Programs, Settings, prepare};

/// Labels that only Helm sets.
const OF_HELM: [&str; 2] = ["app.kubernetes.io/managed-by", "helm.sh/chart"];

/// Objects by kind and name.
type Objects = BTreeMap<String, Value>;

/// The programs, and the checkout they look at.
struct Bench {
    programs: Programs,
    checkout: PathBuf,
}

#[test]
fn the_chart_is_without_fault() {
    let bench = Bench::new();
    bench.helm(&["lint", "--strict", "--namespace", "mbcas-system", "deploy/helm/walras"]).unwrap();
}

#[test]
fn the_chart_makes_what_the_plain_manifests_say() {
    let bench = Bench::new();
    compare(bench.plain("deploy/kubernetes"), &bench.rendered(&[]));
}

#[test]
fn the_chart_and_the_manifests_agree_about_writing_control_groups() {
    let bench = Bench::new();
    let rendered = bench.rendered(&["--set", "config.actuation=direct"]);
    compare(bench.plain("deploy/direct"), &rendered);
}

#[test]
fn whoever_is_not_named_may_not_ask() {
    let bench = Bench::new();
    let named =
        bench.rendered(&["--set-json", r#"networkPolicy.from=[{"podSelector":{"a":"b"}}]"#]);
    let nobody = bench.rendered(&["--set-json", "networkPolicy.from=[]"]);
    for (objects, peers) in [(bench.plain("deploy/kubernetes"), 3), (named, 2), (nobody, 1)] {
        for (name, served) in [("walras-agent", 8082), ("walras-controller", 8080)] {
            let policy = &objects[&format!("NetworkPolicy {name}")]["spec"];
            assert_eq!(policy["policyTypes"][0], "Ingress", "{policy}");
            let rules = policy["ingress"].as_array().unwrap();
            assert_eq!(rules.len(), 1, "{policy}");
            // Not that of the probes, which nobody but the kubelet of the node has to reach.
            let ports = rules[0]["ports"].as_array().unwrap();
            assert!(ports.len() == 1 && ports[0]["port"] == served, "{policy}");
            let from = rules[0]["from"].as_array().unwrap();
            assert_eq!(from.len(), peers, "{policy}");
            // Without another selector beside it, this one means this namespace.
            assert_eq!(from[0], serde_json::json!({ "podSelector": {} }));
            assert!(from.iter().all(|peer| peer["namespaceSelector"] != serde_json::json!({})));
        }
    }
}

#[test]
fn an_agent_that_writes_control_groups_can_write_those_of_pods_and_no_others() {
    let bench = Bench::new();
    let elsewhere =
        ["--set", "config.actuation=direct", "--set", "agent.podsCgroup=/sys/fs/cgroup/x"];
    let rendered = bench.rendered(&elsewhere);
    for (objects, place) in [
        (bench.plain("deploy/direct"), "/sys/fs/cgroup/kubepods.slice"),
        (rendered, "/sys/fs/cgroup/x"),
    ] {
        let pod = &objects["DaemonSet walras-agent"]["spec"]["template"]["spec"];
        let agent = &pod["containers"][0];
        let mounts = agent["volumeMounts"].as_array().unwrap();
        let writable: Vec<&Value> = mounts.iter().filter(|it| it["readOnly"] != true).collect();
        assert!(writable.len() == 1 && writable[0]["mountPath"] == place, "{mounts:?}");
        let volumes = pod["volumes"].as_array().unwrap();
        let of = |name: &Value| volumes.iter().find(|volume| volume["name"] == *name).unwrap();
        assert_eq!(of(&writable[0]["name"])["hostPath"]["path"], place);
        assert_eq!(agent["securityContext"]["capabilities"]["drop"][0], "ALL");
        assert_eq!(agent["securityContext"]["allowPrivilegeEscalation"], false);
        assert_eq!(agent["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    }
    let whole = [&RENDER[..], &["--set", "agent.podsCgroup=/sys/fs/cgroup"]].concat();
    assert!(bench.helm(&whole).is_err(), "not the whole tree");
}

#[test]
fn the_chart_and_the_manifests_agree_about_the_scheduler() {
    let bench = Bench::new();
    let rendered = bench.rendered(&["--set", "scheduler.enabled=true"]);
    compare(bench.plain("deploy/scheduler"), &rendered);
}

#[test]
fn the_image_has_the_version_of_the_program() {
    let rendered = Bench::new().rendered(&[]);
    let image = concat!("registry.invalid/walras:", env!("CARGO_PKG_VERSION"));
    for name in ["DaemonSet walras-agent", "Deployment walras-controller"] {
        let found = rendered[name].pointer("/spec/template/spec/containers/0/image");
        assert_eq!(found, Some(&Value::from(image)), "{name}");
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let bench = Bench::new();
    // YAML takes a bare off for false; a text in quotes is what is meant.
    for (value, told) in [
        ("config.mode=on", "/config/mode"),
        ("config.actuation=both", "/config/actuation"),
        ("controller.replicas=0", "/controller/replicas"),
        ("contoller.replicas=2", "contoller"),
        ("scheduler.mode=on", "/scheduler/mode"),
    ] {
        let error = bench.helm(&[&RENDER[..], &["--set", value]].concat()).unwrap_err();
        assert!(error.contains(told), "{value}: {error}");
    }
    bench.helm(&[&RENDER[..], &["--set", "config.mode=off"]].concat()).unwrap();
}

/// The oldest Kubernetes that the chart is for: Helm has no cluster to ask.
const RENDER: [&str; 8] = [
    "template",
    "walras",
    "deploy/helm/walras",
    "--include-crds",
    "--namespace",
    "mbcas-system",
    "--kube-version",
    "1.33.0",
];

/// Complains about every object that only one side has, and about every difference.
fn compare(mut plain: Objects, rendered: &Objects) {
    // Whoever uses Helm lets it make the namespace.
    plain.remove("Namespace mbcas-system").expect("the manifests have a namespace");
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&plain), names(rendered), "which objects there are");
    for (name, object) in &plain {
        assert_eq!(object, &rendered[name], "{name}: the manifest is left, the chart right");
    }
}

fn objects(yaml: &str) -> Objects {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    let named = documents.into_iter().filter(|object| !object.is_null()).map(|mut object| {
        if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut)
        {
            OF_HELM.iter().for_each(|label| drop(labels.remove(*label)));
        }
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap();
        (format!("{} {}", text("/kind"), text("/metadata/name")), object)
    });
    let named: Vec<_> = named.collect();
    let count = named.len();
    let objects: Objects = named.into_iter().collect();
    assert_eq!(objects.len(), count, "no object is there twice");
    objects
}

// === impl Bench ===

impl Bench {
    fn new() -> Self {
        let settings = Settings::read().unwrap();
        let programs = prepare(&[Program::Helm, Program::Kubectl], &settings).unwrap();
        Self { programs, checkout: settings.checkout }
    }

    fn plain(&self, folder: &str) -> Objects {
        objects(&self.run(Program::Kubectl, &["kustomize", folder]).unwrap())
    }

    fn rendered(&self, more: &[&str]) -> Objects {
        objects(&self.helm(&[&RENDER[..], more].concat()).unwrap())
    }

    fn helm(&self, args: &[&str]) -> Result<String, String> {
        self.run(Program::Helm, args)
    }

    /// What a program prints, or what it complains of.
    fn run(&self, program: Program, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.programs.place(program).unwrap());
        let output = command.args(args).current_dir(&self.checkout).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        if output.status.success() { Ok(stdout) } else { Err(format!("{stdout}{stderr}")) }
    }
}
