//! The thread that talks to the API server, so that the loop never waits for it.
//!
//! It watches, writes PodAllocations, loads and saves what was learned, asks Prometheus, and tells
//! schedulers how the node is. What it finds is left where the loop looks for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kube::Client;
use tokio::runtime::{self, Runtime};
use tokio::sync::{oneshot, watch};
use tracing::{debug, info, warn};
use walras_node::board::Board;
use walras_node::latency::{self, Questions, Rhythm, Verdict};

use super::pods::{self, Scope, World};
use super::publish::{self, Outbox};
use super::report::{self, ReportTo};
use super::tables::{self, Tables};
use crate::client::{ConnectError, connect, words};

/// How long one save may take.
const SAVE_PATIENCE: Duration = Duration::from_secs(5);
/// The pause after a save or a load that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// What is shared with the loop.
#[derive(Clone, Debug)]
pub struct Shared {
    /// What was seen.
    pub world: Arc<World>,
    /// What is to be written.
    pub outbox: Arc<Outbox>,
    /// What Prometheus is asked.
    pub questions: Arc<Questions>,
}

/// What is asked of the thread.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Which pods, and which settings.
    pub scope: Scope,
    /// Whether learned tables are kept by the API server.
    pub keep_tables: bool,
    /// Whether anything is written.
    pub write: bool,
    /// Which scheduler is told what the board says of the node, if one is.
    pub report: Option<(ReportTo, Arc<Board>)>,
}

/// The thread at work.
#[derive(Debug)]
pub struct Link {
    saves: watch::Sender<Option<Tables>>,
    /// What was learned before, once it is there.
    pub loaded: Receiver<Tables>,
    /// Whether latency targets are met.
    pub verdicts: Receiver<Verdict>,
    stop: Option<oneshot::Sender<Option<Tables>>>,
    thread: Option<JoinHandle<()>>,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is no cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The thread cannot be started.
    #[error("the thread for the API server cannot be started: {0}")]
    Thread(#[from] io::Error),
}

// === impl Link ===

impl Link {
    /// Starts the thread. Whether the API server answers is not waited for.
    ///
    /// # Errors
    /// There is no cluster to be found.
    pub fn start(
        kubeconfig: Option<&Path>,
        asked: Asked,
        shared: Shared,
    ) -> Result<Self, LinkError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(connect(kubeconfig))?;
        let (saves, to_save) = watch::channel(None);
        let (found, loaded) = mpsc::channel();
        let (judged, verdicts) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let work = Work { client, asked, shared, to_save, found, judged };
        let thread = thread::Builder::new()
            .name("walras-kube".into())
            .spawn(move || work.run(&runtime, stopped))?;
        Ok(Self { saves, loaded, verdicts, stop: Some(stop), thread: Some(thread) })
    }

    /// Whether the thread has ended, which it does only when it is told to or is broken.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Saves this when possible. Only the newest counts.
    pub fn save(&self, tables: Tables) {
        self.saves.send_replace(Some(tables));
    }

    /// Ends the thread, after it has tried once to save `last`.
    pub fn stop(mut self, last: Option<Tables>) {
        if let Some(stop) = self.stop.take() {
            // If there is no receiver, it has ended already.
            stop.send(last).ok();
        }
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has told so, and nothing is left to be ended.
            thread.join().ok();
        }
    }
}

#[cfg(test)]
impl Link {
    /// One whose thread has a fault.
    pub(super) fn broken() -> Self {
        let (saves, _) = watch::channel(None);
        let ((_, loaded), (_, verdicts)) = (mpsc::channel(), mpsc::channel());
        let thread = thread::spawn(|| panic!("a fault, on purpose"));
        Self { saves, loaded, verdicts, stop: None, thread: Some(thread) }
    }
}

/// What the thread works with.
struct Work {
    client: Client,
    asked: Asked,
    shared: Shared,
    to_save: watch::Receiver<Option<Tables>>,
    found: Sender<Tables>,
    judged: Sender<Verdict>,
}

impl Work {
    fn run(self, runtime: &Runtime, stopped: oneshot::Receiver<Option<Tables>>) {
        let Self { client, asked, shared, to_save, found, judged } = self;
        let (node, namespace) = (asked.scope.node.clone(), asked.scope.namespace.clone());
        let world = Arc::clone(&shared.world);
        let kept = Kept { client: client.clone(), namespace, node: node.clone(), world };
        runtime.block_on(async {
            let watching = pods::watch(client.clone(), asked.scope, Arc::clone(&shared.world));
            let writing = async {
                if asked.write {
                    publish::run(client.clone(), node, shared.outbox).await;
                }
            };
            let learning = async {
                if asked.keep_tables {
                    kept.load(found).await;
                    kept.save_all(to_save, asked.write).await;
                }
            };
            let judging = latency::run(shared.questions, judged, Rhythm::USUAL);
            let reporting = async {
                if let Some((to, board)) = asked.report {
                    report::report(to, kept.node.clone(), board).await;
                }
            };
            let work = async { tokio::join!(watching, writing, learning, judging, reporting) };
            // Without an answer the thread is gone, and there is nothing to save.
            let last = tokio::select! {
                ((), (), (), (), ()) = work => None,
                last = stopped => last.unwrap_or_default(),
            };
            if let Some(last) = last.filter(|_| asked.write) {
                kept.save(&last).await;
            }
        });
        debug!("the link to the API server has ended");
    }
}

/// What was learned, as the API server keeps it.
struct Kept {
    client: Client,
    namespace: String,
    node: String,
    world: Arc<World>,
}

impl Kept {
    async fn load(&self, found: Sender<Tables>) {
        loop {
            match tables::load(&self.client, &self.namespace, &self.node).await {
                Ok(tables) => {
                    info!("{} tables that were learned before", tables.len());
                    // The loop may have ended meanwhile.
                    found.send(tables).ok();
                    return;
                }
                Err(error) => {
                    debug!("what was learned cannot be loaded yet: {}", words(&error));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn save_all(&self, mut to_save: watch::Receiver<Option<Tables>>, write: bool) {
        while to_save.changed().await.is_ok() {
            loop {
                let newest = to_save.borrow_and_update().clone();
                let Some(newest) = newest.filter(|_| write) else {
                    break;
                };
                if self.save(&newest).await {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn save(&self, newest: &Tables) -> bool {
        let uid = self.world.node_uid();
        let node = (self.node.as_str(), uid.as_deref());
        let save = tables::save(&self.client, &self.namespace, node, newest);
        match tokio::time::timeout(SAVE_PATIENCE, save).await {
            Ok(Ok(())) => {
                debug!("{} tables saved", newest.len());
                return true;
            }
            Ok(Err(error)) => warn!("what was learned is not saved: {}", words(&error)),
            Err(_) => warn!("what was learned is not saved: the API server did not answer"),
        }
        false
    }
}

/// Where learned tables are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shelf {
    /// In a ConfigMap.
    ApiServer,
    /// In a folder.
    Folder(PathBuf),
}
