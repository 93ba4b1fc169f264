//! Bad input: every case of the fixtures, with its exact message; and input too large to be held.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;

use crate::{refusal_of, walras};

/// Runs every case of a fixture: `case COMMAND NAME`, input, dashes, what is complained of.
fn check(fixture: &str, arguments: &[&str]) -> usize {
    let mut cases = 0;
    for case in fixture.split("\ncase ").skip(1) {
        let (title, case) = case.split_once('\n').expect("a title");
        let case = format!("\n{case}");
        let (input, rest) = case.split_once("\n----\n").expect("a line of dashes");
        let input = input.trim_start_matches('\n');
        let expected = rest.split("\n\n").next().expect("what is expected").trim_end();
        let mut command = walras(arguments);
        // The text ends as files do.
        command.write_stdin(if input.is_empty() { String::new() } else { format!("{input}\n") });
        let (code, stdout, stderr) = refusal_of(command);
        assert_eq!(stderr.trim_end(), expected, "{title}\n{input}");
        assert_eq!(code, Some(2), "{title}");
        if arguments[0] == "clear" {
            assert_eq!(stdout, "", "{title}");
        }
        cases += 1;
    }
    cases
}

#[test]
fn every_bad_market_is_refused_with_its_exact_message() {
    assert!(check(include_str!("../../testdata/refused_clear.txt"), &["clear"]) >= 20);
}

#[test]
fn every_bad_fact_is_refused_with_its_exact_message() {
    let arguments = ["replay", "--json", "-"];
    assert!(check(include_str!("../../testdata/refused_replay.txt"), &arguments) >= 10);
}

#[test]
fn a_bad_market_is_refused_the_same_way_for_people_and_programs() {
    for arguments in [&["clear", "--json"][..], &["clear", "--fairness", "nash"]] {
        let mut command = walras(arguments);
        command.write_stdin("{}");
        let (code, stdout, stderr) = refusal_of(command);
        assert_eq!((code, stdout.as_str()), (Some(2), ""));
        assert!(stderr.starts_with("error: standard input: 2 problems\n"), "{stderr}");
    }
}

#[test]
fn a_file_is_named_in_the_message() {
    let (code, stdout, stderr) = refusal_of(walras(&["clear", "Cargo.toml"]));
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.starts_with("error: Cargo.toml: "), "{stderr}");
    let (code, _, stderr) = refusal_of(walras(&["replay", "no/such/file"]));
    assert_eq!(code, Some(2));
    assert_eq!(
        stderr,
        "error: no/such/file: cannot be read: No such file or directory (os error 2)\n"
    );
    let (code, _, stderr) = refusal_of(walras(&["clear", "examples"]));
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with("error: examples: cannot be read: "), "{stderr}");
}

#[test]
fn after_twenty_problems_the_rest_is_counted() {
    let mut command = walras(&["clear"]);
    command.write_stdin(format!(
        "{{\"capacity_milli\": 1, \"pods\": [{}]}}",
        vec![r#"{"uid": "", "demand": 0, "min_milli": 1, "max_milli": 2}"#; 1000].join(",")
    ));
    let (code, _, stderr) = refusal_of(command);
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with("error: standard input: 1000 problems\n"), "{stderr}");
    assert!(stderr.ends_with("\n  and 980 more\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 22);
}

#[test]
fn a_line_above_the_limit_is_refused_without_being_read_whole() {
    let mut command = walras(&["replay", "--json", "-"]);
    let config = "{\"type\": \"config\", \"capacity_milli\": 4000}\n";
    command.write_stdin(format!("{config}{}", "x".repeat((1 << 20) + 1)));
    let (code, stdout, stderr) = refusal_of(command);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert_eq!(stderr, "error: standard input: line 2: longer than 1048576 bytes\n");
}

/// Feeds a gigabyte of zeros, and counts how much of it the program wanted.
#[test]
fn a_gigabyte_of_garbage_fails_at_its_first_bad_byte() {
    const GIGABYTE: usize = 1 << 30;
    const PIECE: usize = 1 << 16;
    for arguments in [&["clear"][..], &["replay", "-"]] {
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("walras"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let garbage = [0xFF; PIECE];
        let taken = (0..GIGABYTE / PIECE).take_while(|_| stdin.write_all(&garbage).is_ok()).count();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(output.stdout, b"");
        assert!(taken < 64, "{} KiB were taken", taken * PIECE / 1024);
    }
}

/// The system's own endless file, where there is one.
#[test]
fn an_endless_file_is_refused() {
    let Ok(mut zero) = File::open("/dev/zero") else {
        return;
    };
    zero.read_exact(&mut [1]).unwrap();
    let (code, stdout, stderr) = refusal_of(walras(&["clear", "/dev/zero"]));
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.starts_with("error: /dev/zero: not JSON: expected value"), "{stderr}");
    let (code, _, stderr) = refusal_of(walras(&["replay", "/dev/zero"]));
    assert_eq!(code, Some(2));
    assert_eq!(stderr, "error: /dev/zero: line 1: longer than 1048576 bytes\n");
}
