//! Our own files: safetensors with what a model expects and where it comes from in the metadata.
//!
//! The version is in `format`. A perceptron's tensors have the names and shapes that a PyTorch
//! module would give them; trees are lists over all their nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::safetensors::{Numbers, Tensor, Tensors};
use super::{About, FileError, ModelFile, Source, TrainedOn, golden, torch};
use crate::features::{FEATURES, Filler, Order};
use crate::forest::{Forest, Link, Node, Tree};
use crate::mlp::Mlp;
use crate::model::{Learned, Model, Trees};

/// The version that is written and read.
const FORMAT: &str = "walras-brain/1";
/// The place of a feature in a leaf.
const LEAF: u8 = 255;

/// The metadata's values that are JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Range {
    low: f64,
    high: f64,
}

/// Whether a file says that it is ours, of whatever version.
pub(super) fn is_ours(file: &Tensors) -> bool {
    file.metadata.get("format").is_some_and(|format| format.starts_with("walras-brain/"))
}

pub(super) fn write(model: &Model, about: &About) -> Result<Tensors, FileError> {
    let mut file = Tensors::default();
    let link = match &model.learned {
        Learned::Mlp(mlp) => {
            for tensor in torch::tensors(mlp.weights()) {
                let named = Tensor::f32(&tensor.shape, tensor.numbers);
                file.tensors.insert(tensor.name, named);
            }
            None
        }
        Learned::Trees(trees) => {
            put_trees(&mut file, "trees", trees.forest.trees())?;
            put_trees(&mut file, "confidence", trees.confidence.as_slice())?;
            let base = Tensor::f32(&[1], vec![trees.forest.base()]);
            file.tensors.insert("base".to_owned(), base);
            Some(trees.forest.link())
        }
    };
    let features = model.order.features();
    let ranges: Vec<Range> =
        features.iter().map(|about| Range { low: about.low, high: about.high }).collect();
    file.metadata = BTreeMap::from([
        ("format".to_owned(), FORMAT.to_owned()),
        ("kind".to_owned(), model.kind().to_owned()),
        ("features".to_owned(), as_json(&model.order.names().to_vec())),
        ("ranges".to_owned(), as_json(&ranges)),
        ("missing".to_owned(), as_json(&model.filler)),
        ("link".to_owned(), as_json(&link)),
        ("name".to_owned(), about.name.clone()),
        ("source".to_owned(), as_json(&about.source)),
        ("calibrated".to_owned(), as_json(&about.calibrated)),
        ("trained".to_owned(), as_json(&about.trained)),
        ("golden".to_owned(), as_json(&golden::answers(model))),
    ]);
    Ok(file)
}

pub(super) fn read(file: &Tensors) -> Result<ModelFile, FileError> {
    let format = text(file, "format")?;
    if format != FORMAT {
        return Err(FileError::Version { found: format.to_owned(), expected: FORMAT });
    }
    let order = super::known_order(&json::<Vec<String>>(file, "features")?)?;
    check_ranges(order, &json::<Vec<Range>>(file, "ranges")?)?;
    let learned = match text(file, "kind")? {
        "mlp" => {
            let tensors: Vec<torch::Named> = super::named(file);
            Learned::Mlp(Mlp::new(torch::weights(&tensors)?))
        }
        "trees" => {
            let base = floats(file, "base")?.first().copied().unwrap_or(0.0);
            if !base.is_finite() {
                return Err(FileError::NotFinite);
            }
            let link = json::<Option<Link>>(file, "link")?.unwrap_or(Link::Identity);
            let forest = Forest::new(get_trees(file, "trees")?, base, link);
            let confidence = get_trees(file, "confidence")?.into_iter().next();
            Learned::Trees(Trees { forest, confidence })
        }
        other => return Err(broken(&format!("kind is {other}, and not mlp or trees"))),
    };
    let filler: Filler = json(file, "missing")?;
    let model = Model { order, filler, learned };
    golden::check(&model, &json::<Vec<[f32; 2]>>(file, "golden")?)?;
    let about = About {
        name: text(file, "name")?.to_owned(),
        source: json::<Source>(file, "source")?,
        calibrated: json(file, "calibrated")?,
        trained: json::<Option<TrainedOn>>(file, "trained")?,
    };
    Ok(ModelFile { model, about })
}

fn check_ranges(order: Order, ranges: &[Range]) -> Result<(), FileError> {
    let ours = order.features();
    if ranges.len() != FEATURES {
        return Err(broken(&format!("{} ranges for {FEATURES} features", ranges.len())));
    }
    let differs = ours.iter().zip(ranges).find(|(a, b)| a.low != b.low || a.high != b.high);
    match differs {
        None => Ok(()),
        Some((about, Range { low, high })) => Err(FileError::Range {
            feature: about.name,
            found: format!("{low} to {high}"),
            expected: format!("{} to {}", about.low, about.high),
        }),
    }
}

/// Lists over the nodes of all trees; children are told by how far behind their parent they are.
fn put_trees(file: &mut Tensors, name: &str, trees: &[Tree]) -> Result<(), FileError> {
    let (mut features, mut missings) = (Vec::new(), Vec::new());
    let (mut values, mut counts) = (Vec::new(), Vec::new());
    let (mut lefts, mut rights) = (Vec::new(), Vec::new());
    let too_large = || broken("a tree has more than 65535 nodes, which the format cannot hold");
    for tree in trees {
        counts.push(u16::try_from(tree.nodes().len()).map_err(|_| too_large())?);
        for (place, node) in tree.nodes().iter().enumerate() {
            let (feature, value, left, right, missing) = match *node {
                Node::Leaf(value) => (LEAF, value, 0, 0, 0),
                Node::Split { feature, cut, missing_left, left, right } => {
                    let behind = |child: u32| {
                        let child = usize::try_from(child).ok()?;
                        u16::try_from(child.checked_sub(place)?).ok()
                    };
                    let children = behind(left).zip(behind(right)).ok_or_else(too_large)?;
                    (feature, cut, children.0, children.1, u8::from(missing_left))
                }
            };
            features.push(feature);
            values.push(value);
            lefts.push(left);
            rights.push(right);
            missings.push(missing);
        }
    }
    let lists = [
        ("feature", Numbers::U8(features)),
        ("value", Numbers::F32(values)),
        ("left", Numbers::U16(lefts)),
        ("right", Numbers::U16(rights)),
        ("missing_left", Numbers::U8(missings)),
    ];
    let all: usize = trees.iter().map(|tree| tree.nodes().len()).sum();
    for (list, numbers) in lists {
        file.tensors.insert(format!("{name}.{list}"), Tensor { shape: vec![all], numbers });
    }
    let counts = Tensor { shape: vec![trees.len()], numbers: Numbers::U16(counts) };
    file.tensors.insert(format!("{name}.nodes"), counts);
    Ok(())
}

fn get_trees(file: &Tensors, name: &str) -> Result<Vec<Tree>, FileError> {
    let list = |list: &str| format!("{name}.{list}");
    let (features, missings) =
        (bytes(file, &list("feature"))?, bytes(file, &list("missing_left"))?);
    let values = floats(file, &list("value"))?;
    let [lefts, rights, counts] =
        [words(file, &list("left"))?, words(file, &list("right"))?, words(file, &list("nodes"))?];
    let all = features.len();
    let sum: usize = counts.iter().map(|count| usize::from(*count)).sum();
    if [missings.len(), values.len(), lefts.len(), rights.len(), sum] != [all; 5] {
        return Err(broken(&format!("the lists of {name} are not equally long")));
    }
    let mut from = 0;
    let mut trees = Vec::with_capacity(counts.len());
    for count in counts {
        let count = usize::from(*count);
        let node = |place: usize| {
            let at = from + place;
            let behind = |offset: u16| u32::try_from(place + usize::from(offset)).unwrap_or(0);
            match features[at] {
                LEAF => Node::Leaf(values[at]),
                feature => Node::Split {
                    feature,
                    cut: values[at],
                    missing_left: missings[at] != 0,
                    left: behind(lefts[at]),
                    right: behind(rights[at]),
                },
            }
        };
        trees.push(Tree::new((0..count).map(node).collect()).map_err(FileError::Tree)?);
        from += count;
    }
    Ok(trees)
}

fn numbers<'a>(file: &'a Tensors, name: &str) -> Result<&'a Numbers, FileError> {
    let tensor = file.tensors.get(name).ok_or_else(|| broken(&format!("{name} is missing")))?;
    Ok(&tensor.numbers)
}

fn floats<'a>(file: &'a Tensors, name: &str) -> Result<&'a [f32], FileError> {
    match numbers(file, name)? {
        Numbers::F32(numbers) => Ok(numbers),
        Numbers::U16(_) | Numbers::U8(_) => Err(broken(&format!("{name} is of another kind"))),
    }
}

fn words<'a>(file: &'a Tensors, name: &str) -> Result<&'a [u16], FileError> {
    match numbers(file, name)? {
        Numbers::U16(numbers) => Ok(numbers),
        Numbers::F32(_) | Numbers::U8(_) => Err(broken(&format!("{name} is of another kind"))),
    }
}

fn bytes<'a>(file: &'a Tensors, name: &str) -> Result<&'a [u8], FileError> {
    match numbers(file, name)? {
        Numbers::U8(numbers) => Ok(numbers),
        Numbers::F32(_) | Numbers::U16(_) => Err(broken(&format!("{name} is of another kind"))),
    }
}

fn text<'a>(file: &'a Tensors, key: &str) -> Result<&'a str, FileError> {
    let text = file.metadata.get(key).ok_or_else(|| broken(&format!("{key} is missing")))?;
    Ok(text)
}

fn json<T: for<'a> Deserialize<'a>>(file: &Tensors, key: &str) -> Result<T, FileError> {
    serde_json::from_str(text(file, key)?).map_err(|error| broken(&format!("{key}: {error}")))
}

fn as_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data with text keys")
}

fn broken(what: &str) -> FileError {
    FileError::Broken { format: "Walras", what: what.to_owned() }
}
