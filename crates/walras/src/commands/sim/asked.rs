//! What was asked for: which scenarios, which policies, how many threads.
//!
//! Everything that is wrong is told at once, and nothing is run then.

use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use walras_sim::contest::{CONTESTANTS, Contestant};
use walras_sim::scenario::{self, Builtin, Scenario, Suite, builtin};

use crate::cli::SimRunArgs;
use crate::failure::Failure;

/// Stands for every policy.
pub(super) const ALL: &str = "all";
/// The policies that take part where none are named.
const USUAL: [&str; 8] =
    ["static", "weights", "vpa", "koordinator", "autothrottle", "walras", "walras-api", "oracle"];
/// A name must be at least this similar to be suggested, from 0 to 1.
const SIMILAR: f64 = 0.75;

/// What is to be run.
#[derive(Debug)]
pub(super) struct Asked {
    /// What is simulated, in order.
    pub(super) scenarios: Vec<Scenario>,
    /// Who takes part, in order, each once.
    pub(super) contestants: Vec<&'static Contestant>,
    /// On how many threads.
    pub(super) threads: NonZeroUsize,
    /// What the user should know about what is run.
    pub(super) note: Option<String>,
}

impl Asked {
    /// What the command line means.
    pub(super) fn of(args: &SimRunArgs) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let (mut scenarios, note) = scenarios(args, &mut problems);
        let usual = || USUAL.map(str::to_owned).to_vec();
        let names = if args.policies.is_empty() { usual() } else { args.policies.clone() };
        let contestants = contestants(&names, &mut problems);
        if !problems.is_empty() {
            return Err(Failure::Input(problems.join("\n")));
        }
        for scenario in &mut scenarios {
            overrule(scenario, args);
        }
        Ok(Self { scenarios, contestants, threads: threads_of(args.threads), note })
    }
}

/// As many threads as asked for, or as the machine can run.
pub(in crate::commands) fn threads_of(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    asked.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// The built-in scenarios of a suite.
pub(super) fn suite(wanted: Suite) -> Vec<Scenario> {
    let all = builtin().iter().map(Builtin::scenario);
    all.filter(|scenario| scenario.suite == wanted).collect()
}

fn scenarios(args: &SimRunArgs, problems: &mut Vec<String>) -> (Vec<Scenario>, Option<String>) {
    if args.scenarios.is_empty() && args.traces.is_empty() {
        let judging = suite(Suite::Test);
        let names: Vec<&str> = judging.iter().map(|scenario| scenario.name.as_str()).collect();
        let note = format!("no scenario was given, so these are run: {}", names.join(", "));
        return (judging, Some(note));
    }
    let mut scenarios = Vec::new();
    for name in &args.scenarios {
        match scenario_of(name) {
            Ok(scenario) => scenarios.push(scenario),
            Err(problem) => problems.push(problem),
        }
    }
    if !args.traces.is_empty() {
        match scenario::from_traces(&args.traces, args.trace_format.map(Into::into)) {
            Ok(scenario) => scenarios.push(scenario),
            Err(error) => problems.push(error.to_string()),
        }
    }
    (scenarios, None)
}

/// A built-in scenario, or that of a file.
pub(super) fn scenario_of(name: &str) -> Result<Scenario, String> {
    if name.contains('/') || name.ends_with(".toml") {
        return scenario::read(Path::new(name)).map_err(|error| error.to_string());
    }
    let known: Vec<&'static str> = builtin().iter().map(|builtin| builtin.name).collect();
    match builtin().iter().find(|builtin| builtin.name == name) {
        Some(builtin) => Ok(builtin.scenario()),
        None => Err(unknown("scenario", name, &known)),
    }
}

fn contestants(names: &[String], problems: &mut Vec<String>) -> Vec<&'static Contestant> {
    let known: Vec<&'static str> = CONTESTANTS.iter().map(|contestant| contestant.name).collect();
    let mut found: Vec<&'static Contestant> = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        let named: Vec<&'static Contestant> = if name == ALL {
            CONTESTANTS.iter().collect()
        } else {
            Contestant::named(name).into_iter().collect()
        };
        if named.is_empty() {
            problems.push(unknown("policy", name, &known));
        }
        for contestant in named {
            if found.iter().all(|other| other.name != contestant.name) {
                found.push(contestant);
            }
        }
    }
    found
}

fn overrule(scenario: &mut Scenario, args: &SimRunArgs) {
    scenario.nodes = args.nodes.unwrap_or(scenario.nodes);
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    scenario.duration_s = args.hours.map_or(scenario.duration_s, seconds_nearest);
}

/// Hours in whole seconds, of which there is at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "720 h at most")]
fn seconds_nearest(hours: f64) -> u32 {
    (hours * 3600.0).round().max(1.0) as u32
}

/// That there is no such thing, what it may have been, and what there is.
pub(super) fn unknown(what: &str, name: &str, known: &[&'static str]) -> String {
    let guess = match closest(name, known) {
        Some(close) => format!("did you mean {close}? "),
        None => String::new(),
    };
    format!("there is no {what} {name:?}; {guess}known are {}", known.join(", "))
}

fn closest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let rated = known.iter().map(|&candidate| (strsim::jaro(name, candidate), candidate));
    let best = rated.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(similarity, _)| *similarity >= SIMILAR).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_gets_a_suggestion_and_the_list() {
        let known = ["steady", "bursty"];
        assert_eq!(
            unknown("scenario", "stedy", &known),
            "there is no scenario \"stedy\"; did you mean steady? known are steady, bursty"
        );
        assert_eq!(
            unknown("scenario", "x", &known),
            "there is no scenario \"x\"; known are steady, bursty"
        );
    }

    #[test]
    fn a_policy_takes_part_once() {
        let mut problems = Vec::new();
        let names = ["walras", " static", "walras", ALL].map(str::to_owned);
        let found = contestants(&names, &mut problems);
        assert_eq!((found[0].name, found[1].name), ("walras", "static"));
        assert_eq!((found.len(), problems.len()), (CONTESTANTS.len(), 0));
    }

    #[test]
    fn hours_become_whole_seconds() {
        let seconds = [0.1, 720.0, 1e-9, 0.000_42].map(seconds_nearest);
        assert_eq!(seconds, [360, 2_592_000, 1, 2]);
    }
}
