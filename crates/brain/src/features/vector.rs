//! The one way from facts to a model's input, used by training and serving alike.
//!
//! A measured value is brought to 0..1 by its range and kept there. What was not measured becomes
//! what the model was trained with: the feature's "missing" value, or no number at all, which trees
//! can tell apart. A measured value that is not finite makes the node unfit to be scored.

use super::{Criticality, NODE_FEATURES, NodeFacts, NodeFeature, Order, POD_FEATURES, PodFacts};
use super::{FEATURES, Workload};
use crate::number::{count, narrow};
use serde::{Deserialize, Serialize};

/// What a model sees in the place of a feature that was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filler {
    /// The feature's "missing" value.
    #[default]
    Typical,
    /// NaN, which trees send the way that served best in training.
    Nan,
}

/// A node's telemetry holds something that is no number.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{feature}: {value} is not a finite number, so the node is not scored")]
pub struct BadTelemetry {
    /// Where.
    pub feature: NodeFeature,
    /// What.
    pub value: f64,
}

/// The CPU request that becomes 1.
const CPU_MILLI: f64 = 8000.0;
/// The memory request that becomes 1.
const MEMORY_BYTES: f64 = 32.0 * 1024.0 * 1024.0 * 1024.0;

/// A node as a model sees it.
///
/// # Errors
///
/// A measured value is NaN or infinite.
pub fn node_vector(
    node: &NodeFacts,
    order: Order,
    filler: Filler,
) -> Result<[f32; NODE_FEATURES], BadTelemetry> {
    let mut vector = [0.0; NODE_FEATURES];
    let mut unfit = false;
    for (slot, feature) in vector.iter_mut().zip(NodeFeature::ALL) {
        let value = node.get(feature);
        unfit |= value.is_some_and(|value| !value.is_finite());
        *slot = match (value, filler) {
            (Some(value), _) => in_range(feature, value),
            (None, Filler::Typical) => in_range(feature, feature.about().missing),
            (None, Filler::Nan) => f32::NAN,
        };
    }
    if unfit {
        return Err(bad(node));
    }
    match order {
        Order::Document => {}
        // Cost, spot, risk, zone becomes cost, zone, risk, spot.
        Order::Kubeattention => vector.swap(12, 14),
    }
    Ok(vector)
}

/// The first feature that is no number.
fn bad(node: &NodeFacts) -> BadTelemetry {
    let measured = NodeFeature::ALL.into_iter();
    let measured = measured.filter_map(|feature| Some((feature, node.get(feature)?)));
    let mut unfit = measured.filter(|(_, value)| !value.is_finite());
    let (feature, value) = unfit.next().unwrap_or((NodeFeature::CpuUtilization, f64::NAN));
    BadTelemetry { feature, value }
}

/// A pod as a model sees it.
#[must_use]
pub fn pod_vector(pod: &PodFacts) -> [f32; POD_FEATURES] {
    let mut vector = [0.0; POD_FEATURES];
    vector[0] = narrow((as_number(pod.cpu_milli) / CPU_MILLI).min(1.0));
    vector[1] = narrow((as_number(pod.memory_bytes) / MEMORY_BYTES).min(1.0));
    for (slot, workload) in vector[2..7].iter_mut().zip(Workload::ALL) {
        *slot = if pod.workload == workload { 1.0 } else { 0.0 };
    }
    for (slot, criticality) in vector[7..].iter_mut().zip(Criticality::ALL) {
        *slot = if pod.criticality == criticality { 1.0 } else { 0.0 };
    }
    vector
}

/// Which order has exactly these names, if one does; otherwise the first name that is wrong, and
/// where.
///
/// # Errors
///
/// The names are those of no order.
pub fn order_of(names: &[String]) -> Result<Order, (usize, Option<String>)> {
    let fits = |order: &Order| order.names().iter().eq(names.iter());
    if let Some(order) = Order::ALL.into_iter().find(fits) {
        return Ok(order);
    }
    let [document, code] = Order::ALL.map(Order::names);
    let wrong = (0..FEATURES.max(names.len())).find(|&place| {
        let name = names.get(place).map(String::as_str);
        name.is_none() || (name != document.get(place).copied() && name != code.get(place).copied())
    });
    // Every name alone has its place in some order: the mix is what is wrong.
    let place = wrong.unwrap_or(NODE_FEATURES - 3);
    Err((place, names.get(place).cloned()))
}

/// One over the width of each range: a product is several times faster than a quotient, and the
/// same once it has 32 bits.
const SCALES: [f64; NODE_FEATURES] = {
    let mut scales = [0.0; NODE_FEATURES];
    let mut place = 0;
    while place < NODE_FEATURES {
        let about = NodeFeature::ALL[place].about();
        scales[place] = 1.0 / (about.high - about.low);
        place += 1;
    }
    scales
};

#[inline]
fn in_range(feature: NodeFeature, value: f64) -> f32 {
    narrow(((value - feature.about().low) * SCALES[feature as usize]).clamp(0.0, 1.0))
}

fn as_number(amount: u64) -> f64 {
    usize::try_from(amount).map_or(f64::MAX, count)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// The cases of `testdata/features.txt`, and what comes of them.
    fn run(text: &str) -> String {
        let mut told = String::new();
        for block in text.split("case ").skip(1) {
            let (title, rest) = block.split_once('\n').unwrap();
            let (input, _) = rest.split_once("----").unwrap();
            let (mut node, mut pod) = (NodeFacts::UNKNOWN, PodFacts::default());
            for line in input.lines() {
                let (name, value) = line.split_once('=').unwrap();
                match name {
                    "cpu_milli" => pod.cpu_milli = value.parse().unwrap(),
                    "memory_bytes" => pod.memory_bytes = value.parse().unwrap(),
                    "workload" => pod.workload = Workload::named(value),
                    "criticality" => pod.criticality = Criticality::named(value),
                    _ => {
                        let feature = NodeFeature::named(name).expect(name);
                        node = node.with(feature, value.parse().unwrap());
                    }
                }
            }
            write!(told, "case {title}\n{input}----\n").unwrap();
            for order in Order::ALL {
                match node_vector(&node, order, Filler::Typical) {
                    Ok(vector) => writeln!(told, "{}: {vector:?}", order.name()).unwrap(),
                    Err(bad) => writeln!(told, "{}: {bad}", order.name()).unwrap(),
                }
            }
            writeln!(told, "pod: {:?}\n", pod_vector(&pod)).unwrap();
        }
        told
    }

    #[test]
    fn golden_vectors_are_as_worked_out_by_hand() {
        let text = include_str!("../../testdata/features.txt");
        let (_, cases) = text.split_once("case ").unwrap();
        assert_eq!(run(text).trim_end(), format!("case {cases}").trim_end());
    }

    #[test]
    fn trees_can_tell_what_was_not_measured() {
        let node = NodeFacts::UNKNOWN.with(NodeFeature::CpuUtilization, 0.25);
        let vector = node_vector(&node, Order::Document, Filler::Nan).unwrap();
        assert_eq!(vector[0], 0.25);
        assert!(vector[1..].iter().all(|value| value.is_nan()), "{vector:?}");
    }

    #[test]
    fn what_is_no_number_is_named() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let node = NodeFacts::UNKNOWN.with(NodeFeature::DiskIops, value);
            let bad = node_vector(&node, Order::Document, Filler::Nan).unwrap_err();
            assert_eq!(bad.feature, NodeFeature::DiskIops);
            assert!(bad.to_string().starts_with("disk_iops: "), "{bad}");
        }
    }

    #[test]
    fn an_order_is_known_by_its_names_and_a_wrong_name_by_its_place() {
        let names = |order: Order| order.names().map(str::to_owned).to_vec();
        for order in Order::ALL {
            assert_eq!(order_of(&names(order)), Ok(order));
        }
        let mut wrong = names(Order::Document);
        wrong[4] = "gpu_utilization".to_owned();
        assert_eq!(order_of(&wrong), Err((4, Some("gpu_utilization".to_owned()))));
        assert_eq!(order_of(&names(Order::Document)[..20]), Err((20, None)));
        let mut mixed = names(Order::Document);
        mixed[12] = "zone_diversity_score".to_owned();
        assert_eq!(order_of(&mixed), Err((12, Some("zone_diversity_score".to_owned()))));
    }
}
