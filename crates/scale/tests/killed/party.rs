//! The parties as processes: `party scheduler FOLDER PORT`, `party agent FOLDER NAME SCHEDULER
//! INFORMANT METRICS` and `party informant FOLDER NAME PORT METRICS`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Builder;
use tokio::time;
use walras_core::permit::{PerResource, Terms, VmTerms};
use walras_core::units::{Bytes, ComputeUnit, Ratio, Resources, VmName};
use walras_core::vm::{Settings, VmBounds};
use walras_informant::daemon;
use walras_informant::options::Options;
use walras_scale::agent::guest::{GuestSpec, Pace};
use walras_scale::agent::remote::Remote;
use walras_scale::agent::{self, AgentSpec};
use walras_scale::http::{self, Limits};
use walras_scale::permits::Permits;
use walras_scale::permits::keep::InFile;
use walras_scale::permits::serve::Served;
use walras_scale::seal::Seal;
use walras_wire::vm::auth::Key;

use crate::machine::{FileMachine, units};

pub(crate) const KEY: &str = "c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0";
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
/// The node has so many units, and each machine may have up to six.
pub(crate) const CAPACITY: u64 = 10;
pub(crate) const MOST: u64 = 6;
const SLOT: Bytes = Bytes::new(1 << 30);

pub(crate) fn run(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    match words.as_slice() {
        ["scheduler", folder, port] => {
            runtime.block_on(scheduler(Path::new(folder), address(port)))
        }
        ["agent", folder, name, scheduler, informant, metrics] => {
            let to = [scheduler, informant, metrics].map(|port| address(port));
            runtime.block_on(run_agent(Path::new(folder), name, to));
        }
        ["informant", folder, name, port, metrics] => {
            let root = PathBuf::from(folder).join(name);
            let options = Options {
                listen: address(port),
                metrics_listen: address(metrics),
                key_file: PathBuf::from(folder).join("key"),
                cgroup: None,
                online: false,
                root,
            };
            match daemon::run(&options) {
                Ok(never) => match never {},
                Err(error) => panic!("{error}"),
            }
        }
        _ => panic!("no such party: {words:?}"),
    }
    ExitCode::SUCCESS
}

fn address(port: &str) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port.parse().expect("a port")))
}

fn seal() -> Seal {
    Seal::new(Key::parse(KEY.as_bytes()).expect("a key"))
}

fn unit() -> ComputeUnit {
    ComputeUnit::new(units(1)).expect("neither is zero")
}

fn vm(name: &str) -> VmName {
    VmName::new(&format!("default/{name}"))
}

async fn scheduler(folder: &Path, at: SocketAddr) {
    let permits = Permits::new(Box::new(InFile::new(folder))).expect("what was kept is fine");
    let permits = Arc::new(permits);
    permits.node_is(
        "node",
        Terms {
            capacity: units(CAPACITY),
            overcommit: PerResource::both(Ratio::ONE),
            watermark: PerResource::both(Ratio::ONE),
            system: Resources::ZERO,
            unit: unit(),
            moves_at_once: 0,
        },
    );
    let terms = VmTerms { max: units(MOST), scales: true, may_move: false };
    let machines = NAMES.map(|name| (vm(name), FileMachine::new(folder, name)));
    for (name, machine) in &machines {
        permits.vm_found("node", name, terms, machine.seen().using);
    }
    let served = Served::new(Arc::clone(&permits), SLOT, Some(seal())).expect("randomness");
    let _server = http::start(at, Limits::PERMITS, Arc::new(served)).await.expect("its port");
    loop {
        time::sleep(Duration::from_millis(100)).await;
        for (name, machine) in &machines {
            permits.vm_seen(name, machine.seen().using);
        }
    }
}

async fn run_agent(folder: &Path, name: &str, to: [SocketAddr; 3]) {
    let [scheduler, informant, metrics] = to;
    let second = Duration::from_secs(1);
    let pace = Pace {
        metrics_every: second / 2,
        health_every: second,
        register_again: second / 2,
        silent: 3 * second,
    };
    let guest = GuestSpec {
        informant,
        metrics: Some(metrics),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        reached_by: None,
        seal: seal(),
        pace,
    };
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
    let spec = AgentSpec {
        vm: vm(name),
        unit: unit(),
        bounds: VmBounds::new(units(1), units(MOST)),
        settings: Settings::DEFAULT,
        first_question: u64::try_from(since.as_micros()).expect("it fits"),
        guest: Some(guest),
    };
    let machine = Arc::new(FileMachine::new(folder, name));
    let scheduler = Arc::new(Remote::new(scheduler, SLOT, Some(seal())));
    let _running = agent::start(spec, machine, scheduler).await.expect("it starts");
    std::future::pending::<()>().await;
}
