//! A contest over placement: every rule places the same pods, for several seeds.
//!
//! Figures are means over seeds with 95 % confidence intervals (Student's t). Rules are compared
//! seed by seed, since what one seed makes hard it makes hard for all of them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use walras_brain::model::Model;

use super::rules::{
    Allocated, Balanced, Both, Brain, LoadVariation, Oracle, Preference, Random, Rule, TargetLoad,
};
use super::run::{Nobody, run};
use super::tally::PlaceFigures;
use super::town::{Recipe, Size};
use crate::crew;

/// Something that can choose nodes.
#[derive(Clone, Debug)]
pub struct Placer {
    /// The name a user types.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    Random,
    Allocated(Preference),
    Balanced,
    Both,
    TargetLoad,
    LoadVariation,
    Brain(Arc<Model>),
    Oracle,
}

/// What people use today, and chance.
pub const RIVALS: [&str; 7] = [
    "least-allocated",
    "most-allocated",
    "balanced",
    "kube-default",
    "target-load",
    "load-variation",
    "random",
];
/// The yardstick.
pub const ORACLE: &str = "oracle";

/// How one placer did.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceStanding {
    /// Its name.
    pub policy: &'static str,
    /// What it came to with each seed.
    pub runs: Vec<PlaceFigures>,
}

/// A mean, and how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean over seeds.
    pub mean: f64,
    /// Half of the width of the 95 % confidence interval.
    pub half: f64,
}

/// How one placer compares with the best rival.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Whose 99th percentile is the lowest of all rivals'.
    pub rival: &'static str,
    /// By how much ours is lower, as a share of the rival's, seed by seed.
    pub lower: Estimate,
    /// The same of what is above 1, which is all that placement can do anything about.
    pub excess_lower: Estimate,
}

/// A town, and how it is run.
#[derive(Clone, Copy, Debug)]
pub struct Ground {
    /// The recipe.
    pub recipe: &'static Recipe,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many hours count.
    pub hours: usize,
    /// The first seed.
    pub seed: u64,
    /// How many seeds.
    pub seeds: usize,
}

/// Lets every placer run the same towns. `run_done` is called after each run.
#[must_use]
pub fn compete(
    placers: &[Placer],
    ground: &Ground,
    threads: NonZeroUsize,
    run_done: &(dyn Fn() + Sync),
) -> Vec<PlaceStanding> {
    let towns: Vec<_> = (0..ground.seeds)
        .map(|number| {
            let seed = ground.seed + number as u64;
            ground.recipe.build(&Size { nodes: ground.nodes, hours: ground.hours, seed })
        })
        .collect();
    let jobs: Vec<(usize, usize)> = (0..placers.len())
        .flat_map(|placer| (0..towns.len()).map(move |town| (placer, town)))
        .collect();
    let done = crew::all_done(&jobs, threads, &|(placer, town)| {
        let figures = run(&towns[*town], &mut *placers[*placer].rule(), &mut Nobody);
        run_done();
        figures
    });
    let runs = done.chunks(towns.len().max(1));
    placers
        .iter()
        .zip(runs)
        .map(|(placer, runs)| PlaceStanding { policy: placer.name, runs: runs.to_vec() })
        .collect()
}

// === impl Placer ===

impl Placer {
    /// Everybody but the Brain.
    #[must_use]
    pub fn others() -> Vec<Self> {
        let placer = |name, about, how| Self { name, about, how };
        vec![
            placer(
                "least-allocated",
                "kube-scheduler's LeastAllocated, by requests",
                How::Allocated(Preference::Least),
            ),
            placer(
                "most-allocated",
                "kube-scheduler's MostAllocated, by requests",
                How::Allocated(Preference::Most),
            ),
            placer("balanced", "kube-scheduler's BalancedAllocation", How::Balanced),
            placer("kube-default", "LeastAllocated and BalancedAllocation added", How::Both),
            placer("target-load", "Trimaran's TargetLoadPacking at 40 %", How::TargetLoad),
            placer("load-variation", "Trimaran's LoadVariationRiskBalancing", How::LoadVariation),
            placer("random", "any node that has room", How::Random),
            placer(ORACLE, "knows what nobody can measure; the yardstick", How::Oracle),
        ]
    }

    /// The Brain with a model.
    #[must_use]
    pub const fn brain(name: &'static str, about: &'static str, model: Arc<Model>) -> Self {
        Self { name, about, how: How::Brain(model) }
    }

    /// Whether it is neither a rival nor the yardstick.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        matches!(self.how, How::Brain(_))
    }

    fn rule(&self) -> Box<dyn Rule> {
        match &self.how {
            How::Random => Box::new(Random),
            How::Allocated(preference) => Box::new(Allocated(*preference)),
            How::Balanced => Box::new(Balanced),
            How::Both => Box::new(Both),
            How::TargetLoad => Box::new(TargetLoad::default()),
            How::LoadVariation => Box::new(LoadVariation::default()),
            How::Brain(model) => Box::new(Brain::new(Arc::clone(model))),
            How::Oracle => Box::new(Oracle),
        }
    }
}

// === impl PlaceStanding ===

impl PlaceStanding {
    /// A figure, over all seeds.
    #[must_use]
    pub fn of(&self, figure: fn(&PlaceFigures) -> f64) -> Estimate {
        Estimate::over(&self.runs.iter().map(figure).collect::<Vec<_>>())
    }

    /// How it compares with the best of the rivals that took part.
    #[must_use]
    pub fn against_best(&self, all: &[Self]) -> Option<Comparison> {
        let rivals = all.iter().filter(|other| RIVALS.contains(&other.policy));
        let best =
            rivals.min_by(|a, b| a.of(|it| it.p99).mean.total_cmp(&b.of(|it| it.p99).mean))?;
        let lower = |of: fn(&PlaceFigures) -> f64| {
            let pairs = self.runs.iter().zip(&best.runs);
            let lower: Vec<f64> = pairs.map(|(ours, theirs)| 1.0 - of(ours) / of(theirs)).collect();
            Estimate::over(&lower)
        };
        Some(Comparison {
            rival: best.policy,
            lower: lower(|it| it.p99),
            excess_lower: lower(|it| (it.p99 - 1.0).max(1e-9)),
        })
    }
}

// === impl Estimate ===

impl Estimate {
    /// Of the values of several seeds.
    #[must_use]
    pub fn over(values: &[f64]) -> Self {
        let number = super::cluster::as_number(values.len() as u64);
        let mean = values.iter().sum::<f64>() / number.max(1.0);
        if values.len() < 2 {
            return Self { mean, half: f64::INFINITY };
        }
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let error = (squares / (number - 1.0) / number).sqrt();
        Self { mean, half: student(values.len() - 1) * error }
    }
}

/// Student's t for 95 % and so many degrees of freedom.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    FEW.get(freedom.saturating_sub(1)).copied().unwrap_or(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_students() {
        // Of 1, 2, 3: mean 2, deviation 1, error 1 / sqrt(3), t 4.303.
        let found = Estimate::over(&[1.0, 2.0, 3.0]);
        assert!((found.mean - 2.0).abs() < 1e-12 && (found.half - 2.484).abs() < 1e-3, "{found:?}");
        assert!(Estimate::over(&[1.0]).half.is_infinite());
        assert_eq!(student(19), 2.093);
    }
}
