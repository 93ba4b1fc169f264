//! What becomes of pods that are placed at random, as events that a model learns from.
//!
//! An event is what a cluster's collector writes: the telemetry of some nodes at the moment of
//! placement, the node that was chosen, and what the pod came to within five minutes. A pod that is
//! slow fails its probes and is started again, the likelier the slower it is; on a node short of
//! memory it is killed or sent away; a node that may be taken away sometimes is. These
//! probabilities are guesses. Several clusters run side by side, all of them of recipes that are
//! for training.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use walras_brain::events::{Event, Outcome};
use walras_core::rng::Rng;

use super::cluster::{Cluster, as_number};
use super::rules::{Random, View, expected};
use super::run::{Watcher, run};
use super::town::{HOUR, MINUTE, Recipe, Size, TOWNS, Town};
use crate::crew;

/// How much there is to learn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// How many clusters of each recipe.
    pub clusters: usize,
    /// How many nodes each has.
    pub nodes: usize,
    /// For how many hours.
    pub hours: usize,
    /// Where randomness starts.
    pub seed: u64,
}

/// The lesson of the models that are shipped.
pub const SHIPPED: Lesson = Lesson { clusters: 14, nodes: 12, hours: 3, seed: 1_000_000 };

/// Watches a run, and keeps what became of its pods.
struct Collector {
    cluster: usize,
    rng: Rng,
    open: BTreeMap<usize, Open>,
    done: Vec<Event>,
}

/// A pod whose window is not over.
struct Open {
    event: Event,
    node: usize,
    slowdowns: f64,
    steps: usize,
    until: usize,
}

/// Five minutes.
const WINDOW: usize = 5 * MINUTE;
/// So many nodes beside the chosen one are in an event.
const OTHERS: usize = 2;
/// 2026-01-01, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_767_225_600_000;
const STEP_MS: i64 = 10_000;
/// How fast the probability of a restart grows with the slowdown.
const RESTARTS: f64 = 2.0;
/// From this share of memory on, pods are sent away or killed.
const SHORT_OF_MEMORY: f64 = 0.92;

/// The events of a lesson, by time.
#[must_use]
pub fn events(lesson: &Lesson, threads: NonZeroUsize) -> Vec<Event> {
    let recipes: Vec<&'static Recipe> = TOWNS.iter().filter(|recipe| recipe.for_training).collect();
    let jobs: Vec<(usize, &'static Recipe)> = (0..lesson.clusters * recipes.len())
        .map(|number| (number, recipes[number % recipes.len()]))
        .collect();
    let done = crew::all_done(&jobs, threads, &|(number, recipe)| {
        let seed = lesson.seed + *number as u64;
        let town = recipe.build(&Size { nodes: lesson.nodes, hours: lesson.hours, seed });
        let mut collector = Collector::new(*number, seed);
        run(&town, &mut Random, &mut collector);
        collector.done
    });
    let mut events: Vec<Event> = done.into_iter().flatten().collect();
    events.sort_by(|a, b| (a.time_ms, &a.id).cmp(&(b.time_ms, &b.id)));
    events
}

impl Collector {
    fn new(cluster: usize, seed: u64) -> Self {
        let rng = Rng::from_seed(seed ^ 0xC0_11EC7);
        Self { cluster, rng, open: BTreeMap::new(), done: Vec::new() }
    }

    fn outcome(&mut self, town: &Town, cluster: &Cluster, open: &Open) -> Outcome {
        let site = &town.sites[open.node];
        let used: f64 =
            cluster.nodes[open.node].guests.iter().map(|guest| town.pods[guest.pod].used_mib).sum();
        let short = used / site.shape.memory_mib - SHORT_OF_MEMORY;
        let taken = site
            .spot_risk
            .map_or(0.0, |risk| risk * as_number(WINDOW as u64) / as_number(HOUR as u64));
        let slowdown = open.slowdowns / as_number(open.steps.max(1) as u64);
        let restarts = 1.0 - libm::exp(-RESTARTS * (slowdown - 1.0).max(0.0));
        let (first, second, third) = (self.rng.unit(), self.rng.unit(), self.rng.unit());
        if first < (short * 5.0).clamp(0.0, 0.9) {
            if second < 0.5 { Outcome::OomKilled } else { Outcome::Evicted }
        } else if second < taken {
            Outcome::Evicted
        } else if third < restarts {
            Outcome::Restarted
        } else {
            Outcome::Running
        }
    }
}

impl Watcher for Collector {
    fn bound(&mut self, view: &View<'_>, pod: usize, node: usize, candidates: &[usize]) {
        let mut nodes = BTreeMap::new();
        let name = |place: usize| format!("node-{}-{place}", self.cluster);
        let mut shown = vec![node];
        for _ in 0..OTHERS {
            let place = usize::try_from(self.rng.below(candidates.len() as u64)).unwrap_or(0);
            shown.push(candidates[place]);
        }
        for place in shown {
            let (there, site) = (&view.cluster.nodes[place], &view.town.sites[place]);
            nodes.insert(name(place), expected(view.town, there, &site.shape));
        }
        let step = i64::try_from(view.step).unwrap_or(i64::MAX);
        let event = Event {
            time_ms: BEGIN_MS + STEP_MS * step,
            id: format!("{}-{pod}", self.cluster),
            pod: view.pod.facts(),
            nodes,
            chosen: name(node),
            outcome: Outcome::Pending,
        };
        let until = view.step + WINDOW.min(view.pod.steps);
        self.open.insert(pod, Open { event, node, slowdowns: 0.0, steps: 0, until });
    }

    fn step_passed(&mut self, town: &Town, cluster: &Cluster, step: usize) {
        for guest in cluster.nodes.iter().flat_map(|node| &node.guests) {
            if let Some(open) = self.open.get_mut(&guest.pod) {
                open.slowdowns += guest.slowdown;
                open.steps += 1;
            }
        }
        let over: Vec<usize> = self
            .open
            .iter()
            .filter(|(_, open)| step + 1 >= open.until)
            .map(|(pod, _)| *pod)
            .collect();
        for pod in over {
            if let Some(mut open) = self.open.remove(&pod) {
                open.event.outcome = self.outcome(town, cluster, &open);
                self.done.push(open.event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lesson_is_the_same_on_any_number_of_threads_and_has_both_ends() {
        let lesson = Lesson { clusters: 1, nodes: 4, hours: 1, seed: 5 };
        let [one, two] = [1, 2].map(|threads| events(&lesson, NonZeroUsize::new(threads).unwrap()));
        assert_eq!(one, two);
        assert!(one.len() > 200, "{}", one.len());
        for outcome in [Outcome::Running, Outcome::Restarted] {
            assert!(one.iter().any(|event| event.outcome == outcome), "{outcome:?}");
        }
        assert!(one.iter().all(|event| event.nodes.contains_key(&event.chosen)));
        assert!(one.is_sorted_by_key(|event| event.time_ms));
    }
}
