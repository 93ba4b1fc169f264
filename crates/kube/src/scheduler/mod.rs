//! `walras scheduler`: scores nodes for kube-scheduler, as an extender beside it.
//!
//! Agents push what their nodes measure; a table of all nodes is swapped behind the extender, which
//! answers from it without any I/O. In shadow mode, which a new install begins with, it answers the
//! same for every node, and only tells what it would have recommended. When it is dead or slow,
//! pods are placed without it. Several may serve at once: each has its own table.

mod collect;
mod door;
mod extender;
mod judge;
mod memory;
mod metrics;
mod pod;
mod remote;
mod shadow;
mod table;
mod trial;
mod watch;
mod web;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::{runtime, time};
use walras_brain::file::ModelFile;
use walras_brain::slot::Slot;
use walras_core::place::{Mode, Terms};
use walras_node::serve::{self, ServeError};
use walras_rpc::telemetry::Reception;
use walras_rpc::{Listen, TlsFolder};

use self::collect::Desk;
use self::door::Door;
pub use self::door::DoorError;
use self::judge::Judge;
use self::memory::{Memory, Remembered};
use self::metrics::{Became, Metrics};
use self::remote::RemoteBrain;
use self::table::Store;
pub use self::trial::{Trial, TrialDoor};
use crate::client::{ConnectError, connect};
use crate::names;

/// The port that kube-scheduler asks at.
pub const PORT: u16 = 10302;
/// A new table is made no more often than this.
const SWAP_EVERY: Duration = Duration::from_millis(50);
/// And at least this often, since pods that were bound a moment ago stop to count by themselves.
const SWAP_AT_LEAST: Duration = Duration::from_secs(1);
/// So many recommendations wait to be written.
const WAITING_MAX: usize = 1_000;

/// What a scheduler is asked to do.
#[derive(Debug)]
pub struct Options {
    /// The kubeconfig, where it is not a pod with a service account.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the agents.
    pub namespace: String,
    /// Where kube-scheduler asks.
    pub listen: SocketAddr,
    /// Where agents push telemetry.
    pub telemetry_listen: SocketAddr,
    /// Where to serve health, metrics and the API.
    pub web_listen: SocketAddr,
    /// Where to answer probes as well, if anywhere.
    pub probe_listen: Option<SocketAddr>,
    /// A folder with `cert.pem` and `key.pem`; without it both listen on the loopback interface.
    pub tls: Option<PathBuf>,
    /// Whether answers steer placement.
    pub mode: Mode,
    /// How points are made.
    pub terms: Terms,
    /// What scores, if anything.
    pub model: Option<ModelFile>,
    /// The socket of a Brain that scores in the place of the model.
    pub brain: Option<PathBuf>,
    /// Telemetry of so many nodes at once.
    pub nodes_max: usize,
}

/// Why a scheduler cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// There is no cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Questions cannot be served.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// Health and metrics cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Telemetry cannot be taken in.
    #[error("--telemetry-listen: {0}")]
    Reception(#[from] walras_rpc::ServeError),
    /// The system does not let it begin.
    #[error("the scheduler cannot start: {0}")]
    System(#[from] std::io::Error),
    /// Something that should go on for ever did not.
    #[error("a part of the scheduler has ended, which is a fault of Walras: {0}")]
    Ended(String),
}

/// What all parts share.
#[derive(Debug)]
pub(crate) struct Shared {
    judge: Judge,
    mode: Mode,
    store: Arc<Store>,
    memory: Memory,
    metrics: Arc<Metrics>,
    to_write: mpsc::Sender<Remembered>,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// It cannot begin. Once it runs, it goes on whatever happens to the cluster, unless it is broken.
pub fn run(options: Options) -> Result<(), SchedulerError> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run_until_told(options))
}

async fn run_until_told(options: Options) -> Result<(), SchedulerError> {
    let mut stop = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let client = connect(options.kubeconfig.as_deref()).await?;
    let (shared, waiting) = Shared::new(options.mode, options.terms, options.model, options.brain);
    let tls = options.tls.as_deref().map(TlsFolder::new);
    let door = Door::open(options.listen, tls.as_ref(), web::extender(Arc::clone(&shared)))?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let names_of_ours = serve::names_in_a_cluster(options.web_listen, host.trim());
    let routes = web::routes(Arc::clone(&shared));
    let server = serve::start_routes(routes, options.web_listen, &names_of_ours)?;
    // Stops when dropped.
    let _probes = match options.probe_listen {
        Some(address) => Some(serve::start_probes(&web::probes(Arc::clone(&shared)), address)?),
        None => None,
    };
    let account = format!("system:serviceaccount:{}:{}", options.namespace, names::AGENT_ACCOUNT);
    let (store, metrics) = (Arc::clone(&shared.store), Arc::clone(&shared.metrics));
    let desk = Arc::new(Desk::new(store, metrics, client.clone(), account));
    let address = options.telemetry_listen;
    let listen = match tls {
        Some(folder) => Listen::OurTls { address, folder },
        None => Listen::Plain { address },
    };
    let reception = Reception::start(desk, &listen, options.nodes_max).await?;
    tracing::info!(
        extender = %door.address(),
        telemetry = %reception.address().unwrap_or(address),
        web = %server.address(),
        mode = shared.mode.name(),
        model = shared.judge.model(),
        "the scheduler runs"
    );
    let mut background = JoinSet::new();
    background.spawn(watch::nodes(Arc::clone(&shared), client.clone()));
    background.spawn(watch::pods(Arc::clone(&shared), client.clone()));
    background.spawn(shadow::write(client, waiting));
    background.spawn(swap(Arc::clone(&shared)));
    let outcome = tokio::select! {
        _ = stop.0.recv() => Ok(()),
        _ = stop.1.recv() => Ok(()),
        Some(ended) = background.join_next() => Err(ended),
    };
    tracing::info!("stopping");
    drop(door);
    background.shutdown().await;
    server.stop();
    outcome.map_err(|ended| {
        let why = ended.map_or_else(|error| error.to_string(), |()| "it returned".to_owned());
        SchedulerError::Ended(why)
    })
}

/// Makes a new table whenever something changed, at a bounded pace.
async fn swap(shared: Arc<Shared>) {
    loop {
        // Late or early, a table is due.
        time::timeout(SWAP_AT_LEAST, shared.store.changed()).await.ok();
        shared.store.publish(shared.now_ms());
        time::sleep(SWAP_EVERY).await;
    }
}

// === impl Shared ===

impl Shared {
    fn new(
        mode: Mode,
        terms: Terms,
        model: Option<ModelFile>,
        brain: Option<PathBuf>,
    ) -> (Arc<Self>, mpsc::Receiver<Remembered>) {
        let slot = Slot::empty();
        if model.is_some() {
            slot.swap(model);
        }
        let (to_write, waiting) = mpsc::channel(WAITING_MAX);
        let shared = Self {
            judge: Judge { slot: Arc::new(slot), remote: brain.map(RemoteBrain::new), terms },
            mode,
            store: Arc::new(Store::default()),
            memory: Memory::default(),
            metrics: Arc::new(Metrics::new()),
            to_write,
        };
        (Arc::new(shared), waiting)
    }

    /// Now, in milliseconds since 1970.
    fn now_ms(&self) -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }

    /// A pod that nodes were scored for was bound.
    fn settled(&self, placement: Remembered) {
        let told = &placement.told;
        let became = match (told.strictly, told.actual.as_ref() == Some(&told.recommended)) {
            (false, _) => Became::Tie,
            (true, true) => Became::Match,
            (true, false) => Became::Differ,
        };
        self.metrics.became(became);
        match self.mode {
            Mode::Shadow => {
                if self.to_write.try_send(placement).is_err() {
                    self.metrics.not_written.inc();
                }
            }
            Mode::Active => {}
        }
    }
}

#[cfg(test)]
mod tests;
