//! What the Brain says of a node: a score, how much it trusts that, and what it rests on.

use crate::features::BadTelemetry;

/// What the Brain says of one node for one pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// 0 is the worst node, 100 the best.
    pub score: f32,
    /// How likely the score is right within ten points, in 0..1.
    pub confidence: f32,
    /// What it rests on.
    pub basis: Basis,
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Basis {
    /// A model computed it.
    Model,
    /// There is no model, so it is neutral.
    NoModel,
    /// The model did worse than neutral lately and is set aside, so it is neutral.
    SetAside,
    /// The node's telemetry is not about now, so it is neutral.
    Stale {
        /// How old it is; 0 where its time lies ahead of ours.
        age_ms: u64,
    },
    /// The node's telemetry is not fit to be scored, so it is neutral.
    Refused(BadTelemetry),
}

/// Telemetry that is older says nothing about now.
pub const STALE_AFTER_MS: u64 = 10_000;
/// Telemetry from the future is that of a clock that is wrong; by less than this it may be.
pub const AHEAD_MS: u64 = 2_000;

/// How old telemetry of `taken_ms` is at `now_ms`, if that is too old; a time that lies ahead is as
/// good as too old.
#[must_use]
pub const fn too_old(taken_ms: u64, now_ms: u64) -> Option<u64> {
    let age_ms = now_ms.saturating_sub(taken_ms);
    if age_ms > STALE_AFTER_MS || taken_ms > now_ms.saturating_add(AHEAD_MS) {
        Some(age_ms)
    } else {
        None
    }
}

/// How scores of one batch relate to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// As the model gave them.
    #[default]
    Absolute,
    /// Stretched so that the worst node of the batch has 0 and the best 100.
    Batch,
}

/// The score of a node about which nothing can be said.
pub const NEUTRAL: f32 = 50.0;

// === impl Verdict ===

impl Verdict {
    /// There is no model.
    pub const NO_MODEL: Self = Self { score: NEUTRAL, confidence: 0.0, basis: Basis::NoModel };

    /// The model is set aside.
    pub const SET_ASIDE: Self = Self { score: NEUTRAL, confidence: 0.0, basis: Basis::SetAside };

    /// The node's telemetry is not about now.
    #[must_use]
    pub const fn stale(age_ms: u64) -> Self {
        Self { score: NEUTRAL, confidence: 0.0, basis: Basis::Stale { age_ms } }
    }

    /// The node's telemetry cannot be scored.
    #[must_use]
    pub const fn refused(bad: BadTelemetry) -> Self {
        Self { score: NEUTRAL, confidence: 0.0, basis: Basis::Refused(bad) }
    }

    /// From what a model computed, both in 0..1.
    pub(crate) fn of_model(score: f32, confidence: f32) -> Self {
        Self {
            score: (score * 100.0).clamp(0.0, 100.0),
            confidence: confidence.clamp(0.0, 1.0),
            basis: Basis::Model,
        }
    }

    /// The score as a whole number, rounded down as KubeAttention does.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a score is in 0..100"
    )]
    pub fn points_floor(&self) -> u8 {
        self.score.clamp(0.0, 100.0) as u8
    }
}

// === impl Scale ===

impl Scale {
    /// Brings the scores of a batch to this scale. Neutral ones keep out of it; a single score, or
    /// scores that are all equal, become neutral.
    pub fn apply(self, verdicts: &mut [Verdict]) {
        match self {
            Self::Absolute => {}
            Self::Batch => stretch(verdicts),
        }
    }
}

fn stretch(verdicts: &mut [Verdict]) {
    let scored = || verdicts.iter().filter(|verdict| verdict.basis == Basis::Model);
    let low = scored().map(|verdict| verdict.score).fold(f32::INFINITY, f32::min);
    let high = scored().map(|verdict| verdict.score).fold(f32::NEG_INFINITY, f32::max);
    for verdict in verdicts.iter_mut().filter(|verdict| verdict.basis == Basis::Model) {
        verdict.score = if high > low {
            ((verdict.score - low) / (high - low) * 100.0).clamp(0.0, 100.0)
        } else {
            NEUTRAL
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telemetry_is_about_now_for_ten_seconds() {
        assert_eq!((too_old(5_000, 15_000), too_old(5_000, 15_001)), (None, Some(10_001)));
        assert_eq!((too_old(7_000, 5_000), too_old(7_001, 5_000)), (None, Some(0)));
    }
    use crate::features::NodeFeature;

    fn scores(verdicts: &[Verdict]) -> Vec<f32> {
        verdicts.iter().map(|verdict| verdict.score).collect()
    }

    #[test]
    fn a_batch_is_stretched_to_its_worst_and_best() {
        let bad = BadTelemetry { feature: NodeFeature::DiskIops, value: f64::NAN };
        let mut batch = [
            Verdict::of_model(0.25, 1.0),
            Verdict::of_model(0.75, 1.0),
            Verdict::refused(bad),
            Verdict::of_model(0.5, 1.0),
        ];
        Scale::Absolute.apply(&mut batch);
        assert_eq!(scores(&batch), [25.0, 75.0, 50.0, 50.0]);
        Scale::Batch.apply(&mut batch);
        assert_eq!(scores(&batch), [0.0, 100.0, 50.0, 50.0]);
    }

    #[test]
    fn one_node_or_equal_nodes_are_neutral_in_a_batch() {
        for count in [1, 3] {
            let mut batch = vec![Verdict::of_model(0.9, 0.7); count];
            Scale::Batch.apply(&mut batch);
            assert_eq!(scores(&batch), vec![50.0; count]);
        }
    }

    #[test]
    fn points_are_rounded_down() {
        assert_eq!(Verdict::of_model(0.699, 0.0).points_floor(), 69);
        assert_eq!(Verdict::of_model(1.0, 0.0).points_floor(), 100);
        assert_eq!(Verdict::of_model(-3.0, 0.0).points_floor(), 0);
    }
}
