//! Golden vectors: a few nodes and pods that every model is asked about when it is saved, and again
//! when it is loaded. A file that was damaged, or is computed differently here, does not get by.

use walras_core::rng::Rng;

use super::FileError;
use crate::features::{NodeFacts, PodFacts};
use crate::model::Model;
use crate::random;
use crate::simd::Kernel;
use crate::verdict::Verdict;

const SEED: u64 = 1874;
const PODS: usize = 4;
const NODES: usize = 8;
/// Kernels differ in rounding, and files may come from another machine.
const POINTS: f32 = 0.05;
const CONFIDENCE: f32 = 1e-3;

fn questions() -> Vec<(PodFacts, Vec<NodeFacts>)> {
    let mut rng = Rng::from_seed(SEED);
    (0..PODS)
        .map(|_| {
            let pod = random::pod(&mut rng);
            let mut nodes = random::nodes(&mut rng, NODES - 1);
            nodes.push(NodeFacts::UNKNOWN);
            (pod, nodes)
        })
        .collect()
}

/// Scores and confidences of the golden vectors, by the portable kernel.
pub(super) fn answers(model: &Model) -> Vec<[f32; 2]> {
    answers_by(Kernel::PORTABLE, model)
}

fn answers_by(kernel: Kernel, model: &Model) -> Vec<[f32; 2]> {
    let mut all = Vec::new();
    for (pod, nodes) in questions() {
        let mut verdicts = vec![Verdict::NO_MODEL; nodes.len()];
        model.score_with(kernel, &pod, &nodes, &mut verdicts);
        all.extend(verdicts.iter().map(|verdict| [verdict.score, verdict.confidence]));
    }
    all
}

/// Refuses a model whose answers are no numbers.
pub(super) fn check_finite(model: &Model) -> Result<(), FileError> {
    let sane = |[score, confidence]: [f32; 2]| {
        (0.0..=100.0).contains(&score) && (0.0..=1.0).contains(&confidence)
    };
    let all = answers_by(Kernel::best(), model);
    if all.into_iter().all(sane) { Ok(()) } else { Err(FileError::NotFinite) }
}

/// Refuses a model that does not answer as it did when it was saved.
pub(super) fn check(model: &Model, expected: &[[f32; 2]]) -> Result<(), FileError> {
    let found = answers_by(Kernel::best(), model);
    if found.len() != expected.len() {
        let what = format!("{} golden answers and not {}", expected.len(), found.len());
        return Err(FileError::Broken { format: "Walras", what });
    }
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        // Written so that what is no number differs, too.
        let same = (found[0] - expected[0]).abs() <= POINTS
            && (found[1] - expected[1]).abs() <= CONFIDENCE;
        if !same {
            return Err(FileError::Golden { place, found: *found, expected: *expected });
        }
    }
    Ok(())
}
