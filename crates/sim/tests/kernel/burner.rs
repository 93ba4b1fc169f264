//! The load: a process that burns CPU by a schedule, and tells when its work was done.
//!
//! It is the test's own executable, so it is never missing nor out of date. [`INSTRUCTIONS`] in its
//! environment tells it what to burn, and it waits on its standard input for a line that says that
//! it is in its group by now. What it has to tell are lines that contain [`MARK`].
//!
//! Work is measured in CPU time, so a neighbour or a quota makes a job later but never smaller.
//! Jobs arrive when the schedule says, whether or not the one before is done, and are done one
//! after the other. A schedule starts at the beginning of a period of the group's quota: the
//! process finds that moment by being throttled, and then rests until its group's timer stopped.

use std::fmt;
use std::io::{BufRead, Write};
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clock::{cpu_time, now, wait_until};
use crate::outcome::PERIOD;

/// The environment variable that says what to burn.
pub(crate) const INSTRUCTIONS: &str = "WALRAS_KERNEL_LOAD";
/// What the lines for the test contain; others come from the test harness.
pub(crate) const MARK: &str = "load> ";
/// A schedule starts this long after the beginning of a period that was found. The kernel's timer
/// goes on for one period after the last one that was used, and then stops.
pub(crate) const REST: Duration = PERIOD.saturating_mul(4);

/// A thread that sees no progress for this long did not run.
const PAUSE: Duration = Duration::from_millis(1);
/// A pause this long is throttling, because a group of such a weight waits for nobody that long.
const THROTTLED: Duration = Duration::from_millis(20);
/// Two beginnings of periods are a period apart, up to this.
const JITTER: Duration = Duration::from_millis(2);
/// So many pauses are tried until two are a period apart.
const TRIES: u32 = 30;

/// Something to burn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Jobs for one thread, in the order of arrival.
    Jobs(Vec<Job>),
    /// Threads that never rest, all on one CPU.
    Busy {
        /// How many.
        threads: usize,
        /// Where.
        cpu: usize,
    },
}

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// When it arrives, after the start of the schedule.
    pub(crate) at: Duration,
    /// How much CPU it takes.
    pub(crate) cost: Duration,
}

/// What the load tells the test. Moments are those of the common clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The schedule starts then, which is the beginning of a period.
    Starts(Duration),
    /// No beginning of a period was found.
    Lost,
    /// The thread did not run.
    Paused { from: Duration, to: Duration },
    /// The next job was done.
    Done(Duration),
    /// One of the threads that never rest is on its CPU.
    Busy,
}

/// Burns `load`, and does not outlive the test.
pub(crate) fn run(load: &Load, mut input: impl BufRead, output: &mut impl Write) {
    set_parent_process_death_signal(Some(Signal::KILL)).expect("any process may ask for that");
    input.read_line(&mut String::new()).expect("the test says when the process is in its group");
    match load {
        Load::Jobs(jobs) => match find_period() {
            Some(begin) => {
                say(output, Said::Starts(begin + REST));
                do_jobs(begin + REST, jobs, output);
            }
            None => say(output, Said::Lost),
        },
        Load::Busy { threads, cpu } => std::thread::scope(|scope| {
            for _ in 0..*threads {
                scope.spawn(|| be_busy(*cpu));
            }
        }),
    }
}

/// Does the jobs of a schedule that starts at `start`.
pub(crate) fn do_jobs(start: Duration, jobs: &[Job], output: &mut impl Write) {
    let mut free = start;
    for job in jobs {
        wait_until(start + job.at);
        let pauses = burn(free.max(start + job.at), job.cost);
        free = now();
        // Told only afterwards, because telling takes CPU, too.
        for (from, to) in pauses {
            say(output, Said::Paused { from, to });
        }
        say(output, Said::Done(free));
    }
}

/// The beginning of a period of the group's quota: when throttling ended, twice in a row.
fn find_period() -> Option<Duration> {
    let mut before = None;
    for _ in 0..TRIES {
        let ended = throttling_ended();
        if before.is_some_and(|before| (ended - before).abs_diff(PERIOD) <= JITTER) {
            return Some(ended);
        }
        before = Some(ended);
    }
    None
}

/// Burns until it was throttled, and says when that ended.
fn throttling_ended() -> Duration {
    let mut last = now();
    loop {
        let this = now();
        if this - last >= THROTTLED {
            return this;
        }
        last = this;
    }
}

/// Burns `cost`, and says when the thread did not run though it could have `since` then.
fn burn(since: Duration, cost: Duration) -> Vec<(Duration, Duration)> {
    let end = cpu_time() + cost;
    let mut pauses = Vec::new();
    let mut last = since;
    while cpu_time() < end {
        let this = now();
        if this - last >= PAUSE {
            pauses.push((last, this));
        }
        last = this;
    }
    pauses
}

fn be_busy(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus).expect("the test chose a CPU that it may use itself");
    say(&mut std::io::stdout(), Said::Busy);
    loop {
        std::hint::spin_loop();
    }
}

fn say(output: &mut impl Write, what: Said) {
    // The harness may have left a line unfinished.
    write!(output, "\n{MARK}{what}\n").and_then(|()| output.flush()).expect("the test listens");
}

// === impl Load ===

impl Load {
    /// What [`INSTRUCTIONS`] says for this load.
    pub(crate) fn instructions(&self) -> String {
        match self {
            Self::Jobs(jobs) => {
                let job = |job: &Job| format!(" {}:{}", job.at.as_millis(), job.cost.as_millis());
                format!("jobs{}", jobs.iter().map(job).collect::<String>())
            }
            Self::Busy { threads, cpu } => format!("busy {threads} {cpu}"),
        }
    }

    /// The load that instructions mean.
    pub(crate) fn from_instructions(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        match words.next()? {
            "jobs" => {
                let job = |word: &str| {
                    let (at_ms, cost_ms) = word.split_once(':')?;
                    let span = |ms: &str| Some(Duration::from_millis(ms.parse().ok()?));
                    Some(Job { at: span(at_ms)?, cost: span(cost_ms)? })
                };
                Some(Self::Jobs(words.map(job).collect::<Option<_>>()?))
            }
            "busy" => {
                let mut number = || words.next()?.parse().ok();
                Some(Self::Busy { threads: number()?, cpu: number()? })
            }
            _ => None,
        }
    }
}

// === impl Said ===

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starts(at) => write!(f, "starts {}", at.as_nanos()),
            Self::Lost => write!(f, "lost"),
            Self::Paused { from, to } => write!(f, "paused {} {}", from.as_nanos(), to.as_nanos()),
            Self::Done(at) => write!(f, "done {}", at.as_nanos()),
            Self::Busy => write!(f, "busy"),
        }
    }
}

impl Said {
    /// What a line of the load's output says; nothing if it is one of the harness.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let (_, text) = line.split_once(MARK)?;
        let mut words = text.split_whitespace();
        let kind = words.next()?;
        let mut moment = || Some(Duration::from_nanos(words.next()?.parse().ok()?));
        match kind {
            "starts" => Some(Self::Starts(moment()?)),
            "lost" => Some(Self::Lost),
            "paused" => Some(Self::Paused { from: moment()?, to: moment()? }),
            "done" => Some(Self::Done(moment()?)),
            "busy" => Some(Self::Busy),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn instructions_survive_the_way_to_the_load_process() {
        let jobs = vec![Job { at: ms(0), cost: ms(8) }, Job { at: ms(100), cost: ms(4) }];
        for load in [Load::Jobs(jobs), Load::Busy { threads: 2, cpu: 1 }] {
            assert_eq!(Load::from_instructions(&load.instructions()), Some(load));
        }
        assert_eq!(Load::from_instructions("jobs 1"), None);
    }

    #[test]
    fn what_the_load_says_is_told_from_what_the_harness_says() {
        let (from, to) = (ms(1), ms(2));
        let paused = Said::Paused { from, to };
        for said in [Said::Starts(from), Said::Lost, paused, Said::Done(to), Said::Busy] {
            let line = format!("test of something ... {MARK}{said}\n");
            assert_eq!(Said::from_line(&line), Some(said));
        }
        assert_eq!(Said::from_line("running 1 test"), None);
    }
}
