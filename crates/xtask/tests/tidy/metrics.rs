//! Every metric in the code is documented, and every documented metric is in the code. The alerts
//! that are shipped look at documented metrics alone, and at the trouble that nobody else tells of.
//!
//! A metric is a string literal of a product's crate that is nothing but a prefixed name. The
//! names of our own crates look the same and are none.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest;
use crate::repository::{Complaint, Repository};
use crate::syntax;

const DOCUMENT: &str = "docs/metrics.md";
const PREFIXES: &[&str] = &["mbcas_", "apex_", "walras_"];
/// The alerts that are shipped.
const RULES: &str = "deploy/prometheus/rules.yaml";
/// What somebody must be woken up for, as an alert has to have it: nobody else tells of it.
const ALERTED: &[&str] = &["walras_mode{mode=\"overloaded\"}"];
/// What a histogram's parts are called where its name alone is in the code.
const PARTS: &[&str] = &["_bucket", "_count", "_sum"];

/// Complains about metrics that are only in the code or only in the document.
pub(crate) fn check(repository: &Repository) -> Vec<Complaint> {
    let crates: BTreeSet<String> =
        manifest::packages(repository).iter().map(|name| name.replace('-', "_")).collect();
    let is_metric = |word: &str| is_metric(word) && !crates.contains(word);
    let in_code: BTreeMap<String, (String, usize)> =
        literals(repository).filter(|(name, _)| is_metric(name)).collect();
    let text = repository.text(DOCUMENT).unwrap_or_default();
    let documented: BTreeMap<&str, usize> =
        words(text).filter(|(word, _)| is_metric(word)).collect();
    let mut complaints = Vec::new();
    for (name, (path, line)) in &in_code {
        if !documented.contains_key(name.as_str()) {
            let what = format!("the metric `{name}` is not in {DOCUMENT}; describe it there");
            complaints.push(Complaint::new(path, *line, what));
        }
    }
    for (name, line) in documented {
        let whole = PARTS.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        if !in_code.contains_key(name) && !in_code.contains_key(whole) {
            let what = format!("there is no metric `{name}` in the code; remove it");
            complaints.push(Complaint::new(DOCUMENT, line, what));
        }
    }
    complaints
}

/// Complains about alerts on metrics that do not exist, and about alerts that are missing.
pub(crate) fn check_rules(repository: &Repository) -> Vec<Complaint> {
    let document = repository.text(DOCUMENT).unwrap_or_default();
    let documented: BTreeSet<&str> = words(document).map(|(word, _)| word).collect();
    let text = repository.text(RULES).unwrap_or_default();
    let mut complaints = Vec::new();
    for (name, line) in words(text).filter(|(word, _)| is_metric(word)) {
        // Counters have this at their end where they are served.
        let whole = name.strip_suffix("_total").unwrap_or(name);
        if !documented.contains(whole) && !documented.contains(name) {
            let what = format!("there is no metric `{name}` in {DOCUMENT}; alert on another one");
            complaints.push(Complaint::new(RULES, line, what));
        }
    }
    for expression in ALERTED.iter().filter(|expression| !text.contains(**expression)) {
        let what = format!("no alert looks at `{expression}`; add one");
        complaints.push(Complaint::new(RULES, 1, what));
    }
    complaints
}

fn is_metric(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    PREFIXES
        .iter()
        .filter_map(|prefix| word.strip_prefix(prefix))
        .any(|rest| !rest.is_empty() && rest.bytes().all(plain))
}

/// String literals in the sources of crates, with where they are.
fn literals(repository: &Repository) -> impl Iterator<Item = (String, (String, usize))> {
    let sources = repository.ending(".rs").filter(|(path, _)| {
        let mut parts = path.split('/');
        parts.next() == Some("crates") && parts.nth(1) == Some("src") && !syntax::is_test_file(path)
    });
    sources.flat_map(|(path, text)| {
        let literals = syntax::outline(text).unwrap_or_default().literals;
        literals.into_iter().map(|(literal, line)| (literal, (path.to_owned(), line)))
    })
}

fn words(text: &str) -> impl Iterator<Item = (&str, usize)> {
    (1..).zip(text.lines()).flat_map(|(line, content)| {
        let words = content.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.map(move |word| (word, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::lines;

    fn check_two(code: &str, document: &str) -> String {
        let files = [
            ("crates/wire/src/lib.rs", code),
            ("crates/core/Cargo.toml", "[package]\nname = \"walras-core\"\n"),
            (DOCUMENT, document),
        ];
        lines(&check(&Repository::of(&files)))
    }

    #[test]
    fn names_in_code_and_document_agree() {
        let code = "const A: &str = \"walras_price\";\nfn f() { emit!(\"apex_wait_seconds\"); }\n";
        let document = "| `walras_price{node=\"a\"}` | apex_wait_seconds_bucket |\n\
                        apex_wait_seconds and `mbcas_*` and walras_core\n";
        assert_eq!(check_two(code, document), "");
    }

    #[test]
    fn a_metric_on_one_side_only_is_found() {
        let found = check_two("\nconst A: &str = \"walras_price\";\n", "\n`walras_gone`\n");
        assert_eq!(
            found,
            "crates/wire/src/lib.rs:2: the metric `walras_price` is not in docs/metrics.md; \
             describe it there\n\
             docs/metrics.md:2: there is no metric `walras_gone` in the code; remove it\n"
        );
    }

    #[test]
    fn crates_sentences_and_tests_are_no_metrics() {
        let code = "//! walras_a\nconst A: &[&str] = &[\"walras_core\", \"walras_b is\", \"c\"];\n\
                    #[cfg(test)]\nmod tests { const D: &str = \"walras_d\"; }\n";
        assert_eq!(check_two(code, ""), "");
    }

    #[test]
    fn alerts_are_on_metrics_that_exist_and_none_is_missing() {
        let check = |rules: &str| {
            let document = "| `walras_mode` | `walras_refusals` |\n";
            lines(&check_rules(&Repository::of(&[(DOCUMENT, document), (RULES, rules)])))
        };
        let good = "expr: walras_mode{mode=\"overloaded\"} == 1\nexpr: walras_refusals_total > 0\n";
        assert_eq!(check(good), "");
        assert_eq!(
            check("\nexpr: walras_gone > 0\n"),
            "deploy/prometheus/rules.yaml:2: there is no metric `walras_gone` in docs/metrics.md; \
             alert on another one\n\
             deploy/prometheus/rules.yaml:1: no alert looks at `walras_mode{mode=\"overloaded\"}`; \
             add one\n"
        );
    }

    #[test]
    fn without_metrics_there_need_be_no_document() {
        assert_eq!(lines(&check(&Repository::default())), "");
    }
}
