//! How much is wanted over time: the synthetic families, and recorded series.

use std::sync::Arc;

use walras_core::rng::Rng;

/// A quantity over time: requests per second, or cores.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Always the same.
    Constant {
        /// The level.
        level: f64,
    },
    /// A day in the life: a sine between two levels.
    Periodic {
        /// The lowest level.
        low: f64,
        /// The highest level.
        high: f64,
        /// How long a round takes.
        period_s: f64,
    },
    /// A straight line from one level to another, and constant after that.
    Ramp {
        /// The level at the start.
        from: f64,
        /// The level at the end.
        to: f64,
        /// How long it takes.
        over_s: f64,
    },
    /// Another random level between two every so often.
    Steps {
        /// The lowest level.
        low: f64,
        /// The highest level.
        high: f64,
        /// How long a level stays.
        every_s: f64,
    },
    /// A base level with random storms on top.
    Storms {
        /// The level between storms.
        base: f64,
        /// The level in a storm.
        peak: f64,
        /// How many storms an hour.
        per_hour: f64,
        /// The shortest storm.
        shortest_s: f64,
        /// The longest storm.
        longest_s: f64,
    },
    /// A base level with bursts on top of it at given times.
    Pulses {
        /// The level between bursts.
        base: f64,
        /// The level in a burst.
        peak: f64,
        /// When the first burst begins.
        first_s: f64,
        /// How long each lasts.
        length_s: f64,
        /// From the beginning of a burst to that of the next; where it is not said, there is one.
        every_s: Option<f64>,
    },
    /// A recorded series; repeats from its start when it ends.
    Series {
        /// The levels.
        levels: Arc<[f64]>,
        /// How long each stays.
        step_s: f64,
    },
}

impl Shape {
    /// The level in the second that begins `second` seconds after the start. The same seed gives
    /// the same storms and steps.
    #[must_use]
    pub fn level(&self, second: u32, seed: u64) -> f64 {
        let at_s = f64::from(second);
        match self {
            Self::Constant { level } => *level,
            Self::Periodic { low, high, period_s } => {
                let phase = libm::cos(core::f64::consts::TAU * at_s / period_s);
                low + (high - low) * (1.0 - phase) / 2.0
            }
            Self::Ramp { from, to, over_s } => from + (to - from) * (at_s / over_s).clamp(0.0, 1.0),
            Self::Steps { low, high, every_s } => {
                let drawn = Rng::from_seed(seed ^ whole(at_s / every_s).wrapping_mul(SALT)).unit();
                low + (high - low) * drawn
            }
            Self::Storms { base, peak, per_hour, shortest_s, longest_s } => {
                let storm = Storm::near(at_s, seed, *per_hour, (*shortest_s, *longest_s));
                if storm.covers(at_s) { *peak } else { *base }
            }
            Self::Pulses { base, peak, first_s, length_s, every_s } => {
                let since_s = at_s - first_s;
                let into_s = every_s.map_or(since_s, |every_s| libm::fmod(since_s, every_s));
                if since_s >= 0.0 && into_s < *length_s { *peak } else { *base }
            }
            Self::Series { levels, step_s } => {
                let place = whole(at_s / step_s);
                let count = u64::try_from(levels.len()).unwrap_or(u64::MAX).max(1);
                let place = usize::try_from(place % count).unwrap_or(0);
                levels.get(place).copied().unwrap_or(0.0)
            }
        }
    }
}

/// Spreads the numbers of steps and storms over the seeds.
const SALT: u64 = 0x9E37_79B9_7F4A_7C15;

/// One storm. There is one in every stretch of `3600 / per_hour` seconds, at a random place in it.
struct Storm {
    from_s: f64,
    to_s: f64,
}

impl Storm {
    fn near(at_s: f64, seed: u64, per_hour: f64, (shortest_s, longest_s): (f64, f64)) -> Self {
        let stretch_s = 3600.0 / per_hour.max(1e-6);
        let number = whole(at_s / stretch_s);
        let mut rng = Rng::from_seed(seed ^ number.wrapping_mul(SALT));
        let length_s = (shortest_s + (longest_s - shortest_s) * rng.unit()).min(stretch_s);
        let begins = libm::floor(at_s / stretch_s) * stretch_s;
        let from_s = begins + (stretch_s - length_s) * rng.unit();
        Self { from_s, to_s: from_s + length_s }
    }

    fn covers(&self, at_s: f64) -> bool {
        (self.from_s..self.to_s).contains(&at_s)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_go_where_they_should() {
        let periodic = Shape::Periodic { low: 10.0, high: 30.0, period_s: 60.0 };
        assert!((periodic.level(0, 1) - 10.0).abs() < 1e-9);
        assert!((periodic.level(30, 1) - 30.0).abs() < 1e-9);
        let ramp = Shape::Ramp { from: 0.0, to: 10.0, over_s: 100.0 };
        assert_eq!([ramp.level(0, 1), ramp.level(50, 1), ramp.level(500, 1)], [0.0, 5.0, 10.0]);
        let series = Shape::Series { levels: Arc::from([1.0, 2.0, 3.0]), step_s: 2.0 };
        let levels: Vec<f64> = (0..8).map(|second| series.level(second, 1)).collect();
        assert_eq!(levels, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 1.0, 1.0]);
    }

    #[test]
    fn pulses_come_when_they_are_due_and_once_where_none_is_said_to_follow() {
        let pulses =
            |every_s| Shape::Pulses { base: 1.0, peak: 5.0, first_s: 2.0, length_s: 2.0, every_s };
        let levels = |shape: &Shape| (0..10).map(|second| shape.level(second, 1)).collect();
        let again: Vec<f64> = levels(&pulses(Some(4.0)));
        assert_eq!(again, [1.0, 1.0, 5.0, 5.0, 1.0, 1.0, 5.0, 5.0, 1.0, 1.0]);
        let once: Vec<f64> = levels(&pulses(None));
        assert_eq!(once, [1.0, 1.0, 5.0, 5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn storms_last_as_long_as_they_may_and_come_as_often_as_they_should() {
        let storms = Shape::Storms {
            base: 1.0,
            peak: 9.0,
            per_hour: 10.0,
            shortest_s: 5.0,
            longest_s: 60.0,
        };
        let levels: Vec<f64> = (0..36_000).map(|second| storms.level(second, 7)).collect();
        let begun = levels.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((80..=101).contains(&begun), "{begun}");
        let same: Vec<f64> = (0..36_000).map(|second| storms.level(second, 7)).collect();
        assert_eq!(levels, same);
    }
}
