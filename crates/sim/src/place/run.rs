//! One rule places all pods of a town, while time passes.

use walras_core::rng::Rng;

use super::cluster::Cluster;
use super::rules::{Rule, View};
use super::tally::{PlaceFigures, Tally};
use super::town::Town;

/// What somebody who watches a run is told.
pub trait Watcher {
    /// A pod is about to be bound to a node; `candidates` had room.
    fn bound(&mut self, _view: &View<'_>, _pod: usize, _node: usize, _candidates: &[usize]) {}
    /// A step has passed.
    fn step_passed(&mut self, _town: &Town, _cluster: &Cluster, _step: usize) {}
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Watcher for Nobody {}

/// Runs a town. The same town and rule give the same result.
pub fn run(town: &Town, rule: &mut dyn Rule, watcher: &mut dyn Watcher) -> PlaceFigures {
    let mut cluster = Cluster::new(town);
    let mut rng = Rng::from_seed(town.seed ^ 0x5EED);
    let mut tally = Tally::default();
    let mut waiting: Vec<usize> = Vec::new();
    let mut next = 0;
    let (mut candidates, mut scores) = (Vec::new(), Vec::new());
    for step in 1..town.steps {
        cluster.leave(town, step);
        while next < town.pods.len() && town.pods[next].from <= step {
            waiting.push(next);
            next += 1;
        }
        // In the order in which they came; who finds no room waits for the next step.
        waiting.retain(|&pod| {
            cluster.with_room(town, pod, &mut candidates);
            if candidates.is_empty() {
                return true;
            }
            let view = View { town, cluster: &cluster, pod: &town.pods[pod], step };
            rule.score(&view, &candidates, &mut scores);
            let node = candidates[best(&scores, &mut rng)];
            watcher.bound(&view, pod, node, &candidates);
            cluster.bind(town, pod, node, step);
            false
        });
        cluster.step(town, step);
        tally.step(town, &cluster, step, waiting.len());
        watcher.step_passed(town, &cluster, step);
    }
    tally.figures(town)
}

/// One of the highest, by chance.
fn best(scores: &[f64], rng: &mut Rng) -> usize {
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let equal = scores.iter().filter(|score| **score >= highest).count();
    let chosen = rng.below(equal as u64);
    let mut places = scores.iter().enumerate().filter(|(_, score)| **score >= highest);
    places.nth(usize::try_from(chosen).unwrap_or(0)).map_or(0, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_ones_each_is_chosen_now_and_then() {
        let mut rng = Rng::from_seed(1);
        let mut found = [0; 4];
        for _ in 0..300 {
            found[best(&[1.0, 3.0, 2.0, 3.0], &mut rng)] += 1;
        }
        assert!(found[0] == 0 && found[2] == 0 && found[1] > 100 && found[3] > 100, "{found:?}");
    }
}
