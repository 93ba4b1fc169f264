//! Our side of the comparison with Python: scores a matrix of inputs by a model, and says how long
//! that takes. `compare/compare.py` calls it; see docs/testing.md.
//!
//! Usage: `compare MODEL INPUTS OUTPUTS ORDER`. Inputs are rows of 26 numbers of 32 bits, in 0..1,
//! all with the same pod; outputs are the scores. Times are the least of many, in microseconds.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use walras_brain::features::{Filler, NodeFacts, Order, PodFacts};
use walras_brain::model::Model;
use walras_brain::verdict::Verdict;

const ROUNDS: u32 = 300;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, inputs, outputs, order] = arguments.as_slice() else {
        return Err("usage: compare MODEL INPUTS OUTPUTS document|kubeattention".into());
    };
    let order = if order == "document" { Order::Document } else { Order::Kubeattention };
    let file = walras_brain::file::read(&std::fs::read(model)?, Some(order))?;
    // Python's XGBoost is given NaN for what is missing, and so are we.
    let filler = if file.model.kind() == "trees" { Filler::Nan } else { Filler::Typical };
    let model = Model { filler, ..file.model };
    let nodes = nodes(&std::fs::read(inputs)?, order);
    let mut verdicts = vec![Verdict::NO_MODEL; nodes.len()];
    let pod = PodFacts::default();
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        model.score(black_box(&pod), black_box(&nodes), &mut verdicts);
        least = least.min(start.elapsed().as_secs_f64());
        black_box(&mut verdicts);
    }
    let scores: Vec<u8> = verdicts.iter().flat_map(|v| v.score.to_le_bytes()).collect();
    std::fs::write(outputs, scores)?;
    writeln!(std::io::stdout(), "{:.1}", least * 1e6)?;
    Ok(())
}

fn nodes(bytes: &[u8], order: Order) -> Vec<NodeFacts> {
    let numbers: Vec<f32> =
        bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let node = |row: &[f32; 26]| {
        let features = order.node_features().into_iter().zip(row);
        features
            .filter(|(_, value)| !value.is_nan())
            .fold(NodeFacts::UNKNOWN, |node, (f, value)| {
                node.with(f, f64::from(*value) * f.about().high)
            })
    };
    numbers.as_chunks::<26>().0.iter().map(node).collect()
}
