//! Why there is no scenario.

use walras_wire::settings::Problems;

use super::trace::TraceError;

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
