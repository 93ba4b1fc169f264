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

/// The upper end of each bucket, to find a latency's bucket by.
const UPPER_MS: [f64; BUCKETS] = upper_ends();
/// The bits of a number that name its cell: all but these. A cell is narrower than a bucket.
const CELL_SHIFT: u32 = 46;
/// Enough for all buckets, at 64 cells to a doubling.
const CELLS: usize = 1800;
/// The bucket in which each cell begins.
const CELL_BEGINS: [u16; CELLS] = cell_begins();

/// The bucket of a latency, without a logarithm: a request costs one of these.
fn bucket(latency_ms: f64) -> usize {
    let latency_ms = latency_ms.max(FIRST_MS);
    let begins = CELL_BEGINS.get(cell(latency_ms)).map_or(BUCKETS - 1, |place| usize::from(*place));
    let further = UPPER_MS[begins..].iter().take_while(|upper_ms| **upper_ms < latency_ms).count();
    (begins + further).min(BUCKETS - 1)
}

#[expect(clippy::cast_possible_truncation, reason = "18 bits are left")]
const fn cell(latency_ms: f64) -> usize {
    ((latency_ms.to_bits() >> CELL_SHIFT) - (FIRST_MS.to_bits() >> CELL_SHIFT)) as usize
}

const fn upper_ends() -> [f64; BUCKETS] {
    let mut ends_ms = [FIRST_MS; BUCKETS];
    let mut place = 1;
    while place < BUCKETS {
        ends_ms[place] = ends_ms[place - 1] * GROWTH;
        place += 1;
    }
    ends_ms
}

#[expect(clippy::cast_possible_truncation, reason = "there are 960 buckets")]
const fn cell_begins() -> [u16; CELLS] {
    let mut begins = [0; CELLS];
    let mut place = 0;
    while place < BUCKETS {
        // Whatever lies above this bucket in its last cell, and in all later ones, is further on.
        let mut later = cell(UPPER_MS[place]) + 1;
        while later < CELLS && place + 1 < BUCKETS {
            begins[later] = place as u16 + 1;
            later += 1;
        }
        place += 1;
    }
    begins
}

#[expect(clippy::cast_precision_loss, reason = "a place is below 1000")]
fn upper_ms(place: usize) -> f64 {
    FIRST_MS * libm::pow(GROWTH, place as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_counted_in_the_bucket_that_holds_it() {
        assert_eq!([0.0, FIRST_MS, f64::NAN].map(bucket), [0; 3]);
        assert_eq!([1e8, f64::INFINITY].map(bucket), [BUCKETS - 1; 2]);
        for place in 1..BUCKETS {
            let (from_ms, to_ms) = (upper_ms(place - 1), upper_ms(place));
            for part in [0.001, 0.3, 0.6, 0.999] {
                let latency_ms = from_ms + (to_ms - from_ms) * part;
                assert_eq!(bucket(latency_ms), place, "{latency_ms}");
            }
        }
    }

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
