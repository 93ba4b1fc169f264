//! What `walras host` needs to run workloads beside its loop.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use walras_core::run::Policy;
use walras_core::units::{Bytes, Millicores, Resources};
use walras_host::cgroups::{Due, Records};
use walras_host::daemon::{Around, End};
use walras_node::beside::Beside;
use walras_rpc::{Listen, Target, TlsFolder};
use walras_run::{
    ControlOptions, DockerOptions, LimitRecord, LimitRecords, Market, Options, Others,
    SizingOptions,
};

use crate::cli::VERSION;
use crate::control_cli::ControlArgs;
use crate::failure::Failure;
use crate::run_cli::RunArgs;
use crate::sizing_cli::SizingArgs;

/// How to run workloads, if that was asked for. Nothing is started.
pub(crate) fn options(
    args: &RunArgs,
    control: &ControlArgs,
    sizing: &SizingArgs,
) -> Result<Option<Options>, Failure> {
    let sizing = sized(sizing)?;
    let control = told(control, args.run_listen)?;
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
        libvirt: args.run_libvirt.clone(),
        policy: Policy { host_access: args.run_compose_host_access },
        image_gc: args.run_image_gc_hours.map(|hours| Duration::from_secs(hours * 3600)),
        sizing,
        control,
        version: VERSION.to_owned(),
        #[cfg(feature = "real-docker")]
        fault: args.run_fault,
        #[cfg(not(feature = "real-docker"))]
        fault: None,
    }))
}

/// Whom to tell of this host, if anybody.
fn told(args: &ControlArgs, listen: Option<SocketAddr>) -> Result<Option<ControlOptions>, Failure> {
    let Some(address) = args.run_control.clone() else { return Ok(None) };
    let target = match &args.run_control_tls {
        Some(folder) => Target::Tls { address, folder: TlsFolder::new(folder) },
        None if args.run_control_plain => {
            let found = address.parse::<SocketAddr>().ok().filter(|it| it.ip().is_loopback());
            let address = found.ok_or_else(|| {
                Failure::Input(format!(
                    "--run-control-plain: `{address}` is no address of the loopback interface; \
                     say --run-control-tls DIR for other machines"
                ))
            })?;
            Target::Plain { address }
        }
        None => {
            let words = "--run-control: say --run-control-tls DIR with the certificates";
            return Err(Failure::Input(words.to_owned()));
        }
    };
    let labels = args.run_label.iter().map(|label| match label.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err(Failure::Input(format!("--run-label: `{label}` is no KEY=VALUE"))),
    });
    Ok(Some(ControlOptions {
        target,
        node: args.run_node_id.clone().unwrap_or_else(node_id),
        endpoint: args
            .run_endpoint
            .clone()
            .or_else(|| listen.map(|address| address.to_string()))
            .unwrap_or_default(),
        cluster: args.run_cluster.clone(),
        labels: labels.collect::<Result<_, _>>()?,
        version: VERSION.to_owned(),
    }))
}

/// The name of this host where nobody gives it another: the same after every restart.
fn node_id() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let (name, machine) = (read("/proc/sys/kernel/hostname"), read("/etc/machine-id"));
    let machine: String = machine.chars().take(12).collect();
    if machine.is_empty() { name } else { format!("{name}-{machine}") }
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

/// The daemon's limits of containers, as whoever tells Docker of them sees them.
#[derive(Debug)]
struct HostRecords(Arc<Records>);

impl LimitRecords for HostRecords {
    fn due(&self, most: usize) -> Vec<LimitRecord> {
        let due = self.0.due(most).into_iter();
        let told = due.map(|Due { uid, container, quota_us, period_us }| LimitRecord {
            uid,
            container,
            quota_us,
            period_us,
        });
        told.collect()
    }

    fn told(&self, uid: &str, done: bool) {
        self.0.told(uid, done);
    }

    fn on_record(&self) -> Vec<String> {
        self.0.on_record()
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
    let records = around.records.clone().map(|records| {
        let records: Arc<dyn LimitRecords> = Arc::new(HostRecords(records));
        records
    });
    let running = walras_run::start(options, market, records).map_err(|error| error.to_string())?;
    around.board.set_beside(Arc::new(Told(running.beside())));
    Ok(Box::new(move || running.stop()))
}
