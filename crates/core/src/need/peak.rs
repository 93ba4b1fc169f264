//! The most a workload used lately: where a raise jumps to, since bursts tend to be as large as the
//! last ones.
//!
//! Two buckets of half the memory each: the newer one fills, the older one is forgotten when the
//! newer is full. So a peak is remembered for at least half the memory and at most all of it, in
//! constant space.

use crate::units::{Millicores, Moment, Span};

/// The recent peak of one workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    newer: Millicores,
    older: Millicores,
    newer_since: Moment,
}

impl Peak {
    /// The peak of a workload that was not seen at work yet.
    #[must_use]
    pub const fn starting(guess: Millicores, at: Moment) -> Self {
        Self { newer: guess, older: Millicores::ZERO, newer_since: at }
    }

    /// The workload used `usage` until `at`.
    pub fn used(&mut self, usage: Millicores, at: Moment, memory: Span) {
        let half = Span::from_us(memory.as_us() / 2);
        let age = at.since(self.newer_since);
        if age >= half {
            let skipped = age >= memory;
            self.older = if skipped { Millicores::ZERO } else { self.newer };
            self.newer = Millicores::ZERO;
            self.newer_since = at;
        }
        self.newer = self.newer.max(usage);
    }

    /// The most it used within its memory.
    #[must_use]
    pub fn value(&self) -> Millicores {
        self.newer.max(self.older)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_remembered_for_half_the_memory_and_forgotten_after_all_of_it() {
        let memory = Span::from_s(600);
        let mut peak = Peak::default();
        let mut at = |second: u64, usage: u64| {
            peak.used(Millicores::new(usage), Moment::from_ms(second * 1000), memory);
            peak.value().get()
        };
        assert_eq!(at(10, 3000), 3000);
        assert_eq!(at(200, 500), 3000);
        assert_eq!(at(310, 500), 3000);
        assert_eq!(at(605, 500), 3000);
        assert_eq!(at(620, 500), 500);
        assert_eq!(at(5000, 200), 200);
    }
}
