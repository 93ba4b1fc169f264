//! Samples at uneven times become levels at even steps.
//!
//! The step is the median of the distances in time. A sample takes the step nearest to its time, so
//! that a clock that is a little off loses no sample; a step without one holds the level before
//! it; where two fall into one step the later one counts.

use super::LINES_MAX;
use super::error::{Place, TraceError};

/// A level from a moment on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) at_s: f64,
    pub(super) level: f64,
    /// The line it is from.
    pub(super) line: usize,
}

/// The levels at even steps, and how long a step is. The samples are in the order of time; a single
/// one lasts `lone_step_s`.
pub(super) fn evenly(
    file: &str,
    samples: &[Sample],
    lone_step_s: f64,
) -> Result<(Vec<f64>, f64), TraceError> {
    let Some(first) = samples.first() else {
        return Err(TraceError::Empty { file: file.to_owned() });
    };
    let step_s = median_step_s(samples).unwrap_or(lone_step_s);
    let mut levels: Vec<f64> = Vec::with_capacity(samples.len());
    for sample in samples {
        let place = slot(sample.at_s - first.at_s, step_s);
        if place >= LINES_MAX {
            let at = Place { file: file.to_owned(), line: sample.line, column: None };
            return Err(TraceError::Gap { at, step_s: step_s.to_string() });
        }
        let before = levels.last().copied().unwrap_or(sample.level);
        levels.resize(place, before);
        levels.push(sample.level);
    }
    Ok((levels, step_s))
}

/// The lower median of the distances; none where there is only one sample.
fn median_step_s(samples: &[Sample]) -> Option<f64> {
    let mut steps_s: Vec<f64> =
        samples.windows(2).map(|pair| pair[1].at_s - pair[0].at_s).collect();
    let middle = steps_s.len().checked_sub(1)? / 2;
    let (_, median, _) = steps_s.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
fn slot(since_s: f64, step_s: f64) -> usize {
    (since_s / step_s).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(samples: &[(f64, f64)]) -> (Vec<f64>, f64) {
        let sample = |(line, &(at_s, level))| Sample { at_s, level, line };
        let samples: Vec<Sample> = samples.iter().enumerate().map(sample).collect();
        evenly("test", &samples, 300.0).expect("these are fine")
    }

    #[test]
    fn a_gap_holds_the_level_before_it() {
        assert_eq!(
            check(&[(5.0, 1.0), (15.0, 2.0), (45.0, 3.0), (55.0, 4.0)]),
            (vec![1.0, 2.0, 2.0, 2.0, 3.0, 4.0], 10.0)
        );
    }

    #[test]
    fn a_clock_that_is_a_little_off_loses_nothing() {
        assert_eq!(
            check(&[(0.0, 1.0), (301.0, 2.0), (600.0, 3.0), (901.0, 4.0), (1200.0, 5.0)]),
            (vec![1.0, 2.0, 3.0, 4.0, 5.0], 299.0)
        );
    }

    #[test]
    fn of_two_samples_in_one_step_the_later_one_counts() {
        assert_eq!(
            check(&[(0.0, 1.0), (10.0, 2.0), (20.0, 3.0), (21.0, 9.0), (31.0, 4.0)]),
            (vec![1.0, 2.0, 9.0, 4.0], 10.0)
        );
    }

    #[test]
    fn a_lone_sample_lasts_one_step() {
        assert_eq!(check(&[(7.0, 1.5)]), (vec![1.5], 300.0));
    }

    #[test]
    fn a_gap_that_would_fill_the_memory_is_refused() {
        let sample = |at_s, line| Sample { at_s, level: 1.0, line };
        let samples = [sample(0.0, 1), sample(1.0, 2), sample(2.0, 3), sample(1e12, 4)];
        let error = evenly("a.csv", &samples, 1.0).expect_err("far too long");
        assert_eq!(
            error.to_string(),
            "a.csv: line 4: the gap before this row makes the trace longer than 10000000 steps of \
             1 s"
        );
    }
}
