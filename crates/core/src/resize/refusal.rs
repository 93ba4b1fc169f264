//! Back-off after refusals that concern more than one pod.
//!
//! A ResourceQuota that is used up refuses every raise in its namespace, one pod after the other,
//! and each attempt costs calls. So a refusal holds back the raises of the whole namespace for the
//! same cause: for a second at first, twice as long each time, a minute at most. Then one pod tries
//! for all of them. Whatever lowers a pod is never held back, nor is any other namespace.
//!
//! Refusals have a small budget of their own for the whole cluster, so that they do not use up what
//! resizes have. Always: at most one attempt per namespace and cause within its wait; what is
//! remembered is forgotten when it was not asked for in ten minutes.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::num::NonZeroU32;

use super::{Bucket, ContainerPatch, ContainerView, PodView};
use crate::units::{Millicores, Moment, Span};

/// So many refusals a second are free of charge for those that are not refused.
const FREE_PER_SECOND: NonZeroU32 = NonZeroU32::new(2).unwrap();
const FIRST_WAIT: Span = Span::from_s(1);
const LONGEST_WAIT: Span = Span::from_s(60);
/// How long after its end a bar is remembered for the next one to be longer.
const REMEMBERED: Span = Span::from_s(600);

/// Why the API server refused a raise that others of the namespace may want as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A ResourceQuota of CPU requests is used up.
    RequestQuota,
    /// A ResourceQuota of CPU limits is used up.
    LimitQuota,
    /// A LimitRange allows no container this much.
    LimitRange,
    /// The node can never give this much.
    Infeasible,
}

/// What one attempt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Whether it raises any request.
    pub raises_requests: bool,
    /// Whether it raises any limit.
    pub raises_limits: bool,
    /// The largest limit of its containers.
    pub largest: Millicores,
    /// All its limits together.
    pub total: Millicores,
}

/// Why an attempt has to wait, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barred {
    /// What others of the namespace were refused for.
    pub cause: Cause,
    /// When to try again.
    pub until: Moment,
}

/// Everything that was refused lately.
#[derive(Clone, Debug)]
pub struct Refusals {
    bars: BTreeMap<(String, Cause), Bar>,
    budget: Bucket,
}

#[derive(Clone, Copy, Debug)]
struct Bar {
    until: Moment,
    wait: Span,
    /// Whether one pod tries for all of them.
    probed: bool,
    /// Whatever asks for less may pass.
    at_least: Millicores,
}

// === impl Ask ===

impl Ask {
    /// What `containers` ask for beside what the pod has.
    #[must_use]
    pub fn of(containers: &[ContainerPatch], view: &PodView) -> Self {
        let raises = |of: fn(&ContainerPatch) -> Millicores,
                      had: fn(&ContainerView) -> Option<Millicores>| {
            containers.iter().any(|wanted| {
                let has = view.containers.iter().find(|has| has.name == wanted.name);
                has.is_none_or(|has| had(has).is_some_and(|has| of(wanted) > has))
            })
        };
        Self {
            raises_requests: raises(|wanted| wanted.request, |has| has.request),
            raises_limits: raises(|wanted| wanted.limit, |has| has.limit),
            largest: containers.iter().map(|one| one.limit).max().unwrap_or_default(),
            total: containers.iter().map(|one| one.limit).sum(),
        }
    }

    /// Whether it raises anything that `cause` is about.
    const fn is_raise(&self, cause: Cause) -> bool {
        match cause {
            Cause::RequestQuota => self.raises_requests,
            Cause::LimitQuota => self.raises_limits,
            Cause::LimitRange | Cause::Infeasible => self.raises_requests || self.raises_limits,
        }
    }

    /// How much of it matters to `cause`.
    const fn size(&self, cause: Cause) -> Millicores {
        match cause {
            // The next one would be refused whatever it asks for.
            Cause::RequestQuota | Cause::LimitQuota => Millicores::ZERO,
            Cause::LimitRange => self.largest,
            Cause::Infeasible => self.total,
        }
    }
}

// === impl Cause ===

impl Cause {
    const ALL: [Self; 4] =
        [Self::RequestQuota, Self::LimitQuota, Self::LimitRange, Self::Infeasible];
}

// === impl Refusals ===

impl Refusals {
    /// Nothing was refused yet.
    #[must_use]
    pub fn none(now: Moment) -> Self {
        Self { bars: BTreeMap::new(), budget: Bucket::full(FREE_PER_SECOND, now) }
    }

    /// Whether a pod of `namespace` may ask for this now. If it may although others were refused,
    /// it asks for all of them, and no other does meanwhile.
    ///
    /// # Errors
    /// It would very likely be refused like those before it.
    pub fn may_ask(&mut self, namespace: &str, ask: &Ask, now: Moment) -> Result<(), Barred> {
        if self.bars.is_empty() {
            return Ok(());
        }
        let mut probes = None;
        for cause in Cause::ALL.into_iter().filter(|cause| ask.is_raise(*cause)) {
            let key = (namespace.to_owned(), cause);
            let Some(bar) = self.bars.get(&key).filter(|bar| ask.size(cause) >= bar.at_least)
            else {
                continue;
            };
            if now < bar.until {
                return Err(Barred { cause, until: bar.until });
            }
            probes = probes.or(Some(key));
        }
        let Some(key) = probes else { return Ok(()) };
        let cause = key.1;
        self.budget.take(now).map_err(|until| Barred { cause, until })?;
        if let Some(bar) = self.bars.get_mut(&key) {
            // If there is never an answer, another one tries.
            (bar.until, bar.probed) = (now + bar.wait, true);
        }
        Ok(())
    }

    /// It was refused. Whether that was free of charge: what it took from the budget for resizes is
    /// to be given back.
    pub fn refused(&mut self, namespace: &str, cause: Cause, ask: &Ask, now: Moment) -> bool {
        self.bars.retain(|_, bar| now < bar.until + REMEMBERED);
        let size = ask.size(cause);
        let new = Bar { until: now, wait: FIRST_WAIT, probed: false, at_least: size };
        let bar = self.bars.entry((namespace.to_owned(), cause)).or_insert(new);
        let has_paid = core::mem::take(&mut bar.probed);
        if has_paid {
            bar.wait = Span::from_us(bar.wait.as_us() * 2).min(LONGEST_WAIT);
        }
        // Others were on their way when the first was refused; they do not make it any longer.
        bar.until = bar.until.max(now + bar.wait);
        bar.at_least = bar.at_least.min(size);
        has_paid || self.budget.take(now).is_ok()
    }

    /// A raise went through: what held back others like it is over.
    pub fn accepted(&mut self, namespace: &str, ask: &Ask) {
        if self.bars.is_empty() {
            return;
        }
        for cause in Cause::ALL.into_iter().filter(|cause| ask.is_raise(*cause)) {
            let key = (namespace.to_owned(), cause);
            if self.bars.get(&key).is_some_and(|bar| ask.size(cause) >= bar.at_least) {
                self.bars.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAISE: Ask = ask(500);

    const fn ask(limit: u64) -> Ask {
        let limit = Millicores::new(limit);
        Ask { raises_requests: true, raises_limits: true, largest: limit, total: limit }
    }

    fn at(s: u64) -> Moment {
        Moment::from_ms(s * 1000)
    }

    #[test]
    fn a_refusal_holds_back_the_raises_of_its_namespace_and_nothing_else() {
        let mut refusals = Refusals::none(at(0));
        assert_eq!(refusals.may_ask("shop", &RAISE, at(0)), Ok(()));
        assert!(refusals.refused("shop", Cause::LimitQuota, &RAISE, at(0)), "free of charge");
        let barred = Barred { cause: Cause::LimitQuota, until: at(1) };
        assert_eq!(refusals.may_ask("shop", &ask(10), at(0)), Err(barred));
        assert_eq!(refusals.may_ask("bank", &RAISE, at(0)), Ok(()));
        let cut = Ask { raises_requests: false, raises_limits: false, ..RAISE };
        assert_eq!(refusals.may_ask("shop", &cut, at(0)), Ok(()));
    }

    #[test]
    fn a_quota_of_requests_holds_back_no_raise_of_limits_alone_nor_the_other_way_round() {
        let limits = Ask { raises_requests: false, ..RAISE };
        let requests = Ask { raises_limits: false, ..RAISE };
        for (cause, held, free) in
            [(Cause::RequestQuota, requests, limits), (Cause::LimitQuota, limits, requests)]
        {
            let mut refusals = Refusals::none(at(0));
            refusals.refused("shop", cause, &RAISE, at(0));
            assert_eq!(refusals.may_ask("shop", &free, at(0)), Ok(()), "{cause:?}");
            assert!(refusals.may_ask("shop", &held, at(0)).is_err(), "{cause:?}");
            refusals.accepted("shop", &free);
            assert!(refusals.may_ask("shop", &held, at(0)).is_err(), "it proves nothing");
            refusals.accepted("shop", &held);
            assert_eq!(refusals.may_ask("shop", &held, at(0)), Ok(()));
        }
    }

    #[test]
    fn one_tries_for_all_ever_more_rarely_until_one_gets_through() {
        let mut refusals = Refusals::none(at(0));
        refusals.refused("shop", Cause::LimitQuota, &RAISE, at(0));
        let (mut now, mut waits) = (at(1), alloc::vec::Vec::new());
        for _ in 0..8 {
            assert_eq!(refusals.may_ask("shop", &RAISE, now), Ok(()), "one");
            assert!(refusals.may_ask("shop", &RAISE, now).is_err(), "not another");
            assert!(refusals.refused("shop", Cause::LimitQuota, &RAISE, now));
            let until = refusals.may_ask("shop", &RAISE, now).unwrap_err().until;
            waits.push(until.since(now).as_ms_floor() / 1000);
            now = until;
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(refusals.may_ask("shop", &RAISE, now), Ok(()));
        refusals.accepted("shop", &RAISE);
        for _ in 0..10 {
            assert_eq!(refusals.may_ask("shop", &RAISE, now), Ok(()));
        }
    }

    #[test]
    fn those_that_were_on_their_way_count_as_one() {
        let mut refusals = Refusals::none(at(0));
        let free = (0..8).filter(|_| refusals.refused("shop", Cause::LimitQuota, &RAISE, at(0)));
        assert_eq!(free.count(), 2, "the budget of a second");
        let until = refusals.may_ask("shop", &RAISE, at(0)).unwrap_err().until;
        assert_eq!(until, at(1));
    }

    #[test]
    fn whoever_asks_for_less_than_a_limit_range_refused_may_try() {
        for cause in [Cause::LimitRange, Cause::Infeasible] {
            let mut refusals = Refusals::none(at(0));
            refusals.refused("shop", cause, &RAISE, at(0));
            assert_eq!(refusals.may_ask("shop", &ask(499), at(0)), Ok(()));
            assert!(refusals.may_ask("shop", &ask(500), at(0)).is_err());
            refusals.accepted("shop", &ask(499));
            assert!(refusals.may_ask("shop", &ask(500), at(0)).is_err());
        }
    }

    #[test]
    fn refusals_in_many_namespaces_share_a_small_budget_and_are_forgotten() {
        let mut refusals = Refusals::none(at(0));
        let names: [String; 50] = core::array::from_fn(|n| alloc::format!("tenant-{n}"));
        for name in &names {
            refusals.refused(name, Cause::LimitQuota, &RAISE, at(0));
        }
        // A minute later every bar is due: what is tried within one second stays small.
        let tries = names.iter().filter(|name| refusals.may_ask(name, &RAISE, at(60)).is_ok());
        assert_eq!(tries.count(), 2);
        refusals.refused("late", Cause::LimitQuota, &RAISE, at(3600));
        assert_eq!(refusals.bars.len(), 1);
    }
}
