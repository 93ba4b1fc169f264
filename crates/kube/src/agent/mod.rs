//! `walras agent`: sizes the pods of one Kubernetes node.
//!
//! It drives the same loop as `walras host`. What differs is the outside: pods are found by a
//! watch, and what is decided is written down as PodAllocations. The network is the business of a
//! thread of its own, and the loop never waits for it. Nothing is sized before the settings are
//! known; a change of them that is wrong is told of and changes nothing.

pub mod direct;
pub mod find;
pub mod latency;
pub mod link;
pub mod outside;
pub mod params;
pub mod pods;
pub mod publish;
pub mod report;
mod running;
pub mod sample;
mod settle;
pub mod tables;
pub mod tenants;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tracing::{debug, info};
use walras_cgroup::{Layout, LayoutError, allow_open_files};
use walras_core::node::Node;
use walras_core::units::{Moment, Span};
use walras_node::board::{Board, Identity};
use walras_node::drive::{Drive, cpus_online};
use walras_node::environment;
use walras_node::latency::Questions;
use walras_node::log::{LogFormat, LogLevel};
use walras_node::record::{RecordError, RecordTo, Recorder};
use walras_node::serve::{self, Probes, ServeError, ServeSettings};
use walras_node::{log, signal};

use self::link::{Asked, Link, LinkError, Shared, Shelf};
use self::outside::{Kubernetes, Terms};
use self::pods::{Scope, World};
use self::publish::Outbox;
pub(crate) use self::publish::Pace;
pub use self::report::ReportTo;
pub use self::running::LinkEnded;
use self::running::Running;
use crate::client::TOLD_BY_CALLER;
use crate::names;
use crate::settings::AgentConfig;

/// Where the dashboard and the metrics are served.
const PORT: u16 = 8082;
/// So many files may have to be open: a few for each pod.
const OPEN_FILES: u64 = 65_536;
/// The market is first cleared after this much watching, so that needs are more than guesses.
const FIRST_CLEARING: Span = Span::from_s(3);
/// How often to look for pods that came or went.
const LOOK_INTERVAL: Span = Span::from_s(1);

/// What an agent that has seen nothing yet waits for.
const NOT_SEEN: &str = "the API server did not say yet which pods there are";

/// What was asked for on the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node.
    pub node: String,
    /// How to reach the API server, where it is not said by the surroundings.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the agent and its settings.
    pub namespace: String,
    /// Where to serve.
    pub listen: SocketAddr,
    /// Where to answer probes as well, if anywhere.
    pub probe_listen: Option<SocketAddr>,
    /// A file with the settings, in the place of the ConfigMap.
    pub config: Option<PathBuf>,
    /// Where the machine's control groups can be seen, if not at their usual place.
    pub cgroup_root: Option<PathBuf>,
    /// A folder for what was learned, in the place of a ConfigMap.
    pub tables_dir: Option<PathBuf>,
    /// Whether nothing at all is written.
    pub dry_run: bool,
    /// Where facts are recorded, if they are.
    pub record: Option<RecordTo>,
    /// The least urgent message that is logged.
    pub log_level: LogLevel,
    /// How messages are written.
    pub log_format: LogFormat,
    /// The version that is told.
    pub version: String,
    /// Which scheduler is told how the node is, if one is.
    pub report: Option<ReportTo>,
}

/// What is known to whatever runs beside an agent.
#[derive(Clone, Debug)]
pub struct Around {
    /// What the agent tells.
    pub board: Arc<Board>,
    /// What the API server says of the node.
    pub world: Arc<World>,
    /// Where the node's control groups are.
    pub layout: Layout,
}

/// What ends something that runs beside the agent.
pub type End = Box<dyn FnOnce()>;

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There is no cluster.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// There are no control groups to be found.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The port cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The recording cannot be made.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A part of it is broken.
    #[error(transparent)]
    Ended(#[from] LinkEnded),
    /// Signals cannot be heard.
    #[error("signals cannot be heard: {0}")]
    Signals(io::Error),
    /// What is to run beside the agent cannot start.
    #[error("{0}")]
    Beside(String),
    /// The file with the settings is wrong.
    #[error("{file}: {because}", file = .file.display())]
    Config {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        because: String,
    },
}

/// Where to serve where nothing is said: in a pod for everybody who can reach it, else for this
/// machine alone.
#[must_use]
pub fn default_listen() -> SocketAddr {
    let in_pod = environment("KUBERNETES_SERVICE_HOST").is_some();
    let address = if in_pod { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    SocketAddr::new(IpAddr::V4(address), PORT)
}

/// Runs the agent until it is told to stop, and beside it what `beside` starts, which is started
/// last and ended first.
///
/// # Errors
/// It cannot start, and nothing was changed then; or a part of it has ended, and pods have back
/// what the API server has for them.
pub fn run(
    options: &Options,
    beside: impl FnOnce(Around) -> Result<End, String>,
) -> Result<(), AgentError> {
    log::start(options.log_level, options.log_format, &TOLD_BY_CALLER);
    // Until the settings are known, the default holds and no pod is sized.
    let config = match &options.config {
        Some(file) => running::config_in(file)
            .map_err(|because| AgentError::Config { file: file.clone(), because })?,
        None => AgentConfig::default(),
    };
    let layout = outside::layout(options.cgroup_root.as_ref())?;
    let board = Arc::new(Board::new(identity(options, &config, false)));
    board.set_waits_for(Some(NOT_SEEN));
    let names = serve::names_in_a_cluster(options.listen, &options.node);
    let settings = ServeSettings { listen: options.listen, names };
    let server = serve::start(Arc::clone(&board), &settings)?;
    // Stops when dropped.
    let _probes = match options.probe_listen {
        Some(address) => Some(serve::start_probes(&Probes::of(&board), address)?),
        None => None,
    };
    let asked = signal::listen().map_err(AgentError::Signals)?;
    let open_files = allow_open_files(OPEN_FILES);
    debug!(open_files, "files that may be open");
    let origin = origin(&config);
    let recorder = recorder(options, &config, origin)?;
    let shared = shared(options, &config);
    let link =
        Link::start(options.kubeconfig.as_deref(), asked_of(options, &board), shared.clone())?;
    let shelf = options.tables_dir.clone().map_or(Shelf::ApiServer, Shelf::Folder);
    let node = Node::new(cpus_online(), config.profile.clone());
    let terms = Terms {
        config,
        own_namespace: options.namespace.clone(),
        holds: false,
        dry_run: options.dry_run,
    };
    let world = Arc::clone(&shared.world);
    let around =
        Around { board: Arc::clone(&board), world: Arc::clone(&world), layout: layout.clone() };
    let outside = Kubernetes::new(layout, terms, shared, origin);
    let mut drive = Drive::new(node, outside, Arc::clone(&board), LOOK_INTERVAL);
    if let Some(recorder) = recorder {
        drive.record_to(recorder);
    }
    let end = beside(around).map_err(AgentError::Beside)?;
    info!(address = %server.address(), node = options.node, "walras agent is running");
    let ended = Running::new(options, shelf, board, drive, world).run(link, &asked);
    end();
    server.stop();
    Ok(ended?)
}

fn asked_of(options: &Options, board: &Arc<Board>) -> Asked {
    Asked {
        scope: Scope {
            node: options.node.clone(),
            namespace: options.namespace.clone(),
            watch_config: options.config.is_none(),
        },
        keep_tables: options.tables_dir.is_none(),
        write: !options.dry_run,
        report: options.report.clone().map(|to| (to, Arc::clone(board))),
    }
}

fn shared(options: &Options, config: &AgentConfig) -> Shared {
    let pace = Pace { interval: config.write_interval, band: config.min_change };
    let seed = names::fnv(options.node.as_bytes());
    let world = Arc::new(World::default());
    if options.config.is_some() {
        // They are known already, and the file is looked at elsewhere.
        world.set_config(pods::Data::new());
    }
    let outbox = Arc::new(Outbox::new(pace, seed));
    Shared { world, outbox, questions: Arc::new(Questions::new(latency::SETTINGS)) }
}

/// Who this is, and whether it may change anything.
fn identity(options: &Options, config: &AgentConfig, acting: bool) -> Identity {
    Identity {
        version: options.version.clone(),
        host: options.node.clone(),
        profile: config.profile.name.name().to_owned(),
        acting,
    }
}

/// Where the clock starts: so that the first clearing comes soon, but not before anything is known.
fn origin(config: &AgentConfig) -> Moment {
    let interval = config.profile.slow_loop_interval_ms;
    Moment::from_ms(interval.as_ms_floor().saturating_sub(FIRST_CLEARING.as_ms_floor()))
}

fn recorder(
    options: &Options,
    config: &AgentConfig,
    now: Moment,
) -> Result<Option<Recorder>, RecordError> {
    let to = options.record.as_ref();
    to.map(|to| Recorder::start(to, cpus_online(), &config.profile, now)).transpose()
}
