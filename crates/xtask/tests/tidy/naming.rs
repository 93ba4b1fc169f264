//! Every Rust file says what it is for, in its name and in its first line, and holds no leftovers.

use crate::repository::{Complaint, Repository};
use crate::syntax;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// Marks of unfinished work, and what to do about each. In parts, so as not to find themselves.
const LEFTOVERS: &[(&str, &str, &str)] = &[
    ("TO", "DO", "do it, or write it down where work is planned"),
    ("FIX", "ME", "fix it, or write it down where work is planned"),
    ("XX", "X", "say in words what is the matter"),
    ("dbg", "!", "remove it"),
    ("todo", "!", "write the code, or return an error"),
    ("unimplemented", "!", "write the code, or return an error"),
    ("#[ig", "nore", "make the test pass, or delete it"),
];

/// Complains about Rust files that do not begin with a `//!` line.
pub(crate) fn check_headers(repository: &Repository) -> Vec<Complaint> {
    let bare = repository.ending(".rs").filter(|(_, text)| !text.starts_with("//!"));
    let what = "the file does not begin with `//!`; say what it does, who calls it, what holds";
    bare.map(|(path, _)| Complaint::new(path, 1, what)).collect()
}

/// Complains about modules whose name says nothing.
pub(crate) fn check_names(repository: &Repository) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in repository.ending(".rs") {
        let stem = path.trim_end_matches(".rs");
        for part in stem.split('/').filter(|part| EMPTY_NAMES.contains(part)) {
            complaints.push(complaint(path, 1, part));
        }
        for (name, line) in syntax::outline(text).unwrap_or_default().modules {
            if EMPTY_NAMES.contains(&name.as_str()) {
                complaints.push(complaint(path, line, &name));
            }
        }
    }
    complaints
}

/// Complains about marks of unfinished work in Rust files.
pub(crate) fn check_leftovers(repository: &Repository) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in repository.ending(".rs") {
        for (line, content) in text.lines().enumerate() {
            for (first, second, advice) in LEFTOVERS {
                let mark = format!("{first}{second}");
                if has_word(content, &mark) {
                    let what = format!("`{mark}` is left over; {advice}");
                    complaints.push(Complaint::new(path, line + 1, what));
                }
            }
        }
    }
    complaints
}

fn complaint(path: &str, line: usize, name: &str) -> Complaint {
    let what = format!("the module name `{name}` says nothing; name it after its one idea");
    Complaint::new(path, line, what)
}

/// Whether `word` occurs in `line` and is not part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let in_word = |neighbour: Option<char>| {
        neighbour.is_some_and(|neighbour| neighbour.is_alphanumeric() || neighbour == '_')
    };
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        // A mark that ends with a sign ends there, whatever follows.
        let after = after.filter(|_| word.ends_with(char::is_alphanumeric));
        !in_word(before) && !in_word(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::lines;

    #[test]
    fn a_file_without_a_header_is_found() {
        let repository = Repository::of(&[
            ("a.rs", "//! Good.\n"),
            ("fuzz/fuzz_targets/b.rs", "// Not this kind.\n"),
            ("crates/core/build.rs", "\n//! Too late.\n"),
            ("c.md", "no Rust"),
        ]);
        let found = lines(&check_headers(&repository));
        assert_eq!(found.lines().count(), 2, "{found}");
        assert!(found.contains("build.rs:1: ") && found.contains("b.rs:1: "), "{found}");
    }

    #[test]
    fn an_empty_name_is_found_in_paths_and_in_code() {
        let repository = Repository::of(&[
            ("crates/core/src/utils.rs", "//! A.\n"),
            ("crates/core/src/misc/deep.rs", "//! B.\n"),
            ("crates/core/src/lib.rs", "//! C.\nmod helpers {}\n"),
            ("crates/core/src/utility.rs", "//! D.\nmod commonly {}\n"),
        ]);
        let found = lines(&check_names(&repository));
        assert_eq!(found.lines().count(), 3, "{found}");
        assert!(found.contains("lib.rs:2: the module name `helpers` says nothing"), "{found}");
    }

    #[test]
    fn every_leftover_is_found_as_a_word() {
        for (first, second, advice) in LEFTOVERS {
            let text = format!("//! A.\n// {first}{second} (x)\n");
            let found = lines(&check_leftovers(&Repository::of(&[("a.rs", &text)])));
            let expected = format!("a.rs:2: `{first}{second}` is left over; {advice}\n");
            assert_eq!(found, expected);
        }
        let innocent = "//! A.\nlet XXXX = my_todo!(MASTODON);\n";
        let found = lines(&check_leftovers(&Repository::of(&[("a.rs", innocent)])));
        assert_eq!(found, "");
    }
}
