//! `walras vm goal`: the example as text and as JSON, and what is refused.

use crate::{refusal_of, stdout_of, walras};

const EXAMPLE: &str = "examples/vm.json";

#[test]
fn the_example_is_told_in_a_sentence_and_its_parts() {
    // 1.25 over 0.9 over 0.25 is 5.6, so 6; 2560 + 100 MiB over 0.75 are 3547, so 4.
    assert_eq!(
        stdout_of(walras(&["vm", "goal", EXAMPLE])),
        "It should grow to 1500m and 6 GiB: 6 units of 250m and 1 GiB for its load.\n  \
         6 units by load average (1.25)\n  \
         4 units by memory in use\n"
    );
}

#[test]
fn the_example_is_told_as_json() {
    let text = stdout_of(walras(&["vm", "goal", "--json", EXAMPLE]));
    let told: serde_json::Value = serde_json::from_str(&text).expect("the output is JSON");
    let expected = serde_json::json!({
        "goal": {"cpu": "1500m", "memory": "6Gi"},
        "units": 6,
        "decided_by": "cpu",
        "bounded": false,
        "refused": false,
        "load": 1.25,
        "parts": {
            "cpu": 6, "memory": 4, "memory_total": null, "working_set": null, "requested": null
        },
    });
    assert_eq!(told, expected);
}

#[test]
fn a_machine_that_makes_no_sense_is_refused_with_its_field() {
    let mut command = walras(&["vm", "goal"]);
    let example = std::fs::read_to_string("../../examples/vm.json").unwrap();
    command.write_stdin(example.replace("1.25", "-1"));
    let (code, stdout, stderr) = refusal_of(command);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("standard input: metrics.load1: -1 is not a load average"), "{stderr}");
}

#[test]
fn what_bounds_and_refusals_make_of_it_is_said() {
    let example = std::fs::read_to_string("../../examples/vm.json").unwrap();
    let told = |json: String| {
        let mut command = walras(&["vm", "goal", "-"]);
        command.write_stdin(json);
        stdout_of(command).lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        told(example.replace("1.25", "90")),
        "It should grow to 2000m and 8 GiB: 400 units of 250m and 1 GiB for its load, brought \
         within 250m and 1 GiB to 2000m and 8 GiB."
    );
    let denied = "\"denied\": {\"cpu\": \"750m\", \"memory\": \"3Gi\"}, \"metrics\"";
    let idle = example.replace("1.25", "0.1").replace("1536Mi", "4Gi");
    assert_eq!(
        told(idle.replace("\"metrics\"", denied)),
        "It should stay at 1000m and 4 GiB: 1 unit of 250m and 1 GiB for its memory in use, held \
         up by what the guest refused to give up."
    );
}
