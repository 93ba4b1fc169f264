//! `walras controller`: its flags, and what the controller is asked for.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use walras_kube::client::TOLD_BY_CALLER;
use walras_kube::controller::{self, Options};
use walras_kube::names;
use walras_node::log;

use crate::cli::{FormatChoice, LevelChoice};
use crate::failure::Failure;
use crate::help::exit_codes;

pub(crate) const CONTROLLER_HELP: &str = concat!(
    "\
Examples:
  walras controller                            in a pod: carry out what agents ask for
  walras controller --dry-run --kubeconfig ~/.kube/config
                                               from outside: only log what would be resized
  kubectl get podallocations -A                what pods should have, and what became of it
  kubectl describe podallocation shop-web-0    the same with events, for one pod

Agents write what a pod should have into a PodAllocation. The controller checks it, splits it among
the containers, asks for it through pods/resize, and waits until the node confirms it. No container
is restarted. What is refused or has to wait has a reason and a sentence in the object's status.

What may be changed is said by the annotation walras.dev/mode of a pod or a namespace, or for
everybody by the key mode of the ConfigMap mbcas-agent-config:
  off                    nothing: PodAllocations are recommendations
  limits-only            limits
  requests-and-limits    both; the default
  restore                everything back to what the pod came with, which is what uninstalling takes
The same ConfigMap may have resizesPerSecond (10, for the whole cluster) and cooldown (5s, for one
pod). It is read again when it changes, all of it or nothing: while a value is bad, what held
before goes on, unless the mode is off or restore.

Several may run: one of them acts, and another takes over within 20 s. Health is at /healthz and
/readyz, figures at /metrics.
",
    exit_codes!("nothing was changed, and standard error says why")
);

/// How to run for a cluster.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// The kubeconfig; not needed in a pod with a service account
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The namespace of its settings and its lease
    #[arg(long, value_name = "NAME", default_value = names::NAMESPACE,
          env = "WALRAS_NAMESPACE")]
    pub(crate) namespace: String,
    /// Where to serve health and metrics
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080",
        env = "WALRAS_CONTROLLER_LISTEN"
    )]
    pub(crate) listen: SocketAddr,
    /// Where to answer probes (/healthz, /readyz) as well, so that nobody who fills the other
    /// address with connections makes this look dead
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_CONTROLLER_PROBE_LISTEN")]
    pub(crate) probe_listen: Option<SocketAddr>,
    /// Change nothing: only log what would be resized
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Act at once, without asking whether another controller does
    #[arg(long)]
    pub(crate) no_leader_election: bool,
    /// The least urgent messages that are logged
    #[arg(long, value_enum, default_value = "info", env = "WALRAS_LOG_LEVEL")]
    pub(crate) log_level: LevelChoice,
    /// Whether messages are lines for people or JSON for programs
    #[arg(long, value_enum, default_value = "text", env = "WALRAS_LOG_FORMAT")]
    pub(crate) log_format: FormatChoice,
}

/// Runs the controller until it is told to stop.
pub(crate) fn run(args: ControllerArgs) -> Result<(), Failure> {
    log::start(args.log_level.into(), args.log_format.into(), &TOLD_BY_CALLER);
    let options = Options {
        // An empty variable is as good as none.
        kubeconfig: args.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
        namespace: args.namespace,
        listen: args.listen,
        probe_listen: args.probe_listen,
        dry_run: args.dry_run,
        elect: !args.no_leader_election,
    };
    controller::run(&options).map_err(|error| Failure::Machine(error.to_string()))
}
