//! The command line of the plugin of kubectl: the same program under the name `kubectl-walras`.
//!
//! Options have the names that kubectl gives them, as far as there are such.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use walras_kube::names;

use crate::cli::VERSION;

/// The name of the file that kubectl looks for.
pub(crate) const PLUGIN: &str = "kubectl-walras";

const HELP: &str = "\
Examples:
  kubectl walras top                         what pods use, need and have, by node
  kubectl walras preview                     what pods have and should have
  kubectl walras explain web-0 -n shop       why, for one pod
  kubectl walras explain web-0 -n shop --placement
                                             why it is on its node
  kubectl walras pause --all                 change no pod that has no mode of its own
  kubectl walras pause -n shop               the same for one namespace
  kubectl walras pause web-0 -n shop         the same for one pod
  kubectl walras pause --all --restore       give every pod back what it came with
  kubectl walras resume --all                as it was before the pause

To install it, link the program: ln -s /usr/local/bin/walras /usr/local/bin/kubectl-walras

Exit codes:
  0  fine
  1  the cluster cannot be reached, or refused
  2  bad input or usage, or there is no such pod";

const TOP_HELP: &str = "\
Examples:
  kubectl walras top
  kubectl walras top --node worker-3
  kubectl walras top --json | jq '.[].state.price'

Asks the agents through the API server, which takes the right to `get` pods/proxy where Walras is
installed.";

const PREVIEW_HELP: &str = "\
Examples:
  kubectl walras preview
  kubectl walras preview -n shop
  kubectl walras preview --json | jq '.[] | select(.phase == \"Failed\") | .pod'";

const EXPLAIN_HELP: &str = "\
Examples:
  kubectl walras explain web-0 -n shop
  kubectl walras explain web-0 -n shop --placement

With --placement the schedulers are asked through the API server, which takes the right to `get`
pods/proxy where Walras is installed. They remember the placements of the last hour.";

const PAUSE_HELP: &str = "\
Examples:
  kubectl walras pause --all
  kubectl walras pause -n shop
  kubectl walras pause web-0 -n shop --restore

Pods keep the CPU that they have; with --restore they get back what they came with. Nothing is
restarted. What was said before is remembered for resume. A pod that says a mode of its own goes by
that, and not by its namespace or by --all, except with --all --restore.";

const RESUME_HELP: &str = "\
Examples:
  kubectl walras resume --all
  kubectl walras resume web-0 -n shop

Brings back what was said before the pause, also if that was off. What was not paused with
`kubectl walras pause` is not changed.";

/// Walras in this cluster: what pods should have, to pause, and to go on.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-walras",
    bin_name = "kubectl walras",
    version = VERSION,
    about = "What pods should have, to pause, and to go on",
    after_help = HELP,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct PluginCli {
    #[command(subcommand)]
    pub(crate) command: PluginCommand,
    /// The kubeconfig; what kubectl uses where it is not said
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The namespace of the pod, or of all pods that are meant
    #[arg(long, short, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// List what pods use, need and have, node by node
    #[command(after_help = TOP_HELP)]
    Top {
        /// Only this node
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// Where Walras is installed
        #[arg(long, value_name = "NAME", default_value = names::NAMESPACE)]
        system_namespace: String,
        /// Print JSON for programs, not tables for people
        #[arg(long)]
        json: bool,
    },
    /// List what pods have and should have
    #[command(after_help = PREVIEW_HELP)]
    Preview {
        /// Print JSON for programs, not a table for people
        #[arg(long)]
        json: bool,
    },
    /// Say why a pod should have what it should have, and how that stands
    #[command(after_help = EXPLAIN_HELP)]
    Explain {
        /// The pod
        pod: String,
        /// Say why it is on its node: how nodes were scored when it was placed
        #[arg(long)]
        placement: bool,
        /// Where Walras is installed
        #[arg(long, value_name = "NAME", default_value = names::NAMESPACE)]
        system_namespace: String,
    },
    /// Change nothing any more of a pod, a namespace or everybody
    #[command(after_help = PAUSE_HELP)]
    Pause {
        #[command(flatten)]
        whom: Whom,
        /// Give back what pods came with
        #[arg(long)]
        restore: bool,
    },
    /// Go on as before the pause
    #[command(after_help = RESUME_HELP)]
    Resume {
        #[command(flatten)]
        whom: Whom,
    },
}

/// Whom it is for.
#[derive(Debug, Args)]
pub(crate) struct Whom {
    /// The pod; where it is not said, the namespace of -n is meant
    pub(crate) pod: Option<String>,
    /// Everybody
    #[arg(long, conflicts_with = "pod")]
    pub(crate) all: bool,
    /// Where Walras is installed
    #[arg(long, value_name = "NAME", default_value = names::NAMESPACE)]
    pub(crate) system_namespace: String,
}
