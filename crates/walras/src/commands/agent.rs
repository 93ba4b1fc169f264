//! `walras agent`: turns flags into what the agent of a Kubernetes node is asked for, and runs it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
#[cfg(feature = "telemetry")]
use walras_kube::agent::Around;
use walras_kube::agent::{self, AgentError, End, Options, ReportTo, default_listen};
use walras_kube::names::NAMESPACE;
#[cfg(feature = "telemetry")]
use walras_node::environment;
use walras_node::log::{LogFormat, LogLevel};
use walras_node::record::RecordTo;

use crate::cli::{FormatChoice, LevelChoice, VERSION};
#[cfg(feature = "telemetry")]
use crate::commands::telemetry::{
    self,
    daemon::{Daemon, TelemetryFlags},
};
use crate::failure::Failure;

/// What is told below the options.
pub(crate) const AGENT_HELP: &str = "\
Examples:
  walras agent --node-name node-1 --dry-run        what would be changed, and why; writes nothing
  walras agent --node-name node-1                  with the cluster of $KUBECONFIG
  walras agent                                     in a pod, with NODE_NAME set: see deploy/
  walras agent --node-name node-1 --config a.conf  settings from a file of `key: value` lines

It watches the pods of its node, reads their cgroups, and writes a PodAllocation for each, which
`walras controller` carries out by resizing the pod in place. Nothing is restarted, ever.

Settings are the keys of the ConfigMap mbcas-agent-config, and are read again when it changes. A
variable goes before a key: MBCAS_SLOW_LOOP_INTERVAL before slowLoopInterval.
  mode                   off (PodAllocations only), limits-only, requests-and-limits, or restore
  actuation              api, or direct: urgent raises are also written to the pod's cgroups
  profile                api, direct or seed: where the constants of the market start from
  market.NAME            any constant that `walras profiles` lists
  baselineCPUPerPod, systemReservePercent, minChangePercent, samplingInterval, fastLoopInterval,
  slowLoopInterval, writeInterval, startupGracePeriod, excludedNamespaces, manageGuaranteed,
  respectLimits, sloTargetLatencyMs, prometheusURL, prometheusQuery, p99ThresholdMultiplier,
  kubeletCgroupRoot, and every other key of the predecessor; resizesPerSecond and cooldown are
  for the controller and are passed over

Pods say what they want by annotations:
  mbcas.io/managed: \"false\"          leave it alone; a label does, too
  walras.dev/mode: off               as above, for one pod or one namespace
  mbcas.io/min-cpu, walras.dev/max-cpu, mbcas.io/priority-multiplier
  mbcas.io/target-latency-ms: \"50\"   with prometheusURL: raised while 99 of 100 take longer
  mbcas.io/skip-guaranteed: \"false\"  size it although it is Guaranteed

Exit codes:
  0  told to stop
  1  something else went wrong, such as a port that is taken
  2  bad input or usage; nothing was changed, and standard error names every bad key";

/// How to size a node's pods.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// The node whose pods are sized: the one this runs on
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: String,
    /// How to reach the API server; a pod's service account or $KUBECONFIG where it is not said
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the settings and of what was learned; its pods are left alone
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = NAMESPACE)]
    namespace: String,
    /// Where to serve the dashboard, the metrics and the JSON API; port 8082 where it is not said:
    /// on every address in a pod, else on this machine's own
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_AGENT_LISTEN")]
    listen: Option<SocketAddr>,
    /// Where to answer probes (/healthz, /readyz) as well, so that a client that fills
    /// the other address with connections does not make this look dead
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_AGENT_PROBE_LISTEN")]
    probe_listen: Option<SocketAddr>,
    /// A file with the settings, in the place of the ConfigMap: `key: value` lines, or JSON
    #[arg(long, value_name = "FILE", env = "WALRAS_AGENT_CONFIG")]
    config: Option<PathBuf>,
    /// Where the node's /sys/fs/cgroup can be seen, if not there
    #[arg(long, value_name = "DIR", env = "WALRAS_AGENT_CGROUP_ROOT")]
    cgroup_root: Option<PathBuf>,
    /// A folder for what was learned, in the place of a ConfigMap
    #[arg(long, value_name = "DIR", env = "WALRAS_AGENT_TABLES_DIR")]
    tables_dir: Option<PathBuf>,
    /// Write nothing, whatever the settings say: only show what would be done
    #[arg(long, env = "WALRAS_AGENT_DRY_RUN")]
    dry_run: bool,
    /// Record what is seen, for `walras replay`
    #[arg(long, value_name = "FILE", env = "WALRAS_AGENT_RECORD")]
    record: Option<PathBuf>,
    /// How large the recording may become; it stops there
    #[arg(long, value_name = "MIB", env = "WALRAS_AGENT_RECORD_MAX_MIB",
          default_value_t = RecordTo::DEFAULT_MAX_MIB,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    record_max_mib: u64,
    /// Tell `walras scheduler` how this node is, at all addresses that this name leads to, such as
    /// walras-scheduler-telemetry.mbcas-system.svc:10303
    #[arg(
        long,
        value_name = "NAME:PORT",
        env = "WALRAS_AGENT_SCHEDULER",
        requires = "scheduler_token"
    )]
    scheduler: Option<String>,
    /// The certificate of the authority that the scheduler proves itself by; without it, only a
    /// scheduler on this machine is told
    #[arg(long, value_name = "FILE", env = "WALRAS_AGENT_SCHEDULER_CA")]
    scheduler_ca: Option<PathBuf>,
    /// The name that the scheduler has to prove, if not that of --scheduler
    #[arg(long, value_name = "NAME", env = "WALRAS_AGENT_SCHEDULER_NAME")]
    scheduler_name: Option<String>,
    /// The file with the token by which this node proves itself to the scheduler: of the service
    /// account walras-agent, for the audience walras-scheduler, bound to this node
    #[arg(long, value_name = "FILE", env = "WALRAS_AGENT_SCHEDULER_TOKEN")]
    scheduler_token: Option<PathBuf>,
    /// The least urgent messages that are logged
    #[arg(long, value_enum, env = "WALRAS_LOG_LEVEL")]
    log_level: Option<LevelChoice>,
    /// Whether messages are lines for people or JSON for programs
    #[arg(long, value_enum, env = "WALRAS_LOG_FORMAT")]
    log_format: Option<FormatChoice>,
    #[cfg(feature = "telemetry")]
    #[command(flatten)]
    telemetry: TelemetryFlags,
}

/// Runs the agent until it is told to stop.
pub(crate) fn run(args: AgentArgs) -> Result<(), Failure> {
    let record = args.record.map(|file| RecordTo { file, max_mib: args.record_max_mib });
    let report = match (args.scheduler, args.scheduler_token) {
        (Some(scheduler), Some(token)) if !scheduler.is_empty() => Some(ReportTo {
            scheduler,
            ca: args.scheduler_ca,
            server_name: args.scheduler_name,
            token,
        }),
        (Some(_) | None, Some(_) | None) => None,
    };
    let options = Options {
        node: args.node_name,
        kubeconfig: args.kubeconfig,
        namespace: args.namespace,
        listen: args.listen.unwrap_or_else(default_listen),
        probe_listen: args.probe_listen,
        config: args.config,
        cgroup_root: args.cgroup_root,
        tables_dir: args.tables_dir,
        dry_run: args.dry_run,
        record,
        log_level: args.log_level.map_or(LogLevel::Info, Into::into),
        log_format: args.log_format.map_or(LogFormat::Text, Into::into),
        version: VERSION.to_owned(),
        report,
    };
    #[cfg(feature = "telemetry")]
    let beside = |around| look(&args.telemetry, around);
    #[cfg(not(feature = "telemetry"))]
    let beside = |_around| -> Result<End, String> { Ok(Box::new(|| {})) };
    agent::run(&options, beside).map_err(|error| match error {
        AgentError::Config { .. } => Failure::Input(error.to_string()),
        AgentError::Link(_)
        | AgentError::Layout(_)
        | AgentError::Serve(_)
        | AgentError::Record(_)
        | AgentError::Beside(_)
        | AgentError::Ended(_)
        | AgentError::Signals(_) => Failure::Machine(error.to_string()),
    })
}

/// Looks at the machine until what this returns is called.
#[cfg(feature = "telemetry")]
fn look(flags: &TelemetryFlags, around: Around) -> Result<End, String> {
    let Around { board, world, layout } = around;
    let daemon = Daemon {
        board,
        layout: Some(layout),
        // A pod has a network of its own, unless its interfaces are named.
        own_network: environment("KUBERNETES_SERVICE_HOST").is_some(),
        labels: Box::new(move || world.node_labels()),
    };
    let looking = telemetry::daemon::start(flags, daemon)?;
    Ok(Box::new(move || drop(looking)))
}
