//! What `walras host` needs to run workloads beside its loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use walras_core::run::Policy;
use walras_core::units::{Bytes, Millicores, Resources};
use walras_host::daemon::{Around, End};
use walras_node::beside::Beside;
use walras_rpc::{Listen, TlsFolder};
use walras_run::{DockerOptions, Market, Options, Others, SizingOptions};

use crate::cli::VERSION;
use crate::failure::Failure;
use crate::run_cli::RunArgs;
use crate::sizing_cli::SizingArgs;

/// How to run workloads, if that was asked for. Nothing is started.
pub(crate) fn options(args: &RunArgs, sizing: &SizingArgs) -> Result<Option<Options>, Failure> {
    let sizing = sized(sizing)?;
    let mut listen = Vec::new();
    match (args.run_listen, &args.run_tls) {
        (Some(address), Some(tls)) => {
            listen.push(Listen::Tls { address, folder: TlsFolder::new(tls) });
        }
        // As bad input, before anything starts; the server would refuse it only when it opens.
        (Some(address), None) if args.run_plain && !address.ip().is_loopback() => {
            return Err(Failure::Input(format!(
                "--run-plain: {address} can be reached from other machines; without certificates \
                 it can be served on the loopback interface or a socket only"
            )));
        }
        (Some(address), None) if args.run_plain => listen.push(Listen::Plain { address }),
        (Some(_), None) => {
            let words = "--run-listen: say --run-tls DIR with the certificates of this host";
            return Err(Failure::Input(words.to_owned()));
        }
        (None, _) => {}
    }
    listen.extend(args.run_socket.clone().map(|path| Listen::Unix { path }));
    if listen.is_empty() {
        return Ok(None);
    }
    Ok(Some(Options {
        listen,
        state_dir: args.run_state_dir.clone(),
        docker: DockerOptions {
            socket: args.run_docker.clone(),
            registry_auth: args.run_registry_auth.clone(),
            secrets_dir: args.run_secrets_dir.clone(),
        },
        compose: args.run_compose.clone(),
        qemu: args.run_qemu.clone(),
        policy: Policy { host_access: args.run_compose_host_access },
        image_gc: args.run_image_gc_hours.map(|hours| Duration::from_secs(hours * 3600)),
        sizing,
        version: VERSION.to_owned(),
        #[cfg(feature = "real-docker")]
        fault: args.run_fault,
        #[cfg(not(feature = "real-docker"))]
        fault: None,
    }))
}

/// How machines are sized.
fn sized(args: &SizingArgs) -> Result<SizingOptions, Failure> {
    if let (Some(address), None) = (args.vm_permits, &args.vm_key)
        && !address.ip().is_loopback()
    {
        return Err(Failure::Input(format!(
            "--vm-permits: {address} can be reached from other machines; without --vm-key permits \
             can be served on the loopback interface only"
        )));
    }
    let memory = Bytes::new(args.vm_reserve_memory << 20);
    Ok(SizingOptions {
        permits: args.vm_permits,
        permits_shown: args.vm_permits_state,
        agents_shown: args.vm_agents_state,
        key: args.vm_key.clone(),
        reserve: Resources::new(Millicores::new(args.vm_reserve_cpu), memory),
        overcommit_percent: args.vm_overcommit,
    })
}

/// The daemon's market, as its machines see it.
#[derive(Debug)]
struct HostMarket(Around);

impl Market for HostMarket {
    fn others(&self, groups: &BTreeSet<String>) -> Option<Others> {
        let price = self.0.board.market()?.price;
        let state = self.0.board.state();
        let others = state.workloads.iter().filter(|workload| !groups.contains(&workload.uid));
        let rights = others.map(|workload| Millicores::new(workload.min_milli)).sum();
        Some(Others { rights, price: Some(price) })
    }

    fn permitted(&self, caps: BTreeMap<String, Millicores>) {
        self.0.caps.set(caps);
    }
}

/// What is told of workloads in the words of the daemon.
#[derive(Debug)]
struct Told(walras_run::Beside);

impl Beside for Told {
    fn metrics(&self) -> String {
        self.0.metrics()
    }
    fn workloads(&self) -> String {
        self.0.workloads()
    }
    fn logs(&self, id: &str) -> Option<String> {
        self.0.logs(id)
    }
}

/// Starts to run workloads, if there is anything to be run, tells `board` of them, and says how to
/// end it.
pub(crate) fn start(options: Option<&Options>, around: &Around) -> Result<End, String> {
    let Some(options) = options else {
        return Ok(Box::new(|| {}));
    };
    let market = Arc::new(HostMarket(around.clone()));
    let running = walras_run::start(options, market).map_err(|error| error.to_string())?;
    around.board.set_beside(Arc::new(Told(running.beside())));
    Ok(Box::new(move || running.stop()))
}
