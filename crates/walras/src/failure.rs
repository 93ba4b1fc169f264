//! Why a command ended early, what the user is told, and the exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use owo_colors::OwoColorize;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is bad, or not there. Told in one or more lines.
    Input(String),
    /// What was decided could not be written.
    Output(io::Error),
    /// The machine stands in the way: something is taken, missing or not permitted.
    Machine(String),
    /// The user ended it.
    Interrupted,
}

impl Failure {
    /// Tells the user and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Input(message) => {
                tell(message);
                ExitCode::from(2)
            }
            // As shells have it for Ctrl-C.
            Self::Interrupted => ExitCode::from(130),
            Self::Machine(message) => {
                tell(message);
                ExitCode::FAILURE
            }
            // The reader of our output has seen enough, as `head` does.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Output(error) => {
                tell(&format!("the output cannot be written: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn tell(message: &str) {
    let mut stderr = anstream::stderr().lock();
    // There is no one to tell if this cannot be written.
    writeln!(stderr, "{} {message}", "error:".red().bold()).ok();
}
