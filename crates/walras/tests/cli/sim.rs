//! `walras sim`: a tiny scenario as a table, as JSON and as a page, what can be listed, and what is
//! refused.

use serde_json::Value;

use crate::{refusal_of, stdout_of, walras};

const TINY: &str = "crates/walras/testdata/tiny.toml";
const DEFAULT_POLICIES: [&str; 8] =
    ["static", "weights", "vpa", "koordinator", "autothrottle", "walras", "walras-api", "oracle"];

fn json_of(arguments: &[&str]) -> Value {
    let text = stdout_of(walras(&[&["sim", "run", "--json"], arguments].concat()));
    serde_json::from_str(&text).expect("the output is JSON")
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn refused(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = refusal_of(walras(&[&["sim", "run"], arguments].concat()));
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}\n{stderr}");
    stderr
}

#[test]
fn scenarios_and_policies_are_listed() {
    let text = stdout_of(walras(&["sim", "list"]));
    assert_eq!(text, include_str!("../../testdata/sim_list.txt"));
}

#[test]
fn the_list_for_programs_has_the_same_scenarios_and_policies() {
    let list: Value = serde_json::from_str(&stdout_of(walras(&["sim", "list", "--json"]))).unwrap();
    assert_eq!(keys(&list), ["policies", "scenarios"]);
    let scenarios = list["scenarios"].as_array().unwrap();
    assert_eq!(keys(&scenarios[0]), ["about", "hours", "name", "pods", "suite"]);
    let policies = list["policies"].as_array().unwrap();
    assert_eq!(keys(&policies[0]), ["about", "name"]);
    let text = include_str!("../../testdata/sim_list.txt");
    for entry in scenarios.iter().chain(policies) {
        let (name, about) = (entry["name"].as_str().unwrap(), entry["about"].as_str().unwrap());
        let listed = |line: &str| line.starts_with(&format!("{name} ")) && line.ends_with(about);
        assert!(text.lines().any(listed), "{name}");
    }
}

#[test]
fn a_scenario_is_told_in_a_sentence_a_table_and_a_comparison() {
    let text = stdout_of(walras(&["sim", "run", TINY]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "tiny: A service and a job, for a minute. 1 node of 2 cores with 2 pods, 1 minute, seed 11."
    );
    assert!(lines[3].starts_with("policy  ") && lines[4].starts_with("-----"), "{text}");
    for (line, policy) in lines[5..].iter().zip(DEFAULT_POLICIES) {
        assert!(line.starts_with(&format!("{policy} ")), "{line}");
    }
    let autothrottle = lines.iter().find(|line| line.starts_with("autothrottle")).unwrap();
    assert!(autothrottle.starts_with("autothrottle (target 0"), "{autothrottle}");
    let last = lines.last().unwrap();
    assert!(last.starts_with("walras: ") && last.contains("; the best rival by violations, "));
}

#[test]
fn everybody_can_take_part() {
    let document = json_of(&[TINY, "--policy", "all", "--hours", "0.003"]);
    let policies = document["scenarios"][0]["policies"].as_array().unwrap();
    let list: Value = serde_json::from_str(&stdout_of(walras(&["sim", "list", "--json"]))).unwrap();
    let known = list["policies"].as_array().unwrap().iter().map(|policy| &policy["name"]);
    assert_eq!(
        policies.iter().map(|policy| &policy["policy"]).collect::<Vec<_>>(),
        known.collect::<Vec<_>>()
    );
}

#[test]
fn without_the_market_nothing_is_compared() {
    let text = stdout_of(walras(&["sim", "run", TINY, "--policy", "static,none"]));
    assert!(!text.contains("rival") && !text.contains("walras"), "{text}");
}

#[test]
fn programs_get_exactly_the_promised_keys() {
    let document = json_of(&[TINY, "--policy", "walras,static,oracle"]);
    assert_eq!(keys(&document), ["scenarios"]);
    let scenario = &document["scenarios"][0];
    assert_eq!(keys(scenario), ["name", "policies", "seed"]);
    assert_eq!((&scenario["name"], &scenario["seed"]), (&Value::from("tiny"), &Value::from(11)));
    let policies = scenario["policies"].as_array().unwrap();
    let names: Vec<&str> =
        policies.iter().map(|policy| policy["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["walras", "static", "oracle"]);
    for policy in policies {
        assert_eq!(
            keys(policy),
            [
                "batch_completion_s",
                "core_hours",
                "jain_index",
                "latency_p50_ms",
                "latency_p95_ms",
                "latency_p99_ms",
                "policy",
                "reaction_s",
                "request_core_hours",
                "resizes_per_pod_hour",
                "slack_ratio",
                "slo_violation_minutes",
                "throttled_period_ratio",
                "used_core_hours",
                "vs_oracle"
            ]
        );
    }
    let oracle = policies[2]["core_hours"].as_f64().unwrap();
    let ratio = policies[1]["core_hours"].as_f64().unwrap() / oracle;
    assert_eq!(policies[1]["vs_oracle"], Value::from(ratio));
    assert_eq!(policies[2]["vs_oracle"], Value::from(1.0));
}

#[test]
fn what_is_not_there_is_null() {
    let document = json_of(&["idle", "--policy", "static", "--hours", "0.01"]);
    let policy = &document["scenarios"][0]["policies"][0];
    assert_eq!(policy["vs_oracle"], Value::Null);
    assert_eq!(policy["batch_completion_s"], Value::Null);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let run = |threads: &str, nodes: &str| {
        let arguments = ["sim", "run", TINY, "--json", "--threads", threads, "--nodes", nodes];
        stdout_of(walras(&arguments))
    };
    for nodes in ["1", "3"] {
        assert_eq!(run("1", nodes), run("2", nodes));
    }
}

#[test]
fn the_command_line_overrules_the_scenario() {
    let arguments = ["sim", "run", TINY, "--policy", "static"];
    let overruled = ["--hours", "0.01", "--nodes", "2", "--seed", "5"];
    let text = stdout_of(walras(&[&arguments[..], &overruled].concat()));
    let first = text.lines().next().unwrap();
    assert!(
        first.ends_with(" 2 nodes of 2 cores with 2 pods each, 36 seconds, seed 5."),
        "{first}"
    );
}

#[test]
fn without_a_scenario_those_for_judging_are_run() {
    let arguments = ["sim", "run", "--policy", "static", "--hours", "0.001", "--json"];
    let output = walras(&arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        stderr,
        "no scenario was given, so these are run: steady, bursty, periodic, ramp, storms\n"
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["scenarios"].as_array().unwrap().len(), 5);
}

#[test]
fn a_trace_is_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.txt");
    std::fs::write(&path, "10\n20\n30\n").unwrap();
    let path = path.to_str().unwrap();
    let document = json_of(&["--trace", path, "--trace", path, "--policy", "static"]);
    assert_eq!(document["scenarios"][0]["name"], "traces");
    let document = json_of(&[TINY, "--trace", path, "--policy", "static"]);
    assert_eq!(document["scenarios"].as_array().unwrap().len(), 2);
}

#[test]
fn a_trace_is_read_as_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.txt");
    std::fs::write(&path, "50\n150\n").unwrap();
    let path = path.to_str().unwrap();
    let request_core_hours = |more: &[&str]| {
        let run = ["--trace", path, "--policy", "static", "--hours", "0.01"];
        let document = json_of(&[&run[..], more].concat());
        document["scenarios"][0]["policies"][0]["request_core_hours"].as_f64().unwrap() / 0.01
    };
    // The mean is 100 requests of 10 ms a second, and 100 % of a core.
    assert!((request_core_hours(&["--trace-format", "percent"]) - 1.0).abs() < 1e-9);
    assert!((request_core_hours(&[]) - 1.0).abs() < 1e-9);
    let run = |more: &[&str]| {
        let arguments = ["sim", "run", "--trace", path, "--policy", "static", "--hours", "0.01"];
        stdout_of(walras(&[&arguments[..], more].concat()))
    };
    assert_ne!(run(&["--trace-format", "percent"]), run(&["--trace-format", "requests"]));
    let stderr = refused(&["--trace", path, "--trace-format", "google"]);
    assert!(stderr.contains("usage.txt: line 1: the header has no column"), "{stderr}");
    let stderr = refused(&[TINY, "--trace-format", "percent"]);
    assert!(stderr.contains("--trace <FILE>"), "{stderr}");
}

#[test]
fn the_scenario_in_the_help_can_be_run() {
    let help = stdout_of(walras(&["sim", "run", "--help"]));
    let from = help.find("  name = \"mine\"").unwrap();
    let example = &help[from..help.find("\nA trace becomes").unwrap()];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, example).unwrap();
    let arguments = [path.to_str().unwrap(), "--policy", "static", "--hours", "0.01"];
    assert_eq!(json_of(&arguments)["scenarios"][0]["name"], "mine");
}

#[test]
fn a_report_is_one_page_that_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.html");
    let report = path.to_str().unwrap();
    let told = stdout_of(walras(&["sim", "run", TINY, "--report", report]));
    assert_eq!(told, stdout_of(walras(&["sim", "run", TINY])));
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for policy in DEFAULT_POLICIES {
        assert!(page.contains(&format!(">{policy}</text>")), "{policy}");
        assert!(page.contains(&format!("CPU over time under {policy}\"")), "{policy}");
    }
    assert!(page.contains("<svg") && page.contains("<summary>web &lt;&amp;&quot;&gt;</summary>"));
    assert!(!page.contains("http://") && !page.contains("https://"));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_report_is_the_same_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let page = |threads: &str| {
        let path = folder.path().join(threads);
        let report = path.to_str().unwrap();
        let arguments = ["sim", "run", TINY, "--policy", "walras,vpa,static"];
        stdout_of(walras(&[&arguments[..], &["--threads", threads, "--report", report]].concat()));
        std::fs::read_to_string(&path).unwrap()
    };
    assert_eq!(page("1"), page("2"));
}

#[test]
fn unknown_names_are_refused_with_a_suggestion_and_the_list() {
    assert_eq!(
        refused(&["stedy", "--policy", "static,wallras"]),
        "error: there is no scenario \"stedy\"; did you mean steady? known are steady, bursty, \
         periodic, ramp, storms, steady-train, bursty-train, periodic-train, ramp-train, \
         storms-train, crowd-train, neighbour-train, rollout-train, idle, stampede, tenants, \
         greedy, twins, jobs, fleet, packed, packed-few, busy, dense-4, dense-8, dense-16, relay, \
         spikes, landlord, squatter, risers, refill, mix, unmanaged\n\
         there is no policy \"wallras\"; did you mean walras? known are static, none, weights, \
         even, vpa, koordinator, koordinator-be, autothrottle, cruisekube, mbcas, walras, \
         walras-api, walras-tight, walras-guard-5, walras-guard-2, walras-learning, \
         walras-api-learning, walras-proportional, walras-api-proportional, oracle\n"
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    for hours in ["0", "-1", "721", "NaN", "one"] {
        let stderr = refused(&[TINY, &format!("--hours={hours}")]);
        assert!(stderr.contains("must be a number above 0 and at most 720"), "{stderr}");
    }
    for (option, value) in [("--nodes", "0"), ("--nodes", "100001"), ("--threads", "0")] {
        let stderr = refused(&[TINY, option, value]);
        assert!(stderr.contains(option) && stderr.contains(value), "{stderr}");
    }
}

#[test]
fn bad_files_are_refused_with_what_is_wrong() {
    let stderr = refused(&["nowhere.toml", "--trace", "nowhere.csv"]);
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].starts_with("error: nowhere.toml: "), "{stderr}");
    assert!(lines[1].starts_with("nowhere.csv: "), "{stderr}");
    let stderr = refused(&["./Cargo.toml"]);
    assert!(stderr.starts_with("error: ./Cargo.toml: ") && stderr.contains("name"), "{stderr}");
    let stderr = refused(&["--trace", "LICENSE"]);
    assert!(stderr.starts_with("error: LICENSE: "), "{stderr}");
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_run() {
    let stderr = refused(&[TINY, "--report", "crates"]);
    assert_eq!(stderr, "error: crates: is a folder; give the name of a file\n");
    let stderr = refused(&[TINY, "--report", "nowhere/page.html"]);
    assert_eq!(stderr, "error: nowhere/page.html: there is no folder nowhere\n");
}

#[test]
fn memory_is_told_where_a_pod_says_what_it_takes_and_grows_with_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.toml");
    let pod = |limit: &str| {
        format!(
            "name = 'memory'\nabout = 'Too much to do.'\nminutes = 1\ncores = 2\n[[pod]]\n\
             name = 'web'\nrequest = '100m'\nlimit = '{limit}'\n\
             memory = {{ base_mib = 100, per_request_mib = 2 }}\n\
             service = {{ cost_ms = 10, rate = {{ constant = 50 }} }}\n"
        )
    };
    let mut peaks = Vec::new();
    for limit in ["2", "300m"] {
        std::fs::write(&path, pod(limit)).unwrap();
        let document = json_of(&[path.to_str().unwrap(), "--policy", "static"]);
        let policy = &document["scenarios"][0]["policies"][0];
        let (peak, mean) = (&policy["memory_peak_mib"], &policy["memory_mean_mib"]);
        let (peak, mean) = (peak.as_f64().unwrap(), mean.as_f64().unwrap());
        assert!(100.0 < mean && mean < peak, "{mean} {peak}");
        peaks.push(peak);
    }
    // 0.3 of the 0.5 cores that are wanted leave 20 requests waiting every second.
    assert!(peaks[0] < 150.0 && peaks[1] > 2000.0, "{peaks:?}");
}
