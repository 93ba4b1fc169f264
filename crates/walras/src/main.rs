//! `walras`: the one program of this repository that people run.
//!
//! It parses the command line, runs one command, and turns what became of it into an exit code:
//! 0 is fine, 2 is bad input or usage, 1 is anything else.
#![forbid(unsafe_code)]

mod cli;
mod cluster;
mod commands;
mod daemon;
mod failure;
mod help;
mod input;
mod page;
mod screen;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => match commands::run(cli.command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        },
        Err(usage) => {
            // Nobody is left to be told if even this cannot be written.
            usage.print().ok();
            u8::try_from(usage.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}
