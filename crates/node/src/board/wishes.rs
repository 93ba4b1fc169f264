//! What a daemon that only watches would do to one workload, as a summary: what it would set by
//! now, and how often it would have changed that in the last hour.
//!
//! While nothing is written nothing is relieved, so the same wish comes back at every tick, a
//! little different each time. Only one that departs from the last by more than a tenth counts: the
//! one before it would have been enough.

use std::collections::VecDeque;

use walras_core::units::Millicores;

use super::entry::Setting;

const HOUR_MINUTES: u64 = 60;

/// The wishes for one workload. Memory is bounded by an hour's minutes.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    last: Option<Setting>,
    /// How many there were in each minute of the last hour that had any, oldest first.
    by_minute: VecDeque<(u64, u32)>,
}

impl Wishes {
    /// Takes in a wish. Says whether it is another one than the last.
    pub(super) fn wished(&mut self, to: Setting, at_ms: u64) -> bool {
        let same = self.last.is_some_and(|last| {
            is_about(last.limit, to.limit) && is_about(last.request, to.request)
        });
        if same {
            return false;
        }
        self.last = Some(to);
        let minute = at_ms / 60_000;
        self.forget_before(minute);
        match self.by_minute.back_mut() {
            Some((last, count)) if *last == minute => *count = count.saturating_add(1),
            Some(_) | None => self.by_minute.push_back((minute, 1)),
        }
        true
    }

    /// What would be set by now, and how many changes there would have been in the last hour.
    pub(super) fn summary(&self, at_ms: u64) -> Option<(Setting, u32)> {
        let now = at_ms / 60_000;
        let recent = self.by_minute.iter().filter(|(minute, _)| minute + HOUR_MINUTES > now);
        let changes = recent.fold(0u32, |sum, (_, count)| sum.saturating_add(*count));
        self.last.map(|last| (last, changes))
    }

    fn forget_before(&mut self, minute: u64) {
        while self.by_minute.front().is_some_and(|(oldest, _)| oldest + HOUR_MINUTES <= minute) {
            self.by_minute.pop_front();
        }
    }
}

/// Whether two amounts are within a tenth of each other.
fn is_about(one: Millicores, other: Millicores) -> bool {
    let (small, large) = (one.min(other).get(), one.max(other).get());
    large - small <= large / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wishes: &[(u64, u64)], now_minute: u64) -> Option<(u64, u32)> {
        let mut all = Wishes::default();
        for &(minute, limit) in wishes {
            let setting = Setting { limit: Millicores::new(limit), request: Millicores::new(100) };
            all.wished(setting, minute * 60_000);
        }
        all.summary(now_minute * 60_000).map(|(setting, changes)| (setting.limit.get(), changes))
    }

    #[test]
    fn a_wish_that_is_about_the_last_one_is_no_change() {
        assert_eq!(check(&[], 0), None);
        assert_eq!(check(&[(0, 1000), (0, 1050), (1, 950), (1, 1000)], 2), Some((1000, 1)));
        assert_eq!(check(&[(0, 1000), (0, 1200), (1, 1000)], 2), Some((1000, 3)));
    }

    #[test]
    fn slow_drift_is_followed_in_steps_of_a_tenth() {
        let drift: Vec<(u64, u64)> = (0..50).map(|minute| (minute, 1000 + 10 * minute)).collect();
        assert_eq!(check(&drift, 50), Some((1390, 4)));
    }

    #[test]
    fn changes_are_those_of_the_last_hour() {
        let wishes = [(0, 1000), (30, 2000), (59, 1000)];
        assert_eq!(check(&wishes, 59), Some((1000, 3)));
        assert_eq!(check(&wishes, 60), Some((1000, 2)));
        assert_eq!(check(&wishes, 500), Some((1000, 0)));
    }

    #[test]
    fn memory_is_that_of_an_hour() {
        let mut all = Wishes::default();
        for minute in 0..10_000 {
            let limit = Millicores::new(if minute % 2 == 0 { 100 } else { 500 });
            all.wished(Setting { limit, request: limit }, minute * 60_000);
        }
        assert_eq!(all.by_minute.len(), 60);
    }
}
