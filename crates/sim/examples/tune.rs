//! Searches the market's constants on the training suite and judges them on the test suite.
//!
//! `cargo run --release -p walras-sim --example tune -- direct 250`
#![expect(clippy::print_stdout, reason = "an example that prints what it finds")]

use std::num::NonZeroUsize;
use std::thread;

use walras_core::profile::{Profile, ProfileName};
use walras_sim::measure::Figures;
use walras_sim::scenario::{Scenario, Suite, builtin};
use walras_sim::tune::{KNOBS, Search, cost, judge};

/// How many sets of constants are judged, unless told otherwise.
const EVALUATIONS: u32 = 250;

fn main() {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_else(|| "direct".to_owned());
    let name = ProfileName::ALL.into_iter().find(|known| known.name() == name);
    let start = Profile::named(name.unwrap_or(ProfileName::Direct));
    let evaluations = words.next().and_then(|word| word.parse().ok()).unwrap_or(EVALUATIONS);
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);

    let training = suite(Suite::Train);
    let mut search = Search::new(start.clone(), &training, threads);
    println!("start: {:.2} core-hours on the training suite", search.best_cost());
    search.run(evaluations, 1, &mut |trial| {
        if trial.kept {
            println!("{} = {}: {:.2}", trial.key, trial.value, trial.cost);
        }
    });
    println!("best of {}: {:.2}", search.evaluations(), search.best_cost());
    for knob in KNOBS {
        if let (Some(from), Some(to)) = (start.get(knob.key), search.best().get(knob.key))
            && from != to
        {
            println!("  {}: {from} -> {to}", knob.key);
        }
    }
    let unseen = suite(Suite::Test);
    for (words, profile) in [("before", &start), ("after", search.best())] {
        let figures = judge(profile, &unseen, threads);
        println!("test suite {words}: {:.2}", cost(profile, &figures));
        show(&unseen, &figures);
    }
}

fn suite(wanted: Suite) -> Vec<Scenario> {
    let all = builtin().iter().map(walras_sim::scenario::Builtin::scenario);
    all.filter(|scenario| scenario.suite == wanted).collect()
}

fn show(scenarios: &[Scenario], figures: &[Figures]) {
    for (scenario, figures) in scenarios.iter().zip(figures) {
        println!(
            "  {:10} {:6.2} core-hours, {:3} violation minutes, {:4.0} changes per pod-hour",
            scenario.name,
            figures.core_hours,
            figures.slo_violation_minutes,
            figures.resizes_per_pod_hour
        );
    }
}
