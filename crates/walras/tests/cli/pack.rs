//! `walras sim run --pack`: a small town as a table, as JSON and as a page, and what is refused.

use serde_json::Value;

use crate::{refusal_of, stdout_of, walras};

const SMALL: [&str; 7] = ["sim", "run", "--pack", "--nodes", "3", "--days", "1"];

fn run(arguments: &[&str]) -> String {
    stdout_of(walras(&[&SMALL[..], arguments].concat()))
}

fn refused(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = refusal_of(walras(&[&["sim", "run"], arguments].concat()));
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}\n{stderr}");
    stderr
}

#[test]
fn a_town_is_told_in_a_sentence_a_table_and_comparisons() {
    let text = run(&["--policy", "vpa,walras-shared,declared"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("town: services, risers, jobs and idle pods"), "{text}");
    assert!(lines[0].contains("1 day after a week of history, seed 1."), "{text}");
    assert!(lines[2].starts_with("policy  ") && lines[3].starts_with("-----"), "{text}");
    for policy in ["vpa ", "walras-shared ", "declared "] {
        let row = lines[4..].iter().find(|line| line.starts_with(policy));
        assert!(row.is_some_and(|row| row.contains("by default")), "{policy}: {text}");
    }
    assert!(text.contains("\nwalras-shared beside declared: "), "{text}");
}

#[test]
fn programs_get_exactly_the_promised_keys_on_any_number_of_threads() {
    let json = |threads| run(&["--policy", "declared,vpa", "--json", "--threads", threads]);
    let text = json("1");
    assert_eq!(text, json("2"));
    let document: Value = serde_json::from_str(&text).unwrap();
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(
        keys(&document),
        ["comparisons", "days", "node_cores", "pods", "policies", "seed", "town", "workloads"]
    );
    let policy = &document["policies"][1];
    assert_eq!(keys(policy), ["default_percent", "policy", "settings"]);
    assert_eq!(
        keys(&policy["settings"][0]),
        [
            "batch_core_hours",
            "bound_nodes",
            "broken_ratio",
            "broken_worst_ratio",
            "changes_per_pod_hour",
            "missed_ratio",
            "missed_worst_ratio",
            "moves_per_pod_hour",
            "nodes",
            "nodes_most",
            "percent",
            "risers_broken_ratio",
            "slack_ratio"
        ]
    );
    let compared = document["comparisons"].as_array().unwrap();
    assert_eq!(compared.len(), 2);
    assert_eq!(
        keys(&compared[0]),
        ["at_broken_ratio", "fewer_than_best_ratio", "fewer_than_default_ratio", "policy", "rival"]
    );
}

#[test]
fn a_report_has_the_frontier_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes.html");
    run(&["--policy", "declared,percentile", "--report", path.to_str().unwrap()]);
    let page = std::fs::read_to_string(&path).unwrap();
    let picture = page.find("Nodes against broken rights").unwrap();
    assert!(picture < page.find("<tbody>").unwrap());
    assert!(page.contains(">percentile</text>") && page.ends_with("</html>\n"));
}

#[test]
fn services_follow_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.txt");
    std::fs::write(&path, "10\n".repeat(300) + &"30\n".repeat(300)).unwrap();
    let path = path.to_str().unwrap();
    let told = |more: &[&str]| run(&[&["--policy", "declared", "--json"], more].concat());
    assert_ne!(told(&["--trace", path]), told(&[]));
    assert_eq!(told(&["--trace", path]), told(&["--trace", path]));
    std::fs::write(path, "10\nmany\n").unwrap();
    let stderr = refused(&["--pack", "--trace", path, "--trace", "nowhere.csv"]);
    assert!(stderr.contains("requests.txt: line 2, ") && stderr.contains("\"many\""), "{stderr}");
    assert!(stderr.contains("nowhere.csv: "), "{stderr}");
}

#[test]
fn what_does_not_go_with_packing_is_refused() {
    assert_eq!(
        refused(&["--pack", "twon", "--policy", "vpaa"]),
        "error: there is no town \"twon\"; did you mean town? known are town, town-train\n\
         there is no policy \"vpaa\"; did you mean vpa? known are declared, vpa, percentile, \
         cruisekube, walras, walras-shared, oracle\n"
    );
    assert!(refused(&["--pack", "town", "town"]).contains("there is one town"));
    assert!(refused(&["--pack", "--nodes", "20001"]).contains("at most 20000"));
    for arguments in [&["--pack", "--hours", "1"][..], &["--days", "2"], &["--memory"]] {
        assert!(refused(arguments).contains("--pack"), "{arguments:?}");
    }
    assert!(refused(&["--pack", "--days", "61"]).contains("61"));
}
