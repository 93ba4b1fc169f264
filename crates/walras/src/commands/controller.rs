//! `walras controller`: its flags, and what the controller is asked for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use walras_core::rebalance::stay::MoveRules;
use walras_core::units::Span;
use walras_kube::client::TOLD_BY_CALLER;
use walras_kube::controller::{self, CollectOptions, Options, RebalanceOptions, Uri, Windows};
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
  walras controller --scheduler http://walras-scheduler.mbcas-system:8083 --evict
                                               also move pods away from noisy nodes
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

With --scheduler it also names pods that would be better off elsewhere: once a minute, where their
node scores below 40 and one where they fit scores 20 more, by two looks and more. The name is an
annotation, kubeattention.io/rebalance-target, and is taken back when it no longer holds.

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
    /// Where to answer probes (/healthz, /readyz) as well, so that a client that fills
    /// the other address with connections does not make this look dead
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_CONTROLLER_PROBE_LISTEN")]
    pub(crate) probe_listen: Option<SocketAddr>,
    /// Change nothing: only log what would be resized
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Act at once, without asking whether another controller does
    #[arg(long)]
    pub(crate) no_leader_election: bool,
    /// Name pods that would be better off on other nodes, by what `walras scheduler` tells at this
    /// address, such as `http://walras-scheduler.mbcas-system:8083`
    #[arg(long, value_name = "URL", env = "WALRAS_CONTROLLER_SCHEDULER")]
    pub(crate) scheduler: Option<String>,
    /// Evict pods that were named, one of each node in a minute, within disruption budgets
    #[arg(long, requires = "scheduler")]
    pub(crate) evict: bool,
    /// Evict only at these times of the day, in UTC, such as 22:00-06:00,12:00-13:00
    #[arg(long, value_name = "TIMES", requires = "evict", default_value = "")]
    pub(crate) evict_window: Windows,
    /// Evict also pods that are the only one of their owner
    #[arg(long, requires = "evict")]
    pub(crate) evict_single_replicas: bool,
    /// Leave pods alone that have run for less; nothing moves twice within this time
    #[arg(long, value_name = "MINUTES", default_value_t = 10, requires = "scheduler",
          value_parser = clap::value_parser!(u32).range(1..=10_080))]
    pub(crate) move_after: u32,
    /// Write down what becomes of pods, in this folder, for `walras brain train`
    #[arg(long, value_name = "DIR", env = "WALRAS_COLLECT")]
    pub(crate) collect: Option<PathBuf>,
    /// How long after its binding a pod's outcome is looked at
    #[arg(long, value_name = "SECONDS", default_value_t = 300, env = "WALRAS_COLLECT_WINDOW_S",
          requires = "collect", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) collect_window_s: u64,
    /// How large all of it may become; the oldest goes then
    #[arg(long, value_name = "MIB", default_value_t = 64, env = "WALRAS_COLLECT_MAX_MIB",
          requires = "collect", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) collect_max_mib: u64,
    /// Where to ask what nodes measure: http://NODE:8082/api/v1/telemetry of an agent, or of somebody
    /// who knows them all; may be given several times
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "WALRAS_COLLECT_TELEMETRY",
        requires = "collect"
    )]
    pub(crate) collect_telemetry: Vec<String>,
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
    let rebalance = rebalance(&args)?;
    let options = Options {
        // An empty variable is as good as none.
        kubeconfig: args.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
        namespace: args.namespace,
        listen: args.listen,
        probe_listen: args.probe_listen,
        dry_run: args.dry_run,
        elect: !args.no_leader_election,
        rebalance,
        collect: args.collect.map(|folder| CollectOptions {
            folder,
            window: Span::from_s(args.collect_window_s),
            max_bytes: args.collect_max_mib << 20,
            telemetry: args.collect_telemetry,
        }),
    };
    controller::run(&options).map_err(|error| Failure::Machine(error.to_string()))
}

/// How pods are named for other nodes, if that is asked for.
fn rebalance(args: &ControllerArgs) -> Result<Option<RebalanceOptions>, Failure> {
    let Some(url) = args.scheduler.as_ref().filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    let wrong = || {
        let example = "http://walras-scheduler.mbcas-system:8083";
        Failure::Input(format!("--scheduler: `{url}` is no address; write it as {example}"))
    };
    let scheduler: Uri = url.parse().map_err(|_| wrong())?;
    if scheduler.scheme().is_none() || scheduler.host().is_none() {
        return Err(wrong());
    }
    Ok(Some(RebalanceOptions {
        scheduler,
        every: Duration::from_secs(60),
        evict: args.evict,
        windows: args.evict_window.clone(),
        rules: MoveRules {
            age_min: Span::from_s(u64::from(args.move_after) * 60),
            single_replicas: args.evict_single_replicas,
        },
    }))
}
