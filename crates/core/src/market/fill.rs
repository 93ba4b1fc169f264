//! Shares a pool among claims by weighted water-filling: the congested rule, both fairness options.
//!
//! Maximises the sum of `pull * log(x)` subject to `sum(x) <= pool` and `x <= cap`, whose solution
//! is `x = min(cap, pull * level)` with one level for all. The level is found exactly, as a
//! fraction, by halving the claims around their fill level (linear time, no sort), and what
//! rounding leaves over goes to the largest fractions, then to the earlier claim.
//!
//! Always: `x <= cap`; if the caps exceed the pool, the sum is exactly the pool; each `x` is within
//! one unit of the real-valued solution; equal claims differ by at most one unit.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use super::{Bid, Fairness, Grant, Reason, Solution, Sums, Terms};
use crate::units::{Millicores, Ratio};

/// One claim on the pool: no more than `cap`, in proportion to `pull`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim<N> {
    pub(crate) cap: N,
    pub(crate) pull: N,
}

/// Where the water stands: an unfilled claim holds `pull * pool / pull_total`.
#[derive(Clone, Copy, Debug)]
struct Level<N> {
    pool: N,
    pull_total: N,
}

/// An integer wide enough for the products of one filling.
pub(crate) trait Wide:
    Copy
    + Ord
    + From<u64>
    + TryFrom<u128>
    + Into<u128>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + SubAssign
{
}

impl Wide for u64 {}
impl Wide for u128 {}

/// Gives every bid its min and a share of what the mins leave, up to its need.
pub(super) fn share_surplus(terms: &Terms, bids: &[Bid], sums: &Sums) -> Solution {
    let pool = terms.capacity.saturating_sub(sums.min);
    let divisor = common_weight(bids);
    let surplus = |bid: &Bid| bid.need_in_force(terms).saturating_sub(bid.min()).get();
    let pull = |bid: &Bid| {
        let weight = u128::from(bid.weight().thousandths() / divisor);
        match terms.fairness {
            Fairness::Proportional => weight * u128::from(surplus(bid)),
            Fairness::Nash => weight,
        }
    };
    let claims = bids.iter().map(|bid| Claim { cap: u128::from(surplus(bid)), pull: pull(bid) });
    let extras = fill(pool, claims);
    let grants = bids
        .iter()
        .zip(&extras.shares)
        .map(|(bid, &extra)| {
            let need = bid.need_in_force(terms);
            let amount = bid.min() + Millicores::new(extra);
            let reason = match (need == bid.min(), amount == need) {
                (true, _) => Reason::AtMin,
                (false, true) => Reason::Filled,
                (false, false) => Reason::Cut,
            };
            Grant { need, amount, reduction: Ratio::ZERO, reason }
        })
        .collect();
    Solution { grants, multiplier: extras.multiplier(divisor, terms.fairness) }
}

/// What a filling handed out, and the level at which it stopped.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) shares: Vec<u64>,
    level: Level<u128>,
}

/// Fills `claims` from `pool`; with more in the pool than the caps hold, every claim gets its cap.
pub(crate) fn fill(pool: Millicores, claims: impl Iterator<Item = Claim<u128>> + Clone) -> Filled {
    let mut cap_total = 0_u128;
    let mut pull_total = 0_u128;
    let (mut cap_max, mut pull_max) = (0_u128, 0_u128);
    for claim in claims.clone() {
        cap_total += claim.cap;
        pull_total += claim.pull;
        cap_max = cap_max.max(claim.cap);
        pull_max = pull_max.max(claim.pull);
    }
    // Everything given out fits the pool, and the pool is 64 bits wide.
    let pool = u128::from(pool.get()).min(cap_total);
    let widest = (pull_max.max(1) * pool).max(cap_max.saturating_mul(pull_total.max(1)));
    if u64::try_from(widest).is_ok() {
        fill_in::<u64>(pool, pull_total, claims)
    } else {
        fill_in::<u128>(pool, pull_total, claims)
    }
}

/// The filling, in integers that hold `cap * pull_total` and `pull * pool`.
fn fill_in<N: Wide>(
    pool: u128,
    pull_total: u128,
    claims: impl Iterator<Item = Claim<u128>>,
) -> Filled {
    let claims: Vec<Claim<N>> =
        claims.map(|claim| Claim { cap: narrow(claim.cap), pull: narrow(claim.pull) }).collect();
    let level = find_level(Level { pool: narrow(pool), pull_total: narrow(pull_total) }, &claims);
    let mut left: u128 = pool;
    let mut shares = Vec::with_capacity(claims.len());
    // The fraction each unfilled claim lost by rounding down, with its place.
    let mut lost: Vec<(N, usize)> = Vec::new();
    for (place, claim) in claims.iter().enumerate() {
        let share = if level.fills(claim) {
            claim.cap
        } else {
            let product = claim.pull * level.pool;
            let share = product / level.pull_total;
            // Not by `%`: a second division costs more than this product.
            lost.push((product - share * level.pull_total, place));
            share
        };
        left -= share.into();
        shares.push(u64::try_from(share.into()).expect("a share is at most the pool"));
    }
    hand_out(&mut shares, &mut lost, left);
    Filled { shares, level: Level { pool: level.pool.into(), pull_total: level.pull_total.into() } }
}

/// Finds the level at which the pool is used up, taking out of it all claims that fill.
///
/// Each round splits the undecided claims at their median fill level and learns which side of it
/// the water stands on, so the work halves from round to round.
fn find_level<N: Wide>(mut level: Level<N>, claims: &[Claim<N>]) -> Level<N> {
    let zero = N::from(0);
    let mut undecided: Vec<Claim<N>> =
        claims.iter().filter(|claim| claim.pull > zero).copied().collect();
    let mut rest = undecided.as_mut_slice();
    while !rest.is_empty() {
        let middle = rest.len() / 2;
        let (lower, median, _) = rest.select_nth_unstable_by(middle, by_fill_level);
        let (mut caps, mut pulls) = (median.cap, median.pull);
        for claim in lower.iter() {
            caps += claim.cap;
            pulls += claim.pull;
        }
        // The median fills if, once it and all before it are full, the others can stand as high.
        let median_fills = caps <= level.pool
            && (level.pool - caps) * median.pull >= median.cap * (level.pull_total - pulls);
        if median_fills {
            level.pool -= caps;
            level.pull_total -= pulls;
            rest = &mut rest[middle + 1..];
        } else {
            rest = &mut rest[..middle];
        }
    }
    level
}

/// Which claim fills first as the water rises.
fn by_fill_level<N: Wide>(a: &Claim<N>, b: &Claim<N>) -> Ordering {
    (a.cap * b.pull).cmp(&(b.cap * a.pull))
}

/// Gives the units that rounding left over to the largest fractions, then to the earlier claim.
pub(super) fn hand_out<N: Wide>(shares: &mut [u64], lost: &mut [(N, usize)], left: u128) {
    let count = usize::try_from(left).unwrap_or(usize::MAX).min(lost.len());
    if count == 0 {
        return;
    }
    if count < lost.len() {
        lost.select_nth_unstable_by(count - 1, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    }
    for &(_, place) in &lost[..count] {
        shares[place] += 1;
    }
}

/// The greatest common divisor of all weights: equal weights become 1, and products stay small.
fn common_weight(bids: &[Bid]) -> u32 {
    let mut divisor = 0_u32;
    for bid in bids {
        let (mut a, mut b) = (bid.weight().thousandths(), divisor);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        divisor = a;
        if divisor == 1 {
            break;
        }
    }
    divisor.max(1)
}

fn narrow<N: Wide>(value: u128) -> N {
    match N::try_from(value) {
        Ok(value) => value,
        Err(_) => unreachable!("the caller chose an integer wide enough for every value"),
    }
}

// === impl Level ===

impl<N: Wide> Level<N> {
    fn fills(&self, claim: &Claim<N>) -> bool {
        claim.cap * self.pull_total <= claim.pull * self.pool
    }
}

// === impl Filled ===

impl Filled {
    /// The Lagrange multiplier: pull per unit of the pool, in the units of the published figure.
    fn multiplier(&self, weight_divisor: u32, fairness: Fairness) -> Ratio {
        // Nash pulls are thousandths of a weight and pools thousandths of a core, which cancel.
        // Proportional pulls are thousandths of a weight times millicores.
        let scale = match fairness {
            Fairness::Nash => 1_000_000,
            Fairness::Proportional => 1000,
        };
        let pull = self.level.pull_total.saturating_mul(u128::from(weight_divisor) * scale);
        let millionths = pull / self.level.pool.max(1);
        Ratio::from_millionths(u64::try_from(millionths).unwrap_or(u64::MAX))
    }
}
