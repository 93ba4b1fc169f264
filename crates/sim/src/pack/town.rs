//! The built-in towns: workloads as clusters have them, drawn from a seed.
//!
//! `town` is what policies are judged by and `town-train` what constants may be chosen on. They
//! differ in their seeds, in the size of their nodes, in what there is how much of, and in what
//! owners declare, so that nothing that fits the one by chance fits the other.

use walras_core::rng::Rng;
use walras_core::units::Millicores;

use super::cluster::NodeShape;
use super::noise::Noise;
use super::pattern::Pattern;
use super::recorded::Recorded;
use super::workload::{DAY, HOUR, Kind, Spread, Town, Workload};
use crate::scenario::trace::Trace;

/// What a town is made of.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// The name a user types.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// The size of a node.
    pub node_cores: u32,
    /// How many of a hundred workloads are steady, bursty, risers, idle and batch; the others
    /// follow the day.
    shares: [f64; 5],
    /// The middle of what a replica uses at its peak, in cores.
    peak_cores: f64,
    /// The middle of what owners declare over the peak.
    declared: f64,
    /// How many of a hundred services grow by half within a week.
    growing: f64,
}

/// Every built-in town; the first is the one for judging.
pub const TOWNS: &[Recipe] = &[
    Recipe {
        name: "town",
        about: "services, risers, jobs and idle pods on nodes of 16 cores, for judging",
        node_cores: 16,
        shares: [18.0, 12.0, 8.0, 8.0, 10.0],
        peak_cores: 0.28,
        declared: 1.35,
        growing: 3.0,
    },
    Recipe {
        name: "town-train",
        about: "the same in other proportions on nodes of 32 cores, for choosing constants",
        node_cores: 32,
        shares: [25.0, 8.0, 4.0, 12.0, 6.0],
        peak_cores: 0.45,
        declared: 1.6,
        growing: 1.0,
    },
];

/// How large it is, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many nodes what is declared needs, about.
    pub nodes: u32,
    /// How many windows there are in all.
    pub windows: usize,
    /// Where random numbers start.
    pub seed: u64,
    /// Whether pods take memory, and nodes have a bounded one.
    pub with_memory: bool,
}

/// What is kept for the system on a node, and what DaemonSets take.
const RESERVED: Millicores = Millicores::new(300);
const DAEMONS: Millicores = Millicores::new(500);
/// Kubernetes' bound on pods, less those of DaemonSets.
const PODS_MAX: usize = 104;
/// What a node has of memory for each core, in MiB.
const MEMORY_PER_CORE_MIB: u64 = 4096;
/// Into how many windows of a recording one may begin: those of four weeks.
const OFFSETS: u64 = 28 * 288;
/// Packing by requests leaves about this of a node free.
const FILLED: f64 = 0.95;

// === impl Recipe ===

impl Recipe {
    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TOWNS.iter().find(|recipe| recipe.name == name)
    }

    /// Its nodes.
    #[must_use]
    pub fn shape(&self, with_memory: bool) -> NodeShape {
        let memory_mib = u64::from(self.node_cores) * MEMORY_PER_CORE_MIB * 9 / 10;
        NodeShape {
            cpu: Millicores::from_cores(self.node_cores),
            reserved: RESERVED,
            daemons: DAEMONS,
            memory_mib: with_memory.then_some(memory_mib),
            pods_max: PODS_MAX,
        }
    }

    /// A town of this kind. Where there are traces, its services follow them in turn, each from
    /// another moment on, scaled to its own peak.
    #[must_use]
    pub fn build(&self, size: &Size, traces: &[Trace]) -> Town {
        let mut rng = Rng::from_seed(size.seed ^ 0x70_776E);
        let shape = self.shape(size.with_memory);
        let room = super::rules::cores(shape.allocatable()) * f64::from(size.nodes) * FILLED;
        let (mut workloads, mut patterns) = (Vec::new(), Vec::new());
        let mut declared = 0.0;
        while declared < room {
            let (workload, pattern) = self.workload(&mut rng, size.windows);
            declared += super::rules::cores(workload.declared) * f64::from(workload.replicas);
            workloads.push(workload);
            patterns.push(pattern);
        }
        let noise = Noise::new();
        let recorded: Vec<Recorded> = traces.iter().map(Recorded::of).collect();
        let level = |place: usize, window: usize| {
            let pattern: &Pattern = &patterns[place];
            let is_service = workloads[place].kind == Kind::Service;
            match recorded.get(place % recorded.len().max(1)).filter(|_| is_service) {
                Some(trace) => {
                    let offset = usize::try_from(pattern.seed % OFFSETS).unwrap_or(0);
                    pattern.peak() * trace.at(offset, window)
                }
                None => pattern.at(&noise, window),
            }
        };
        let levels = Town::levels(workloads.len(), size.windows, &level);
        Town::new(self.name, size.seed, workloads, vec![shape], levels)
    }

    fn workload(&self, rng: &mut Rng, windows: usize) -> (Workload, Pattern) {
        let peak = between(rng, self.peak_cores, 0.9).clamp(0.02, 4.0);
        let seed = rng.next_u64();
        let mut at = rng.unit() * 100.0;
        let mut class = 0;
        while class < self.shares.len() && at >= self.shares[class] {
            at -= self.shares[class];
            class += 1;
        }
        let pattern = Pattern { seed, ..self.pattern(rng, class, peak) };
        let kind = match class {
            2 => Kind::Riser,
            4 => Kind::Batch,
            _ => Kind::Service,
        };
        let over = between(rng, self.declared, 0.5).clamp(0.5, 6.0);
        let declared = match class {
            // Nobody measured what an idle pod needs.
            3 => 0.1 + 0.4 * rng.unit(),
            // What it does in a day, done in eight hours.
            4 => peak,
            _ => peak * over,
        };
        let replicas = match rng.below(10) {
            0..3 => 1,
            3..5 => 2,
            5..7 => 3,
            7..9 => 4 + rng.below(5),
            _ => 9 + rng.below(12),
        };
        let (from, until) = if rng.below(10) == 0 { visit(rng, windows) } else { (0, windows) };
        let rollout_every = if rng.below(5) == 0 { 0 } else { DAY * (1 + below(rng, 7)) };
        let workload = Workload {
            kind,
            replicas: u32::try_from(replicas).unwrap_or(1),
            declared: nice(declared),
            memory_mib: 64 + mib(declared * 2500.0 * (0.5 + rng.unit())),
            threads: if kind == Kind::Batch { (declared * 2.0).max(1.0) } else { 0.0 },
            spread: Spread {
                window: 0.05 + 0.1 * rng.unit(),
                block: 0.05 + 0.15 * rng.unit(),
                // Requests of ten milliseconds that differ as much as they take, a core's worth.
                second: (0.02 / peak.max(0.08)).sqrt().min(0.45),
            },
            from,
            until,
            rollout_every,
            rollout_first: 8 * HOUR + below(rng, 10 * HOUR),
        };
        (workload, pattern)
    }

    /// The load of a class of workloads whose peak is about `peak`.
    fn pattern(&self, rng: &mut Rng, class: usize, peak: f64) -> Pattern {
        let still = Pattern {
            low: peak,
            daily: 0.0,
            peak_hour: 14.0,
            weekend: 1.0,
            monday: 0.0,
            burst: 0.0,
            bursts_a_day: 0.0,
            wander: 0.03 + 0.05 * rng.unit(),
            growth: 0.04 * (rng.unit() - 0.4),
            seed: 0,
        };
        let is_growing = rng.unit() * 100.0 < self.growing;
        let growth = if is_growing { 0.5 } else { still.growth };
        // Most people live here, and some on the other side.
        let peak_hour = if rng.below(10) < 7 { 12.0 + 5.0 * rng.unit() } else { 24.0 * rng.unit() };
        match class {
            0 => still,
            1 => {
                let low = peak * (0.15 + 0.2 * rng.unit());
                let bursts_a_day = 0.5 + 3.0 * rng.unit();
                Pattern { low, burst: peak - low, bursts_a_day, growth, ..still }
            }
            2 => {
                let low = peak * (0.1 + 0.15 * rng.unit());
                let daily = low * rng.unit();
                Pattern { low, daily, peak_hour, monday: peak - low, weekend: 0.3, ..still }
            }
            3 => Pattern { low: 0.002 + 0.008 * rng.unit(), ..still },
            // A queue that is filled at night.
            4 => {
                let daily = peak * (1.2 + 0.8 * rng.unit());
                Pattern { low: 0.0, daily, peak_hour: 1.0 + 5.0 * rng.unit(), ..still }
            }
            _ => {
                let low = peak * (0.15 + 0.4 * rng.unit());
                let weekend = 0.35 + 0.65 * rng.unit();
                let bursts_a_day = if rng.below(4) == 0 { 0.3 } else { 0.0 };
                let (daily, burst) = (peak - low, peak * 0.6);
                Pattern { low, daily, peak_hour, weekend, burst, bursts_a_day, growth, ..still }
            }
        }
    }
}

/// A log-normal number around a middle.
fn between(rng: &mut Rng, middle: f64, sigma: f64) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - rng.unit())).sqrt();
    let normal = radius * libm::cos(core::f64::consts::TAU * rng.unit());
    middle * libm::exp(sigma * normal)
}

/// From when to when somebody is there who does not stay.
fn visit(rng: &mut Rng, windows: usize) -> (usize, usize) {
    let from = below(rng, windows);
    (from, (from + 6 * HOUR + below(rng, 4 * DAY)).min(windows))
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap_or(0)
}

/// As people write it: in steps of 10m, 50m, 100m or 250m.
fn nice(cores: f64) -> Millicores {
    let milli = super::rules::millicores_nearest(cores).max(Millicores::new(10));
    let step = match milli.get() {
        0..100 => 10,
        100..500 => 50,
        500..1500 => 100,
        _ => 250,
    };
    milli.round_up_to(Millicores::new(step))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
fn mib(amount: f64) -> u64 {
    amount.clamp(0.0, 1e9) as u64
}
