//! What the pods of a cluster want: workloads, their replicas, and their load over weeks.
//!
//! A [`Town`] is all of it, made once and shared by every run of a contest. Time moves in windows
//! of five minutes, as requests are decided by; what happens within one is in `super::contend`.

use std::ops::Range;

use walras_core::units::Millicores;

use super::cluster::NodeShape;
use super::noise::{self, Noise};

/// Windows of five minutes in an hour.
pub const HOUR: usize = 12;
/// The same in a day.
pub const DAY: usize = 24 * HOUR;
/// The same in a week.
pub const WEEK: usize = 7 * DAY;

/// What a workload is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Answers requests: what it wants is wanted at once.
    Service,
    /// A service that is quiet all week and busy on Monday morning.
    Riser,
    /// Works off a queue, on as many threads as it has.
    Batch,
}

/// Pods of one owner, all alike.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What it is like.
    pub kind: Kind,
    /// How many pods it has.
    pub replicas: u32,
    /// What each requests, as its owner wrote it.
    pub declared: Millicores,
    /// What each takes of memory.
    pub memory_mib: u64,
    /// How many cores each can use at once; only batch work is held by it.
    pub threads: f64,
    /// The spread of the load within a window: of stretches of fifteen seconds, and of seconds.
    pub spread: Spread,
    /// The first window in which it is there, and the first in which it is not any more.
    pub from: usize,
    /// See `from`.
    pub until: usize,
    /// When its pods are replaced by new ones: every so many windows, and the first time.
    pub rollout_every: usize,
    /// See `rollout_every`.
    pub rollout_first: usize,
}

/// How much load differs from its mean, as coefficients of variation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// A window of five minutes from what the workload wants by then.
    pub window: f64,
    /// Fifteen seconds from their window.
    pub block: f64,
    /// A second from its fifteen.
    pub second: f64,
}

/// Everything that is to be run, and on what.
#[derive(Debug)]
pub struct Town {
    /// What it is called.
    pub name: String,
    /// All workloads.
    pub workloads: Vec<Workload>,
    /// What nodes there are to be had: the first one is of the first shape, and so on in turn.
    pub shapes: Vec<NodeShape>,
    /// How many windows there are, the week of history included.
    pub windows: usize,
    /// The pods: which workload each is of, and which of its replicas.
    pub pods: Vec<PodName>,
    /// The first pod of each workload; the others follow it.
    first_pods: Vec<usize>,
    /// What a replica wants on average, by window and workload, in cores.
    levels: Vec<f64>,
    /// What one replica has more to do than another.
    factors: Vec<f64>,
    pub(super) noise: Noise,
    pub(super) seed: u64,
}

/// Which pod one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodName {
    /// The place of its workload.
    pub workload: usize,
    /// Which of the replicas.
    pub replica: u32,
}

/// How unevenly replicas are loaded.
const REPLICA_SPREAD: f64 = 0.12;

// === impl Town ===

impl Town {
    /// What each of so many workloads wants in each window, window by window.
    #[must_use]
    pub fn levels(
        workloads: usize,
        windows: usize,
        level: &dyn Fn(usize, usize) -> f64,
    ) -> Vec<f64> {
        let all = (0..windows).flat_map(|window| (0..workloads).map(move |place| (place, window)));
        all.map(|(place, window)| level(place, window).max(0.0)).collect()
    }

    /// A town whose replicas want `levels` cores each, by window and workload.
    #[must_use]
    pub fn new(
        name: &str,
        seed: u64,
        workloads: Vec<Workload>,
        shapes: Vec<NodeShape>,
        levels: Vec<f64>,
    ) -> Self {
        let noise = Noise::new();
        let windows = levels.len() / workloads.len().max(1);
        let names = |(workload, it): (usize, &Workload)| {
            (0..it.replicas).map(move |replica| PodName { workload, replica })
        };
        let pods: Vec<PodName> = workloads.iter().enumerate().flat_map(names).collect();
        let factor = |pod: usize| {
            let place = noise::place(seed ^ 0xFAC7, pod as u64);
            1.0 + REPLICA_SPREAD * noise.one(place)
        };
        let factors = (0..pods.len()).map(factor).collect();
        let mut first_pods = vec![0; workloads.len()];
        for (place, pod) in pods.iter().enumerate().rev() {
            first_pods[pod.workload] = place;
        }
        let name = name.to_owned();
        Self { name, workloads, shapes, windows, pods, first_pods, levels, factors, noise, seed }
    }

    /// The places of a workload's pods.
    #[must_use]
    pub fn pods_of(&self, workload: usize) -> Range<usize> {
        let first = self.first_pods[workload];
        let replicas = usize::try_from(self.workloads[workload].replicas).unwrap_or(usize::MAX);
        first..first + replicas
    }

    /// The workload of a pod.
    #[must_use]
    pub fn workload_of(&self, pod: usize) -> &Workload {
        &self.workloads[self.pods[pod].workload]
    }

    /// What a replica of a workload wants on average, in cores.
    #[must_use]
    pub fn level(&self, workload: usize, window: usize) -> f64 {
        self.levels[window * self.workloads.len() + workload]
    }

    /// What a pod wants on average in a window, in cores; of batch work, what is queued.
    #[must_use]
    pub fn wanted(&self, pod: usize, window: usize) -> f64 {
        let workload = self.pods[pod].workload;
        let level = self.level(workload, window);
        let spread = self.workloads[workload].spread.window;
        let noise = self.noise.one(noise::place(self.seed ^ pod as u64, window as u64));
        level * self.factors[pod] * (1.0 + spread * noise).max(0.0)
    }

    /// Whether a workload is there in a window.
    #[must_use]
    pub fn is_there(&self, workload: usize, window: usize) -> bool {
        let it = &self.workloads[workload];
        (it.from..it.until).contains(&window)
    }

    /// Whether a pod is replaced by a new one at the beginning of a window. A quarter of the
    /// replicas, or one, are replaced at a time.
    #[must_use]
    pub fn is_replaced(&self, pod: usize, window: usize) -> bool {
        let PodName { workload, replica } = self.pods[pod];
        let it = &self.workloads[workload];
        if it.rollout_every == 0 || window < it.rollout_first {
            return false;
        }
        let at_once = it.replicas.div_ceil(4);
        let turn = usize::try_from(replica / at_once).unwrap_or(usize::MAX);
        (window - it.rollout_first) % it.rollout_every == turn
    }
}
