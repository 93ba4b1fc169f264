//! How fast permits are: the ledger in this process, and the server over loopback beside one that
//! does nothing. Figures are in `docs/performance.md`.
//!
//! `cargo bench --package walras-scale --bench permits`. The server has one thread and clients have
//! another, so both need a core of their own for the figures to mean anything.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time;
use walras_core::permit::{Ask, PerResource, Terms, VmTerms};
use walras_core::units::{Bytes, ComputeUnit, Millicores, Ratio, Resources, VmName};
use walras_scale::http::{self, Asked, Client, Handler, Limits, Question, Told};
use walras_scale::permits::Permits;
use walras_scale::permits::keep::Nowhere;
use walras_scale::permits::serve::Served;
use walras_wire::vm::amount::NamePart;
use walras_wire::vm::permit::{PermitRequest, PodName};

const NODES: usize = 500;
const OF_A_NODE: usize = 20;
const VMS: usize = NODES * OF_A_NODE;
const CONNECTIONS: usize = 64;
const BURST: usize = 50_000;
const STEADY: Duration = Duration::from_secs(10);
const SLOT: Bytes = Bytes::new(1 << 30);
const PATIENCE: Duration = Duration::from_secs(60);

/// The same answer to everybody.
struct Nothing;

impl Handler for Nothing {
    fn answer(&self, _asked: &Asked) -> Told {
        let body = "{\"permit\":{\"vCPUs\":\"500m\",\"mem\":2},\"migrate\":null,\
                    \"resourceUnit\":{\"vCPUs\":\"250m\",\"mem\":1}}";
        Told::json(body.as_bytes().to_vec())
    }
}

fn main() {
    let permits = Arc::new(permits());
    in_process(&permits);
    let plain = Served::new(Arc::clone(&permits), SLOT, None).expect("no key");
    let ours = serve(Arc::new(plain));
    let nothing = serve(Arc::new(Nothing));
    let clients = runtime();
    // Several times in turn, so that neither has the colder machine.
    for _ in 0..3 {
        let [base, real] = [&nothing, &ours].map(|to| clients.block_on(burst(to)));
        let per_core = [base, real].map(|(_, cpu)| rate(BURST, cpu));
        say(&format!(
            "burst of {BURST} over {CONNECTIONS} connections: {:.0}/s here and now, {:.0} for each \
             second of the server's CPU; a handler that does nothing {:.0}, so {:.0} %",
            rate(BURST, real.0),
            per_core[1],
            per_core[0],
            100.0 * per_core[1] / per_core[0]
        ));
    }
    let mut waits = clients.block_on(steady(ours.address));
    waits.sort_unstable();
    let at = |part: usize| waits[(waits.len() * part / 1000).min(waits.len() - 1)];
    say(&format!(
        "{VMS} machines on {NODES} nodes, each every 5 s: {} answers, p50 {:?}, p99 {:?}, max {:?}",
        waits.len(),
        at(500),
        at(990),
        at(1000)
    ));
    say(&format!("resident, with the clients: {} MiB", resident_mib()));
}

#[expect(clippy::print_stdout, reason = "a benchmark prints figures")]
fn say(words: &str) {
    println!("{words}");
}

fn rate(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).expect("not that many")) / time.as_secs_f64()
}

fn unit() -> ComputeUnit {
    ComputeUnit::new(Resources::new(Millicores::new(250), SLOT)).expect("neither is zero")
}

fn vm(place: usize) -> VmName {
    VmName::new(&format!("default/vm-{place}"))
}

fn permits() -> Permits {
    let permits = Permits::new(Box::new(Nowhere)).expect("nothing is kept");
    let terms = Terms {
        capacity: unit().times(64),
        overcommit: PerResource::both(Ratio::ONE),
        watermark: PerResource::both(Ratio::from_percent(90)),
        system: Resources::ZERO,
        unit: unit(),
        moves_at_once: 1,
    };
    for node in 0..NODES {
        let name = format!("node-{node}");
        permits.node_is(&name, terms);
        for place in 0..OF_A_NODE {
            let vm_terms = VmTerms { max: unit().times(8), scales: true, may_move: true };
            let name_of_vm = vm(node * OF_A_NODE + place);
            permits.vm_started(&name, &name_of_vm, vm_terms, unit().times(1));
        }
    }
    permits
}

fn ask(place: usize, round: usize) -> Ask {
    let wanted = unit().times(1 + (place + round) as u64 % 4);
    let load = Some(Ratio::from_percent(50));
    Ask { vm: vm(place % VMS), wanted, last_permit: None, load, sequence: None }
}

fn in_process(permits: &Permits) {
    let asks: Vec<Ask> = (0..VMS).map(|place| ask(place, 0)).collect();
    let begun = Instant::now();
    let mut granted = 0;
    for round in 0..20 {
        for asked in &asks {
            let asked = Ask { wanted: unit().times(1 + round % 4), ..asked.clone() };
            granted += usize::from(permits.ask(&asked).is_ok());
        }
    }
    let rate = rate(granted, begun.elapsed());
    say(&format!("the ledger in this process, {NODES} nodes of {OF_A_NODE} machines: {rate:.0}/s"));
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A server, and where the kernel counts the CPU time of its thread.
struct Serving {
    address: SocketAddr,
    stat: PathBuf,
}

impl Serving {
    /// In steps of 10 ms.
    fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(&self.stat).expect("its thread runs");
        let (_, rest) = stat.rsplit_once(") ").expect("fields after the name");
        let ticks =
            rest.split(' ').skip(11).take(2).map(|word| word.parse::<u64>().expect("ticks"));
        Duration::from_millis(10 * ticks.sum::<u64>())
    }
}

/// Serves in a thread of its own.
fn serve(handler: Arc<dyn Handler>) -> Serving {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        runtime().block_on(async {
            let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
            let server = http::start(anywhere, Limits::PERMITS, handler).await.expect("a port");
            let thread = fs::read_link("/proc/thread-self").expect("a thread");
            let stat = PathBuf::from("/proc").join(thread).join("stat");
            tell.send(Serving { address: server.address(), stat }).expect("somebody listens");
            std::future::pending::<()>().await;
        });
    });
    told.recv().expect("it is served")
}

fn question(place: usize, round: usize) -> Question {
    let asked = ask(place, round);
    let (_, name) = asked.vm.as_str().split_once('/').expect("it has both");
    let part = |text| NamePart::new(text).expect("a name");
    let pod = PodName { namespace: part("default"), name: part(name) };
    Question::json("POST", "/", &PermitRequest::new(pod, &asked, SLOT, None))
}

/// All questions at once, over some connections: how long it took, and the server's CPU time.
async fn burst(serving: &Serving) -> (Duration, Duration) {
    let to = serving.address;
    let questions: Vec<Vec<Question>> = (0..CONNECTIONS)
        .map(|first| {
            let places = (first..BURST).step_by(CONNECTIONS);
            places.map(|place| question(place, place / VMS)).collect()
        })
        .collect();
    let (begun, used) = (Instant::now(), serving.cpu_time());
    let mut all = JoinSet::new();
    for questions in questions {
        all.spawn(async move {
            let mut client = Client::new(to);
            for question in questions {
                let answer = client.ask(&question, PATIENCE).await.expect("an answer");
                assert_eq!(answer.status, 200, "{}", answer.words());
            }
        });
    }
    while let Some(end) = all.join_next().await {
        end.expect("it ends well");
    }
    (begun.elapsed(), serving.cpu_time() - used)
}

/// Every machine asks every five seconds; returns how long each waited, from when it was due.
async fn steady(to: SocketAddr) -> Vec<Duration> {
    let per_connection = VMS / CONNECTIONS;
    let pause = Duration::from_secs(5) / u32::try_from(per_connection).expect("small");
    let end = Instant::now() + STEADY;
    let mut all = JoinSet::new();
    for first in 0..CONNECTIONS {
        all.spawn(async move {
            let mut client = Client::new(to);
            let mut waits = Vec::new();
            let offset = pause * u32::try_from(first).expect("small") / 64;
            let mut ticks = time::interval_at(time::Instant::now() + offset, pause);
            for round in 0.. {
                let due = ticks.tick().await.into_std();
                if Instant::now() >= end {
                    break;
                }
                let place = (first + CONNECTIONS * round) % VMS;
                let asked = question(place, round);
                let answer = client.ask(&asked, PATIENCE).await.expect("an answer");
                assert_eq!(answer.status, 200, "{}", answer.words());
                waits.push(due.elapsed());
            }
            waits
        });
    }
    let mut waits = Vec::new();
    while let Some(end) = all.join_next().await {
        waits.extend(end.expect("it ends well"));
    }
    waits
}

fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib >> 10
}
