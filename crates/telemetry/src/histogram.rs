//! Latencies counted in buckets, four to each doubling.
//!
//! The kernel side (`ebpf/telemetry.bpf.c`) counts into the same buckets, so the two have to agree
//! on [`BUCKETS`] and [`bucket_of`]. A quantile is off by at most the width of its bucket, which is
//! a quarter of its value.

use crate::rate::count;
use crate::reading::{Seen, Unavailable};

/// How many buckets there are: from a nanosecond to a minute.
pub const BUCKETS: usize = 140;

/// How often each length of time was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// How many.
    pub count: u64,
    /// All of them together, in nanoseconds.
    pub sum_ns: u64,
    /// How many in each bucket.
    pub buckets: [u64; BUCKETS],
}

/// The bucket that a length of time belongs to.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "both are at most a few bits")]
pub const fn bucket_of(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let exponent = ns.ilog2() as usize;
    let quarter = (ns >> (exponent - 2) & 3) as usize;
    let bucket = (exponent - 1) * 4 + quarter;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The least length of time in a bucket.
#[must_use]
pub const fn bucket_start_ns(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let exponent = bucket / 4 + 1;
    (4 + (bucket % 4) as u64) << (exponent - 2)
}

// === impl Histogram ===

impl Default for Histogram {
    fn default() -> Self {
        Self { count: 0, sum_ns: 0, buckets: [0; BUCKETS] }
    }
}

impl Histogram {
    /// What was seen since `older`.
    ///
    /// # Errors
    ///
    /// Where a bucket holds fewer than before: it was started anew.
    pub fn since(&self, older: &Self, what: &'static str) -> Seen<Self> {
        let moved =
            |older: u64, newer: u64| newer.checked_sub(older).ok_or(Unavailable::Reset { what });
        let mut seen = Self {
            count: moved(older.count, self.count)?,
            sum_ns: moved(older.sum_ns, self.sum_ns)?,
            ..Self::default()
        };
        for (place, bucket) in seen.buckets.iter_mut().enumerate() {
            *bucket = moved(
                older.buckets.get(place).copied().unwrap_or_default(),
                self.buckets.get(place).copied().unwrap_or_default(),
            )?;
        }
        Ok(seen)
    }

    /// Adds what another CPU saw.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        for (sum, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum = sum.wrapping_add(*more);
        }
    }

    /// Notes one length of time, as the kernel side does.
    pub fn note(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ns)) {
            *bucket += 1;
        }
    }

    /// The mean in microseconds; zero where nothing was seen.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        if self.count == 0 { 0.0 } else { count(self.sum_ns) / count(self.count) / 1000.0 }
    }

    /// The length of time in microseconds that `part` of all are not above, evenly spread within
    /// their bucket; zero where nothing was seen.
    #[must_use]
    pub fn quantile_us(&self, part: f64) -> f64 {
        // The buckets count, and not `count`, which another CPU may have moved meanwhile.
        let all: u64 = self.buckets.iter().sum();
        let wanted = count(all) * part.clamp(0.0, 1.0);
        let mut below = 0.0;
        for (bucket, inside) in self.buckets.iter().enumerate().filter(|(_, it)| **it > 0) {
            let inside = count(*inside);
            if below + inside >= wanted {
                let start = count(bucket_start_ns(bucket));
                let width = count(bucket_start_ns(bucket + 1)) - start;
                return (start + width * ((wanted - below) / inside)) / 1000.0;
            }
            below += inside;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for bucket in 0..BUCKETS {
            let start = bucket_start_ns(bucket);
            assert_eq!(bucket_of(start), bucket);
            assert_eq!(bucket_of(start.saturating_sub(1)), bucket.saturating_sub(1));
            let width = bucket_start_ns(bucket + 1) - start;
            assert!(width <= start.div_ceil(4).max(1), "{bucket} is {width} wide");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_quantile_is_within_a_bucket_of_the_truth() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|us| histogram.note(us * 1000));
        assert!((histogram.mean_us() - 500.5).abs() < 1e-9);
        for (part, truth) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0), (0.01, 10.0)] {
            let found = histogram.quantile_us(part);
            assert!((found - truth).abs() <= truth / 4.0, "{part}: {found} and not {truth}");
        }
        assert_eq!(Histogram::default().quantile_us(0.99), 0.0);
        assert_eq!(Histogram::default().mean_us(), 0.0);
    }

    #[test]
    fn what_was_seen_since_is_a_difference_and_a_fresh_start_is_told() {
        let mut older = Histogram::default();
        older.note(1000);
        let mut newer = older;
        newer.note(9);
        let mut expected = Histogram::default();
        expected.note(9);
        assert_eq!(newer.since(&older, "x"), Ok(expected));
        assert_eq!(older.since(&newer, "x"), Err(Unavailable::Reset { what: "x" }));
        let mut sum = older;
        sum.add(&expected);
        assert_eq!(sum, newer);
    }
}
