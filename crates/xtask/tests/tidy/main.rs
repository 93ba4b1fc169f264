//! The repository keeps its own rules: one test for each rule, run on the files of this checkout.
//!
//! Each rule is a function in one of the modules and is tried there on small inputs, too. A
//! complaint reads `path:line: what is wrong; what to do`. Run with `cargo test -p xtask`.

mod dependencies;
mod direction;
mod documents;
mod layout;
mod manifest;
mod markdown;
mod metrics;
mod naming;
mod references;
mod repository;
mod size;
mod syntax;

use std::os::unix::fs::PermissionsExt;

use crate::repository::{Complaint, Repository, lines, root};

#[track_caller]
fn none(complaints: &[Complaint]) {
    assert!(complaints.is_empty(), "{} complaints\n{}", complaints.len(), lines(complaints));
}

#[test]
fn every_rust_file_begins_with_a_header() {
    none(&naming::check_headers(&Repository::load()));
}

#[test]
fn no_module_has_a_name_that_says_nothing() {
    none(&naming::check_names(&Repository::load()));
}

#[test]
fn no_unfinished_work_is_left_in_the_code() {
    none(&naming::check_leftovers(&Repository::load()));
}

#[test]
fn files_and_functions_are_short() {
    let repository = Repository::load();
    println!("{}", size::report(&repository));
    none(&size::check(&repository, size::EXCEPTIONS));
}

#[test]
fn lines_are_short_and_clean() {
    none(&layout::check(&Repository::load()));
}

#[test]
fn the_architecture_document_names_every_crate_and_module_folder() {
    none(&documents::check_architecture(&Repository::load()));
}

#[test]
fn every_decision_record_has_a_date_and_a_status() {
    none(&documents::check_decisions(&Repository::load()));
}

#[test]
fn the_readme_and_ci_run_the_same_test_command() {
    none(&documents::check_commands(&Repository::load()));
    let script = std::fs::metadata(root().join(".ci/run")).expect(".ci/run exists");
    assert!(script.permissions().mode() & 0o111 != 0, ".ci/run:1: not executable; chmod +x it");
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_exists() {
    none(&metrics::check(&Repository::load()));
}

#[test]
fn every_alert_is_on_a_documented_metric_and_none_is_missing() {
    none(&metrics::check_rules(&Repository::load()));
}

#[test]
fn nothing_refers_to_a_build_machine_or_outside_the_repository() {
    none(&references::check_outside(&Repository::load()));
}

#[test]
fn every_relative_link_leads_to_a_file() {
    none(&references::check_links(&Repository::load()));
}

#[test]
fn every_test_that_the_threat_model_names_exists() {
    none(&references::check_named_tests(&Repository::load()));
}

#[test]
fn every_dependency_is_explained() {
    none(&dependencies::check_explained(&Repository::load()));
}

#[test]
fn the_core_can_do_nothing_but_compute() {
    none(&dependencies::check_core(&Repository::load()));
}

#[test]
fn packages_depend_on_each_other_in_one_direction() {
    none(&direction::check(&Repository::load()));
}

#[test]
fn every_ban_has_a_reason() {
    none(&dependencies::check_bans(&Repository::load()));
}
