//! One machine, sized by its agent with the program of its guest, over real sockets: it grows when
//! the guest asks although its load average does not say so, it does not shrink while the guest
//! refuses, shrinks when the guest agrees, and grows by memory.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::runtime::Builder;
use tokio::time;
use walras_core::permit::{PerResource, Terms, VmTerms};
use walras_core::units::{Bytes, ComputeUnit, Millicores, Ratio, Resources, Span, VmName};
use walras_core::vm::{Seen, Settings, VmBounds};
use walras_informant::daemon;
use walras_informant::options::Options;
use walras_scale::agent::dump::{Agents, AgentsShown};
use walras_scale::agent::guest::{GuestSpec, Pace};
use walras_scale::agent::remote::Local;
use walras_scale::agent::{self, AgentSpec, Machine};
use walras_scale::http::{Asked, Handler};
use walras_scale::permits::Permits;
use walras_scale::permits::keep::Nowhere;
use walras_scale::seal::Seal;
use walras_wire::vm::auth::Key;

const KEY: &str = "0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e";

/// A machine that is a number, and a guest whose kernel tells of it.
struct Scripted {
    seen: Mutex<Seen>,
    root: PathBuf,
}

fn unit() -> ComputeUnit {
    let one = Resources::new(Millicores::new(1000), Bytes::new(512 << 20));
    ComputeUnit::new(one).expect("neither is zero")
}

impl Scripted {
    fn units(&self) -> u64 {
        let using = self.seen.lock().expect("a lock").using;
        assert_eq!(using, unit().times(using.cpu.get() / 1000));
        using.cpu.get() / 1000
    }

    /// What the guest's kernel tells: a load, tasks that want to run, and memory in use.
    fn tell(&self, load: &str, runnable: u32, used_mib: u64) {
        let using = self.seen.lock().expect("a lock").using;
        let cpus = using.cpu.get() / 1000;
        let total = (using.memory.get() >> 20) - 40;
        let [total_kb, available] = [total << 10, (total - used_mib.min(total)) << 10];
        let write = |file: &str, text: &str| write(&self.root.join(file), text);
        write("proc/loadavg", &format!("{load} {load} {load} {}/80 4711\n", runnable + 1));
        write("proc/stat", "cpu  1 2 3 400 50 6 7 8 0 0\n");
        write("sys/devices/system/cpu/online", &format!("0-{}\n", cpus - 1));
        let text =
            format!("MemTotal: {total_kb} kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n");
        write("proc/meminfo", &text);
    }
}

impl Machine for Scripted {
    fn observe(&self) -> BoxFuture<'_, Result<Seen, String>> {
        Box::pin(async move { Ok(*self.seen.lock().expect("a lock")) })
    }

    fn resize(&self, to: Resources, version: u64) -> BoxFuture<'_, Result<Seen, String>> {
        Box::pin(async move {
            let mut seen = self.seen.lock().expect("a lock");
            if seen.version != version {
                return Err("another version".to_owned());
            }
            *seen = Seen { using: to, version: version + 1 };
            Ok(*seen)
        })
    }
}

/// In the place of what was there at once, so that nobody reads half of it.
fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).expect("it is written");
    fs::rename(&fresh, path).expect("it is renamed");
}

fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

fn seal() -> Seal {
    Seal::new(Key::parse(KEY.as_bytes()).expect("a key"))
}

fn start_informant(root: &Path) -> [SocketAddr; 2] {
    write(&root.join("key"), KEY);
    let [listen, metrics_listen] = [free_port(), free_port()];
    let (key_file, root) = (root.join("key"), root.to_owned());
    let options = Options { listen, metrics_listen, key_file, cgroup: None, online: false, root };
    thread::spawn(move || daemon::run(&options).expect_err("it runs until the test ends"));
    [listen, metrics_listen]
}

fn permits(vm: &VmName, using: Resources) -> Arc<Permits> {
    let permits = Permits::new(Box::new(Nowhere)).expect("nothing is kept");
    let terms = Terms {
        capacity: unit().times(8),
        overcommit: PerResource::both(Ratio::ONE),
        watermark: PerResource::both(Ratio::ONE),
        system: Resources::ZERO,
        unit: unit(),
        moves_at_once: 0,
    };
    permits.node_is("node", terms);
    let vm_terms = VmTerms { max: unit().times(3), scales: true, may_move: false };
    permits.vm_started("node", vm, vm_terms, using);
    Arc::new(permits)
}

fn spec(vm: &VmName, [informant, metrics]: [SocketAddr; 2]) -> AgentSpec {
    let soon = Duration::from_millis(300);
    let pace = Pace { metrics_every: soon, register_again: soon, ..Pace::USUAL };
    let guest = GuestSpec {
        informant,
        metrics: Some(metrics),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        reached_by: None,
        seal: seal(),
        pace,
    };
    AgentSpec {
        vm: vm.clone(),
        unit: unit(),
        bounds: VmBounds::new(unit().times(1), unit().times(3)),
        settings: Settings {
            requested_valid: Span::from_s(2),
            denied_valid: Span::from_s(1),
            ..Settings::DEFAULT
        },
        first_question: 1,
        guest: Some(guest),
    }
}

async fn wait_for(what: &str, agents: &Agents, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < until, "waited for 120 s: {what}; {:?}", agents.all());
        time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_machine_grows_when_its_guest_asks_and_shrinks_when_its_guest_agrees() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = Mutex::new(Seen { using: unit().times(1), version: 1 });
    let machine = Arc::new(Scripted { seen, root: folder.path().to_owned() });
    machine.tell("0.10", 0, 100);
    let guest = start_informant(folder.path());
    let vm = VmName::new("default/web");
    let permits = permits(&vm, unit().times(1));
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let agents = Arc::new(Agents::default());
        let port = Arc::clone(&machine) as Arc<dyn Machine>;
        let scheduler = Arc::new(Local(Arc::clone(&permits)));
        let running = agent::start(spec(&vm, guest), port, scheduler).await.expect("it starts");
        agents.add(vm.clone(), running);
        let shown = || agents.shown(&vm).expect("its agent");
        wait_for("the guest is told what it has", &agents, || shown().agreed.is_some()).await;

        // Tasks wait for a CPU; the load average has not moved.
        wait_for("it grows by what the guest asks for", &agents, || {
            machine.tell("0.10", 3, 100);
            machine.units() > 1
        })
        .await;
        assert!(permits.held(&vm).is_some_and(|held| unit().times(2).fits(held)));
        assert!(shown().tally.wished > 0);

        // Nothing waits any more. Memory in use comes and goes: when its metrics are read the goal
        // is one unit at times, and the guest, which has seen more a moment before, refuses.
        let mut turn = 0;
        wait_for("the guest refuses", &agents, || {
            turn += 1;
            machine.tell("0.10", 0, if turn % 2 == 0 { 100 } else { 600 });
            shown().tally.refused > 0
        })
        .await;
        assert_eq!(machine.units(), 2, "it is as large as before it was asked");

        // All is quiet: it shrinks, and gives back.
        wait_for("it shrinks", &agents, || {
            machine.tell("0.10", 0, 100);
            machine.units() == 1 && permits.held(&vm) == Some(unit().times(1))
        })
        .await;

        // Memory in use grows, and so does the machine; what it was given is within its permit.
        wait_for("it grows by memory", &agents, || {
            machine.tell("0.10", 0, 460);
            machine.units() == 2
        })
        .await;
        let told = AgentsShown(Arc::clone(&agents)).answer(&get("/"));
        let text = String::from_utf8(told.body).expect("text");
        assert!(text.contains("\"vm\": \"default/web\""), "{text}");
        let told = AgentsShown(Arc::clone(&agents)).answer(&get("/metrics"));
        let text = String::from_utf8(told.body).expect("text");
        assert!(text.contains("autoscaling_agent_tracked_vms_current 1"), "{text}");
        agents.remove(&vm);
    });
}

fn get(path: &str) -> Asked {
    let (method, path) = ("GET".to_owned(), path.to_owned());
    Asked { method, path, headers: Default::default(), body: Default::default() }
}
