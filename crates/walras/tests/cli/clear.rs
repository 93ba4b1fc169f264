//! `walras clear`: the example as text and as JSON, where the input comes from, and large markets.

use std::fmt::Write;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::{stdout_of, walras};

const EXAMPLE: &str = "examples/market.json";

fn clear_json(market: &str) -> Value {
    let mut command = walras(&["clear", "--json"]);
    command.write_stdin(market.to_owned());
    serde_json::from_str(&stdout_of(command)).expect("the output is JSON")
}

/// A market of `pods` pods that want more than there is.
fn large_market(pods: u64) -> String {
    let mut text = format!("{{\"capacity_milli\": {}, \"pods\": [\n", pods * 200);
    for pod in 0..pods {
        let end = if pod + 1 == pods { "]}" } else { "," };
        // Not in uid order, and with different weights and needs.
        let uid = pod.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (weight, usage) = (1 + pod % 7, 50 + pod % 401);
        writeln!(
            text,
            "{{\"uid\":\"pod-{uid:016x}\",\"demand\":0.{},\"min_milli\":50,\"max_milli\":1000,\
             \"weight\":{weight},\"usage_milli\":{usage}}}{end}",
            pod % 10,
        )
        .expect("there is memory");
    }
    text
}

#[test]
fn the_example_is_told_in_a_sentence_a_table_and_a_line_of_totals() {
    let text = stdout_of(walras(&["clear", EXAMPLE]));
    assert_eq!(text, include_str!("../../testdata/market.txt"));
}

#[test]
fn the_example_by_the_documents_rules_is_told_too() {
    let text = stdout_of(walras(&["clear", EXAMPLE, "--profile", "seed"]));
    assert_eq!(text, include_str!("../../testdata/market_seed.txt"));
}

#[test]
fn the_example_is_told_as_json() {
    let text = stdout_of(walras(&["clear", EXAMPLE, "--json"]));
    assert_eq!(text, include_str!("../../testdata/market.json"));
}

#[test]
fn the_same_file_gives_the_same_bytes() {
    for arguments in [&["clear", EXAMPLE][..], &["clear", "--json", EXAMPLE]] {
        assert_eq!(stdout_of(walras(arguments)), stdout_of(walras(arguments)));
    }
}

#[test]
fn standard_input_is_read_by_default_and_by_name() {
    let file = std::fs::read_to_string("../../examples/market.json").unwrap();
    for arguments in [&["clear"][..], &["clear", "-"]] {
        let mut command = walras(arguments);
        command.write_stdin(file.clone());
        assert_eq!(stdout_of(command), include_str!("../../testdata/market.txt"));
    }
}

#[test]
fn pods_come_back_in_the_order_of_the_input_and_only_with_the_promised_keys() {
    let output = clear_json(
        r#"{"pods": [
            {"uid": "z", "demand": 1, "min_milli": 0, "max_milli": 500},
            {"uid": "a", "demand": 1, "min_milli": 0, "max_milli": 500}
        ], "capacity_milli": 501}"#,
    );
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        keys(&output),
        [
            "capacity_milli",
            "mode",
            "multiplier",
            "pods",
            "shadow_price",
            "total_allocation_milli",
            "total_min_milli",
            "total_need_milli"
        ]
    );
    let pod = &output["pods"][0];
    let promised = [
        "allocation_milli",
        "cut_ratio",
        "lent_milli",
        "need_from",
        "need_milli",
        "reason",
        "reduction_ratio",
        "uid",
    ];
    assert_eq!(keys(pod), promised);
    let allocations: Vec<(&str, u64)> = output["pods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| (pod["uid"].as_str().unwrap(), pod["allocation_milli"].as_u64().unwrap()))
        .collect();
    // The odd millicore goes to the first in uid order, wherever that stands.
    assert_eq!(allocations, [("z", 250), ("a", 251)]);
}

#[test]
fn by_default_a_modest_pod_is_served_and_an_idle_one_lends_its_right() {
    let market = r#"{"capacity_milli": 2000, "pods": [
        {"uid": "modest", "demand": 0, "min_milli": 100, "max_milli": 2000, "usage_milli": 400},
        {"uid": "greedy", "demand": 1, "min_milli": 100, "max_milli": 4000, "weight": 0.5,
         "usage_milli": 3500},
        {"uid": "idle", "demand": 0, "min_milli": 1800, "max_milli": 2000, "usage_milli": 10}
    ]}"#;
    let cleared = |flags: &[&str]| {
        let mut command = walras(&[&["clear", "--json"], flags].concat());
        command.write_stdin(market);
        let output: Value = serde_json::from_str(&stdout_of(command)).unwrap();
        let pods = output["pods"].as_array().unwrap().clone();
        pods.iter().map(|pod| pod["allocation_milli"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(cleared(&[]), [440, 1550, 10]);
    assert_eq!(cleared(&["--profile", "api"]), cleared(&[]));
    // By the documents the idle one keeps its 1800m, and nobody else has more than its min.
    assert_eq!(cleared(&["--profile", "seed"]), [100, 100, 1800]);
}

#[test]
fn the_flag_overrides_the_file() {
    // Nash gives the small claim all it wants; proportional cuts both alike.
    let market = |fairness: &str| {
        format!(
            r#"{{"capacity_milli": 1000, "fairness": "{fairness}", "pods": [
                {{"uid": "a", "demand": 0, "min_milli": 0, "max_milli": 2000, "need_milli": 1500}},
                {{"uid": "b", "demand": 0, "min_milli": 0, "max_milli": 2000, "need_milli": 500}}
            ]}}"#
        )
    };
    let check = |file: &str, flag: &[&str]| {
        let arguments = [&["clear", "--json"], flag].concat();
        let mut command = walras(&arguments);
        command.write_stdin(market(file));
        let output: Value = serde_json::from_str(&stdout_of(command)).unwrap();
        output["pods"][1]["allocation_milli"].as_u64().unwrap()
    };
    assert_eq!(check("proportional", &[]), 250);
    assert_eq!(check("nash", &[]), 500);
    assert_eq!(check("proportional", &["--fairness", "nash"]), 500);
    assert_eq!(check("nash", &["--fairness", "proportional"]), 250);
}

#[test]
fn a_market_of_two_hundred_thousand_pods_is_cleared_to_the_last_millicore() {
    let pods = 200_000;
    let output = clear_json(&large_market(pods));
    assert_eq!(output["mode"], "congested");
    let sum = |key: &str| -> u64 {
        output["pods"].as_array().unwrap().iter().map(|pod| pod[key].as_u64().unwrap()).sum()
    };
    assert_eq!(output["pods"].as_array().unwrap().len(), 200_000);
    assert_eq!(sum("allocation_milli"), pods * 200);
    assert_eq!(output["total_allocation_milli"], pods * 200);
    assert_eq!(output["total_need_milli"], sum("need_milli"));
    assert_eq!(output["total_min_milli"], pods * 50);
}

#[test]
fn every_pod_of_a_large_market_has_a_row() {
    let mut command = walras(&["clear"]);
    command.write_stdin(large_market(3000));
    let text = stdout_of(command);
    assert_eq!(text.lines().filter(|line| line.starts_with("pod-")).count(), 3000);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("market.json");
    std::fs::write(&file, large_market(20_000)).unwrap();
    for flag in [&["--json"][..], &[]] {
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("walras"))
            .arg("clear")
            .arg(&file)
            .args(flag)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure_of_another_kind() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        return;
    };
    let output = std::process::Command::new(assert_cmd::cargo::cargo_bin!("walras"))
        .args(["clear", "../../examples/market.json"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.starts_with("error: the output cannot be written: "), "{stderr}");
}

#[test]
fn colours_are_forced_only_by_those_who_ask() {
    let mut command = walras(&["clear", EXAMPLE]);
    command.env("CLICOLOR_FORCE", "1");
    assert!(stdout_of(command).contains('\u{1b}'));
    let mut command = walras(&["clear", EXAMPLE]);
    command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1");
    assert!(!stdout_of(command).contains('\u{1b}'));
    assert!(!stdout_of(walras(&["clear", EXAMPLE])).contains('\u{1b}'));
}
