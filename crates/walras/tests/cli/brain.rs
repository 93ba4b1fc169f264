//! `walras brain`: a small model is trained, judged, inspected, imported and asked, and what is
//! wrong is refused.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use walras_brain::features::NodeFeature;
use walras_brain::random;
use walras_core::rng::Rng;

use crate::{refusal_of, stdout_of, walras};

const TORCH: &str = "crates/brain/testdata/models/perceptron.pt";
const EVIL: &str = "crates/brain/testdata/models/evil.pt";
const XGBOOST: &str = "crates/brain/testdata/models/xgboost-logistic.ubj";

/// Events of a made-up cluster as a collector would write them.
fn events(count: usize) -> String {
    let events = random::events(&mut Rng::from_seed(11), count, 3);
    let lines = events.iter().map(|event| {
        let nodes: Map<String, Value> = event
            .nodes
            .iter()
            .map(|(name, node)| {
                let measured = NodeFeature::ALL.into_iter();
                let measured = measured.filter_map(|f| Some((f.to_string(), json!(node.get(f)?))));
                (name.clone(), Value::Object(measured.collect()))
            })
            .collect();
        let line = json!({
            "timestamp": event.time_ms + 1_794_904_200_000,
            "event_id": event.id,
            "cpu_request_milli": event.pod.cpu_milli,
            "memory_request_bytes": event.pod.memory_bytes,
            "workload_type": event.pod.workload.name(),
            "criticality": event.pod.criticality.name(),
            "node_telemetry": nodes,
            "chosen_node": event.chosen,
            "outcome": event.outcome.name(),
        });
        format!("{line}\n")
    });
    lines.collect()
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("a plain path").to_owned()
}

fn json_of(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout_of(walras(arguments))).expect("the output is JSON")
}

fn refused(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = refusal_of(walras(&[&["brain"], arguments].concat()));
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}\n{stderr}");
    stderr
}

#[test]
fn a_model_is_trained_and_the_same_bytes_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = path(folder.path(), "events.jsonl");
    fs::write(&data, events(150) + "no event\n").unwrap();
    for kind in ["mlp", "trees"] {
        let [model, again, page] =
            ["model", "again", "page.html"].map(|name| path(folder.path(), name));
        let train = |out: &str, more: &[&str]| {
            let usual = ["brain", "train", &data, "--kind", kind, "--epochs", "4", "--trees", "9"];
            stdout_of(walras(&[&usual[..], &["--out", out], more].concat()))
        };
        let text = train(&model, &["--report", &page]);
        for expected in [
            "trained on 315 rows of 150 events",
            "left out: ",
            "events.jsonl:151: it is not a JSON object",
            "How good it is",
            "What it looks at",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        let told: Value = serde_json::from_str(&train(&again, &["--json"])).unwrap();
        assert_eq!(told["events"], 150);
        assert_eq!(told["left_out"]["bad_lines"].as_array().map(Vec::len), Some(1));
        assert!(told["judgement"]["rmse"].as_f64().is_some(), "{told}");
        assert!(fs::read(&model).unwrap() == fs::read(&again).unwrap(), "the same bytes");
        let page = fs::read_to_string(page).unwrap();
        assert!(page.contains("Confidence against hits") && page.contains("<svg"));
        inspected(&model, kind);
        judged(&model, &data, folder.path());
    }
}

fn inspected(model: &str, kind: &str) {
    let told = json_of(&["brain", "inspect", model, "--json"]);
    assert_eq!(told["kind"], kind);
    assert_eq!(told["order"], "document");
    assert_eq!(told["trained"]["settings"]["seed"], 42);
    assert_eq!(told["features"].as_array().map(Vec::len), Some(26));
    let text = stdout_of(walras(&["brain", "inspect", model]));
    assert!(text.contains("more load    never scores higher"), "{text}");
}

fn judged(model: &str, data: &str, folder: &Path) {
    let same = json_of(&["brain", "eval", model, data, "--json"]);
    assert_eq!((&same["judged_by"], &same["judgement"]["rows"]), (&json!("test"), &json!(69)));
    let other = path(folder, "other.jsonl");
    fs::write(&other, events(30)).expect("a file can be written");
    let page = path(folder, "judged.html");
    let text = stdout_of(walras(&["brain", "eval", model, &other, "--report", &page]));
    assert!(text.contains("judged by 90 rows of 30 events: all events"), "{text}");
    assert!(fs::read_to_string(page).expect("the page is there").contains("<svg"));
}

#[test]
fn labels_are_settings_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let [data, labels, out] =
        ["events.jsonl", "labels.json", "out"].map(|name| path(folder.path(), name));
    fs::write(&data, events(30)).unwrap();
    fs::write(&labels, "{\"cpu\": 1, \"memory\": 0, \"cache\": 0}").unwrap();
    let train = ["brain", "train", &data, "--out", &out, "--epochs", "1", "--trust", "0.25"];
    stdout_of(walras(&[&train[..], &["--labels", &labels]].concat()));
    let told = json_of(&["brain", "inspect", &out, "--json"]);
    let recorded = &told["trained"]["settings"]["labels"];
    assert_eq!((&recorded["cpu"], &recorded["memory"]), (&json!(1.0), &json!(0.0)));
    assert_eq!(recorded["outcome_trust"], 0.25);
    assert_eq!(recorded["outcomes"]["evicted"]["weight"], 3.0, "the table is the usual one");
}

#[test]
fn a_model_is_built_in_and_says_what_it_is() {
    let text = stdout_of(walras(&["brain", "inspect"]));
    assert!(text.starts_with("embedded: simulator-trained"), "{text}");
    for (name, kind) in [("embedded", "mlp"), ("embedded-trees", "trees")] {
        let told = json_of(&["brain", "inspect", name, "--json"]);
        assert_eq!((&told["kind"], &told["calibrated"]), (&json!(kind), &json!(true)));
        assert!(told["name"].as_str().is_some_and(|name| name.contains("simulator-trained")));
    }
    let folder = tempfile::tempdir().unwrap();
    let asked = path(folder.path(), "question.json");
    let question = json!({"cpu_request_milli": 500, "workload_type": "cpu-bound", "node_telemetry":
        {"a": {"cpu_utilization": 0.9}, "b": {"cpu_utilization": 0.1}}});
    fs::write(&asked, question.to_string()).unwrap();
    let told = json_of(&["brain", "score", &asked, "--json"]);
    assert_eq!(told["scores"][0]["node_name"], "b", "the idle one is first: {told}");
    let told = refused(&["train", "--simulated", &asked, "--out", "x"]);
    assert!(told.contains("cannot be used with"), "{told}");
}

#[test]
fn models_of_others_are_imported_and_score() {
    let folder = tempfile::tempdir().unwrap();
    let [perceptron, trees, asked] =
        ["p", "t", "question.json"].map(|name| path(folder.path(), name));
    let order = ["--feature-order", "kubeattention"];
    let import = ["brain", "import", TORCH, "--out", &perceptron];
    let text = stdout_of(walras(&[&import[..], &order].concat()));
    assert!(text.contains("imported from PyTorch") && text.contains("not calibrated"), "{text}");
    let told = json_of(&["brain", "import", XGBOOST, "--out", &trees, "--name", "x", "--json"]);
    assert_eq!((&told["name"], &told["order"]), (&json!("x"), &json!("kubeattention")));
    let question = json!({
        "cpu_request_milli": 500,
        "node_telemetry": {"a": {"cpu_utilization": 0.1}, "b": {"cpu_utilization": 0.9}},
    });
    fs::write(&asked, question.to_string()).unwrap();
    for model in [&perceptron, &trees] {
        let told = json_of(&["brain", "score", "--model", model, &asked, "--json"]);
        let scores = told["scores"].as_array().unwrap();
        assert_eq!(scores.len(), 2);
        assert!(scores.iter().all(|s| s["reasoning"].as_str().unwrap().contains("CPU")), "{told}");
    }
    let text = stdout_of(walras(&["brain", "score", "--model", &trees, "--stretch", &asked]));
    assert!(text.contains("  100        0.50  a: low CPU load"), "{text}");
    let text = stdout_of(walras(&["brain", "score", "--model", "none", &asked]));
    assert!(text.contains("   50        0.00  a: no model is loaded"), "{text}");
}

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let [few, bad, out] = ["few.jsonl", "bad.jsonl", "out"].map(|name| path(folder.path(), name));
    fs::write(&few, events(5)).unwrap();
    fs::write(&bad, "{}\n{}\n").unwrap();
    let told = refused(&["train", &few, "--out", &out]);
    assert!(told.contains("5 events with telemetry and outcome are too few"), "{told}");
    let told = refused(&["train", &bad, "--out", &out]);
    assert!(told.contains("2 lines are no events; the first is "), "{told}");
    assert!(told.contains("bad.jsonl:1: timestamp is missing"), "{told}");
    let told = refused(&["train", &few, "--out", &out, "--trust", "2"]);
    assert_eq!(told, "error: labels: outcome_trust: 2 is outside 0 to 1\n");
    let labels = path(folder.path(), "labels.json");
    fs::write(&labels, "{\"cpu\": 0.5, \"gpu\": 1}").unwrap();
    let told = refused(&["train", &few, "--out", &out, "--labels", &labels]);
    assert!(told.contains("labels.json: unknown field `gpu`"), "{told}");
    let told = refused(&["inspect", TORCH]);
    assert!(told.contains("does not name its features") && told.contains("--feature-order"));
    let told = refused(&["import", EVIL, "--feature-order", "document", "--out", &out]);
    assert!(told.contains("it wants to use posix.system, which is not allowed"), "{told}");
    let told = refused(&["eval", "README.md", &few]);
    assert!(told.starts_with("error: README.md: it is neither safetensors"), "{told}");
    let told = refused(&["inspect", "no-such-file"]);
    assert!(told.starts_with("error: no-such-file: No such file"), "{told}");
    assert!(!Path::new(&out).exists(), "nothing was written");
}
