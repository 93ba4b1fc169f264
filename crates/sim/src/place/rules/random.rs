//! Any node that has room.

use super::{Rule, View};

/// Scores all nodes alike, so that chance decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

impl Rule for Random {
    fn score(&mut self, _view: &View<'_>, candidates: &[usize], scores: &mut Vec<f64>) {
        scores.clear();
        scores.resize(candidates.len(), 0.0);
    }
}
