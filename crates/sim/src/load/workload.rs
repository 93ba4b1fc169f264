//! The three kinds of pods: services that answer requests, batch jobs that finish work, and
//! recorded usage that is replayed as work.

use walras_core::rng::Rng;

use super::draw::{Arrivals, Costs};
use super::{Histogram, Queue, Shape};
use crate::machine::{SLICE_MS, Want};

/// What a pod is going to want.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadSpec {
    /// Answers requests, each with a random cost.
    Service {
        /// Requests per second.
        rate: Shape,
        /// Mean CPU per request.
        cost_ms: f64,
        /// Coefficient of variation of that.
        cost_variation: f64,
        /// Most requests in progress on a CPU at once.
        threads: f64,
    },
    /// Works through an amount of CPU, or for ever; again after a while if it is a recurring job.
    Batch {
        /// How much work one run is; endless where there is none.
        work_core_s: Option<f64>,
        /// Most threads at once.
        threads: f64,
        /// When the next run begins after the beginning of the last, if it recurs.
        every_s: Option<f64>,
    },
    /// Wants a recorded amount of CPU; what it does not get waits.
    Usage {
        /// Cores.
        cores: Shape,
        /// Most threads at once.
        threads: f64,
    },
}

/// Work a pod has to do before it is ready: class loading, caches, compilation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Startup {
    /// How much.
    pub work_core_s: f64,
    /// With how many threads.
    pub threads: f64,
}

/// A pod's load in progress.
#[derive(Clone, Debug)]
pub struct Load {
    spec: LoadSpec,
    seed: u64,
    rng: Rng,
    startup_left_core_ms: f64,
    startup_threads: f64,
    queue: Queue,
    requests: u64,
    /// Work of a batch job or of replayed usage that is waiting.
    backlog_core_ms: f64,
    /// When the current run of a batch job began, and the next one begins.
    run_began_ms: Option<f64>,
    next_run_ms: f64,
    /// How long finished runs took.
    completions_ms: Vec<f64>,
    offered_core_ms: f64,
    level: f64,
    level_second: Option<u32>,
    arrivals: Arrivals,
    costs: Costs,
}

impl Load {
    /// A load that begins when its pod does.
    #[must_use]
    pub fn new(spec: LoadSpec, startup: Option<Startup>, seed: u64) -> Self {
        let costs = match &spec {
            LoadSpec::Service { cost_ms, cost_variation, .. } => {
                Costs::around(*cost_ms, *cost_variation)
            }
            LoadSpec::Batch { .. } | LoadSpec::Usage { .. } => Costs::around(0.0, 0.0),
        };
        Self {
            spec,
            seed,
            rng: Rng::from_seed(seed),
            startup_left_core_ms: startup.map_or(0.0, |startup| startup.work_core_s * 1000.0),
            startup_threads: startup.map_or(0.0, |startup| startup.threads),
            queue: Queue::default(),
            requests: 0,
            backlog_core_ms: 0.0,
            run_began_ms: None,
            next_run_ms: 0.0,
            completions_ms: Vec::new(),
            offered_core_ms: 0.0,
            level: 0.0,
            level_second: None,
            arrivals: Arrivals::expecting(0.0),
            costs,
        }
    }

    /// What the pod wants in the slice that begins `at_ms` after its start.
    pub fn want(&mut self, at_ms: f64) -> Want {
        self.offer(at_ms);
        if self.startup_left_core_ms > 0.0 {
            return Want { threads: self.startup_threads, work_core_ms: self.startup_left_core_ms };
        }
        match &self.spec {
            LoadSpec::Service { threads, .. } => Want {
                threads: threads.min(length(&self.queue)),
                work_core_ms: self.queue.runnable_core_ms(f64::from(SLICE_MS)),
            },
            LoadSpec::Batch { threads, .. } | LoadSpec::Usage { threads, .. } => {
                Want { threads: *threads, work_core_ms: self.backlog_core_ms }
            }
        }
    }

    /// The pod may run `got_core_ms` on up to `cores` cores in the slice that began `at_ms` after
    /// its start. Finished requests' latencies are counted in `latencies`. Says what it really ran.
    pub fn run(
        &mut self,
        at_ms: f64,
        got_core_ms: f64,
        cores: f64,
        latencies: &mut Histogram,
    ) -> f64 {
        if self.startup_left_core_ms > 0.0 {
            self.startup_left_core_ms = (self.startup_left_core_ms - got_core_ms).max(0.0);
            return got_core_ms;
        }
        let slice_ms = f64::from(SLICE_MS);
        match self.spec {
            LoadSpec::Service { threads, .. } => {
                let cores = cores.min(threads);
                self.queue.run(at_ms, slice_ms, cores, got_core_ms, |ms| latencies.record(ms))
            }
            LoadSpec::Batch { work_core_s: Some(_), .. } => {
                self.backlog_core_ms = (self.backlog_core_ms - got_core_ms).max(0.0);
                if self.backlog_core_ms <= 0.0
                    && let Some(began_ms) = self.run_began_ms.take()
                {
                    self.completions_ms.push(at_ms + slice_ms - began_ms);
                }
                got_core_ms
            }
            LoadSpec::Batch { work_core_s: None, .. } => got_core_ms,
            LoadSpec::Usage { .. } => {
                self.backlog_core_ms = (self.backlog_core_ms - got_core_ms).max(0.0);
                got_core_ms
            }
        }
    }

    /// How long each finished run of a batch job took.
    #[must_use]
    pub fn completions_ms(&self) -> &[f64] {
        &self.completions_ms
    }

    /// All work that was asked for so far; endless jobs count what they could have run at most.
    #[must_use]
    pub const fn offered_core_ms(&self) -> f64 {
        self.offered_core_ms
    }

    /// The load offered in the current second, in cores.
    #[must_use]
    pub fn offered_cores(&self) -> f64 {
        match &self.spec {
            LoadSpec::Service { cost_ms, .. } => self.level * cost_ms / 1000.0,
            LoadSpec::Usage { .. } => self.level,
            LoadSpec::Batch { threads, .. } => {
                if self.backlog_core_ms > 0.0 {
                    *threads
                } else {
                    0.0
                }
            }
        }
    }

    /// The work that is waiting.
    #[must_use]
    pub fn left_core_ms(&self) -> f64 {
        self.queue.work_core_ms() + self.backlog_core_ms + self.startup_left_core_ms
    }

    /// Whether requests or other work are waiting.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.backlog_core_ms > 0.0 || self.startup_left_core_ms > 0.0
    }

    /// How many requests were accepted and are not yet answered.
    #[must_use]
    pub fn in_progress(&self) -> f64 {
        length(&self.queue)
    }

    /// Whether it answers requests.
    #[must_use]
    pub const fn is_service(&self) -> bool {
        matches!(self.spec, LoadSpec::Service { .. })
    }

    /// New requests and new work of this slice.
    fn offer(&mut self, at_ms: f64) {
        let second = second_of(at_ms);
        if self.level_second != Some(second) {
            self.level_second = Some(second);
            self.level = match &self.spec {
                LoadSpec::Service { rate, .. } => rate.level(second, self.seed),
                LoadSpec::Usage { cores, .. } => cores.level(second, self.seed),
                LoadSpec::Batch { .. } => 0.0,
            };
            self.arrivals = Arrivals::expecting(self.level * f64::from(SLICE_MS) / 1000.0);
        }
        let slice_ms = f64::from(SLICE_MS);
        match self.spec {
            LoadSpec::Service { .. } => {
                for _ in 0..self.arrivals.draw(&mut self.rng) {
                    let cost = self.costs.draw(&mut self.rng);
                    self.offered_core_ms += cost;
                    self.requests += 1;
                    self.queue.arrived(at_ms, cost, self.requests);
                }
            }
            LoadSpec::Usage { .. } => {
                let work = self.level * slice_ms;
                self.offered_core_ms += work;
                self.backlog_core_ms += work;
            }
            LoadSpec::Batch { work_core_s: None, threads, .. } => {
                self.offered_core_ms += threads * slice_ms;
                self.backlog_core_ms = threads * slice_ms;
            }
            LoadSpec::Batch { work_core_s: Some(work_core_s), every_s, .. } => {
                if at_ms >= self.next_run_ms {
                    self.next_run_ms = every_s.map_or(f64::INFINITY, |s| at_ms + s * 1000.0);
                    self.run_began_ms.get_or_insert(at_ms);
                    self.offered_core_ms += work_core_s * 1000.0;
                    self.backlog_core_ms += work_core_s * 1000.0;
                }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a queue is shorter than 2^53")]
fn length(queue: &Queue) -> f64 {
    queue.len() as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
fn second_of(at_ms: f64) -> u32 {
    (at_ms / 1000.0) as u32
}
