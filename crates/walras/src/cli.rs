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
use walras_host::config::{LogFormat, LogLevel};

use crate::daemon::DEFAULT_ADDRESS;

/// The version and the commit it was built from.
pub(crate) const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("WALRAS_COMMIT"), ")");

/// The exit codes, with what 2 means for a command.
macro_rules! exit_codes {
    ($bad_input:literal) => {
        concat!(
            "\nExit codes:\n  0  fine\n",
            "  1  something else went wrong, such as output that cannot be written\n",
            "  2  bad input or usage; ",
            $bad_input
        )
    };
}

const TOP_HELP: &str = concat!(
    "\
Examples:
  walras clear examples/market.json       who gets what, and why
  walras replay examples/incident.jsonl   what would have been decided, tick by tick
  walras sim run storms                   how the market does beside what people use instead
  walras host                             watch this machine: what would be changed, and why
  walras host --act                       size its workloads for real
  walras top                              watch what the daemon on this machine does
  walras explain web                      why a pod has the CPU it has
  walras help clear                       more about a command, with the format of its input
",
    exit_codes!("standard error says what and where")
);

const CLEAR_HELP: &str = concat!(
    "\
Examples:
  walras clear examples/market.json
  walras clear examples/market.json --fairness nash
  walras clear --json < examples/market.json | jq '.pods[] | {uid, allocation_milli}'
  walras clear --schema

A market is one JSON object:
  {\"capacity_milli\": 4000,
   \"pods\": [{\"uid\": \"web\", \"demand\": 0.5, \"min_milli\": 500, \"max_milli\": 2000}]}

CPU is counted in thousandths of a core: 1500 is one and a half cores. A pod's need is a point
between its min and max, picked by its demand, plus headroom; or need_milli, where it is given.
Optional for the market: fairness, demand_capped, previous_mode. Optional for a pod: weight,
usage_milli, need_milli, headroom_misses. --schema says what each of them means.

Fairness is proportional unless the file or --fairness says otherwise. A running node goes by its
profile: direct and api use nash, seed uses proportional.

A document may have 512 MiB and 10 million pods, and a name 512 characters, all of them visible.
",
    exit_codes!("nothing is printed, and standard error names every bad field")
);

const REPLAY_USAGE: &str = "walras replay [--json] <FILE|->\n       walras replay --schema";

const REPLAY_HELP: &str = concat!(
    "\
Examples:
  walras replay examples/incident.jsonl
  walras replay --json examples/incident.jsonl | jq 'select(.actions != [])'
  walras replay --schema

Each line is one fact, in the order in which things happened (the longer ones are broken here):
  {\"type\":\"config\",\"capacity_milli\":4000,\"profile\":\"direct\"}
  {\"type\":\"pod_added\",\"at_ms\":0,\"uid\":\"web\",\"min_milli\":100,\"max_milli\":2000,
   \"limit_milli\":500}
  {\"type\":\"sample\",\"at_ms\":0,\"uid\":\"web\",\"usage_usec\":0,\"throttled_usec\":0,
   \"nr_periods\":0,\"nr_throttled\":0}
  {\"type\":\"tick\",\"at_ms\":200,\"loop\":\"fast\"}
  {\"type\":\"pod_removed\",\"at_ms\":900,\"uid\":\"web\"}

There are also capacity (the node changed), applied (a limit was seen in force), found (a pod has
another limit than was decided) and latency (a pod misses its target, or no longer does). The config may set any constant that `walras profiles`
lists. Optional for pod_added: weight, workload, request_milli. Optional for sample: stalled_usec.
--schema says what each of them means. The same file always gives the same output, byte for byte.

A line may have 1 MiB, and a name 512 characters, all of them visible. There is no limit to the
number of lines.
",
    exit_codes!("what was decided before is printed, and standard error names the line")
);

const HOST_HELP: &str = concat!(
    "\
Examples:
  walras host                              watch, and show what would be done; changes nothing
  walras host --act                        size workloads by writing to their cgroups
  walras host --act --restore              the same, and give everything back at the end
  walras host --restore-only               give back what an earlier run changed, and end
  walras host --record node.jsonl          keep what was seen, for `walras replay`

Workloads are the containers of Docker and Podman, cgroups in a group called walras, services and
scopes of systemd that ask for it, and whatever the configuration names. All of this is in one file:
  act = false
  listen = \"127.0.0.1:8082\"                 # dashboard, metrics, JSON
  state_dir = \"/var/lib/walras\"
  profile = \"direct\"

  [adopt]
  docker = \"all\"                            # all, marked or none; also podman, systemd, walras
  paths = [\"batch.slice/*\"]                 # * within a name, ** across names
  min = \"100m\"                              # what a workload has a right to; also max, weight

  [[rule]]                                   # single workloads, by name or path
  match = \"web\"
  min = 1.5
  weight = 2

  [market]                                   # any constant that `walras profiles` lists
  slow_loop_interval_ms = 10000

Also at the top: restore, names, run_dir, capacity, look_interval_ms, log_level, log_format, record,
record_max_mib. In a rule: managed, max, target_latency_ms. Containers say the same by labels
(walras.dev/managed, min-cpu, max-cpu, weight, target-latency-ms), units by a section [X-Walras] with
Managed, MinCPU, MaxCPU, Weight, TargetLatencyMs. The file goes before those.

A flag goes before the environment, that before the file. The file is read again when it changes
and on SIGHUP; a bad one is refused and the old one goes on. Acting takes root.
",
    exit_codes!("nothing was changed, and standard error names every bad key")
);

const SIM_HELP: &str = concat!(
    "\
Examples:
  walras sim list
  walras sim run storms --policy static,vpa,walras,oracle
",
    exit_codes!("standard error says what and where")
);

const SIM_RUN_HELP: &str = concat!(
    "\
Examples:
  walras sim run                                      the scenarios that policies are judged by
  walras sim run tenants --report tenants.html        with pictures
  walras sim run mine.toml --policy all --nodes 20    your own scenario, everybody, many nodes
  walras sim run --trace requests.csv --hours 2       your own recording
  walras sim run bursty --json | jq '.scenarios[].policies[] | {policy, core_hours}'

A scenario is the name of a built-in one, or a file; what has a / in it or ends in .toml is a
file. One that has all it needs:
  name = \"mine\"
  about = \"A service beside a job that takes all it can get.\"
  cores = 4

  [[pod]]
  name = \"web\"
  request = \"500m\"
  limit = \"2\"
  service = { cost_ms = 10, rate = { steps = { low = 50, high = 150, every_s = 30 } } }

  [[pod]]
  name = \"job\"
  request = \"500m\"
  batch = { threads = 4 }

A trace is a file of numbers, one per line, or a CSV with a heading: requests per second, or CPU
in use. Each becomes a pod. The same scenario, seed and policies always give the same figures, on
any machine and with any number of threads.
",
    exit_codes!("nothing is run, and standard error names everything that is wrong")
);

const SIM_LIST_HELP: &str = "\
Examples:
  walras sim list
  walras sim list --json | jq -r '.scenarios[] | select(.suite == \"test\") | .name'";

const TOP_COMMAND_HELP: &str = concat!(
    "\
Examples:
  walras top
  walras top --address node-7:8082
  walras top --once | head
  walras top --json | jq '.pods[] | select(.throttled_period_ratio > 0.1) | .name'

The keys are told by ?. Asks a daemon that `walras host` started; its dashboard at the same address
shows the same with plots of the last hour.
",
    exit_codes!("the address makes no sense")
);

const EXPLAIN_HELP: &str = concat!(
    "\
Examples:
  walras explain web
  walras explain web --address node-7:8082
  walras explain web --json | jq -r '.sentences[]'

A pod goes by its name, or by its uid where several have one name. Asks a daemon that `walras host`
started.
",
    exit_codes!("there is no such pod, or the address makes no sense")
);

const PROFILES_HELP: &str = "\
Examples:
  walras profiles
  walras profiles direct
  walras profiles --json | jq '.[] | select(.unit == \"ms\") | .key'";

const COMPLETIONS_HELP: &str = "\
Examples:
  walras completions bash > ~/.local/share/bash-completion/completions/walras
  walras completions zsh > ~/.zfunc/_walras
  walras completions fish > ~/.config/fish/completions/walras.fish";

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
    /// Clear one market: who gets how much CPU, and why
    #[command(after_help = CLEAR_HELP)]
    Clear(ClearArgs),
    /// Replay a node's history: what would be decided at each tick, and why
    #[command(after_help = REPLAY_HELP, override_usage = REPLAY_USAGE)]
    Replay(ReplayArgs),
    /// Simulate: how the market and what people use instead do on the same load
    #[command(after_help = SIM_HELP, subcommand_required = true, arg_required_else_help = true)]
    Sim(SimArgs),
    /// Size the workloads of this machine, or watch what that would do
    #[command(after_help = HOST_HELP)]
    Host(HostArgs),
    /// Watch a node's pods in the terminal, like htop
    #[command(after_help = TOP_COMMAND_HELP)]
    Top(TopArgs),
    /// Say why a pod has the CPU it has, in sentences
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArgs),
    /// List every constant of the market: its unit, range, value in each profile, and the reason
    #[command(after_help = PROFILES_HELP)]
    Profiles(ProfilesArgs),
    /// Print a script that completes commands and options in your shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Write the man pages
    #[command(hide = true)]
    Man {
        /// The folder to write to; made where it is missing
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// How to clear.
#[derive(Debug, Args)]
pub(crate) struct ClearArgs {
    /// The market as JSON; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// How to share what is left above the mins when CPU is scarce, whatever the file says; where
    /// neither says anything, proportional
    #[arg(long, value_enum)]
    pub(crate) fairness: Option<FairnessChoice>,
    /// Print JSON for programs, not a table for people
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the JSON Schema of input and output, and read nothing
    #[arg(long)]
    pub(crate) schema: bool,
}

/// How to replay.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The facts as JSON lines; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    pub(crate) file: Option<PathBuf>,
    /// Print one JSON line per tick for programs, not text for people
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the JSON Schema of input and output lines, and read nothing
    #[arg(long)]
    pub(crate) schema: bool,
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
    /// The policies that take part, or all
    #[arg(
        long = "policy",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "static,weights,vpa,koordinator,autothrottle,walras,walras-api,oracle"
    )]
    pub(crate) policies: Vec<String>,
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
    /// Change things: write to the cgroups of workloads
    #[arg(long, env = "WALRAS_HOST_ACT", overrides_with = "dry_run")]
    pub(crate) act: bool,
    /// Change nothing, whatever the configuration says: only show what would be done
    #[arg(long, overrides_with = "act")]
    pub(crate) dry_run: bool,
    /// Give every workload back what it came with when the daemon stops
    #[arg(long, env = "WALRAS_HOST_RESTORE")]
    pub(crate) restore: bool,
    /// Give back what an earlier run changed, and end
    #[arg(long, conflicts_with_all = ["act", "record"])]
    pub(crate) restore_only: bool,
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
}

/// What to watch.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The daemon to ask
    #[arg(long, value_name = "URL", default_value = DEFAULT_ADDRESS, env = "WALRAS_ADDRESS")]
    pub(crate) address: String,
    /// Print a table once, and end: what a file or a pipe gets anyway
    #[arg(long)]
    pub(crate) once: bool,
    /// Print the state once as JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to explain.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The pod, by its name or its uid
    #[arg(value_name = "POD")]
    pub(crate) pod: String,
    /// The daemon to ask
    #[arg(long, value_name = "URL", default_value = DEFAULT_ADDRESS, env = "WALRAS_ADDRESS")]
    pub(crate) address: String,
    /// Print JSON for programs, not sentences for people
    #[arg(long)]
    pub(crate) json: bool,
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
        }
    }
}

/// The longest run: as long as the simulator's clock allows.
const HOURS_MAX: f64 = 720.0;
/// More threads than this help nobody.
const THREADS_MAX: usize = 1024;

fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse::<f64>().ok().filter(|hours| *hours > 0.0 && *hours <= HOURS_MAX);
    hours.ok_or_else(|| format!("must be a number above 0 and at most {HOURS_MAX}"))
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse::<NonZeroUsize>().ok().filter(|threads| threads.get() <= THREADS_MAX);
    threads.ok_or_else(|| format!("must be a whole number from 1 to {THREADS_MAX}"))
}
