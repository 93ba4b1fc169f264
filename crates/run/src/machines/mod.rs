//! Virtual machines that are sized while they run: a ledger for all, and an agent for each.
//!
//! [`Machines`] sees which machines run, from whoever started them and however long ago, and keeps
//! an agent for each that is to be sized. Ledger and market divide the same host: what others have
//! a right to is taken from the ledger, and what a machine is permitted is the cap of its group.
//! How large a machine should be, and what it is permitted, is decided by `walras_core`.

mod market;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time;
use tracing::{info, warn};
use walras_core::permit::{PerResource, Terms};
use walras_core::run::Capacity;
use walras_core::units::{Bytes, ComputeUnit, Millicores, Ratio, Resources, VmName};
use walras_scale::agent::guest::{GuestSpec, Pace};
use walras_scale::hosted::{Hosted, HostedError, HostedOptions, HostedVm};
use walras_scale::permits::keep::InFile;
use walras_scale::seal::Seal;
use walras_vm::{Machine as _, MachineSpec, Qemu, QemuMachine, RunState, VmError};
use walras_wire::vm::auth::{Key, KeyError};

use crate::manager::Manager;

pub use self::market::{Market, NoMarket, Others};
use self::port::Port;

/// How often machines are looked for and the market is asked, even if nothing happened.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// An increase that does not fit whole is granted in such steps.
const STEP: Resources = Resources::new(Millicores::new(250), Bytes::new(256 << 20));
/// What memory is counted in on the wire.
const SLOT: Bytes = Bytes::new(1 << 30);

/// How machines are sized.
#[derive(Clone, Debug)]
pub struct SizingOptions {
    /// Where permits are served: port 10299.
    pub permits: Option<SocketAddr>,
    /// Where the state of permits is shown: port 10298.
    pub permits_shown: Option<SocketAddr>,
    /// Where the state of agents is shown: port 10300.
    pub agents_shown: Option<SocketAddr>,
    /// A file with the key of those who ask for permits.
    pub key: Option<PathBuf>,
    /// What machines never get, of all that the host has.
    pub reserve: Resources,
    /// How much may be permitted, in percent of what there is.
    pub overcommit_percent: u32,
}

/// Why no machine is sized.
#[derive(Debug, thiserror::Error)]
pub enum SizingError {
    /// The ledger cannot be kept or served.
    #[error(transparent)]
    Hosted(#[from] HostedError),
    /// There is no key where one was named.
    #[error("{path}: the key cannot be read: {source}")]
    KeyFile {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What is there is no key.
    #[error("{path}: {source}")]
    Key {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: KeyError,
    },
}

/// The machines of a host that are sized.
#[derive(Debug)]
pub struct Machines {
    qemu: Arc<Qemu>,
    hosted: Hosted,
    market: Arc<dyn Market>,
    /// Which start of each machine has an agent.
    sized: Mutex<BTreeMap<String, String>>,
}

impl Default for SizingOptions {
    fn default() -> Self {
        Self {
            permits: None,
            permits_shown: None,
            agents_shown: None,
            key: None,
            reserve: Resources::ZERO,
            overcommit_percent: 100,
        }
    }
}

impl Machines {
    /// Starts the ledger, with every machine in it that runs already.
    ///
    /// # Errors
    /// It cannot be kept or served; then nothing is.
    pub async fn start(
        options: &SizingOptions,
        capacity: Capacity,
        state: &Path,
        qemu: Arc<Qemu>,
        market: Arc<dyn Market>,
    ) -> Result<Arc<Self>, SizingError> {
        let seal = options.key.as_deref().map(read_key).transpose()?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let hosted = HostedOptions {
            node: host.trim().to_owned(),
            terms: terms(options, capacity),
            keep: Box::new(InFile::new(state)),
            permits: options.permits,
            seal,
            slot: SLOT,
            permits_shown: options.permits_shown,
            agents_shown: options.agents_shown,
        };
        let hosted = Hosted::start(hosted).await?;
        let what = [
            (options.permits, "permits are served"),
            (options.permits_shown, "the state of permits is shown"),
            (options.agents_shown, "the state of agents is shown"),
        ];
        let served = what.iter().filter(|(asked_for, _)| asked_for.is_some());
        for ((_, what), address) in served.zip(hosted.addresses()) {
            info!(%address, "{what}");
        }
        let machines = Arc::new(Self { qemu, hosted, market, sized: Mutex::default() });
        machines.find().await;
        Ok(machines)
    }

    /// The ledger and the agents, to be shown.
    #[must_use]
    pub const fn hosted(&self) -> &Hosted {
        &self.hosted
    }

    /// Takes down what was there before this daemon, before anything else can be admitted.
    async fn find(&self) {
        for machine in self.live().await {
            let spec = machine.spec();
            let Some((bounds, scaling)) = spec.bounds().zip(spec.scaling) else { continue };
            // One that does not answer may use all that it can have.
            let using = machine.observe().await.map_or(bounds.max(), |seen| seen.using());
            self.hosted.machine_found(&name_of(&spec.name), bounds, scaling.may_move, using);
        }
    }

    /// Whether there is room for a machine that is about to be started; then it is kept for it.
    ///
    /// # Errors
    /// There is none, in a sentence.
    pub async fn admit(&self, spec: &MachineSpec) -> Result<(), String> {
        let Some((bounds, scaling)) = spec.bounds().zip(spec.scaling) else { return Ok(()) };
        if self.qemu.pid(&spec.name).is_some() {
            return Ok(());
        }
        let name = name_of(&spec.name);
        // What an earlier start of it held is free.
        self.sized.lock().await.remove(&spec.name);
        self.hosted.machine_gone(&name);
        if self.hosted.admit(&name, bounds.max(), scaling.may_move, spec.start()) {
            return Ok(());
        }
        let standing = self.hosted.standing();
        Err(format!(
            "{}: there is no room for {}: of {} other machines hold {} and others have a right to \
             {}",
            spec.name,
            spec.start(),
            standing.map(|it| it.budget).unwrap_or_default(),
            standing.map(|it| it.held).unwrap_or_default(),
            standing.map(|it| it.others).unwrap_or_default(),
        ))
    }

    /// A machine that was admitted did not start.
    pub fn not_started(&self, name: &str) {
        if self.qemu.pid(name).is_none() {
            self.hosted.machine_gone(&name_of(name));
        }
    }

    /// Keeps an agent for each machine, for as long as somebody runs this.
    pub async fn watch(self: Arc<Self>, manager: Arc<Manager>) {
        let mut changes = self.qemu.changes();
        let mut complaints = BTreeMap::new();
        loop {
            // Nobody is permitted anything before it is known what others have a right to.
            if self.divide(&manager).await {
                self.look(&mut complaints).await;
            }
            // That something happened or was missed: the next look finds it either way.
            drop(time::timeout(LOOK_EVERY, changes.recv()).await);
        }
    }

    /// Tells ledger and market of each other. Says whether the market has said anything yet.
    async fn divide(&self, manager: &Manager) -> bool {
        let sized = self.sized.lock().await;
        let caps: BTreeMap<String, Millicores> = sized
            .keys()
            .filter_map(|name| {
                let permit = self.hosted.cap(&name_of(name))?;
                Some((format!("walras/vm-{name}"), permit.cpu))
            })
            .collect();
        drop(sized);
        let groups: BTreeSet<String> = caps.keys().cloned().collect();
        self.market.permitted(caps);
        let Some(others) = self.market.others(&groups) else { return false };
        let needs = manager.needs_beside_permits();
        let rights = Resources::new(others.rights.max(needs.cpu), needs.memory);
        self.hosted.others_are(rights, others.price);
        true
    }

    /// Starts and ends agents.
    async fn look(&self, complaints: &mut BTreeMap<String, String>) {
        let mut seen = BTreeSet::new();
        for machine in self.live().await {
            let name = machine.spec().name.clone();
            let stamp = machine.start_stamp();
            let known = self.sized.lock().await.get(&name) == Some(&stamp);
            if known {
                seen.insert(name);
                continue;
            }
            match self.take(&machine).await {
                Ok(true) => {
                    info!(vm = %name, "it is sized");
                    complaints.remove(&name);
                    self.sized.lock().await.insert(name.clone(), stamp);
                    seen.insert(name);
                }
                Ok(false) => {}
                Err(words) if complaints.get(&name) == Some(&words) => {}
                Err(words) => {
                    warn!(vm = %name, "it is not sized yet: {words}");
                    complaints.insert(name, words);
                }
            }
        }
        let mut sized = self.sized.lock().await;
        sized.retain(|name, _| {
            let there = seen.contains(name);
            if !there {
                info!(vm = %name, "it is no longer sized");
                self.hosted.machine_gone(&name_of(name));
            }
            there
        });
    }

    /// Starts the agent of a machine, if it runs.
    async fn take(&self, machine: &Arc<QemuMachine>) -> Result<bool, String> {
        let told = |error: VmError| error.to_string();
        let spec = machine.spec();
        let parts = spec.bounds().zip(spec.scaling);
        let Some((bounds, scaling, unit)) =
            parts.and_then(|(bounds, scaling)| Some((bounds, scaling, scaling.unit()?)))
        else {
            return Ok(false);
        };
        let observed = machine.observe().await.map_err(told)?;
        if observed.state != RunState::Running {
            return Ok(false);
        }
        let Some(way) = machine.way_in().await.map_err(told)? else { return Ok(false) };
        let key = Key::parse(&way.key).map_err(|error| format!("its guest's key: {error}"))?;
        let vm = HostedVm {
            name: name_of(&spec.name),
            unit,
            bounds,
            using: observed.using(),
            may_move: scaling.may_move,
            found: true,
            guest: Some(GuestSpec {
                informant: way.informant,
                metrics: Some(way.metrics),
                listen: SocketAddr::new(way.listen, 0),
                reached_by: Some(way.reached_by),
                seal: Seal::new(key),
                pace: Pace::USUAL,
            }),
        };
        let port = Arc::new(Port(Arc::clone(machine)));
        self.hosted.machine_is_here(vm, port).await.map_err(|error| error.to_string())?;
        Ok(true)
    }

    /// Every machine that has a process and is to be sized.
    async fn live(&self) -> Vec<Arc<QemuMachine>> {
        let names = self.qemu.names().unwrap_or_else(|error| {
            warn!("machines cannot be listed: {error}");
            Vec::new()
        });
        let mut live = Vec::new();
        for name in names {
            if let Ok(machine) = self.qemu.machine(&name).await
                && machine.spec().scaling.is_some()
            {
                live.push(machine);
            }
        }
        live
    }
}

/// Machines of a plain host have no namespaces, and the protocol of permits has.
fn name_of(machine: &str) -> VmName {
    VmName::new(&format!("default/{machine}"))
}

fn terms(options: &SizingOptions, capacity: Capacity) -> Terms {
    let percent = |percent: u32| PerResource::both(Ratio::from_percent(percent));
    Terms {
        capacity: Resources::new(capacity.cpu, capacity.memory),
        overcommit: percent(options.overcommit_percent),
        watermark: percent(100),
        system: options.reserve,
        unit: ComputeUnit::new(STEP).expect("a step is something of both"),
        moves_at_once: 0,
    }
}

fn read_key(path: &Path) -> Result<Seal, SizingError> {
    let text = fs::read(path);
    let text = text.map_err(|source| SizingError::KeyFile { path: path.to_owned(), source })?;
    let key = Key::parse(&text);
    let key = key.map_err(|source| SizingError::Key { path: path.to_owned(), source })?;
    Ok(Seal::new(key))
}
