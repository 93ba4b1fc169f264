//! What was asked for: which towns and which rules. Everything that is wrong is told at once.

use std::num::NonZeroUsize;
use std::sync::Arc;

use walras_brain::train::Kind;
use walras_brain::{embedded, file};
use walras_sim::place::contest::{Ground, Placer};
use walras_sim::place::town::{Recipe, TOWNS};

use super::super::asked::{ALL, threads_of, unknown};
use super::args::PlaceArgs;
use crate::failure::Failure;

/// What is to be placed.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) grounds: Vec<Ground>,
    pub(super) placers: Vec<Placer>,
    pub(super) threads: NonZeroUsize,
}

impl Asked {
    /// What the command line means.
    pub(super) fn of(args: &PlaceArgs) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let recipes = recipes(&args.towns, &mut problems);
        let placers = placers(args, &mut problems);
        if !problems.is_empty() {
            return Err(Failure::Input(problems.join("\n")));
        }
        let count = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let ground = |recipe| Ground {
            recipe,
            nodes: count(args.nodes),
            hours: count(args.hours),
            seed: args.seed,
            seeds: count(args.seeds),
        };
        Ok(Self {
            grounds: recipes.into_iter().map(ground).collect(),
            placers,
            threads: threads_of(args.threads),
        })
    }
}

fn recipes(names: &[String], problems: &mut Vec<String>) -> Vec<&'static Recipe> {
    if names.is_empty() {
        return TOWNS.iter().filter(|recipe| !recipe.for_training).collect();
    }
    let known: Vec<&'static str> = TOWNS.iter().map(|recipe| recipe.name).collect();
    let mut found = Vec::new();
    for name in names {
        match Recipe::named(name) {
            Some(recipe) => found.push(recipe),
            None => problems.push(unknown("town", name, &known)),
        }
    }
    found
}

fn placers(args: &PlaceArgs, problems: &mut Vec<String>) -> Vec<Placer> {
    let mut all = Placer::others();
    for (name, kind) in [("mlp", Kind::Mlp), ("trees", Kind::Trees)] {
        let model = Arc::new(embedded(kind).model);
        all.push(Placer::brain(name, "the Brain, with a model that is built in", model));
    }
    let mut given = None;
    if let Some(path) = &args.model {
        let read = std::fs::read(path).map_err(|error| error.to_string());
        match read.and_then(|bytes| file::read(&bytes, None).map_err(|error| error.to_string())) {
            Ok(file) => {
                let model = Arc::new(file.model);
                given = Some(Placer::brain("model", "the Brain, with the model given", model));
            }
            Err(error) => problems.push(format!("{}: {error}", path.display())),
        }
    }
    let is_all = args.policies.is_empty() || args.policies.iter().any(|name| name.trim() == ALL);
    let mut found: Vec<Placer> = if is_all { all.clone() } else { Vec::new() };
    for name in args.policies.iter().map(|name| name.trim()).filter(|_| !is_all) {
        match all.iter().find(|placer| placer.name == name) {
            Some(placer) if found.iter().all(|other| other.name != name) => {
                found.push(placer.clone());
            }
            Some(_) => {}
            None => {
                let known: Vec<&'static str> = all.iter().map(|placer| placer.name).collect();
                problems.push(unknown("rule", name, &known));
            }
        }
    }
    found.extend(given);
    found
}
