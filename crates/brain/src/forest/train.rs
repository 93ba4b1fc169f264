//! How boosted trees learn: each tree from what those before it left over, until newer data says
//! stop.

use serde::{Deserialize, Serialize};

use super::{Bins, Forest, GrowSettings, Link, Tree, grow};
use crate::data::Matrix;
use crate::features::FEATURES;
use crate::mlp::Round;
use crate::number::narrow;

/// How trees are trained. Recorded in the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeSettings {
    /// How many at most.
    pub trees: u32,
    /// How many levels of splits at most.
    pub depth: usize,
    /// How much of what is left over a tree makes up for.
    pub learning_rate: f64,
    /// After so many trees without a better validation, it ends.
    pub patience: u32,
}

impl Default for TreeSettings {
    fn default() -> Self {
        Self { trees: 100, depth: 6, learning_rate: 0.1, patience: 10 }
    }
}

/// Trains the score. `loads` says which inputs are load, if scores shall be monotone in them.
pub(crate) fn train(
    bins: &Bins,
    train: &Matrix,
    validate: &Matrix,
    settings: &TreeSettings,
    loads: Option<&[bool; FEATURES]>,
    told: &mut dyn FnMut(Round),
) -> Forest {
    let grown =
        GrowSettings { depth: settings.depth, rate: settings.learning_rate, ..GrowSettings::PLAIN };
    let base = mean(train);
    let mut sums = [vec![base; train.labels.len()], vec![base; validate.labels.len()]];
    let mut trees: Vec<Tree> = Vec::new();
    let mut best = (error(validate, &sums[1]), 0);
    for round in 1..=settings.trees {
        let slopes: Vec<[f64; 2]> = train
            .labels
            .iter()
            .zip(&train.weights)
            .zip(&sums[0])
            .map(|((label, weight), sum)| {
                let weight = f64::from(*weight);
                [weight * (f64::from(*sum) - f64::from(*label)), weight]
            })
            .collect();
        let (tree, leaves) = grow(bins, &slopes, &grown, loads);
        for (sum, leaf) in sums[0].iter_mut().zip(leaves) {
            *sum += leaf;
        }
        for (sum, input) in sums[1].iter_mut().zip(&validate.inputs) {
            *sum += tree.leaf(input);
        }
        trees.push(tree);
        let validated = error(validate, &sums[1]);
        let train = error(train, &sums[0]);
        told(Round { round, of: settings.trees, train, validate: validated });
        if validated < best.0 {
            best = (validated, trees.len());
        } else if trees.len() >= best.1 + usize::try_from(settings.patience).unwrap_or(usize::MAX) {
            break;
        }
    }
    trees.truncate(best.1.max(1));
    Forest::new(trees, base, Link::Identity)
}

/// The weighted mean of the labels.
fn mean(rows: &Matrix) -> f32 {
    let (mut sum, mut total) = (0.0, 0.0);
    for (label, weight) in rows.labels.iter().zip(&rows.weights) {
        sum += f64::from(*label) * f64::from(*weight);
        total += f64::from(*weight);
    }
    if total > 0.0 { narrow(sum / total) } else { 0.5 }
}

/// The weighted mean squared error.
fn error(rows: &Matrix, sums: &[f32]) -> f64 {
    let (mut squares, mut total) = (0.0, 0.0);
    for ((label, weight), sum) in rows.labels.iter().zip(&rows.weights).zip(sums) {
        let off = f64::from(*sum) - f64::from(*label);
        squares += f64::from(*weight) * off * off;
        total += f64::from(*weight);
    }
    if total > 0.0 { squares / total } else { 0.0 }
}
