//! A simple model of one pod's load: what it wants, what its limit lets it have, and the counters
//! the kernel would show for that.
//!
//! The generator of facts and the settling tests drive it. A pod that wants more than its limit is
//! held at the limit, throttled in every period, and its throttled time grows by what it missed.
//!
//! Always: counters never go backwards unless [`Load::restart`] was called.

use walras_core::demand::Sample;
use walras_core::rng::Rng;
use walras_core::units::{Millicores, Moment, Span};

use super::draw::{one_of, percent, spread, within};

/// How the kernel counts periods.
const PERIOD_US: u64 = 100_000;

/// What a pod wants over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appetite {
    /// The same at all times.
    Constant(Millicores),
    /// Something else every second, up to this much.
    Restless(Millicores),
    /// This much for `on`, nothing for `off`.
    Pulsing {
        /// What it wants while it wants anything.
        peak: Millicores,
        /// How long it does.
        on: Span,
        /// How long it does not.
        off: Span,
    },
}

/// One pod's load and counters.
#[derive(Clone, Debug)]
pub struct Load {
    appetite: Appetite,
    rng: Rng,
    since: Moment,
    usage_us: u64,
    throttled_us: u64,
    periods: u64,
    throttled_periods: u64,
    stalled_us: Option<u64>,
    /// Time that has passed but did not fill a period yet.
    remainder_us: u64,
}

// === impl Load ===

impl Load {
    /// A pod that starts at `now` with all counters at zero.
    #[must_use]
    pub const fn new(appetite: Appetite, seed: u64, now: Moment) -> Self {
        Self {
            appetite,
            rng: Rng::from_seed(seed),
            since: now,
            usage_us: 0,
            throttled_us: 0,
            periods: 0,
            throttled_periods: 0,
            stalled_us: None,
            remainder_us: 0,
        }
    }

    /// A pod of a random appetite, which may or may not show how long it waited for a CPU.
    pub fn random(rng: &mut Rng, most: Millicores, now: Moment) -> Self {
        let peak = Millicores::new(spread(rng, most.get()));
        let span = |rng: &mut Rng| Span::from_ms(within(rng, 100, 20_000));
        let appetite = match rng.below(3) {
            0 => Appetite::Constant(peak),
            1 => Appetite::Restless(peak),
            _ => Appetite::Pulsing { peak, on: span(rng), off: span(rng) },
        };
        let mut load = Self::new(appetite, rng.next_u64(), now);
        load.stalled_us = percent(rng, 50).then_some(0);
        load
    }

    /// Time passes until `now` under `limit`. Nothing happens where `now` is in the past.
    pub fn run_until(&mut self, now: Moment, limit: Millicores) {
        let elapsed_us = now.since(self.since).as_us();
        if elapsed_us == 0 {
            return;
        }
        let wanted = self.wanted();
        self.since = now;
        let used = wanted.min(limit);
        self.usage_us += cpu_time_us(used, elapsed_us);
        let ran_us = self.remainder_us + elapsed_us;
        self.remainder_us = ran_us % PERIOD_US;
        if wanted == Millicores::ZERO {
            return;
        }
        self.periods += ran_us / PERIOD_US;
        if wanted > limit {
            self.throttled_periods += ran_us / PERIOD_US;
            self.throttled_us += cpu_time_us(wanted.saturating_sub(limit), elapsed_us);
        }
        if let Some(stalled_us) = &mut self.stalled_us {
            *stalled_us += elapsed_us * self.rng.below(20) / 100;
        }
    }

    /// The counters as they stand, stamped with `at`.
    #[must_use]
    pub fn sample(&self, at: Moment) -> Sample {
        Sample {
            at,
            usage: Span::from_us(self.usage_us),
            throttled: Span::from_us(self.throttled_us),
            nr_periods: self.periods,
            nr_throttled: self.throttled_periods,
            stalled: self.stalled_us.map(Span::from_us),
        }
    }

    /// The pod's cgroup was made anew: one or all of its counters start from zero again.
    pub fn restart(&mut self, rng: &mut Rng) {
        match rng.below(4) {
            0 => self.usage_us = 0,
            1 => (self.periods, self.throttled_periods) = (0, 0),
            2 => self.stalled_us = self.stalled_us.map(|_| 0),
            _ => *self = Self::new(self.appetite, rng.next_u64(), self.since),
        }
    }

    /// The file that tells how long the pod waited comes, goes, or starts from zero.
    pub fn toggle_stalled(&mut self, rng: &mut Rng) {
        self.stalled_us = match self.stalled_us {
            Some(_) => None,
            None => Some(one_of(rng, &[0, 1000, 10_000_000])),
        };
    }

    fn wanted(&mut self) -> Millicores {
        match self.appetite {
            Appetite::Constant(amount) => amount,
            Appetite::Restless(most) => Millicores::new(self.rng.below(most.get() + 1)),
            Appetite::Pulsing { peak, on, off } => {
                let round_us = (on.as_us() + off.as_us()).max(1);
                let within_us = self.since.since(Moment::ORIGIN).as_us() % round_us;
                if within_us < on.as_us() { peak } else { Millicores::ZERO }
            }
        }
    }
}

/// The CPU time that `amount` comes to in `elapsed_us` of time.
fn cpu_time_us(amount: Millicores, elapsed_us: u64) -> u64 {
    let product = u128::from(amount.get()) * u128::from(elapsed_us) / 1000;
    u64::try_from(product).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::demand::{Reading, read};
    use walras_core::units::Ratio;

    #[test]
    fn a_pod_that_wants_more_than_its_limit_is_throttled_at_it() {
        let appetite = Appetite::Constant(Millicores::new(750));
        let mut load = Load::new(appetite, 1, Moment::ORIGIN);
        let before = load.sample(Moment::ORIGIN);
        let now = Moment::from_ms(1000);
        load.run_until(now, Millicores::new(500));
        let Reading::Window(signal) = read(&before, &load.sample(now)) else {
            panic!("a second is a window");
        };
        assert_eq!(signal.usage, Millicores::new(500));
        assert_eq!((signal.periods, signal.throttled_periods), (10, 10));
        assert_eq!(signal.throttle_ratio, Ratio::from_percent(50));
    }

    #[test]
    fn a_pod_within_its_limit_is_not_throttled() {
        let appetite = Appetite::Constant(Millicores::new(500));
        let mut load = Load::new(appetite, 1, Moment::ORIGIN);
        for tenths in 1..=25 {
            load.run_until(Moment::from_ms(tenths * 100), Millicores::new(500));
        }
        let sample = load.sample(Moment::from_ms(2500));
        assert_eq!(sample.usage, Span::from_ms(1250));
        assert_eq!((sample.nr_periods, sample.nr_throttled), (25, 0));
        assert_eq!(sample.throttled, Span::ZERO);
    }
}
