//! Recorded load as the shape of a workload's: how it goes, and not how much it is.

use crate::scenario::trace::Trace;

/// Seconds of a window.
const WINDOW_S: f64 = 300.0;

/// A recording in windows of five minutes, its largest being 1. It begins anew where it ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recorded {
    levels: Vec<f64>,
}

impl Recorded {
    /// The means of a trace's windows; of one that is shorter than a window, the mean of all.
    #[expect(clippy::cast_precision_loss, reason = "a trace is shorter than 2^53")]
    pub(super) fn of(trace: &Trace) -> Self {
        let whole = libm::floor(trace.length_s() / WINDOW_S).max(1.0);
        let mut levels: Vec<f64> = Vec::new();
        while (levels.len() as f64) < whole {
            let from = levels.len() as f64 * WINDOW_S;
            let steps =
                place(from, trace)..place(from + WINDOW_S, trace).max(place(from, trace) + 1);
            let seen = &trace.levels[steps.start..steps.end.min(trace.levels.len())];
            levels.push(seen.iter().sum::<f64>() / seen.len().max(1) as f64);
        }
        let most = levels.iter().copied().fold(0.0, f64::max);
        let scale = if most > 0.0 { 1.0 / most } else { 0.0 };
        levels.iter_mut().for_each(|level| *level *= scale);
        Self { levels }
    }

    /// The level of a window, from 0 to 1, of who begins so many windows into it.
    pub(super) fn at(&self, offset: usize, window: usize) -> f64 {
        self.levels[(offset + window) % self.levels.len()]
    }
}

/// The step that a moment is in.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the trace")]
fn place(moment_s: f64, trace: &Trace) -> usize {
    ((moment_s / trace.step_s) as usize).min(trace.levels.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::scenario::trace::Unit;

    #[test]
    fn a_trace_is_cut_into_windows_whatever_its_steps_are() {
        let of = |levels: &[f64], step_s| {
            Recorded::of(&Trace { levels: Arc::from(levels), step_s, unit: Unit::Cores }).levels
        };
        assert_eq!(of(&[1.0, 4.0, 2.0], 300.0), [0.25, 1.0, 0.5]);
        assert_eq!(of(&[1.0, 3.0, 8.0, 8.0], 150.0), [0.25, 1.0]);
        assert_eq!(of(&[2.0, 4.0], 600.0), [0.5, 0.5, 1.0, 1.0]);
        assert_eq!(of(&[1.0, 3.0], 1.0), [1.0], "shorter than a window");
        assert_eq!(of(&[0.0, 0.0], 300.0), [0.0, 0.0]);
        let trace = Recorded { levels: vec![0.1, 0.2, 1.0] };
        assert_eq!([0, 1, 2, 3].map(|window| trace.at(1, window)), [0.2, 1.0, 0.1, 0.2]);
    }
}
