//! Files and functions stay small enough to be read in one sitting.
//!
//! A file has at most 500 lines without its tests and 800 in all; a function that is not a test
//! has at most 70. An exception names its reason, and goes as soon as it is not needed.

use crate::repository::{Complaint, Repository};
use crate::syntax::{self, Outline};

const FILE_LINES: usize = 500;
const FILE_LINES_WITH_TESTS: usize = 800;
const FUNCTION_LINES: usize = 70;

/// A file, or a function in a file, that may be longer.
pub(crate) struct Exception {
    pub(crate) path: &'static str,
    pub(crate) function: Option<&'static str>,
    pub(crate) reason: &'static str,
}

/// Whatever is too long now, and why. Keep this short.
pub(crate) const EXCEPTIONS: &[Exception] = &[];

/// Something with a length.
struct Measure {
    path: String,
    function: Option<String>,
    line: usize,
    lines: usize,
    lines_with_tests: usize,
}

/// Complains about what is too long without an exception, and about exceptions for what is not.
pub(crate) fn check(repository: &Repository, exceptions: &[Exception]) -> Vec<Complaint> {
    let measures = measure(repository);
    let excused = |exception: &Exception, measure: &Measure| {
        exception.path == measure.path && exception.function == measure.function.as_deref()
    };
    let mut complaints = Vec::new();
    for measure in measures.iter().filter(|measure| measure.is_too_long()) {
        if !exceptions.iter().any(|exception| excused(exception, measure)) {
            complaints.push(Complaint::new(&measure.path, measure.line, measure.complaint()));
        }
    }
    for exception in exceptions {
        let needed = |measure: &Measure| measure.is_too_long() && excused(exception, measure);
        let Exception { path, function, reason } = exception;
        let subject = function.unwrap_or("the file");
        if !measures.iter().any(needed) {
            let what = format!("{subject} is not too long; remove its exception from size.rs");
            complaints.push(Complaint::new(path, 1, what));
        }
        if reason.is_empty() {
            let what = format!("the exception for {subject} has no reason; give one in size.rs");
            complaints.push(Complaint::new(path, 1, what));
        }
    }
    complaints
}

/// The ten longest files and functions, for people to look at.
pub(crate) fn report(repository: &Repository) -> String {
    let mut measures = measure(repository);
    measures.sort_by_key(|measure| std::cmp::Reverse(measure.lines));
    let (functions, files): (Vec<_>, Vec<_>) =
        measures.iter().partition(|measure| measure.function.is_some());
    let mut text = String::from("longest files, without tests and in all:\n");
    for file in files.iter().take(10) {
        let Measure { path, lines, lines_with_tests, .. } = file;
        text += &format!("{lines:>5} {lines_with_tests:>5} {path}\n");
    }
    text += "longest functions:\n";
    for function in functions.iter().take(10) {
        let Measure { path, line, lines, .. } = function;
        let name = function.function.as_deref().unwrap_or_default();
        text += &format!("{lines:>5} {path}:{line} {name}\n");
    }
    text
}

fn measure(repository: &Repository) -> Vec<Measure> {
    let mut measures = Vec::new();
    for (path, text) in repository.ending(".rs") {
        // What cannot be read is the compiler's to complain about.
        let outline = syntax::outline(text).unwrap_or_default();
        let all_tests = syntax::is_test_file(path);
        let total = text.lines().count();
        measures.push(Measure {
            path: path.to_owned(),
            function: None,
            line: 1,
            lines: if all_tests { 0 } else { total.saturating_sub(outline.test_lines) },
            lines_with_tests: total,
        });
        if !all_tests {
            measures.extend(functions(path, outline));
        }
    }
    measures
}

fn functions(path: &str, outline: Outline) -> impl Iterator<Item = Measure> {
    outline.functions.into_iter().map(move |function| Measure {
        path: path.to_owned(),
        function: Some(function.name),
        line: function.line,
        lines: function.lines,
        lines_with_tests: function.lines,
    })
}

// === impl Measure ===

impl Measure {
    fn is_too_long(&self) -> bool {
        match self.function {
            Some(_) => self.lines > FUNCTION_LINES,
            None => self.lines > FILE_LINES || self.lines_with_tests > FILE_LINES_WITH_TESTS,
        }
    }

    fn complaint(&self) -> String {
        let Self { lines, lines_with_tests, .. } = self;
        match &self.function {
            Some(name) => {
                format!("{name} has {lines} lines of at most {FUNCTION_LINES}; split it")
            }
            None => format!(
                "the file has {lines} lines without tests of at most {FILE_LINES}, and \
                 {lines_with_tests} in all of at most {FILE_LINES_WITH_TESTS}; split it"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::lines;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    f();\n".repeat(lines - 2))
    }

    fn check_one(path: &str, text: &str, exceptions: &[Exception]) -> String {
        lines(&check(&Repository::of(&[(path, text)]), exceptions))
    }

    #[test]
    fn a_function_of_71_lines_is_too_long() {
        assert_eq!(check_one("a.rs", &function("f", 70), &[]), "");
        let found = check_one("a.rs", &function("f", 71), &[]);
        assert_eq!(found, "a.rs:1: f has 71 lines of at most 70; split it\n");
    }

    #[test]
    fn tests_count_towards_the_larger_limit_only() {
        let code = "const A: u8 = 1;\n".repeat(400);
        let tests =
            |lines: usize| format!("#[cfg(test)]\nmod tests {{\n{}", function("t", lines - 3));
        assert_eq!(check_one("a.rs", &format!("{code}{}}}\n", tests(400)), &[]), "");
        let found = check_one("a.rs", &format!("{code}{}}}\n", tests(401)), &[]);
        assert!(found.contains("400 lines without tests of at most 500, and 801 in all"));
        let hidden = format!("#[cfg(test)]\nuse a::b;\n{}", "const A: u8 = 1;\n".repeat(501));
        let found = check_one("a.rs", &hidden, &[]);
        assert!(found.contains("501 lines without tests"), "an early cfg(test) hides nothing");
    }

    #[test]
    fn a_test_file_has_the_larger_limit_and_no_limit_for_functions() {
        let long = function("t", 600);
        assert_eq!(check_one("crates/core/tests/a.rs", &long, &[]), "");
        let longer = function("t", 801);
        assert!(check_one("crates/core/tests/a.rs", &longer, &[]).contains("801 in all"));
    }

    #[test]
    fn an_exception_excuses_what_it_names_and_must_be_needed() {
        let exception =
            |function, reason| [Exception { path: "a.rs", function: Some(function), reason }];
        let long = function("f", 71);
        assert_eq!(check_one("a.rs", &long, &exception("f", "a table")), "");
        let unexplained = check_one("a.rs", &long, &exception("f", ""));
        assert!(unexplained.contains("has no reason"), "{unexplained}");
        let stale = check_one("a.rs", &function("f", 70), &exception("f", "a table"));
        assert!(stale.contains("remove its exception"), "{stale}");
    }

    #[test]
    fn the_report_names_the_longest_first() {
        let text = function("short", 3) + &function("long", 9);
        let text = report(&Repository::of(&[("a.rs", &text)]));
        assert!(text.contains("   12    12 a.rs\n"), "{text}");
        assert!(text.find("long\n").unwrap() < text.find("short\n").unwrap(), "{text}");
    }
}
