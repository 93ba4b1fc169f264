//! Whether a model still does better than no model at all, from what became of pods.
//!
//! For every pod whose outcome is known, what the model said of its node is compared with the label
//! that the outcome makes, and so is the neutral score. A model that does worse than neutral over
//! the window, and goes on doing so for the patience, is set aside: answers are neutral until it
//! has done better for as long, or another model comes. With few outcomes nothing is changed.
//! Facts come with their time; there is no clock here.

use std::collections::VecDeque;

use crate::label::Label;
use crate::number::count;
use crate::verdict::NEUTRAL;

/// The most outcomes that are kept; older ones go, however young they are.
const OUTCOMES_MAX: usize = 10_000;

/// How a model is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriftSettings {
    /// Outcomes count for so long.
    pub window_ms: i64,
    /// With fewer outcomes nothing is said.
    pub least_outcomes: usize,
    /// How long a model has to do worse, or better, until that has consequences.
    pub patience_ms: i64,
}

/// How a model stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It serves.
    Serves,
    /// It is set aside, since this time.
    SetAside {
        /// In milliseconds since 1970.
        since_ms: i64,
    },
}

/// How far scores are from what pods met, in points: the root of the mean square.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// The model's.
    pub model: f64,
    /// What always saying 50 would have.
    pub neutral: f64,
    /// Over so many outcomes.
    pub outcomes: usize,
}

/// A model that is watched.
#[derive(Clone, Debug)]
pub struct Drift {
    settings: DriftSettings,
    seen: VecDeque<Seen>,
    standing: Standing,
    /// Since when the window says the opposite of the standing.
    differs_since_ms: Option<i64>,
    now_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    at_ms: i64,
    model: f64,
    neutral: f64,
    weight: f64,
}

impl DriftSettings {
    /// An hour, 30 outcomes, half an hour.
    pub const USUAL: Self =
        Self { window_ms: 3_600_000, least_outcomes: 30, patience_ms: 1_800_000 };
}

// === impl Drift ===

impl Drift {
    /// A model of which nothing is known yet: it serves.
    #[must_use]
    pub const fn new(settings: DriftSettings) -> Self {
        Self {
            settings,
            seen: VecDeque::new(),
            standing: Standing::Serves,
            differs_since_ms: None,
            now_ms: 0,
        }
    }

    /// Another model serves now: what was known is about another one.
    pub fn model_changed(&mut self) {
        *self = Self { now_ms: self.now_ms, ..Self::new(self.settings) };
    }

    /// The outcome of a pod is known, for whose node the model said `score`, from 0 to 100.
    pub fn outcome_seen(&mut self, at_ms: i64, score: f32, label: Label) {
        let square = |score: f32| (f64::from(score) - label.value * 100.0).powi(2);
        if !label.weight.is_finite() || label.weight <= 0.0 || !square(score).is_finite() {
            return;
        }
        if self.seen.len() == OUTCOMES_MAX {
            self.seen.pop_front();
        }
        let (model, neutral) = (square(score), square(NEUTRAL));
        self.seen.push_back(Seen { at_ms, model, neutral, weight: label.weight });
    }

    /// Time passed: judges, and says how the model stands from now on. A clock that stepped back is
    /// held where it was.
    pub fn tick(&mut self, now_ms: i64) -> Standing {
        self.now_ms = self.now_ms.max(now_ms);
        let oldest = self.now_ms - self.settings.window_ms;
        self.seen.retain(|seen| seen.at_ms >= oldest);
        let Some(errors) = self.errors() else {
            // Too little is known to go on counting.
            self.differs_since_ms = None;
            return self.standing;
        };
        let is_worse = errors.model > errors.neutral;
        let is_aside = self.standing != Standing::Serves;
        if is_worse == is_aside {
            self.differs_since_ms = None;
            return self.standing;
        }
        let since = *self.differs_since_ms.get_or_insert(self.now_ms);
        if self.now_ms - since >= self.settings.patience_ms {
            self.differs_since_ms = None;
            self.standing = if is_worse {
                Standing::SetAside { since_ms: self.now_ms }
            } else {
                Standing::Serves
            };
        }
        self.standing
    }

    /// How the model stands.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// How far scores are off, where enough is known.
    #[must_use]
    pub fn errors(&self) -> Option<Errors> {
        if self.seen.len() < self.settings.least_outcomes.max(1) {
            return None;
        }
        let weights: f64 = self.seen.iter().map(|seen| seen.weight).sum();
        let mean = |square: fn(&Seen) -> f64| {
            let sum: f64 = self.seen.iter().map(|seen| square(seen) * seen.weight).sum();
            (sum / weights).sqrt()
        };
        let (model, neutral) = (mean(|seen| seen.model), mean(|seen| seen.neutral));
        Some(Errors { model, neutral, outcomes: self.seen.len() })
    }

    /// How many outcomes of the window are known.
    #[must_use]
    pub fn outcomes(&self) -> f64 {
        count(self.seen.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: DriftSettings =
        DriftSettings { window_ms: 1000, least_outcomes: 3, patience_ms: 300 };

    /// Scores of 90 for pods that met `label`, one every 50 ms from `from_ms` on.
    fn go_on(drift: &mut Drift, from_ms: i64, to_ms: i64, label: f64) -> Standing {
        let mut standing = drift.standing();
        for at_ms in (from_ms..to_ms).step_by(50) {
            drift.outcome_seen(at_ms, 90.0, Label { value: label, weight: 1.0 });
            standing = drift.tick(at_ms);
        }
        standing
    }

    #[test]
    fn a_model_that_does_worse_than_neutral_for_long_enough_is_set_aside_and_returns() {
        let mut drift = Drift::new(SETTINGS);
        assert_eq!(go_on(&mut drift, 0, 2000, 1.0), Standing::Serves);
        // Half of the window has to pass before the bad news weigh more, then the patience.
        assert_eq!(go_on(&mut drift, 2000, 2400, 0.0), Standing::Serves);
        let aside = go_on(&mut drift, 2400, 3500, 0.0);
        assert!(matches!(aside, Standing::SetAside { since_ms } if since_ms > 2300), "{aside:?}");
        let errors = drift.errors().unwrap();
        assert!(errors.model > errors.neutral, "{errors:?}");
        assert_eq!(go_on(&mut drift, 3500, 5500, 1.0), Standing::Serves);
    }

    #[test]
    fn a_bad_moment_sets_nothing_aside() {
        let mut drift = Drift::new(SETTINGS);
        go_on(&mut drift, 0, 1000, 1.0);
        go_on(&mut drift, 1000, 1100, 0.0);
        assert_eq!(go_on(&mut drift, 1100, 4000, 1.0), Standing::Serves);
    }

    #[test]
    fn few_outcomes_change_nothing_and_old_ones_are_forgotten() {
        let mut drift = Drift::new(SETTINGS);
        go_on(&mut drift, 0, 100, 0.0);
        assert_eq!(drift.errors(), None);
        assert_eq!(drift.tick(10_000), Standing::Serves);
        assert_eq!(drift.outcomes(), 0.0);
        assert_eq!(drift.tick(5), Standing::Serves, "a clock that steps back is no news");
    }

    #[test]
    fn another_model_begins_with_a_clean_slate() {
        let mut drift = Drift::new(SETTINGS);
        go_on(&mut drift, 0, 2000, 0.0);
        assert_ne!(drift.standing(), Standing::Serves);
        drift.model_changed();
        assert_eq!((drift.standing(), drift.outcomes()), (Standing::Serves, 0.0));
    }

    #[test]
    fn what_is_no_number_is_not_counted_and_memory_is_bounded() {
        let mut drift = Drift::new(SETTINGS);
        drift.outcome_seen(0, f32::NAN, Label { value: 0.5, weight: 1.0 });
        drift.outcome_seen(0, 50.0, Label { value: 0.5, weight: 0.0 });
        assert_eq!(drift.outcomes(), 0.0);
        for _ in 0..OUTCOMES_MAX + 10 {
            drift.outcome_seen(0, 50.0, Label { value: 0.5, weight: 1.0 });
        }
        assert_eq!(drift.outcomes(), 10_000.0);
    }
}
