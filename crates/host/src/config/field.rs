//! How the keys of one table of the configuration are taken, and what is wrong with them collected.
//!
//! Called by every reader of a table. What is of another kind, out of range or unknown is noted and
//! never returned early, so that a person who made ten mistakes is told of ten. A `None` means that
//! the key was left out, or that a problem was noted.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::kind::Kind;
use super::problem::Problem;

/// Values are shown up to this many characters.
const SHOWN_MAX: usize = 60;
/// A key as similar as this to a known one is taken for a slip of the fingers.
const SIMILAR: f64 = 0.75;
/// A key longer than this is no slip of the fingers.
const COMPARED_MAX: usize = 64;
/// More keys than this are not listed as those that would have been right.
const LISTED_MAX: usize = 20;

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
    pub(super) fn root(text: &'a str, table: &'a DeTable<'a>) -> Self {
        let (path, known, problems) = (String::new(), Vec::new(), Vec::new());
        Self { text, table, path, line: None, known, problems }
    }

    /// Takes a key.
    pub(super) fn take<K: Kind>(&mut self, name: &'static str, kind: &K) -> Option<K::Meaning> {
        self.known.push(name);
        let meaning = kind.accept(self.table.get(name)?.get_ref());
        if meaning.is_none() {
            self.problem(name, format!("is not {}", kind.what()));
        }
        meaning
    }

    /// Takes a list of values of one kind.
    pub(super) fn list<K: Kind>(
        &mut self,
        name: &'static str,
        kind: &K,
    ) -> Option<Vec<K::Meaning>> {
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
    pub(super) fn table(&mut self, name: &'static str) -> Option<Fields<'a>> {
        self.known.push(name);
        let written = self.table.get(name)?;
        self.fields(self.key_of(name), written)
    }

    /// Takes a list of tables.
    pub(super) fn tables(&mut self, name: &'static str) -> Vec<Fields<'a>> {
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
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a DeValue<'a>)> + use<'a> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), value.get_ref()))
    }

    /// Makes known a key that is taken in another way.
    pub(super) fn know(&mut self, name: &'static str) {
        self.known.push(name);
    }

    /// Whether a key was written.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// Notes that a key's value, or the lack of it, is wrong.
    pub(super) fn problem(&mut self, name: &str, what: String) {
        let written = self.table.get(name);
        self.problems.push(Problem {
            key: self.key_of(name),
            value: written.map(|value| shown(self.text, value)),
            what,
            line: written.map_or(self.line, |value| Some(line_at(self.text, value.span().start))),
        });
    }

    /// Takes over what is wrong with a table in this one, which is done with.
    pub(super) fn finish(&mut self, inner: Fields<'_>) {
        self.problems.append(&mut inner.problems());
    }

    /// All that is wrong, with every key that nobody asked for.
    pub(super) fn problems(mut self) -> Vec<Problem> {
        for name in self.table.keys() {
            let name: &str = name.get_ref();
            if !self.known.contains(&name) {
                self.problem(name, unknown(name, &self.known));
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

    fn key_of(&self, name: &str) -> String {
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

/// What is wrong with a key that nobody knows.
#[must_use]
pub fn unknown(name: &str, known: &[&'static str]) -> String {
    let what = "is given to an unknown key";
    let close = known
        .iter()
        .filter(|_| name.len() <= COMPARED_MAX)
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(similar, _)| *similar >= SIMILAR)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    match close {
        Some((_, close)) => format!("{what}; did you mean {close}?"),
        None if known.len() <= LISTED_MAX => format!("{what}; known are {}", known.join(", ")),
        None => what.to_owned(),
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
