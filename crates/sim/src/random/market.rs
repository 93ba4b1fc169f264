//! Random markets: bids and a capacity, drawn so that every mode and every edge is met often.
//!
//! Property tests and benchmarks call it. Workloads are drawn first, then a capacity that puts them
//! into the wanted [`Regime`]; a regime is an aim, and a market without workloads cannot be
//! congested.
//!
//! Always: the same generator state gives the same market; no figure exceeds `Millicores::LIMIT`
//! except a capacity, which may be as large as all workloads together need.

use walras_core::market::{Bid, Fairness, Mode, SURVIVAL_FLOOR, Terms};
use walras_core::need::Bounds;
use walras_core::rng::Rng;
use walras_core::units::{Millicores, Weight};

use super::draw::{one_of, percent, spread, within};

/// A market to be cleared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Market {
    /// What the capacity was chosen for.
    pub regime: Regime,
    /// What holds for the whole clearing.
    pub terms: Terms,
    /// What the workloads bring, in uid order.
    pub bids: Vec<Bid>,
}

/// Where a market's capacity lies against what its workloads want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Regime {
    /// All needs fit, with room to spare.
    Roomy,
    /// The mins fit, the needs do not.
    Scarce,
    /// The mins do not fit.
    Short,
    /// The needs are within a few percent of capacity, on either side.
    Hovering,
    /// There is nothing to divide.
    Empty,
    /// There is less than the survival floor for every workload.
    BelowFloors,
    /// Capacity is the sum of the mins, or one off.
    AtMins,
    /// Capacity is the sum of the needs, or one off.
    AtNeeds,
    /// Any capacity at all.
    Any,
}

/// How large the figures of one market are.
#[derive(Clone, Copy)]
enum Scale {
    Tiny,
    Usual,
    Huge,
    Mixed,
}

/// What the workloads of one market have in common.
#[derive(Clone, Copy)]
enum Likeness {
    Different,
    Equal,
    NoSurplus,
    Fixed,
    NoMin,
}

/// How the weights of one market are spread.
#[derive(Clone, Copy)]
enum Weights {
    Equal,
    Any,
    Multiples(u32),
    Extremes,
}

/// Draws a market of a random size and regime.
pub fn market(rng: &mut Rng) -> Market {
    let regime = one_of(rng, &Regime::ALL);
    let workloads = size(rng);
    market_in(rng, regime, workloads)
}

/// Draws a market of `workloads` workloads that aims at `regime`.
pub fn market_in(rng: &mut Rng, regime: Regime, workloads: usize) -> Market {
    let scales = [Scale::Tiny, Scale::Usual, Scale::Usual, Scale::Huge, Scale::Mixed];
    let scale = one_of(rng, &scales);
    let likeness = likeness(rng);
    let weights = weights(rng);
    let first = bid(rng, scale, likeness, weights);
    let bids: Vec<Bid> = (0..workloads)
        .map(|_| match likeness {
            Likeness::Equal => first,
            Likeness::Different | Likeness::NoSurplus | Likeness::Fixed | Likeness::NoMin => {
                bid(rng, scale, likeness, weights)
            }
        })
        .collect();
    let demand_capped = percent(rng, 80);
    let terms = Terms {
        capacity: capacity(rng, regime, &bids, demand_capped),
        fairness: one_of(rng, &[Fairness::Proportional, Fairness::Nash]),
        demand_capped,
        previous_mode: one_of(
            rng,
            &[None, Some(Mode::Uncongested), Some(Mode::Congested), Some(Mode::Overloaded)],
        ),
        scarce: one_of(rng, &[None, None, Some(false), Some(true)]),
        weight_unit: Weight::ONE,
    };
    Market { regime, terms, bids }
}

/// Mostly a few workloads, since what is wrong shows with few; sometimes a few hundred.
fn size(rng: &mut Rng) -> usize {
    let workloads = match rng.below(1000) {
        0..=1 => within(rng, 100, 400),
        2..=150 => within(rng, 9, 40),
        _ => within(rng, 0, 8),
    };
    usize::try_from(workloads).expect("at most a few hundred")
}

fn likeness(rng: &mut Rng) -> Likeness {
    match rng.below(12) {
        0 => Likeness::Equal,
        1 => Likeness::NoSurplus,
        2 => Likeness::Fixed,
        3 => Likeness::NoMin,
        _ => Likeness::Different,
    }
}

fn weights(rng: &mut Rng) -> Weights {
    match rng.below(4) {
        0 => Weights::Equal,
        1 => Weights::Any,
        2 => {
            let common = one_of(rng, &[2, 100, 250, 1000, 1024, 65_536, 999_983]);
            Weights::Multiples(common)
        }
        _ => Weights::Extremes,
    }
}

fn bid(rng: &mut Rng, scale: Scale, likeness: Likeness, weights: Weights) -> Bid {
    let most = match scale {
        Scale::Tiny => 30,
        Scale::Usual => 8000,
        Scale::Huge => Millicores::LIMIT.get(),
        Scale::Mixed => one_of(rng, &[30, 8000, Millicores::LIMIT.get()]),
    };
    let mut figures = [figure(rng, most), figure(rng, most), figure(rng, most)];
    figures.sort_unstable();
    let [mut min, mut need, mut max] = figures.map(Millicores::new);
    match likeness {
        Likeness::Different | Likeness::Equal => {}
        Likeness::NoSurplus => need = min,
        Likeness::Fixed => (need, max) = (min, min),
        Likeness::NoMin => min = Millicores::ZERO,
    }
    Bid::new(Bounds::new(min, max), need, weight(rng, weights))
}

/// An amount of at most `most`, which is an edge more often than chance would have it.
fn figure(rng: &mut Rng, most: u64) -> u64 {
    match rng.below(16) {
        0 => 0,
        1 => most,
        2 => SURVIVAL_FLOOR.get().min(most),
        3..=8 => within(rng, 0, most),
        _ => spread(rng, most),
    }
}

fn weight(rng: &mut Rng, weights: Weights) -> Weight {
    let limit = u64::from(Weight::LIMIT_THOUSANDTHS);
    let thousandths = match weights {
        Weights::Equal => return Weight::ONE,
        Weights::Any => spread(rng, limit),
        Weights::Multiples(common) => {
            u64::from(common) * within(rng, 1, 12.min(limit / u64::from(common)))
        }
        Weights::Extremes => one_of(rng, &[1, 2, 999, 1000, 1001, limit - 1, limit]),
    };
    u32::try_from(thousandths).ok().and_then(Weight::from_thousandths).unwrap_or(Weight::ONE)
}

fn capacity(rng: &mut Rng, regime: Regime, bids: &[Bid], demand_capped: bool) -> Millicores {
    let need = |bid: &Bid| if demand_capped { bid.need() } else { bid.max() };
    let mins: u64 = bids.iter().map(|bid| bid.min().get()).sum();
    let needs: u64 = bids.iter().map(|bid| need(bid).get()).sum();
    let one_off = |rng: &mut Rng, exact: u64| match rng.below(4) {
        0 => exact + 1,
        1 => exact.saturating_sub(1),
        _ => exact,
    };
    let workloads = u64::try_from(bids.len()).expect("a length is at most 64 bits");
    Millicores::new(match regime {
        Regime::Roomy => needs + spread(rng, needs),
        Regime::Scarce => within(rng, mins, needs.saturating_sub(1)),
        Regime::Short => rng.below(mins),
        Regime::Hovering => needs / 1000 * within(rng, 930, 1070) + rng.below(60),
        Regime::Empty => 0,
        Regime::BelowFloors => rng.below(workloads * SURVIVAL_FLOOR.get()),
        Regime::AtMins => one_off(rng, mins),
        Regime::AtNeeds => one_off(rng, needs),
        Regime::Any => spread(rng, Millicores::LIMIT.get()),
    })
}

// === impl Regime ===

impl Regime {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Roomy,
        Self::Scarce,
        Self::Short,
        Self::Hovering,
        Self::Empty,
        Self::BelowFloors,
        Self::AtMins,
        Self::AtNeeds,
        Self::Any,
    ];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use walras_core::market::clear;

    #[test]
    fn the_same_seed_gives_the_same_market() {
        for seed in 0..100 {
            let (mut one, mut other) = (Rng::from_seed(seed), Rng::from_seed(seed));
            assert_eq!(market(&mut one), market(&mut other));
        }
    }

    #[test]
    fn every_mode_and_regime_is_met_often() {
        let mut modes: BTreeMap<Mode, u32> = BTreeMap::new();
        let mut regimes: BTreeMap<Regime, u32> = BTreeMap::new();
        let mut rng = Rng::from_seed(1);
        for _ in 0..10_000 {
            let market = market(&mut rng);
            *modes.entry(clear(&market.terms, &market.bids).mode).or_default() += 1;
            *regimes.entry(market.regime).or_default() += 1;
        }
        assert!(modes.len() == 3 && modes.values().all(|&met| met > 1000), "{modes:?}");
        assert!(regimes.len() == 9 && regimes.values().all(|&met| met > 500), "{regimes:?}");
    }
}
