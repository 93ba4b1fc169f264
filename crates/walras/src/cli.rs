//! The command line: what can be asked for, and the help that teaches it.
//!
//! Man pages and completions are made from the same definitions.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use walras_core::market::Fairness;
use walras_core::profile::ProfileName;

/// The version and the commit it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WALRAS_COMMIT"), ")");

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

There are also capacity (the node changed), applied (a limit was seen in force) and latency (a pod
misses its target, or no longer does). The config may set any constant that `walras profiles`
lists. The same file always gives the same output, byte for byte.
",
    exit_codes!("what was decided before is printed, and standard error names the line")
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
    /// How to share what is left above the mins when CPU is scarce, whatever the file says
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

impl From<ProfileChoice> for ProfileName {
    fn from(choice: ProfileChoice) -> Self {
        match choice {
            ProfileChoice::Seed => Self::Seed,
            ProfileChoice::Direct => Self::Direct,
            ProfileChoice::Api => Self::Api,
        }
    }
}
