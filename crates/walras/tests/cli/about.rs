//! What the program tells about itself: help, version, schemas, completions, man pages, constants.

use serde_json::Value;

use crate::{refusal_of, stdout_of, walras};

#[test]
fn the_help_of_every_command_has_an_example() {
    for command in [
        &[][..],
        &["demo"],
        &["clear"],
        &["replay"],
        &["sim"],
        &["sim", "run"],
        &["sim", "list"],
        &["brain"],
        &["brain", "train"],
        &["brain", "eval"],
        &["brain", "inspect"],
        &["brain", "import"],
        &["brain", "score"],
        &["brain", "serve"],
        &["profiles"],
        &["vm"],
        &["vm", "goal"],
        &["crds"],
        &["completions"],
        &["agent"],
        &["controller"],
        &["scheduler"],
        &["telemetry"],
    ] {
        let help = stdout_of(walras(&[command, &["--help"]].concat()));
        assert!(help.contains("Examples:\n  walras "), "{command:?}\n{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{command:?}\n{help}");
    }
}

#[test]
fn examples_in_help_name_files_that_exist() {
    for command in [&[][..], &["clear"], &["replay"], &["vm", "goal"]] {
        let help = stdout_of(walras(&[command, &["--help"]].concat()));
        let mut files = help.split_whitespace().filter(|word| word.starts_with("examples/"));
        assert!(files.clone().next().is_some(), "{help}");
        assert!(files.all(|file| std::path::Path::new("../..").join(file).is_file()), "{help}");
    }
}

#[test]
fn exit_codes_are_in_the_help() {
    for command in [&[][..], &["clear"], &["replay"], &["sim"], &["sim", "run"]] {
        let help = stdout_of(walras(&[command, &["-h"]].concat()));
        assert!(help.contains("Exit codes:\n  0  fine\n"), "{help}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [&["clera"][..], &["replay"], &["clear", "--fairness", "equal"], &[]] {
        let (code, stdout, stderr) = refusal_of(walras(arguments));
        assert_eq!(code, Some(2), "{arguments:?}");
        assert_eq!(stdout, "", "{arguments:?}");
        assert_ne!(stderr, "", "{arguments:?}");
    }
}

#[test]
fn the_version_names_the_commit() {
    let text = stdout_of(walras(&["--version"]));
    let version = concat!("walras ", env!("CARGO_PKG_VERSION"), " (");
    let commit = text.trim_end().strip_prefix(version).and_then(|rest| rest.strip_suffix(')'));
    let commit = commit.unwrap_or_else(|| panic!("{text}"));
    let is_hash = commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hash || commit == "unknown", "{text}");
}

fn schema(command: &str) -> Value {
    serde_json::from_str(&stdout_of(walras(&[command, "--schema"]))).expect("a schema is JSON")
}

/// Checks `value` against the parts of JSON Schema that ours use.
fn check(schema: &Value, root: &Value, value: &Value, path: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let definition = root.pointer(reference.trim_start_matches('#')).expect("a definition");
        return check(definition, root, value, path);
    }
    if let Some(all) = schema["oneOf"].as_array() {
        let fitting = all.iter().find(|one| one["properties"]["type"]["const"] == value["type"]);
        return check(fitting.unwrap_or_else(|| panic!("{path}")), root, value, path);
    }
    if let Some(properties) = schema["properties"].as_object() {
        let object = value.as_object().unwrap_or_else(|| panic!("{path} is no object"));
        for name in schema["required"].as_array().expect("a list") {
            assert!(object.contains_key(name.as_str().expect("a name")), "{path} lacks {name}");
        }
        assert_eq!(schema["additionalProperties"], false, "{path}");
        for (name, value) in object {
            let property = properties.get(name).unwrap_or_else(|| panic!("{path} has no {name}"));
            check(property, root, value, &format!("{path}.{name}"));
        }
    }
    if let Some(items) = schema.get("items") {
        for (place, value) in value.as_array().expect("a list").iter().enumerate() {
            check(items, root, value, &format!("{path}[{place}]"));
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{path}: {value}");
    }
    for (limit, within) in [
        ("minimum", (|value, limit| value >= limit) as fn(f64, f64) -> bool),
        ("maximum", |value, limit| value <= limit),
    ] {
        if let (Some(limit), Some(number)) = (schema[limit].as_f64(), value.as_f64()) {
            assert!(within(number, limit), "{path}: {number}");
        }
    }
}

#[test]
fn the_example_of_clear_fits_its_schemas() {
    let schema = schema("clear");
    let input = std::fs::read_to_string("../../examples/market.json").unwrap();
    let output = stdout_of(walras(&["clear", "--json", "examples/market.json"]));
    for (side, text) in [("input", input), ("output", output)] {
        let root = &schema[side];
        assert_eq!(root["$schema"], "https://json-schema.org/draft/2020-12/schema");
        check(root, root, &serde_json::from_str(&text).unwrap(), side);
    }
}

#[test]
fn the_example_of_replay_fits_its_schemas() {
    let schema = schema("replay");
    let input = std::fs::read_to_string("../../examples/incident.jsonl").unwrap();
    let output = stdout_of(walras(&["replay", "--json", "examples/incident.jsonl"]));
    for (side, text) in [("input", input), ("output", output)] {
        let root = &schema[side];
        assert_eq!(root["$schema"], "https://json-schema.org/draft/2020-12/schema");
        for (number, line) in text.lines().enumerate() {
            let value = serde_json::from_str(line).unwrap();
            check(root, root, &value, &format!("{side} line {number}"));
        }
    }
}

/// Every property says what it means, apart from the tag that says which fact a line is.
#[test]
fn every_field_of_the_schemas_is_described() {
    fn walk(schema: &Value, path: &str) {
        let parts = [schema["properties"].as_object(), schema["$defs"].as_object()];
        for (name, part) in parts.into_iter().flatten().flatten() {
            let described = part["description"].is_string() || part["const"].is_string();
            assert!(described, "{path}.{name} has no description");
            walk(part, &format!("{path}.{name}"));
        }
        for part in schema["oneOf"].as_array().into_iter().flatten() {
            assert!(part["description"].is_string(), "{path}: {part}");
            walk(part, path);
        }
    }
    for command in ["clear", "replay"] {
        let schema = schema(command);
        walk(&schema["input"], "input");
        walk(&schema["output"], "output");
    }
}

#[test]
fn there_are_completions_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout_of(walras(&["completions", shell]));
        assert!(script.contains("walras") && script.contains("fairness"), "{shell}");
    }
}

#[test]
fn there_is_a_man_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("new").join("man1");
    stdout_of(walras(&["man", "--out", pages.to_str().unwrap()]));
    let mut names: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "walras-actions.1",
            "walras-agent.1",
            "walras-apply.1",
            "walras-brain-eval.1",
            "walras-brain-import.1",
            "walras-brain-inspect.1",
            "walras-brain-score.1",
            "walras-brain-serve.1",
            "walras-brain-train.1",
            "walras-brain.1",
            "walras-certs-init.1",
            "walras-certs-issue.1",
            "walras-certs.1",
            "walras-clear.1",
            "walras-completions.1",
            "walras-controller.1",
            "walras-crds.1",
            "walras-delete.1",
            "walras-demo.1",
            "walras-drain.1",
            "walras-exec.1",
            "walras-explain.1",
            "walras-health.1",
            "walras-host.1",
            "walras-list.1",
            "walras-logs.1",
            "walras-profiles.1",
            "walras-replay.1",
            "walras-scheduler.1",
            "walras-sim-list.1",
            "walras-sim-place.1",
            "walras-sim-run.1",
            "walras-sim-tune.1",
            "walras-sim.1",
            "walras-snapshot.1",
            "walras-status.1",
            "walras-telemetry.1",
            "walras-top.1",
            "walras-vm-goal.1",
            "walras-vm.1",
            "walras.1"
        ]
    );
    let page = std::fs::read_to_string(pages.join("walras-clear.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("examples/market.json"), "{page}");
}

#[test]
fn man_pages_that_cannot_be_written_are_a_failure() {
    let (code, _, stderr) = refusal_of(walras(&["man", "--out", "Cargo.toml/man"]));
    assert_eq!(code, Some(1));
    assert!(
        stderr.starts_with("error: the output cannot be written: Cargo.toml/man: "),
        "{stderr}"
    );
}

#[test]
fn constants_are_listed_for_people_and_programs() {
    let text = stdout_of(walras(&["profiles"]));
    assert!(text.contains("cooldown_ms  (ms; a whole number from 0 to 3600000)\n"), "{text}");
    assert!(text.contains("    seed 5000   direct 0   api 5000   tight 0\n"), "{text}");
    let one = stdout_of(walras(&["profiles", "api"]));
    assert!(one.contains("    api 5000\n") && !one.contains("direct"), "{one}");
    let json: Value = serde_json::from_str(&stdout_of(walras(&["profiles", "--json"]))).unwrap();
    let constants = json.as_array().unwrap();
    let cooldown = constants.iter().find(|constant| constant["key"] == "cooldown_ms").unwrap();
    assert_eq!(cooldown["values"]["seed"], 5000);
    assert_eq!(constants.len(), text.matches("    seed ").count());
}
