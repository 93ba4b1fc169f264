//! Model files: our own, and those of PyTorch and XGBoost. Bytes in, a checked model out.
//!
//! What is read is known by its content, not by its name. A model with other features than ours is
//! refused by their names; one without names needs to be told its order. Every model is asked a few
//! questions before it may serve.

mod golden;
mod native;
mod pickle;
mod safetensors;
mod torch;
mod ubj;
mod xgboost;
mod zip;

use serde::{Deserialize, Serialize};

use self::safetensors::{Numbers, Tensors};
use crate::features::{Filler, Order, order_of};
use crate::forest::{Forest, TreeError};
use crate::mlp::Mlp;
use crate::model::{Learned, Model, Trees};
use crate::train::TrainSettings;

/// The largest file that is read. Ours have 16 to 200 KB.
pub const LARGEST: usize = 64 << 20;

/// A model, and what is known about it.
#[derive(Clone, Debug)]
pub struct ModelFile {
    /// The model.
    pub model: Model,
    /// Where it comes from.
    pub about: About,
}

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct About {
    /// What it is called.
    pub name: String,
    /// Who made it.
    pub source: Source,
    /// Whether its confidence was compared with what happened.
    pub calibrated: bool,
    /// What it was trained on, if we trained it.
    pub trained: Option<TrainedOn>,
}

/// Who made a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// `walras brain train`.
    Walras,
    /// PyTorch.
    Pytorch,
    /// XGBoost.
    Xgboost,
}

/// What a model was trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainedOn {
    /// The SHA-256 of the events' bytes, one file after the other.
    pub data_sha256: String,
    /// How many events.
    pub events: usize,
    /// How many rows, of which most were learned from.
    pub rows: usize,
    /// With which settings.
    pub settings: TrainSettings,
}

/// Why a file is no model for us.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FileError {
    /// It is larger than any model.
    #[error("it has {bytes} bytes, and a model has at most {LARGEST}")]
    TooLarge {
        /// So many.
        bytes: usize,
    },
    /// Its beginning is that of no format that we read.
    #[error("it is neither safetensors, nor a PyTorch file, nor a model of XGBoost")]
    Unknown,
    /// It is not what its format says.
    #[error("as a file of {format} it is broken: {what}")]
    Broken {
        /// What it would be.
        format: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A pickle names something that is not allowed.
    #[error("it wants to use {name}, which is not allowed: a model needs tensors and nothing else")]
    Forbidden {
        /// What.
        name: String,
    },
    /// It is a model of another shape.
    #[error("it is a model of another kind: {what}")]
    Shape {
        /// What differs.
        what: String,
    },
    /// Its features are others.
    #[error(
        "its feature {} is {}, where {expected} is expected",
        place + 1,
        found.as_deref().unwrap_or("missing")
    )]
    Features {
        /// Where, from 0 on.
        place: usize,
        /// What is there, if anything.
        found: Option<String>,
        /// What should be.
        expected: String,
    },
    /// A feature's range is another.
    #[error("{feature}: its range is {found}, and ours is {expected}")]
    Range {
        /// Which.
        feature: &'static str,
        /// Its range.
        found: String,
        /// Ours.
        expected: String,
    },
    /// It does not say in which order it takes its features.
    #[error("it does not name its features; say their order: document or kubeattention")]
    NoOrder,
    /// It names its features, and in another order than was said.
    #[error("its features are in the order {found}, and {said} was said")]
    OtherOrder {
        /// The order of its names.
        found: &'static str,
        /// What was said.
        said: &'static str,
    },
    /// It is of another version.
    #[error("its format is {found}, and this program reads {expected}")]
    Version {
        /// Its version.
        found: String,
        /// Ours.
        expected: &'static str,
    },
    /// It holds or gives something that is no number.
    #[error("it holds or answers something that is not a finite number")]
    NotFinite,
    /// It does not answer as it did when it was saved.
    #[error("golden vector {place} gives {found:?} and gave {expected:?} when it was saved")]
    Golden {
        /// Which.
        place: usize,
        /// Score and confidence now.
        found: [f32; 2],
        /// Score and confidence then.
        expected: [f32; 2],
    },
    /// A tree is none.
    #[error("a tree is broken: {0}")]
    Tree(TreeError),
}

/// Reads a model of any kind. `said` is the order of its features, which a file of another program
/// may not know.
///
/// # Errors
///
/// The bytes are no model that we can serve.
pub fn read(bytes: &[u8], said: Option<Order>) -> Result<ModelFile, FileError> {
    if bytes.len() > LARGEST {
        return Err(FileError::TooLarge { bytes: bytes.len() });
    }
    let file = match bytes {
        [b'P', b'K', 3, 4, ..] => from_torch(&torch::read(bytes)?, said)?,
        // A safetensors file has its length first, whose ninth byte begins the header.
        [_, _, _, _, _, _, _, _, b'{', ..] if bytes[7] == 0 => {
            let file = safetensors::read(bytes)?;
            if native::is_ours(&file) {
                let read = native::read(&file)?;
                agrees(Some(read.model.order), said)?;
                read
            } else {
                from_torch(&named(&file), said)?
            }
        }
        [b'{', b'"' | b' ' | b'\n' | b'\r' | b'\t', ..] => {
            let value = serde_json::from_slice(bytes).map_err(|error| FileError::Broken {
                format: "XGBoost",
                what: error.to_string(),
            })?;
            from_xgboost(xgboost::read(&value)?, said)?
        }
        [b'{', ..] => from_xgboost(xgboost::read(&ubj::read(bytes)?)?, said)?,
        _ => return Err(FileError::Unknown),
    };
    golden::check_finite(&file.model)?;
    Ok(file)
}

/// The bytes of a model. The same model is the same bytes.
///
/// # Errors
///
/// It holds something that is no number, or a tree that is too large.
pub fn write(file: &ModelFile) -> Result<Vec<u8>, FileError> {
    golden::check_finite(&file.model)?;
    Ok(safetensors::write(&native::write(&file.model, &file.about)?))
}

/// The order of these names.
fn known_order(names: &[String]) -> Result<Order, FileError> {
    order_of(names).map_err(|(place, found)| {
        let expected = Order::Document.names().get(place).map_or("nothing", |name| *name);
        FileError::Features { place, found, expected: expected.to_owned() }
    })
}

/// The order that a file names, or that was said; they must not differ.
fn agrees(found: Option<Order>, said: Option<Order>) -> Result<Order, FileError> {
    match (found, said) {
        (Some(found), Some(said)) if found != said => {
            Err(FileError::OtherOrder { found: found.name(), said: said.name() })
        }
        (Some(order), _) | (None, Some(order)) => Ok(order),
        (None, None) => Err(FileError::NoOrder),
    }
}

fn from_torch(tensors: &[torch::Named], said: Option<Order>) -> Result<ModelFile, FileError> {
    let weights = torch::weights(tensors)?;
    let order = agrees(None, said)?;
    let learned = Learned::Mlp(Mlp::new(weights));
    let model = Model { order, filler: Filler::Typical, learned };
    Ok(ModelFile { model, about: About::imported(Source::Pytorch) })
}

fn from_xgboost(
    (forest, found): (Forest, Option<Order>),
    said: Option<Order>,
) -> Result<ModelFile, FileError> {
    let order = agrees(found, said)?;
    let learned = Learned::Trees(Trees { forest, confidence: None });
    let model = Model { order, filler: Filler::Typical, learned };
    Ok(ModelFile { model, about: About::imported(Source::Xgboost) })
}

/// The tensors of 32-bit numbers.
fn named(file: &Tensors) -> Vec<torch::Named> {
    let tensors = file.tensors.iter().filter_map(|(name, tensor)| match &tensor.numbers {
        Numbers::F32(numbers) => Some(torch::Named {
            name: name.clone(),
            shape: tensor.shape.clone(),
            numbers: numbers.clone(),
        }),
        Numbers::U16(_) | Numbers::U8(_) => None,
    });
    tensors.collect()
}

// === impl About ===

impl About {
    /// Of a model that another program made.
    fn imported(source: Source) -> Self {
        let name = match source {
            Source::Walras => "trained by walras",
            Source::Pytorch => "imported from PyTorch",
            Source::Xgboost => "imported from XGBoost",
        };
        Self { name: name.to_owned(), source, calibrated: false, trained: None }
    }
}

#[cfg(test)]
mod tests;
