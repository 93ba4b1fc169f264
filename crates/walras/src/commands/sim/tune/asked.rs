//! What was asked for: from which constants to search, on which scenarios, and by which to judge.
//!
//! Everything that is wrong is told at once. Always: nothing is judged by what was searched on.

use std::num::NonZeroUsize;

use walras_core::profile::ProfileName;
use walras_sim::scenario::{Scenario, Suite};

use super::super::asked::{scenario_of, suite, threads_of};
use crate::cli::SimTuneArgs;
use crate::failure::Failure;

/// What is to be searched.
#[derive(Debug)]
pub(super) struct Asked {
    /// Whose constants to start from.
    pub(super) profile: ProfileName,
    /// What is searched on.
    pub(super) training: Vec<Scenario>,
    /// What is judged by.
    pub(super) tests: Vec<Scenario>,
    /// How many sets of constants to try.
    pub(super) evaluations: u32,
    /// Where the random order of constants starts.
    pub(super) seed: u64,
    /// On how many threads.
    pub(super) threads: NonZeroUsize,
}

impl Asked {
    /// What the command line means.
    pub(super) fn of(args: &SimTuneArgs) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let training = scenarios(&args.training, Suite::Train, &mut problems);
        let tests = scenarios(&args.tests, Suite::Test, &mut problems);
        for scenario in &training {
            if let Some(problem) = taboo(scenario, &tests) {
                problems.push(problem);
            }
        }
        if !problems.is_empty() {
            return Err(Failure::Input(problems.join("\n")));
        }
        Ok(Self {
            profile: args.profile.into(),
            training,
            tests,
            evaluations: args.evaluations,
            seed: args.seed,
            threads: threads_of(args.threads),
        })
    }
}

fn scenarios(names: &[String], otherwise: Suite, problems: &mut Vec<String>) -> Vec<Scenario> {
    if names.is_empty() {
        return suite(otherwise);
    }
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match scenario_of(name) {
            Ok(scenario) => found.push(scenario),
            Err(problem) => problems.push(problem),
        }
    }
    found
}

/// Why a scenario must not be searched on, if it must not.
fn taboo(scenario: &Scenario, tests: &[Scenario]) -> Option<String> {
    let name = &scenario.name;
    if let Some(test) = tests.iter().find(|test| are_alike(scenario, test)) {
        let other = if test.name == *name { "it" } else { &test.name };
        return Some(format!(
            "--train {name}: what is searched on says nothing about what was found, and {other} \
             is given as --test, too"
        ));
    }
    (scenario.suite == Suite::Test).then(|| {
        format!("--train {name}: is of the suite \"test\", which is for judging and never tuned on")
    })
}

/// Whether two scenarios are the same, whatever they say about themselves.
fn are_alike(one: &Scenario, other: &Scenario) -> bool {
    let same_load = one.seed == other.seed && one.node == other.node && one.pods == other.pods;
    one.name == other.name || same_load
}
