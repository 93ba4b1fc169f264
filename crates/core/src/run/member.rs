//! Whether a host is known to a control plane, and what to tell it next.
//!
//! A driver asks [`Member::next`] what is due, asks the control plane, and tells what came of it.
//! A host registers once, tells how it is after every interval, and registers again when its lease
//! ran out or the control plane does not know it. What always holds: between two questions is at
//! least [`LEAST`], whatever the control plane answers and however often it does not, and after
//! failures it is ever longer, up to [`RETRY_MAX`].

use crate::units::{Moment, Span};

/// The wait after the first failure.
pub const RETRY_FIRST: Span = Span::from_s(1);
/// The longest wait after failures.
pub const RETRY_MAX: Span = Span::from_s(30);
/// The interval where the control plane names none.
pub const INTERVAL: Span = Span::from_s(10);
/// The shortest and the longest interval that a control plane can ask for.
pub const LEAST: Span = Span::from_s(1);
const INTERVAL_MAX: Span = Span::from_s(300);

/// A host in the eyes of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Until when it counts as a member; nothing if it has to register.
    lease: Option<Lease>,
    interval: Span,
    failures: u32,
    /// Nothing is asked before that.
    not_before: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    /// The control plane named no end.
    Endless,
    Until(Moment),
}

/// What to tell the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// That the host is there.
    Register,
    /// How it is.
    Heartbeat,
    /// Nothing before that.
    Wait {
        /// Until when.
        until: Moment,
    },
}

/// What a control plane answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Whether it takes the host, or knows it.
    pub accepted: bool,
    /// How often it wants to be told, if it says so.
    pub interval: Option<Span>,
    /// How long the lease is good for from now on, if it says so.
    pub lease: Option<Span>,
}

impl Member {
    /// A host that nobody knows yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { lease: None, interval: INTERVAL, failures: 0, not_before: Moment::ORIGIN }
    }

    /// What is due at `now`.
    #[must_use]
    pub fn next(&self, now: Moment) -> Tell {
        if self.not_before > now {
            return Tell::Wait { until: self.not_before };
        }
        match self.lease {
            Some(Lease::Endless) => Tell::Heartbeat,
            Some(Lease::Until(end)) if end > now => Tell::Heartbeat,
            Some(Lease::Until(_)) | None => Tell::Register,
        }
    }

    /// The control plane answered to [`Tell::Register`] or [`Tell::Heartbeat`]. One that does not
    /// take the host, or no longer knows it, is told again later, as after a failure.
    pub fn answered(&mut self, granted: Granted, now: Moment) {
        if !granted.accepted {
            self.lease = None;
            return self.failed(now);
        }
        self.failures = 0;
        if let Some(interval) = granted.interval {
            self.interval = interval.clamp(LEAST, INTERVAL_MAX);
        }
        // A lease that seems to be over already comes from a clock that goes differently.
        let lasts = granted.lease.map(|lease| lease.max(self.interval));
        self.lease = Some(lasts.map_or(Lease::Endless, |lease| Lease::Until(now + lease)));
        self.not_before = now + self.interval;
    }

    /// The control plane did not answer. Its lease goes on meanwhile.
    pub fn failed(&mut self, now: Moment) {
        let doublings = self.failures.min(10);
        self.failures = self.failures.saturating_add(1);
        let wait = RETRY_FIRST.as_us().saturating_mul(1 << doublings);
        self.not_before = now + Span::from_us(wait).min(RETRY_MAX);
    }

    /// How often in a row the control plane did not answer, or refused.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

impl Default for Member {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Moment {
        Moment::from_ms(s * 1000)
    }

    fn granted(interval_s: u64, lease_s: u64) -> Granted {
        let (interval, lease) = (Some(Span::from_s(interval_s)), Some(Span::from_s(lease_s)));
        Granted { accepted: true, interval, lease }
    }

    #[test]
    fn a_host_registers_once_and_then_tells_how_it_is() {
        let mut member = Member::new();
        assert_eq!(member.next(at(0)), Tell::Register);
        member.answered(granted(5, 60), at(0));
        assert_eq!(member.next(at(4)), Tell::Wait { until: at(5) });
        assert_eq!(member.next(at(5)), Tell::Heartbeat);
        // A heartbeat names no interval: the one of the registration stays.
        member.answered(Granted { interval: None, ..granted(0, 60) }, at(5));
        assert_eq!(member.next(at(9)), Tell::Wait { until: at(10) });
        assert_eq!(member.next(at(64)), Tell::Heartbeat);
        // Nobody renewed it: the host registers again.
        assert_eq!(member.next(at(65)), Tell::Register);
    }

    #[test]
    fn who_is_not_known_any_more_registers_again_and_not_at_once() {
        let mut member = Member::new();
        member.answered(granted(5, 60), at(0));
        member.answered(Granted { accepted: false, ..granted(5, 60) }, at(5));
        assert_eq!(member.next(at(5)), Tell::Wait { until: at(6) });
        assert_eq!(member.next(at(6)), Tell::Register);
    }

    #[test]
    fn a_control_plane_that_is_away_is_asked_ever_more_slowly_and_never_in_a_row() {
        let mut member = Member::new();
        member.answered(granted(1, 10), at(0));
        let (mut now, mut asked) = (at(0), 0);
        while now < at(600) {
            match member.next(now) {
                Tell::Wait { until } => {
                    assert!(until >= now + LEAST || until > now, "a wait that is over");
                    now = until;
                }
                Tell::Register | Tell::Heartbeat => {
                    asked += 1;
                    member.failed(now);
                }
            }
        }
        // 1, 2, 4, 8 and 16 s, and then every half a minute.
        assert_eq!(asked, 24);
        member.answered(granted(1, 10), now);
        member.failed(now);
        assert_eq!(member.next(now), Tell::Wait { until: now + RETRY_FIRST });
    }

    #[test]
    fn nonsense_of_a_control_plane_never_makes_a_busy_loop() {
        let mut member = Member::new();
        member.answered(granted(0, 0), at(100));
        assert_eq!(member.next(at(100)), Tell::Wait { until: at(101) });
        assert_eq!(member.next(at(101)), Tell::Register);
        member.answered(granted(1_000_000, 0), at(101));
        assert_eq!(member.next(at(101)), Tell::Wait { until: at(401) });
        let endless = Granted { accepted: true, interval: None, lease: None };
        member.answered(endless, at(401));
        assert_eq!(member.next(at(1_000_000)), Tell::Heartbeat);
    }
}
