//! How the keys of one table of a scenario file are taken, and what is wrong with them collected.
//!
//! Called by every reader of a table. What is missing, of another kind, out of range or unknown is
//! noted and never returned early, so that a person who made three mistakes is told of three. A
//! `None` means that a problem was noted, or that a key that may be left out was.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::kind::Kind;
use super::problem::Problem;

/// Values are shown up to this many characters.
const SHOWN_MAX: usize = 60;

/// The keys of one table.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    text: &'a str,
    table: &'a DeTable<'a>,
    path: String,
    line: Option<usize>,
    known: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl<'a> Fields<'a> {
    /// The keys of the whole document.
    pub(super) const fn root(text: &'a str, table: &'a DeTable<'a>) -> Self {
        Self {
            text,
            table,
            path: String::new(),
            line: None,
            known: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Whether a key is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// The path of a key.
    pub(super) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Takes a key that must be there.
    pub(super) fn required<K: Kind>(&mut self, name: &'static str, kind: &K) -> Option<K::Meaning> {
        if !self.has(name) {
            self.known.push(name);
            self.problem(name, format!("is missing; it must be {}", either(&kind.what())));
            return None;
        }
        self.optional(name, kind)
    }

    /// Takes a key that may be left out.
    pub(super) fn optional<K: Kind>(&mut self, name: &'static str, kind: &K) -> Option<K::Meaning> {
        self.known.push(name);
        let meaning = kind.accept(self.table.get(name)?.get_ref());
        if meaning.is_none() {
            self.problem(name, format!("is not {}", kind.what()));
        }
        meaning
    }

    /// Takes a table that may be left out. What is wrong with it is to be given back with
    /// [`Self::finish`].
    pub(super) fn table(&mut self, name: &'static str) -> Option<Fields<'a>> {
        self.known.push(name);
        let written = self.table.get(name)?;
        let path = self.path_of(name);
        self.fields(path, written)
    }

    /// Takes a list of tables, of which there must be at least one.
    pub(super) fn tables(&mut self, name: &'static str) -> Vec<Fields<'a>> {
        self.known.push(name);
        let written = self.table.get(name);
        let Some(list) = written.and_then(|written| written.get_ref().as_array()) else {
            let what = if written.is_some() { "is not a list of tables" } else { "is missing" };
            self.problem(name, format!("{what}; there must be at least one [[{name}]]"));
            return Vec::new();
        };
        if list.is_empty() {
            self.problem(name, format!("is empty; there must be at least one [[{name}]]"));
        }
        let path = self.path_of(name);
        let tables = list.iter().enumerate();
        tables.filter_map(|(place, table)| self.fields(format!("{path}[{place}]"), table)).collect()
    }

    /// Takes a list of tables that may be left out.
    pub(super) fn optional_tables(&mut self, name: &'static str) -> Vec<Fields<'a>> {
        if self.has(name) {
            return self.tables(name);
        }
        self.known.push(name);
        Vec::new()
    }

    /// Notes that a key's value, or the lack of it, is wrong.
    pub(super) fn problem(&mut self, name: &str, what: String) {
        let written = self.table.get(name);
        self.problems.push(Problem {
            path: self.path_of(name),
            value: written.map(|value| shown(self.text, value)),
            what,
            line: written.map_or(self.line, |value| Some(self.line_of(value))),
        });
    }

    /// Notes that the table as a whole is wrong.
    pub(super) fn problem_here(&mut self, what: String) {
        let (path, line) = (self.path.clone(), self.line);
        self.problems.push(Problem { path, value: None, what, line });
    }

    /// Refuses the key of a `low` that is above the `high` of another key.
    pub(super) fn ordered(&mut self, low: (&'static str, f64), high: (&'static str, f64)) {
        if low.1 > high.1 {
            self.problem(low.0, format!("is more than {}, which is {}", high.0, high.1));
        }
    }

    /// Takes over what is wrong with a table in this one, which is done with.
    pub(super) fn finish(&mut self, inner: Fields<'_>) {
        self.problems.append(&mut inner.problems());
    }

    /// All that is wrong, with every key that nobody asked for.
    pub(super) fn problems(mut self) -> Vec<Problem> {
        let known = self.known.join(", ");
        for name in self.table.keys() {
            let name: &str = name.get_ref();
            if !self.known.contains(&name) {
                self.problem(name, format!("is given to an unknown key; known are {known}"));
            }
        }
        // A key may be any text, so what was noted is made fit to be printed.
        for problem in &mut self.problems {
            if problem.path.chars().any(char::is_control) {
                problem.path = problem.path.escape_debug().to_string();
            }
        }
        self.problems
    }

    fn fields(&mut self, path: String, written: &'a Spanned<DeValue<'a>>) -> Option<Fields<'a>> {
        let line = Some(self.line_of(written));
        let Some(table) = written.get_ref().as_table() else {
            let value = Some(shown(self.text, written));
            self.problems.push(Problem { path, value, what: "is not a table".to_owned(), line });
            return None;
        };
        let (known, problems) = (Vec::new(), Vec::new());
        Some(Fields { text: self.text, table, path, line, known, problems })
    }

    fn line_of(&self, written: &Spanned<DeValue<'_>>) -> usize {
        line_at(self.text, written.span().start)
    }
}

/// The line of a byte, counted from 1.
pub(super) fn line_at(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// A value as it is printed: as it was written, but cut and without what ruins a terminal.
fn shown(text: &str, written: &Spanned<DeValue<'_>>) -> String {
    match written.get_ref() {
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {
            let written = text.get(written.span()).unwrap_or_default();
            let escaped = |c: char| match c {
                c if c.is_control() => c.escape_debug().to_string(),
                c => c.to_string(),
            };
            let cut: String = written.chars().take(SHOWN_MAX).map(escaped).collect();
            if written.chars().count() > SHOWN_MAX { format!("{cut}...") } else { cut }
        }
    }
}

/// "A, nor b" is for after "is not"; after "it must be" it is "a, or b".
fn either(what: &str) -> String {
    what.replace(", nor ", ", or ")
}
