//! The perceptron: 26 inputs, 64 and 32 hidden units, one head for the score and one for the
//! confidence in it. 3,874 numbers in all.
//!
//! The pod is the same for all nodes of a batch, so its part of the first layer is computed once.
//! A node's result does not depend on its neighbours in the batch, and no call allocates.

mod scale;
mod train;

pub use train::{MlpSettings, Round};
pub(crate) use train::{hidden, scores, train};

use crate::features::{FEATURES, NODE_FEATURES, POD_FEATURES};
use crate::simd::{Kernel, LANES, Lanes, Layer};

/// Units of the first hidden layer.
pub const FIRST: usize = 64;
/// Units of the second hidden layer.
pub const SECOND: usize = 32;
/// All numbers of a perceptron.
pub const PARAMETERS: usize = (FEATURES + 1) * FIRST + (FIRST + 1) * SECOND + 2 * (SECOND + 1);
/// How many outputs of a layer are computed at once: what fits into the registers of AVX2.
const BLOCK: usize = 4;

/// The numbers of a perceptron, by input and then by unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// From inputs to the first layer.
    pub first: [[f32; FIRST]; FEATURES],
    /// Of the first layer.
    pub first_bias: [f32; FIRST],
    /// From the first layer to the second.
    pub second: [[f32; SECOND]; FIRST],
    /// Of the second layer.
    pub second_bias: [f32; SECOND],
    /// From the second layer to the score and to the confidence.
    pub heads: [[f32; SECOND]; 2],
    /// Of the two heads.
    pub head_bias: [f32; 2],
}

/// A perceptron that is ready to score.
#[derive(Clone, Debug)]
pub struct Mlp {
    weights: Box<Weights>,
    nodes: Layer<NODE_FEATURES, BLOCK>,
    second: Layer<FIRST, BLOCK>,
    heads: Layer<SECOND, 2>,
}

/// The first layer's bias with a pod's part in it.
#[derive(Clone, Debug)]
pub(crate) struct PodBias([f32; FIRST]);

/// The place of the score among the outputs.
pub(crate) const SCORE: usize = 0;
/// The place of the confidence among the outputs.
pub(crate) const CONFIDENCE: usize = 1;

// === impl Weights ===

impl Weights {
    /// All zero.
    #[must_use]
    pub fn zero() -> Box<Self> {
        Box::new(Self {
            first: [[0.0; FIRST]; FEATURES],
            first_bias: [0.0; FIRST],
            second: [[0.0; SECOND]; FIRST],
            second_bias: [0.0; SECOND],
            heads: [[0.0; SECOND]; 2],
            head_bias: [0.0; 2],
        })
    }

    /// All numbers, in slices of a fixed order.
    #[must_use]
    pub fn parts(&self) -> [&[f32]; 6] {
        [
            self.first.as_flattened(),
            &self.first_bias,
            self.second.as_flattened(),
            &self.second_bias,
            self.heads.as_flattened(),
            &self.head_bias,
        ]
    }

    /// The same, to be changed.
    pub fn parts_mut(&mut self) -> [&mut [f32]; 6] {
        [
            self.first.as_flattened_mut(),
            &mut self.first_bias,
            self.second.as_flattened_mut(),
            &mut self.second_bias,
            self.heads.as_flattened_mut(),
            &mut self.head_bias,
        ]
    }

    /// Whether every number is one.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.parts().into_iter().flatten().all(|value| value.is_finite())
    }
}

// === impl Mlp ===

impl Mlp {
    /// Lays the weights out for the kernels.
    #[must_use]
    pub fn new(weights: Box<Weights>) -> Self {
        let nodes = packed(|input, unit| weights.first[input][unit], FIRST);
        let second = packed(|input, unit| weights.second[input][unit], SECOND);
        let heads = packed(|input, unit| weights.heads[unit][input], 2);
        Self { weights, nodes, second, heads }
    }

    /// Its numbers.
    #[must_use]
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    pub(crate) fn pod_bias(&self, pod: &[f32; POD_FEATURES]) -> PodBias {
        let mut bias = self.weights.first_bias;
        for (weights, value) in self.weights.first[NODE_FEATURES..].iter().zip(pod) {
            for (bias, weight) in bias.iter_mut().zip(weights) {
                *bias += weight * value;
            }
        }
        PodBias(bias)
    }

    /// Score and confidence, both in 0..1, of each node of a tile.
    pub(crate) fn tile(
        &self,
        kernel: Kernel,
        pod: &PodBias,
        nodes: &[Lanes; NODE_FEATURES],
    ) -> [Lanes; 2] {
        let mut first = [[0.0; LANES]; FIRST];
        let mut second = [[0.0; LANES]; SECOND];
        let mut outputs = [[0.0; LANES]; 2];
        kernel.layer(&self.nodes, &pod.0, nodes, &mut first, true);
        kernel.layer(&self.second, &self.weights.second_bias, &first, &mut second, true);
        kernel.layer(&self.heads, &self.weights.head_bias, &second, &mut outputs, false);
        outputs.iter_mut().for_each(|lanes| kernel.sigmoid(lanes));
        outputs
    }
}

/// A layer in blocks of outputs.
fn packed<const IN: usize, const BLOCK: usize>(
    weight: impl Fn(usize, usize) -> f32,
    outputs: usize,
) -> Layer<IN, BLOCK> {
    let block = |block: usize| {
        let row = |input: usize| std::array::from_fn(|place| weight(input, block * BLOCK + place));
        std::array::from_fn(row)
    };
    Layer { blocks: (0..outputs / BLOCK).map(block).collect() }
}
