//! How soon a throttled process gets more, over 200 trials of each kind.
//!
//! Each trial has a group of its own with a quota of 5 ms, and a process in it that sleeps, and
//! then burns. Time starts when the kernel has counted the first throttled period, which it does
//! at that period's end, and ends when the quota in force is larger; the time from the first
//! stroke of work on is told beside it. A few trials run at once, each at a moment of its own.

use std::fs::File;
use std::io::{Write, stdout};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use walras_cgroup::Created;

use crate::Outcome;
use crate::burner::{Burner, Burning};
use crate::ground::{Ground, pass};

const TRIALS: usize = 200;
/// So many at once.
const LANES: usize = 5;
/// Between two looks at the files.
const GRAIN: Duration = Duration::from_millis(1);
/// A trial that takes longer is one in which nothing happened; it is left out, and told.
const DEADLINE: Duration = Duration::from_secs(6);
const BURNER: Burner = Burner { busy: DEADLINE, idle: Duration::ZERO };
/// Small enough that a few processes at once leave the machine quiet; and the quota stays there
/// until somebody asks for more.
const FLOOR: &str = "limit_floor_milli = 50";

/// A trial under way.
struct Trial {
    burning: Burning,
    stat: File,
    quota: File,
    /// The smallest quota since the work began: one that was raised before may still be falling.
    quota_low: u64,
    throttled_before: u64,
    go_at: Instant,
    began: Option<Instant>,
    throttled: Option<Instant>,
}

/// What a look at a trial shows.
enum Looked {
    Waiting,
    Raised(Took),
    /// Other work on the machine left it so little CPU that its quota was not what held it back.
    NeverHeldBack,
}

/// How long it took, from two beginnings.
struct Took {
    from_throttled: Duration,
    from_work: Duration,
}

/// Measures and prints a table.
pub(crate) fn measure() -> Outcome<()> {
    let mut out = stdout();
    writeln!(
        out,
        "| {TRIALS} trials, ms | median | 95 % | 99 % | longest |\n|---|---|---|---|---|"
    )?;
    for (name, market) in [
        ("a hot pod: new, or raised in the last ten minutes", FLOOR.to_owned()),
        ("a quiet pod", format!("{FLOOR}\nhot_memory_s = 0")),
    ] {
        let took = trials(&market)?;
        if took.len() < TRIALS {
            writeln!(out, "| only {} trials came to an end |", took.len())?;
        }
        let from_throttled = took.iter().map(|took| took.from_throttled).collect();
        writeln!(out, "| {name}, from the first throttled period |{}", row(from_throttled))?;
        let from_work = took.iter().map(|took| took.from_work).collect();
        writeln!(out, "| the same, from the beginning of its work |{}", row(from_work))?;
    }
    writeln!(out)?;
    Ok(())
}

fn trials(market: &str) -> Outcome<Vec<Took>> {
    let ground = Ground::new(TRIALS, Some(5))?;
    let _daemon = ground.start(TRIALS.div_ceil(2), market)?;
    // Past the first clearings.
    pass(Duration::from_secs(6));
    let mut waiting = ground.groups().iter();
    let mut lanes: Vec<Trial> = Vec::new();
    let mut all = Vec::new();
    let mut dice = 1;
    loop {
        while lanes.len() < LANES
            && let Some(group) = waiting.next()
        {
            // Any moment within a second, without a pattern that a tick could fall in with.
            dice = dice * 48_271 % 2_147_483_647_u64;
            lanes.push(Trial::new(&ground, group, Duration::from_millis(100 + dice % 1000))?);
        }
        if lanes.is_empty() {
            return Ok(all);
        }
        let mut place = 0;
        while let Some(trial) = lanes.get_mut(place) {
            match trial.look()? {
                Looked::Raised(took) => {
                    all.push(took);
                    lanes.swap_remove(place);
                }
                Looked::NeverHeldBack => drop(lanes.swap_remove(place)),
                Looked::Waiting => place += 1,
            }
        }
        thread::park_timeout(GRAIN);
    }
}

// === impl Trial ===

impl Trial {
    fn new(ground: &Ground, group: &Created, after: Duration) -> Outcome<Self> {
        let stat = File::open(ground.place(group).join("cpu.stat"))?;
        let quota = File::open(ground.quota_file(group))?;
        Ok(Self {
            burning: BURNER.start(group)?,
            quota_low: number_after(&quota, "")?,
            throttled_before: number_after(&stat, "nr_throttled ")?,
            stat,
            quota,
            go_at: Instant::now() + after,
            began: None,
            throttled: None,
        })
    }

    fn look(&mut self) -> Outcome<Looked> {
        let now = Instant::now();
        let Some(began) = self.began else {
            if now >= self.go_at {
                // What happened while it was put there is not what is measured.
                self.quota_low = number_after(&self.quota, "")?;
                self.throttled_before = number_after(&self.stat, "nr_throttled ")?;
                self.burning.go()?;
                self.began = Some(Instant::now());
            }
            return Ok(Looked::Waiting);
        };
        if self.throttled.is_none()
            && number_after(&self.stat, "nr_throttled ")? > self.throttled_before
        {
            self.throttled = Some(now);
        }
        let quota = number_after(&self.quota, "")?;
        self.quota_low = self.quota_low.min(quota);
        if quota > self.quota_low {
            let from_throttled = self.throttled.map_or(Duration::ZERO, |since| now - since);
            return Ok(Looked::Raised(Took { from_throttled, from_work: now - began }));
        }
        if now - began > DEADLINE {
            return Ok(Looked::NeverHeldBack);
        }
        Ok(Looked::Waiting)
    }
}

/// The number that follows `name` in a file.
fn number_after(file: &File, name: &str) -> Outcome<u64> {
    let mut buffer = [0; 1024];
    let length = file.read_at(&mut buffer, 0)?;
    let text = std::str::from_utf8(&buffer[..length])?;
    let rest = text.split_once(name).map_or(text, |(_, rest)| rest);
    Ok(rest.split_whitespace().next().ok_or("a number")?.parse()?)
}

/// Median, two percentiles and the longest, as the end of a row.
fn row(mut spans: Vec<Duration>) -> String {
    spans.sort_unstable();
    let at = |percent: usize| {
        let place = (spans.len() * percent).div_ceil(100).saturating_sub(1);
        spans.get(place).map_or(0, Duration::as_millis)
    };
    format!(" {} | {} | {} | {} |", at(50), at(95), at(99), at(100))
}
