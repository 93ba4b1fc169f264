//! `walras sim place`: a small town as a table, as JSON and as a page, and what is refused.

use serde_json::Value;

use crate::{refusal_of, stdout_of, walras};

const SMALL: [&str; 8] = ["sim", "place", "--seeds", "2", "--nodes", "4", "--hours", "1"];

fn run(arguments: &[&str]) -> String {
    stdout_of(walras(&[&SMALL[..], arguments].concat()))
}

fn refused(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = refusal_of(walras(&[&["sim", "place"], arguments].concat()));
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}\n{stderr}");
    stderr
}

#[test]
fn a_town_is_told_in_a_sentence_a_table_and_comparisons() {
    let text = run(&["shop", "--policy", "random,load-variation,mlp"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("shop: requests that somebody waits for"), "{text}");
    assert!(lines[2].starts_with("rule  ") && lines[3].starts_with("-----"), "{text}");
    for rule in ["random ", "load-variation ", "mlp "] {
        assert!(lines[4..].iter().any(|line| line.starts_with(rule)), "{rule}: {text}");
    }
    assert!(text.contains("\nmlp beside "), "{text}");
    let trained = run(&["train", "--policy", "random"]);
    assert!(trained.contains("this is no judgement of them"), "{trained}");
}

#[test]
fn programs_get_the_promised_keys_on_any_number_of_threads_and_people_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("placement.html");
    let page = page.to_str().unwrap();
    let arguments = ["data", "--policy", "random,trees", "--json"];
    let text = run(&[&arguments[..], &["--threads", "1", "--report", page]].concat());
    assert_eq!(text, run(&[&arguments[..], &["--threads", "2"]].concat()));
    let document: Value = serde_json::from_str(&text).unwrap();
    let town = &document["towns"][0];
    assert_eq!((&town["town"], &town["seeds"]), (&Value::from("data"), &Value::from(2)));
    let rule = town["rules"][1].as_object().unwrap();
    let keys: Vec<&str> = rule.keys().map(String::as_str).collect();
    let promised = [
        "cpu_used_ratio",
        "mean_slowdown",
        "nodes_used",
        "p99_slowdown",
        "p99_slowdown_by_seed",
        "p99_slowdown_waited_for",
        "rule",
        "slow_ratio",
        "waiting_ratio",
    ];
    assert_eq!(keys, promised);
    assert_eq!(rule["p99_slowdown"]["interval"].as_array().unwrap().len(), 2);
    assert_eq!(town["comparisons"][0]["best_rival"], "random");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("trees"), "{page}");
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let told = refused(&["shopp"]);
    assert!(told.contains("there is no town \"shopp\"; did you mean shop?"), "{told}");
    let told = refused(&["shop", "--policy", "lest-allocated"]);
    assert!(told.contains("did you mean least-allocated?"), "{told}");
    let told = refused(&["shop", "--model", "nowhere.safetensors"]);
    assert!(told.contains("nowhere.safetensors: "), "{told}");
    assert!(refused(&["--seeds", "1"]).contains("--seeds"));
}
