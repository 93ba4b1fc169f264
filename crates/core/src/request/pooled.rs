//! How the use of a node adds up: the mean of a day of five-minute windows, and three standard
//! deviations.
//!
//! Peaks of many workloads seldom come together, so what a node can hold is judged by its own peak
//! and not by theirs. It is not kept over a restart: an hour has to pass before anything is told.

use alloc::vec::Vec;

use super::DAY_WINDOWS;
use crate::units::Millicores;

/// Before so many windows nothing is told.
const WINDOWS_AT_LEAST: usize = 12;
/// More than any machine has, by far; the squares of a day of these still add up.
const USED_MAX: u64 = 1 << 40;
/// Standard deviations above the mean.
const DEVIATIONS: u128 = 3;

/// What a node used in each window of the last day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pooled {
    used: Vec<u64>,
    /// Where the next one goes, once all places are taken.
    next: usize,
}

// === impl Pooled ===

impl Pooled {
    /// A window passed in which everybody together used this.
    pub fn window_passed(&mut self, used: Millicores) {
        let used = used.get().min(USED_MAX);
        if self.used.len() < usize::from(DAY_WINDOWS) {
            self.used.push(used);
        } else {
            self.used[self.next] = used;
            self.next = (self.next + 1) % self.used.len();
        }
    }

    /// The mean and three standard deviations, rounded up, once an hour was seen.
    #[must_use]
    pub fn peak_ceil(&self) -> Option<Millicores> {
        if self.used.len() < WINDOWS_AT_LEAST {
            return None;
        }
        let count = self.used.len() as u128;
        let sum: u128 = self.used.iter().map(|used| u128::from(*used)).sum();
        let squares: u128 = self.used.iter().map(|used| u128::from(*used).pow(2)).sum();
        // The variance is (count * squares - sum²) / count².
        let spread = DEVIATIONS * ceil_of_root(count * squares - sum * sum);
        let peak = (sum + spread).div_ceil(count);
        Some(Millicores::new(u64::try_from(peak).unwrap_or(u64::MAX)))
    }
}

fn ceil_of_root(value: u128) -> u128 {
    let root = value.isqrt();
    if root * root < value { root + 1 } else { root }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pooled(used: impl Iterator<Item = u64>) -> Option<u64> {
        let mut pooled = Pooled::default();
        for used in used {
            pooled.window_passed(Millicores::new(used));
        }
        pooled.peak_ceil().map(Millicores::get)
    }

    #[test]
    fn a_peak_is_the_mean_and_three_deviations() {
        assert_eq!(pooled((0..20).map(|_| 500)), Some(500), "always the same");
        // Half of them 400m and half 600m: the mean is 500m and the deviation 100m.
        assert_eq!(pooled((0..20).map(|at| 400 + 200 * (at % 2))), Some(800));
        assert_eq!(pooled((0..11).map(|_| 500)), None, "not yet an hour");
    }

    #[test]
    fn what_is_older_than_a_day_is_forgotten() {
        let day = u64::from(DAY_WINDOWS);
        let used = |at: u64| if at < day { 9000 } else { 100 };
        assert_eq!(pooled((0..2 * day).map(used)), Some(100));
        assert!(pooled((0..2 * day - 1).map(used)) > Some(1000), "one of them is left");
    }

    #[test]
    fn the_largest_amounts_do_not_overflow() {
        assert_eq!(pooled((0..288).map(|_| u64::MAX)), Some(USED_MAX));
        assert!(pooled((0..288).map(|at| u64::MAX * (at % 2))) > Some(USED_MAX));
    }
}
