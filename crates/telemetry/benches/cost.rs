//! What telemetry costs: our programs in the kernel for each change of tasks, and a look of the
//! sampler. Needs root: `cargo bench -p walras-telemetry --features real-kernel --bench cost`.
//!
//! Two threads on one CPU wake each other through pipes as fast as they can. The kernel's own
//! clock says what a run of the program takes, which includes what that clock costs; beside it
//! stands the difference in what one change of tasks takes with and without the programs.
#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark prints figures, and none of them needs 53 bits"
)]

use std::fs;
use std::io::{PipeWriter, Read, Write, pipe};
use std::thread;
use std::time::{Duration, Instant};

use aya::sys::{Stats, enable_stats};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use walras_cgroup::{CgroupPath, Created, Layout, remove_left_behind};
use walras_core::units::Moment;
use walras_telemetry::ebpf::{ProbeOptions, Probes};
use walras_telemetry::reading::Unavailable;
use walras_telemetry::sampler::{Roots, Sampler, Scope};

const ROUNDS: u32 = 100_000;
const TRIALS: usize = 9;
const LOOKS: u32 = 500;
const GROUPS: usize = 100;
const PREFIX: &[u8] = b"walras-telemetry-bench-";
/// What a busy node does, and what that may cost.
const SWITCHES_PER_SECOND: f64 = 50_000.0;

fn main() {
    // `cargo test --benches` runs this, too, and wants no figures.
    if std::env::args().any(|argument| argument == "--bench") {
        switches();
        looks();
    }
}

/// Programs beside none, with and without counting for each group.
fn switches() {
    println!("a change of tasks:");
    let options = [("all tasks together", false), ("each control group as well", true)];
    for (words, per_group) in options {
        let load = || Probes::load(ProbeOptions { per_group }).expect("root may, with BTF");
        // One after the other in turn, so that whatever else the machine does meets both.
        let mut differences = Vec::new();
        for _ in 0..TRIALS {
            let without = switch_ns();
            let probes = load();
            let with = switch_ns();
            drop(probes);
            differences.push((with - without, without));
        }
        differences.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (difference, without) = differences[TRIALS / 2];
        let probes = load();
        let clock = enable_stats(Stats::RunTime).expect("root may");
        switch_ns();
        let (ran_ns, runs) = program_time();
        drop((clock, probes));
        let program_ns = ran_ns as f64 / runs as f64;
        println!(
            "  {words}: {program_ns:.0} ns in the program by the kernel's clock, {:.2} % of a core \
             at 50,000 a second; {difference:.0} ns more for a change of {without:.0} ns, {:.2} %",
            program_ns * SWITCHES_PER_SECOND / 1e7,
            difference * SWITCHES_PER_SECOND / 1e7,
        );
    }
}

/// What one change of tasks takes now: the CPU time of two threads that wake each other.
fn switch_ns() -> f64 {
    let (mut from_us, mut to_echo) = pipe().expect("pipes");
    let (mut back, mut echoed) = pipe().expect("pipes");
    let echo = thread::spawn(move || {
        pin();
        let mut byte = [0];
        while from_us.read_exact(&mut byte).is_ok() && echoed.write_all(&byte).is_ok() {}
        thread_ns()
    });
    pin();
    let mut byte = [0];
    let mut round = |to: &mut PipeWriter| {
        to.write_all(&byte).expect("it listens");
        back.read_exact(&mut byte).expect("it answers");
    };
    (0..1000).for_each(|_| round(&mut to_echo));
    let start = thread_ns();
    (0..ROUNDS).for_each(|_| round(&mut to_echo));
    let ours = thread_ns() - start;
    drop(to_echo);
    let theirs = echo.join().expect("it ends");
    // The other thread did a thousand rounds more.
    let per_round = ours / f64::from(ROUNDS) + theirs / f64::from(ROUNDS + 1000);
    per_round / 2.0
}

fn thread_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn pin() {
    let mut one = CpuSet::new();
    one.set(0);
    sched_setaffinity(None, &one).expect("every machine has a first CPU");
}

/// What the kernel says about the program of ours that ran most: its time and how often it ran.
fn program_time() -> (u64, u64) {
    let mut most = (0, 1);
    for entry in fs::read_dir("/proc/self/fdinfo").expect("it is there").flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let number = |key: &str| {
            text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok())
        };
        if let (Some(time), Some(runs)) = (number("run_time_ns:"), number("run_cnt:"))
            && runs > most.1
        {
            most = (time, runs);
        }
    }
    most
}

/// What a look of the sampler takes, on this machine with a hundred groups more.
fn looks() {
    let layout = Layout::of_this_machine().expect("the cpu controller is mounted");
    remove_left_behind(&layout, &CgroupPath::ROOT, PREFIX).expect("root may");
    let name = [PREFIX, std::process::id().to_string().as_bytes()].concat();
    let top = CgroupPath::ROOT.join(&name).expect("a name");
    let mut made = vec![Created::create(&layout, &top).expect("root may make groups")];
    for number in 0..GROUPS {
        let path = top.join(number.to_string().as_bytes()).expect("a name");
        made.push(Created::create(&layout, &path).expect("root may make groups"));
    }
    println!("a look, with {GROUPS} control groups more than the machine had:");
    for (words, probes) in [
        ("without programs in the kernel", Err(Unavailable::Absent { what: "none" })),
        ("with them", Probes::load(ProbeOptions::default()).map_err(|_| Unavailable::NoTime)),
    ] {
        let mut sampler = Sampler::new(Scope::default(), Roots::of_this_machine(), probes);
        let start = Instant::now();
        let now = || Moment::from_us(u64::try_from(start.elapsed().as_micros()).unwrap_or(0));
        sampler.look(now());
        let mut took: Vec<Duration> = (0..LOOKS)
            .map(|_| {
                let before = thread_ns();
                sampler.look(now());
                Duration::from_nanos((thread_ns() - before) as u64)
            })
            .collect();
        took.sort_unstable();
        let median = took[took.len() / 2].as_secs_f64() * 1e6;
        println!("  {words}: {median:.0} us, {:.3} % of a core once a second", median / 1e4);
    }
    while made.pop().is_some() {}
}
