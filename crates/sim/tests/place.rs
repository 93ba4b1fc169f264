//! Small towns placed by every rule: the same on any number of threads, nobody beyond what a node
//! can allocate, the same use of CPU for all, and rules that look at more do better than chance.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, also in what it calls")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use walras_brain::embedded;
use walras_brain::train::{Kind, TrainSettings};
use walras_sim::place::cluster::Cluster;
use walras_sim::place::contest::{Ground, ORACLE, PlaceStanding, Placer, compete};
use walras_sim::place::rules::{Allocated, Preference};
use walras_sim::place::run::{Watcher, run};
use walras_sim::place::teach;
use walras_sim::place::town::{Recipe, Size, Town};

fn ground(town: &str, seeds: usize) -> Ground {
    let recipe = Recipe::named(town).unwrap();
    Ground { recipe, nodes: 8, hours: 1, seed: 1, seeds }
}

fn everybody() -> Vec<Placer> {
    let mut placers = Placer::others();
    placers.push(Placer::brain("mlp", "", Arc::new(embedded(Kind::Mlp).model)));
    placers.push(Placer::brain("trees", "", Arc::new(embedded(Kind::Trees).model)));
    placers
}

#[test]
fn all_rules_use_the_same_cpu_and_who_looks_does_better_than_chance() {
    let two = NonZeroUsize::new(2).unwrap();
    let found = compete(&everybody(), &ground("data", 4), two, &|| {});
    let of = |name: &str| found.iter().find(|standing| standing.policy == name).unwrap();
    let mean = |standing: &PlaceStanding| standing.of(|it| it.mean).mean;
    let used = of("random").of(|it| it.utilisation).mean;
    for standing in &found {
        let utilisation = standing.of(|it| it.utilisation).mean;
        assert!((utilisation / used - 1.0).abs() < 0.03, "{}: {utilisation}", standing.policy);
        assert!(standing.runs.iter().all(|it| it.p99 >= it.mean && it.mean >= 1.0));
        if standing.policy != ORACLE {
            assert!(mean(of(ORACLE)) < mean(standing), "{}", standing.policy);
        }
    }
    for ours in ["mlp", "trees"] {
        assert!(mean(of(ours)) < mean(of("random")), "{ours}");
        assert!(of(ours).against_best(&found).is_some());
    }
    // Who packs leaves nodes empty, and pays for it.
    assert!(of("most-allocated").of(|it| it.nodes_used).mean < 8.0);
}

#[test]
fn figures_are_the_same_on_any_number_of_threads() {
    let [one, three] = [1, 3].map(|threads| {
        compete(&everybody(), &ground("shop", 2), NonZeroUsize::new(threads).unwrap(), &|| {})
    });
    assert_eq!(one, three);
}

/// Whoever changes how the lesson is labelled trains the models anew; docs/brain.md has the
/// command, and compares the files byte for byte.
#[test]
fn the_models_that_are_built_in_learned_from_the_lesson_as_it_is_labelled() {
    let trained = [Kind::Mlp, Kind::Trees].map(|kind| {
        let about = embedded(kind).about.trained.unwrap();
        let usual = TrainSettings { kind, labels: teach::labels(), ..TrainSettings::default() };
        assert_eq!(about.settings, usual);
        (about.data_sha256, about.events)
    });
    assert_eq!(trained[0], trained[1], "both learned from the same");
}

/// Looks at every node after every step.
struct Sound {
    steps: usize,
}

impl Watcher for Sound {
    fn step_passed(&mut self, town: &Town, cluster: &Cluster, _step: usize) {
        self.steps += 1;
        for (node, site) in cluster.nodes.iter().zip(&town.sites) {
            let requested: u64 = node.guests.iter().map(|g| town.pods[g.pod].cpu_milli).sum();
            assert_eq!(requested, node.requested_milli);
            let number = |value: u64| f64::from(u32::try_from(value).expect("a few nodes"));
            assert!(number(requested) <= site.shape.allocatable_milli());
            assert!(number(node.requested_mib) <= site.shape.allocatable_mib());
            assert!(node.guests.iter().all(|guest| guest.slowdown >= 1.0 - 1e-9));
        }
    }
}

#[test]
fn no_node_has_more_requests_than_it_can_allocate_and_nobody_is_faster_than_alone() {
    let size = Size { nodes: 5, hours: 1, seed: 9 };
    let town = Recipe::named("train-full").unwrap().build(&size);
    let mut sound = Sound { steps: 0 };
    run(&town, &mut Allocated(Preference::Most), &mut sound);
    assert_eq!(sound.steps, town.steps - 1);
}
