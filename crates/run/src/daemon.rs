//! Puts it together: store, runtime, manager and server, in threads of their own beside the host's
//! loop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime as Threads};
use tracing::{info, warn};
use walras_rpc::{Limits, Listen, ServeError, Server};

use crate::api::Api;
use crate::machine::{self, Machine};
use crate::manager::{FaultPoint, Manager, ManagerOptions};
use crate::runtime::Docker;
use crate::store::{RedbStore, StoreError};

/// How long requests that are under way may take when it stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the API is served. All of them are the same API.
    pub listen: Vec<Listen>,
    /// The folder of the store.
    pub state_dir: PathBuf,
    /// Docker's socket.
    pub docker: PathBuf,
    /// The version that is told.
    pub version: String,
    /// Where the process is to end at once, for tests of crashes.
    pub fault: Option<FaultPoint>,
}

/// Why nothing is run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The API cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// There are no threads for it.
    #[error("there are no threads to run workloads with: {0}")]
    Threads(#[from] std::io::Error),
}

/// Workloads being run. They go on when this is dropped; nobody looks after them then.
#[derive(Debug)]
pub struct Running {
    threads: Option<Threads>,
    servers: Vec<Server>,
}

/// Starts to run workloads and to serve the API.
///
/// # Errors
/// It cannot, and nothing was changed.
pub fn start(options: &Options) -> Result<Running, RunError> {
    let threads = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("walras-run")
        .enable_all()
        .build()?;
    let store = Box::new(RedbStore::open(&options.state_dir)?);
    let runtime = Arc::new(Docker::new(&options.docker));
    let settings = ManagerOptions { capacity: machine::capacity(), fault: options.fault };
    let manager = Manager::new(store, runtime, settings)?;
    for aside in manager.quarantined() {
        warn!("{}: a record that cannot be read is kept aside: {}", aside.name, aside.what);
    }
    let api = Arc::new(Api {
        manager: Arc::clone(&manager),
        machine: Machine::default(),
        version: options.version.clone(),
    });
    let mut servers = Vec::new();
    for listen in &options.listen {
        let server = Server::start(Arc::clone(&api), listen, Limits::DEFAULT);
        let server = threads.block_on(server)?;
        info!(?listen, address = ?server.address(), "the workload API is served");
        servers.push(server);
    }
    threads.spawn(manager.serve());
    Ok(Running { threads: Some(threads), servers })
}

impl Running {
    /// Where the API is served, as far as that is a port.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.servers.iter().filter_map(Server::address)
    }

    /// Stops to serve and to look after workloads. They go on.
    pub fn stop(mut self) {
        let servers = std::mem::take(&mut self.servers);
        if let Some(threads) = self.threads.take() {
            threads.block_on(async {
                for server in servers {
                    server.stop(STOP_WITHIN).await;
                }
            });
            threads.shutdown_timeout(STOP_WITHIN);
        }
    }
}
