//! `walras completions`: a script that completes commands and options in a shell.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::screen;

/// Prints the script for `shell`.
pub(crate) fn run(shell: Shell) -> Result<(), Failure> {
    // Into memory first, because the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "walras", &mut script);
    let mut output = screen::output();
    output.write_all(&script)?;
    Ok(output.flush()?)
}
