//! How long to wait before something is tried again: twice as long every time, up to a bound, and
//! never the same for everybody, so that many who fail together do not come back together.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use walras_core::rng::Rng;
use walras_core::units::Span;

/// The pauses of a watch that fails.
const WATCH_FIRST: Span = Span::from_s(1);
const WATCH_LONGEST: Span = Span::from_s(15);

/// The pause after so many failures in a row, and up to half as short by chance.
pub(crate) fn pause(failures: u32, first: Span, longest: Span, random: &mut Rng) -> Span {
    let doubled = first.as_us().saturating_mul(1 << failures.saturating_sub(1).min(20));
    let most = doubled.min(longest.as_us());
    Span::from_us(most / 2 + random.below(most / 2 + 1))
}

/// A watch that fails rests ever longer, until something was seen.
#[derive(Debug)]
pub(crate) struct Rests {
    failures: u32,
    random: Rng,
}

// === impl Rests ===

impl Rests {
    /// A task that has not failed yet.
    pub(crate) fn new() -> Self {
        Self { failures: 0, random: Rng::from_seed(RandomState::new().build_hasher().finish()) }
    }

    /// It failed. Waits before the next try.
    pub(crate) async fn rest(&mut self) {
        self.rest_up_to(WATCH_LONGEST).await;
    }

    /// The same, with another bound for the pauses.
    pub(crate) async fn rest_up_to(&mut self, longest: Span) {
        self.failures = self.failures.saturating_add(1);
        let rest = pause(self.failures, WATCH_FIRST, longest, &mut self.random);
        tokio::time::sleep(Duration::from_micros(rest.as_us())).await;
    }

    /// Something was seen, so the next trouble is a new one. That it is asked for says nothing yet.
    pub(crate) const fn worked(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let mut random = Rng::from_seed(1);
        let (first, longest) = (Span::from_ms(400), Span::from_s(90));
        let mut last = Span::ZERO;
        for failures in 1..100 {
            let next = pause(failures, first, longest, &mut random);
            assert!(next >= Span::from_ms(200) && next <= longest, "{next}");
            assert_ne!(next, last);
            last = next;
        }
        assert!(last >= Span::from_s(45), "{last}");
    }
}
