//! The repository stands alone: nothing in it points to a build machine or outside itself.

use crate::markdown;
use crate::repository::{Complaint, Repository};

/// Text that must not occur, in two parts so as not to find itself, and what it would be.
const OUTSIDE: &[(&str, &str, &str)] = &[
    ("/ho", "me/", "a path of one machine"),
    ("/ro", "ot/", "a path of one machine"),
    ("/wo", "rk/", "a path of one machine"),
    ("/tm", "p/", "a path of one machine"),
    ("../sha", "red", "a file outside the repository"),
    ("DES", "IGN.md", "a file outside the repository"),
    ("CONT", "RACT.md", "a file outside the repository"),
    ("STU", "DY.md", "a file outside the repository"),
    ("PEE", "RS.md", "a file outside the repository"),
    ("see", "ds/", "a folder outside the repository"),
];

/// Complains about references to a build machine or to files outside the repository.
pub(crate) fn check_outside(repository: &Repository) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in repository.written() {
        for (line, content) in (1..).zip(text.lines()) {
            for (first, second, kind) in OUTSIDE {
                let needle = format!("{first}{second}");
                if content.match_indices(&needle).any(|(at, _)| begins_there(&content[..at])) {
                    let what = format!("`{needle}` is {kind}; say it without");
                    complaints.push(Complaint::new(path, line, what));
                }
            }
        }
    }
    complaints
}

/// Complains about links in Markdown files that lead to no file of the repository.
pub(crate) fn check_links(repository: &Repository) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in repository.ending(".md") {
        for (line, target) in markdown::links(text) {
            let external = target.contains("://") || target.starts_with("mailto:");
            let file = target.split(['#', '?']).next().unwrap_or_default();
            if external || file.is_empty() {
                continue;
            }
            let what = match resolve(path, file) {
                None => format!("the link to {target} leaves the repository; remove it"),
                Some(there) if !repository.has(&there) => {
                    format!("the link to {target} leads nowhere; there is no {there}")
                }
                Some(_) => continue,
            };
            complaints.push(Complaint::new(path, line, what));
        }
    }
    complaints
}

/// Complains about tests that the threat model names and that do not exist.
pub(crate) fn check_named_tests(repository: &Repository) -> Vec<Complaint> {
    let path = "docs/threat-model.md";
    let mut complaints = Vec::new();
    for (line, content) in (1..).zip(repository.text(path).unwrap_or_default().lines()) {
        // Every second part is between backticks.
        for name in content.split('`').skip(1).step_by(2).filter(|name| is_sentence(name)) {
            let signature = format!("fn {name}(");
            if !repository.ending(".rs").any(|(_, text)| text.contains(&signature)) {
                let what = format!("there is no test {name}; name the one that holds the line");
                complaints.push(Complaint::new(path, line, what));
            }
        }
    }
    complaints
}

/// Whether a name is a sentence, as names of tests are and those of settings and fields are not.
fn is_sentence(name: &str) -> bool {
    name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_')
        && name.matches('_').count() >= 4
}

/// Whether a path or name that follows `before` begins there, and is not the end of a longer one.
fn begins_there(before: &str) -> bool {
    let last = before.chars().next_back();
    !last.is_some_and(|last| last.is_alphanumeric() || "_-.~}".contains(last))
}

/// The path from the root that `target` means in the file at `path`; `None` if it is outside.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::lines;

    #[test]
    fn every_outside_reference_is_found() {
        for (first, second, kind) in OUTSIDE {
            let text = format!("fine\nsee `{first}{second}x`\n");
            let found = lines(&check_outside(&Repository::of(&[("a.md", &text)])));
            assert_eq!(found, format!("a.md:2: `{first}{second}` is {kind}; say it without\n"));
        }
    }

    #[test]
    fn longer_names_and_fuzz_inputs_are_no_references() {
        let (first, second, _) = OUTSIDE[2];
        let inner = format!("https://example.com{first}{second}\n");
        assert_eq!(lines(&check_outside(&Repository::of(&[("a.md", &inner)]))), "");
        let input = format!("{first}{second}\n");
        let corpus = Repository::of(&[("fuzz/corpus/parse/1", &input)]);
        assert_eq!(lines(&check_outside(&corpus)), "");
    }

    #[test]
    fn a_test_that_is_named_exists() {
        let text = "| `a_b_c_d_is_held` | `max_cpu` and `a_b_c_d_is_lost` |\n";
        let code = ("crates/a/src/lib.rs", "fn a_b_c_d_is_held() {}");
        let found =
            lines(&check_named_tests(&Repository::of(&[("docs/threat-model.md", text), code])));
        assert_eq!(
            found,
            "docs/threat-model.md:1: there is no test a_b_c_d_is_lost; name the one that holds \
             the line\n"
        );
    }

    #[test]
    fn a_link_leads_to_a_file_or_folder_of_the_repository() {
        let good = "[a](b.md) [b](../README.md#top) [c](#here) [d](https://e.org) [e](/docs)\n";
        let files = [("README.md", ""), ("docs/b.md", ""), ("docs/a.md", good)];
        assert_eq!(lines(&check_links(&Repository::of(&files))), "");
        let bad = "\n[a](c.md)\n\n[b]: ../../x.md\n";
        let found = lines(&check_links(&Repository::of(&[("docs/a.md", bad)])));
        assert_eq!(
            found,
            "docs/a.md:2: the link to c.md leads nowhere; there is no docs/c.md\n\
             docs/a.md:4: the link to ../../x.md leaves the repository; remove it\n"
        );
    }
}
