//! What a node of the simulator measures of itself: the features that models know.
//!
//! Measured with a little noise. The hardware's counters are there only where the town has them.

use walras_brain::features::{NodeFacts, NodeFeature, zone_diversity};
use walras_core::rng::Rng;

use super::cluster::{Guest, Node};
use super::interference::{disk_stretch, miss_share};
use super::kind::Use;
use super::town::{Recipe, Site, Town};
use crate::load::draw::normal;

/// What happened on a node in a step.
pub(super) struct Seen<'a> {
    pub(super) all: Use,
    pub(super) used_mib: f64,
    pub(super) guests: &'a [Guest],
}

/// How exact a measurement is.
const NOISE: f64 = 0.02;
/// Throttled periods in a second, of a group that always is.
const PERIODS: f64 = 10.0;
/// An operation of an idle disk, in ms.
const DISK_MS: f64 = 0.8;
/// Caches are missed now and then, however large they are.
const LEAST_MISSES: f64 = 0.03;
/// From this share of packets on, some are dropped.
const DROPS_FROM: f64 = 0.9;

/// What the node would tell.
pub(super) fn facts(recipe: &Recipe, site: &Site, seen: &Seen<'_>, rng: &mut Rng) -> NodeFacts {
    let shape = &site.shape;
    let share = |part: f64, of: f64| (part / of).clamp(0.0, 1.0);
    let throttled: f64 = seen
        .guests
        .iter()
        .map(|guest| if guest.wish.throttled > 0.02 { PERIODS } else { 0.0 })
        .sum();
    let packets = seen.all.packets.min(shape.packets);
    let disk = seen.all.iops / shape.iops;
    let drops = (seen.all.packets / shape.packets - DROPS_FROM).max(0.0) * 0.1;
    let mut measured = vec![
        (NodeFeature::CpuUtilization, share(seen.all.cores, shape.cores), 1.0),
        (NodeFeature::CpuThrottleRate, throttled, f64::MAX),
        (NodeFeature::MemoryUtilization, share(seen.used_mib, shape.memory_mib), 1.0),
        (NodeFeature::DiskIoWaitMs, DISK_MS * disk_stretch(disk), f64::MAX),
        (NodeFeature::DiskIops, seen.all.iops.min(shape.iops), f64::MAX),
        (NodeFeature::NetworkRxPacketsSec, packets * 0.5, f64::MAX),
        (NodeFeature::NetworkTxPacketsSec, packets * 0.5, f64::MAX),
        (NodeFeature::NetworkDropRate, drops.min(1.0), 1.0),
    ];
    if recipe.has_counters {
        let misses = miss_share(seen.all.cache_mib / shape.cache_mib);
        measured.extend([
            (
                NodeFeature::MemoryBandwidthGbps,
                seen.all.bandwidth_gbps.min(shape.bandwidth_gbps),
                f64::MAX,
            ),
            (NodeFeature::L3CacheMissRate, LEAST_MISSES + (1.0 - LEAST_MISSES) * misses, 1.0),
            (NodeFeature::L3CacheOccupancyMb, seen.all.cache_mib.min(shape.cache_mib), f64::MAX),
        ]);
    }
    let mut facts = NodeFacts::UNKNOWN
        .with(NodeFeature::NodeCostIndex, site.cost)
        .with(NodeFeature::IsSpotInstance, f64::from(u8::from(site.spot_risk.is_some())))
        .with(NodeFeature::SpotInterruptionRisk, site.spot_risk.unwrap_or(0.0));
    for (feature, value, most) in measured {
        let noisy = value * (1.0 + NOISE * normal(rng));
        facts = facts.with(feature, noisy.clamp(0.0, most));
    }
    facts
}

/// Adds how empty each node's zone is of nodes, as the scheduler computes it.
pub(super) fn add_zones(town: &Town, nodes: &mut [Node]) {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let zones: Vec<Option<&str>> =
        town.sites.iter().map(|site| NAMES.get(site.zone).copied()).collect();
    for (node, diversity) in nodes.iter_mut().zip(zone_diversity(&zones)) {
        if let Some(diversity) = diversity {
            node.facts = node.facts.with(NodeFeature::ZoneDiversityScore, diversity);
        }
    }
}
