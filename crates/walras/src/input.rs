//! Where a command reads from: a file, or standard input.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use walras_wire::json::ReadError;

use crate::failure::Failure;

/// Where input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Standard input.
    Standard,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// What `path` stands for: `-` is standard input.
    pub(crate) fn named(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::Standard } else { Self::File(path.to_owned()) }
    }

    /// Opens it. A terminal is refused, because a person who sees nothing happen would wait for
    /// ever; `example` is what to do instead.
    pub(crate) fn open(&self, example: &str) -> Result<Box<dyn Read>, Failure> {
        match self {
            Self::Standard if io::stdin().is_terminal() => Err(Failure::Input(format!(
                "there is nothing to read: standard input is a terminal; give a file, as in \
                 `{example}`, or pipe one in"
            ))),
            Self::Standard => Ok(Box::new(io::stdin().lock())),
            Self::File(path) => match File::open(path) {
                Ok(file) => Ok(Box::new(file)),
                Err(error) => Err(self.refused(&ReadError::Io(error))),
            },
        }
    }

    /// The failure that `error` is, with the name of the source.
    pub(crate) fn refused(&self, error: &ReadError) -> Failure {
        Failure::Input(format!("{self}: {error}"))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard => f.write_str("standard input"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}
