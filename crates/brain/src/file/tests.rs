//! Tests of model files: what is saved comes back, what others wrote is read, what is unfit is
//! refused.

use serde_json::Value;
use walras_core::rng::Rng;

use super::*;
use crate::features::FEATURES;
use crate::random;
use crate::verdict::Verdict;

const SQUARED_JSON: &[u8] = include_bytes!("../../testdata/models/xgboost-squarederror.json");
const SQUARED_UBJ: &[u8] = include_bytes!("../../testdata/models/xgboost-squarederror.ubj");
const LOGISTIC_JSON: &[u8] = include_bytes!("../../testdata/models/xgboost-logistic.json");
const LOGISTIC_UBJ: &[u8] = include_bytes!("../../testdata/models/xgboost-logistic.ubj");
const EXPECTED: &[u8] = include_bytes!("../../testdata/models/xgboost-expected.json");
const PERCEPTRON: &[u8] = include_bytes!("../../testdata/models/perceptron.pt");
const EVIL: &[u8] = include_bytes!("../../testdata/models/evil.pt");

fn mlp(seed: u64) -> ModelFile {
    let learned = Learned::Mlp(random::mlp(&mut Rng::from_seed(seed)));
    let model = Model { order: Order::Document, filler: Filler::Typical, learned };
    let about = About {
        name: "a test".to_owned(),
        source: Source::Walras,
        calibrated: true,
        trained: Some(TrainedOn {
            data_sha256: "ab".repeat(32),
            events: 30,
            rows: 120,
            settings: TrainSettings::default(),
        }),
    };
    ModelFile { model, about }
}

fn trees(seed: u64, depth: usize) -> ModelFile {
    let mut rng = Rng::from_seed(seed);
    let forest = random::forest(&mut rng, 10, depth);
    let confidence = random::forest(&mut rng, 1, 3).trees().first().cloned();
    let learned = Learned::Trees(Trees { forest, confidence });
    let model = Model { order: Order::Kubeattention, filler: Filler::Nan, learned };
    ModelFile { model, ..mlp(seed) }
}

fn scored(model: &Model) -> Vec<Verdict> {
    let mut rng = Rng::from_seed(9);
    let (pod, nodes) = (random::pod(&mut rng), random::nodes(&mut rng, 40));
    let mut verdicts = vec![Verdict::NO_MODEL; nodes.len()];
    model.score(&pod, &nodes, &mut verdicts);
    verdicts
}

fn told(bytes: &[u8], said: Option<Order>) -> String {
    match read(bytes, said) {
        Ok(file) => panic!("{:?} was read", file.about),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_saved_comes_back_and_scores_the_same() {
    for file in [mlp(1), trees(2, 6), trees(3, 9)] {
        let bytes = write(&file).unwrap();
        let again = read(&bytes, None).unwrap();
        assert_eq!(again.about, file.about);
        assert_eq!((again.model.order, again.model.filler), (file.model.order, file.model.filler));
        assert_eq!(scored(&again.model), scored(&file.model));
        assert_eq!(write(&again).unwrap(), bytes, "the same bytes");
    }
    assert!(write(&mlp(1)).unwrap().len() < 20_000);
}

#[test]
fn a_damaged_file_does_not_get_by() {
    let bytes = write(&mlp(1)).unwrap();
    for place in [0, 7, 8, 20, bytes.len() / 2] {
        assert!(read(&bytes[..place], None).is_err(), "{place} bytes");
    }
    // A weight that is another: the file is whole, and answers differently.
    let mut other = bytes.clone();
    let last = other.len() - 8;
    other[last..last + 4].copy_from_slice(&9.0_f32.to_le_bytes());
    assert!(told(&other, None).starts_with("golden vector "), "{}", told(&other, None));
    let mut other = bytes;
    other[last..last + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    assert_eq!(read(&other, None).unwrap_err(), FileError::NotFinite);
}

/// The file with another text in its header, of the same length.
fn with(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes());
    let at = at.expect("it is in there");
    let mut other = bytes.to_vec();
    other[at..at + to.len()].copy_from_slice(to.as_bytes());
    other
}

#[test]
fn other_features_ranges_and_versions_are_refused_by_name() {
    let bytes = write(&mlp(1)).unwrap();
    let other = with(&bytes, "disk_iops", "disk_iopz");
    let expected = "its feature 8 is disk_iopz, where disk_iops is expected";
    assert_eq!(told(&other, None), expected);
    let other = with(&bytes, "200.0", "300.0");
    let expected = "memory_bandwidth_gbps: its range is 0 to 300, and ours is 0 to 200";
    assert_eq!(told(&other, None), expected);
    let other = with(&bytes, "walras-brain/1", "walras-brain/2");
    let expected = "its format is walras-brain/2, and this program reads walras-brain/1";
    assert_eq!(told(&other, None), expected);
    let expected = "its features are in the order document, and kubeattention was said";
    assert_eq!(told(&bytes, Some(Order::Kubeattention)), expected);
}

#[test]
fn xgboost_predicts_what_we_predict_to_the_bit() {
    let expected: Value = serde_json::from_slice(EXPECTED).unwrap();
    let number = |value: &Value| crate::number::narrow(value.as_f64().unwrap_or(f64::NAN));
    for (name, files) in
        [("squarederror", [SQUARED_JSON, SQUARED_UBJ]), ("logistic", [LOGISTIC_JSON, LOGISTIC_UBJ])]
    {
        for bytes in files {
            let said = if name == "logistic" { None } else { Some(Order::Kubeattention) };
            let file = read(bytes, said).unwrap();
            assert_eq!(file.model.order, Order::Kubeattention);
            assert_eq!(file.about, About::imported(Source::Xgboost));
            let Learned::Trees(trees) = &file.model.learned else { panic!("trees") };
            assert_eq!(trees.forest.trees().len(), 6);
            let inputs = expected["inputs"].as_array().unwrap();
            for (input, predicted) in inputs.iter().zip(expected[name].as_array().unwrap()) {
                let input = input.as_array().unwrap();
                let input: [f32; FEATURES] = std::array::from_fn(|place| number(&input[place]));
                let found = trees.forest.label(trees.forest.sum(&input));
                let predicted = number(predicted);
                match name {
                    "squarederror" => assert_eq!(found.to_bits(), predicted.to_bits()),
                    // Its exponential is another one.
                    _ => assert!((found - predicted).abs() < 1e-6, "{found} {predicted}"),
                }
            }
        }
    }
}

#[test]
fn a_model_without_names_must_be_told_its_order() {
    for bytes in [SQUARED_JSON, SQUARED_UBJ, PERCEPTRON] {
        assert_eq!(read(bytes, None).unwrap_err(), FileError::NoOrder);
    }
    let said = told(LOGISTIC_JSON, Some(Order::Document));
    assert_eq!(said, "its features are in the order kubeattention, and document was said");
}

#[test]
fn xgboost_models_that_mean_something_else_are_refused() {
    let text = std::str::from_utf8(SQUARED_JSON).unwrap();
    let refused = |from: &str, to: &str| {
        let other = text.replacen(from, to, 1);
        assert_ne!(other, text, "{from}");
        told(other.as_bytes(), Some(Order::Document))
    };
    for (from, to, expected) in [
        ("\"name\":\"reg:squarederror\"", "\"name\":\"rank:ndcg\"", "rank:ndcg gives no score"),
        ("\"name\":\"gbtree\"", "\"name\":\"dart\"", "its booster is dart and not gbtree"),
        ("num_class\":\"0\",\"num_feature\":\"26", "num_feature\":\"20", "it takes 20 features"),
        ("\"left_children\":[1,", "\"left_children\":[0,", "or below itself"),
        ("\"split_type\":[0,", "\"split_type\":[1,", "splits by category"),
        ("\"trees\":[", "\"trees\":3,\"x\":[", "trees is not a list"),
    ] {
        let said = refused(from, to);
        assert!(said.contains(expected), "{said}");
    }
    let named = std::str::from_utf8(LOGISTIC_JSON).unwrap();
    let named = named.replacen("\"disk_iops\"", "\"gpu_temperature\"", 1);
    let expected = "its feature 8 is gpu_temperature, where disk_iops is expected";
    assert_eq!(told(named.as_bytes(), None), expected);
}

#[test]
fn a_pytorch_file_is_read_and_its_code_is_not_run() {
    let file = read(PERCEPTRON, Some(Order::Kubeattention)).unwrap();
    let Learned::Mlp(mlp) = &file.model.learned else { panic!("a perceptron") };
    // The numbers of a generator in the order of PyTorch: output by output.
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        let step = i32::try_from((state >> 8) % 2001).unwrap() - 1000;
        crate::number::narrow(f64::from(step) / 4000.0)
    };
    let weights = mlp.weights();
    for unit in 0..64 {
        for input in 0..26 {
            assert_eq!(weights.first[input][unit], next(), "{input} to {unit}");
        }
    }
    assert_eq!(weights.first_bias[0], next());
    let expected = "it wants to use posix.system, which is not allowed: a model needs tensors and \
                    nothing else";
    assert_eq!(told(EVIL, Some(Order::Document)), expected);
}

#[test]
fn a_pytorch_model_of_another_shape_is_refused() {
    let mut file = safetensors::read(&write(&mlp(1)).unwrap()).unwrap();
    file.metadata.clear();
    let plain = safetensors::write(&file);
    let again = read(&plain, Some(Order::Document)).unwrap();
    assert_eq!(again.about.source, Source::Pytorch);
    assert_eq!(scored(&again.model), scored(&mlp(1).model));
    let narrow = safetensors::Tensor::f32(&[64, 20], vec![0.0; 64 * 20]);
    let mut other = file.clone();
    other.tensors.insert("hidden.0.weight".to_owned(), narrow);
    let said = told(&safetensors::write(&other), Some(Order::Document));
    assert!(said.ends_with("hidden.0.weight takes 20 features, and a node and a pod have 26"));
    file.tensors.remove("confidence_head.bias");
    let said = told(&safetensors::write(&file), Some(Order::Document));
    assert!(said.ends_with("not one tensor of the shape [1] for the confidence"), "{said}");
}

#[test]
fn what_is_no_model_at_all_is_refused() {
    for bytes in [&b""[..], b"hello", b"{", b"{}", b"PK\x03\x04", b"{\"a\":1}", &[0; 100]] {
        assert!(read(bytes, Some(Order::Document)).is_err(), "{bytes:?}");
    }
    assert_eq!(told(b"hello, world", None), FileError::Unknown.to_string());
}
