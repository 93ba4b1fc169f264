//! A budget of so many resizes a second, for a whole cluster, so that its API server is not
//! flooded.
//!
//! The controller takes a token before each patch. The bucket holds at most a second's worth, so a
//! quiet hour does not add up to a stampede. A caller that gets none is told when there will be
//! one.

use core::num::NonZeroU32;

use crate::units::{Moment, Span};

/// Tokens that come back at a steady rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    per_second: NonZeroU32,
    /// What is in it, in millionths of a token.
    millionths: u64,
    /// When that was so.
    at: Moment,
}

const TOKEN: u64 = 1_000_000;

impl Bucket {
    /// A full bucket that gains `per_second` tokens a second and holds as many.
    #[must_use]
    pub fn full(per_second: NonZeroU32, now: Moment) -> Self {
        Self { per_second, millionths: u64::from(per_second.get()) * TOKEN, at: now }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// There is none; there will be one at the moment returned, which is later than `now`.
    pub fn take(&mut self, now: Moment) -> Result<(), Moment> {
        self.time_passed(now);
        match self.millionths.checked_sub(TOKEN) {
            Some(rest) => {
                self.millionths = rest;
                Ok(())
            }
            None => {
                let missing = TOKEN - self.millionths;
                let wait_us = missing.div_ceil(u64::from(self.per_second.get())).max(1);
                Err(self.at.max(now) + Span::from_us(wait_us))
            }
        }
    }

    /// Puts a token back that bought nothing.
    pub fn give_back(&mut self, now: Moment) {
        self.time_passed(now);
        self.millionths = self.millionths.saturating_add(TOKEN).min(self.capacity());
    }

    /// Changes the rate; what is in the bucket stays, as far as it fits.
    pub fn rate_changed(&mut self, per_second: NonZeroU32, now: Moment) {
        self.time_passed(now);
        self.per_second = per_second;
        self.millionths = self.millionths.min(self.capacity());
    }

    /// Fills what came back since. A clock that stepped back brings nothing and loses nothing.
    fn time_passed(&mut self, now: Moment) {
        let gained = now.since(self.at).as_us().saturating_mul(u64::from(self.per_second.get()));
        self.millionths = self.millionths.saturating_add(gained).min(self.capacity());
        self.at = self.at.max(now);
    }

    fn capacity(&self) -> u64 {
        u64::from(self.per_second.get()) * TOKEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: NonZeroU32 = NonZeroU32::new(10).unwrap();

    /// How many of the asks at `times` (in ms) get a token.
    fn check(times: impl Iterator<Item = u64>) -> usize {
        let mut bucket = Bucket::full(TEN, Moment::ORIGIN);
        times.filter(|ms| bucket.take(Moment::from_ms(*ms)).is_ok()).count()
    }

    #[test]
    fn a_second_has_so_many_tokens_and_so_has_every_one_after_it() {
        assert_eq!(check([0; 100].into_iter()), 10);
        assert_eq!(check(0..1000), 19, "a full bucket, and what comes back until 999 ms");
        assert_eq!(check(0..10_000), 109);
    }

    #[test]
    fn a_quiet_hour_does_not_add_up() {
        let burst = core::iter::repeat_n(3_600_000, 100);
        assert_eq!(check([0].into_iter().chain(burst)), 11, "one, and then ten");
    }

    #[test]
    fn who_comes_back_when_told_gets_a_token() {
        let mut bucket = Bucket::full(NonZeroU32::new(3).unwrap(), Moment::ORIGIN);
        let mut now = Moment::ORIGIN;
        for _ in 0..50 {
            while let Err(until) = bucket.take(now) {
                assert!(until > now);
                now = until;
            }
        }
        assert_eq!(now.as_ms_floor(), 15_666, "47 thirds of a second, rounded up a little each");
    }

    #[test]
    fn a_clock_that_steps_back_brings_nothing() {
        let mut bucket = Bucket::full(TEN, Moment::from_ms(1000));
        for _ in 0..10 {
            assert_eq!(bucket.take(Moment::from_ms(1000)), Ok(()));
        }
        assert_eq!(bucket.take(Moment::ORIGIN), Err(Moment::from_ms(1100)));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_never_adds_up() {
        let mut bucket = Bucket::full(TEN, Moment::ORIGIN);
        for _ in 0..100 {
            assert_eq!(bucket.take(Moment::ORIGIN), Ok(()));
            bucket.give_back(Moment::ORIGIN);
        }
        bucket.give_back(Moment::ORIGIN);
        let taken = (0..100).filter(|_| bucket.take(Moment::ORIGIN).is_ok());
        assert_eq!(taken.count(), 10);
    }

    #[test]
    fn a_lower_rate_holds_at_once() {
        let mut bucket = Bucket::full(TEN, Moment::ORIGIN);
        bucket.rate_changed(NonZeroU32::MIN, Moment::ORIGIN);
        assert_eq!(bucket.take(Moment::ORIGIN), Ok(()));
        assert_eq!(bucket.take(Moment::ORIGIN), Err(Moment::from_ms(1000)));
    }
}
