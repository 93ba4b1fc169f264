//! XGBoost's models, from JSON or UBJSON, as far as ours can mean the same: one output, trees with
//! numeric splits, squared error or logistic regression.

use std::collections::BTreeMap;

use serde_json::Value;

use super::FileError;
use crate::features::{FEATURES, Order};
use crate::forest::{Forest, Link, Node, Tree};
use crate::number::narrow;

/// A forest, and the order of its features if it names them.
pub(super) fn read(model: &Value) -> Result<(Forest, Option<Order>), FileError> {
    let learner = field(model, "learner")?;
    let objective = text(field(learner, "objective")?, "name")?;
    let link = match objective {
        "reg:squarederror" | "reg:linear" | "reg:absoluteerror" | "reg:pseudohubererror" => {
            Link::Identity
        }
        "reg:logistic" | "binary:logistic" => Link::Logistic,
        other => return Err(unfit(format!("its objective {other} gives no score"))),
    };
    let booster = field(learner, "gradient_booster")?;
    let name = text(booster, "name")?;
    if name != "gbtree" {
        return Err(unfit(format!("its booster is {name} and not gbtree")));
    }
    let parameters = field(learner, "learner_model_param")?;
    let outputs = |name: &str| parameters.get(name).and_then(number).unwrap_or(0.0);
    if outputs("num_class") > 1.0 || outputs("num_target") > 1.0 {
        return Err(unfit("it has several outputs".to_owned()));
    }
    let features = parameters.get("num_feature").and_then(number);
    if features.is_some_and(|count| count != crate::number::count(FEATURES)) {
        let count = features.unwrap_or(0.0);
        let what = format!("it takes {count} features, and a node and a pod have {FEATURES}");
        return Err(FileError::Shape { what });
    }
    let order = order(learner)?;
    let base = base(field(parameters, "base_score")?, link)?;
    let trees = field(field(booster, "model")?, "trees")?;
    let trees = trees.as_array().ok_or_else(|| broken("trees is not a list"))?;
    let trees: Result<Vec<Tree>, FileError> = trees.iter().map(tree).collect();
    Ok((Forest::new(trees?, base, link), order))
}

fn order(learner: &Value) -> Result<Option<Order>, FileError> {
    let names = learner.get("feature_names").and_then(Value::as_array);
    let names: Vec<String> = names
        .into_iter()
        .flatten()
        .map(|name| name.as_str().unwrap_or_default().to_owned())
        .collect();
    if names.is_empty() { Ok(None) } else { super::known_order(&names).map(Some) }
}

/// Where the sum starts. XGBoost keeps it as what it predicts and, since 3, in brackets.
fn base(score: &Value, link: Link) -> Result<f32, FileError> {
    let text = score.as_str().map(|text| text.trim_matches(['[', ']']));
    let value = match text {
        Some(text) => text.parse::<f32>().ok(),
        None => score.as_f64().map(narrow),
    };
    let value = value.filter(|value| value.is_finite());
    let value = value.ok_or_else(|| broken(&format!("base_score {score} is no number")))?;
    match link {
        Link::Identity => Ok(value),
        Link::Logistic if value > 0.0 && value < 1.0 => {
            Ok(narrow(-(1.0 / f64::from(value) - 1.0).ln()))
        }
        Link::Logistic => Err(broken("base_score is no probability")),
    }
}

fn tree(tree: &Value) -> Result<Tree, FileError> {
    let left = list(tree, "left_children")?;
    let right = list(tree, "right_children")?;
    let features = list(tree, "split_indices")?;
    let values = list(tree, "split_conditions")?;
    let missing = list(tree, "default_left")?;
    let kinds = tree.get("split_type").and_then(Value::as_array);
    if kinds.is_some_and(|kinds| kinds.iter().any(|kind| number(kind) != Some(0.0))) {
        return Err(unfit("it has splits by category".to_owned()));
    }
    if [right.len(), features.len(), values.len(), missing.len()] != [left.len(); 4] {
        return Err(broken("the lists of a tree are not equally long"));
    }
    let child = |place: usize, children: &[f64]| whole(children[place]).filter(|c| *c < left.len());
    // From the root on, so that children come behind their parents whatever their old places were.
    let mut nodes: Vec<Node> = Vec::new();
    let mut open = std::collections::VecDeque::from([0_usize]);
    let mut seen: BTreeMap<usize, ()> = BTreeMap::new();
    while let Some(old) = open.pop_front() {
        let behind = u32::try_from(nodes.len() + open.len() + 1);
        let behind = behind.map_err(|_| broken("a tree is too large"))?;
        if old >= left.len() || seen.insert(old, ()).is_some() {
            return Err(broken("a tree is none: a node is missing, or below itself"));
        }
        let value = narrow(values[old]);
        if left[old] < 0.0 {
            nodes.push(Node::Leaf(value));
            continue;
        }
        let children = child(old, &left).zip(child(old, &right));
        let (low, high) = children.ok_or_else(|| broken("a tree has a node without children"))?;
        let feature = whole(features[old]).and_then(|feature| u8::try_from(feature).ok());
        nodes.push(Node::Split {
            feature: feature.ok_or_else(|| broken("a split is on no feature"))?,
            cut: value,
            missing_left: missing[old] != 0.0,
            left: behind,
            right: behind + 1,
        });
        open.extend([low, high]);
    }
    Tree::new(nodes).map_err(FileError::Tree)
}

fn list(tree: &Value, name: &'static str) -> Result<Vec<f64>, FileError> {
    let list = field(tree, name)?.as_array();
    let list = list.ok_or_else(|| broken(&format!("{name} is not a list")))?;
    let numbers: Option<Vec<f64>> = list.iter().map(number).collect();
    numbers.ok_or_else(|| broken(&format!("{name} holds something that is no number")))
}

/// A number, also as a text or a truth, as XGBoost's versions have it.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn whole(value: f64) -> Option<usize> {
    let fits = (0.0..4e9).contains(&value) && value.fract() == 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 0 to four billion"
    )]
    fits.then_some(value as usize)
}

fn field<'a>(value: &'a Value, name: &'static str) -> Result<&'a Value, FileError> {
    value.get(name).ok_or_else(|| broken(&format!("{name} is missing")))
}

fn text<'a>(value: &'a Value, name: &'static str) -> Result<&'a str, FileError> {
    field(value, name)?.as_str().ok_or_else(|| broken(&format!("{name} is no text")))
}

fn broken(what: &str) -> FileError {
    FileError::Broken { format: "XGBoost", what: what.to_owned() }
}

fn unfit(what: String) -> FileError {
    FileError::Shape { what }
}
