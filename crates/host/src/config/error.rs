//! Why there is no configuration.

use std::path::PathBuf;

use walras_wire::settings::Problems;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{}: the configuration cannot be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// What it says is wrong.
    #[error("{file}: {problems}")]
    Refused {
        /// Where it was written.
        file: String,
        /// Everything that is wrong with it.
        problems: Problems,
    },
}
