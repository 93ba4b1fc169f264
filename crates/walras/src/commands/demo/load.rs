//! One workload as a process: `walras demo-load`, which `walras demo` starts in a cgroup.
//!
//! Work is CPU time that this process really uses, so that it is the same however busy the machine
//! is. It begins at the line `go` on standard input, ends at the line `stop`, and tells what became
//! of its requests. Where standard input ends before, its parent is gone, and it ends.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use walras_core::rng::Rng;
use walras_core::units::Millicores;
use walras_sim::load::{LoadSpec, Shape};

use super::cast;
use crate::cli::DemoLoadArgs;
use crate::failure::Failure;
use crate::screen;

/// How often a workload that wants some CPU all the time does its part.
const TICK: Duration = Duration::from_millis(20);
/// How much an endless job does before it looks whether it is over.
const BITE: Duration = Duration::from_millis(1);

/// What became of a service's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answers {
    /// From when each request was meant to arrive to its answer, or to the end of the phase.
    pub(super) latencies_us: Vec<u64>,
    /// How many of them had no answer by then.
    pub(super) unanswered: u64,
}

/// Works until it is told to stop.
pub(crate) fn run(args: &DemoLoadArgs) -> Result<(), Failure> {
    let scenario = cast::scenario(Millicores::new(args.capacity_milli), args.seconds);
    let Some(pod) = scenario.pods.iter().find(|pod| pod.name == args.name) else {
        return Err(Failure::Input(format!("{}: there is no such workload", args.name)));
    };
    let mut lines = std::io::stdin().lock().lines();
    if next_line(&mut lines).as_deref() != Some("go") {
        return Ok(());
    }
    let work = Work::start(&pod.load, args.seconds, scenario.seed);
    if next_line(&mut lines).as_deref() != Some("stop") {
        // Threads end with the process.
        return Ok(());
    }
    let answers = work.stop();
    let mut output = screen::output();
    let text = serde_json::to_string(&answers).map_err(|error| Failure::Output(error.into()))?;
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}

/// When requests arrive, counted from the start.
fn arrivals(rate: &Shape, seconds: u32, seed: u64) -> Vec<Duration> {
    let mut rng = Rng::from_seed(seed);
    let mut arrivals = Vec::new();
    for second in 0..seconds {
        let rate = rate.level(second, seed);
        // Without any, the first comes after an infinite time.
        let mut between = || -(1.0 - rng.unit()).ln() / rate.max(0.0);
        let mut at_s = between();
        while at_s < 1.0 {
            arrivals.push(Duration::from_secs_f64(f64::from(second) + at_s));
            at_s += between();
        }
    }
    arrivals
}

/// A workload at work.
struct Work {
    desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
}

/// What its threads share.
struct Desk {
    began: Instant,
    over: AtomicBool,
    arrivals: Vec<Duration>,
    /// The requests that wait, by their places among the arrivals.
    waiting: Mutex<VecDeque<usize>>,
    more: Condvar,
    /// How long each took that was answered.
    answered: Mutex<Vec<Option<Duration>>>,
}

// === impl Work ===

impl Work {
    fn start(load: &LoadSpec, seconds: u32, seed: u64) -> Self {
        let arrivals = match load {
            LoadSpec::Service { rate, .. } => arrivals(rate, seconds, seed),
            LoadSpec::Batch { .. } | LoadSpec::Usage { .. } => Vec::new(),
        };
        let desk = Arc::new(Desk {
            began: Instant::now(),
            over: AtomicBool::new(false),
            answered: Mutex::new(vec![None; arrivals.len()]),
            arrivals,
            waiting: Mutex::default(),
            more: Condvar::new(),
        });
        let mut work = Self { desk, threads: Vec::new() };
        match load {
            LoadSpec::Service { cost_ms, threads, .. } => {
                let cost = Duration::from_secs_f64(cost_ms / 1000.0);
                work.spawn(1, Desk::receive);
                work.spawn(whole(*threads), move |desk| desk.answer(cost));
            }
            LoadSpec::Batch { threads, .. } => {
                work.spawn(whole(*threads), |desk| {
                    while !desk.is_over() {
                        burn(BITE);
                    }
                });
            }
            LoadSpec::Usage { cores, threads } => {
                let each =
                    |second| TICK.mul_f64((cores.level(second, seed) / threads.max(1.0)).min(1.0));
                let parts: Arc<[Duration]> = (0..seconds.max(1)).map(each).collect();
                for _ in 0..whole(*threads) {
                    let parts = Arc::clone(&parts);
                    let desk = Arc::clone(&work.desk);
                    work.threads.push(thread::spawn(move || desk.keep_at_it(&parts)));
                }
            }
        }
        work
    }

    fn spawn(&mut self, count: u32, run: impl Fn(&Desk) + Copy + Send + 'static) {
        for _ in 0..count {
            let desk = Arc::clone(&self.desk);
            self.threads.push(thread::spawn(move || run(&desk)));
        }
    }

    fn stop(self) -> Answers {
        let ended = self.desk.began.elapsed();
        self.desk.over.store(true, Ordering::Relaxed);
        self.desk.more.notify_all();
        let answers = self.desk.answers(ended);
        for thread in self.threads {
            thread.thread().unpark();
            // A thread that panicked has told so; what it did not answer is unanswered.
            thread.join().ok();
        }
        answers
    }
}

// === impl Desk ===

impl Desk {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Lets every request in when its time has come.
    fn receive(&self) {
        for (place, at) in self.arrivals.iter().enumerate() {
            self.wait_until(*at);
            if self.is_over() {
                return;
            }
            locked(&self.waiting).push_back(place);
            self.more.notify_one();
        }
    }

    /// Answers requests, each of which takes so much CPU.
    fn answer(&self, cost: Duration) {
        while let Some(place) = self.next_request() {
            burn(cost);
            let took = self.began.elapsed().saturating_sub(self.arrivals[place]);
            locked(&self.answered)[place] = Some(took);
        }
    }

    fn next_request(&self) -> Option<usize> {
        let mut waiting = locked(&self.waiting);
        loop {
            if self.is_over() {
                return None;
            }
            if let Some(place) = waiting.pop_front() {
                return Some(place);
            }
            // Not for ever, since the end may come between the question and the waiting.
            let patience = self.more.wait_timeout(waiting, Duration::from_millis(500));
            (waiting, _) = patience.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does a part in every tick, which is another one in each second. What could not be done in
    /// time is not made up for twice over.
    fn keep_at_it(&self, parts: &[Duration]) {
        let mut next = TICK;
        while !self.is_over() {
            let second = usize::try_from(self.began.elapsed().as_secs()).unwrap_or(usize::MAX);
            burn(parts.get(second).or(parts.last()).copied().unwrap_or_default());
            self.wait_until(next);
            next = (next + TICK).max(self.began.elapsed().saturating_sub(Duration::from_secs(1)));
        }
    }

    fn wait_until(&self, at: Duration) {
        while !self.is_over() {
            let left = at.saturating_sub(self.began.elapsed());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }

    /// What became of everything that arrived before the end.
    fn answers(&self, ended: Duration) -> Answers {
        let mut answers = Answers::default();
        let answered = locked(&self.answered).clone();
        for (&at, took) in self.arrivals.iter().zip(answered).filter(|(at, _)| **at < ended) {
            let took = took.unwrap_or_else(|| {
                answers.unanswered += 1;
                ended.saturating_sub(at)
            });
            answers.latencies_us.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
        answers
    }
}

/// Uses so much CPU time of this thread.
fn burn(amount: Duration) {
    let until = thread_cpu_time() + amount;
    while thread_cpu_time() < until {
        let mut number = 1_u64;
        for _ in 0..2000 {
            number = std::hint::black_box(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
}

fn thread_cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

fn next_line(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> Option<String> {
    lines.next()?.ok()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number of threads; at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "both are cut off")]
fn whole(threads: f64) -> u32 {
    (threads as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_arrive_at_the_same_times_in_every_run() {
        let rate = Shape::Series { levels: [100.0, 0.0].into(), step_s: 1.0 };
        let first = arrivals(&rate, 10, 7);
        assert_eq!(first, arrivals(&rate, 10, 7));
        assert_ne!(first, arrivals(&rate, 10, 8));
        assert!((300..700).contains(&first.len()), "{}", first.len());
        assert!(first.is_sorted() && first.iter().all(|at| at.as_secs().is_multiple_of(2)));
    }

    #[test]
    fn what_was_not_answered_counts_until_the_end() {
        let desk = Desk {
            began: Instant::now(),
            over: AtomicBool::new(false),
            arrivals: [1, 2, 9].map(Duration::from_secs).to_vec(),
            waiting: Mutex::default(),
            more: Condvar::new(),
            answered: Mutex::new(vec![Some(Duration::from_millis(5)), None, None]),
        };
        let answers = desk.answers(Duration::from_secs(4));
        assert_eq!(answers, Answers { latencies_us: vec![5000, 2_000_000], unanswered: 1 });
    }
}
