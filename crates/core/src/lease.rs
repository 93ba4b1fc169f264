//! Who of several controllers acts: the one that holds a lease which all of them can see.
//!
//! A driver tells the [`Elector`] what it sees in the lease and what became of its own writes, and
//! asks what to do next. A write must carry the version that was seen, so that of two who write at
//! once only one succeeds. When another's lease ends is judged by how long it has been seen
//! unchanged on our own clock; two clocks are never compared. Who holds the lease
//! stops acting before others may take it, whether or not it can still reach anybody.

use alloc::string::String;

use crate::units::{Moment, Span};

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// Others leave a lease alone for so long after its last renewal.
    pub lasts: Span,
    /// Who holds it acts for so long after the last renewal that succeeded was begun.
    pub acts: Span,
    /// How often it is renewed.
    pub renew_every: Span,
    /// How often others look at it, and how soon a failed write is tried again.
    pub look_every: Span,
}

/// What is seen in a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSeen {
    /// Who holds it; none, if it was given back.
    pub holder: Option<String>,
    /// Changes with every write.
    pub version: String,
    /// How long its holder says that it lasts.
    pub lasts: Span,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// Read the lease: what is known of it is too old.
    Look,
    /// Write one's own name into it; where there is a version, only if it is still that.
    Acquire {
        /// The version seen; nothing, where there is no lease yet.
        version: Option<String>,
    },
    /// Write it again, only if it is still that version.
    Renew {
        /// The version seen.
        version: String,
    },
    /// Do nothing until then.
    Wait {
        /// When to ask again; later than now.
        until: Moment,
    },
}

/// One of those who want the lease.
#[derive(Clone, Debug)]
pub struct Elector {
    me: String,
    times: LeaseTimes,
    /// What was last seen, and since when it has been seen like that.
    seen: Option<(Option<LeaseSeen>, Moment)>,
    /// When the lease was last read or written.
    looked_at: Option<Moment>,
    /// When the last write of ours that succeeded was begun, and the first of its row.
    held: Option<Held>,
    failed_at: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    renewed_at: Moment,
    since: Moment,
}

// === impl LeaseTimes ===

impl LeaseTimes {
    /// 15 s, of which the holder uses 10; renewed every 5 s; looked at every 2 s.
    pub const DEFAULT: Self = Self {
        lasts: Span::from_s(15),
        acts: Span::from_s(10),
        renew_every: Span::from_s(5),
        look_every: Span::from_s(2),
    };
}

// === impl Elector ===

impl Elector {
    /// An elector; `me` must be unique among all of them.
    #[must_use]
    pub fn new(me: String, times: LeaseTimes) -> Self {
        Self { me, times, seen: None, looked_at: None, held: None, failed_at: None }
    }

    /// Its name.
    #[must_use]
    pub fn me(&self) -> &str {
        &self.me
    }

    /// Who holds the lease at `now`, as far as is known. Of another that counts for as long
    /// as a lease lasts: an elector that cannot look any more does not know who leads.
    #[must_use]
    pub fn holder(&self, now: Moment) -> Option<&str> {
        let (lease, since) = self.seen.as_ref()?;
        let lease = lease.as_ref()?;
        let holder = lease.holder.as_deref()?;
        let ended = *since + lease.lasts.max(self.times.lasts);
        (holder == self.me || now < ended).then_some(holder)
    }

    /// The lease was read, by a request that was begun at `begun`.
    pub fn lease_seen(&mut self, lease: Option<LeaseSeen>, begun: Moment) {
        self.failed_at = None;
        self.looked_at = Some(begun);
        let lost = lease.as_ref().is_none_or(|lease| lease.holder.as_deref() != Some(&*self.me));
        if lost {
            self.held = None;
        }
        self.note(lease, begun);
    }

    /// A write of ours, begun at `begun`, succeeded and left `lease`.
    pub fn lease_written(&mut self, lease: LeaseSeen, begun: Moment) {
        self.failed_at = None;
        self.looked_at = Some(begun);
        let since = self.acts_until(begun).and(self.held).map_or(begun, |held| held.since);
        let ours = lease.holder.as_deref() == Some(&*self.me);
        self.held = ours.then_some(Held { renewed_at: begun, since });
        self.note(Some(lease), begun);
    }

    /// A read or a write failed at `now`, or another was faster. The lease has to be read.
    pub fn lease_failed(&mut self, now: Moment) {
        self.looked_at = None;
        self.failed_at = Some(now);
    }

    /// Until when this one acts, if it does at `now`.
    #[must_use]
    pub fn acts_until(&self, now: Moment) -> Option<Moment> {
        let until = self.held?.renewed_at + self.times.acts;
        (now < until).then_some(until)
    }

    /// Since when this one has acted without a break, if it does at `now`.
    #[must_use]
    pub fn acts_since(&self, now: Moment) -> Option<Moment> {
        self.acts_until(now).and(self.held).map(|held| held.since)
    }

    /// What to do at `now`.
    #[must_use]
    pub fn next(&self, now: Moment) -> LeaseStep {
        if let Some(again) = self.failed_at.map(|at| at + self.times.look_every)
            && now < again
        {
            return LeaseStep::Wait { until: again };
        }
        let (Some((seen, since)), Some(looked_at)) = (&self.seen, self.looked_at) else {
            return LeaseStep::Look;
        };
        let Some(lease) = seen else {
            return LeaseStep::Acquire { version: None };
        };
        let version = lease.version.clone();
        if let Some(held) = self.held {
            let due = held.renewed_at + self.times.renew_every;
            return if now < due {
                LeaseStep::Wait { until: due }
            } else {
                LeaseStep::Renew { version }
            };
        }
        let free = lease.holder.as_deref().is_none_or(|holder| holder == self.me);
        let ended = *since + lease.lasts.max(self.times.lasts);
        if free || now >= ended {
            return LeaseStep::Acquire { version: Some(version) };
        }
        let look = looked_at + self.times.look_every;
        if now < look { LeaseStep::Wait { until: look.min(ended) } } else { LeaseStep::Look }
    }

    fn note(&mut self, lease: Option<LeaseSeen>, now: Moment) {
        let unchanged = self.seen.as_ref().is_some_and(|(seen, _)| *seen == lease);
        if !unchanged {
            self.seen = Some((lease, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn at(s: u64) -> Moment {
        Moment::from_ms(s * 1000)
    }

    fn lease(holder: &str, version: u64) -> LeaseSeen {
        let holder = (!holder.is_empty()).then(|| holder.to_string());
        LeaseSeen { holder, version: version.to_string(), lasts: Span::from_s(15) }
    }

    fn elector(me: &str) -> Elector {
        Elector::new(me.to_string(), LeaseTimes::DEFAULT)
    }

    fn acquire(version: u64) -> LeaseStep {
        LeaseStep::Acquire { version: Some(version.to_string()) }
    }

    #[test]
    fn the_first_one_makes_the_lease_and_renews_it() {
        let mut me = elector("a");
        assert_eq!(me.next(at(0)), LeaseStep::Look);
        me.lease_seen(None, at(0));
        assert_eq!(me.holder(at(0)), None);
        assert_eq!(me.next(at(0)), LeaseStep::Acquire { version: None });
        me.lease_written(lease("a", 1), at(1));
        assert_eq!(me.holder(at(1)), Some("a"));
        assert_eq!(me.acts_until(at(1)), Some(at(11)));
        assert_eq!(me.next(at(1)), LeaseStep::Wait { until: at(6) });
        assert_eq!(me.next(at(6)), LeaseStep::Renew { version: "1".to_string() });
        me.lease_written(lease("a", 2), at(6));
        assert_eq!(me.acts_until(at(7)), Some(at(16)));
        assert_eq!(me.acts_since(at(7)), Some(at(1)));
    }

    #[test]
    fn a_lease_that_is_renewed_is_never_taken() {
        let mut me = elector("b");
        for s in 0..1000 {
            match me.next(at(s)) {
                LeaseStep::Look => me.lease_seen(Some(lease("a", s / 14)), at(s)),
                LeaseStep::Wait { until } => assert!(until > at(s)),
                other @ (LeaseStep::Acquire { .. } | LeaseStep::Renew { .. }) => {
                    panic!("{other:?} at {s} s")
                }
            }
            assert_eq!(me.acts_until(at(s)), None);
        }
    }

    #[test]
    fn a_lease_that_was_seen_unchanged_for_as_long_as_it_lasts_is_taken() {
        let mut me = elector("b");
        me.lease_seen(Some(lease("a", 7)), at(100));
        me.lease_seen(Some(lease("a", 7)), at(113));
        assert_eq!(me.next(at(113)), LeaseStep::Wait { until: at(115) });
        assert_eq!(me.next(at(115)), acquire(7));
        // Another was faster.
        me.lease_failed(at(115));
        assert_eq!(me.next(at(116)), LeaseStep::Wait { until: at(117) });
        assert_eq!(me.next(at(117)), LeaseStep::Look);
        me.lease_seen(Some(lease("c", 8)), at(117));
        assert_eq!(me.next(at(131)), LeaseStep::Look);
        assert_eq!(me.next(at(132)), acquire(8));
    }

    #[test]
    fn a_lease_that_was_given_back_is_taken_at_once() {
        let mut me = elector("b");
        me.lease_seen(Some(lease("", 9)), at(5));
        assert_eq!(me.next(at(5)), acquire(9));
    }

    #[test]
    fn who_cannot_renew_stops_acting_before_anybody_else_may_begin() {
        let (mut old, mut new) = (elector("a"), elector("b"));
        old.lease_seen(None, at(0));
        old.lease_written(lease("a", 1), at(0));
        new.lease_seen(Some(lease("a", 1)), at(0));
        let mut acted = 0;
        for s in 1..60 {
            // The old one cannot reach anybody; the new one can.
            if matches!(old.next(at(s)), LeaseStep::Look | LeaseStep::Renew { .. }) {
                old.lease_failed(at(s));
            }
            match new.next(at(s)) {
                LeaseStep::Look => new.lease_seen(Some(lease("a", 1)), at(s)),
                LeaseStep::Acquire { .. } => new.lease_written(lease("b", 2), at(s)),
                LeaseStep::Renew { .. } => new.lease_written(lease("b", s), at(s)),
                LeaseStep::Wait { .. } => {}
            }
            let both = (old.acts_until(at(s)).is_some(), new.acts_until(at(s)).is_some());
            assert_ne!(both, (true, true), "at {s} s");
            acted += u32::from(both.1);
        }
        assert_eq!(acted, 45, "from 15 s on");
    }

    #[test]
    fn who_finds_its_lease_taken_stops_at_once_and_who_finds_its_own_name_takes_it_again() {
        let mut me = elector("a");
        me.lease_seen(None, at(0));
        me.lease_written(lease("a", 1), at(0));
        me.lease_seen(Some(lease("b", 2)), at(3));
        assert_eq!((me.acts_until(at(3)), me.holder(at(3))), (None, Some("b")));
        me.lease_failed(at(5));
        assert_eq!(me.holder(at(17)), Some("b"));
        assert_eq!(me.holder(at(18)), None, "an elector that cannot look does not know who leads");
        let mut me = elector("a");
        me.lease_seen(Some(lease("a", 4)), at(0));
        assert_eq!(me.next(at(0)), acquire(4));
        assert_eq!(me.acts_until(at(0)), None, "{me:?}");
    }

    #[test]
    fn after_a_break_a_new_row_begins() {
        let mut me = elector("a");
        me.lease_seen(None, at(0));
        me.lease_written(lease("a", 1), at(0));
        me.lease_failed(at(5));
        me.lease_seen(Some(lease("a", 1)), at(12));
        me.lease_written(lease("a", 2), at(13));
        assert_eq!(me.acts_since(at(13)), Some(at(13)));
    }
}
