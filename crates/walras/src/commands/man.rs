//! `walras man`: the man pages, made from the definition that parses the command line.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::failure::Failure;

/// Writes `walras.1` and a page for each command to `folder`.
pub(crate) fn run(folder: &Path) -> Result<(), Failure> {
    write(folder).map_err(|error| {
        let message = format!("{}: {error}", folder.display());
        Failure::Output(io::Error::new(error.kind(), message))
    })
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}
