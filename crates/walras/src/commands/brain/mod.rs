//! `walras brain`: trains, judges, inspects, imports and tries the models that score nodes.
//!
//! `args` is what can be typed, `given` reads the files, and each command has a file of its own.

mod args;
mod eval;
mod given;
mod import;
mod inspect;
mod page;
mod score;
#[cfg(feature = "run")]
mod serve;
mod tell;
mod train;

pub(crate) use args::BrainArgs;

use self::args::BrainCommand;
use crate::failure::Failure;

/// Runs one of them.
pub(crate) fn run(args: BrainArgs) -> Result<(), Failure> {
    match args.command {
        BrainCommand::Train(args) => train::run(&args),
        BrainCommand::Eval(args) => eval::run(&args),
        BrainCommand::Inspect(args) => inspect::run(&args),
        BrainCommand::Import(args) => import::run(&args),
        BrainCommand::Score(args) => score::run(&args),
        #[cfg(feature = "run")]
        BrainCommand::Serve(args) => serve::run(&args),
    }
}
