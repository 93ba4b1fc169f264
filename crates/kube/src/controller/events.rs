//! How many events are made: in a large cluster one for every resize would be a fifth of all calls.
//!
//! Statuses say the same, and are always written. Warnings have a budget of their own, so that what
//! is usual keeps none of them from being told.

use std::num::NonZeroU32;

use walras_core::resize::Bucket;
use walras_core::units::Moment;

/// So many of each kind a second, and as many at once.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// What is left to be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventBudget {
    usual: Bucket,
    warnings: Bucket,
}

impl EventBudget {
    /// Nothing was told yet.
    pub(super) fn full(now: Moment) -> Self {
        Self { usual: Bucket::full(PER_SECOND, now), warnings: Bucket::full(PER_SECOND, now) }
    }

    /// Whether one more may be made.
    pub(super) fn take(&mut self, is_warning: bool, now: Moment) -> bool {
        let budget = if is_warning { &mut self.warnings } else { &mut self.usual };
        budget.take(now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_a_second_are_told_and_what_is_usual_takes_nothing_from_warnings() {
        let mut budget = EventBudget::full(Moment::ORIGIN);
        let mut told = |is_warning: bool, at_ms: u64| {
            let at = Moment::from_ms(at_ms);
            (0..50).filter(|_| budget.take(is_warning, at)).count()
        };
        assert_eq!(told(false, 0), 10);
        assert_eq!(told(true, 0), 10);
        assert_eq!(told(false, 500), 5);
        assert_eq!(told(false, 60_000), 10, "a quiet minute is no stampede");
    }
}
