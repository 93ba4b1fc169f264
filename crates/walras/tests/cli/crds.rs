//! `walras crds`, and the file of the checkout that it prints.

use std::fs;

use serde_json::Value;

use crate::{stdout_of, walras};

const GOLDEN: &str = "deploy/crds/podallocations.yaml";

#[test]
fn the_definition_in_the_checkout_is_the_one_that_is_printed() {
    let committed = fs::read_to_string(format!("../../{GOLDEN}")).unwrap_or_default();
    let printed = stdout_of(walras(&["crds"]));
    assert!(
        printed == committed,
        "{GOLDEN} is out of date; write it with `cargo run -- crds > {GOLDEN}`"
    );
}

#[test]
fn yaml_and_json_say_the_same() {
    let json: Value = serde_json::from_str(&stdout_of(walras(&["crds", "--json"]))).unwrap();
    let yaml: Value = serde_saphyr::from_str(&stdout_of(walras(&["crds"]))).unwrap();
    assert_eq!(yaml, json);
    assert_eq!(json["metadata"]["name"], "podallocations.allocation.mbcas.io");
}
