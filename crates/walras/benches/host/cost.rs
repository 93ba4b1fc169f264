//! The cost of the daemon: CPU time and memory with 10, 100 and 500 groups, one in ten of them but
//! no more than ten busy; and beside it the cost of no more than reading the same files as often.
//!
//! Twice: soon after the start, while every pod counts as hot because nobody knows it yet, and as
//! it is after ten minutes, when only those are hot that had a burst lately. For the second, a
//! burst is forgotten after ten seconds instead of ten minutes; how many are hot then is told.

use std::fs;
use std::hint::black_box;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use walras_cgroup::{Group, Version};
use walras_core::units::Moment;

use crate::Outcome;
use crate::burner::{Burner, Burning};
use crate::ground::{Daemon, Ground, cpu_time, pass};

/// How long the daemon is watched.
const WINDOW: Duration = Duration::from_secs(20);
/// Before that, what a daemon does once has to be over: fifteen seconds after its arrival a pod may
/// be shrunk for the first time.
const SETTLE: Duration = Duration::from_secs(20);
/// How long reading alone is watched.
const READING: Duration = Duration::from_secs(5);
/// Hot pods are read once in this time, quiet ones once in ten times this time.
const FAST: Duration = Duration::from_millis(100);
/// A burst every few seconds that the quota of an idle pod throttles; a twelfth of a core.
const BURSTS: Burner =
    Burner { busy: Duration::from_millis(400), idle: Duration::from_millis(4400) };

/// Which pods are hot.
struct Case {
    name: &'static str,
    market: &'static str,
    all_hot: bool,
}

const CASES: [Case; 2] = [
    Case { name: "later", market: "limit_floor_milli = 50\nhot_memory_s = 10", all_hot: false },
    Case { name: "at first", market: "limit_floor_milli = 50", all_hot: true },
];

/// Measures and prints a table.
pub(crate) fn measure() -> Outcome<()> {
    let mut out = stdout();
    writeln!(
        out,
        "| pods | case | hot at the end | % of a core | ms/s | µs per tick \
         | ns per pod and tick | ticks/s | changes/s | MB of its own \
         | MB resident | only reading, % | plain reading, % |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|"
    )?;
    for case in &CASES {
        for pods in [10, 100, 500] {
            one(pods, case)?;
        }
    }
    writeln!(out)?;
    Ok(())
}

fn one(pods: u32, case: &Case) -> Outcome<()> {
    let ground = Ground::new(usize::try_from(pods)?, None)?;
    let busy = usize::try_from((pods / 10).clamp(1, 10))?;
    // Half a core for each, so that the market has something to divide.
    let daemon = ground.start(ground.groups().len().div_ceil(2), case.market)?;
    let _burning = burn(&ground, busy)?;
    pass(SETTLE);
    let ticked = |daemon: &Daemon| -> Outcome<f64> {
        Ok(daemon.metric("walras_fast_ticks_total")? + daemon.metric("walras_slow_ticks_total")?)
    };
    let changed = |daemon: &Daemon| daemon.metric("walras_changes_total");
    let (ticks, changes) = (ticked(&daemon)?, changed(&daemon)?);
    let before = daemon.used()?;
    pass(WINDOW);
    let after = daemon.used()?;
    let (ticks, changes) = (ticked(&daemon)? - ticks, changed(&daemon)? - changes);
    let hot = daemon.metric("walras_pod_hot")?;
    let (own_mb, resident_mb) = daemon.resident_mb()?;
    drop(daemon);
    let hot_read = if case.all_hot { ground.groups().len() } else { busy };
    let (kept_open, plain) = (kept_open(&ground, hot_read)?, plainly(&ground, hot_read)?);
    let (cpu, wall) =
        ((after.cpu - before.cpu).as_secs_f64(), (after.at - before.at).as_secs_f64());
    writeln!(
        stdout(),
        "| {pods} | {} | {hot} | {:.3} | {:.2} | {:.0} | {:.0} | {:.1} | {:.1} | {own_mb:.1} | \
         {resident_mb:.1} | {kept_open:.3} | {plain:.3} |",
        case.name,
        cpu / wall * 100.0,
        cpu / wall * 1e3,
        cpu / ticks * 1e6,
        cpu / ticks / f64::from(pods) * 1e9,
        ticks / wall,
        changes / wall,
    )?;
    Ok(())
}

/// Starts the bursts one after the other, so that they do not all come at once.
fn burn(ground: &Ground, busy: usize) -> Outcome<Vec<Burning>> {
    let mut all = Vec::new();
    for group in &ground.groups()[..busy] {
        let mut burning = BURSTS.start(group)?;
        burning.go()?;
        all.push(burning);
        pass((BURSTS.busy + BURSTS.idle) / 10);
    }
    Ok(all)
}

/// The cost of reading as the daemon does, in percent of a core.
fn kept_open(ground: &Ground, hot: usize) -> Outcome<f64> {
    let open = |made: &walras_cgroup::Created| made.open();
    let groups: Vec<Group> = ground.groups().iter().map(open).collect::<Result<_, _>>()?;
    reading(groups.len(), hot, |place| {
        black_box(groups[place].sample(Moment::ORIGIN)?);
        Ok(())
    })
}

/// The cost of reading the same files the way one writes it without thinking of its cost.
fn plainly(ground: &Ground, hot: usize) -> Outcome<f64> {
    let usage = match ground.layout.version() {
        Version::V1 => "cpuacct.usage",
        Version::V2 => "cpu.pressure",
    };
    let paths = |made: &walras_cgroup::Created| -> [PathBuf; 2] {
        let place = ground.place(made);
        let beside = place.join(usage);
        // Where the two controllers of the first version are not mounted together.
        let elsewhere = place.to_string_lossy().replace("/cpu/", "/cpuacct/");
        let usage = if beside.exists() { beside } else { PathBuf::from(elsewhere).join(usage) };
        [place.join("cpu.stat"), usage]
    };
    let groups: Vec<[PathBuf; 2]> = ground.groups().iter().map(paths).collect();
    reading(groups.len(), hot, |place| {
        for path in &groups[place] {
            let text = fs::read_to_string(path)?;
            for line in text.lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                let value: u64 = words.last().and_then(|it| it.parse().ok()).unwrap_or_default();
                black_box((words.first(), value));
            }
        }
        Ok(())
    })
}

/// The CPU time of reading the first `hot` groups at every fast tick and the others now and then.
fn reading(groups: usize, hot: usize, mut read: impl FnMut(usize) -> Outcome<()>) -> Outcome<f64> {
    let used = || cpu_time(&fs::read_to_string("/proc/thread-self/schedstat")?);
    let (start, before) = (Instant::now(), used()?);
    let mut tick = 0;
    while start.elapsed() < READING {
        let due = if tick % 10 == 0 { groups } else { hot };
        (0..due).try_for_each(&mut read)?;
        tick += 1;
        pass((FAST * tick).saturating_sub(start.elapsed()));
    }
    Ok((used()? - before).as_secs_f64() / start.elapsed().as_secs_f64() * 100.0)
}
