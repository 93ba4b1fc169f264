//! A small seeded generator (SplitMix64) for the one decision that explores: bidding.
//!
//! Randomness is state. The explorer owns a generator and saves it with everything else it
//! knows, so a replay draws the same numbers on every machine.

use serde::{Deserialize, Serialize};

/// The state of a SplitMix64 generator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The generator that `seed` starts.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; zero where `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("a 64-bit number times a bound, over 2^64, is below it")
    }

    /// A number in `[0, 1)`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exactly what an f64 holds")]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // First outputs of SplitMix64 for the seed 1234567, as in the Rosetta Code listing.
        let mut rng = Rng::from_seed(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_within_their_bound() {
        let mut rng = Rng::from_seed(7);
        for _ in 0..1000 {
            assert!(rng.below(3) < 3);
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        assert_eq!(rng.below(0), 0);
    }
}
