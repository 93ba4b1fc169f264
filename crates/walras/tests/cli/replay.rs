//! `walras replay`: the example as text and as JSON lines, and what becomes of a replay that stops.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::{refusal_of, stdout_of, walras};

const EXAMPLE: &str = "examples/incident.jsonl";

#[test]
fn the_example_is_told_tick_by_tick() {
    let text = stdout_of(walras(&["replay", EXAMPLE]));
    assert_eq!(text, include_str!("../../testdata/incident.txt"));
}

#[test]
fn the_example_is_told_as_json_lines() {
    let text = stdout_of(walras(&["replay", EXAMPLE, "--json"]));
    assert_eq!(text, include_str!("../../testdata/incident.jsonl"));
}

#[test]
fn the_example_shows_a_raise_and_later_a_shrink() {
    let text = stdout_of(walras(&["replay", EXAMPLE, "--json"]));
    let limits: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .flat_map(|tick| tick["actions"].as_array().unwrap().clone())
        .filter(|action| action["uid"] == "checkout")
        .map(|action| action["limit_milli"].as_u64().unwrap())
        .collect();
    assert!(limits[0] > 500, "raised from 500m: {limits:?}");
    assert!(limits.last() < limits.first(), "shrunk later: {limits:?}");
}

#[test]
fn a_part_of_a_replay_is_what_the_whole_says_of_it() {
    let whole = stdout_of(walras(&["replay", EXAMPLE]));
    let summary = whole.lines().last().unwrap();
    let part = |arguments: &[&str]| {
        let text = stdout_of(walras(&[&["replay", EXAMPLE][..], arguments].concat()));
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.pop().as_deref(), Some(summary), "the counts are those of the whole");
        lines
    };
    let changes = part(&["--changes"]);
    assert!(!changes.is_empty() && changes.len() < whole.lines().count());
    assert!(changes.iter().all(|line| !line.contains("no changes")), "{changes:?}");
    let one = part(&["--pod", "checkout"]);
    assert!(one.iter().any(|line| line.contains("checkout: limit")), "{one:?}");
    assert!(
        one.iter().filter(|line| line.starts_with("    ")).all(|line| line.contains("checkout"))
    );
    assert_eq!(part(&["--pod", "nobody"]), [""; 0]);
    let seconds = |line: &str| line.trim().split_once(" s ").and_then(|(at, _)| at.parse().ok());
    let late: Vec<f64> =
        part(&["--from", "10", "--to", "20"]).iter().filter_map(|l| seconds(l)).collect();
    assert!(!late.is_empty() && late.iter().all(|at| (10.0..=20.0).contains(at)), "{late:?}");
    let json = stdout_of(walras(&["replay", EXAMPLE, "--json", "--changes", "--pod", "checkout"]));
    for line in json.lines() {
        let tick: Value = serde_json::from_str(line).unwrap();
        let actions = tick["actions"].as_array().unwrap();
        assert!(
            !actions.is_empty() && actions.iter().all(|one| one["uid"] == "checkout"),
            "{line}"
        );
    }
}

#[test]
fn a_time_that_is_none_is_refused_with_its_value() {
    for bad in ["-1", "soon", "NaN", "1e99"] {
        let (code, _, stderr) = refusal_of(walras(&["replay", EXAMPLE, &format!("--from={bad}")]));
        assert_eq!(code, Some(2), "{bad}");
        assert!(stderr.contains(bad) && stderr.contains("--from"), "{stderr}");
    }
}

#[test]
fn the_same_file_gives_the_same_bytes() {
    for arguments in [&["replay", EXAMPLE][..], &["replay", "--json", EXAMPLE]] {
        assert_eq!(stdout_of(walras(arguments)), stdout_of(walras(arguments)));
    }
}

#[test]
fn a_tick_has_exactly_the_promised_keys() {
    let text = stdout_of(walras(&["replay", EXAMPLE, "--json"]));
    let first = text.lines().next().unwrap();
    let tick: Value = serde_json::from_str(first).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&tick), ["actions", "at_ms", "loop", "mode", "notes", "shadow_price"]);
    assert_eq!(
        keys(&tick["actions"][0]),
        ["burst_milli", "limit_milli", "request_milli", "uid", "weight", "why"]
    );
}

#[test]
fn what_was_decided_before_a_bad_line_is_printed() {
    let mut facts = std::fs::read_to_string("../../examples/incident.jsonl").unwrap();
    facts += "{\"type\": \"tick\", \"at_ms\": 1, \"loop\": \"slow\"}\n";
    let mut command = walras(&["replay", "--json", "-"]);
    command.write_stdin(facts);
    let (code, stdout, stderr) = refusal_of(command);
    assert_eq!(code, Some(2));
    assert_eq!(stdout, include_str!("../../testdata/incident.jsonl"));
    assert!(stderr.contains("at_ms: 1 is before 90000, the time of an earlier line"), "{stderr}");
}

/// Whoever drives a replay from another program reads each answer before giving the next fact.
#[test]
fn an_answer_comes_as_soon_as_its_tick_is_given() {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("walras"))
        .args(["replay", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    stdin.write_all(b"{\"type\": \"config\", \"capacity_milli\": 4000}\n").unwrap();
    for at_ms in [200, 400] {
        writeln!(stdin, "{{\"type\": \"tick\", \"at_ms\": {at_ms}, \"loop\": \"fast\"}}").unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["at_ms"], at_ms);
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn every_kind_of_fact_is_taken_in() {
    let facts = r#"
        {"type": "config", "at_ms": 5, "capacity_milli": 4000, "profile": "seed", "learning": false}
        {"type": "pod_added", "at_ms": 5, "uid": "a", "workload": "w", "min_milli": 100,
         "max_milli": 2000, "weight": 1.5, "limit_milli": 500, "request_milli": 400}
        {"type": "sample", "at_ms": 10, "uid": "a", "usage_usec": 0, "throttled_usec": 0,
         "nr_periods": 0, "nr_throttled": 0, "stalled_usec": 0}
        {"type": "table_restored", "at_ms": 15, "workload": "w", "saved_hex": "7b7d"}
        {"type": "capacity", "at_ms": 20, "capacity_milli": 2000}
        {"type": "applied", "at_ms": 30, "uid": "a"}
        {"type": "latency", "at_ms": 40, "uid": "a", "missed": true}
        {"type": "latency", "at_ms": 40, "uid": "b", "missed": false}
        {"type": "tick", "at_ms": 50, "loop": "slow"}
        {"type": "pod_added", "at_ms": 55, "uid": "a", "workload": "w", "min_milli": 200,
         "max_milli": 2000, "limit_milli": 600}
        {"type": "pod_removed", "at_ms": 60, "uid": "a"}
        {"type": "tick", "at_ms": 60, "loop": "slow"}
    "#;
    let mut command = walras(&["replay", "-"]);
    command.write_stdin(facts.replace(",\n         ", ", "));
    let text = stdout_of(command);
    assert!(text.contains("note: b: not here, so nothing was done with it\n"), "{text}");
    assert!(text.contains("note: w: its learned table was refused, starts afresh: "), "{text}");
    assert!(text.contains("note: a: was here already, starts afresh\n"), "{text}");
    // From 5 to 60 ms: a pod that comes again is no other one.
    assert!(text.lines().last().unwrap().starts_with("2 ticks, "), "{text}");
}
