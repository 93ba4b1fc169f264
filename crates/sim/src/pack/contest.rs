//! A contest over nodes: every sizer with every setting on the same town, compared at equal misses.

use std::num::NonZeroUsize;

use walras_core::units::Ratio;

use super::rules::{CruiseKube, Declared, Oracle, Percentile, Sharing, Sizer, Vpa, Walras};
use super::run::{HISTORY, SETTLING, run};
use super::schedule::Score;
use super::tally::PackFigures;
use super::workload::Town;
use crate::crew;

/// Something that can decide over requests.
#[derive(Clone, Copy, Debug)]
pub struct Entrant {
    /// The name a user types.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// What its setting is called and is tried at, in percent.
    settings: &'static [u32],
    /// The one that it has by default.
    usual: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Declared,
    Vpa,
    Percentile,
    CruiseKube,
    Walras(Sharing),
    Oracle,
}

/// Settings that are tried, in percent of what a rule takes for enough.
const SWEEP: &[u32] = &[80, 90, 100, 115, 130, 150];

/// Everything that can take part.
pub const ENTRANTS: &[Entrant] = &[
    entrant("declared", "requests as their owners wrote them", &[100], 100, Kind::Declared),
    entrant("vpa", "VPA in place, with its webhook", SWEEP, 115, Kind::Vpa),
    entrant("percentile", "P95 of two weeks, once a day, as KRR", SWEEP, 100, Kind::Percentile),
    entrant("cruisekube", "CruiseKube's shared headroom", SWEEP, 100, Kind::CruiseKube),
    entrant(
        "walras",
        "the slow rules as they are shipped",
        SWEEP,
        115,
        Kind::Walras(Sharing::Node),
    ),
    entrant(
        "walras-shared",
        "the same, with records shared by all nodes and a webhook",
        SWEEP,
        115,
        Kind::Walras(Sharing::Cluster),
    ),
    entrant("oracle", "each pod's own peak to come", &[100], 100, Kind::Oracle),
];

/// How one entrant did.
#[derive(Clone, Debug)]
pub struct PackStanding {
    /// Its name.
    pub policy: &'static str,
    /// What it came to with each setting, in percent, the smallest first.
    pub points: Vec<(u32, PackFigures)>,
    /// The setting that it has by default.
    pub usual: u32,
}

/// Lets everybody who takes part run the town. `day_done` is called after each day of each run.
#[must_use]
pub fn compete(
    entrants: &[&'static Entrant],
    town: &Town,
    score: Score,
    threads: NonZeroUsize,
    day_done: &(dyn Fn() + Sync),
) -> Vec<PackStanding> {
    let jobs: Vec<(&Entrant, u32)> = entrants
        .iter()
        .flat_map(|entrant| entrant.settings.iter().map(|setting| (*entrant, *setting)))
        .collect();
    let done = crew::all_done(&jobs, threads, &|(entrant, setting)| {
        let mut sizer = entrant.sizer(town, *setting);
        (entrant.name, *setting, run(town, &mut *sizer, score, day_done))
    });
    let standing = |entrant: &&'static Entrant| PackStanding {
        policy: entrant.name,
        points: done
            .iter()
            .filter(|(name, _, _)| *name == entrant.name)
            .map(|(_, setting, figures)| (*setting, figures.clone()))
            .collect(),
        usual: entrant.usual,
    };
    entrants.iter().map(standing).collect()
}

// === impl Entrant ===

impl Entrant {
    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ENTRANTS.iter().find(|entrant| entrant.name == name)
    }

    /// How many settings are tried.
    #[must_use]
    pub const fn runs(&self) -> usize {
        self.settings.len()
    }

    /// Its sizer with a setting.
    #[must_use]
    pub fn sizer(&self, town: &Town, percent: u32) -> Box<dyn Sizer> {
        let factor = f64::from(percent) / 100.0;
        match self.kind {
            Kind::Declared => Box::new(Declared),
            Kind::Vpa => Box::new(Vpa::new(town, factor)),
            Kind::Percentile => Box::new(Percentile::new(town, factor)),
            Kind::CruiseKube => Box::new(CruiseKube::new(town, factor)),
            Kind::Walras(sharing) => {
                Box::new(Walras::new(town, sharing, Ratio::from_percent(percent)))
            }
            Kind::Oracle => Box::new(Oracle::new(town, HISTORY + SETTLING, factor)),
        }
    }
}

// === impl PackStanding ===

impl PackStanding {
    /// What it came to by default.
    #[must_use]
    pub fn by_default(&self) -> Option<&PackFigures> {
        let mut points = self.points.iter();
        points.find(|(setting, _)| *setting == self.usual).map(|(_, figures)| figures)
    }

    /// The fewest nodes with at most this share of minutes broken, and the setting, of those that
    /// were tried.
    #[must_use]
    pub fn best_at(&self, broken_most: f64) -> Option<&(u32, PackFigures)> {
        let good = self.points.iter().filter(|(_, figures)| figures.broken <= broken_most);
        good.min_by(|(_, one), (_, other)| one.nodes.total_cmp(&other.nodes))
    }
}

const fn entrant(
    name: &'static str,
    about: &'static str,
    settings: &'static [u32],
    usual: u32,
    kind: Kind,
) -> Entrant {
    Entrant { name, about, settings, usual, kind }
}
