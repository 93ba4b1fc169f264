//! An estimate from a single look at a workload, and what it was made of: what a one-off clearing
//! has.
//!
//! A running node watches for seconds and days. One look gets what a node would say
//! after its first second: by the estimator of its profile where the workload's usage is known, and
//! from the demand signal alone where it is not.

use super::{Bounds, SpecFacts, Window, WindowRule, spec};
use crate::profile::{CapRule, Estimator, Profile};
use crate::units::{Millicores, Ratio};

/// An estimate from one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// What the workload needs, within its bounds.
    pub need: Millicores,
    /// What that was made of.
    pub from: NeedFrom,
}

/// What a need was made of. The codes are a promise to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NeedFrom {
    /// It was given, and nothing was estimated.
    Given,
    /// What the workload uses, with headroom.
    Usage,
    /// Where its demand is between its min and its max, with headroom.
    Demand,
    /// Its min: it asks for no more, and is never counted with less.
    Min,
    /// Its max: it would ask for more, and is never counted with more.
    Max,
}

/// What a workload with these bounds needs by `profile`, after one look at it.
#[must_use]
pub fn at_a_look(profile: &Profile, bounds: Bounds, facts: &SpecFacts) -> Estimate {
    match (profile.estimator, facts.usage) {
        (Estimator::Window, Some(usage)) => {
            let floor = match profile.cap_rule {
                CapRule::Grant | CapRule::Tight => bounds.min(),
                // A right that is not needed is lent.
                CapRule::Loose => Millicores::ZERO,
            };
            let bounds = Bounds::new(floor, bounds.max());
            let raw = after_first_seconds(&profile.window_rule(), usage, facts);
            Estimate::within(bounds, raw, NeedFrom::Usage)
        }
        (Estimator::Spec | Estimator::Window, _) => by_spec(bounds, facts),
    }
}

/// What the window says once it has seen the same second once, and once more for each miss.
fn after_first_seconds(rule: &WindowRule, usage: Millicores, facts: &SpecFacts) -> Millicores {
    let seconds = u64::from(facts.headroom_misses) + 1;
    // Headroom has a ceiling, which so many seconds of full throttling reach.
    let seconds = seconds.min(1000);
    let mut window = Window::new(1, rule);
    for _ in 0..seconds {
        window.second_passed(usage, facts.demand.at_most_one(), rule);
    }
    window.need(Bounds::new(Millicores::ZERO, Millicores::LIMIT), rule).unwrap_or(usage)
}

fn by_spec(bounds: Bounds, facts: &SpecFacts) -> Estimate {
    let need = spec(bounds, facts);
    let by_demand = spec(bounds, &SpecFacts { usage: None, ..*facts });
    let from = if facts.usage.is_some() && need > by_demand {
        NeedFrom::Usage
    } else if facts.demand == Ratio::ZERO && need == bounds.min() {
        NeedFrom::Min
    } else {
        NeedFrom::Demand
    };
    if need == bounds.max() && bounds.min() < bounds.max() {
        return Estimate { need, from: NeedFrom::Max };
    }
    Estimate { need, from }
}

// === impl Estimate ===

impl Estimate {
    /// A need that was given, brought within the bounds.
    #[must_use]
    pub fn given(bounds: Bounds, need: Millicores) -> Self {
        Self::within(bounds, need, NeedFrom::Given)
    }

    fn within(bounds: Bounds, raw: Millicores, from: NeedFrom) -> Self {
        let need = bounds.clamp(raw);
        let from = if need > raw {
            NeedFrom::Min
        } else if need < raw {
            NeedFrom::Max
        } else {
            from
        };
        Self { need, from }
    }
}

// === impl NeedFrom ===

impl NeedFrom {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Given, Self::Usage, Self::Demand, Self::Min, Self::Max];

    /// The code a program matches on.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Usage => "usage",
            Self::Demand => "demand",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(profile: &Profile, bounds: (u64, u64), demand: u32, usage: u64) -> (u64, NeedFrom) {
        let bounds = Bounds::new(Millicores::new(bounds.0), Millicores::new(bounds.1));
        let facts = SpecFacts {
            demand: Ratio::from_percent(demand),
            usage: (usage > 0).then(|| Millicores::new(usage)),
            headroom_misses: 0,
        };
        let Estimate { need, from } = at_a_look(profile, bounds, &facts);
        (need.get(), from)
    }

    #[test]
    fn a_right_that_is_not_needed_is_no_need() {
        // 100m and two spreads of 5 %, less what a calm second takes off the headroom.
        assert_eq!(check(&Profile::DIRECT, (400, 2000), 0, 100), (110, NeedFrom::Usage));
        assert_eq!(check(&Profile::TIGHT, (400, 2000), 0, 100), (400, NeedFrom::Min));
        assert_eq!(check(&Profile::SEED, (400, 2000), 0, 100), (440, NeedFrom::Demand));
    }

    #[test]
    fn throttling_asks_for_more() {
        let (calm, _) = check(&Profile::DIRECT, (0, 4000), 0, 1000);
        let (throttled, from) = check(&Profile::DIRECT, (0, 4000), 100, 1000);
        assert!(throttled > calm, "{throttled} against {calm}");
        assert_eq!(from, NeedFrom::Usage);
        assert_eq!(check(&Profile::DIRECT, (0, 1000), 100, 1000), (1000, NeedFrom::Max));
    }

    #[test]
    fn without_usage_the_demand_is_what_is_known() {
        assert_eq!(check(&Profile::DIRECT, (500, 2000), 60, 0), (1666, NeedFrom::Demand));
        assert_eq!(check(&Profile::SEED, (500, 2000), 60, 0), (1666, NeedFrom::Demand));
        assert_eq!(check(&Profile::SEED, (500, 2000), 100, 0), (2000, NeedFrom::Max));
    }

    #[test]
    fn however_many_misses_are_claimed_the_headroom_has_its_ceiling() {
        let bounds = Bounds::new(Millicores::ZERO, Millicores::LIMIT);
        let facts = SpecFacts {
            demand: Ratio::ONE,
            usage: Some(Millicores::new(1000)),
            headroom_misses: u32::MAX,
        };
        let Estimate { need, .. } = at_a_look(&Profile::DIRECT, bounds, &facts);
        // Ten spreads of 5 %.
        assert_eq!(need, Millicores::new(1500));
    }
}
