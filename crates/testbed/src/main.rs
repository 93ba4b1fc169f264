//! `walras-testbed`: starts, lists and ends testbeds. People call it as `cargo xtask testbed`.
//!
//! Progress goes to standard error. The last line of `up` on standard output is
//! `kubeconfig: PATH`. Exit codes: 0 is fine, 2 is wrong usage, 1 is anything else.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its user")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand, value_parser};
use walras_testbed::{self as testbed, MOST_NODES, MOST_REAL_NODES, Settings, Spec, Testbed};

#[derive(Parser)]
#[command(name = "walras-testbed", bin_name = "cargo xtask testbed")]
#[command(about = "A real Kubernetes on this machine, as ordinary processes")]
#[command(after_help = "`cargo xtask testbed test` runs the tests that start clusters.")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start a cluster, unless it is up already, and print the path of its kubeconfig
    Up {
        /// How many nodes: the first has a real kubelet, further ones exist in the API alone (KWOK)
        /// [default: those of --real-nodes, or 0 with --control-plane-only]
        #[arg(long, value_name = "N")]
        #[arg(value_parser = value_parser!(u32).range(1..=i64::from(MOST_NODES)))]
        nodes: Option<u32>,
        /// How many of them are real: 1, or 2 on half of the CPUs each
        #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "control_plane_only")]
        #[arg(value_parser = value_parser!(u32).range(1..=i64::from(MOST_REAL_NODES)))]
        real_nodes: u32,
        /// No real node: needs no root, and all nodes exist in the API alone
        #[arg(long)]
        control_plane_only: bool,
        /// Its name; several clusters can be up side by side
        #[arg(long, default_value = "default")]
        name: String,
    },
    /// End a cluster, and everything that it brought into the machine
    Down {
        /// Its name
        #[arg(long, default_value = "default", conflicts_with = "all")]
        name: String,
        /// End every cluster that there is
        #[arg(long)]
        all: bool,
    },
    /// List the clusters and how they are
    Status,
    /// Build and fetch everything that a cluster needs, and start nothing
    Prepare,
    /// Build Walras as it is shipped, and write an image of it; called by `cargo xtask image`
    #[command(hide = true)]
    Image {
        /// The file to write
        #[arg(long, value_name = "FILE.tar")]
        out: Option<PathBuf>,
    },
    /// Keep the cluster in a folder; started by `up` and by tests
    #[command(hide = true)]
    Keep {
        /// Its folder
        dir: PathBuf,
    },
    /// Start a control plane that lives as long as this process; for the tests of the testbed
    #[command(hide = true)]
    Hold,
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Up { nodes, real_nodes, control_plane_only, name } => {
            let real = if control_plane_only { 0 } else { real_nodes };
            let nodes = nodes.unwrap_or(real);
            ensure!(nodes >= real, "--nodes {nodes}: {real} of them cannot be real");
            let settings = Settings::read()?;
            let testbed = Testbed::up(&settings, &name, Spec::with_real_nodes(real, nodes))?;
            println!("kubeconfig: {}", testbed.kubeconfig().display());
            testbed.let_go();
            Ok(())
        }
        Task::Down { name, all } => down(&name, all),
        Task::Status => {
            let rows = testbed::status(&Settings::read()?)?;
            if rows.is_empty() {
                println!("no testbed");
            }
            rows.iter().for_each(|row| println!("{row}"));
            Ok(())
        }
        Task::Prepare => {
            let programs = testbed::prepare(&testbed::needed(true, true), &Settings::read()?)?;
            for (program, place) in programs.iter() {
                println!("{} {}", program.name(), place.display());
            }
            Ok(())
        }
        Task::Image { out } => {
            let image = testbed::release(out.as_deref(), &Settings::read()?)?;
            println!("file: {}", image.path.display());
            println!("image: {}", image.reference);
            println!("bytes: {}", image.bytes);
            Ok(())
        }
        Task::Keep { dir } => testbed::keep(&dir),
        Task::Hold => {
            let held = Testbed::fresh(Spec::new(0, true))?;
            println!("{}", held.dir().display());
            loop {
                std::thread::park();
            }
        }
    }
}

fn down(name: &str, all: bool) -> Result<()> {
    let rows = testbed::status(&Settings::read()?)?;
    let base = Settings::read()?.testbeds();
    let names: Vec<String> = rows.into_iter().map(|row| row.name).collect();
    let chosen: Vec<String> = names.into_iter().filter(|found| all || found == name).collect();
    ensure!(all || !chosen.is_empty(), "there is no testbed named {name}");
    for name in chosen {
        testbed::end(&base.join(&name))?;
        println!("{name} is down");
    }
    Ok(())
}
