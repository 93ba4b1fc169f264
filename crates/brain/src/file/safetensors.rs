//! The safetensors format: a length, a JSON header, and numbers.
//!
//! Written by hand so that the same model is the same bytes: its header is in the order of names.
//! Whatever does not fit is refused; nothing is allocated by a length that the file only claims.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::FileError;

/// The longest header. Ours have a few thousand bytes.
const LONGEST_HEADER: usize = 16 << 20;
const METADATA: &str = "__metadata__";

/// A named tensor: its shape, and its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) shape: Vec<usize>,
    pub(super) numbers: Numbers,
}

/// Numbers of the kinds that models need.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Numbers {
    F32(Vec<f32>),
    U16(Vec<u16>),
    U8(Vec<u8>),
}

/// A file: text about it, and tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tensors {
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) tensors: BTreeMap<String, Tensor>,
}

pub(super) fn write(file: &Tensors) -> Vec<u8> {
    let mut header = Map::new();
    let metadata: Map<String, Value> =
        file.metadata.iter().map(|(key, text)| (key.clone(), Value::from(text.as_str()))).collect();
    header.insert(METADATA.to_owned(), Value::Object(metadata));
    let mut data = Vec::new();
    // The widest numbers first, so that all are aligned.
    for width in [4, 2, 1] {
        for (name, tensor) in file.tensors.iter().filter(|(_, t)| t.numbers.width() == width) {
            let from = data.len();
            tensor.numbers.append_to(&mut data);
            let about = json!({
                "dtype": tensor.numbers.kind(),
                "shape": tensor.shape,
                "data_offsets": [from, data.len()],
            });
            header.insert(name.clone(), about);
        }
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = u64::try_from(header.len()).unwrap_or(u64::MAX);
    [length.to_le_bytes().as_slice(), &header, &data].concat()
}

pub(super) fn read(bytes: &[u8]) -> Result<Tensors, FileError> {
    let broken = |what: &str| FileError::Broken { format: "safetensors", what: what.to_owned() };
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| broken("it is cut off"))?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > LONGEST_HEADER {
        return Err(broken("the header is longer than 16 MiB"));
    }
    let (header, data) =
        rest.split_at_checked(length).ok_or_else(|| broken("the header is cut off"))?;
    let header: BTreeMap<String, Value> =
        serde_json::from_slice(header).map_err(|error| broken(&error.to_string()))?;
    let mut file = Tensors::default();
    for (name, about) in header {
        if name == METADATA {
            file.metadata = serde_json::from_value(about)
                .map_err(|_| broken("the metadata are not an object of texts"))?;
            continue;
        }
        let tensor = tensor(&about, data)
            .ok_or_else(|| broken(&format!("the tensor {name} is not described rightly")))?;
        if let Some(tensor) = tensor {
            file.tensors.insert(name, tensor);
        }
    }
    Ok(file)
}

/// `Some(None)` where it is right and of a kind that no model of ours has.
fn tensor(about: &Value, data: &[u8]) -> Option<Option<Tensor>> {
    let shape: Vec<usize> = serde_json::from_value(about.get("shape")?.clone()).ok()?;
    let [from, to]: [usize; 2] = serde_json::from_value(about.get("data_offsets")?.clone()).ok()?;
    let bytes = data.get(from..to)?;
    let count = shape.iter().try_fold(1_usize, |count, side| count.checked_mul(*side))?;
    let numbers = match about.get("dtype")?.as_str()? {
        "F32" => Numbers::F32(each(bytes, f32::from_le_bytes)?),
        "F64" => {
            let doubles: Vec<f64> = each(bytes, f64::from_le_bytes)?;
            Numbers::F32(doubles.into_iter().map(crate::number::narrow).collect())
        }
        "U16" => Numbers::U16(each(bytes, u16::from_le_bytes)?),
        "U8" => Numbers::U8(bytes.to_vec()),
        _ => return Some(None),
    };
    (numbers.count() == count).then_some(Some(Tensor { shape, numbers }))
}

fn each<T, const WIDTH: usize>(bytes: &[u8], read: fn([u8; WIDTH]) -> T) -> Option<Vec<T>> {
    let (numbers, rest) = bytes.as_chunks::<WIDTH>();
    rest.is_empty().then(|| numbers.iter().map(|bytes| read(*bytes)).collect())
}

// === impl Numbers ===

impl Numbers {
    const fn kind(&self) -> &'static str {
        match self {
            Self::F32(_) => "F32",
            Self::U16(_) => "U16",
            Self::U8(_) => "U8",
        }
    }

    const fn width(&self) -> usize {
        match self {
            Self::F32(_) => 4,
            Self::U16(_) => 2,
            Self::U8(_) => 1,
        }
    }

    const fn count(&self) -> usize {
        match self {
            Self::F32(numbers) => numbers.len(),
            Self::U16(numbers) => numbers.len(),
            Self::U8(numbers) => numbers.len(),
        }
    }

    fn append_to(&self, data: &mut Vec<u8>) {
        match self {
            Self::F32(numbers) => data.extend(numbers.iter().flat_map(|n| n.to_le_bytes())),
            Self::U16(numbers) => data.extend(numbers.iter().flat_map(|n| n.to_le_bytes())),
            Self::U8(numbers) => data.extend(numbers),
        }
    }
}

// === impl Tensor ===

impl Tensor {
    pub(super) fn f32(shape: &[usize], numbers: Vec<f32>) -> Self {
        Self { shape: shape.to_vec(), numbers: Numbers::F32(numbers) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tensors {
        let mut file = Tensors::default();
        file.metadata.insert("a".to_owned(), "b".to_owned());
        file.tensors.insert("x".to_owned(), Tensor::f32(&[2, 1], vec![1.5, -2.0]));
        let numbers = Numbers::U8(vec![7, 8, 9]);
        file.tensors.insert("b".to_owned(), Tensor { shape: vec![3], numbers });
        let numbers = Numbers::U16(vec![300]);
        file.tensors.insert("c".to_owned(), Tensor { shape: vec![1], numbers });
        file
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(read(&write(&sample())), Ok(sample()));
    }

    #[test]
    fn every_cut_and_every_lie_is_refused() {
        let whole = write(&sample());
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length} bytes");
        }
        let text = String::from_utf8_lossy(&whole).into_owned();
        for (from, to) in [("[2,1]", "[2,9]"), ("[0,8]", "[8,0]"), ("\"F32\"", "\"F64\"")] {
            let lie = text.replacen(from, to, 1);
            assert_ne!(lie, text, "{from}");
            assert!(read(lie.as_bytes()).is_err(), "{to}");
        }
        assert!(read(&u64::MAX.to_le_bytes()).is_err());
    }
}
