//! A plain host with virtual machines: its ledger, an agent for each machine, and what shows both.
//!
//! Whoever runs machines says which are there ([`Hosted::machine_is_here`]), with what they may be;
//! whoever divides the host's CPU says what others have a right to and what CPU costs
//! ([`Hosted::others_are`]), and takes what a machine is permitted as its cap ([`Hosted::cap`]). So
//! ledger and market divide the same host. Agents ask the ledger in this process; others may ask it
//! over HTTP, with a key, or without one from this host alone.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use walras_core::permit::{Answer, Ask, Standing, Terms, VmTerms};
use walras_core::units::{Bytes, ComputeUnit, Resources, VmName};
use walras_core::vm::{Settings, VmBounds};

use crate::agent::dump::{Agents, AgentsShown};
use crate::agent::guest::GuestSpec;
use crate::agent::remote::Local;
use crate::agent::{self, AgentSpec, Machine, NotPermitted, Scheduler};
use crate::http::{self, Handler, Limits, Server};
use crate::permits::Permits;
use crate::permits::dump::Shown;
use crate::permits::keep::{Keep, KeepError};
use crate::permits::serve::Served;
use crate::seal::{NoRandom, Seal};

/// How a host is run.
#[derive(Debug)]
pub struct HostedOptions {
    /// Its name.
    pub node: String,
    /// What it has for machines and others.
    pub terms: Terms,
    /// Where what a restart must not forget is kept.
    pub keep: Box<dyn Keep>,
    /// Where permits are served to others: port 10299.
    pub permits: Option<SocketAddr>,
    /// The key of those who may ask there.
    pub seal: Option<Seal>,
    /// What memory is counted in there.
    pub slot: Bytes,
    /// Where the state of permits is shown: port 10298.
    pub permits_shown: Option<SocketAddr>,
    /// Where the state of agents is shown: port 10300.
    pub agents_shown: Option<SocketAddr>,
}

/// A machine of the host.
#[derive(Clone, Debug)]
pub struct HostedVm {
    /// Its name, with a namespace: `default/web`.
    pub name: VmName,
    /// What it is sized in.
    pub unit: ComputeUnit,
    /// The least and the most it may have.
    pub bounds: VmBounds,
    /// What it has now.
    pub using: Resources,
    /// Whether it may be moved to another host.
    pub may_move: bool,
    /// Whether it was here before this process.
    pub found: bool,
    /// The program in its guest, where there is one.
    pub guest: Option<GuestSpec>,
}

/// Why machines are not sized.
#[derive(Debug, thiserror::Error)]
pub enum HostedError {
    /// Without a key, only this host may ask.
    #[error(
        "{address}: permits without a key can be served on the loopback interface only; name a \
         file with a key"
    )]
    Open {
        /// Where it was to be.
        address: SocketAddr,
    },
    /// An address cannot be listened on.
    #[error("{address}: cannot be listened on: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// There is no port to hear a guest on.
    #[error("{vm}: its guest cannot be listened to: {source}")]
    Guest {
        /// Whose.
        vm: VmName,
        /// Why not.
        source: io::Error,
    },
    /// What a restart must not forget cannot be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// There are no random numbers.
    #[error(transparent)]
    Random(#[from] NoRandom),
}

/// A host at work. Its agents stop when this is dropped; machines stay as they are.
#[derive(Debug)]
pub struct Hosted {
    node: String,
    permits: Arc<Permits>,
    agents: Arc<Agents>,
    servers: Vec<Server>,
}

impl Hosted {
    /// Starts the ledger and what serves and shows it, in the runtime this is called in.
    ///
    /// # Errors
    /// An address cannot be served on, or should not be; then nothing is.
    pub async fn start(options: HostedOptions) -> Result<Self, HostedError> {
        if let (Some(address), None) = (options.permits, &options.seal)
            && !address.ip().is_loopback()
        {
            return Err(HostedError::Open { address });
        }
        let permits = Arc::new(Permits::new(options.keep)?);
        permits.node_is(&options.node, options.terms);
        let agents = Arc::new(Agents::default());
        let served = Served::new(Arc::clone(&permits), options.slot, options.seal)?;
        let all: [(Option<SocketAddr>, Limits, Arc<dyn Handler>); 3] = [
            (options.permits, Limits::PERMITS, Arc::new(served)),
            (options.permits_shown, Limits::DUMP, Arc::new(Shown(Arc::clone(&permits)))),
            (options.agents_shown, Limits::DUMP, Arc::new(AgentsShown(Arc::clone(&agents)))),
        ];
        let mut servers = Vec::new();
        for (address, limits, handler) in all {
            if let Some(address) = address {
                let server = http::start(address, limits, handler).await;
                servers.push(server.map_err(|source| HostedError::Listen { address, source })?);
            }
        }
        Ok(Self { node: options.node, permits, agents, servers })
    }

    /// A machine was here before this process. It holds its maximum until its agent is heard.
    pub fn machine_found(&self, vm: &VmName, bounds: VmBounds, may_move: bool, using: Resources) {
        let terms = VmTerms { max: bounds.max(), scales: true, may_move };
        self.permits.vm_found(&self.node, vm, terms, using);
    }

    /// A machine is about to be started or to come here. Says whether there is room for it; then it
    /// holds what it begins with until it is here, or gone.
    #[must_use]
    pub fn admit(&self, vm: &VmName, max: Resources, may_move: bool, using: Resources) -> bool {
        let terms = VmTerms { max, scales: true, may_move };
        self.permits.vm_admitted(&self.node, vm, terms, using)
    }

    /// A machine is here, and is sized from now on. One that was admitted holds what it was.
    ///
    /// # Errors
    /// Its guest cannot be listened to; then it stays as it is.
    pub async fn machine_is_here(
        &self,
        vm: HostedVm,
        machine: Arc<dyn Machine>,
    ) -> Result<(), HostedError> {
        let terms = VmTerms { max: vm.bounds.max(), scales: true, may_move: vm.may_move };
        if self.permits.held(&vm.name).is_some() {
            self.permits.vm_seen(&vm.name, vm.using);
        } else if vm.found {
            self.permits.vm_found(&self.node, &vm.name, terms, vm.using);
        } else {
            self.permits.vm_started(&self.node, &vm.name, terms, vm.using);
        }
        let spec = AgentSpec {
            vm: vm.name.clone(),
            unit: vm.unit,
            bounds: vm.bounds,
            settings: Settings::DEFAULT,
            first_question: first_question(),
            guest: vm.guest,
        };
        let local = Local(Arc::clone(&self.permits));
        let scheduler = Arc::new(InUnitsOf { local, unit: vm.unit });
        let running = agent::start(spec, machine, scheduler).await;
        let running =
            running.map_err(|source| HostedError::Guest { vm: vm.name.clone(), source })?;
        self.agents.add(vm.name, running);
        Ok(())
    }

    /// A machine is no longer here.
    pub fn machine_gone(&self, vm: &VmName) {
        self.agents.remove(vm);
        self.permits.vm_gone(vm);
    }

    /// Other bounds hold for a machine.
    ///
    /// # Errors
    /// Its former maximum cannot be kept; then nothing changed.
    pub async fn bounds_changed(&self, vm: &VmName, bounds: VmBounds) -> Result<(), KeepError> {
        let may_move = self.permits.may_move(vm).unwrap_or(false);
        let terms = VmTerms { max: bounds.max(), scales: true, may_move };
        self.permits.vm_changed(vm, terms)?;
        self.agents.bounds_changed(vm, bounds).await;
        Ok(())
    }

    /// What others than machines have a right to, and what CPU costs, where there is a market.
    pub fn others_are(&self, rights: Resources, price: Option<f64>) {
        self.permits.others_are(&self.node, rights, price);
    }

    /// What a machine is permitted, which is its cap in the market.
    #[must_use]
    pub fn cap(&self, vm: &VmName) -> Option<Resources> {
        self.permits.held(vm)
    }

    /// Whether there is room for one more machine that uses so much.
    #[must_use]
    pub fn admits(&self, using: Resources) -> bool {
        self.permits.admits(&self.node, using)
    }

    /// How the host stands.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        self.permits.standing(&self.node)
    }

    /// The agents, to be shown.
    #[must_use]
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// The ledger, to be shown.
    #[must_use]
    pub fn permits(&self) -> &Permits {
        &self.permits
    }

    /// Where it is served and shown, in the order of the options.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.servers.iter().map(Server::address)
    }
}

/// The ledger of this process, for a machine that has a unit of its own.
#[derive(Debug)]
struct InUnitsOf {
    local: Local,
    unit: ComputeUnit,
}

impl Scheduler for InUnitsOf {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, NotPermitted>> {
        Box::pin(async move { Ok(Answer { unit: self.unit, ..self.local.ask(ask).await? }) })
    }
}

/// Larger than what an earlier process of this host began with: the time.
fn first_question() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX >> 1)
}
