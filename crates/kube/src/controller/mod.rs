//! The controller: carries out what agents want for their pods, through `pods/resize`, and says
//! what became of it.
//!
//! Six watches keep a store of what is known; a queue says what has to be looked at; a few workers
//! look. What to do is decided by `walras-core` and in `decide`; everything else here is transport.
//! Of several controllers only the holder of a lease acts. What always holds: one pod is asked for
//! one resize at a time; what it came with is written down before it is changed; nothing is written
//! that says what is there already.

mod act;
mod autoscalers;
mod clock;
mod collect;
mod decide;
mod events;
mod facts;
mod in_vain;
mod kept;
mod leader;
mod metrics;
mod packed;
mod queue;
mod rebalance;
mod reconcile;
mod server;
mod settings;
mod siblings;
#[cfg(feature = "browser")]
mod staged;
mod state;
mod status;
mod store;
mod trouble;
mod watch;
mod web;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch as channel;
use tokio::task::{JoinError, JoinSet};
use tokio::time;
use walras_core::resize::{Bucket, Refusals};
use walras_core::rng::Rng;
use walras_core::units::Moment;
use walras_node::serve::{self, ServeError};

use self::clock::Clock;
use self::collect::Collecting;
use self::events::EventBudget;
use self::facts::Key;
use self::leader::Leadership;
use self::metrics::Metrics;
use self::queue::Queue;
use self::settings::Settings;
use self::store::Store;
use crate::client::{ConnectError, connect};

pub use self::collect::CollectOptions;
pub use self::rebalance::{RebalanceOptions, WindowError, Windows};
#[cfg(feature = "browser")]
pub use self::staged::Staged;
pub use axum::http::Uri;

/// So many allocations are looked at at once: enough to hide the API server's answering time, where
/// fifty a second change and each takes four calls of which one waits for the other.
const WORKERS: usize = 32;
/// Workers have this long to finish when the controller stops.
const STOP_WITHIN: Duration = Duration::from_secs(8);
/// How often the loop shows that it turns.
const BEAT: Duration = Duration::from_secs(1);

/// What a controller is asked to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kubeconfig, where it is not a pod with a service account.
    pub kubeconfig: Option<PathBuf>,
    /// Where its settings and its lease are.
    pub namespace: String,
    /// Where to serve health and metrics.
    pub listen: SocketAddr,
    /// Where to answer probes as well, if anywhere.
    pub probe_listen: Option<SocketAddr>,
    /// Change nothing: only say what would be done.
    pub dry_run: bool,
    /// Whether it is one of several, of which one acts.
    pub elect: bool,
    /// How pods are named for other nodes, if they are.
    pub rebalance: Option<RebalanceOptions>,
    /// Where to write down what becomes of pods, if that is wanted.
    pub collect: Option<CollectOptions>,
}

/// Why a controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// There is no cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Health and metrics cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The system does not let it begin.
    #[error("the controller cannot start: {0}")]
    System(#[from] std::io::Error),
    /// What becomes of pods cannot be written down.
    #[error("{folder}: what becomes of pods cannot be collected there: {error}",
            folder = .folder.display())]
    Collect {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Something that should go on for ever did not. What is left would look healthy and do
    /// nothing, so the process ends, and is started again.
    #[error("a part of the controller has ended, which is a fault of Walras: {0}")]
    Ended(String),
}

/// What all parts of the controller share.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: Clock,
    namespace: String,
    /// The name of this machine, or of this pod.
    host: String,
    /// The name of this process among all controllers.
    me: String,
    dry_run: bool,
    store: Store,
    queue: Queue,
    leadership: Leadership,
    metrics: Metrics,
    bucket: Mutex<Bucket>,
    events: Mutex<EventBudget>,
    refusals: Mutex<Refusals>,
    rng: Mutex<Rng>,
    beat_us: AtomicU64,
    /// Who writes down what becomes of pods, if anybody does.
    collecting: Option<Collecting>,
    /// Whether something was not looked at because this controller did not act at that moment.
    overlooked: AtomicBool,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// It cannot begin. Once it runs, it goes on whatever happens to the cluster, unless it is broken.
pub fn run(options: &Options) -> Result<(), ControllerError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_until_told(options))
}

async fn run_until_told(options: &Options) -> Result<(), ControllerError> {
    let mut stop = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let client = connect(options.kubeconfig.as_deref()).await?;
    let collecting =
        match &options.collect {
            Some(wanted) => Some(Collecting::start(wanted).map_err(|error| {
                ControllerError::Collect { folder: wanted.folder.clone(), error }
            })?),
            None => None,
        };
    let shared = Arc::new(Shared { collecting, ..Shared::new(options) });
    let routes = web::routes(Arc::clone(&shared));
    let names = serve::names_in_a_cluster(options.listen, &shared.host);
    let server = serve::start_routes(routes, options.listen, &names)?;
    // Stops when dropped.
    let _probes = match options.probe_listen {
        Some(address) => Some(serve::start_probes(&web::probes(Arc::clone(&shared)), address)?),
        None => None,
    };
    tracing::info!(address = %server.address(), dry_run = options.dry_run, "the controller runs");

    let (tell_workers, stopping) = channel::channel(false);
    let mut background = JoinSet::new();
    background.spawn(watch::allocations(Arc::clone(&shared), client.clone()));
    background.spawn(watch::pods(Arc::clone(&shared), client.clone()));
    background.spawn(watch::namespaces(Arc::clone(&shared), client.clone()));
    background.spawn(watch::settings(Arc::clone(&shared), client.clone()));
    background.spawn(watch::horizontal(Arc::clone(&shared), client.clone()));
    background.spawn(watch::vertical(Arc::clone(&shared), client.clone()));
    background.spawn(server::ask(Arc::clone(&shared), client.clone()));
    background.spawn(in_vain::tell(Arc::clone(&shared), client.clone()));
    if let Leadership::Elected(_) = shared.leadership {
        background.spawn(leader::campaign(Arc::clone(&shared), client.clone()));
    }
    background.spawn(beat(Arc::clone(&shared)));
    if let Some(rebalance) = options.rebalance.clone() {
        background.spawn(rebalance::run(Arc::clone(&shared), client.clone(), rebalance));
    }
    background.spawn(collect::run(Arc::clone(&shared)));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(Arc::clone(&shared), client.clone(), stopping.clone()));
    }

    let outcome = tokio::select! {
        _ = stop.0.recv() => Ok(()),
        _ = stop.1.recv() => Ok(()),
        Some(ended) = background.join_next() => Err(ended),
        Some(ended) = workers.join_next() => Err(ended),
    };
    tracing::info!("stopping");
    tell_workers.send(true).ok();
    time::timeout(STOP_WITHIN, async { while workers.join_next().await.is_some() {} }).await.ok();
    // Every worker has stopped before the lease is given back, even in the middle of a call.
    workers.shutdown().await;
    background.shutdown().await;
    leader::release(&shared, client).await;
    server.stop();
    outcome.map_err(|ended| ControllerError::Ended(why_it_ended(ended)))
}

fn why_it_ended(ended: Result<(), JoinError>) -> String {
    ended.map_or_else(|error| error.to_string(), |()| "it returned".to_owned())
}

/// Looks at what is due, one after another, until told to stop.
async fn work(shared: Arc<Shared>, client: Client, mut stopping: channel::Receiver<bool>) {
    loop {
        let key = tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => return,
            key = shared.queue.take(&shared.clock) => key,
        };
        let begun = Instant::now();
        let next = reconcile::reconcile(&shared, &client, &key).await;
        shared.metrics.reconciles.observe(begun.elapsed().as_secs_f64());
        shared.queue.done(key, next);
        // Watches and the lease have their turn, however many are due.
        tokio::task::yield_now().await;
    }
}

async fn beat(shared: Arc<Shared>) {
    let mut interval = time::interval(BEAT);
    loop {
        interval.tick().await;
        let now_us = shared.clock.now().since(Moment::ORIGIN).as_us();
        shared.beat_us.store(now_us, Ordering::Relaxed);
    }
}

// === impl Shared ===

impl Shared {
    fn new(options: &Options) -> Self {
        let clock = Clock::start();
        let now = clock.now();
        let seed =
            now.since(Moment::ORIGIN).as_us() ^ u64::from(std::process::id()).rotate_left(40);
        let mut rng = Rng::from_seed(seed);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim().to_owned();
        let me = format!("{host}_{:016x}", rng.next_u64());
        let leadership = if options.elect && !options.dry_run {
            Leadership::elected(me.clone())
        } else {
            Leadership::Alone(now)
        };
        Self {
            bucket: Mutex::new(Bucket::full(Settings::default().held.resizes_per_second, now)),
            events: Mutex::new(EventBudget::full(now)),
            refusals: Mutex::new(Refusals::none(now)),
            beat_us: AtomicU64::new(now.since(Moment::ORIGIN).as_us()),
            overlooked: AtomicBool::new(false),
            collecting: None,
            rng: Mutex::new(rng),
            namespace: options.namespace.clone(),
            dry_run: options.dry_run,
            store: Store::default(),
            queue: Queue::default(),
            metrics: Metrics::new(),
            leadership,
            clock,
            host,
            me,
        }
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn events(&self) -> MutexGuard<'_, EventBudget> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_beat(&self) -> Moment {
        Moment::from_us(self.beat_us.load(Ordering::Relaxed))
    }

    /// Whether this controller acts now.
    fn acts(&self) -> bool {
        self.leadership.acts_until(self.clock.now()).is_some()
    }

    /// Who writes down what becomes of pods, if somebody does and it is this controller's turn.
    fn collecting(&self) -> Option<&Collecting> {
        self.collecting.as_ref().filter(|_| self.acts())
    }

    /// Something changed that may matter to `key`.
    fn look_at(&self, key: Key) {
        self.queue.add(key, self.clock.now());
    }

    /// Something changed that may matter to `key`, or to others by what it suggests for it.
    fn look_at_family(&self, key: Key) {
        for sibling in self.store.suggested(&key) {
            self.look_at(sibling);
        }
        self.look_at(key);
    }

    /// Something changed that may matter to all, or to all of one namespace.
    fn look_at_all(&self, namespace: Option<&str>) {
        for key in self.store.allocations(namespace) {
            self.look_at(key);
        }
    }

    /// One more kind of object is known; with the last of them, work can begin.
    fn synced(&self) {
        if self.store.is_synced() {
            self.look_at_all(None);
        }
    }

    fn settings_changed(&self) {
        let rate = self.store.settings().held.resizes_per_second;
        self.bucket().rate_changed(rate, self.clock.now());
        self.look_at_all(None);
    }
}

// === impl Key ===

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
