//! `walras`: the one program of this repository that people run.
//!
//! It parses the command line, runs one command, and turns what became of it into an exit code:
//! 0 is fine, 2 is bad input or usage, 1 is anything else. Started under the name that kubectl
//! looks for, it is a plugin of kubectl, with commands of its own.
#![forbid(unsafe_code)]

mod cli;
mod commands;
#[cfg(feature = "run")]
mod control_cli;
mod daemon;
mod failure;
mod figures;
mod help;
mod input;
mod page;
#[cfg(feature = "run")]
mod run_cli;
#[cfg(feature = "run")]
mod run_help;
mod screen;
#[cfg(feature = "run")]
mod sizing_cli;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::failure::Failure;

fn main() -> ExitCode {
    #[cfg(feature = "kubernetes")]
    if is_plugin() {
        use crate::commands::plugin::{self, PluginCli};
        return end(PluginCli::try_parse().map(|cli| plugin::run(&cli)));
    }
    end(Cli::try_parse().map(|cli| commands::run(cli.command)))
}

/// Whether we were started as a plugin of kubectl.
#[cfg(feature = "kubernetes")]
fn is_plugin() -> bool {
    let name = std::env::args_os().next().map(std::path::PathBuf::from);
    name.is_some_and(|name| name.file_stem().is_some_and(|stem| stem == commands::plugin::PLUGIN))
}

fn end(done: Result<Result<(), Failure>, clap::Error>) -> ExitCode {
    match done {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.report(),
        Err(usage) => {
            // There is no one to tell if even this cannot be written.
            usage.print().ok();
            u8::try_from(usage.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}
