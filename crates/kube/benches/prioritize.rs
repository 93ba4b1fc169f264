//! What one question of kube-scheduler costs: `cargo bench -p walras-kube --bench prioritize`.
//!
//! In this process and over HTTP, beside a handler that does nothing, in the same run; and the
//! memory of a process that knows 5,000 nodes.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints figures, and ends where something is wrong"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use walras_brain::embedded;
use walras_brain::train::Kind;
use walras_kube::scheduler::Trial;

const NODES: usize = 5_000;
const CANDIDATES: usize = 500;
const CALLS: usize = 2_000;

fn main() {
    let trial = Trial::new(NODES, Some(embedded(Kind::Mlp)));
    let question = trial.question(CANDIDATES);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tell("in process", times(|| drop(runtime.block_on(trial.answer(&question)))));
    let (ours, nothing) = (trial.serve().unwrap(), Trial::serve_nothing().unwrap());
    let (mut ours, mut nothing) =
        (connect(ours.address(), ours), connect(nothing.address(), nothing));
    // In turns, so that both have the same neighbours on the machine.
    let (mut of_ours, mut of_nothing) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        of_nothing.push(timed(|| ask(&mut nothing.0, &question)));
        of_ours.push(timed(|| ask(&mut ours.0, &question)));
    }
    tell("over HTTP, a handler that does nothing", of_nothing);
    tell("over HTTP", of_ours);
    let begun = Instant::now();
    for _ in 0..20 {
        trial.report();
    }
    let each = begun.elapsed() / 20;
    println!("{NODES} reports and a new table: {each:?}");
    println!("resident memory with {NODES} nodes: {} kB", resident());
}

fn connect<T>(address: SocketAddr, door: T) -> (TcpStream, T) {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    (stream, door)
}

/// One question and its whole answer.
fn ask(stream: &mut TcpStream, question: &[u8]) {
    let length = question.len();
    let head = format!("POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), question].concat()).unwrap();
    let mut read = Vec::new();
    let mut part = [0; 64 << 10];
    loop {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "the server hung up");
        read.extend_from_slice(&part[..count]);
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        if read.len() >= end + 4 + length.unwrap().trim().parse::<usize>().unwrap() {
            return;
        }
    }
}

fn times(mut call: impl FnMut()) -> Vec<Duration> {
    (0..CALLS).map(|_| timed(&mut call)).collect()
}

fn timed(call: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    call();
    begun.elapsed()
}

fn tell(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!("{what}: {CANDIDATES} candidates, p50 {:?}, p99 {:?}", at(50), at(99));
}

fn resident() -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap_or_default().trim().trim_end_matches(" kB").to_owned()
}
