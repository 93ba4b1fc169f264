//! A cgroup that should be a workload and cannot be yet: why, and when it is tried again.
//!
//! Looks are counted, not seconds: they are as far apart as the configuration says.

/// The most looks between two tries.
const BETWEEN_MAX: u64 = 64;

/// A cgroup that waits to become a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Why it is none yet, as a person reads it.
    pub(super) because: String,
    /// How many looks there are from the last try to the next.
    between: u64,
    /// The look at which it is tried again.
    again_at: u64,
}

impl Waiting {
    /// It was tried at the look `now`, in vain, after having waited as `before` if it had. After
    /// every try the wait is twice as long.
    pub(super) fn since(before: Option<&Self>, now: u64, because: String) -> Self {
        let between = before.map_or(1, |before| (before.between * 2).min(BETWEEN_MAX));
        Self { because, between, again_at: now + between }
    }

    /// Whether it is tried at the look `now`.
    pub(super) const fn is_due(&self, now: u64) -> bool {
        now >= self.again_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_twice_as_far_apart_each_time_up_to_a_limit() {
        let mut waiting = None;
        let mut tries = Vec::new();
        for look in 1..=400 {
            if waiting.as_ref().is_none_or(|it: &Waiting| it.is_due(look)) {
                tries.push(look);
                waiting = Some(Waiting::since(waiting.as_ref(), look, String::new()));
            }
        }
        assert_eq!(tries, [1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 320, 384]);
    }
}
