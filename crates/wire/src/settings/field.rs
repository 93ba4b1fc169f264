//! How the keys of one table of TOML are taken, and what is wrong with them collected.
//!
//! Called by every reader of a table. What is missing, of another kind, out of range or unknown is
//! noted and never returned early, so that a person who made ten mistakes is told of ten. A `None`
//! means that the key was left out, or that a problem was noted.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::kind::Kind;
use super::problem::Problem;
use crate::suggest::unknown;

/// Values are shown up to this many characters.
const SHOWN_MAX: usize = 60;

/// The keys of one table.
#[derive(Debug)]
pub struct Fields<'a> {
    text: &'a str,
    table: &'a DeTable<'a>,
    path: String,
    line: Option<usize>,
    known: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl<'a> Fields<'a> {
    /// The keys of the whole document.
    pub fn root(text: &'a str, table: &'a DeTable<'a>) -> Self {
        let (path, known, problems) = (String::new(), Vec::new(), Vec::new());
        Self { text, table, path, line: None, known, problems }
    }

    /// Takes a key that must be there.
    pub fn required<K: Kind>(&mut self, name: &'static str, kind: &K) -> Option<K::Meaning> {
        if !self.has(name) {
            self.known.push(name);
            self.problem(name, format!("is missing; it must be {}", either(&kind.what())));
            return None;
        }
        self.optional(name, kind)
    }

    /// Takes a key that may be left out.
    pub fn optional<K: Kind>(&mut self, name: &'static str, kind: &K) -> Option<K::Meaning> {
        self.known.push(name);
        let meaning = kind.accept(self.table.get(name)?.get_ref());
        if meaning.is_none() {
            self.problem(name, format!("is not {}", kind.what()));
        }
        meaning
    }

    /// Takes a list of values of one kind.
    pub fn list<K: Kind>(&mut self, name: &'static str, kind: &K) -> Option<Vec<K::Meaning>> {
        self.known.push(name);
        let written = self.table.get(name)?;
        let Some(items) = written.get_ref().as_array() else {
            self.problem(name, format!("is not a list, each of it {}", kind.what()));
            return None;
        };
        let mut meanings = Vec::new();
        for (place, item) in items.iter().enumerate() {
            match kind.accept(item.get_ref()) {
                Some(meaning) => meanings.push(meaning),
                None => self.problems.push(Problem {
                    key: format!("{}[{place}]", self.key_of(name)),
                    value: Some(shown(self.text, item)),
                    what: format!("is not {}", kind.what()),
                    line: Some(line_at(self.text, item.span().start)),
                }),
            }
        }
        Some(meanings)
    }

    /// Takes a table. What is wrong with it is to be given back with [`Self::finish`].
    pub fn table(&mut self, name: &'static str) -> Option<Fields<'a>> {
        self.known.push(name);
        let written = self.table.get(name)?;
        self.fields(self.key_of(name), written)
    }

    /// Takes a list of tables, of which there must be at least one.
    pub fn tables(&mut self, name: &'static str) -> Vec<Fields<'a>> {
        let list = self.table.get(name).and_then(|written| written.get_ref().as_array());
        let lacking = match (self.has(name), list) {
            (false, _) => Some("is missing"),
            (true, Some(list)) if list.is_empty() => Some("is empty"),
            (true, _) => None,
        };
        if let Some(lacking) = lacking {
            self.problem(name, format!("{lacking}; there must be at least one [[{name}]]"));
        }
        self.optional_tables(name)
    }

    /// Takes a list of tables that may be left out.
    pub fn optional_tables(&mut self, name: &'static str) -> Vec<Fields<'a>> {
        self.known.push(name);
        let Some(written) = self.table.get(name) else {
            return Vec::new();
        };
        let Some(list) = written.get_ref().as_array() else {
            self.problem(name, format!("is not a list of tables; write [[{name}]]"));
            return Vec::new();
        };
        let path = self.key_of(name);
        let tables = list.iter().enumerate();
        tables.filter_map(|(place, table)| self.fields(format!("{path}[{place}]"), table)).collect()
    }

    /// Every key with its value, for a table whose keys are known elsewhere.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a DeValue<'a>)> + use<'a> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), value.get_ref()))
    }

    /// Makes known a key that is taken in another way.
    pub fn know(&mut self, name: &'static str) {
        self.known.push(name);
    }

    /// Whether a key was written.
    pub fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// Notes that a key's value, or the lack of it, is wrong.
    pub fn problem(&mut self, name: &str, what: String) {
        let written = self.table.get(name);
        self.problems.push(Problem {
            key: self.key_of(name),
            value: written.map(|value| shown(self.text, value)),
            what,
            line: written.map_or(self.line, |value| Some(line_at(self.text, value.span().start))),
        });
    }

    /// Notes that the table as a whole is wrong.
    pub fn problem_here(&mut self, what: String) {
        let (key, line) = (self.path.clone(), self.line);
        self.problems.push(Problem { key, value: None, what, line });
    }

    /// Refuses the key of a `low` that is above the `high` of another key.
    pub fn ordered(&mut self, low: (&'static str, f64), high: (&'static str, f64)) {
        if low.1 > high.1 {
            self.problem(low.0, format!("is more than {}, which is {}", high.0, high.1));
        }
    }

    /// Takes over what is wrong with a table in this one, which is done with.
    pub fn finish(&mut self, inner: Fields<'_>) {
        self.problems.append(&mut inner.problems());
    }

    /// All that is wrong, with every key that was not asked for.
    pub fn problems(mut self) -> Vec<Problem> {
        for name in self.table.keys() {
            let name: &str = name.get_ref();
            if !self.known.contains(&name) {
                self.problem(name, unknown("key", name, &self.known));
            }
        }
        // A key may be any text, so what was noted is made fit to be printed.
        for problem in &mut self.problems {
            if problem.key.chars().any(char::is_control) {
                problem.key = problem.key.escape_debug().to_string();
            }
        }
        self.problems
    }

    /// The path of a key.
    #[must_use]
    pub fn key_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn fields(&mut self, path: String, written: &'a Spanned<DeValue<'a>>) -> Option<Fields<'a>> {
        let line = Some(line_at(self.text, written.span().start));
        let Some(table) = written.get_ref().as_table() else {
            let value = Some(shown(self.text, written));
            let what = "is not a table".to_owned();
            self.problems.push(Problem { key: path, value, what, line });
            return None;
        };
        let (known, problems) = (Vec::new(), Vec::new());
        Some(Fields { text: self.text, table, path, line, known, problems })
    }
}

/// The line of a byte, counted from 1.
pub fn line_at(text: &str, byte: usize) -> usize {
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
            let mut cut: String = written.chars().take(SHOWN_MAX).collect();
            if written.chars().count() > SHOWN_MAX {
                cut.push_str("...");
            }
            cut.chars().flat_map(printable).collect()
        }
    }
}

fn printable(c: char) -> Vec<char> {
    if c.is_control() { c.escape_debug().collect() } else { vec![c] }
}

/// "A, nor b" is for after "is not"; after "it must be" it is "a, or b".
fn either(what: &str) -> String {
    what.replace(", nor ", ", or ")
}
