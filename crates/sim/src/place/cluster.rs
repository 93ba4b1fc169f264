//! The nodes of a town while time passes: who is where, what they take, and what that does to them.
//!
//! Placement is by requests, as in Kubernetes: a node never has more of them than it can allocate.
//! What pods take is another matter.

use walras_brain::features::NodeFacts;
use walras_core::rng::Rng;

use super::interference::{Meets, slowdown};
use super::kind::Use;
use super::pod::{Life, Wish};
use super::telemetry;
use super::town::{Site, Town};

/// The nodes.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// In the order of the town's sites.
    pub nodes: Vec<Node>,
    rng: Rng,
}

/// A node and its pods.
#[derive(Clone, Debug)]
pub struct Node {
    /// Who is here.
    pub guests: Vec<Guest>,
    /// What they request.
    pub requested_milli: u64,
    /// What they request.
    pub requested_mib: u64,
    /// What it measured of itself when it did so last.
    pub facts: NodeFacts,
    /// What its CPU and memory were used to, in shares, the latest last.
    pub history: History,
}

/// A pod on a node.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Which.
    pub pod: usize,
    /// Since when.
    pub since: usize,
    /// What it wants now.
    pub wish: Wish,
    /// How many times slower it is than alone.
    pub slowdown: f64,
    /// Whether the node measured itself since it came.
    pub is_seen: bool,
    life: Life,
}

/// The last quarter of an hour of a node, as load-watcher keeps it.
#[derive(Clone, Debug, Default)]
pub struct History {
    cpu: Vec<f64>,
    memory: Vec<f64>,
}

/// The mean and the standard deviation of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
}

/// Steps in a quarter of an hour.
const KEPT: usize = 90;
/// What the system's own processes weigh, in requested cores.
const SYSTEM_WEIGHT: f64 = 1.0;

impl Cluster {
    /// Empty nodes.
    #[must_use]
    pub fn new(town: &Town) -> Self {
        let mut cluster = Self {
            nodes: town.sites.iter().map(|_| Node::default()).collect(),
            rng: Rng::from_seed(town.seed),
        };
        cluster.step(town, 0);
        cluster
    }

    /// Which nodes have room for a pod, by requests.
    pub fn with_room(&self, town: &Town, pod: usize, found: &mut Vec<usize>) {
        let pod = &town.pods[pod];
        found.clear();
        for (place, (node, site)) in self.nodes.iter().zip(&town.sites).enumerate() {
            let cpu = as_number(node.requested_milli + pod.cpu_milli);
            let memory = as_number(node.requested_mib + pod.memory_mib);
            if cpu <= site.shape.allocatable_milli() && memory <= site.shape.allocatable_mib() {
                found.push(place);
            }
        }
    }

    /// Puts a pod onto a node that has room.
    pub fn bind(&mut self, town: &Town, pod: usize, node: usize, step: usize) {
        let plan = &town.pods[pod];
        let node = &mut self.nodes[node];
        node.requested_milli += plan.cpu_milli;
        node.requested_mib += plan.memory_mib;
        node.guests.push(Guest {
            pod,
            since: step,
            wish: Wish::default(),
            slowdown: 1.0,
            is_seen: false,
            life: plan.life(),
        });
    }

    /// Removes pods that are done.
    pub fn leave(&mut self, town: &Town, step: usize) {
        for node in &mut self.nodes {
            let (mut cpu, mut memory) = (0, 0);
            node.guests.retain(|guest| {
                let plan = &town.pods[guest.pod];
                let stays = step < guest.since + plan.steps;
                if !stays {
                    cpu += plan.cpu_milli;
                    memory += plan.memory_mib;
                }
                stays
            });
            node.requested_milli -= cpu;
            node.requested_mib -= memory;
        }
    }

    /// Lets a step pass on every node.
    pub fn step(&mut self, town: &Town, step: usize) {
        for (node, site) in self.nodes.iter_mut().zip(&town.sites) {
            node.step(town, site, step, &mut self.rng);
        }
        telemetry::add_zones(town, &mut self.nodes);
    }
}

// === impl Node ===

impl Default for Node {
    fn default() -> Self {
        Self {
            guests: Vec::new(),
            requested_milli: 0,
            requested_mib: 0,
            facts: NodeFacts::UNKNOWN,
            history: History::default(),
        }
    }
}

impl Node {
    fn step(&mut self, town: &Town, site: &Site, step: usize, rng: &mut Rng) {
        let mut all = site.system(step);
        let mut used_mib = site.shape.memory_mib / 32.0;
        for guest in &mut self.guests {
            let plan = &town.pods[guest.pod];
            let age = as_number((step - guest.since) as u64);
            guest.wish = plan.wish(age, &mut guest.life);
            guest.is_seen = true;
            all = all.and(guest.wish.take);
            used_mib += plan.used_mib;
        }
        let got = shares(town, &self.guests, site, step);
        for (guest, got) in self.guests.iter_mut().zip(&got) {
            let own = guest.wish.take;
            guest.slowdown = slowdown(
                town.pods[guest.pod].kind,
                &Meets::of(own, all, *got, site.shape.cores),
                &site.shape,
            );
        }
        let seen = telemetry::Seen { all, used_mib, guests: &self.guests };
        self.facts = telemetry::facts(town.recipe, site, &seen, rng);
        let cpu = (all.cores / site.shape.cores).min(1.0);
        self.history.push(cpu, (used_mib / site.shape.memory_mib).min(1.0));
    }

    /// What everybody takes, the system included, at the last step.
    #[must_use]
    pub fn taken(&self, site: &Site, step: usize) -> Use {
        let system = site.system(step);
        self.guests.iter().fold(system, |all, guest| all.and(guest.wish.take))
    }

    /// What a pod did to everybody on its node at the last step, itself included: by how much the
    /// squares of slowdowns are larger for its being there. Squares, so that bad ones count more.
    #[must_use]
    pub fn harm(&self, town: &Town, site: &Site, step: usize, pod: usize) -> f64 {
        let others: Vec<Guest> =
            self.guests.iter().filter(|guest| guest.pod != pod).cloned().collect();
        let all = others.iter().fold(site.system(step), |all, guest| all.and(guest.wish.take));
        let got = shares(town, &others, site, step);
        let without = others.iter().zip(&got).map(|(guest, got)| {
            let meets = Meets::of(guest.wish.take, all, *got, site.shape.cores);
            let slow = slowdown(town.pods[guest.pod].kind, &meets, &site.shape);
            slow * slow
        });
        let with = self.guests.iter().map(|guest| guest.slowdown * guest.slowdown);
        // Alone, the pod itself would have had a slowdown of 1.
        with.sum::<f64>() - without.sum::<f64>() - 1.0
    }
}

impl Meets {
    /// What a pod meets that takes `own` where everybody takes `all`.
    #[must_use]
    pub fn of(own: Use, all: Use, got: f64, cores: f64) -> Self {
        Self { own, all, got, busy: ((all.cores - own.cores) / cores).clamp(0.0, 1.0) }
    }
}

/// The share of what it wants that each guest gets: by weight, and nobody more than it wants.
fn shares(town: &Town, guests: &[Guest], site: &Site, step: usize) -> Vec<f64> {
    let system = site.system(step).cores;
    let wants: f64 = guests.iter().map(|guest| guest.wish.take.cores).sum();
    let mut got = vec![1.0; guests.len()];
    if wants + system <= site.shape.cores {
        return got;
    }
    let weight = |guest: &Guest| as_number(town.pods[guest.pod].cpu_milli) / 1000.0;
    let mut served = vec![false; guests.len()];
    let (mut left, mut system_left) = (site.shape.cores, true);
    loop {
        let waiting = guests.iter().zip(&served).filter(|(_, served)| !**served);
        let mut weights: f64 = waiting.map(|(guest, _)| weight(guest)).sum();
        weights += if system_left { SYSTEM_WEIGHT } else { 0.0 };
        let pace = left / weights.max(1e-9);
        let mut again = false;
        for (guest, served) in guests.iter().zip(&mut served).filter(|(_, served)| !**served) {
            if guest.wish.take.cores <= pace * weight(guest) {
                *served = true;
                left -= guest.wish.take.cores;
                again = true;
            }
        }
        if system_left && system <= pace * SYSTEM_WEIGHT {
            system_left = false;
            left -= system;
            again = true;
        }
        if !again {
            for ((guest, served), got) in guests.iter().zip(&served).zip(&mut got) {
                if !served {
                    *got = (pace * weight(guest) / guest.wish.take.cores).min(1.0);
                }
            }
            return got;
        }
    }
}

// === impl History ===

impl History {
    fn push(&mut self, cpu: f64, memory: f64) {
        for (values, value) in [(&mut self.cpu, cpu), (&mut self.memory, memory)] {
            if values.len() == KEPT {
                values.remove(0);
            }
            values.push(value);
        }
    }

    /// Of CPU.
    #[must_use]
    pub fn cpu(&self) -> Level {
        level(&self.cpu)
    }

    /// Of memory.
    #[must_use]
    pub fn memory(&self) -> Level {
        level(&self.memory)
    }
}

fn level(values: &[f64]) -> Level {
    let number = as_number(values.len().max(1) as u64);
    let mean = values.iter().sum::<f64>() / number;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / number;
    Level { mean, deviation: variance.sqrt() }
}

#[expect(clippy::cast_precision_loss, reason = "steps and requests are far below 2^53")]
pub(super) fn as_number(value: u64) -> f64 {
    value as f64
}
