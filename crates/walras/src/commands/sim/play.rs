//! Runs a scenario under every policy, and once more for the pictures, while a bar tells how far
//! that is.

use std::num::NonZeroUsize;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use walras_sim::contest::{Contestant, Standing, compete};
use walras_sim::crew;
use walras_sim::recording::{Recording, chosen, record};
use walras_sim::report::ORACLE;
use walras_sim::scenario::Scenario;
use walras_sim::target::with_targets;

use super::asked::Asked;

/// The oracle looks at every pod many times over; a second time is too long beyond so many pods.
const ORACLE_RECORDED_PODS_MAX: usize = 40;
const BAR: &str = "{bar:32} {pos} of {len} node runs, {eta} left  {msg}";

/// Where scenarios are run.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    asked: &'a Asked,
    recorded: bool,
    bar: ProgressBar,
}

/// What became of one scenario.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    pub(super) scenario: &'a Scenario,
    /// One for each policy, in the order that was asked for.
    pub(super) standings: Vec<Standing>,
    /// How the first node did over time, by policy; empty where there is to be no report.
    pub(super) recordings: Vec<(&'static str, Recording)>,
}

impl<'a> Stage<'a> {
    /// Nothing was run yet. What is `recorded` is run once more.
    pub(super) fn new(asked: &'a Asked, recorded: bool) -> Self {
        let runs = asked.scenarios.iter().map(|scenario| runs(asked, scenario, recorded));
        // Draws nothing where standard error is no terminal.
        let bar = ProgressBar::with_draw_target(Some(runs.sum()), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(BAR);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { asked, recorded, bar }
    }

    /// Runs one scenario.
    pub(super) fn play(&self, scenario: &'a Scenario) -> Outcome<'a> {
        self.bar.set_message(format!("{}: latency targets", scenario.name));
        let settled = with_targets(scenario, self.asked.threads);
        let standings = self.compete(&settled);
        let recordings = if self.recorded { self.record(&settled, &standings) } else { Vec::new() };
        Outcome { scenario, standings, recordings }
    }

    /// Does something with the terminal while the bar is out of the way.
    pub(super) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Where there are fewer nodes than threads, several policies are run at once.
    fn compete(&self, scenario: &Scenario) -> Vec<Standing> {
        let threads = self.asked.threads.get();
        let nodes = usize::try_from(scenario.nodes).unwrap_or(usize::MAX);
        let per_policy = NonZeroUsize::new(threads.min(nodes)).unwrap_or(NonZeroUsize::MIN);
        let at_once = NonZeroUsize::new(threads / per_policy).unwrap_or(NonZeroUsize::MIN);
        crew::all_done(&self.asked.contestants, at_once, &|contestant| {
            self.bar.set_message(format!("{}: {}", scenario.name, contestant.name));
            compete(contestant, scenario, per_policy, &|| self.bar.inc(1))
        })
    }

    fn record(
        &self,
        scenario: &Scenario,
        standings: &[Standing],
    ) -> Vec<(&'static str, Recording)> {
        let places = chosen(scenario);
        let jobs: Vec<(&Contestant, &Standing)> = self
            .asked
            .contestants
            .iter()
            .copied()
            .zip(standings)
            .filter(|(contestant, _)| is_recorded(contestant, scenario))
            .collect();
        crew::all_done(&jobs, self.asked.threads, &|(contestant, standing)| {
            self.bar.set_message(format!("{}: {} for the report", scenario.name, contestant.name));
            let recording = record(contestant, standing.setting.as_deref(), scenario, &places);
            self.bar.inc(1);
            (contestant.name, recording)
        })
    }
}

/// How many times a node is run in all.
fn runs(asked: &Asked, scenario: &Scenario, recorded: bool) -> u64 {
    let contestants = asked.contestants.iter();
    let count = |contestant: &&Contestant| {
        let runs = u64::try_from(contestant.runs()).unwrap_or(u64::MAX);
        let once_more = recorded && is_recorded(contestant, scenario);
        runs.saturating_mul(u64::from(scenario.nodes)) + u64::from(once_more)
    };
    contestants.map(count).sum()
}

fn is_recorded(contestant: &Contestant, scenario: &Scenario) -> bool {
    contestant.name != ORACLE || scenario.pods.len() <= ORACLE_RECORDED_PODS_MAX
}
