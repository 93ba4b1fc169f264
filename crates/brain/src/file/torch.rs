//! A perceptron from tensors by name and shape: a PyTorch `state_dict`, from either kind of file.
//!
//! Layers are known by their shapes, since names depend on how somebody wrote a class. The two
//! heads have one shape, so the one whose name says "conf" is the confidence.

use super::pickle::{self, Object, TensorRef};
use super::{FileError, zip};
use crate::features::FEATURES;
use crate::mlp::{CONFIDENCE, FIRST, SCORE, SECOND, Weights};
use crate::number::narrow;

/// A tensor as PyTorch has it: output by output.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) numbers: Vec<f32>,
}

/// What the tensors of a perceptron that we write are called.
const NAMES: [(&str, &[usize]); 8] = [
    ("hidden.0.weight", &[FIRST, FEATURES]),
    ("hidden.0.bias", &[FIRST]),
    ("hidden.2.weight", &[SECOND, FIRST]),
    ("hidden.2.bias", &[SECOND]),
    ("score_head.weight", &[1, SECOND]),
    ("score_head.bias", &[1]),
    ("confidence_head.weight", &[1, SECOND]),
    ("confidence_head.bias", &[1]),
];

/// The tensors of a perceptron.
pub(super) fn tensors(weights: &Weights) -> Vec<Named> {
    let numbers = [
        turned(&weights.first),
        weights.first_bias.to_vec(),
        turned(&weights.second),
        weights.second_bias.to_vec(),
        weights.heads[SCORE].to_vec(),
        vec![weights.head_bias[SCORE]],
        weights.heads[CONFIDENCE].to_vec(),
        vec![weights.head_bias[CONFIDENCE]],
    ];
    let named = NAMES.into_iter().zip(numbers);
    named
        .map(|((name, shape), numbers)| Named {
            name: name.to_owned(),
            shape: shape.to_vec(),
            numbers,
        })
        .collect()
}

/// The perceptron of some tensors.
pub(super) fn weights(tensors: &[Named]) -> Result<Box<Weights>, FileError> {
    if let Some(other) = tensors.iter().find(|tensor| match tensor.shape.as_slice() {
        [FIRST, inputs] => *inputs != FEATURES,
        _ => false,
    }) {
        let inputs = other.shape.get(1).copied().unwrap_or(0);
        let what = format!("{} takes {inputs} features, and a node and a pod have 26", other.name);
        return Err(FileError::Shape { what });
    }
    let mut weights = Weights::zero();
    turn_back(&one(tensors, &[FIRST, FEATURES])?.numbers, &mut weights.first);
    weights.first_bias.copy_from_slice(&one(tensors, &[FIRST])?.numbers);
    turn_back(&one(tensors, &[SECOND, FIRST])?.numbers, &mut weights.second);
    weights.second_bias.copy_from_slice(&one(tensors, &[SECOND])?.numbers);
    for (place, confidence) in [(SCORE, false), (CONFIDENCE, true)] {
        weights.heads[place].copy_from_slice(&head(tensors, &[1, SECOND], confidence)?.numbers);
        weights.head_bias[place] = head(tensors, &[1], confidence)?.numbers[0];
    }
    if weights.is_finite() { Ok(weights) } else { Err(FileError::NotFinite) }
}

/// The only tensor of a shape.
fn one<'a>(tensors: &'a [Named], shape: &[usize]) -> Result<&'a Named, FileError> {
    let mut found = tensors.iter().filter(|tensor| tensor.shape == shape);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(one), Some(other)) => {
            let what = format!("{} and {} both have the shape {shape:?}", one.name, other.name);
            Err(FileError::Shape { what })
        }
        (None, _) => Err(FileError::Shape { what: format!("no tensor has the shape {shape:?}") }),
    }
}

fn head<'a>(
    tensors: &'a [Named],
    shape: &[usize],
    confidence: bool,
) -> Result<&'a Named, FileError> {
    let wanted = |tensor: &&Named| {
        tensor.shape == shape && tensor.name.to_ascii_lowercase().contains("conf") == confidence
    };
    let mut found = tensors.iter().filter(wanted);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) | (None, _) => {
            let whose = if confidence { "the confidence" } else { "the score" };
            let what = format!("there is not one tensor of the shape {shape:?} for {whose}");
            Err(FileError::Shape { what })
        }
    }
}

/// The tensors of a file that `torch.save` wrote.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Named>, FileError> {
    let broken = |what: &str| FileError::Broken { format: "PyTorch", what: what.to_owned() };
    let members = zip::members(bytes)?;
    let member = |ending: &str| {
        members.iter().find(|(name, _)| {
            name.strip_suffix(ending).is_some_and(|before| before.split('/').count() == 2)
        })
    };
    let (name, pickled) = member("/data.pkl")
        .or_else(|| members.iter().find(|(name, _)| name.ends_with("/data.pkl")))
        .ok_or_else(|| broken("it has no data.pkl"))?;
    let folder = name.trim_end_matches("data.pkl");
    let order = members.iter().find(|(name, _)| *name == format!("{folder}byteorder"));
    if order.is_some_and(|(_, order)| order.trim_ascii() != b"little") {
        return Err(broken("it was written on a big-endian machine"));
    }
    let mut found = Vec::new();
    collect(&pickle::read(pickled)?, "", &mut found);
    let tensor = |(name, tensor): (String, TensorRef)| {
        let path = format!("{folder}data/{}", tensor.storage.key);
        let storage = members.iter().find(|(name, _)| *name == path);
        let (_, storage) = storage.ok_or_else(|| broken(&format!("it has no {path}")))?;
        let numbers = numbers(&tensor, storage)
            .ok_or_else(|| broken(&format!("the tensor {name} is not where it should be")))?;
        Ok(Named { name, shape: tensor.shape, numbers })
    };
    found.into_iter().map(tensor).collect()
}

/// All tensors in an object, by their name; those of a checkpoint are a dictionary deeper.
fn collect(object: &Object, name: &str, found: &mut Vec<(String, TensorRef)>) {
    match object {
        Object::Tensor(tensor) => found.push((name.to_owned(), tensor.clone())),
        Object::Dict(entries) => {
            for (key, value) in entries {
                let Object::Text(key) = key else { continue };
                // What an optimiser remembers has the shapes of what it optimises.
                if !key.starts_with("optim") {
                    collect(value, key, found);
                }
            }
        }
        Object::Nothing
        | Object::Int(_)
        | Object::Float
        | Object::Text(_)
        | Object::Tuple(_)
        | Object::Global(_)
        | Object::Storage(_) => {}
    }
}

/// A tensor's numbers, in the usual order, if they are all there.
fn numbers(tensor: &TensorRef, storage: &[u8]) -> Option<Vec<f32>> {
    let (rows, columns) = match *tensor.shape.as_slice() {
        [] => (1, 1),
        [columns] => (1, columns),
        [rows, columns] => (rows, columns),
        _ => return None,
    };
    let (row_stride, stride) = match *tensor.strides.as_slice() {
        [] => (0, 0),
        [stride] => (0, stride),
        [row, stride] => (row, stride),
        _ => return None,
    };
    let width = if tensor.storage.double { 8 } else { 4 };
    // No tensor is larger than its storage, so nothing is made from a few bytes.
    if rows.checked_mul(columns)? > storage.len() / width {
        return None;
    }
    let mut all = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let place = row.checked_mul(row_stride)?.checked_add(column.checked_mul(stride)?)?;
            let from = place.checked_add(tensor.offset)?.checked_mul(width)?;
            let bytes = storage.get(from..from.checked_add(width)?)?;
            all.push(if tensor.storage.double {
                narrow(f64::from_le_bytes(bytes.try_into().ok()?))
            } else {
                f32::from_le_bytes(bytes.try_into().ok()?)
            });
        }
    }
    Some(all)
}

/// From input by input to output by output.
fn turned<const OUT: usize>(weights: &[[f32; OUT]]) -> Vec<f32> {
    (0..OUT).flat_map(|output| weights.iter().map(move |row| row[output])).collect()
}

fn turn_back<const OUT: usize>(numbers: &[f32], weights: &mut [[f32; OUT]]) {
    let inputs = weights.len();
    for (output, row) in numbers.chunks(inputs.max(1)).take(OUT).enumerate() {
        for (weights, number) in weights.iter_mut().zip(row) {
            weights[output] = *number;
        }
    }
}
