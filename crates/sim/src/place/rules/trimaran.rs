//! Trimaran's `TargetLoadPacking` and `LoadVariationRiskBalancing` (scheduler-plugins), with their
//! default settings.
//!
//! Both see what load-watcher tells every 30 s: means, and standard deviations, of CPU and memory
//! over a quarter of an hour. `TargetLoadPacking` packs up to 40 % of CPU and avoids nodes the more
//! they are above it; it expects a pod to use its limit, or one and a half times its request, and
//! adds that of pods that came within the last minute. `LoadVariationRiskBalancing` takes the mean
//! with the pod's request and the standard deviation, both in shares, for the risk of a resource,
//! and the worse of CPU and memory counts (margin 1, sensitivity 1).

use super::{Rule, View};
use crate::place::cluster::{Level, as_number};
use crate::place::pod::Pod;
use crate::place::town::MINUTE;

/// Packs CPU up to a target.
#[derive(Clone, Debug, Default)]
pub struct TargetLoad {
    watcher: Watcher,
}

/// Balances mean and variation.
#[derive(Clone, Debug, Default)]
pub struct LoadVariation {
    watcher: Watcher,
}

/// What load-watcher told last.
#[derive(Clone, Debug, Default)]
struct Watcher {
    told: Vec<[Level; 2]>,
    at: Option<usize>,
}

/// Percent of CPU.
const TARGET: f64 = 40.0;
/// What a pod without a limit is expected to use of its request.
const MULTIPLIER: f64 = 1.5;
/// Steps between two looks.
const EVERY: usize = MINUTE / 2;
/// For so long, a pod may not be in the figures yet.
const UNSEEN: usize = MINUTE;

impl Rule for TargetLoad {
    fn score(&mut self, view: &View<'_>, candidates: &[usize], scores: &mut Vec<f64>) {
        let at = self.watcher.look(view);
        scores.clear();
        for &place in candidates {
            let shape = &view.town.sites[place].shape;
            let capacity = shape.cores * 1000.0;
            let guests = view.cluster.nodes[place].guests.iter();
            let young = guests.filter(|guest| at < guest.since + UNSEEN);
            let missing: f64 = young.map(|guest| expected(&view.town.pods[guest.pod])).sum();
            let used = self.watcher.told[place][0].mean * capacity;
            let predicted = 100.0 * (used + expected(view.pod) + missing) / capacity;
            scores.push(packed(predicted));
        }
    }
}

impl Rule for LoadVariation {
    fn score(&mut self, view: &View<'_>, candidates: &[usize], scores: &mut Vec<f64>) {
        self.watcher.look(view);
        scores.clear();
        for &place in candidates {
            let shape = &view.town.sites[place].shape;
            let [cpu, memory] = self.watcher.told[place];
            let cpu = risk_score(cpu, as_number(view.pod.cpu_milli) / shape.allocatable_milli());
            let asked = as_number(view.pod.memory_mib) / shape.allocatable_mib();
            scores.push(risk_score(memory, asked).min(cpu).round());
        }
    }
}

impl Watcher {
    /// Looks, if it is time to, and says when it looked last.
    fn look(&mut self, view: &View<'_>) -> usize {
        let due = view.step - view.step % EVERY;
        if self.at != Some(due) {
            let nodes = view.cluster.nodes.iter();
            self.told = nodes.map(|node| [node.history.cpu(), node.history.memory()]).collect();
            self.at = Some(due);
        }
        due
    }
}

/// What a pod is expected to use, in millicores.
fn expected(pod: &Pod) -> f64 {
    match pod.limit_cores {
        Some(limit) => limit * 1000.0,
        None => (as_number(pod.cpu_milli) * MULTIPLIER).round(),
    }
}

/// The score of a node whose CPU would be used to so many percent.
fn packed(predicted: f64) -> f64 {
    if predicted > 100.0 {
        0.0
    } else if predicted > TARGET {
        (TARGET * (100.0 - predicted) / (100.0 - TARGET)).round()
    } else {
        ((100.0 - TARGET) * predicted / TARGET + TARGET).round()
    }
}

/// The score of a resource of which a pod asks for a share.
fn risk_score(level: Level, asked: f64) -> f64 {
    let mean = (level.mean.clamp(0.0, 1.0) + asked.max(0.0)).clamp(0.0, 1.0);
    let risk = f64::midpoint(mean, level.deviation.clamp(0.0, 1.0));
    (1.0 - risk) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_best_at_the_target() {
        // 40 + 60 * x / 40 below, 40 * (100 - x) / 60 above.
        for (predicted, score) in
            [(0.0, 40.0), (20.0, 70.0), (40.0, 100.0), (41.0, 39.0), (70.0, 20.0), (100.0, 0.0)]
        {
            assert_eq!(packed(predicted), score, "{predicted}");
        }
        assert_eq!(packed(130.0), 0.0);
    }

    #[test]
    fn risk_is_mean_and_deviation() {
        let level = Level { mean: 0.3, deviation: 0.2 };
        // (0.3 + 0.1 + 0.2) / 2 = 0.3
        assert!((risk_score(level, 0.1) - 70.0).abs() < 1e-9);
        // The mean is at most 1.
        assert!((risk_score(Level { mean: 0.9, deviation: 0.0 }, 0.5) - 50.0).abs() < 1e-9);
        assert!((risk_score(Level { mean: 0.0, deviation: 0.0 }, 0.0) - 100.0).abs() < 1e-9);
    }
}
