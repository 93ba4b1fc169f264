//! `walras crds`, and the file of the checkout that it prints.

use std::fs;

use serde_json::Value;

use crate::{stdout_of, walras};

/// The manifests' and the chart's.
const GOLDEN: [&str; 2] =
    ["deploy/crds/podallocations.yaml", "deploy/helm/walras/crds/podallocations.yaml"];

#[test]
fn the_definition_in_the_checkout_is_the_one_that_is_printed() {
    let printed = stdout_of(walras(&["crds"]));
    for golden in GOLDEN {
        let committed = fs::read_to_string(format!("../../{golden}")).unwrap_or_default();
        assert!(
            printed == committed,
            "{golden} is out of date; write it with `cargo run -- crds > {golden}`"
        );
    }
}

#[test]
fn yaml_and_json_say_the_same() {
    let json: Value = serde_json::from_str(&stdout_of(walras(&["crds", "--json"]))).unwrap();
    let yaml: Value = serde_saphyr::from_str(&stdout_of(walras(&["crds"]))).unwrap();
    assert_eq!(yaml, json);
    assert_eq!(json["metadata"]["name"], "podallocations.allocation.mbcas.io");
}
