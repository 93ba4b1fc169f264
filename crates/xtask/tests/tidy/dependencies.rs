//! Dependencies are few and explained, the core has next to none, and every ban has a reason.

use std::collections::BTreeSet;

use crate::manifest::{self, Dependency};
use crate::repository::{Complaint, Repository};

const DOCUMENT: &str = "docs/dependencies.md";
const CORE_MANIFEST: &str = "crates/core/Cargo.toml";
const CORE_ROOT: &str = "crates/core/src/lib.rs";
const CORE_DEPENDENCIES: &[&str] = &["serde", "serde_json", "thiserror"];
const CORE_ATTRIBUTES: &[&str] = &["#![no_std]", "#![forbid(unsafe_code)]"];

/// Complains about third-party dependencies that are not explained.
pub(crate) fn check_explained(repository: &Repository) -> Vec<Complaint> {
    let ours = manifest::packages(repository);
    let document = repository.text(DOCUMENT).unwrap_or_default();
    let mut complaints = Vec::new();
    for (path, text) in repository.texts().filter(|(path, _)| manifest::is_manifest(path)) {
        for Dependency { name, line, .. } in manifest::dependencies(text) {
            if !ours.contains(&name) && !document.contains(&format!("`{name}`")) {
                let what = format!("`{name}` is not in {DOCUMENT}; say there why it is needed");
                complaints.push(Complaint::new(path, line, what));
            }
        }
    }
    complaints
}

/// Complains about a core that could do more than compute.
pub(crate) fn check_core(repository: &Repository) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let text = repository.text(CORE_MANIFEST).unwrap_or_default();
    let mut missing: BTreeSet<&str> = CORE_DEPENDENCIES.iter().copied().collect();
    for Dependency { name, table, line } in manifest::dependencies(text) {
        let allowed = table == "dependencies" && missing.remove(name.as_str());
        if !allowed && table != "dev-dependencies" {
            let what = format!("the core may not depend on `{name}` ({table}); do it outside");
            complaints.push(Complaint::new(CORE_MANIFEST, line, what));
        }
    }
    for name in missing {
        let what = format!("the core no longer needs `{name}`; take it off the list in tidy");
        complaints.push(Complaint::new(CORE_MANIFEST, 1, what));
    }
    let source = repository.text(CORE_ROOT).unwrap_or_default();
    for attribute in CORE_ATTRIBUTES {
        if !source.lines().any(|line| line == *attribute) {
            let what = format!("`{attribute}` is missing; put it back");
            complaints.push(Complaint::new(CORE_ROOT, 1, what));
        }
    }
    if repository.has("crates/core/build.rs") || text.lines().any(is_build_key) {
        let what = "the core has a build script, which can do anything; remove it";
        complaints.push(Complaint::new(CORE_MANIFEST, 1, what));
    }
    complaints
}

/// Complains about bans, and exceptions from bans, that do not say why.
pub(crate) fn check_bans(repository: &Repository) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let lists = ["disallowed-", "deny = [", "skip = [", "skip-tree = ["];
    for path in ["clippy.toml", "deny.toml"] {
        let mut inside = false;
        for (line, content) in (1..).zip(repository.text(path).unwrap_or_default().lines()) {
            let content = content.trim();
            if lists.iter().any(|list| content.starts_with(list)) {
                inside = !content.ends_with(']');
                // Without entries, or with entries on the same line, which are read here.
                if !inside && !content.ends_with("[]") && !has_reason(content) {
                    complaints.push(unexplained(path, line));
                }
            } else if content.starts_with(']') {
                inside = false;
            } else if inside && content.starts_with(['{', '"']) && !has_reason(content) {
                complaints.push(unexplained(path, line));
            }
        }
    }
    complaints
}

fn unexplained(path: &str, line: usize) -> Complaint {
    Complaint::new(path, line, "the ban has no reason; add `reason = \"...\"`")
}

fn has_reason(entry: &str) -> bool {
    entry
        .split_once("reason = \"")
        .is_some_and(|(_, reason)| reason.find('"').is_some_and(|length| length > 0))
}

fn is_build_key(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| key.trim() == "build")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::lines;

    #[test]
    fn a_dependency_is_explained_by_its_name_in_code_quotes() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\na = \"1\"\nb = \"1\"\nc = \"1\"\n";
        let files = [("crates/a/Cargo.toml", manifest), (DOCUMENT, "`b` is good, and c too\n")];
        let expected = "crates/a/Cargo.toml:6: `c` is not in docs/dependencies.md; \
                        say there why it is needed\n";
        assert_eq!(lines(&check_explained(&Repository::of(&files))), expected);
        let workspace = "[workspace.dependencies]\nd = \"1\"\n";
        let found = lines(&check_explained(&Repository::of(&[("Cargo.toml", workspace)])));
        assert!(found.starts_with("Cargo.toml:2: `d` is not in"), "{found}");
    }

    fn core(manifest: &str, source: &str, more: &[(&str, &str)]) -> String {
        let mut files = vec![(CORE_MANIFEST, manifest), (CORE_ROOT, source)];
        files.extend(more);
        lines(&check_core(&Repository::of(&files)))
    }

    #[test]
    fn the_core_depends_on_its_list_and_nothing_else() {
        let source = "//! A.\n#![no_std]\n#![forbid(unsafe_code)]\n";
        let good = "[dependencies]\nserde = \"1\"\nserde_json = \"1\"\nthiserror = \"2\"\n";
        assert_eq!(core(good, source, &[]), "");
        let tested = format!("{good}[dev-dependencies]\nproptest = \"1\"\n");
        assert_eq!(core(&tested, source, &[]), "");
        let more = core(&format!("{good}rand = \"1\"\n"), source, &[]);
        assert!(more.contains(":5: the core may not depend on `rand`"), "{more}");
        let target = core(&format!("{good}[target.x.dependencies]\nlibc = \"1\"\n"), source, &[]);
        assert!(target.contains(":6: the core may not depend on `libc`"), "{target}");
        let less = core("[dependencies]\nserde = \"1\"\nserde_json = \"1\"\n", source, &[]);
        assert!(less.contains("no longer needs `thiserror`"), "{less}");
    }

    #[test]
    fn the_core_keeps_its_attributes_and_has_no_build_script() {
        let good = "[dependencies]\nserde = \"1\"\nserde_json = \"1\"\nthiserror = \"2\"\n";
        let source = "#![no_std]\n#![forbid(unsafe_code)]\n";
        let bare = core(good, "// #![no_std]\n", &[]);
        assert!(bare.contains("`#![no_std]` is missing"), "{bare}");
        assert!(bare.contains("`#![forbid(unsafe_code)]` is missing"), "{bare}");
        let script = core(good, source, &[("crates/core/build.rs", "")]);
        assert!(script.contains("has a build script"), "{script}");
        let named = core(&format!("[package]\nbuild = \"b.rs\"\n{good}"), source, &[]);
        assert!(named.contains("has a build script"), "{named}");
    }

    #[test]
    fn a_ban_without_a_reason_is_found_in_every_form() {
        let bans = |path: &str, text: &str| lines(&check_bans(&Repository::of(&[(path, text)])));
        let good = "disallowed-types = [\n  { path = \"a\", reason = \"b\" },\n]\nx = [\"y\"]\n";
        assert_eq!(bans("clippy.toml", good), "");
        for entry in ["{ path = \"a\" },", "{ path = \"a\", reason = \"\" },", "\"a\","] {
            let text = format!("disallowed-types = [\n  {entry}\n]\n");
            let expected = "clippy.toml:2: the ban has no reason; add `reason = \"...\"`\n";
            assert_eq!(bans("clippy.toml", &text), expected, "{entry}");
        }
        assert!(bans("clippy.toml", "disallowed-types = [\"a\"]\n").starts_with("clippy.toml:1"));
        let skips = "[bans]\nskip = [\n  { crate = \"a\" },\n]\n";
        assert!(bans("deny.toml", skips).starts_with("deny.toml:3"));
    }
}
