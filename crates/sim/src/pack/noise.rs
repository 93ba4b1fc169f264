//! Random numbers that are looked up and not drawn: the same place gives the same number, whoever
//! asks and in whatever order.
//!
//! Every policy of a contest so meets the same load, second by second, although no second is kept
//! anywhere, and a node's seconds can be skipped where nothing depends on them.

use walras_core::rng::Rng;

/// How many different beginnings a stretch of noise may have.
const PLACES: usize = 1 << 16;
/// The longest stretch that is read from one beginning.
pub(super) const STRETCH: usize = 320;
/// How many exponential numbers make one of the noise: the fewer, the more lopsided it is.
const PARTS: usize = 4;

/// A long piece of noise with the mean 0 and the deviation 1. Its lower end is -2, and it has no
/// upper one: bursts are larger than lulls, as those of real load are.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    values: Vec<f64>,
}

impl Noise {
    pub(super) fn new() -> Self {
        let mut rng = Rng::from_seed(0x5741_4c52_4153);
        let mut one = || -> f64 {
            let sum: f64 = (0..PARTS).map(|_| -libm::log(1.0 - rng.unit())).sum();
            // A sum of four has the mean 4 and the deviation 2.
            (sum - 4.0) / 2.0
        };
        Self { values: (0..PLACES + STRETCH).map(|_| one()).collect() }
    }

    /// The noise that begins at a place.
    pub(super) fn stretch(&self, place: u64) -> &[f64; STRETCH] {
        let from = usize::try_from(place).unwrap_or(usize::MAX) % PLACES;
        self.values[from..].first_chunk().expect("every place has a whole stretch behind it")
    }

    /// One number of the noise.
    pub(super) fn one(&self, place: u64) -> f64 {
        self.values[usize::try_from(place).unwrap_or(usize::MAX) % PLACES]
    }
}

/// A place that belongs to `who` at `when`, and looks like any other.
pub(super) const fn place(who: u64, when: u64) -> u64 {
    let mut z = who.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ when.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    z = (z ^ (z >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    z = (z ^ (z >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    z ^ (z >> 32)
}

/// A number in `[0, 1)` that belongs to a place.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exactly what an f64 holds")]
pub(super) const fn unit(place: u64) -> f64 {
    (place >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_the_mean_0_the_deviation_1_and_a_lower_end() {
        let noise = Noise::new();
        let count = 65_536.0;
        let values = &noise.values[..PLACES];
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!(values.iter().all(|value| *value >= -2.0));
    }

    #[test]
    fn places_of_neighbours_have_nothing_in_common() {
        let mean = (0..10_000).map(|when| unit(place(7, when))).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert_ne!(place(1, 2), place(2, 1));
        assert_eq!(place(3, 4), place(3, 4));
        let noise = Noise::new();
        assert_eq!(noise.one(5), noise.stretch(5)[0]);
    }
}
