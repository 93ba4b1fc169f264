//! Inputs of one size for learning, and weights for inputs as they are.
//!
//! A range is made for the worst that can be measured; what a cluster measures may be thousandths
//! of it, which a perceptron would hardly see. So it learns from inputs that are moved and
//! stretched to a mean of 0 and a spread of 1, and what it learned is moved into the weights of
//! its first layer afterwards: a model's file knows nothing of all this.
//!
//! An input that never varied has taught nothing. It is 0 while the perceptron learns, and its
//! weights are 0 for good: whatever it comes to mean later, it counts for nothing.

use super::{FIRST, Weights};
use crate::data::Matrix;
use crate::features::FEATURES;
use crate::number::{count, narrow};

/// How inputs are moved and stretched.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    means: [f64; FEATURES],
    factors: [f64; FEATURES],
}

/// What spreads less than this part of its range did not vary: it is how values are rounded.
const LEAST_SPREAD: f64 = 1e-6;

impl Scale {
    /// What fits these rows.
    pub(super) fn of(rows: &Matrix) -> Self {
        let number = count(rows.inputs.len().max(1));
        let mut scale = Self { means: [0.0; FEATURES], factors: [0.0; FEATURES] };
        for place in 0..FEATURES {
            let values = || rows.inputs.iter().map(|input| f64::from(input[place]));
            let mean = values().sum::<f64>() / number;
            let squares: f64 = values().map(|value| (value - mean) * (value - mean)).sum();
            let spread = (squares / number).sqrt();
            // Marks of kinds stay as they are: most of them are 0, and zeros cost no time.
            let is_mark = values().all(|value| value == 0.0 || value == 1.0);
            (scale.means[place], scale.factors[place]) = if spread < LEAST_SPREAD {
                (mean, 0.0)
            } else if is_mark {
                (0.0, 1.0)
            } else {
                (mean, 1.0 / spread)
            };
        }
        scale
    }

    /// The rows to learn from.
    pub(super) fn scaled(&self, rows: &Matrix) -> Matrix {
        let mut rows = rows.clone();
        for input in &mut rows.inputs {
            for ((value, mean), factor) in input.iter_mut().zip(self.means).zip(self.factors) {
                *value = narrow((f64::from(*value) - mean) * factor);
            }
        }
        rows
    }

    /// Weights that make of inputs as they are what `weights` make of scaled ones.
    pub(super) fn folded(&self, mut weights: Box<Weights>) -> Box<Weights> {
        let mut bias = weights.first_bias.map(f64::from);
        let scales = self.means.iter().zip(&self.factors);
        for (weights, (mean, factor)) in weights.first.iter_mut().zip(scales) {
            for (weight, bias) in weights.iter_mut().zip(&mut bias) {
                let stretched = f64::from(*weight) * factor;
                *bias -= stretched * mean;
                *weight = narrow(stretched);
            }
        }
        let mut first_bias = [0.0; FIRST];
        first_bias.iter_mut().zip(bias).for_each(|(to, bias)| *to = narrow(bias));
        weights.first_bias = first_bias;
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::super::train::scores;
    use super::*;

    /// Rows whose first input varies around 0.003 by 0.001, whose second never varies, and whose
    /// third is a mark.
    fn rows() -> Matrix {
        let input = |row: u8| {
            let mut input = [0.0; FEATURES];
            input[0] = if row.is_multiple_of(2) { 0.002 } else { 0.004 };
            input[1] = 0.25;
            input[2] = if row < 30 { 1.0 } else { 0.0 };
            input
        };
        let inputs: Vec<_> = (0..100).map(input).collect();
        Matrix { labels: vec![0.5; 100], weights: vec![1.0; 100], inputs }
    }

    #[test]
    fn what_varies_gets_one_size_and_what_does_not_becomes_nothing() {
        let scaled = Scale::of(&rows()).scaled(&rows());
        assert!((scaled.inputs[0][0] + 1.0).abs() < 1e-3, "{:?}", scaled.inputs[0]);
        assert!((scaled.inputs[1][0] - 1.0).abs() < 1e-3, "{:?}", scaled.inputs[1]);
        assert_eq!(scaled.inputs[0][1..4], [0.0, 1.0, 0.0]);
    }

    #[test]
    fn folded_weights_say_of_inputs_what_the_others_say_of_scaled_ones() {
        let mut weights = Weights::zero();
        for part in weights.parts_mut() {
            for (place, weight) in part.iter_mut().enumerate() {
                *weight = 0.1 - 0.01 * narrow(count(place % 17));
            }
        }
        let scale = Scale::of(&rows());
        let folded = scale.folded(weights.clone());
        let [scaled, raw] = [scores(&weights, &scale.scaled(&rows())), scores(&folded, &rows())];
        for (scaled, raw) in scaled.iter().zip(&raw) {
            assert!((scaled - raw).abs() < 1e-5, "{scaled} {raw}");
        }
        assert_eq!(folded.first[1], [0.0; FIRST], "it never varied");
    }
}
