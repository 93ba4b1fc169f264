//! Lets weeks pass in a cluster under one sizer.
//!
//! First a week of history, in which requests are as declared, nobody is held back and sizers only
//! watch; then a day in which they act and nothing is counted; then what is counted. In each window
//! pods come and go, the nodes' seconds pass, and the sizer is told and asked. What it wishes is in
//! force from the next window on, where it fits.

use super::cluster::{Ask, Cluster};
use super::consolidate::{self, Round, consolidate};
use super::contend::{Arena, Load};
use super::noise;
use super::rules::{Seen, Sizer, Use, Wish, cores};
use super::schedule::{Score, choose};
use super::tally::{PackFigures, Tally};
use super::workload::{DAY, Kind, Town, WEEK};

/// How long sizers watch.
pub const HISTORY: usize = WEEK;
/// How long they act before it counts.
pub const SETTLING: usize = DAY;
/// What starting takes, in core-seconds.
const STARTUP_CORE_S: f64 = 20.0;
/// The least weight there is, in cores.
const WEIGHT_MIN: f64 = 0.002;
/// Minutes that a pod is not there when it is moved.
const MOVE_MINUTES: u32 = 1;
/// Minutes of a window.
const MINUTES: u32 = 5;

/// A cluster under a sizer, at some moment.
struct Course<'a> {
    town: &'a Town,
    sizer: &'a mut dyn Sizer,
    score: Score,
    cluster: Cluster,
    tally: Tally,
    arena: Arena,
    uses: Vec<Use>,
    /// What is left to do of each pod, in core-seconds.
    left: Vec<f64>,
    /// Whose node is only being started.
    is_waiting: Vec<bool>,
    /// Whose wish was put off in the window before.
    was_put_off: Vec<bool>,
    /// How many pods of each workload were moved in this window.
    budgets: Vec<u32>,
    moved: Vec<usize>,
    wishes: Vec<Wish>,
    loads: Vec<Load>,
}

/// Runs a town under a sizer; `day_done` is called after each day.
#[must_use]
pub fn run(
    town: &Town,
    sizer: &mut dyn Sizer,
    score: Score,
    day_done: &(dyn Fn() + Sync),
) -> PackFigures {
    let mut course = Course::new(town, sizer, score);
    for window in 0..town.windows {
        course.pass(window);
        if (window + 1).is_multiple_of(DAY) {
            day_done();
        }
    }
    course.tally.figures(town)
}

// === impl Course ===

impl<'a> Course<'a> {
    fn new(town: &'a Town, sizer: &'a mut dyn Sizer, score: Score) -> Self {
        let pods = town.pods.len();
        Self {
            town,
            sizer,
            score,
            cluster: Cluster::new(town.shapes.clone(), pods),
            tally: Tally::new(pods),
            arena: Arena::new(),
            uses: vec![Use::default(); pods],
            left: vec![0.0; pods],
            is_waiting: vec![false; pods],
            was_put_off: vec![false; pods],
            budgets: vec![0; town.workloads.len()],
            moved: Vec::new(),
            wishes: Vec::new(),
            loads: Vec::new(),
        }
    }

    /// One window.
    fn pass(&mut self, window: usize) {
        self.is_waiting.fill(false);
        self.come_and_go(window);
        self.use_cpu(window);
        let (town, cluster, uses) = (self.town, &self.cluster, &self.uses);
        self.sizer.window_passed(&Seen { town, cluster, uses, window });
        self.count(window);
        self.budgets.fill(0);
        self.moved.clear();
        if window >= HISTORY {
            self.resize(window);
            if window.is_multiple_of(consolidate::EVERY) {
                let (sizer, score) = (&*self.sizer, self.score);
                let round = Round { town, sizer, score, window };
                consolidate(&round, &mut self.cluster, &mut self.budgets, &mut self.moved);
            }
        }
        self.charge_moves();
        self.remove_empty(window);
    }

    /// Pods leave, are replaced, and come.
    fn come_and_go(&mut self, window: usize) {
        for pod in 0..self.town.pods.len() {
            let workload = self.town.pods[pod].workload;
            let is_there = self.town.is_there(workload, window);
            if !is_there || self.town.is_replaced(pod, window) {
                self.cluster.remove(pod);
            }
            if is_there && self.cluster.pods[pod].node.is_none() {
                self.arrive(pod, window);
            }
        }
    }

    /// Finds a node for a pod, or has one started, which takes a window.
    fn arrive(&mut self, pod: usize, window: usize) {
        let workload = self.town.pods[pod].workload;
        let request = self.sizer.at_arrival(self.town, workload);
        let ask = Ask { request, memory_mib: self.town.workloads[workload].memory_mib };
        let found = choose(self.town, &self.cluster, workload, ask, self.score, None);
        let number = found.unwrap_or_else(|| self.cluster.add_node(window));
        let is_new = self.cluster.nodes[number].as_ref().is_some_and(|node| node.since == window);
        self.is_waiting[pod] = is_new && window >= HISTORY;
        // What no node can hold stays away, and counts as missed.
        self.cluster.place(pod, number, ask, window);
    }

    /// The seconds of all nodes.
    fn use_cpu(&mut self, window: usize) {
        self.uses.fill(Use::default());
        for number in 0..self.cluster.nodes.len() {
            let Some(node) = &self.cluster.nodes[number] else { continue };
            let mut loads = core::mem::take(&mut self.loads);
            loads.clear();
            loads.extend(node.pods.iter().map(|pod| self.load(*pod, window)));
            let is_history = window < HISTORY;
            let capacity = if is_history { 1e9 } else { cores(node.shape.allocatable()) };
            self.arena.pass(&self.town.noise, capacity, &mut loads);
            for (pod, load) in node.pods.iter().zip(&loads) {
                self.left[*pod] = load.left;
                let sampled =
                    load.used * (1.0 + load.block_spread * self.town.noise.one(load.place));
                self.uses[*pod] = Use {
                    cores: load.used,
                    sampled_cores: sampled.max(0.0),
                    stalled: load.stalled,
                    is_seen: !self.is_waiting[*pod],
                };
                let minutes = &mut self.tally.pods[*pod];
                minutes.broken += load.broken.count_ones();
                minutes.missed += load.missed.count_ones();
            }
            self.loads = loads;
        }
    }

    fn load(&self, pod: usize, window: usize) -> Load {
        let it = self.town.workload_of(pod);
        let wanted = if self.is_waiting[pod] { 0.0 } else { self.town.wanted(pod, window) };
        let mut load = Load {
            block_spread: it.spread.block,
            second_spread: it.spread.second,
            place: noise::place(self.town.seed ^ pod as u64, !(window as u64)),
            weight: cores(self.cluster.pods[pod].request).max(WEIGHT_MIN),
            right: cores(it.declared),
            left: self.left[pod],
            ..Load::default()
        };
        match it.kind {
            Kind::Batch => {
                load.left += wanted * 300.0;
                load.threads = if self.is_waiting[pod] { 0.0 } else { it.threads };
            }
            Kind::Service | Kind::Riser => {
                let is_new = self.cluster.pods[pod].since == window && window > 0;
                let startup = if is_new { STARTUP_CORE_S / 300.0 } else { 0.0 };
                load.mean = wanted + startup;
            }
        }
        load
    }

    /// What the sizer wishes: what is less first, since it makes room.
    fn resize(&mut self, window: usize) {
        let mut wishes = core::mem::take(&mut self.wishes);
        wishes.clear();
        let (town, cluster, uses) = (self.town, &self.cluster, &self.uses);
        self.sizer.decide(&Seen { town, cluster, uses, window }, &mut wishes);
        for is_less in [true, false] {
            for wish in &wishes {
                let before = self.cluster.pods[wish.pod].request;
                if (wish.request < before) == is_less {
                    self.carry_out(wish);
                }
            }
        }
        self.wishes = wishes;
    }

    fn carry_out(&mut self, wish: &Wish) {
        if self.cluster.resize(wish.pod, wish.request) {
            self.was_put_off[wish.pod] = false;
            self.tally.changes += 1;
            return;
        }
        self.tally.refused += 1;
        if !wish.or_move {
            return;
        }
        let workload = self.town.pods[wish.pod].workload;
        let at_once = (self.town.workloads[workload].replicas / 2).max(1);
        if self.was_put_off[wish.pod] && self.budgets[workload] < at_once {
            // It comes back in the next window, wherever there is room.
            self.cluster.remove(wish.pod);
            self.budgets[workload] += 1;
            self.moved.push(wish.pod);
            self.was_put_off[wish.pod] = false;
        } else {
            self.was_put_off[wish.pod] = true;
        }
    }

    /// A pod that is moved is not there for a while.
    fn charge_moves(&mut self) {
        for pod in &self.moved {
            let minutes = &mut self.tally.pods[*pod];
            minutes.broken += MOVE_MINUTES;
            minutes.missed += MOVE_MINUTES;
        }
        self.tally.moves += self.moved.len() as u64;
    }

    /// Nodes that have been empty for a while are given back.
    fn remove_empty(&mut self, window: usize) {
        for number in 0..self.cluster.nodes.len() {
            let Some(node) = &mut self.cluster.nodes[number] else { continue };
            if !node.pods.is_empty() {
                node.empty_since = None;
                continue;
            }
            let since = *node.empty_since.get_or_insert(window);
            if window >= since + consolidate::DELAY {
                self.cluster.remove_node(number);
            }
        }
    }

    fn count(&mut self, window: usize) {
        if window < HISTORY + SETTLING {
            // Nothing counts yet.
            self.tally = Tally::new(self.town.pods.len());
            return;
        }
        let nodes = self.cluster.count();
        self.tally.windows += 1;
        self.tally.node_windows += nodes;
        self.tally.nodes_most = self.tally.nodes_most.max(nodes);
        for (pod, used) in self.uses.iter().enumerate() {
            let workload = self.town.pods[pod].workload;
            if !self.town.is_there(workload, window) {
                continue;
            }
            let minutes = &mut self.tally.pods[pod];
            minutes.there += MINUTES;
            if !used.is_seen {
                minutes.broken += MINUTES;
                minutes.missed += MINUTES;
                continue;
            }
            self.tally.requested += cores(self.cluster.pods[pod].request);
            self.tally.used += used.cores;
            if self.town.workloads[workload].kind == Kind::Batch {
                self.tally.batch += used.cores;
            }
        }
    }
}
