//! `walras sim tune`: a tiny search as text and as JSON, that it repeats, and what is refused.

use serde_json::{Value, json};

use crate::{refusal_of, stdout_of, walras};

const TRAIN: &str = "crates/walras/testdata/tiny_train.toml";
const TEST: &str = "crates/walras/testdata/tiny.toml";
/// So few that the search takes a moment, and enough that it finds something.
const EVALUATIONS: &str = "30";

fn tuned(more: &[&str]) -> String {
    let search = ["sim", "tune", "--train", TRAIN, "--test", TEST, "--evaluations", EVALUATIONS];
    stdout_of(walras(&[&search[..], more].concat()))
}

fn tuned_json(more: &[&str]) -> Value {
    serde_json::from_str(&tuned(&[&["--json"], more].concat())).expect("the output is JSON")
}

fn refused(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = refusal_of(walras(&[&["sim", "tune"], arguments].concat()));
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}\n{stderr}");
    stderr
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn a_search_is_the_same_every_time_and_on_any_number_of_threads() {
    let once = tuned(&["--json", "--threads", "1"]);
    assert_eq!(once, tuned(&["--json", "--threads", "1"]));
    assert_eq!(once, tuned(&["--json", "--threads", "2"]));
}

#[test]
fn programs_get_exactly_the_promised_keys() {
    let found = tuned_json(&[]);
    let top = ["config", "constants", "evaluations", "profile", "seed", "test", "train"];
    assert_eq!(keys(&found), top);
    let constant = ["from", "key", "saved_core_hours", "to", "unit"];
    assert_eq!(keys(&found["constants"][0]), constant);
    for (suite, policies) in [("train", 2), ("test", 4)] {
        assert_eq!(keys(&found[suite]), ["cost_after", "cost_before", "scenarios"]);
        let scenario = &found[suite]["scenarios"][0];
        assert_eq!(keys(scenario), ["name", "policies", "seed"]);
        assert_eq!(scenario["policies"].as_array().map(Vec::len), Some(policies));
        let policy =
            ["core_hours", "policy", "resizes_per_pod_hour", "setting", "slo_violation_minutes"];
        assert_eq!(keys(&scenario["policies"][0]), policy);
    }
    let names: Vec<&Value> = found["test"]["scenarios"][0]["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|policy| &policy["policy"])
        .collect();
    assert_eq!(json!(names), json!(["before", "after", "koordinator", "autothrottle"]));
}

#[test]
fn the_constants_saved_no_more_than_there_was_and_the_config_has_them() {
    let found = tuned_json(&[]);
    let constants = found["constants"].as_array().unwrap();
    let saved: f64 = constants.iter().map(|change| number(&change["saved_core_hours"])).sum();
    let train = &found["train"];
    let fell = number(&train["cost_before"]) - number(&train["cost_after"]);
    // A constant that went there and back again saved something, too, and is not told.
    assert!(saved > 0.0 && saved < fell + 1e-9, "{saved} and {fell}");
    assert_eq!(found["config"]["profile"], "direct");
    for change in constants {
        let key = change["key"].as_str().unwrap();
        assert_eq!(found["config"][key], change["to"]);
        assert_ne!(change["from"], change["to"], "{key}");
    }
}

#[test]
fn a_replay_takes_the_config_that_was_found() {
    let mut config = tuned_json(&["--profile", "api"])["config"].clone();
    config["type"] = json!("config");
    config["capacity_milli"] = json!(4000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("facts.jsonl");
    std::fs::write(&path, format!("{config}\n")).unwrap();
    stdout_of(walras(&["replay", path.to_str().unwrap()]));
}

#[test]
fn people_are_told_what_changed_how_it_does_and_how_to_use_it() {
    let text = tuned(&[]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("direct: 30 sets of constants tried, the cost fell from "),
        "{text}"
    );
    assert!(lines[2].starts_with("constant ") && lines[2].ends_with("saved, core-h"), "{text}");
    for row in ["train  tiny-train  before", "train  tiny-train  after", "test   tiny        after"]
    {
        assert!(lines.iter().any(|line| line.starts_with(row)), "{row}\n{text}");
    }
    assert!(text.contains("\nOn the scenarios it has not seen, the cost "), "{text}");
    assert!(lines.last().unwrap().contains("\"profile\":\"direct\""), "{text}");
}

#[test]
fn nothing_is_judged_by_what_was_searched_on() {
    assert_eq!(
        refused(&["--train", TRAIN, "--train", "jobs", "--test", "jobs"]),
        "error: --train jobs: what is searched on says nothing about what was found, and it is \
         given as --test, too\n"
    );
    // The same pods and seed under another name are the same scenario.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.toml");
    let text = include_str!("../../testdata/tiny.toml").replace("\"tiny\"", "\"copy\"");
    std::fs::write(&copy, text).unwrap();
    let stderr = refused(&["--train", copy.to_str().unwrap(), "--test", TEST]);
    assert!(stderr.starts_with("error: --train copy: ") && stderr.contains("tiny is given"));
    assert_eq!(
        refused(&["--train", "storms", "--test", TEST]),
        "error: --train storms: is of the suite \"test\", which is for judging and never tuned on\n"
    );
}

#[test]
fn bad_input_is_refused() {
    let stderr = refused(&["--profile", "seed"]);
    assert!(stderr.contains("'seed'") && stderr.contains("direct, api"), "{stderr}");
    let stderr = refused(&["--evaluations", "0"]);
    assert!(stderr.contains("--evaluations") && stderr.contains("1..=1000000"), "{stderr}");
    let stderr = refused(&["--train", "stedy-train", "--test", "nowhere.toml"]);
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].contains("did you mean steady-train?"), "{stderr}");
    assert!(lines[1].starts_with("nowhere.toml: "), "{stderr}");
}
