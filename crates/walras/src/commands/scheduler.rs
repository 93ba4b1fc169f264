//! `walras scheduler`: its flags, and what the scheduler is asked for.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use walras_brain::embedded;
use walras_brain::file::{self, ModelFile};
use walras_brain::train::Kind;
use walras_core::place::{Mode, Terms};
use walras_core::units::Ratio;
use walras_kube::client::TOLD_BY_CALLER;
use walras_kube::names;
use walras_kube::scheduler::{self, Options, SchedulerError};
use walras_node::log;

use crate::cli::{FormatChoice, LevelChoice};
use crate::failure::Failure;
use crate::help::exit_codes;

pub(crate) const SCHEDULER_HELP: &str = concat!(
    "\
Examples:
  walras scheduler --tls /etc/walras/tls       in a pod: score nodes, and change nothing yet
  walras scheduler --tls /etc/walras/tls --mode active
                                               the same, and let the scores steer placement
  walras scheduler --kubeconfig ~/.kube/config --listen 127.0.0.1:10302 \\
      --telemetry-listen 127.0.0.1:10303       beside a kube-scheduler on the same machine
  curl -s localhost:8083/api/v1/placements     the last placements, with reasons

It is an extender of kube-scheduler, which asks it for whole scores from 0 to 10 for all candidate
nodes of a pod (POST /prioritize). Agents push what their nodes measure; a model makes points of it,
and the node's market takes a part of them where CPU is scarce. A node that has not reported for
10 s, or never, is neutral (5). The model that comes with the program was trained on the simulator;
train one of your own with `walras brain train`.

In the mode shadow, which is the default, every answer is 5. What would have been recommended is
written onto the pod as annotations kubeattention.io/*, and compared with where it was put.

kube-scheduler goes on without it when it is dead: docs/scheduler.md has the configuration, and how
to take it out again. Health is at /healthz, readiness at /readyz (nodes and telemetry are known),
figures at /metrics.
",
    exit_codes!("nothing was changed, and standard error says why")
);

/// How to run beside kube-scheduler.
#[derive(Debug, Args)]
pub(crate) struct SchedulerArgs {
    /// The kubeconfig; not needed in a pod with a service account
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the agents
    #[arg(long, value_name = "NAME", default_value = names::NAMESPACE, env = "WALRAS_NAMESPACE")]
    namespace: String,
    /// Where kube-scheduler asks
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0:10302",
        env = "WALRAS_SCHEDULER_LISTEN"
    )]
    listen: SocketAddr,
    /// Where agents push telemetry
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0:10303",
        env = "WALRAS_SCHEDULER_TELEMETRY_LISTEN"
    )]
    telemetry_listen: SocketAddr,
    /// Where to serve health, metrics, nodes and placements
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8083",
        env = "WALRAS_SCHEDULER_WEB_LISTEN"
    )]
    web_listen: SocketAddr,
    /// Where to answer probes (/healthz, /readyz) as well
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_SCHEDULER_PROBE_LISTEN")]
    probe_listen: Option<SocketAddr>,
    /// A folder with cert.pem and key.pem for kube-scheduler and agents to trust; without it both
    /// can be served on the loopback interface alone
    #[arg(long, value_name = "DIR", env = "WALRAS_SCHEDULER_TLS")]
    tls: Option<PathBuf>,
    /// Whether scores steer placement
    #[arg(long, value_enum, default_value = "shadow", env = "WALRAS_SCHEDULER_MODE")]
    mode: ModeChoice,
    /// The model that scores, as `walras brain train` writes it; the one that comes with the
    /// program where it is not said, and none with `none`
    #[arg(long, value_name = "FILE", env = "WALRAS_SCHEDULER_MODEL")]
    model: Option<PathBuf>,
    /// Ask the Brain on this socket in the place of a model of its own (`walras brain serve`);
    /// while it does not answer within 45 ms, every node is neutral
    #[arg(long, value_name = "SOCKET", conflicts_with = "model", env = "WALRAS_SCHEDULER_BRAIN")]
    brain: Option<PathBuf>,
    /// The part of a node's points that its market can take away, in percent; 0 leaves it out
    #[arg(long, value_name = "PERCENT", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(0..=100),
          env = "WALRAS_SCHEDULER_MARKET_WEIGHT")]
    market_weight: u32,
    /// Take in telemetry of so many nodes at once
    #[arg(long, value_name = "N", default_value_t = 6000,
          value_parser = clap::value_parser!(u32).range(1..=50_000),
          env = "WALRAS_SCHEDULER_NODES_MAX")]
    nodes_max: u32,
    /// The least urgent messages that are logged
    #[arg(long, value_enum, default_value = "info", env = "WALRAS_LOG_LEVEL")]
    log_level: LevelChoice,
    /// Whether messages are lines for people or JSON for programs
    #[arg(long, value_enum, default_value = "text", env = "WALRAS_LOG_FORMAT")]
    log_format: FormatChoice,
}

/// Whether scores steer placement.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeChoice {
    /// Score, write down and compare; change nothing
    Shadow,
    /// Answer kube-scheduler with the scores
    Active,
}

/// Runs the scheduler until it is told to stop.
pub(crate) fn run(args: SchedulerArgs) -> Result<(), Failure> {
    log::start(args.log_level.into(), args.log_format.into(), &TOLD_BY_CALLER);
    let given = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
    let model = match given(args.model) {
        None => Some(embedded(Kind::Mlp)),
        Some(path) if path == Path::new("none") => None,
        Some(path) => Some(model(&path)?),
    };
    let options = Options {
        // An empty variable is as good as none.
        kubeconfig: given(args.kubeconfig),
        namespace: args.namespace,
        listen: args.listen,
        telemetry_listen: args.telemetry_listen,
        web_listen: args.web_listen,
        probe_listen: args.probe_listen,
        tls: given(args.tls),
        mode: match args.mode {
            ModeChoice::Shadow => Mode::Shadow,
            ModeChoice::Active => Mode::Active,
        },
        terms: Terms { market_weight: Ratio::from_percent(args.market_weight), ..Terms::DEFAULT },
        model,
        brain: given(args.brain),
        nodes_max: usize::try_from(args.nodes_max).unwrap_or(usize::MAX),
    };
    scheduler::run(options).map_err(|error| match error {
        SchedulerError::Door(_) | SchedulerError::Reception(_) => Failure::Input(error.to_string()),
        SchedulerError::Connect(_)
        | SchedulerError::Serve(_)
        | SchedulerError::System(_)
        | SchedulerError::Ended(_) => Failure::Machine(error.to_string()),
    })
}

fn model(path: &Path) -> Result<ModelFile, Failure> {
    let wrong = |why: String| Failure::Input(format!("--model {}: {why}", path.display()));
    let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    file::read(&bytes, None).map_err(|error| wrong(error.to_string()))
}
