//! What is wrong with a scenario, key by key.

use std::fmt;

use super::trace::TraceError;

/// So many problems are shown in full.
const SHOWN_MAX: usize = 20;

/// Why there is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// A file could not be read.
    #[error("{file}: {problem}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the operating system says.
        problem: String,
    },
    /// A file is not a scenario.
    #[error("{file}: {problems}")]
    Refused {
        /// The file.
        file: String,
        /// Everything that is wrong with it.
        problems: Problems,
    },
    /// A trace is not one.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Traces that no node can run.
    #[error("the traces want a node of {cores} cores; a node has at most {most}")]
    TooMuch {
        /// What they want together.
        cores: String,
        /// What a node can have.
        most: u64,
    },
    /// Not a single trace.
    #[error("there is no trace; give at least one")]
    NoTrace,
}

/// One thing that is wrong with a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `pod[2].service.rate`; empty for the file as a whole.
    pub path: String,
    /// The value as it was written, if there is one.
    pub value: Option<String>,
    /// What is wrong with it, to be read after the value.
    pub what: String,
    /// The line, counted from 1, if there is one.
    pub line: Option<usize>,
}

/// Everything that is wrong with a scenario file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    all: Vec<Problem>,
}

// === impl Problem ===

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
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

// === impl Problems ===

impl Problems {
    /// All of them, put in order.
    #[must_use]
    pub fn new(mut all: Vec<Problem>) -> Self {
        all.sort_by_key(|problem| problem.line);
        Self { all }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Problem] {
        &self.all
    }
}

/// One problem is one line; several are a count and a line each.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.all.as_slice() {
            return write!(f, "{only}");
        }
        write!(f, "{} problems", self.all.len())?;
        for problem in self.all.iter().take(SHOWN_MAX) {
            write!(f, "\n  {problem}")?;
        }
        match self.all.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
