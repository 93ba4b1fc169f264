//! One file per command. Each reads, asks the core, and writes; deciding is not done here.

#[cfg(feature = "kubernetes")]
pub(crate) mod agent;
pub(crate) mod brain;
pub(crate) mod clear;
mod completions;
#[cfg(feature = "kubernetes")]
pub(crate) mod controller;
#[cfg(feature = "kubernetes")]
pub(crate) mod crds;
mod demo;
pub(crate) mod explain;
mod host;
mod man;
#[cfg(feature = "kubernetes")]
pub(crate) mod plugin;
mod profiles;
pub(crate) mod replay;
#[cfg(feature = "kubernetes")]
pub(crate) mod scheduler;
pub(crate) mod sim;
#[cfg(feature = "telemetry")]
pub(crate) mod telemetry;
pub(crate) mod top;
pub(crate) mod vm;
#[cfg(feature = "run")]
mod workloads;

use crate::cli::Command;
use crate::failure::Failure;

/// Runs one command.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::DemoLoad(args) => demo::run_load(&args),
        Command::Clear(args) => clear::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Sim(args) => sim::run(args),
        Command::Brain(args) => brain::run(args),
        Command::Host(args) => host::run(*args),
        #[cfg(feature = "kubernetes")]
        Command::Controller(args) => controller::run(args),
        #[cfg(feature = "kubernetes")]
        Command::Agent(args) => agent::run(*args),
        #[cfg(feature = "kubernetes")]
        Command::Scheduler(args) => scheduler::run(args),
        #[cfg(feature = "run")]
        Command::Workloads(command) => workloads::run(command),
        Command::Top(args) => top::run(&args),
        #[cfg(feature = "telemetry")]
        Command::Telemetry(args) => telemetry::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Profiles(args) => profiles::run(&args),
        Command::Vm(args) => vm::run(&args),
        #[cfg(feature = "kubernetes")]
        Command::Crds(args) => crds::run(&args),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { out } => man::run(&out),
    }
}
