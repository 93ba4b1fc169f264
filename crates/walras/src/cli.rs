//! The command line: what can be asked for, and the help that teaches it.
//!
//! Man pages and completions are made from the same definitions.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use walras_core::market::Fairness;
use walras_core::profile::ProfileName;
use walras_node::log::{LogFormat, LogLevel};
use walras_sim::scenario::trace::Format;

#[cfg(feature = "kubernetes")]
use crate::commands::agent::{AGENT_HELP, AgentArgs};
use crate::commands::brain::BrainArgs;
use crate::commands::clear::ClearArgs;
#[cfg(feature = "kubernetes")]
use crate::commands::controller::{CONTROLLER_HELP, ControllerArgs};
#[cfg(feature = "kubernetes")]
use crate::commands::crds::{CRDS_HELP, CrdsArgs};
use crate::commands::explain::ExplainArgs;
use crate::commands::replay::ReplayArgs;
#[cfg(feature = "kubernetes")]
use crate::commands::scheduler::{SCHEDULER_HELP, SchedulerArgs};
use crate::commands::sim::pack::ScoreChoice;
use crate::commands::sim::place::PlaceArgs;
#[cfg(feature = "telemetry")]
use crate::commands::telemetry::{TelemetryArgs, daemon::TelemetryFlags};
use crate::commands::top::TopArgs;
use crate::commands::vm::VmArgs;
use crate::help::{
    CLEAR_HELP, COMPLETIONS_HELP, DEMO_HELP, EXPLAIN_HELP, HOST_HELP, PROFILES_HELP, REPLAY_HELP,
    REPLAY_USAGE, SIM_HELP, SIM_LIST_HELP, SIM_RUN_HELP, SIM_TUNE_HELP, TOP_COMMAND_HELP, TOP_HELP,
};
#[cfg(feature = "run")]
use crate::run_cli::{HostCommand, RunCommand};

/// The version and the commit it was built from.
pub(crate) const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("WALRAS_COMMIT"), ")");

/// Divides a machine's CPU among its workloads by a small market.
#[derive(Debug, Parser)]
#[command(
    name = "walras",
    version = VERSION,
    about = "Divides a machine's CPU among its workloads by a small market",
    long_about = "Divides a machine's CPU among its workloads by a small market: while there is \
                  enough, everyone gets what they need; when there is not, everyone keeps their \
                  min and the rest is shared fairly, by weight.",
    after_help = TOP_HELP,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show in a minute, on this machine, what the market does for five workloads
    #[command(after_help = DEMO_HELP)]
    Demo(DemoArgs),
    /// Clear one market: who gets how much CPU, and why
    #[command(after_help = CLEAR_HELP)]
    Clear(ClearArgs),
    /// Replay a node's history: what would be decided at each tick, and why
    #[command(after_help = REPLAY_HELP, override_usage = REPLAY_USAGE)]
    Replay(ReplayArgs),
    /// Simulate: how the market and what people use instead do on the same load
    #[command(after_help = SIM_HELP, subcommand_required = true, arg_required_else_help = true)]
    Sim(SimArgs),
    /// Train, judge and use the models that score nodes for pods
    Brain(BrainArgs),
    /// Size the workloads of this machine, or watch what that would do
    #[command(after_help = HOST_HELP)]
    #[cfg(feature = "run")]
    Host(Box<HostCommand>),
    /// Size the workloads of this machine, or watch what that would do
    #[command(after_help = HOST_HELP)]
    #[cfg(not(feature = "run"))]
    Host(Box<HostArgs>),
    #[cfg(feature = "kubernetes")]
    /// Resize the pods of a Kubernetes cluster in place, as its agents ask for
    #[command(after_help = CONTROLLER_HELP)]
    Controller(ControllerArgs),
    #[cfg(feature = "kubernetes")]
    /// Size the pods of one Kubernetes node, or watch what that would do
    #[command(after_help = AGENT_HELP)]
    Agent(Box<AgentArgs>),
    #[cfg(feature = "kubernetes")]
    /// Score nodes for kube-scheduler, from what they measure of themselves
    #[command(after_help = SCHEDULER_HELP)]
    Scheduler(SchedulerArgs),
    #[cfg(feature = "run")]
    #[command(flatten)]
    Workloads(RunCommand),
    /// Watch a node's pods in the terminal, like htop
    #[command(after_help = TOP_COMMAND_HELP)]
    Top(TopArgs),
    #[cfg(feature = "telemetry")]
    /// Show the figures of this machine, with their source or why there are none
    Telemetry(TelemetryArgs),
    /// Say why a pod has the CPU it has, in sentences
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArgs),
    /// List every constant of the market: its unit, range, value in each profile, and the reason
    #[command(after_help = PROFILES_HELP)]
    Profiles(ProfilesArgs),
    /// Decide over a virtual machine, offline
    Vm(VmArgs),
    #[cfg(feature = "kubernetes")]
    /// Print the definition of PodAllocation that a Kubernetes cluster needs
    #[command(after_help = CRDS_HELP)]
    Crds(CrdsArgs),
    /// Print a script that completes commands and options in your shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Be one of the workloads of `walras demo`
    #[command(hide = true)]
    DemoLoad(DemoLoadArgs),
    /// Write the man pages
    #[command(hide = true)]
    Man {
        /// The folder to write to; made where it is missing
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// How to show it.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// How long each of the two phases takes
    #[arg(long, value_name = "N", default_value_t = 25,
          value_parser = clap::value_parser!(u32).range(2..=600))]
    pub(crate) seconds: u32,
    /// Run the same workloads in the simulator, and change nothing on this machine
    #[arg(long)]
    pub(crate) simulate: bool,
    /// Print JSON for programs, not a table for people
    #[arg(long)]
    pub(crate) json: bool,
    /// Where to write the page with the table and the pictures
    #[arg(long, value_name = "FILE.html", default_value = "walras-demo.html")]
    pub(crate) report: PathBuf,
    #[cfg(feature = "run")]
    #[command(flatten)]
    pub(crate) running: crate::run_cli::DemoRunArgs,
}

/// Which workload to be.
#[derive(Debug, Args)]
pub(crate) struct DemoLoadArgs {
    /// Its name
    pub(crate) name: String,
    /// The size of the node that it shares
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) capacity_milli: u64,
    /// How long requests arrive
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
}

/// What to simulate, or to list.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) command: SimCommand,
}

/// What to do with the simulator.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Run scenarios under several policies, and compare what they came to
    #[command(after_help = SIM_RUN_HELP)]
    Run(SimRunArgs),
    /// Place pods by several rules, and compare how much they slow each other down
    Place(PlaceArgs),
    /// Search better constants for the market, and judge them by other scenarios
    #[command(after_help = SIM_TUNE_HELP)]
    Tune(SimTuneArgs),
    /// List the built-in scenarios, and the policies
    #[command(after_help = SIM_LIST_HELP)]
    List(SimListArgs),
}

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct SimRunArgs {
    /// Built-in scenarios, or files; all of the suite test where there are none
    #[arg(value_name = "SCENARIO|FILE.toml")]
    pub(crate) scenarios: Vec<String>,
    /// A recorded load to replay; all of them together make one more scenario
    #[arg(long = "trace", value_name = "FILE")]
    pub(crate) traces: Vec<PathBuf>,
    /// How all traces are written down; where it is not said, each tells by its first line
    #[arg(long, value_enum, requires = "traces")]
    pub(crate) trace_format: Option<TraceFormat>,
    /// Count the nodes that are needed, packed by requests over days, in the place of latencies
    #[arg(long, conflicts_with = "hours")]
    pub(crate) pack: bool,
    /// The policies that take part, or all; with --pack all unless it is said, otherwise
    /// static,weights,vpa,koordinator,autothrottle,walras,walras-api,oracle
    #[arg(long = "policy", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) policies: Vec<String>,
    /// With --pack: how many days are counted, after a week of history and a day to settle
    #[arg(long, value_name = "N", requires = "pack", default_value_t = 7,
          value_parser = clap::value_parser!(u32).range(1..=60))]
    pub(crate) days: u32,
    /// With --pack: pods take memory, too, and nodes have 4 GiB for each core
    #[arg(long, requires = "pack")]
    pub(crate) memory: bool,
    /// With --pack: which of the nodes with room the scheduler prefers
    #[arg(long, value_enum, requires = "pack", default_value_t = ScoreChoice::Most)]
    pub(crate) score: ScoreChoice,
    /// How many nodes, each with other random numbers, whatever the scenario says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) nodes: Option<u32>,
    /// How long, whatever the scenario says
    #[arg(long, value_name = "H", value_parser = hours)]
    pub(crate) hours: Option<f64>,
    /// Where random numbers start, whatever the scenario says
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How many threads; as many as the machine can run where it is not said
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Print JSON for programs, not tables for people
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with tables and pictures as well
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// What to search.
#[derive(Debug, Args)]
pub(crate) struct SimTuneArgs {
    /// Whose constants to start from
    #[arg(long, value_enum, default_value_t = TunedProfile::Direct)]
    pub(crate) profile: TunedProfile,
    /// A scenario to search on; all of the suite train where there are none
    #[arg(long = "train", value_name = "SCENARIO|FILE.toml")]
    pub(crate) training: Vec<String>,
    /// A scenario to judge by; all of the suite test where there are none
    #[arg(long = "test", value_name = "SCENARIO|FILE.toml")]
    pub(crate) tests: Vec<String>,
    /// How many sets of constants to try at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = 250,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) evaluations: u32,
    /// Where the random order of constants starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many threads; as many as the machine can run where it is not said
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Print JSON for programs, not tables for people
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to list.
#[derive(Debug, Args)]
pub(crate) struct SimListArgs {
    /// Print JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to run on this machine.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// The configuration; /etc/walras/host.toml where it is not said, if there is one
    #[arg(long, value_name = "FILE", env = "WALRAS_HOST_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Change limits: write to the cgroups of workloads. Without it, it only watches. A stop gives
    /// back what workloads came with
    #[arg(long, env = "WALRAS_HOST_ACT", overrides_with = "dry_run")]
    pub(crate) act: bool,
    /// Change nothing, whatever the configuration says: only show what would be done
    #[arg(long, overrides_with = "act")]
    pub(crate) dry_run: bool,
    /// Whether every workload gets back what it came with when the daemon stops; it does where
    /// nothing is said
    #[arg(long, value_name = "BOOL", env = "WALRAS_HOST_RESTORE", num_args = 0..=1,
          require_equals = true, default_missing_value = "true",
          value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) restore: Option<bool>,
    /// UNDO NOW: put back every limit that an earlier run changed and has not put back, then exit
    #[arg(long, conflicts_with_all = ["act", "record"])]
    pub(crate) restore_only: bool,
    /// Read the configuration, say which groups would be sized and why others would not, then exit.
    /// Changes nothing; a daemon may be running
    #[arg(long, conflicts_with_all = ["act", "record", "restore_only"])]
    pub(crate) check: bool,
    /// With --check: print JSON for programs
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
    /// Where to serve the dashboard, the metrics and the JSON API
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_HOST_LISTEN")]
    pub(crate) listen: Option<SocketAddr>,
    /// The profile whose constants are the starting point
    #[arg(long, value_enum, env = "WALRAS_HOST_PROFILE")]
    pub(crate) profile: Option<ProfileChoice>,
    /// The folder of the store
    #[arg(long, value_name = "DIR", env = "WALRAS_HOST_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// The folder of the lock that keeps a second daemon out
    #[arg(long, value_name = "DIR", env = "WALRAS_HOST_RUN_DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Record what is seen, for `walras replay`
    #[arg(long, value_name = "FILE", env = "WALRAS_HOST_RECORD")]
    pub(crate) record: Option<PathBuf>,
    /// How large the recording may become; it stops there
    #[arg(long, value_name = "MIB", env = "WALRAS_HOST_RECORD_MAX_MIB",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) record_max_mib: Option<u64>,
    /// The least urgent messages that are logged
    #[arg(long, value_enum, env = "WALRAS_HOST_LOG_LEVEL")]
    pub(crate) log_level: Option<LevelChoice>,
    /// Whether messages are lines for people or JSON for programs
    #[arg(long, value_enum, env = "WALRAS_HOST_LOG_FORMAT")]
    pub(crate) log_format: Option<FormatChoice>,
    #[cfg(feature = "telemetry")]
    #[command(flatten)]
    pub(crate) telemetry: TelemetryFlags,
}

/// What to list.
#[derive(Debug, Args)]
pub(crate) struct ProfilesArgs {
    /// Show the values of this profile only
    #[arg(value_name = "NAME", value_enum)]
    pub(crate) name: Option<ProfileChoice>,
    /// Print JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// A fairness by its name on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FairnessChoice {
    /// In proportion to what each pod wants above its min, times its weight
    Proportional,
    /// By weight alone, up to the need; asking for more gains nothing
    Nash,
}

/// How a trace is written down.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TraceFormat {
    /// Requests per second, one number a line
    Requests,
    /// CPU in percent, one number a line, every 300 s
    Percent,
    /// A CSV of GWA-T-12
    Bitbrains,
    /// A machine_usage.csv
    Alibaba,
    /// Usage by start and end time
    Google,
}

impl From<TraceFormat> for Format {
    fn from(choice: TraceFormat) -> Self {
        match choice {
            TraceFormat::Requests => Self::Requests,
            TraceFormat::Percent => Self::Percent,
            TraceFormat::Bitbrains => Self::Bitbrains,
            TraceFormat::Alibaba => Self::Alibaba,
            TraceFormat::Google => Self::Google,
        }
    }
}

/// How urgent a message must be, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LevelChoice {
    /// Only what went wrong
    Error,
    /// And what a person should look at
    Warn,
    /// And what was done
    Info,
    /// And what was considered
    Debug,
    /// Everything
    Trace,
}

/// How messages are written, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FormatChoice {
    /// Lines for people
    Text,
    /// A JSON object per line
    Json,
}

/// A profile by its name on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ProfileChoice {
    /// As the predecessor's documents say
    Seed,
    /// Where acting is a cgroup write
    Direct,
    /// Where acting is an API write
    Api,
    /// Caps as small as latency allows, for those who pay for what is allocated
    Tight,
}

/// A profile that can be tuned. The other, seed, is as its documents have it, whatever is better.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TunedProfile {
    /// Where acting is a cgroup write
    Direct,
    /// Where acting is an API write
    Api,
}

impl From<TunedProfile> for ProfileName {
    fn from(choice: TunedProfile) -> Self {
        match choice {
            TunedProfile::Direct => Self::Direct,
            TunedProfile::Api => Self::Api,
        }
    }
}

impl From<FairnessChoice> for Fairness {
    fn from(choice: FairnessChoice) -> Self {
        match choice {
            FairnessChoice::Proportional => Self::Proportional,
            FairnessChoice::Nash => Self::Nash,
        }
    }
}

impl From<LevelChoice> for LogLevel {
    fn from(choice: LevelChoice) -> Self {
        match choice {
            LevelChoice::Error => Self::Error,
            LevelChoice::Warn => Self::Warn,
            LevelChoice::Info => Self::Info,
            LevelChoice::Debug => Self::Debug,
            LevelChoice::Trace => Self::Trace,
        }
    }
}

impl From<FormatChoice> for LogFormat {
    fn from(choice: FormatChoice) -> Self {
        match choice {
            FormatChoice::Text => Self::Text,
            FormatChoice::Json => Self::Json,
        }
    }
}

impl From<ProfileChoice> for ProfileName {
    fn from(choice: ProfileChoice) -> Self {
        match choice {
            ProfileChoice::Seed => Self::Seed,
            ProfileChoice::Direct => Self::Direct,
            ProfileChoice::Api => Self::Api,
            ProfileChoice::Tight => Self::Tight,
        }
    }
}

/// The longest run: as long as the simulator's clock allows.
const HOURS_MAX: f64 = 720.0;
/// More threads than this are no help.
const THREADS_MAX: usize = 1024;

fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse::<f64>().ok().filter(|hours| *hours > 0.0 && *hours <= HOURS_MAX);
    hours.ok_or_else(|| format!("must be a number above 0 and at most {HOURS_MAX}"))
}

pub(crate) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse::<NonZeroUsize>().ok().filter(|threads| threads.get() <= THREADS_MAX);
    threads.ok_or_else(|| format!("must be a whole number from 1 to {THREADS_MAX}"))
}
