//! A pod: what it asks for, what it is going to want, and when it comes and goes.
//!
//! What it wants at an age depends on nothing but its seed, so it is the same under every rule and
//! on every node.

use core::f64::consts::TAU;

use walras_brain::features::{Criticality, PodFacts, Workload};
use walras_core::rng::Rng;

use super::kind::{Kind, Use};
use crate::load::draw::normal;

/// A pod that comes and goes.
#[derive(Clone, Debug)]
pub struct Pod {
    /// What it spends its time on.
    pub kind: Kind,
    /// The CPU that it requests.
    pub cpu_milli: u64,
    /// The memory that it requests.
    pub memory_mib: u64,
    /// What its owner says that it is.
    pub workload: Workload,
    /// How much its owner says depends on it.
    pub criticality: Criticality,
    /// The step in which it comes.
    pub from: usize,
    /// How many steps it runs.
    pub steps: usize,
    /// The CPU that it uses on average.
    pub mean_cores: f64,
    /// The most that it may use, if it has a limit.
    pub limit_cores: Option<f64>,
    /// How far its use swings around the mean, as a share of it, and how long a swing takes.
    pub swing: f64,
    /// In steps.
    pub swing_steps: f64,
    /// Where in its swing it begins, from 0 to 1.
    pub phase: f64,
    /// How much it takes beside CPU, in units of what its kind takes.
    pub intensity: f64,
    /// The memory that it uses.
    pub used_mib: f64,
    /// Where its randomness starts.
    pub seed: u64,
}

/// What changes while a pod runs.
#[derive(Clone, Debug)]
pub struct Life {
    rng: Rng,
    drift: f64,
}

/// What a pod wants in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wish {
    /// What it would take if it were alone.
    pub take: Use,
    /// The share of its CPU that its own limit keeps from it.
    pub throttled: f64,
}

/// How much of the drift is left after a step of ten seconds, and what is added: two minutes, and a
/// spread of a quarter.
const KEPT: f64 = 0.92;
const ADDED: f64 = 0.1;

impl Pod {
    /// What is known of it when it is to be placed.
    #[must_use]
    pub const fn facts(&self) -> PodFacts {
        PodFacts {
            cpu_milli: self.cpu_milli,
            memory_bytes: self.memory_mib << 20,
            workload: self.workload,
            criticality: self.criticality,
        }
    }

    /// Its beginning.
    #[must_use]
    pub const fn life(&self) -> Life {
        Life { rng: Rng::from_seed(self.seed), drift: 0.0 }
    }

    /// What it wants at an age, in steps. To be asked once for every step, in their order.
    pub fn wish(&self, age: f64, life: &mut Life) -> Wish {
        life.drift = KEPT * life.drift + ADDED * normal(&mut life.rng);
        let swing = 1.0 + self.swing * libm::sin(TAU * (age / self.swing_steps + self.phase));
        let cores = (self.mean_cores * swing * libm::exp(life.drift)).max(0.001);
        let allowed = self.limit_cores.map_or(cores, |limit| cores.min(limit));
        let take = self.kind.appetite().times(allowed * self.intensity);
        Wish { take: Use { cores: allowed, ..take }, throttled: 1.0 - allowed / cores }
    }
}
