//! Divides one node's CPU among its workloads: from needs to grants.
//!
//! Uncongested: all needs fit, each workload gets its need. Congested: only the mins fit, each
//! workload gets its min and a share of the rest, up to its need (`fill`). Overloaded: not even the
//! mins fit, each workload gets a part of its min (`overload`).
//!
//! Always: grants add up to at most capacity, and to exactly capacity unless uncongested; a grant
//! is at most the workload's max; equal input gives equal output. A grant is at least the
//! workload's min unless the market is overloaded, where that is impossible.
//!
//! Bids come in uid order: where two workloads have the same claim to the last millicore, the
//! earlier one gets it, so the answer does not depend on the order in which workloads became known.

mod fill;
mod overload;
mod price;
mod reason;

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::need::Bounds;
use crate::profile::CapRule;
use crate::units::{Millicores, Ratio, Weight};

pub(crate) use fill::{Claim, fill};
pub use reason::Reason;

/// The share of capacity around it in which the previous mode is kept as a label.
pub const HYSTERESIS_BAND: Ratio = Ratio::from_percent(5);

/// The least a workload gets in an overloaded market where capacity allows it for all: what the
/// kernel can hold as a quota (1 ms in 100 ms).
pub const SURVIVAL_FLOOR: Millicores = Millicores::new(10);

/// How the market stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All needs fit into capacity.
    Uncongested,
    /// The mins fit, the needs do not.
    Congested,
    /// Not even the mins fit.
    Overloaded,
}

/// How a congested market shares what is left above the mins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fairness {
    /// By weight times surplus: with equal weights every surplus is cut by the same ratio. Rewards
    /// those that ask for more.
    Proportional,
    /// By weight alone, up to the need: the weighted Nash bargaining solution. Asking for more than
    /// one's share gains nothing.
    Nash,
}

/// What holds for a whole clearing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What there is to divide.
    pub capacity: Millicores,
    /// How to divide it when it is scarce.
    pub fairness: Fairness,
    /// Whether a need caps a grant. If not, everything is shared out up to the workloads' max.
    pub demand_capped: bool,
    /// The label of the previous clearing, kept inside the hysteresis band.
    pub previous_mode: Option<Mode>,
    /// Whether CPU was measured to be scarce. Needs are peaks, and their sum is not the peak of the
    /// sum: where it was measured, the sums alone make no market congested. Nothing where it was
    /// not measured, and the sums decide.
    pub scarce: Option<bool>,
    /// The weight that counts as one in the price, so that prices of nodes can be compared.
    pub weight_unit: Weight,
}

/// What one workload brings to the market. `Bid::new` keeps `min <= need <= max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bid {
    bounds: Bounds,
    need: Millicores,
    weight: Weight,
}

/// What one workload takes home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The need that was in force: the bid's, or the workload's max where needs do not cap.
    pub need: Millicores,
    /// The CPU that is guaranteed to the workload.
    pub amount: Millicores,
    /// How much of the surplus (need above min) was cut: 0 none, 1 all of it or more.
    pub reduction: Ratio,
    /// Why it is this much.
    pub reason: Reason,
}

/// The outcome of a clearing; `grants` has one entry per bid, in the order of the bids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clearing {
    /// The label, hysteresis included.
    pub mode: Mode,
    /// How the sums stand, whatever the label says: this is what the grants follow.
    pub actual: Mode,
    /// The published price: how far bids exceed capacity, times the mean weight.
    pub price: Ratio,
    /// The solver's own price of capacity: weight per core (nash), weighted claims per share of
    /// spare capacity (proportional); zero where all needs fit.
    pub multiplier: Ratio,
    /// The sum of all mins.
    pub total_min: Millicores,
    /// The sum of all needs in force.
    pub total_need: Millicores,
    /// The sum of all grants.
    pub total_grant: Millicores,
    /// What each workload got.
    pub grants: Vec<Grant>,
}

/// The weight that counts as one: requests as weights would make prices in the hundreds.
#[must_use]
pub fn mean_weight(weights: impl Iterator<Item = Weight>) -> Weight {
    let (mut total, mut count) = (0, 0);
    for weight in weights {
        total += u64::from(weight.thousandths());
        count += 1;
    }
    let mean = u32::try_from(total / count.max(1)).unwrap_or(Weight::LIMIT_THOUSANDTHS);
    Weight::from_thousandths(mean).unwrap_or(Weight::ONE)
}

/// Divides the capacity among the bids, which are in uid order.
#[must_use]
pub fn clear(terms: &Terms, bids: &[Bid]) -> Clearing {
    let sums = Sums::of(terms, bids);
    let actual = sums.actual_mode(terms.capacity);
    let mut solution = match actual {
        Mode::Uncongested => Solution::all_needs_met(terms, bids),
        Mode::Congested => fill::share_surplus(terms, bids, &sums),
        Mode::Overloaded => overload::scale_mins(terms, bids, &sums),
    };
    for (grant, bid) in solution.grants.iter_mut().zip(bids) {
        grant.reduction = reduction(grant, bid.min());
    }
    let total_grant = solution.grants.iter().map(|grant| grant.amount).sum();
    debug_assert!(total_grant <= terms.capacity, "grants never exceed capacity");
    let mode = label(terms, &sums, actual);
    if terms.scarce == Some(false) {
        for grant in &mut solution.grants {
            grant.reason = grant.reason.while_idle();
        }
    }
    Clearing {
        mode,
        actual,
        price: price::published(terms, &sums, mode),
        multiplier: solution.multiplier,
        total_min: sums.min,
        total_need: sums.need,
        total_grant,
        grants: solution.grants,
    }
}

/// The sums a clearing is decided by.
#[derive(Clone, Copy, Debug)]
struct Sums {
    workloads: u64,
    min: Millicores,
    /// Needs in force, which are the caps of the solver.
    need: Millicores,
    /// Needs as bid, which make the price.
    bid: Millicores,
    weight_thousandths: u64,
}

/// What a solver found. `reduction` is filled in afterwards, by one rule for all modes.
#[derive(Debug)]
struct Solution {
    grants: Vec<Grant>,
    multiplier: Ratio,
}

/// Inside the band around capacity the previous label stays, so that a market that hovers there
/// does not flap. Only the label: the grants follow the sums.
fn label(terms: &Terms, sums: &Sums, actual: Mode) -> Mode {
    let margin = terms.capacity.scale_floor(HYSTERESIS_BAND);
    let below = terms.capacity.saturating_sub(margin);
    let above = terms.capacity + margin;
    let in_band = sums.need > below && sums.need < above;
    match (terms.scarce, actual, terms.previous_mode) {
        (Some(false), _, _) => Mode::Uncongested,
        (_, Mode::Overloaded, _) => Mode::Overloaded,
        (Some(true), _, _) => Mode::Congested,
        (None, _, Some(kept @ (Mode::Uncongested | Mode::Congested))) if in_band => kept,
        (None, actual, _) => actual,
    }
}

fn reduction(grant: &Grant, min: Millicores) -> Ratio {
    let missing = grant.need.saturating_sub(grant.amount);
    let surplus = grant.need.saturating_sub(min);
    if missing == Millicores::ZERO {
        Ratio::ZERO
    } else if surplus == Millicores::ZERO {
        Ratio::ONE
    } else {
        missing.ratio_of(surplus).at_most_one()
    }
}

// === impl Bid ===

impl Bid {
    /// A bid of a workload with a right (its min) and a max: where a right that is not needed is
    /// lent, it cannot be bargained below its right as far as it needs it, elsewhere not below all
    /// of it.
    #[must_use]
    pub fn by_right(rule: CapRule, right: Bounds, need: Millicores, weight: Weight) -> Self {
        let bounds = match rule {
            CapRule::Grant | CapRule::Tight => right,
            CapRule::Loose => Bounds::new(right.min().min(need), right.max()),
        };
        Self::new(bounds, need, weight)
    }

    /// A bid for `need`, brought within the workload's bounds.
    #[must_use]
    pub fn new(bounds: Bounds, need: Millicores, weight: Weight) -> Self {
        Self { bounds, need: bounds.clamp(need), weight }
    }

    /// The workload's floor.
    #[must_use]
    pub const fn min(&self) -> Millicores {
        self.bounds.min()
    }

    /// The workload's ceiling.
    #[must_use]
    pub const fn max(&self) -> Millicores {
        self.bounds.max()
    }

    /// What the workload asks for.
    #[must_use]
    pub const fn need(&self) -> Millicores {
        self.need
    }

    /// What the workload's claim counts for.
    #[must_use]
    pub const fn weight(&self) -> Weight {
        self.weight
    }

    fn need_in_force(&self, terms: &Terms) -> Millicores {
        if terms.demand_capped { self.need } else { self.max() }
    }
}

// === impl Grant ===

impl Grant {
    /// The share of the need that is not granted.
    #[must_use]
    pub fn cut(&self) -> Ratio {
        let missing = self.need.saturating_sub(self.amount);
        if missing == Millicores::ZERO { Ratio::ZERO } else { missing.ratio_of(self.need) }
    }
}

// === impl Sums ===

impl Sums {
    fn of(terms: &Terms, bids: &[Bid]) -> Self {
        let mut sums = Self {
            workloads: 0,
            min: Millicores::ZERO,
            need: Millicores::ZERO,
            bid: Millicores::ZERO,
            weight_thousandths: 0,
        };
        for bid in bids {
            sums.workloads += 1;
            sums.min += bid.min();
            sums.need += bid.need_in_force(terms);
            sums.bid += bid.need;
            sums.weight_thousandths += u64::from(bid.weight.thousandths());
        }
        sums
    }

    fn actual_mode(&self, capacity: Millicores) -> Mode {
        if self.min > capacity {
            Mode::Overloaded
        } else if self.need > capacity {
            Mode::Congested
        } else {
            Mode::Uncongested
        }
    }
}

// === impl Solution ===

impl Solution {
    fn all_needs_met(terms: &Terms, bids: &[Bid]) -> Self {
        let grants = bids
            .iter()
            .map(|bid| {
                let need = bid.need_in_force(terms);
                Grant { need, amount: need, reduction: Ratio::ZERO, reason: Reason::met(bid, need) }
            })
            .collect();
        Self { grants, multiplier: Ratio::ZERO }
    }
}

// === impl Mode, Fairness ===

impl Mode {
    /// The name a user types and scrapes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uncongested => "uncongested",
            Self::Congested => "congested",
            Self::Overloaded => "overloaded",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Fairness {
    /// The name a user types.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proportional => "proportional",
            Self::Nash => "nash",
        }
    }
}

impl fmt::Display for Fairness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
