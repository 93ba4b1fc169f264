//! How a perceptron learns: Adam on the weighted squared error, until newer data says stop.
//!
//! The same seed, data and settings give the same bits on every machine: sums have a fixed order,
//! nothing is fused, and the exponential is our own.
//!
//! Monotone: a node with more load never scores higher. Every hidden unit is of one of two kinds,
//! one that never rises with load and one that never falls. After each step, weights whose sign
//! would break that are set to zero: from load to a unit by its kind, between units by whether
//! their kinds agree, and to the score by the kind of the unit. Pods and what is no load are free.

use walras_core::rng::Rng;

use super::scale::Scale;
use super::{FIRST, Mlp, SCORE, SECOND, Weights};
use crate::data::Matrix;
use crate::features::FEATURES;
use crate::number::{count, narrow};
use crate::simd::{Kernel, Work, portable::sigmoid};
use serde::{Deserialize, Serialize};

/// How a perceptron is trained. Recorded in the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MlpSettings {
    /// How often all rows are seen at most.
    pub epochs: u32,
    /// How many rows make one step.
    pub batch: usize,
    /// How long a step is.
    pub learning_rate: f32,
    /// After so many epochs without a better validation, it ends.
    pub patience: u32,
}

/// How far training is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Which epoch or tree this was, from 1 on.
    pub round: u32,
    /// How many there are at most.
    pub of: u32,
    /// The weighted mean squared error on the rows that are learned from.
    pub train: f64,
    /// The same on those that validate.
    pub validate: f64,
}

/// Which inputs are load.
type Loads = [bool; FEATURES];

/// Adam's constants.
const KEEP_MEAN: f32 = 0.9;
const KEEP_SQUARE: f32 = 0.999;
const TINY: f32 = 1e-8;

impl Default for MlpSettings {
    fn default() -> Self {
        Self { epochs: 50, batch: 32, learning_rate: 1e-3, patience: 8 }
    }
}

/// What hidden units held for one row.
struct Pass {
    first: [f32; FIRST],
    second: [f32; SECOND],
    /// Before the logistic function.
    score: f32,
}

struct Adam {
    means: Box<Weights>,
    squares: Box<Weights>,
    /// How much of the first steps' zeros is still in the means.
    fades: [f64; 2],
}

/// Trains the score. `loads` says which inputs are load, if scores shall be monotone in them.
pub(crate) fn train(
    train: &Matrix,
    validate: &Matrix,
    settings: &MlpSettings,
    loads: Option<&Loads>,
    rng: &mut Rng,
    kernel: Kernel,
    told: &mut dyn FnMut(Round),
) -> Box<Weights> {
    let scale = Scale::of(train);
    let (train, validate) = (&scale.scaled(train), &scale.scaled(validate));
    let mut weights = start(rng);
    if let Some(loads) = loads {
        turn(&mut weights, loads);
    }
    let mut adam = Adam::new();
    let mut gradient = Weights::zero();
    let mut order: Vec<usize> = (0..train.inputs.len()).collect();
    let mut best = (f64::INFINITY, weights.clone());
    let mut waited = 0;
    for round in 1..=settings.epochs {
        shuffle(&mut order, rng);
        let mut loss = 0.0;
        for batch in order.chunks(settings.batch.max(1)) {
            loss += kernel.widely(Step {
                weights: &mut weights,
                gradient: &mut gradient,
                adam: &mut adam,
                rows: train,
                batch,
                rate: settings.learning_rate,
            });
            if let Some(loads) = loads {
                project(&mut weights, loads);
            }
        }
        let total: f64 = train.weights.iter().copied().map(f64::from).sum();
        let validated = error(&weights, validate);
        let train = if total > 0.0 { loss / total } else { 0.0 };
        told(Round { round, of: settings.epochs, train, validate: validated });
        if validated < best.0 {
            best = (validated, weights.clone());
            waited = 0;
        } else {
            waited += 1;
            if waited >= settings.patience {
                break;
            }
        }
    }
    scale.folded(best.1)
}

/// The weighted mean squared error.
pub(crate) fn error(weights: &Weights, rows: &Matrix) -> f64 {
    let (mut sum, mut total) = (0.0, 0.0);
    for (score, (label, weight)) in
        scores(weights, rows).into_iter().zip(rows.labels.iter().zip(&rows.weights))
    {
        let off = f64::from(score) - f64::from(*label);
        sum += f64::from(*weight) * off * off;
        total += f64::from(*weight);
    }
    if total > 0.0 { sum / total } else { 0.0 }
}

/// The score of each row, in 0..1.
pub(crate) fn scores(weights: &Weights, rows: &Matrix) -> Vec<f32> {
    passes(weights, rows).into_iter().map(|pass| sigmoid(pass.score)).collect()
}

/// What the heads see of each row.
pub(crate) fn hidden(weights: &Weights, rows: &Matrix) -> Vec<[f32; SECOND]> {
    passes(weights, rows).into_iter().map(|pass| pass.second).collect()
}

fn passes(weights: &Weights, rows: &Matrix) -> Vec<Pass> {
    Kernel::best().widely(Forward { weights, rows })
}

/// A perceptron from what was learned.
impl From<Box<Weights>> for Mlp {
    fn from(weights: Box<Weights>) -> Self {
        Self::new(weights)
    }
}

fn start(rng: &mut Rng) -> Box<Weights> {
    let mut weights = Weights::zero();
    let inputs = [FEATURES, FEATURES, FIRST, FIRST, SECOND, SECOND];
    for (part, inputs) in weights.parts_mut().into_iter().zip(inputs) {
        let most = 1.0 / count(inputs).sqrt();
        for weight in part {
            *weight = narrow((2.0 * rng.unit() - 1.0) * most);
        }
    }
    weights
}

fn shuffle(order: &mut [usize], rng: &mut Rng) {
    for place in (1..order.len()).rev() {
        let bound = u64::try_from(place + 1).unwrap_or(u64::MAX);
        order.swap(place, usize::try_from(rng.below(bound)).unwrap_or(0));
    }
}

#[inline(always)]
fn forward(weights: &Weights, input: &[f32; FEATURES]) -> Pass {
    let mut first = weights.first_bias;
    for (value, weights) in input.iter().zip(&weights.first) {
        // Most inputs of a pod are zero.
        if *value != 0.0 {
            add(&mut first, weights, *value);
        }
    }
    for value in &mut first {
        *value = value.max(0.0);
    }
    let mut second = weights.second_bias;
    for (value, weights) in first.iter().zip(&weights.second) {
        if *value != 0.0 {
            add(&mut second, weights, *value);
        }
    }
    for value in &mut second {
        *value = value.max(0.0);
    }
    let score = dot(&second, &weights.heads[SCORE]) + weights.head_bias[SCORE];
    Pass { first, second, score }
}

/// One step of training on a batch.
struct Step<'a> {
    weights: &'a mut Weights,
    gradient: &'a mut Weights,
    adam: &'a mut Adam,
    rows: &'a Matrix,
    batch: &'a [usize],
    rate: f32,
}

impl Work for Step<'_> {
    /// The sum of the weighted squared errors.
    type Done = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { weights, gradient, adam, rows, batch, rate } = self;
        gradient.parts_mut().into_iter().for_each(|part| part.fill(0.0));
        let share = narrow(2.0 / count(batch.len()));
        let mut loss = 0.0;
        for &row in batch {
            let input = &rows.inputs[row];
            let pass = forward(weights, input);
            let score = sigmoid(pass.score);
            let off = score - rows.labels[row];
            loss += f64::from(rows.weights[row]) * f64::from(off) * f64::from(off);
            let slope = share * rows.weights[row] * off * score * (1.0 - score);
            backward(weights, input, &pass, slope, gradient);
        }
        adam.step(weights, gradient, rate);
        loss
    }
}

/// All rows through the perceptron.
struct Forward<'a> {
    weights: &'a Weights,
    rows: &'a Matrix,
}

impl Work for Forward<'_> {
    type Done = Vec<Pass>;

    #[inline(always)]
    fn run(self) -> Vec<Pass> {
        let mut passes = Vec::with_capacity(self.rows.inputs.len());
        for input in &self.rows.inputs {
            passes.push(forward(self.weights, input));
        }
        passes
    }
}

#[inline(always)]
fn backward(
    weights: &Weights,
    input: &[f32; FEATURES],
    pass: &Pass,
    slope: f32,
    gradient: &mut Weights,
) {
    gradient.head_bias[SCORE] += slope;
    add(&mut gradient.heads[SCORE], &pass.second, slope);
    let mut second = [0.0; SECOND];
    for ((to, weight), active) in second.iter_mut().zip(&weights.heads[SCORE]).zip(&pass.second) {
        *to = if *active > 0.0 { slope * weight } else { 0.0 };
    }
    add(&mut gradient.second_bias, &second, 1.0);
    let mut first = [0.0; FIRST];
    for (unit, active) in pass.first.iter().enumerate() {
        if *active > 0.0 {
            add(&mut gradient.second[unit], &second, *active);
            first[unit] = dot(&weights.second[unit], &second);
        }
    }
    add(&mut gradient.first_bias, &first, 1.0);
    for (gradient, value) in gradient.first.iter_mut().zip(input) {
        if *value != 0.0 {
            add(gradient, &first, *value);
        }
    }
}

#[inline(always)]
fn add<const N: usize>(to: &mut [f32; N], what: &[f32; N], factor: f32) {
    for (to, what) in to.iter_mut().zip(what) {
        *to += what * factor;
    }
}

/// In eight sums side by side, so that the order is fixed and the processor's vectors are used.
#[inline(always)]
fn dot(a: &[f32; SECOND], b: &[f32; SECOND]) -> f32 {
    let mut sums = [0.0; 8];
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

// === impl Adam ===

impl Adam {
    fn new() -> Self {
        Self { means: Weights::zero(), squares: Weights::zero(), fades: [1.0; 2] }
    }

    #[inline(always)]
    fn step(&mut self, weights: &mut Weights, gradient: &Weights, rate: f32) {
        self.fades[0] *= f64::from(KEEP_MEAN);
        self.fades[1] *= f64::from(KEEP_SQUARE);
        let rate = narrow(f64::from(rate) / (1.0 - self.fades[0]));
        let scale = narrow(1.0 / (1.0 - self.fades[1]));
        let parts = weights.parts_mut().into_iter().zip(gradient.parts());
        let moments = self.means.parts_mut().into_iter().zip(self.squares.parts_mut());
        for ((weights, gradient), (means, squares)) in parts.zip(moments) {
            let moments = means.iter_mut().zip(squares.iter_mut());
            for ((weight, slope), (mean, square)) in weights.iter_mut().zip(gradient).zip(moments) {
                *mean = KEEP_MEAN * *mean + (1.0 - KEEP_MEAN) * slope;
                *square = KEEP_SQUARE * *square + (1.0 - KEEP_SQUARE) * slope * slope;
                *weight -= rate * *mean / ((*square * scale).sqrt() + TINY);
            }
        }
    }
}

/// The kind of each unit: 1 where it never rises with load, -1 where it never falls.
const fn kinds<const UNITS: usize>() -> [f32; UNITS] {
    let mut kinds = [1.0; UNITS];
    let mut unit = UNITS / 2;
    while unit < UNITS {
        kinds[unit] = -1.0;
        unit += 1;
    }
    kinds
}

const FIRST_KINDS: [f32; FIRST] = kinds();
const SECOND_KINDS: [f32; SECOND] = kinds();

/// Every weight whose sign matters, with the sign that it may have.
fn each_signed(weights: &mut Weights, loads: &Loads, act: impl Fn(&mut f32, f32)) {
    for (weights, _) in weights.first.iter_mut().zip(loads).filter(|(_, load)| **load) {
        for (weight, kind) in weights.iter_mut().zip(&FIRST_KINDS) {
            act(weight, -kind);
        }
    }
    for (weights, from) in weights.second.iter_mut().zip(&FIRST_KINDS) {
        for (weight, to) in weights.iter_mut().zip(&SECOND_KINDS) {
            act(weight, from * to);
        }
    }
    for (weight, kind) in weights.heads[SCORE].iter_mut().zip(&SECOND_KINDS) {
        act(weight, *kind);
    }
}

/// Gives every weight the sign that it may have.
fn turn(weights: &mut Weights, loads: &Loads) {
    each_signed(weights, loads, |weight, sign| *weight = weight.abs() * sign);
}

/// Sets weights of a wrong sign to zero.
fn project(weights: &mut Weights, loads: &Loads) {
    each_signed(weights, loads, |weight, sign| *weight = (*weight * sign).max(0.0) * sign);
}
