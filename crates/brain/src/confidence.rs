//! What a score is worth: the probability that it is right within ten points.
//!
//! The perceptron's head learns from its hits and misses on the rows that it was trained on, where
//! it is too sure of itself. So it is calibrated on rows that it did not learn from, by Platt's
//! scaling of its logit, which becomes part of the head's own weights. For trees the same is done
//! by one small tree, whose leaves hold the share of hits among the validating rows that fall into
//! them.

use crate::data::Matrix;
use crate::forest::{self, Bins, GrowSettings, Node, Tree};
use crate::mlp::{CONFIDENCE, SECOND, Weights, hidden};
use crate::number::{count, narrow};
use crate::simd::portable::sigmoid;

/// A score is a hit if it is this close to the label, which is ten points.
pub const CLOSE: f32 = 0.1;
/// Steps of gradient descent for the perceptron's head.
const STEPS: usize = 200;
const RATE: f64 = 0.5;
/// Steps of Newton's method for the calibration, which needs about six.
const NEWTON_STEPS: usize = 25;
/// So many imaginary rows with the overall share of hits are in every leaf.
const PRIOR_ROWS: f64 = 20.0;

/// Whether each score is right within ten points.
pub(crate) fn hits(scores: &[f32], labels: &[f32]) -> Vec<bool> {
    scores.iter().zip(labels).map(|(score, label)| (score - label).abs() <= CLOSE).collect()
}

/// Trains and calibrates the head of a perceptron whose other weights stay as they are.
pub(crate) fn train_head(
    weights: &mut Weights,
    train: (&Matrix, &[bool]),
    validate: (&Matrix, &[bool]),
) {
    let units = hidden(weights, train.0);
    let scale = 1.0 / largest(&units).max(1e-6);
    let mut head = [0.0_f64; SECOND];
    let mut bias = log_odds(train.1);
    for _ in 0..STEPS {
        let (mut slopes, mut bias_slope) = ([0.0; SECOND], 0.0);
        for (units, hit) in units.iter().zip(train.1) {
            let off = probability(logit(&head, bias, units, scale)) - as_number(*hit);
            bias_slope += off;
            for (slope, unit) in slopes.iter_mut().zip(units) {
                *slope += off * f64::from(*unit) * scale;
            }
        }
        let share = RATE / count(units.len().max(1));
        bias -= share * bias_slope;
        for (weight, slope) in head.iter_mut().zip(slopes) {
            *weight -= share * slope;
        }
    }
    let logits: Vec<f64> =
        hidden(weights, validate.0).iter().map(|units| logit(&head, bias, units, scale)).collect();
    let (slope, offset) = platt(&logits, validate.1);
    for (to, weight) in weights.heads[CONFIDENCE].iter_mut().zip(head) {
        *to = narrow(weight * scale * slope);
    }
    weights.head_bias[CONFIDENCE] = narrow(bias * slope + offset);
}

/// A tree whose leaves are confidences: grown where hits differ in training, filled by validation.
pub(crate) fn grow_tree(bins: &Bins, train_hits: &[bool], validate: (&Matrix, &[bool])) -> Tree {
    let settings = GrowSettings { depth: 4, rate: 1.0, least_weight: 50.0, ..GrowSettings::PLAIN };
    let slopes: Vec<[f64; 2]> = train_hits.iter().map(|hit| [-as_number(*hit), 1.0]).collect();
    let (tree, _) = forest::grow(bins, &slopes, &settings, None);
    let (rows, hits) = validate;
    let overall = share_of(hits);
    let mut filled = vec![(0.0, 0.0); tree.nodes().len()];
    for (input, hit) in rows.inputs.iter().zip(hits) {
        let (hits, rows) = &mut filled[tree.leaf_place(input).0];
        *hits += as_number(*hit);
        *rows += 1.0;
    }
    let nodes = tree.nodes().iter().zip(filled).map(|(node, (hits, rows))| match node {
        Node::Leaf(_) => Node::Leaf(narrow((hits + PRIOR_ROWS * overall) / (rows + PRIOR_ROWS))),
        split @ Node::Split { .. } => *split,
    });
    Tree::new(nodes.collect()).expect("the same splits, and leaves that are numbers")
}

/// The slope and offset that make logits fit what happened. Where logits tell nothing, or the
/// opposite, the slope is zero and all that is left is the overall share.
fn platt(logits: &[f64], hits: &[bool]) -> (f64, f64) {
    // Around their mean and by their spread, where Newton's method does not overshoot.
    let rows = count(logits.len().max(1));
    let mean = logits.iter().sum::<f64>() / rows;
    let spread =
        (logits.iter().map(|logit| (logit - mean) * (logit - mean)).sum::<f64>() / rows).sqrt();
    let flat = (0.0, log_odds(hits));
    if spread < 1e-9 {
        return flat;
    }
    let (mut slope, mut offset) = flat;
    for _ in 0..NEWTON_STEPS {
        // A little weight on zero, so that the matrix can always be inverted.
        let (mut g, mut h) = ([1e-3 * slope, 1e-3 * offset], [1e-3, 0.0, 1e-3]);
        for (logit, hit) in logits.iter().zip(hits) {
            let logit = (logit - mean) / spread;
            let p = probability(slope * logit + offset);
            let (off, curve) = (p - as_number(*hit), p * (1.0 - p));
            g = [g[0] + off * logit, g[1] + off];
            h = [h[0] + curve * logit * logit, h[1] + curve * logit, h[2] + curve];
        }
        let determinant = h[0] * h[2] - h[1] * h[1];
        if determinant <= 1e-12 {
            break;
        }
        let step =
            [(h[2] * g[0] - h[1] * g[1]) / determinant, (h[0] * g[1] - h[1] * g[0]) / determinant];
        // No step is so long that the next one starts where everything is flat.
        slope -= step[0].clamp(-1.0, 1.0);
        offset -= step[1].clamp(-1.0, 1.0);
    }
    let usable = slope.is_finite() && offset.is_finite() && slope > 0.0;
    if usable { (slope / spread, offset - slope * mean / spread) } else { flat }
}

fn logit(head: &[f64; SECOND], bias: f64, units: &[f32; SECOND], scale: f64) -> f64 {
    head.iter().zip(units).fold(bias, |sum, (weight, unit)| sum + weight * f64::from(*unit) * scale)
}

/// By our own exponential, so that it is the same on every machine.
fn probability(logit: f64) -> f64 {
    f64::from(sigmoid(narrow(logit)))
}

/// The logarithm of the odds of the overall share, by bisection of its inverse.
fn log_odds(hits: &[bool]) -> f64 {
    let share = share_of(hits).clamp(0.005, 0.995);
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if probability(middle) < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

fn share_of(hits: &[bool]) -> f64 {
    if hits.is_empty() {
        return 0.5;
    }
    count(hits.iter().filter(|hit| **hit).count()) / count(hits.len())
}

fn largest(units: &[[f32; SECOND]]) -> f64 {
    f64::from(units.as_flattened().iter().copied().fold(0.0, f32::max))
}

const fn as_number(hit: bool) -> f64 {
    if hit { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use walras_core::rng::Rng;

    use super::*;

    #[test]
    fn calibration_takes_back_too_much_and_too_little_trust() {
        let mut rng = Rng::from_seed(1);
        let truth: Vec<f64> = (0..20_000).map(|_| 4.0 * rng.unit() - 2.0).collect();
        let hits: Vec<bool> = truth.iter().map(|logit| rng.unit() < probability(*logit)).collect();
        for (factor, shift) in [(3.0, 1.0), (0.2, -0.5), (1.0, 0.0)] {
            let told: Vec<f64> = truth.iter().map(|logit| logit * factor + shift).collect();
            let (slope, offset) = platt(&told, &hits);
            assert!((slope * factor - 1.0).abs() < 0.1, "{slope} for {factor}");
            assert!((offset + shift / factor).abs() < 0.1, "{offset} for {shift}");
        }
    }

    #[test]
    fn what_tells_nothing_becomes_the_overall_share() {
        let mut rng = Rng::from_seed(2);
        let hits: Vec<bool> = (0..2000).map(|_| rng.below(4) == 0).collect();
        let opposite: Vec<f64> = hits.iter().map(|hit| -as_number(*hit)).collect();
        let (slope, offset) = platt(&opposite, &hits);
        assert_eq!(slope, 0.0);
        assert!((probability(offset) - share_of(&hits)).abs() < 1e-4);
        for hits in [vec![true; 50], vec![false; 50], vec![]] {
            let (slope, offset) = platt(&vec![0.3; hits.len()], &hits);
            assert!(slope.is_finite() && offset.is_finite());
        }
    }
}
