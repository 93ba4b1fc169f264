//! Text files look the same in every editor: short lines, no stray blanks, no foreign line ends.
//!
//! rustfmt leaves comments and strings alone, and knows nothing of other files. Fixtures may have
//! blanks at line ends, because the programs whose output they hold may.

use crate::repository::{Complaint, Repository};

const COLUMNS: usize = 100;

/// Complains about long lines, blanks at line ends, tabs, CRLF and missing final newlines.
pub(crate) fn check(repository: &Repository) -> Vec<Complaint> {
    repository.written().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Complaint> {
    let ends = |endings: &[&str]| endings.iter().any(|ending| path.ends_with(ending));
    let fixture = ends(&[".txt", ".jsonl"]) || path.split('/').any(|part| part == "testdata");
    let mut complaints = Vec::new();
    let mut complain = |line: usize, what: String| {
        complaints.push(Complaint::new(path, line, what));
    };
    for (line, content) in (1..).zip(text.split('\n')) {
        if content.ends_with('\r') {
            complain(line, "the line ends with CR LF; use LF".to_owned());
        } else if !fixture && content.ends_with([' ', '\t']) {
            complain(line, "there are blanks at the end of the line; remove them".to_owned());
        }
        if ends(&[".rs", ".md", ".toml"]) && content.contains('\t') {
            complain(line, "there is a tab; use spaces, or \\t in a string".to_owned());
        }
        let columns = content.chars().count();
        // An address cannot be broken.
        if ends(&[".rs"]) && columns > COLUMNS && !content.contains("://") {
            complain(line, format!("the line has {columns} columns of {COLUMNS}; break it"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        complain(text.lines().count(), "the last line does not end; add a newline".to_owned());
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::lines;

    fn check_one(path: &str, text: &str) -> String {
        lines(&check(&Repository::of(&[(path, text)])))
    }

    #[test]
    fn lines_have_at_most_100_columns() {
        let exactly = format!("//{}\n", "ä".repeat(98));
        assert_eq!(check_one("a.rs", &exactly), "");
        let found = check_one("a.rs", &format!("//{}\n", "x".repeat(99)));
        assert_eq!(found, "a.rs:1: the line has 101 columns of 100; break it\n");
        let address = format!("// https://example.com/{}\n", "x".repeat(99));
        assert_eq!(check_one("a.rs", &address), "");
        assert_eq!(check_one("a.md", &format!("{}\n", "x".repeat(200))), "");
    }

    #[test]
    fn stray_characters_are_found() {
        assert!(check_one("a.md", "ok\nno \n").starts_with("a.md:2: there are blanks"));
        assert!(check_one("a.toml", "a =\t1\n").starts_with("a.toml:1: there is a tab"));
        assert!(check_one("a.json", "{}\r\n").starts_with("a.json:1: the line ends with CR LF"));
        assert!(check_one("a.rs", "fn f() {}").starts_with("a.rs:1: the last line does not end"));
    }

    #[test]
    fn fixtures_and_fuzz_inputs_are_left_alone() {
        assert_eq!(check_one("crates/core/testdata/a.out", "a \n"), "");
        assert_eq!(check_one("a.txt", "a \n"), "");
        assert_eq!(check_one("fuzz/corpus/parse/1", "a \r\nb"), "");
        assert_eq!(check_one("Makefile", "a:\n\tb\n"), "");
    }
}
