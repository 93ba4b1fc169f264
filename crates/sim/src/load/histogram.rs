//! Latencies in buckets that grow by 2 %: constant memory, quantiles within 1 %.

/// The upper end of the first bucket.
const FIRST_MS: f64 = 0.1;
/// How much wider each bucket is than the one before.
const GROWTH: f64 = 1.02;
/// Enough for 0.1 ms to five hours.
const BUCKETS: usize = 960;

/// Counted latencies.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u32]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0 }
    }
}

impl Histogram {
    /// Counts a latency.
    pub fn record(&mut self, latency_ms: f64) {
        self.counts[bucket(latency_ms)] += 1;
        self.total += 1;
    }

    /// How many were counted.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The latency that a share of `quantile` did not exceed; none where nothing was counted.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        if self.total == 0 {
            return None;
        }
        let rank = quantile * self.total as f64;
        let mut seen = 0_u64;
        for (place, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if count > 0 && seen as f64 >= rank {
                return Some(upper_ms(place));
            }
        }
        None
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// The upper end of each bucket that counted something, with the share of all up to it.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, f64)> {
        let mut seen = 0_u64;
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(
            move |(place, count)| {
                seen += u64::from(*count);
                (upper_ms(place), seen as f64 / self.total as f64)
            },
        )
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn bucket(latency_ms: f64) -> usize {
    let place = libm::ceil(libm::log(latency_ms.max(FIRST_MS) / FIRST_MS) / libm::log(GROWTH));
    (place as usize).min(BUCKETS - 1)
}

#[expect(clippy::cast_precision_loss, reason = "a place is below 1000")]
fn upper_ms(place: usize) -> f64 {
    FIRST_MS * libm::pow(GROWTH, place as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_two_percent() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_ms(0.5), None);
        for latency in 1..=1000 {
            histogram.record(f64::from(latency));
        }
        for (quantile, expected) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = histogram.quantile_ms(quantile).expect("something was counted");
            assert!((found / expected - 1.0).abs() < 0.021, "{quantile}: {found}");
        }
    }
}
