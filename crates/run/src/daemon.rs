//! Puts it together: store, runtime, manager and server, in threads of their own beside the host's
//! loop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime as Threads};
use tracing::{info, warn};
use walras_core::run::Policy;
use walras_rpc::{Limits, Listen, ServeError, Server};

use crate::api::Api;
use crate::beside::Beside;
use crate::control::{self, ControlOptions};
use crate::machine::{self, Machine};
use crate::machines::{Machines, Market, SizingError, SizingOptions};
use crate::manager::{FaultPoint, Manager, ManagerOptions};
use crate::record::{self, LimitRecords};
use crate::runtime::{
    ComposeRuntime, Docker, DockerOptions, LibvirtRuntime, Runtime, Runtimes, Unneeded, VmRuntime,
    usual_compose, usual_qemu, usual_virsh,
};
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
    /// Docker.
    pub docker: DockerOptions,
    /// The compose plugin; where it usually is, if it is not said.
    pub compose: Option<PathBuf>,
    /// QEMU; where it usually is, if it is not said.
    pub qemu: Option<PathBuf>,
    /// Where libvirt is; the host's own, if it is not said and `virsh` is there.
    pub libvirt: Option<String>,
    /// What compose files may have of the host.
    pub policy: Policy,
    /// After how long an image that nobody needs is removed, if ever.
    pub image_gc: Option<Duration>,
    /// How virtual machines are sized.
    pub sizing: SizingOptions,
    /// A control plane that wants to be told.
    pub control: Option<ControlOptions>,
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
    /// Machines cannot be sized.
    #[error(transparent)]
    Sizing(#[from] SizingError),
    /// There are no threads for it.
    #[error("there are no threads to run workloads with: {0}")]
    Threads(#[from] std::io::Error),
}

/// Workloads being run. They go on when this is dropped; nobody looks after them then.
pub struct Running {
    threads: Option<Threads>,
    servers: Vec<Server>,
    api: Arc<Api>,
    machines: Option<Arc<Machines>>,
    /// What Docker has on record because of us, and the Docker.
    records: Option<(Arc<Docker>, Arc<dyn LimitRecords>)>,
}

/// Starts to run workloads and to serve the API. Machines divide the host with `market`; limits
/// that the host sets are put on record with Docker, where there are `records` of them.
///
/// # Errors
/// It cannot, and nothing was changed.
pub fn start(
    options: &Options,
    market: Arc<dyn Market>,
    records: Option<Arc<dyn LimitRecords>>,
) -> Result<Running, RunError> {
    let threads = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("walras-run")
        .enable_all()
        .build()?;
    let store = Box::new(RedbStore::open(&options.state_dir)?);
    let docker = Arc::new(Docker::new(options.docker.clone()));
    let settings = ManagerOptions { capacity: machine::capacity(), fault: options.fault };
    let (runtimes, machines) = threads.block_on(runtimes(options, &docker, market))?;
    let manager = Manager::new(store, runtimes, settings)?;
    for aside in manager.quarantined() {
        warn!("{}: a record that cannot be read is kept aside: {}", aside.name, aside.what);
    }
    let api = Arc::new(api(Arc::clone(&manager), &options.version));
    let mut servers = Vec::new();
    for listen in &options.listen {
        let server = Server::start(Arc::clone(&api), listen, Limits::DEFAULT);
        let server = threads.block_on(server)?;
        info!(?listen, address = ?server.address(), "the workload API is served");
        servers.push(server);
    }
    let records = records.map(|records| (Arc::clone(&docker), records));
    if let Some((docker, records)) = &records {
        threads.spawn(record::keep_in_step(Arc::clone(docker), Arc::clone(records)));
    }
    if let Some(after) = options.image_gc {
        threads.spawn(remove_images(docker, Arc::clone(&manager), after));
    }
    if let Some(machines) = &machines {
        threads.spawn(Arc::clone(machines).watch(Arc::clone(&manager)));
    }
    if let Some(control) = options.control.clone() {
        let control = with_port(control, servers.iter().find_map(Server::address));
        threads.spawn(control::tell(control, Arc::clone(&manager)));
    }
    threads.spawn(manager.serve());
    Ok(Running { threads: Some(threads), servers, api, machines, records })
}

/// Serves the API of a manager at one place, as [`start`] does.
///
/// # Errors
/// The place or the certificates cannot be used.
pub async fn serve(
    manager: Arc<Manager>,
    listen: &Listen,
    version: &str,
) -> Result<Server, ServeError> {
    Server::start(Arc::new(api(manager, version)), listen, Limits::DEFAULT).await
}

fn api(manager: Arc<Manager>, version: &str) -> Api {
    let (machine, scraped) = (Machine::default(), Machine::default());
    Api { manager, machine, scraped, version: version.to_owned() }
}

/// What is told of where we are reached, with the port that was given where any was asked for.
fn with_port(options: ControlOptions, served: Option<SocketAddr>) -> ControlOptions {
    match (options.endpoint.strip_suffix(":0"), served) {
        (Some(host), Some(served)) => {
            let endpoint = format!("{host}:{}", served.port());
            ControlOptions { endpoint, ..options }
        }
        (_, _) => options,
    }
}

/// The runtimes of this host. A new one is a line here.
async fn runtimes(
    options: &Options,
    docker: &Arc<Docker>,
    market: Arc<dyn Market>,
) -> Result<(Runtimes, Option<Arc<Machines>>), RunError> {
    let program = options.compose.clone().unwrap_or_else(usual_compose);
    let mut all: Vec<Arc<dyn Runtime>> = vec![Arc::clone(docker) as _];
    // A host without the plugin runs no projects, and is well nevertheless.
    if options.compose.is_some() || program.is_file() {
        let (folder, docker) = (options.state_dir.join("compose"), Arc::clone(docker));
        all.push(Arc::new(ComposeRuntime::new(docker, program, folder, options.policy)));
    }
    let mut sized = None;
    // The same holds for a host without QEMU.
    if let Some(qemu) = options.qemu.clone().or_else(usual_qemu) {
        let (state, memory) = (options.state_dir.join("vm"), options.docker.secrets_dir.join("vm"));
        match VmRuntime::on(qemu, state, memory) {
            Ok(runtime) => {
                let qemu = Arc::clone(runtime.machines());
                let (sizing, capacity) = (&options.sizing, machine::capacity());
                let started = Machines::start(sizing, capacity, &options.state_dir, qemu, market);
                let machines = started.await?;
                all.push(Arc::new(runtime.sized_by(Arc::clone(&machines))));
                sized = Some(machines);
            }
            Err(error) => warn!("virtual machines cannot be run: {error}"),
        }
    }
    // A host that has the program and not libvirt itself runs no machines with it, and is well.
    let uri = options.libvirt.clone().or_else(usual_libvirt);
    if let (Some(uri), Some(virsh)) = (uri, usual_virsh()) {
        let state = options.state_dir.join("libvirt");
        let memory = options.docker.secrets_dir.join("libvirt");
        all.push(Arc::new(LibvirtRuntime::new(virsh, uri, state, memory)));
    }
    Ok((Runtimes::new(all), sized))
}

/// The libvirt of this host, if it is there.
fn usual_libvirt() -> Option<String> {
    let sockets = ["/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"];
    let there = sockets.iter().any(|path| std::path::Path::new(path).exists());
    there.then(|| "qemu:///system".to_owned())
}

/// Removes images that nobody needs, from time to time.
async fn remove_images(docker: Arc<Docker>, manager: Arc<Manager>, after: Duration) {
    let mut unneeded = Unneeded::default();
    let mut ticks = tokio::time::interval((after / 4).max(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let named = manager.images();
        if let Err(fault) = docker.remove_images(&mut unneeded, &named, after).await {
            warn!("images were not looked at: {fault}");
        }
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Running at {:?}", self.servers)
    }
}

impl Running {
    /// Where the API is served, as far as that is a port.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.servers.iter().filter_map(Server::address)
    }

    /// The machines that are sized, where there is something to run machines with.
    #[must_use]
    pub const fn machines(&self) -> Option<&Arc<Machines>> {
        self.machines.as_ref()
    }

    /// What is told of workloads beside the host's own figures.
    #[must_use]
    pub fn beside(&self) -> Beside {
        let threads = self.threads.as_ref().map(|threads| threads.handle().clone());
        Beside::new(Arc::clone(&self.api), threads)
    }

    /// Stops to serve and to look after workloads. They go on.
    pub fn stop(mut self) {
        let servers = std::mem::take(&mut self.servers);
        if let Some(threads) = self.threads.take() {
            threads.block_on(async {
                for server in servers {
                    server.stop(STOP_WITHIN).await;
                }
                if let Some((docker, records)) = &self.records {
                    let all = record::forget_all(docker, &**records);
                    // What is left is brought in step by the next daemon.
                    tokio::time::timeout(STOP_WITHIN, all).await.ok();
                }
            });
            threads.shutdown_timeout(STOP_WITHIN);
        }
    }
}
