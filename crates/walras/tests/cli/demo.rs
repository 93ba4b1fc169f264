//! `walras demo` without cgroups: in the simulator, and what it refuses.

use serde_json::Value;

use crate::{refusal_of, stdout_of, walras};

#[test]
fn a_simulation_says_what_it_is_and_writes_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("page.html");
    let shown = report.display().to_string();
    let text = stdout_of(walras(&["demo", "--simulate", "--report", &shown]));
    assert!(text.starts_with("Simulated, not measured.\n"), "{text}");
    for expected in ["static limits", "market", "web: periods throttled", "batch: work done"] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(text.contains("Under the market, web was throttled in "), "{text}");
    assert!(text.ends_with(&format!("Report: {shown}\n")), "{text}");
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("the market, simulated</h1>"), "{page}");
    for name in ["steady", "web", "batch", "sleeper", "greedy"] {
        assert!(page.contains(&format!("<summary>{name}</summary>")), "{name}");
    }
    assert!(page.contains("Distribution of latencies"), "{page}");
    let again = stdout_of(walras(&["demo", "--simulate", "--report", &shown]));
    assert_eq!(again, text, "the same simulation gives the same figures");
}

#[test]
fn programs_get_json() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("page.html").display().to_string();
    let text = stdout_of(walras(&["demo", "--simulate", "--json", "--report", &report]));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["simulated"], &json["because"]), (&true.into(), &Value::Null));
    assert_eq!(json["seconds_per_phase"], 25);
    assert_eq!(json["report"], *report);
    let phases = json["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 2);
    for (phase, policy) in phases.iter().zip(["static", "walras"]) {
        assert_eq!(phase["policy"], policy);
        assert_eq!(phase["workloads"].as_array().unwrap().len(), 5);
    }
    let throttled = |phase: &Value| phase["web_throttled_period_ratio"].as_f64().unwrap();
    assert!(throttled(&phases[1]) < throttled(&phases[0]) / 2.0, "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_starts() {
    for (arguments, expected) in [
        (&["--seconds", "1"][..], "1 is not in 2..=600"),
        (&["--seconds", "soon"], "invalid value 'soon'"),
        (&["--report", "docs"], "docs: is a folder; give the name of a file"),
        (&["--report", "no/such/page.html"], "there is no folder no/such"),
        (&["--fast"], "unexpected argument '--fast'"),
    ] {
        let (code, stdout, stderr) = refusal_of(walras(&[&["demo"], arguments].concat()));
        assert_eq!(code, Some(2), "{arguments:?}");
        assert_eq!(stdout, "", "{arguments:?}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_workload_without_its_demonstration_ends_at_once() {
    let arguments = ["demo-load", "greedy", "--capacity-milli", "2000", "--seconds", "9"];
    assert_eq!(stdout_of(walras(&arguments)), "");
    let mut started = walras(&arguments);
    started.write_stdin("go\n");
    assert_eq!(stdout_of(started), "");
    let mut other = walras(&["demo-load", "x", "--capacity-milli", "2000", "--seconds", "9"]);
    other.write_stdin("go\n");
    let (code, _, stderr) = refusal_of(other);
    assert_eq!((code, stderr.as_str()), (Some(2), "error: x: there is no such workload\n"));
}
