//! What was asked for: which town, which policies, how large and how long.

use std::fs;
use std::num::NonZeroUsize;

use walras_sim::pack::contest::{ENTRANTS, Entrant};
use walras_sim::pack::run::{HISTORY, SETTLING};
use walras_sim::pack::schedule::Score;
use walras_sim::pack::town::{Recipe, Size, TOWNS};
use walras_sim::pack::workload::DAY;
use walras_sim::scenario::trace::{self, Reading, Trace, split_name};

use super::super::asked::{ALL, threads_of, unknown};
use crate::cli::SimRunArgs;
use crate::failure::Failure;

/// As many nodes as declared requests need where it is not said.
const NODES: u32 = 30;
/// Windows are counted, and nobody waits for a town of more nodes than this.
const NODES_MAX: u32 = 20_000;

/// What is to be packed.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) recipe: &'static Recipe,
    pub(super) size: Size,
    pub(super) days: u32,
    pub(super) entrants: Vec<&'static Entrant>,
    /// What services follow in the place of made-up load.
    pub(super) traces: Vec<Trace>,
    pub(super) score: Score,
    pub(super) threads: NonZeroUsize,
}

impl Asked {
    /// What the command line means.
    pub(super) fn of(args: &SimRunArgs) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let recipe = recipe(&args.scenarios, &mut problems);
        let entrants = entrants(&args.policies, &mut problems);
        let traces = traces(args, &mut problems);
        let nodes = args.nodes.unwrap_or(NODES);
        if nodes > NODES_MAX {
            problems.push(format!("--nodes {nodes}: with --pack there are at most {NODES_MAX}"));
        }
        let (Some(recipe), true) = (recipe, problems.is_empty()) else {
            return Err(Failure::Input(problems.join("\n")));
        };
        let days = usize::try_from(args.days).unwrap_or(usize::MAX);
        let size = Size {
            nodes,
            windows: HISTORY + SETTLING + days * DAY,
            seed: args.seed.unwrap_or(1),
            with_memory: args.memory,
        };
        Ok(Self {
            recipe,
            size,
            days: args.days,
            entrants,
            traces,
            score: args.score.into(),
            threads: threads_of(args.threads),
        })
    }
}

fn recipe(names: &[String], problems: &mut Vec<String>) -> Option<&'static Recipe> {
    let known: Vec<&'static str> = TOWNS.iter().map(|recipe| recipe.name).collect();
    match names {
        [] => TOWNS.first(),
        [name] => {
            let found = Recipe::named(name);
            if found.is_none() {
                problems.push(unknown("town", name, &known));
            }
            found
        }
        [_, second, ..] => {
            problems.push(format!("{second:?}: with --pack there is one town, and no other"));
            None
        }
    }
}

fn traces(args: &SimRunArgs, problems: &mut Vec<String>) -> Vec<Trace> {
    let mut found = Vec::new();
    for name in &args.traces {
        let name = name.display().to_string();
        let (path, machine) = split_name(&name);
        let format = args.trace_format.map(Into::into);
        let how = Reading { format, machine, machine_cores: None };
        let read = fs::read(path).map_err(|error| format!("{path}: {error}"));
        let parsed = read
            .and_then(|bytes| trace::parse(&bytes, path, &how).map_err(|error| error.to_string()));
        match parsed {
            Ok(trace) => found.push(trace),
            Err(problem) => problems.push(problem),
        }
    }
    found
}

fn entrants(names: &[String], problems: &mut Vec<String>) -> Vec<&'static Entrant> {
    let known: Vec<&'static str> = ENTRANTS.iter().map(|entrant| entrant.name).collect();
    if names.is_empty() || names.iter().any(|name| name.trim() == ALL) {
        return ENTRANTS.iter().collect();
    }
    let mut found: Vec<&'static Entrant> = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        match Entrant::named(name) {
            None => problems.push(unknown("policy", name, &known)),
            Some(entrant) if found.iter().all(|other| other.name != name) => found.push(entrant),
            Some(_) => {}
        }
    }
    found
}
