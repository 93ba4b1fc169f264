//! A contest: one scenario under several policies, on the same demand.
//!
//! [`CONTESTANTS`] names everything that can decide over a node. Where a policy has a free setting
//! that its authors search for, the contest searches for it, too, and says what it found.

use std::num::NonZeroUsize;

use walras_core::market::Fairness;
use walras_core::profile::Profile;
use walras_core::units::{Millicores, Ratio};

use crate::fleet::{FleetResult, MakePolicy, run_fleet};
use crate::load::Histogram;
use crate::measure::{Figures, PodTally};
use crate::oracle::Oracle;
use crate::policy::{
    AUTOTHROTTLE_TARGETS, Actuation, Factory, Market, Policy, cruisekube, declared, even,
    koordinator, koordinator_with_best_effort, mbcas, unlimited, vpa, weighed,
};
use crate::scenario::Scenario;

/// Something that can decide over a node.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    /// The name a user types.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A policy without a free setting.
    Given(Factory),
    /// The market with a variant of its constants.
    Market { profile: fn() -> Profile, actuation: Actuation },
    /// Autothrottle at the best of its targets.
    Autothrottle,
    /// The yardstick.
    Oracle,
}

/// Everything that can take part.
pub const CONTESTANTS: &[Contestant] = &[
    contestant("static", "requests and limits as declared", Kind::Given(declared)),
    contestant("none", "no limits, equal weights", Kind::Given(unlimited)),
    contestant("weights", "no limits, the kernel's weights from requests", Kind::Given(weighed)),
    contestant("even", "a limit of the same size for everybody", Kind::Given(even)),
    contestant("vpa", "VPA's recommender and updater, in place", Kind::Given(vpa)),
    contestant("koordinator", "Koordinator's CPU burst", Kind::Given(koordinator)),
    contestant(
        "koordinator-be",
        "the same, with batch pods as best-effort",
        Kind::Given(koordinator_with_best_effort),
    ),
    contestant("autothrottle", "Autothrottle at its best target", Kind::Autothrottle),
    contestant("cruisekube", "CruiseKube's shared headroom", Kind::Given(cruisekube)),
    contestant("mbcas", "the predecessor: share everything", Kind::Given(mbcas)),
    contestant("walras", "the market, by cgroup writes", market(direct, Actuation::Cgroup)),
    contestant("walras-api", "the market, by API calls", market(api, Actuation::Api)),
    contestant(
        "walras-tight",
        "the market with the smallest caps that keep latency",
        market(|| Profile::TIGHT, Actuation::Cgroup),
    ),
    contestant(
        "walras-guard-5",
        "the market, with half as much kept idle beside batch work",
        market(|| guarded(5), Actuation::Cgroup),
    ),
    contestant(
        "walras-guard-2",
        "the same, with a fifth",
        market(|| guarded(2), Actuation::Cgroup),
    ),
    contestant(
        "walras-learning",
        "the market with learned bids",
        market(|| learning(direct()), Actuation::Cgroup),
    ),
    contestant(
        "walras-api-learning",
        "the same, by API calls",
        market(|| learning(api()), Actuation::Api),
    ),
    contestant(
        "walras-proportional",
        "the market with proportional fairness",
        market(|| proportional(direct()), Actuation::Cgroup),
    ),
    contestant(
        "walras-api-proportional",
        "the same, by API calls",
        market(|| proportional(api()), Actuation::Api),
    ),
    contestant("oracle", "the least limits, by knowing the future", Kind::Oracle),
];

/// How one contestant did.
#[derive(Debug)]
pub struct Standing {
    /// Its name.
    pub policy: &'static str,
    /// The setting that was found for it, if it has one.
    pub setting: Option<String>,
    /// Its figures.
    pub figures: Figures,
    /// All latencies.
    pub latencies: Histogram,
    /// The pods of the first node.
    pub first_node: Vec<PodTally>,
    /// What it would have been with other settings, for the ones that have some.
    pub others: Vec<(String, Figures)>,
}

/// Lets one contestant run a scenario.
#[must_use]
pub fn compete(
    contestant: &Contestant,
    scenario: &Scenario,
    threads: NonZeroUsize,
    node_done: &(dyn Fn() + Sync),
) -> Standing {
    let run = |make: &MakePolicy<'_>| run_fleet(scenario, make, threads, node_done);
    match contestant.kind {
        Kind::Given(factory) => {
            let result = run(&|scenario: &Scenario, _| factory(&scenario.node, &scenario.pods));
            Standing::new(contestant.name, result)
        }
        Kind::Market { .. } | Kind::Oracle => Standing::new(
            contestant.name,
            run(&|scenario: &Scenario, number| contestant.policy(scenario, number)),
        ),
        Kind::Autothrottle => best_target(contestant.name, &run),
    }
}

impl Contestant {
    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        CONTESTANTS.iter().find(|contestant| contestant.name == name)
    }

    /// How many times each node is run.
    #[must_use]
    pub const fn runs(&self) -> usize {
        match self.kind {
            Kind::Autothrottle => AUTOTHROTTLE_TARGETS.len(),
            Kind::Given(_) | Kind::Market { .. } | Kind::Oracle => 1,
        }
    }

    /// Its policy for one node; without a search, so Autothrottle gets the middle of its targets.
    #[must_use]
    pub fn policy(&self, scenario: &Scenario, number: u32) -> Box<dyn Policy> {
        match self.kind {
            Kind::Given(factory) => factory(&scenario.node, &scenario.pods),
            Kind::Market { profile, actuation } => {
                Box::new(Market::new(profile(), actuation, &scenario.node, &scenario.pods))
            }
            Kind::Autothrottle => {
                let (_, factory) = AUTOTHROTTLE_TARGETS[AUTOTHROTTLE_TARGETS.len() / 2];
                factory(&scenario.node, &scenario.pods)
            }
            Kind::Oracle => Box::new(Oracle::new(scenario, number)),
        }
    }
}

impl Standing {
    fn new(policy: &'static str, result: FleetResult) -> Self {
        Self {
            policy,
            setting: None,
            figures: result.summary.figures(),
            latencies: result.summary.latencies().clone(),
            first_node: result.first_node,
            others: Vec::new(),
        }
    }
}

/// Tries all targets; the best has the fewest violations, then the fewest core-hours.
fn best_target(name: &'static str, run: &dyn Fn(&MakePolicy<'_>) -> FleetResult) -> Standing {
    let mut standings: Vec<(Ratio, Standing)> = AUTOTHROTTLE_TARGETS
        .iter()
        .map(|&(target, factory)| {
            let result = run(&|scenario: &Scenario, _| factory(&scenario.node, &scenario.pods));
            (target, Standing::new(name, result))
        })
        .collect();
    let others: Vec<(String, Figures)> = standings
        .iter()
        .map(|(target, standing)| (format!("target {target}"), standing.figures.clone()))
        .collect();
    standings.sort_by(|(_, a), (_, b)| {
        let by_violations =
            a.figures.slo_violation_minutes.total_cmp(&b.figures.slo_violation_minutes);
        by_violations.then(a.figures.core_hours.total_cmp(&b.figures.core_hours))
    });
    let (target, best) = standings.swap_remove(0);
    Standing { setting: Some(format!("target {target}")), others, ..best }
}

const fn contestant(name: &'static str, about: &'static str, kind: Kind) -> Contestant {
    Contestant { name, about, kind }
}

const fn market(profile: fn() -> Profile, actuation: Actuation) -> Kind {
    Kind::Market { profile, actuation }
}

fn direct() -> Profile {
    Profile::DIRECT
}

fn api() -> Profile {
    Profile::API
}

fn learning(profile: Profile) -> Profile {
    Profile { learning: true, ..profile }
}

/// With so many hundredths of the node kept idle beside batch work, and the floor in proportion.
fn guarded(percent: u32) -> Profile {
    let floor = Millicores::new(20 * u64::from(percent));
    Profile {
        idle_guard: Ratio::from_percent(percent),
        idle_guard_floor_milli: floor,
        ..Profile::DIRECT
    }
}

fn proportional(profile: Profile) -> Profile {
    Profile { fairness: Fairness::Proportional, ..profile }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::profile::ProfileName;

    #[test]
    fn the_market_takes_part_with_every_fairness_and_with_learning_in_both_profiles() {
        let mut variants: Vec<(ProfileName, Fairness, bool)> = Vec::new();
        for contestant in CONTESTANTS {
            if let Kind::Market { profile, actuation } = contestant.kind {
                let profile = profile();
                let by_api = contestant.name.starts_with("walras-api");
                assert_eq!(profile.name == ProfileName::Api, by_api, "{}", contestant.name);
                assert_eq!(actuation == Actuation::Api, by_api, "{}", contestant.name);
                variants.push((profile.name, profile.fairness, profile.learning));
            }
        }
        for name in [ProfileName::Direct, ProfileName::Api] {
            for fairness in [Fairness::Nash, Fairness::Proportional] {
                assert!(variants.contains(&(name, fairness, false)), "{name:?} {fairness:?}");
            }
            assert!(variants.contains(&(name, Fairness::Nash, true)), "{name:?}");
        }
    }
}
