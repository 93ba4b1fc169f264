//! What becomes of pods that are placed at random, as events that a model learns from.
//!
//! An event is what a cluster's collector writes: the telemetry of some nodes at the moment of
//! placement, the node that was chosen, and what came of it within five minutes. Who is slow fails
//! its probes and is started again, and a placement is to blame for what it did to anybody on the
//! node: the more all of them are slower for the pod's being there, the likelier its outcome is a
//! restart, and then a failure. On a node short of memory it is killed or sent away; a node that
//! may be taken away sometimes is. These probabilities are guesses. Several clusters run side by
//! side, all of them of recipes that are for training.
//!
//! A collector in a real cluster sees the pod's own restarts alone. What it did to others cannot be
//! seen there, which is why a model begins with what is simulated.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use walras_brain::events::{Event, Outcome};
use walras_brain::label::LabelSettings;
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
pub const SHIPPED: Lesson = Lesson { clusters: 30, nodes: 12, hours: 3, seed: 1_000_000 };

/// How the lesson's events are labelled: by what came of them alone, each counting the same. A
/// score is then what is to be expected of a placement: 100 is no harm to anybody.
#[must_use]
pub fn labels() -> LabelSettings {
    let mut labels = LabelSettings { outcome_trust: 1.0, others: 0.0, ..LabelSettings::default() };
    labels.outcomes.values_mut().for_each(|rule| rule.weight = 1.0);
    labels
}

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
    /// The sum of the harm of each step.
    harm: f64,
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
/// How fast harm makes a placement a bad one.
const BLAME: f64 = 0.3;
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
        let harm = open.harm / as_number(open.steps.max(1) as u64);
        // From 1, where nobody minds, to 0.
        let well = 1.0 / (1.0 + BLAME * harm.max(0.0));
        let (first, second, third) = (self.rng.unit(), self.rng.unit(), self.rng.unit());
        if first < (short * 5.0).clamp(0.0, 0.9) {
            if second < 0.5 { Outcome::OomKilled } else { Outcome::Evicted }
        } else if second < taken {
            Outcome::Evicted
        } else {
            let is_good = well >= 0.5;
            let better = if is_good { 2.0 * well - 1.0 } else { 2.0 * well };
            match (is_good, third < better) {
                (true, true) => Outcome::Running,
                (true, false) | (false, true) => Outcome::Restarted,
                (false, false) => Outcome::Failed,
            }
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
        self.open.insert(pod, Open { event, node, harm: 0.0, steps: 0, until });
    }

    fn step_passed(&mut self, town: &Town, cluster: &Cluster, step: usize) {
        for (pod, open) in &mut self.open {
            let (node, site) = (&cluster.nodes[open.node], &town.sites[open.node]);
            open.harm += node.harm(town, site, step, *pod);
            open.steps += 1;
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
