//! How much slower a pod is beside the others of its node.
//!
//! Time is spent on CPU, cache, memory, disk and network, in shares that depend on the kind of pod
//! ([`super::kind`]); each share is stretched by how much all pods together take of that resource,
//! compared with the pod alone. The stretches are fitted to what the benchmark `interference`
//! measured with pairs of processes on a machine of two CPUs, [`MEASURED`].
//!
//! Measured: pairs. Guessed, since no pair can tell: how stretches grow with many neighbours up to
//! and beyond what the machine has, what larger machines have per core, and how the probability of
//! waiting for a CPU falls with the number of CPUs (Sakasegawa's approximation of a queue).

use super::kind::{Kind, Times, Use};

/// What a node has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// CPUs.
    pub cores: f64,
    /// Memory.
    pub memory_mib: f64,
    /// Memory bandwidth, in GB/s.
    pub bandwidth_gbps: f64,
    /// The last cache.
    pub cache_mib: f64,
    /// Operations of the disk per second.
    pub iops: f64,
    /// Packets per second.
    pub packets: f64,
}

/// What a pod meets on its node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meets {
    /// What it takes itself, as if it were alone.
    pub own: Use,
    /// What everybody on the node would take, the pod and the system included.
    pub all: Use,
    /// The share of the CPU it wants that it gets.
    pub got: f64,
    /// The share of the CPUs that others keep busy.
    pub busy: f64,
}

/// The slowdown of the row beside the column, each on a CPU of its own: the least, the median and
/// the largest of three trials, in the order of [`Kind::ALL`] without the last. From
/// `docs/performance.md`, measured on a busy machine.
pub const MEASURED: [[[f64; 3]; 5]; 5] = [
    [
        [0.99, 1.07, 1.08],
        [0.98, 1.02, 1.02],
        [1.01, 1.01, 1.05],
        [0.98, 1.00, 1.22],
        [1.01, 1.02, 1.24],
    ],
    [
        [0.73, 1.02, 1.16],
        [0.98, 1.00, 1.30],
        [1.00, 1.10, 1.54],
        [0.81, 0.95, 1.06],
        [0.66, 0.78, 1.21],
    ],
    [
        [0.97, 1.02, 1.05],
        [1.01, 1.03, 1.11],
        [1.08, 1.11, 1.28],
        [0.97, 0.99, 1.02],
        [0.98, 0.99, 1.04],
    ],
    [
        [0.93, 1.34, 2.42],
        [0.93, 1.92, 2.75],
        [1.12, 1.24, 2.20],
        [0.76, 0.86, 1.70],
        [1.14, 1.25, 2.33],
    ],
    [
        [0.98, 1.00, 1.01],
        [0.98, 0.99, 1.01],
        [0.98, 1.01, 1.06],
        [0.90, 0.99, 1.05],
        [0.82, 0.88, 1.45],
    ],
];

/// `disk` beside `disk` and `network` beside `network` once more, later and with less scatter.
pub const MEASURED_AGAIN: [(Kind, [f64; 3]); 2] =
    [(Kind::Disk, [1.52, 1.52, 1.75]), (Kind::Network, [1.09, 1.22, 1.32])];

/// The cache that a stream takes for each core, in MiB: with 8 MiB of somebody else's on a cache of
/// 32, that one is slowed down as much as `cache` beside `memory` was.
pub const STREAM_CACHE_MIB: f64 = 26.3;
/// How much a memory access is slower than one that the last cache answers.
const MISS_COST: f64 = 3.0;
/// Others on other CPUs take a little of everybody's speed: `cpu` beside `cpu`.
const SHARED_CLOCK: f64 = 0.02;
/// The stretch of memory that is used to the full, by `memory` beside `memory`.
const BANDWIDTH_STRETCH: f64 = 0.44;
/// The stretch of a disk that is used to the full, by `disk` beside `disk`.
const DISK_STRETCH: f64 = 5.7;
/// The stretch of a network that is used to the full, by `network` beside `network`.
const NETWORK_STRETCH: f64 = 2.3;
/// How much longer the slowest requests take where every request finds its CPU busy: on a busy
/// machine they took 1.9 to 3.4 ms, about a turn of whoever runs, and 0.1 ms is what one takes.
pub const BUSY_CPU: f64 = 20.0;

/// How many times longer a piece of work takes than alone on the node.
#[must_use]
pub fn slowdown(kind: Kind, meets: &Meets, shape: &Shape) -> f64 {
    let Times { cpu, cache, bandwidth, disk, network } = kind.times();
    let Meets { own, all, got, busy } = meets;
    let ratio = |stretch: fn(f64) -> f64, own: f64, all: f64, has: f64| {
        stretch(all / has) / stretch(own / has)
    };
    cpu * running(kind, *got, *busy, shape.cores)
        + cache * ratio(cache_stretch, own.cache_mib, all.cache_mib, shape.cache_mib)
        + bandwidth
            * ratio(bandwidth_stretch, own.bandwidth_gbps, all.bandwidth_gbps, shape.bandwidth_gbps)
        + disk * ratio(disk_stretch, own.iops, all.iops, shape.iops)
        + network * ratio(network_stretch, own.packets, all.packets, shape.packets)
}

/// How a disk's own time for an operation grows with its use.
#[must_use]
pub fn disk_stretch(share: f64) -> f64 {
    full(share, 1.0 + DISK_STRETCH * share * share * share, 1.0 + DISK_STRETCH)
}

/// How often an access misses a cache of which so much is wanted.
#[must_use]
pub fn miss_share(share: f64) -> f64 {
    if share > 1.0 { 1.0 - 1.0 / share } else { 0.0 }
}

/// The probability that a thread which wakes up finds no idle CPU.
#[must_use]
pub fn wait_probability(busy: f64, cores: f64) -> f64 {
    libm::pow(busy.clamp(0.0, 1.0), (2.0 * (cores + 1.0)).sqrt())
}

fn running(kind: Kind, got: f64, busy: f64, cores: f64) -> f64 {
    let shared = 1.0 + SHARED_CLOCK * busy.min(1.0);
    let queue = match kind {
        Kind::Latency => 1.0 + (BUSY_CPU - 1.0) * wait_probability(busy, cores),
        Kind::Cpu | Kind::Cache | Kind::Memory | Kind::Disk | Kind::Network => 1.0,
    };
    shared * queue / got.max(1e-3)
}

fn bandwidth_stretch(share: f64) -> f64 {
    full(share, 1.0 + BANDWIDTH_STRETCH * share * share, 1.0 + BANDWIDTH_STRETCH)
}

fn network_stretch(share: f64) -> f64 {
    let square = share * share;
    full(share, 1.0 + NETWORK_STRETCH * square * square, 1.0 + NETWORK_STRETCH)
}

fn cache_stretch(share: f64) -> f64 {
    1.0 + (MISS_COST - 1.0) * miss_share(share)
}

/// Beyond what there is, everybody gets a share of it.
fn full(share: f64, below: f64, at_one: f64) -> f64 {
    if share < 1.0 { below } else { at_one * share }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine of the benchmark. Its cache is known; what its memory, disk and loopback can do
    /// is guessed, so that one process takes a third or a quarter of it.
    const BENCH: Shape = Shape {
        cores: 2.0,
        memory_mib: 24_000.0,
        bandwidth_gbps: 30.0,
        cache_mib: 32.0,
        iops: 16_000.0,
        packets: 450_000.0,
    };

    fn pair(victim: Kind, neighbour: Kind) -> f64 {
        let own = victim.appetite();
        // The other CPU is busy, and nobody waits for it.
        let meets = Meets { own, all: own.and(neighbour.appetite()), got: 1.0, busy: 1.0 };
        slowdown(victim, &meets, &BENCH)
    }

    #[test]
    fn the_model_is_within_what_was_measured() {
        for (victim, row) in Kind::ALL.into_iter().zip(MEASURED) {
            for (neighbour, [least, _, largest]) in Kind::ALL.into_iter().zip(row) {
                let found = pair(victim, neighbour);
                // What builds beside the benchmark did to the disk; nothing here explains it.
                let noise = victim == Kind::Disk && least > 1.1;
                let fits = (least - 0.01..=largest + 0.01).contains(&found);
                assert!(fits || noise, "{victim:?} beside {neighbour:?}: {found}");
            }
        }
        for (victim, neighbour, median) in
            [(Kind::Memory, Kind::Memory, 1.11), (Kind::Cache, Kind::Memory, 1.10)]
        {
            assert!((pair(victim, neighbour) - median).abs() < 0.01, "{victim:?}");
        }
        for (kind, [_, median, _]) in MEASURED_AGAIN {
            assert!((pair(kind, kind) - median).abs() < 0.01, "{kind:?}: {}", pair(kind, kind));
        }
    }

    #[test]
    fn alone_nobody_is_slow_and_more_neighbours_never_help() {
        let shape = Shape::of(16.0);
        for victim in Kind::ALL {
            let own = victim.appetite().times(2.0);
            let alone = Meets::of(own, own, 1.0, shape.cores);
            assert!((slowdown(victim, &alone, &shape) - 1.0).abs() < 1e-9, "{victim:?}");
            for neighbour in Kind::ALL {
                let mut before = 1.0;
                for cores in 1..=20 {
                    let all = own.and(neighbour.appetite().times(f64::from(cores)));
                    let got = (shape.cores / all.cores).min(1.0);
                    let found = slowdown(victim, &Meets::of(own, all, got, shape.cores), &shape);
                    assert!(found >= before - 1e-12, "{victim:?} {neighbour:?} {cores}");
                    before = found;
                }
            }
        }
    }

    #[test]
    fn waiting_for_a_cpu_is_rare_where_there_are_many() {
        assert_eq!(wait_probability(1.0, 1.0), 1.0);
        assert!((wait_probability(0.5, 1.0) - 0.25).abs() < 1e-12);
        assert!(wait_probability(0.6, 16.0) < 0.06 && wait_probability(0.6, 4.0) > 0.15);
    }
}
