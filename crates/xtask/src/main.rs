//! `cargo xtask`: the only build tool besides cargo.
//!
//! `test` climbs the test ladder, as CI does; `testbed` starts a real Kubernetes; `soak` breaks one
//! for an hour; `image` writes an image; `bpf` compiles eBPF programs; `proto` makes code; `docker`
//! unpacks a Docker for tests; `compare` asks Python; `man` writes the man pages. See
//! `docs/testing.md`, `docs/testbed.md`, `docs/runbook.md`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a build tool talks to its user")]

mod bpf;
mod compare;
mod docker;
mod facts;
mod go;
mod guest;
mod lease;
mod man;
mod proto;
mod run;
mod soak;
mod testbed;
mod tier;
mod tiers;
mod toolchain;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, value_parser};

use crate::tier::Tier;

#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", about = "Test and document the repository")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the test ladder, or some of its tiers, in order
    Test {
        /// Run only this tier; may be given several times
        #[arg(long = "tier", value_name = "NAME")]
        tiers: Vec<Tier>,
        /// List the tiers and what each proves, and run nothing
        #[arg(long)]
        list: bool,
        /// How long to fuzz each target, in seconds
        #[arg(long, value_name = "N", default_value_t = 5)]
        #[arg(value_parser = value_parser!(u32).range(1..))]
        fuzz_seconds: u32,
    },
    /// Start, list and end real Kubernetes clusters on this machine, and test them
    #[command(disable_help_flag = true)]
    Testbed {
        /// up, down, status, prepare or test, and their options; see `testbed --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        args: Vec<String>,
    },
    /// Break a real cluster with hostile tenants in it, again and again: nothing may be lost
    Soak {
        /// For how long
        #[arg(long, value_name = "N", default_value_t = 60)]
        #[arg(value_parser = value_parser!(u32).range(1..=1440))]
        minutes: u32,
        /// The seed that an earlier run printed, to repeat it
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Build Walras as it is shipped, and write an image of it for Kubernetes
    Image {
        /// The file to write, an OCI archive [default: beside the program in the target folder]
        #[arg(long, value_name = "FILE.tar")]
        out: Option<PathBuf>,
    },
    /// Compile the eBPF programs that are committed; needs clang-14 and llvm-14
    Bpf {
        /// Only say whether what is committed is what the sources make
        #[arg(long)]
        check: bool,
    },
    /// Compare the Brain's answers and speed with Python's XGBoost and PyTorch
    Compare,
    /// Unpack Debian's Docker into the cache, for the tests that need one
    Docker,
    /// Make the code of our gRPC services from `proto`
    Proto {
        /// Write nothing, and fail if what is committed is not what is made
        #[arg(long)]
        check: bool,
    },
    /// Write the man pages of `walras` and its subcommands
    Man {
        /// The folder to write to [default: `man` in the target folder]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test { list: true, .. } => run::list(),
        Task::Test { tiers, list: false, fuzz_seconds } => run::test(&tiers, fuzz_seconds),
        Task::Testbed { args } => testbed::call(&args),
        Task::Soak { minutes, seed } => soak::run(minutes, seed),
        Task::Image { out } => testbed::image(out),
        Task::Bpf { check } => bpf::compile(check),
        Task::Compare => compare::run(),
        Task::Docker => docker::prepare().map(|()| ExitCode::SUCCESS),
        Task::Proto { check } => proto::make(check).map(|()| ExitCode::SUCCESS),
        Task::Man { out } => man::write(out),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
