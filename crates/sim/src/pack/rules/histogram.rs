//! A histogram of use as VPA has it: the first bucket is a hundredth of a core wide and each next
//! one 5 % wider, and what is older than a day counts half.

use std::sync::LazyLock;

/// Width of the first bucket, in cores.
const FIRST_CORES: f64 = 0.01;
/// How much wider each bucket is than the one before.
const GROWTH: f64 = 0.05;
/// Enough for 1000 cores.
const BUCKETS: usize = 176;

/// What was used, and how much each value counts.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    weights: Box<[f64; BUCKETS]>,
    total: f64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { weights: Box::new([0.0; BUCKETS]), total: 0.0 }
    }

    /// One more value. Weights that grow with time make what is older count less.
    pub(super) fn add(&mut self, cores: f64, weight: f64) {
        self.weights[bucket(cores)] += weight;
        self.total += weight;
    }

    pub(super) fn clear(&mut self) {
        self.weights.fill(0.0);
        self.total = 0.0;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (weight, more) in self.weights.iter_mut().zip(other.weights.iter()) {
            *weight += more;
        }
        self.total += other.total;
    }

    /// The upper ends of the buckets up to which these shares of all weight lie, if there is any;
    /// the smallest share comes first.
    pub(super) fn percentiles_cores<const N: usize>(&self, shares: [f64; N]) -> Option<[f64; N]> {
        if self.total <= 0.0 {
            return None;
        }
        let (mut place, mut seen, mut last) = (0, 0.0, 0);
        Some(shares.map(|share| {
            while seen < share * self.total && place < BUCKETS {
                seen += self.weights[place];
                last = if self.weights[place] > 0.0 { place } else { last };
                place += 1;
            }
            ENDS[last]
        }))
    }
}

/// Where buckets end: bucket `n` begins at `0.01 * (1.05^n - 1) / 0.05`.
#[expect(clippy::cast_precision_loss, reason = "there are fewer than 200 buckets")]
static ENDS: LazyLock<[f64; BUCKETS]> = LazyLock::new(|| {
    let begin = |place: usize| FIRST_CORES * (libm::pow(1.0 + GROWTH, place as f64) - 1.0) / GROWTH;
    // The last one has no end, so its beginning is given.
    std::array::from_fn(|place| begin((place + 1).min(BUCKETS - 1)))
});

fn bucket(cores: f64) -> usize {
    ENDS.partition_point(|end| *end <= cores).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_ends_of_buckets_by_weight() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentiles_cores([0.9]), None);
        histogram.add(0.005, 8.0);
        histogram.add(0.012, 2.0);
        let found = histogram.percentiles_cores([0.5, 0.8, 0.9, 1.0]).unwrap();
        let expected = [0.01, 0.01, 0.0205, 0.0205];
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }
}
