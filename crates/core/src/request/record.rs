//! What a family used, as a histogram of five-minute means for each of its last days.
//!
//! A day is a day of evidence: as many windows of five minutes as a day has, whenever they were.
//! So nothing depends on a clock, and what was seen before a restart counts after it. All workloads
//! of a family on a node share one record, and each counts in every window. Buckets are a sixteenth
//! of their value wide; what is told is the upper end of one, so that it is never below what was
//! seen.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::MARGIN;
use crate::units::Millicores;

/// Windows of five minutes in a day.
pub const DAY_WINDOWS: u16 = 288;
/// The same in a week.
pub const WEEK_WINDOWS: u16 = 7 * DAY_WINDOWS;
/// Whole days that are kept, beside the one that goes on.
pub(super) const DAYS_MAX: usize = 7;
/// Buckets of each doubling.
const PARTS: u64 = 16;
/// Its logarithm.
const PARTS_LOG: u32 = 4;
/// Values from here on share the last bucket: more than any machine has.
const VALUE_MAX: u64 = (1 << 20) - 1;
/// How many buckets there are.
pub(super) const BUCKETS: u16 = 272;

/// For how long a family was seen, in windows of five minutes; a week is the most that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evidence(u16);

/// What a family used lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UseRecord {
    /// The newest last.
    pub(super) days: VecDeque<Day>,
    /// The largest 90th percentile of all but the newest, which is asked for in every window and
    /// changes once a day.
    before: Option<Millicores>,
}

/// What a family used within one day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Day {
    /// How many windows it has had, at most [`DAY_WINDOWS`].
    pub(super) windows: u16,
    /// How often each bucket was seen, in the order of buckets; none of them never.
    pub(super) counts: Vec<(u16, u16)>,
}

// === impl Evidence ===

impl Evidence {
    /// None.
    pub const NONE: Self = Self(0);
    /// What it takes to lower a request.
    pub const A_DAY: Self = Self(DAY_WINDOWS);
    /// What it takes to lower it below half.
    pub const A_WEEK: Self = Self(WEEK_WINDOWS);

    /// So many windows.
    #[must_use]
    pub const fn of_windows(windows: u16) -> Self {
        Self(if windows > WEEK_WINDOWS { WEEK_WINDOWS } else { windows })
    }

    /// In windows of five minutes.
    #[must_use]
    pub const fn windows(self) -> u16 {
        self.0
    }

    /// In whole hours.
    #[must_use]
    pub const fn hours_floor(self) -> u16 {
        self.0 / 12
    }
}

// === impl UseRecord ===

impl UseRecord {
    /// A window passed in which the workloads of the family used this, each of them.
    pub fn window_passed(&mut self, used: &[Millicores]) {
        if used.is_empty() {
            return;
        }
        if self.days.back().is_none_or(|day| day.windows == DAY_WINDOWS) {
            let mut days = core::mem::take(&mut self.days);
            days.push_back(Day::default());
            if days.len() > DAYS_MAX + 1 {
                days.pop_front();
            }
            *self = Self::of_days(days);
        }
        if let Some(day) = self.days.back_mut() {
            day.windows += 1;
            for used in used {
                day.count(bucket_of(*used));
            }
        }
    }

    /// For how long the family was seen.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        let windows = self.days.iter().map(|day| day.windows).sum();
        Evidence::of_windows(windows)
    }

    /// How many windows were ever counted, as far as they are remembered: this grows with every
    /// window, until days are forgotten.
    #[must_use]
    pub fn windows(&self) -> u32 {
        self.days.iter().map(|day| u32::from(day.windows)).sum()
    }

    /// The largest 90th percentile of any day.
    #[must_use]
    pub fn largest_p90(&self) -> Option<Millicores> {
        self.before.max(self.days.back().and_then(Day::p90))
    }

    /// A record of these days, the newest last.
    pub(super) fn of_days(days: VecDeque<Day>) -> Self {
        let newest = days.len().saturating_sub(1);
        let before = days.iter().take(newest).filter_map(Day::p90).max();
        Self { days, before }
    }

    /// What the family should request by what it used.
    #[must_use]
    pub fn suggested(&self) -> Option<Millicores> {
        self.largest_p90().map(|used| used.scale_ceil(MARGIN))
    }
}

// === impl Day ===

impl Day {
    fn count(&mut self, bucket: u16) {
        match self.counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(place) => {
                let count = &mut self.counts[place].1;
                *count = count.saturating_add(1);
            }
            Err(place) => self.counts.insert(place, (bucket, 1)),
        }
    }

    /// The value that nine of ten windows do not exceed.
    fn p90(&self) -> Option<Millicores> {
        let total: u64 = self.counts.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = (total * 9).div_ceil(10);
        let mut seen = 0;
        let mut counts = self.counts.iter();
        let found = counts.find(|(_, count)| {
            seen += u64::from(*count);
            seen >= rank
        });
        found.map(|(bucket, _)| upper_end(*bucket))
    }
}

/// The bucket that a value is counted in.
fn bucket_of(used: Millicores) -> u16 {
    let value = used.get().min(VALUE_MAX);
    if value < PARTS {
        return u16::try_from(value).unwrap_or(BUCKETS - 1);
    }
    let doublings = value.ilog2() - PARTS_LOG;
    let within = (value >> doublings) - PARTS;
    let bucket = PARTS + u64::from(doublings) * PARTS + within;
    u16::try_from(bucket).unwrap_or(BUCKETS - 1)
}

/// The largest value of a bucket.
fn upper_end(bucket: u16) -> Millicores {
    let bucket = u64::from(bucket);
    if bucket < PARTS {
        return Millicores::new(bucket);
    }
    let doublings = (bucket - PARTS) / PARTS;
    let within = (bucket - PARTS) % PARTS;
    Millicores::new(((PARTS + within + 1) << doublings) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milli(value: u64) -> Millicores {
        Millicores::new(value)
    }

    #[test]
    fn a_bucket_is_a_sixteenth_wide_and_told_by_its_upper_end() {
        for value in (0..5000).chain([65_535, 65_536, 1_024_000, VALUE_MAX]) {
            let told = upper_end(bucket_of(milli(value))).get();
            assert!(told >= value && told - value <= value / 16, "{value} is told as {told}");
        }
        assert_eq!(bucket_of(milli(VALUE_MAX)), BUCKETS - 1);
        assert_eq!(bucket_of(Millicores::UNLIMITED + Millicores::UNLIMITED), BUCKETS - 1);
    }

    #[test]
    fn what_is_suggested_is_the_largest_daily_p90_and_a_margin() {
        let mut record = UseRecord::default();
        assert_eq!(record.suggested(), None);
        // A day of which a tenth is 800m, one of which a little more is 400m, and one of 100m.
        for (busy_windows, busy) in [(28, 800), (30, 400), (0, 0)] {
            for window in 0..DAY_WINDOWS {
                let used = if window < busy_windows { busy } else { 100 };
                record.window_passed(&[milli(used)]);
            }
        }
        // 400m are in the bucket up to 415m, and 415 times 1.15 is 477.25.
        assert_eq!(record.largest_p90(), Some(milli(415)));
        assert_eq!(record.suggested(), Some(milli(478)));
    }

    #[test]
    fn workloads_of_one_family_share_a_record_and_each_counts() {
        let mut record = UseRecord::default();
        record.window_passed(&[milli(3), milli(4), milli(15)]);
        assert_eq!(record.evidence(), Evidence::of_windows(1), "a window is one, for all of them");
        assert_eq!(record.largest_p90(), Some(milli(15)));
        record.window_passed(&[]);
        assert_eq!(record.evidence(), Evidence::of_windows(1), "nobody was there to be seen");
    }

    #[test]
    fn a_week_is_remembered_and_no_more() {
        let mut record = UseRecord::default();
        for _ in 0..DAY_WINDOWS {
            record.window_passed(&[milli(15)]);
        }
        for day in 1..=8 {
            for _ in 0..DAY_WINDOWS {
                record.window_passed(&[milli(5)]);
            }
            let expected = if day < 8 { 15 } else { 5 };
            assert_eq!(record.largest_p90(), Some(milli(expected)), "after {day} more days");
        }
        assert_eq!(record.evidence(), Evidence::A_WEEK);
        assert_eq!(record.days.len(), DAYS_MAX + 1);
    }
}
