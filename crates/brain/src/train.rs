//! Training as a whole: rows in, a model with its confidence out, and how it went.
//!
//! Three parts of the rows, by time: learned from, validated by, and judged by. The last part is
//! seen by nothing here.

use serde::{Deserialize, Serialize};
use walras_core::rng::Rng;

use crate::confidence;
use crate::data::{FEWEST_EVENTS, Rows, Split};
use crate::features::{BadTelemetry, FEATURES, Filler, Order};
use crate::forest::{self, Bins, TreeSettings};
use crate::label::{LabelSettingError, LabelSettings};
use crate::mlp::{self, Mlp, MlpSettings, Round};
use crate::model::{Learned, Model, Trees};
use crate::simd::Kernel;

/// Which kind of model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A perceptron.
    #[default]
    Mlp,
    /// Boosted trees.
    Trees,
}

/// Everything that a model depends on beside the rows. Recorded in the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainSettings {
    /// Which kind of model.
    pub kind: Kind,
    /// Where randomness starts.
    pub seed: u64,
    /// Whether a node with more load never scores higher.
    pub monotone: bool,
    /// How labels are made.
    pub labels: LabelSettings,
    /// How a perceptron is trained.
    pub mlp: MlpSettings,
    /// How trees are trained.
    pub trees: TreeSettings,
}

/// A model, and how it came about.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model.
    pub model: Model,
    /// Every epoch, or every tree.
    pub rounds: Vec<Round>,
    /// Which rows were for what.
    pub split: Split,
}

/// Why nothing can be trained.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrainError {
    /// There are too few events.
    #[error(
        "{found} events with telemetry and outcome are too few; at least {FEWEST_EVENTS} are needed"
    )]
    TooFew {
        /// So many there are.
        found: usize,
    },
    /// A row holds something that is no number.
    #[error(transparent)]
    Telemetry(#[from] BadTelemetry),
    /// A setting of the labels cannot be.
    #[error("labels: {0}")]
    Labels(#[from] LabelSettingError),
    /// A setting cannot be.
    #[error("{setting}: {value} is outside {low} to {high}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// Its value.
        value: f64,
        /// The least that it can be.
        low: f64,
        /// The most that it can be.
        high: f64,
    },
}

impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            kind: Kind::Mlp,
            seed: 42,
            monotone: true,
            labels: LabelSettings::default(),
            mlp: MlpSettings::default(),
            trees: TreeSettings::default(),
        }
    }
}

impl TrainSettings {
    /// Refuses what cannot be.
    ///
    /// # Errors
    ///
    /// A setting is outside its range.
    pub fn check(&self) -> Result<(), TrainError> {
        self.labels.check()?;
        let number = |value: usize| crate::number::count(value);
        let all = [
            ("epochs", f64::from(self.mlp.epochs), 1.0, 100_000.0),
            ("batch", number(self.mlp.batch), 1.0, 65_536.0),
            ("learning_rate", f64::from(self.mlp.learning_rate), 1e-7, 1.0),
            ("trees", f64::from(self.trees.trees), 1.0, 10_000.0),
            ("depth", number(self.trees.depth), 1.0, 6.0),
            ("tree_learning_rate", self.trees.learning_rate, 1e-4, 1.0),
        ];
        let wrong = all.into_iter().find(|(_, value, low, high)| !(*low..=*high).contains(value));
        match wrong {
            None => Ok(()),
            Some((setting, value, low, high)) => {
                Err(TrainError::Setting { setting, value, low, high })
            }
        }
    }
}

/// Trains a model. `told` hears of every epoch or tree.
///
/// # Errors
///
/// There is too little to learn from, or a setting cannot be.
pub fn train(
    rows: &Rows,
    settings: &TrainSettings,
    told: &mut dyn FnMut(Round),
) -> Result<Trained, TrainError> {
    train_with(Kernel::best(), rows, settings, told)
}

/// The same with a given kernel, which makes no difference to the bits.
///
/// # Errors
///
/// As for [`train`].
pub fn train_with(
    kernel: Kernel,
    rows: &Rows,
    settings: &TrainSettings,
    told: &mut dyn FnMut(Round),
) -> Result<Trained, TrainError> {
    settings.check()?;
    let split = rows.split().ok_or(TrainError::TooFew { found: rows.events })?;
    let mut rounds = Vec::new();
    let mut tell = |round: Round| {
        rounds.push(round);
        told(round);
    };
    let model = match settings.kind {
        Kind::Mlp => train_mlp(kernel, rows, &split, settings, &mut tell)?,
        Kind::Trees => train_trees(rows, &split, settings, &mut tell)?,
    };
    Ok(Trained { model, rounds, split })
}

/// Which inputs are load, if that is to matter.
fn loads(settings: &TrainSettings, order: Order) -> Option<[bool; FEATURES]> {
    settings.monotone.then(|| order.features().map(|about| about.load))
}

fn train_mlp(
    kernel: Kernel,
    rows: &Rows,
    split: &Split,
    settings: &TrainSettings,
    told: &mut dyn FnMut(Round),
) -> Result<Model, TrainError> {
    let (order, filler) = (Order::Document, Filler::Typical);
    let train = rows.matrix(split.train.clone(), order, filler)?;
    let validate = rows.matrix(split.validate.clone(), order, filler)?;
    let mut rng = Rng::from_seed(settings.seed);
    let loads = loads(settings, order);
    let mut weights =
        mlp::train(&train, &validate, &settings.mlp, loads.as_ref(), &mut rng, kernel, told);
    let [train_hits, validate_hits] = [&train, &validate]
        .map(|rows| confidence::hits(&mlp::scores(&weights, rows), &rows.labels));
    confidence::train_head(&mut weights, (&train, &train_hits), (&validate, &validate_hits));
    Ok(Model { order, filler, learned: Learned::Mlp(Mlp::from(weights)) })
}

fn train_trees(
    rows: &Rows,
    split: &Split,
    settings: &TrainSettings,
    told: &mut dyn FnMut(Round),
) -> Result<Model, TrainError> {
    let (order, filler) = (Order::Document, Filler::Nan);
    let train = rows.matrix(split.train.clone(), order, filler)?;
    let validate = rows.matrix(split.validate.clone(), order, filler)?;
    let bins = Bins::of(&train);
    let loads = loads(settings, order);
    let forest = forest::train(&bins, &train, &validate, &settings.trees, loads.as_ref(), told);
    let [train_hits, validate_hits] = [&train, &validate].map(|rows| {
        let scores: Vec<f32> =
            rows.inputs.iter().map(|input| forest.label(forest.sum(input))).collect();
        confidence::hits(&scores, &rows.labels)
    });
    let confidence = confidence::grow_tree(&bins, &train_hits, (&validate, &validate_hits));
    let learned = Learned::Trees(Trees { forest, confidence: Some(confidence) });
    Ok(Model { order, filler, learned })
}
