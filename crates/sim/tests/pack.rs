//! Small towns under every policy: the same on any number of threads, nothing lost, and nobody
//! packed beyond what a node has.

use std::cell::RefCell;
use std::num::NonZeroUsize;

use walras_core::units::Millicores;
use walras_sim::pack::contest::{ENTRANTS, Entrant, compete};
use walras_sim::pack::rules::{Seen, Sizer, Wish};
use walras_sim::pack::run::run;
use walras_sim::pack::schedule::Score;
use walras_sim::pack::town::{Recipe, Size, TOWNS};
use walras_sim::pack::workload::{DAY, Kind, Town};
use walras_sim::scenario::trace::{Trace, Unit};

fn town(recipe: &Recipe, seed: u64, with_memory: bool) -> Town {
    recipe.build(&Size { nodes: 3, windows: 9 * DAY, seed, with_memory }, &[])
}

/// Passes everything on, and looks at the cluster whenever it is shown.
struct Watched {
    inner: Box<dyn Sizer>,
    seen: RefCell<usize>,
}

impl Sizer for Watched {
    fn at_arrival(&self, town: &Town, workload: usize) -> Millicores {
        self.inner.at_arrival(town, workload)
    }

    fn window_passed(&mut self, seen: &Seen<'_>) {
        assert!(seen.cluster.is_sound(), "window {}", seen.window);
        *self.seen.borrow_mut() += 1;
        self.inner.window_passed(seen);
    }

    fn decide(&mut self, seen: &Seen<'_>, wishes: &mut Vec<Wish>) {
        self.inner.decide(seen, wishes);
    }
}

#[test]
fn no_policy_packs_a_node_beyond_what_it_can_allocate() {
    for (number, entrant) in ENTRANTS.iter().enumerate() {
        for setting in [70, 100] {
            let town = town(&TOWNS[number % 2], 10 + number as u64, number % 2 == 0);
            let score = if setting == 70 { Score::Most } else { Score::Least };
            let mut watched =
                Watched { inner: entrant.sizer(&town, setting), seen: RefCell::new(0) };
            let figures = run(&town, &mut watched, score, &|| {});
            assert_eq!(watched.seen.into_inner(), town.windows);
            assert!(figures.nodes >= figures.bound_nodes, "{}: {figures:?}", entrant.name);
        }
    }
}

#[test]
fn figures_are_the_same_on_any_number_of_threads() {
    let town = town(&TOWNS[0], 5, false);
    let entrants: Vec<&'static Entrant> =
        ["declared", "vpa", "walras"].map(|name| Entrant::named(name).unwrap()).to_vec();
    let told = |threads| {
        let threads = NonZeroUsize::new(threads).unwrap();
        format!("{:?}", compete(&entrants, &town, Score::Most, threads, &|| {}))
    };
    assert_eq!(told(1), told(3));
}

#[test]
fn services_follow_traces_where_there_are_some() {
    let levels: Vec<f64> = (0..24).map(|hour| if hour == 9 { 50.0 } else { 10.0 }).collect();
    let trace = Trace { levels: levels.into(), step_s: 3600.0, unit: Unit::Cores };
    let size = Size { nodes: 2, windows: 9 * DAY, seed: 3, with_memory: false };
    let town = TOWNS[0].build(&size, &[trace]);
    let services = (0..town.workloads.len()).filter(|at| town.workloads[*at].kind == Kind::Service);
    for workload in services {
        let day: Vec<f64> = (0..DAY).map(|window| town.level(workload, window)).collect();
        let most = day.iter().copied().fold(0.0, f64::max);
        let busy = day.iter().filter(|level| **level > most * 0.9).count();
        let quiet = day.iter().filter(|level| (**level / most - 0.2).abs() < 1e-9).count();
        assert_eq!((busy, quiet), (12, DAY - 12), "workload {workload}");
    }
}

#[test]
fn a_town_is_what_its_seed_says() {
    let told = |seed| format!("{:?}", town(&TOWNS[0], seed, true).workloads);
    assert_eq!(told(7), told(7));
    assert_ne!(told(7), told(8));
}
