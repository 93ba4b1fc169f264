//! Documents keep up with the repository: the architecture names every crate and module folder,
//! decisions carry their date and status, and the README and CI run the same test command.

use std::collections::BTreeSet;

use crate::markdown;
use crate::repository::{Complaint, Repository};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const DECISIONS: &str = "docs/adr/";
const FIRST_COMMAND: &str = "cargo run --release ";
const TEST_COMMAND: &str = "cargo xtask test";
const CI: &str = ".ci/run";

/// Complains about crates and module folders that the architecture document does not mention, and
/// about those that it mentions and that do not exist.
pub(crate) fn check_architecture(repository: &Repository) -> Vec<Complaint> {
    let Some(text) = repository.text(ARCHITECTURE) else {
        return vec![Complaint::new(ARCHITECTURE, 1, "the file is missing; write it")];
    };
    let mut complaints = Vec::new();
    let mentioned = mentions(text);
    for folder in folders(repository) {
        let below = format!("{folder}/");
        if !mentioned.iter().any(|path| *path == folder || path.starts_with(&below)) {
            let what = format!("`{folder}` is not mentioned; say what it is for");
            complaints.push(Complaint::new(ARCHITECTURE, 1, what));
        }
    }
    for (line, word) in markdown::words(text) {
        let path = word.trim_end_matches(['/', '.']);
        // A crate that does not exist is one that is planned; a file in one that does is a mistake.
        let planned =
            path.split('/').nth(1).is_some_and(|name| !repository.has(&format!("crates/{name}")));
        if path.starts_with("crates/") && !planned && !repository.has(path) {
            let what = format!("there is no `{path}`; correct the path");
            complaints.push(Complaint::new(ARCHITECTURE, line, what));
        }
    }
    complaints
}

/// Complains about decision records without a proper name, date or status.
pub(crate) fn check_decisions(repository: &Repository) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in repository.texts() {
        // A README there is an index, not a decision.
        let name = path.strip_prefix(DECISIONS).filter(|name| *name != "README.md");
        let Some(name) = name else { continue };
        let Some(date) = date_of(name) else {
            let what = "the name is not YYYY-MM-DD-title.md in small letters; rename the file";
            complaints.push(Complaint::new(path, 1, what));
            continue;
        };
        let head = || (1..).zip(text.lines()).take(10);
        match head().find_map(|(line, content)| Some((line, content.strip_prefix("Date: ")?))) {
            Some((_, found)) if found.trim() == date => {}
            Some((line, found)) => {
                let what = format!("the date is {found} but the name says {date}; correct one");
                complaints.push(Complaint::new(path, line, what));
            }
            None => {
                let what = format!("no line near the top says `Date: {date}`; add it");
                complaints.push(Complaint::new(path, 1, what));
            }
        }
        let status = head().find_map(|(_, content)| content.strip_prefix("Status:"));
        if status.is_none_or(|status| status.trim().is_empty()) {
            let what = "no line near the top says `Status: ...`; add it";
            complaints.push(Complaint::new(path, 1, what));
        }
    }
    complaints
}

/// Complains unless the README shows how to run and how to test, and CI runs the latter.
pub(crate) fn check_commands(repository: &Repository) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let code = markdown::code_lines(repository.text("README.md").unwrap_or_default());
    if !code.iter().any(|line| line.first && line.text.starts_with(FIRST_COMMAND)) {
        let what = format!("no code block begins with `{FIRST_COMMAND}`; show a first command");
        complaints.push(Complaint::new("README.md", 1, what));
    }
    if !code.iter().any(|line| line.text == TEST_COMMAND) {
        let what = format!("no line of code is `{TEST_COMMAND}`; show how to test");
        complaints.push(Complaint::new("README.md", 1, what));
    }
    let script = repository.text(CI).unwrap_or_default();
    let commands: Vec<&str> =
        script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let right = matches!(
        commands.as_slice(),
        ["set -euo pipefail", change, test] if change.starts_with("cd ") && *test == TEST_COMMAND
    );
    if !right {
        let what = format!("CI must set its options, cd to the root and run `{TEST_COMMAND}`");
        complaints.push(Complaint::new(CI, 1, what));
    }
    complaints
}

/// The paths that the document mentions. Below a heading that names a crate, `market/` means the
/// folder of that name in the crate's sources.
fn mentions(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut source = None;
    for line in text.lines() {
        if line.starts_with('#') {
            source = markdown::words(line)
                .map(|(_, word)| word.trim_end_matches('/'))
                .find(|word| word.starts_with("crates/") || *word == "fuzz")
                .map(|word| format!("{word}/src"));
        }
        for (_, word) in markdown::words(line) {
            found.insert(word.to_owned());
            if let (Some(source), Some(folder)) = (&source, word.strip_suffix('/')) {
                found.insert(format!("{source}/{folder}"));
            }
        }
    }
    found
}

/// The folders of crates, and the folders of modules below their sources.
fn folders(repository: &Repository) -> BTreeSet<String> {
    let manifests = repository.paths().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    let crates: BTreeSet<String> = manifests.map(str::to_owned).collect();
    let mut folders = crates.clone();
    for (path, _) in repository.ending(".rs") {
        for base in &crates {
            let source = format!("{base}/src");
            let Some(below) = path.strip_prefix(&format!("{source}/")) else { continue };
            let mut parts: Vec<&str> = below.split('/').collect();
            while parts.pop().is_some() && !parts.is_empty() {
                folders.insert(format!("{source}/{}", parts.join("/")));
            }
        }
    }
    folders
}

/// The date that a decision record's file name begins with, if all of the name is right.
fn date_of(name: &str) -> Option<&str> {
    let (date, rest) = name.split_at_checked(10)?;
    let title = rest.strip_prefix('-')?.strip_suffix(".md")?;
    let numbers: Vec<&str> = date.split('-').collect();
    let [year, month, day] = numbers.as_slice() else { return None };
    let number = |text: &str, digits: usize| {
        let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse::<u32>().ok()).flatten()
    };
    number(year, 4)?;
    let real = (1..=12).contains(&number(month, 2)?) && (1..=31).contains(&number(day, 2)?);
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (real && !title.is_empty() && title.bytes().all(plain)).then_some(date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::lines;

    fn architecture(text: &str) -> String {
        let files = [
            ("Cargo.toml", ""),
            ("crates/core/Cargo.toml", ""),
            ("crates/core/src/lib.rs", ""),
            ("crates/core/src/market/clear.rs", ""),
            ("fuzz/Cargo.toml", ""),
            (ARCHITECTURE, text),
        ];
        lines(&check_architecture(&Repository::of(&files)))
    }

    #[test]
    fn every_crate_and_module_folder_is_mentioned() {
        let whole = "`crates/core` and crates/core/src/market/clear.rs, and `fuzz/`.\n";
        assert_eq!(architecture(whole), "");
        let found = architecture("`crates/core-not` and fuzzing\n");
        assert!(found.contains("`crates/core` is not mentioned"), "{found}");
        assert!(found.contains("`crates/core/src/market` is not mentioned"), "{found}");
        assert!(found.contains("`fuzz` is not mentioned"), "{found}");
        let missing = lines(&check_architecture(&Repository::default()));
        assert_eq!(missing, "ARCHITECTURE.md:1: the file is missing; write it\n");
    }

    #[test]
    fn a_folder_can_be_mentioned_below_the_heading_of_its_crate() {
        assert_eq!(architecture("## `crates/core`: decides\n\n`market/`\n\n## fuzz\n"), "");
        let elsewhere = "crates/core\n\n## fuzz\n\n`market/` and market\n";
        let found = architecture(elsewhere);
        assert!(found.contains("`crates/core/src/market` is not mentioned"), "{found}");
    }

    #[test]
    fn a_path_that_is_gone_is_found_and_a_planned_crate_is_not() {
        let text = "crates/core/src/market fuzz/ crates/planned\n\nSee crates/core/src/gone.rs.\n";
        let expected = "ARCHITECTURE.md:3: there is no `crates/core/src/gone.rs`; \
                        correct the path\n";
        assert_eq!(architecture(text), expected);
    }

    #[test]
    fn a_decision_has_a_name_a_date_and_a_status() {
        let check =
            |path: &str, text: &str| lines(&check_decisions(&Repository::of(&[(path, text)])));
        let good = "# Title\n\nDate: 2026-01-31\nStatus: accepted\n";
        assert_eq!(check("docs/adr/2026-01-31-a-title.md", good), "");
        assert_eq!(check("docs/adr/README.md", "# Decisions\n"), "");
        for name in ["a.md", "2026-13-01-a.md", "2026-01-31.md", "2026-01-31-A.md", "0001-a.md"] {
            let found = check(&format!("docs/adr/{name}"), good);
            assert!(found.contains("is not YYYY-MM-DD-title.md"), "{name}: {found}");
        }
        let found = check("docs/adr/2026-01-30-a.md", good);
        assert!(found.contains(".md:3: the date is 2026-01-31 but the name says 2026-01-30"));
        let found = check("docs/adr/2026-01-31-a.md", "# Title\n");
        assert!(found.contains("says `Date: ") && found.contains("says `Status: "), "{found}");
    }

    #[test]
    fn the_readme_and_ci_agree_on_the_test_command() {
        let check = |readme: &str, script: &str| {
            lines(&check_commands(&Repository::of(&[("README.md", readme), (CI, script)])))
        };
        let readme = "```\ncargo run --release -- x\n```\n```\ncargo xtask test\n```\n";
        let script = "#!/bin/sh\n# Why.\nset -euo pipefail\ncd x\ncargo xtask test\n";
        assert_eq!(check(readme, script), "");
        assert_eq!(check("", script).lines().count(), 2);
        let extended = script.replace("test\n", "test --tier unit\n");
        assert!(check(readme, &extended).starts_with(".ci/run:1: "));
        assert!(check(readme, "").starts_with(".ci/run:1: "));
    }
}
