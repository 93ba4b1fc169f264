//! What is wrong with settings, key by key.

use std::fmt;

/// So many problems are shown in full.
const SHOWN_MAX: usize = 20;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which key: `rule[2].min`; empty for the file as a whole.
    pub key: String,
    /// The value as it was written, if there is one.
    pub value: Option<String>,
    /// What is wrong with it, to be read after the value.
    pub what: String,
    /// The line, counted from 1, if there is one.
    pub line: Option<usize>,
}

/// Everything that is wrong, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// All of them, put in order.
    #[must_use]
    pub fn new(mut all: Vec<Problem>) -> Self {
        all.sort_by_key(|problem| problem.line);
        Self(all)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        if let Some(value) = &self.value {
            write!(f, "{value} ")?;
        }
        f.write_str(&self.what)?;
        match self.line {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}

/// One problem is one line; several are a count and a line each.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{only}");
        }
        write!(f, "{} problems", self.0.len())?;
        for problem in self.0.iter().take(SHOWN_MAX) {
            write!(f, "\n  {problem}")?;
        }
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
