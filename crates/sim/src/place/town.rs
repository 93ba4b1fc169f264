//! Which pods come to which nodes: recipes, and what a seed makes of them.
//!
//! What is trained on and what is judged by are different recipes: other mixes of pods, other nodes
//! and other loads. Seeds differ as well.

use walras_brain::features::{Criticality, Workload};
use walras_core::rng::Rng;

use super::interference::Shape;
use super::kind::{Kind, Use};
use super::pod::Pod;
use crate::load::draw::normal;

/// Steps in a minute and in an hour.
pub const MINUTE: usize = 6;
/// Steps in an hour.
pub const HOUR: usize = 60 * MINUTE;
/// The first hour fills the nodes, and does not count.
pub const WARM_UP: usize = HOUR;
/// What the kubelet keeps for the system: a sixteenth.
const ALLOCATABLE: f64 = 15.0 / 16.0;
/// Pods that are there at the beginning come within so many steps.
const FILLED_WITHIN: f64 = 120.0;

/// What a town is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Whether models learn from it. What is learned from never judges.
    pub for_training: bool,
    /// How many pods of each kind there are, relative to each other.
    pub mix: [f64; 6],
    /// The sizes of nodes, in turn.
    pub cores: &'static [u32],
    /// The share of what nodes can allocate that pods request.
    pub load: f64,
    /// What pods use of what they request, on average.
    pub use_ratio: f64,
    /// The share of time in which something else on a node is noisy.
    pub noisy: f64,
    /// Whether the hardware's counters can be read, as on bare metal.
    pub has_counters: bool,
    /// The share of nodes that may be taken away.
    pub spot: f64,
}

/// How large and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many nodes.
    pub nodes: usize,
    /// How many hours count, after one that fills the nodes.
    pub hours: usize,
    /// Where randomness starts.
    pub seed: u64,
}

/// Nodes, and the pods that come to them.
#[derive(Clone, Debug)]
pub struct Town {
    /// What it was made of.
    pub recipe: &'static Recipe,
    /// The nodes.
    pub sites: Vec<Site>,
    /// The pods, in the order in which they come.
    pub pods: Vec<Pod>,
    /// How many steps there are.
    pub steps: usize,
    /// Where the randomness of a run starts.
    pub seed: u64,
}

/// A node, as far as nobody can change it.
#[derive(Clone, Debug)]
pub struct Site {
    /// What it has.
    pub shape: Shape,
    /// Where it is.
    pub zone: usize,
    /// Whether it may be taken away, and how likely that is in an hour.
    pub spot_risk: Option<f64>,
    /// What it costs, from 0 to 1.
    pub cost: f64,
    /// When something else on it is noisy, and how.
    pub noise: Vec<Noise>,
}

/// Something on a node that is no pod: a backup, a scan, another tenant of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// From this step on.
    pub from: usize,
    /// Until this one.
    pub until: usize,
    /// What it takes.
    pub take: Use,
}

/// A recipe with nothing out of the ordinary.
const PLAIN: Recipe = Recipe {
    name: "",
    about: "",
    for_training: false,
    mix: [1.0; 6],
    cores: &[16],
    load: 0.7,
    use_ratio: 0.6,
    noisy: 0.25,
    has_counters: true,
    spot: 0.0,
};

/// All towns.
pub const TOWNS: &[Recipe] = &[
    Recipe {
        name: "shop",
        about: "requests that somebody waits for, messages, and some of everything",
        mix: [2.0, 1.0, 1.0, 1.0, 2.0, 5.0],
        ..PLAIN
    },
    Recipe {
        name: "shop-vm",
        about: "the same on virtual machines without hardware counters",
        mix: [2.0, 1.0, 1.0, 1.0, 2.0, 5.0],
        has_counters: false,
        ..PLAIN
    },
    Recipe {
        name: "data",
        about: "streams through memory, disks, and few requests, on nodes of two sizes",
        mix: [2.0, 2.0, 4.0, 3.0, 1.0, 2.0],
        cores: &[32, 16],
        load: 0.75,
        use_ratio: 0.5,
        ..PLAIN
    },
    Recipe {
        name: "train",
        about: "some of everything, on nodes of three sizes",
        for_training: true,
        mix: [3.0, 2.0, 2.0, 2.0, 2.0, 3.0],
        cores: &[16, 8, 32],
        load: 0.65,
        use_ratio: 0.65,
        noisy: 0.35,
        spot: 0.15,
        ..PLAIN
    },
    Recipe {
        name: "train-vm",
        about: "the same without hardware counters",
        for_training: true,
        mix: [3.0, 2.0, 2.0, 2.0, 2.0, 3.0],
        cores: &[16, 8, 32],
        load: 0.65,
        use_ratio: 0.65,
        noisy: 0.35,
        has_counters: false,
        spot: 0.15,
    },
    Recipe {
        name: "train-full",
        about: "the same, fuller",
        for_training: true,
        mix: [2.0, 2.0, 3.0, 2.0, 2.0, 3.0],
        cores: &[16, 8, 32],
        load: 0.85,
        use_ratio: 0.75,
        noisy: 0.35,
        spot: 0.15,
        ..PLAIN
    },
];

/// Requests, and how many of ten pods have them.
const REQUESTS: [u64; 10] = [250, 250, 500, 500, 500, 1000, 1000, 1000, 2000, 4000];
/// Of what is requested, so much is by services; the others are jobs.
const SERVICES: f64 = 0.75;
const SERVICE_HOURS: f64 = 2.0;
const JOB_HOURS: f64 = 0.4;
/// Nobody runs for less than five minutes.
const SHORTEST: usize = 5 * MINUTE;
/// How long noise lasts on average.
const NOISE_STEPS: f64 = 40.0 * 6.0;
/// So many pods of ten say nothing about themselves.
const SILENT_OF_TEN: u64 = 3;
const ZONES: u64 = 3;

impl Recipe {
    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TOWNS.iter().find(|recipe| recipe.name == name)
    }

    /// The town that a seed makes of it.
    #[must_use]
    pub fn build(&'static self, size: &Size) -> Town {
        let mut rng = Rng::from_seed(size.seed.wrapping_mul(0x9E37_79B9).wrapping_add(17));
        let steps = WARM_UP + size.hours * HOUR;
        let sites: Vec<Site> =
            (0..size.nodes).map(|place| self.site(place, steps, &mut rng)).collect();
        let room: f64 = sites.iter().map(|site| site.shape.allocatable_milli()).sum();
        let mut pods = Vec::new();
        let shares = [(SERVICES, SERVICE_HOURS, true), (1.0 - SERVICES, JOB_HOURS, false)];
        for (share, hours, is_service) in shares {
            let wanted = room * self.load * share;
            let mean_request = as_number(REQUESTS.iter().sum::<u64>()) / 10.0;
            let mean_steps = hours * as_number(HOUR as u64);
            let mut there = 0.0;
            while there < wanted {
                let from = whole(rng.unit() * FILLED_WITHIN);
                let pod = self.pod(from, mean_steps, is_service, &mut rng);
                there += as_number(pod.cpu_milli);
                pods.push(pod);
            }
            // As many come as go.
            let apart = mean_steps * mean_request / wanted.max(1.0);
            let mut at = FILLED_WITHIN;
            loop {
                at += exponential(apart, &mut rng);
                let from = whole(at);
                if from >= steps {
                    break;
                }
                pods.push(self.pod(from, mean_steps, is_service, &mut rng));
            }
        }
        pods.sort_by_key(|pod| (pod.from, pod.seed));
        Town { recipe: self, sites, pods, steps, seed: rng.next_u64() }
    }

    fn site(&self, place: usize, steps: usize, rng: &mut Rng) -> Site {
        let shape = Shape::of(f64::from(self.cores[place % self.cores.len()]));
        let is_spot = rng.unit() < self.spot;
        let risk = 0.02 + 0.3 * rng.unit();
        let cost = if is_spot { 0.1 + 0.3 * rng.unit() } else { 0.3 + 0.6 * rng.unit() };
        // The first zone has half of the nodes.
        let zone = usize::try_from(rng.below(ZONES + 1).saturating_sub(1)).unwrap_or(0);
        let mut noise = Vec::new();
        let quiet = NOISE_STEPS * (1.0 - self.noisy) / self.noisy.max(0.01);
        let mut at = whole(exponential(quiet, rng));
        while at < steps {
            let until = at + whole(exponential(NOISE_STEPS, rng)).max(MINUTE);
            noise.push(Noise { from: at, until, take: hog(&shape, rng) });
            at = until + whole(exponential(quiet, rng)).max(MINUTE);
        }
        Site { shape, zone, spot_risk: is_spot.then_some(risk), cost, noise }
    }

    fn pod(&self, from: usize, mean_steps: f64, is_service: bool, rng: &mut Rng) -> Pod {
        let kind = self.kind(is_service, rng);
        let cpu_milli = REQUESTS[usize::try_from(rng.below(10)).unwrap_or(0)];
        let gib_per_core = match kind {
            Kind::Memory | Kind::Cache => 4.0,
            Kind::Cpu | Kind::Disk | Kind::Network | Kind::Latency => 2.2,
        };
        let memory = as_number(cpu_milli) / 1000.0 * 1024.0 * gib_per_core * spread(0.4, rng);
        let memory_mib = whole(memory).max(64) as u64;
        let mean_cores =
            as_number(cpu_milli) / 1000.0 * (self.use_ratio * spread(0.5, rng)).clamp(0.05, 1.8);
        let is_limited = rng.below(10) < 4;
        let limit_cores =
            is_limited.then(|| as_number(cpu_milli) / 1000.0 * (1.0 + 2.0 * rng.unit()));
        let silent = rng.below(10) < SILENT_OF_TEN;
        let (workload, criticality) = match silent {
            true => (Workload::Unknown, Criticality::Unknown),
            false => (kind.workload(), criticality(kind, is_service, rng)),
        };
        Pod {
            kind,
            cpu_milli,
            memory_mib,
            workload,
            criticality,
            from,
            steps: whole(exponential(mean_steps, rng)).max(SHORTEST),
            mean_cores,
            limit_cores,
            swing: if is_service { 0.4 * rng.unit() } else { 0.0 },
            swing_steps: as_number(HOUR as u64) * (1.0 + 2.0 * rng.unit()),
            phase: rng.unit(),
            intensity: spread(0.4, rng),
            used_mib: memory * (0.35 + 0.75 * rng.unit()),
            seed: rng.next_u64(),
        }
    }

    fn kind(&self, is_service: bool, rng: &mut Rng) -> Kind {
        // Requests that somebody waits for are never a job.
        let weight = |place: usize| match Kind::ALL[place] {
            Kind::Latency if !is_service => 0.0,
            Kind::Cpu | Kind::Cache | Kind::Memory | Kind::Disk | Kind::Network | Kind::Latency => {
                self.mix[place]
            }
        };
        let total: f64 = (0..Kind::ALL.len()).map(weight).sum();
        let mut at = rng.unit() * total;
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            at -= weight(place);
            if at < 0.0 {
                return kind;
            }
        }
        Kind::Cpu
    }
}

impl Shape {
    /// What a machine with so many cores has, as those of cloud providers.
    #[must_use]
    pub fn of(cores: f64) -> Self {
        Self {
            cores,
            memory_mib: cores * 4096.0,
            bandwidth_gbps: cores * 4.0,
            cache_mib: cores * 2.0,
            iops: cores * 1000.0,
            packets: cores * 60_000.0,
        }
    }

    /// The CPU that pods can request.
    #[must_use]
    pub fn allocatable_milli(&self) -> f64 {
        self.cores * 1000.0 * ALLOCATABLE
    }

    /// The memory that pods can request.
    #[must_use]
    pub fn allocatable_mib(&self) -> f64 {
        self.memory_mib * ALLOCATABLE
    }
}

impl Site {
    /// What is taken of it by what is no pod.
    #[must_use]
    pub fn system(&self, step: usize) -> Use {
        let idle = Use { cores: self.shape.cores / 64.0, ..Use::NOTHING };
        let now = self.noise.iter().find(|noise| (noise.from..noise.until).contains(&step));
        now.map_or(idle, |noise| idle.and(noise.take))
    }
}

/// Something that takes a good part of one resource.
fn hog(shape: &Shape, rng: &mut Rng) -> Use {
    let part = 0.3 + 0.5 * rng.unit();
    let little = Use { cores: shape.cores * 0.03, ..Use::NOTHING };
    match rng.below(4) {
        0 => Use { cores: shape.cores * part * 0.4, ..Use::NOTHING },
        1 => {
            let bandwidth_gbps = shape.bandwidth_gbps * part;
            Use { bandwidth_gbps, cache_mib: shape.cache_mib * part, ..little }
        }
        2 => Use { iops: shape.iops * part, ..little },
        _ => Use { packets: shape.packets * part, ..little },
    }
}

fn criticality(kind: Kind, is_service: bool, rng: &mut Rng) -> Criticality {
    match (kind, is_service) {
        (Kind::Latency, _) if rng.below(10) < 6 => Criticality::High,
        (_, true) => Criticality::Medium,
        (_, false) => Criticality::Low,
    }
}

/// A factor with a mean of 1 (log-normal).
fn spread(sigma: f64, rng: &mut Rng) -> f64 {
    libm::exp(sigma * normal(rng) - sigma * sigma / 2.0)
}

fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -mean * libm::log(1.0 - rng.unit())
}

#[expect(clippy::cast_precision_loss, reason = "steps and millicores are far below 2^53")]
fn as_number(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "steps of a few days")]
fn whole(value: f64) -> usize {
    value.clamp(0.0, 1e9) as usize
}
