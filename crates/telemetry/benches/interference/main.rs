//! How much slower one workload makes another: pairs of real ones in control groups.
//! Needs root: `cargo bench -p walras-telemetry --features real-kernel --bench interference`.
//!
//! Each pair runs twice: on two CPUs of the same machine, where only what is shared behind them can
//! be fought for, and on one CPU with equal weights. A slowdown is the cost of a piece of the
//! victim's work beside the neighbour, divided by its cost alone; the median of the trials, with
//! the least and the largest. All groups are in one that outweighs whatever else there is.
#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints figures, and none of them needs 53 bits"
)]

mod workload;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use walras_cgroup::{CgroupPath, Created, Layout, Version, remove_left_behind};

use crate::workload::NAMES;

const TRIALS: usize = 3;
const WINDOW: Duration = Duration::from_millis(500);
/// A neighbour is ended when its victim is done; this is when it ends by itself.
const LONG: Duration = Duration::from_secs(20);
const PREFIX: &[u8] = b"walras-interference-";
/// The largest weight that there is: next to nobody else runs meanwhile.
const SHARES: (&str, &str) = ("cpu.shares", "262144");
const WEIGHT: (&str, &str) = ("cpu.weight", "10000");

/// A workload that is ready, or works.
struct Running {
    child: Child,
    told: BufReader<ChildStdout>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "--workload", name, cpu, ms] => be(name, cpu, ms),
        // `cargo test --benches` runs this, too, and wants no figures.
        _ if arguments.iter().any(|argument| argument == "--bench") => measure(),
        _ => {}
    }
}

/// Is a workload: waits for a line, makes ready, says so, works, and says what it cost.
fn be(name: &str, cpu: &str, ms: &str) {
    let mut only = CpuSet::new();
    only.set(cpu.parse().expect("a CPU"));
    sched_setaffinity(None, &only).expect("it is there");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("somebody tells when to begin");
    let time = Duration::from_millis(ms.parse().expect("a time"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let cost = workload::work(name, folder, time, || println!("ready"));
    println!("{cost}");
}

fn measure() {
    let layout = Layout::of_this_machine().expect("the cpu controller is mounted");
    remove_left_behind(&layout, &CgroupPath::ROOT, PREFIX).expect("root may");
    let name = [PREFIX, std::process::id().to_string().as_bytes()].concat();
    let make = |path: &CgroupPath| Created::create(&layout, path).expect("root may make groups");
    let top = make(&CgroupPath::ROOT.join(&name).expect("a name"));
    let (file, weight) = if layout.version() == Version::V1 { SHARES } else { WEIGHT };
    let place = top.path().under(layout.cpu_root()).join(file);
    std::fs::write(place, weight).expect("root may set weights");
    let [victim, neighbour] =
        [&b"victim"[..], b"neighbour"].map(|name| make(&top.path().join(name).expect("a name")));
    for (words, neighbours_cpu) in [("two CPUs", 1), ("one CPU, equal weights", 0)] {
        // By victim and neighbour, the slowdowns of all trials.
        let mut all = vec![vec![Vec::new(); NAMES.len()]; NAMES.len()];
        for _ in 0..TRIALS {
            for (row, one) in NAMES.iter().enumerate() {
                let alone = cost(one, &victim, None);
                for (column, other) in NAMES.iter().enumerate() {
                    let beside = Some((*other, &neighbour, neighbours_cpu));
                    all[row][column].push(cost(one, &victim, beside) / alone);
                }
            }
        }
        print(words, &mut all);
    }
    drop((victim, neighbour));
    drop(top);
}

/// What a piece of work costs, alone or beside somebody.
fn cost(name: &str, group: &Created, beside: Option<(&str, &Created, u32)>) -> f64 {
    let neighbour = beside.map(|(name, group, cpu)| Running::start(name, group, cpu, LONG));
    let mut victim = Running::start(name, group, 0, WINDOW);
    let cost = victim.line().parse().expect("a number");
    drop(neighbour);
    cost
}

fn print(words: &str, all: &mut [Vec<Vec<f64>>]) {
    println!("\n{words}: slowdown of the row beside the column, median (least to largest)\n");
    println!("| | {} |", NAMES.join(" | "));
    println!("|---|{}", "---|".repeat(NAMES.len()));
    for (name, row) in NAMES.iter().zip(all) {
        let cells: Vec<String> = row
            .iter_mut()
            .map(|trials| {
                trials.sort_by(f64::total_cmp);
                let (least, most) = (trials[0], trials[trials.len() - 1]);
                format!("{:.2} ({least:.2} to {most:.2})", trials[trials.len() / 2])
            })
            .collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}

// === impl Running ===

impl Running {
    /// Starts a workload in a group, and returns when it is ready.
    fn start(name: &str, group: &Created, cpu: u32, time: Duration) -> Self {
        let executable = std::env::current_exe().expect("a benchmark has an executable");
        let mut child = Command::new(executable)
            .args(["--workload", name, &cpu.to_string(), &time.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a benchmark can start itself");
        group.put(child.id()).expect("root may move processes");
        let told = BufReader::new(child.stdout.take().expect("it has one"));
        let mut stdin = child.stdin.take().expect("it has one");
        stdin.write_all(b"begin\n").expect("it listens");
        let mut running = Self { child, told };
        assert_eq!(running.line(), "ready", "{name}");
        running
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.told.read_line(&mut line).expect("it tells");
        line.trim().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A victim has ended by itself by then.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
