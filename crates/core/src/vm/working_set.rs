//! How large the working set of a cache is, from how much of it was touched in the last minute, the
//! last two minutes, and so on.
//!
//! Called for a goal. Touched memory grows with the time one looks back. As long as it grows
//! steadily, more of it belongs to the working set; where it begins to grow much faster, something
//! that happened once is in sight, and everything before that is the working set.

use crate::units::{Bytes, Ratio};

/// How it is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkingSetRule {
    /// Growth is measured over so many minutes.
    pub window_minutes: usize,
    /// At least so many minutes count, so that a pause of that length frees nothing.
    pub least_minutes: usize,
    /// Growth that exceeds the growth before by this factor is something that happened once.
    pub sudden: u64,
    /// So many minutes of further growth are allowed for.
    pub ahead_minutes: Ratio,
}

/// What was estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkingSet {
    /// The working set.
    pub size: Bytes,
    /// What it will be soon if it goes on growing.
    pub projected: Bytes,
}

// === impl WorkingSetRule ===

impl WorkingSetRule {
    /// Five minutes each, growth of three times, half a minute ahead.
    pub const DEFAULT: Self = Self {
        window_minutes: 5,
        least_minutes: 5,
        sudden: 3,
        ahead_minutes: Ratio::from_percent(50),
    };

    /// The working set, where `touched` has what was touched within the last one, two, three
    /// minutes and so on. Nothing where that is too short to say.
    #[must_use]
    pub fn estimate(&self, touched: &[Bytes]) -> Option<WorkingSet> {
        let back = self.window_minutes.max(1) - 1;
        let first = self.least_minutes.max(1).max(self.window_minutes) - 1;
        let last = *touched.get(first..)?.last()?;
        let is_sudden = |place: &usize| {
            let before = growth(touched[*place - back], touched[*place]);
            let after = growth(touched[*place], touched[*place + back]);
            after.get() > before.get().saturating_mul(self.sudden)
        };
        let ends = (first..touched.len().saturating_sub(back)).find(is_sudden);
        let size = ends.map_or(last, |place| touched[place]);
        // Samples of different lengths are not taken at the same instant, so they may go down.
        let more = touched[first..].iter().take_while(|bytes| **bytes <= size).count();
        let projected = self.project(&touched[..first + more]).max(size);
        Some(WorkingSet { size, projected })
    }

    fn project(&self, touched: &[Bytes]) -> Bytes {
        let ahead = |pair: &[Bytes]| {
            let reached = pair[0].max(pair[1]);
            reached + growth(pair[0], reached).scale_floor(self.ahead_minutes)
        };
        touched.windows(2).map(ahead).max().unwrap_or_default()
    }
}

const fn growth(from: Bytes, to: Bytes) -> Bytes {
    to.saturating_sub(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Size and projection of what is touched within 1, 2, 3... minutes.
    fn check(touched: &[u64]) -> Option<(u64, u64)> {
        let touched: Vec<Bytes> = touched.iter().map(|&bytes| Bytes::new(bytes)).collect();
        let found = WorkingSetRule::DEFAULT.estimate(&touched)?;
        Some((found.size.get(), found.projected.get()))
    }

    #[test]
    fn too_few_minutes_say_nothing() {
        assert_eq!(check(&[]), None);
        assert_eq!(check(&[1, 2, 3, 4]), None);
        assert_eq!(check(&[10, 10, 10, 10, 10]), Some((10, 10)));
    }

    #[test]
    fn what_grows_steadily_all_counts_and_a_little_more() {
        // 10 more each minute: the end of the series, and half of the last growth ahead.
        let steady: Vec<u64> = (1..=20).map(|minute| minute * 10).collect();
        assert_eq!(check(&steady), Some((200, 205)));
    }

    #[test]
    fn a_single_scan_long_ago_does_not_count() {
        // From minute 10 on a scan of 1000 is in sight. At minute 6 the next four minutes hold it
        // for the first time, while the four before grew by nothing.
        let mut touched = [100; 20];
        touched[9..].fill(1100);
        assert_eq!(check(&touched), Some((100, 100)));
    }

    #[test]
    fn the_first_minutes_always_count() {
        let mut touched = [500; 12];
        touched[0] = 100;
        // The growth of 400 in the second minute is part of them: 500, and half of 400 ahead.
        assert_eq!(check(&touched), Some((500, 700)));
    }

    #[test]
    fn a_series_that_goes_down_is_not_negative_growth() {
        assert_eq!(check(&[50, 40, 60, 50, 70, 60, 70, 70, 70, 70]), Some((70, 80)));
    }
}
