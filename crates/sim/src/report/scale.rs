//! Where values are along an axis, and which of them are labelled.

use super::number::{short, trimmed};

/// The range of an axis, and how it is stretched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    stretch: Stretch,
    wording: Wording,
    low: f64,
    high: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stretch {
    /// Equal steps are equally long.
    Linear,
    /// Small values have more room, and zero has a place.
    Root,
    /// Equal factors are equally long.
    Log,
    /// Each further nine of a share is equally long: 90 %, 99 %, 99.9 %.
    Nines,
}

/// What a labelled value is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wording {
    Number,
    Percent,
    /// Milliseconds, from a second on in seconds.
    Latency,
}

/// A labelled value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// Where it is, from 0 to 1.
    pub(super) place: f64,
    pub(super) label: String,
}

/// Digits that an axis may end with.
const ROUND: [f64; 10] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
/// Below the last labelled share there is a little room for the rest.
const NINES_HIGH: f64 = 0.9997;

impl Scale {
    /// From zero to a round number that is not below `most`.
    pub(super) fn linear(most: f64) -> Self {
        let high = if most > 0.0 { most } else { 1.0 };
        Self {
            stretch: Stretch::Linear,
            wording: Wording::Number,
            low: 0.0,
            high: round_up(high, &ROUND),
        }
    }

    /// From zero to exactly `most`.
    pub(super) fn time(most: f64) -> Self {
        Self { stretch: Stretch::Linear, wording: Wording::Number, low: 0.0, high: most.max(1.0) }
    }

    /// From zero to `most`, with more room for small values.
    pub(super) fn root(most: f64) -> Self {
        Self { stretch: Stretch::Root, wording: Wording::Number, low: 0.0, high: most.max(1.0) }
    }

    /// From `least` to `most` milliseconds, by factors.
    pub(super) fn latency(least_ms: f64, most_ms: f64) -> Self {
        Self { wording: Wording::Latency, ..Self::log(least_ms, most_ms) }
    }

    /// From `least` to `most`, which are both above zero, by factors.
    pub(super) fn log(least: f64, most: f64) -> Self {
        let low = if least > 0.0 { least } else { 0.001 };
        let high = most.max(low * 1.2);
        Self { stretch: Stretch::Log, wording: Wording::Number, low, high }
    }

    /// Shares from zero to almost one.
    pub(super) const fn nines() -> Self {
        Self { stretch: Stretch::Nines, wording: Wording::Percent, low: 0.0, high: NINES_HIGH }
    }

    /// Where a value is, from 0 to 1; what is outside is at the edge.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (low, high) = (self.stretched(self.low), self.stretched(self.high));
        let value = value.clamp(self.low, self.high);
        ((self.stretched(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The highest value that has a place of its own.
    pub(super) const fn highest(&self) -> f64 {
        self.high
    }

    /// About as many labelled values as there is room for.
    pub(super) fn ticks(&self, most: usize) -> Vec<Tick> {
        let values = match self.stretch {
            Stretch::Linear => self.even(most),
            Stretch::Root => std::iter::once(0.0).chain(self.round(&[1.0, 2.0, 5.0])).collect(),
            Stretch::Log => self.log_values(most),
            Stretch::Nines => vec![0.0, 0.5, 0.9, 0.99, 0.999],
        };
        let label = |value: f64| match self.wording {
            Wording::Number => short(value),
            Wording::Percent => format!("{} %", trimmed(value * 100.0, 1)),
            Wording::Latency if value < 1000.0 => format!("{} ms", short(value)),
            Wording::Latency => format!("{} s", short(value / 1000.0)),
        };
        let all = values.into_iter().filter(|value| (self.low..=self.high).contains(value));
        let all = all.map(|value| Tick { place: self.place(value), label: label(value) });
        spread(all.collect(), most)
    }

    /// Steps of one, two or five, so that there are at most so many.
    fn even(&self, most: usize) -> Vec<f64> {
        let step = round_up(self.high / places(most), &[1.0, 2.0, 5.0]);
        let count = libm::floor(self.high / step + 1e-9);
        (0..=1000_u32).map(f64::from).take_while(|n| *n <= count).map(|n| n * step).collect()
    }

    fn log_values(&self, most: usize) -> Vec<f64> {
        let choices: [&[f64]; 3] = [&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0]];
        let mut values = choices.iter().map(|digits| self.round(digits));
        values.find(|values| values.len() <= most).unwrap_or_else(|| self.round(&[1.0]))
    }

    /// All values of the range that have one of the digits, and then zeros.
    fn round(&self, digits: &[f64]) -> Vec<f64> {
        let decades = (-6..=9_i32).map(f64::from).map(|power| libm::pow(10.0, power));
        let all = decades.flat_map(|decade| digits.iter().map(move |digit| digit * decade));
        all.filter(|value| (self.low..=self.high).contains(value) && *value > 1e-9)
            .filter(|value| self.stretch != Stretch::Root || *value >= 1.0)
            .collect()
    }

    fn stretched(&self, value: f64) -> f64 {
        match self.stretch {
            Stretch::Linear => value,
            Stretch::Root => libm::sqrt(value),
            Stretch::Log => libm::log10(value),
            Stretch::Nines => -libm::log10(1.0 - value),
        }
    }
}

/// Takes out labels that would run into the one before.
fn spread(ticks: Vec<Tick>, most: usize) -> Vec<Tick> {
    let room = 0.8 / places(most);
    let mut kept: Vec<Tick> = Vec::new();
    for tick in ticks {
        if kept.last().is_none_or(|last| tick.place - last.place >= room) {
            kept.push(tick);
        }
    }
    kept
}

fn places(most: usize) -> f64 {
    u32::try_from(most).map_or(1.0, |most| f64::from(most.max(1)))
}

/// The least number that is not below `value` and has one of the digits, and then zeros.
fn round_up(value: f64, digits: &[f64]) -> f64 {
    let decade = libm::pow(10.0, libm::floor(libm::log10(value)));
    let found = digits.iter().map(|digit| digit * decade).find(|round| *round >= value * 0.9999);
    found.unwrap_or(decade * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, most: usize) -> String {
        let labels: Vec<String> = scale.ticks(most).into_iter().map(|tick| tick.label).collect();
        labels.join(" ")
    }

    #[test]
    fn labels_are_round_and_few() {
        assert_eq!(labels(Scale::linear(3.7), 4), "0 1 2 3 4");
        assert_eq!(labels(Scale::linear(0.23), 4), "0 0.1 0.2");
        assert_eq!(labels(Scale::linear(0.0), 4), "0 0.5 1");
        assert_eq!(labels(Scale::time(60.0), 4), "0 20 40 60");
        assert_eq!(labels(Scale::root(53.0), 6), "0 1 5 20 50");
        assert_eq!(labels(Scale::log(1.5, 16.0), 6), "2 5 10");
        assert_eq!(labels(Scale::log(0.5, 300_000.0), 6), "1 10 100 1000 10 000 100 000");
        assert_eq!(labels(Scale::latency(0.5, 20_000.0), 6), "1 ms 10 ms 100 ms 1 s 10 s");
        assert_eq!(labels(Scale::nines(), 10), "0 % 50 % 90 % 99 % 99.9 %");
    }

    #[test]
    fn places_are_within_the_frame_whatever_the_value() {
        for scale in [Scale::linear(2.0), Scale::root(9.0), Scale::log(1.0, 10.0), Scale::nines()] {
            for value in [-1.0, 0.0, 0.5, 1.0, 9.0, 1e9] {
                assert!((0.0..=1.0).contains(&scale.place(value)), "{scale:?} {value}");
            }
        }
        assert_eq!(Scale::linear(2.0).place(1.0), 0.5);
        assert_eq!(Scale::root(4.0).place(1.0), 0.5);
        assert!((Scale::log(1.0, 100.0).place(10.0) - 0.5).abs() < 1e-9);
    }
}
