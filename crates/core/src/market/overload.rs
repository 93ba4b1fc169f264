//! The overloaded rule: the mins do not fit, so each workload gets a part of its min.
//!
//! Mins are scaled by one factor for all, regardless of weight, and the sum is exactly capacity.
//! No grant falls below the survival floor where capacity allows it for every workload; where it
//! does not, capacity is split equally. No workload gets more than its max.

use alloc::vec::Vec;

use super::fill::{self, Claim};
use super::{Bid, Grant, Reason, SURVIVAL_FLOOR, Solution, Sums, Terms};
use crate::units::{Millicores, Ratio};

/// Divides a capacity that is smaller than the sum of the mins.
pub(super) fn scale_mins(terms: &Terms, bids: &[Bid], sums: &Sums) -> Solution {
    let floors: Millicores = bids.iter().map(|bid| SURVIVAL_FLOOR.min(bid.max())).sum();
    let floors_fit = terms.capacity >= floors;
    let (shares, at_floor) = if floors_fit {
        scale_with_floor(terms.capacity, bids)
    } else {
        (split_equally(terms.capacity, bids), Vec::new())
    };
    let grants = bids
        .iter()
        .zip(shares)
        .enumerate()
        .map(|(place, (bid, share))| Grant {
            need: bid.need_in_force(terms),
            amount: Millicores::new(share),
            reduction: Ratio::ZERO,
            reason: match at_floor.get(place) {
                None => Reason::EqualSplit,
                Some(true) => Reason::SurvivalFloor,
                Some(false) => Reason::MinScaled,
            },
        })
        .collect();
    Solution { grants, multiplier: unpayable(sums) }
}

/// `max(floor, min * factor)` for each workload, with the one factor that uses up capacity.
fn scale_with_floor(capacity: Millicores, bids: &[Bid]) -> (Vec<u64>, Vec<bool>) {
    let floor = |bid: &Bid| u128::from(SURVIVAL_FLOOR.min(bid.max()).get());
    let min = |bid: &Bid| u128::from(bid.min().get());
    // The smaller the min is against the floor, the sooner a falling factor reaches the floor. A
    // workload that may have nothing has no place in that order: it is at its floor of nothing.
    let mut order: Vec<(u64, usize)> = bids
        .iter()
        .enumerate()
        .filter(|(_, bid)| floor(bid) > 0)
        .map(|(place, bid)| (min_per_floor(bid), place))
        .collect();
    order.sort_unstable();
    let mut pool = u128::from(capacity.get());
    let mut min_total: u128 = bids.iter().map(min).sum();
    let mut at_floor: Vec<bool> = bids.iter().map(|bid| floor(bid) == 0).collect();
    for (_, place) in order {
        let bid = &bids[place];
        if min(bid) * pool >= floor(bid) * min_total {
            break;
        }
        at_floor[place] = true;
        pool -= floor(bid);
        min_total -= min(bid);
    }
    let mut left = pool;
    let mut lost: Vec<(u128, usize)> = Vec::new();
    let mut shares = Vec::with_capacity(bids.len());
    for (place, bid) in bids.iter().enumerate() {
        let share = if at_floor[place] {
            floor(bid)
        } else {
            let product = min(bid) * pool;
            let share = product / min_total;
            lost.push((product - share * min_total, place));
            left -= share;
            share
        };
        shares.push(u64::try_from(share).expect("a share is at most the capacity"));
    }
    fill::hand_out(&mut shares, &mut lost, left);
    (shares, at_floor)
}

/// A workload's min against its floor, as a whole number: every floor up to 10m divides 2520.
fn min_per_floor(bid: &Bid) -> u64 {
    const DIVIDED_BY_ALL_FLOORS: u64 = 2520;
    const { assert!(SURVIVAL_FLOOR.get() <= 10) };
    let floor = SURVIVAL_FLOOR.min(bid.max()).get();
    bid.min().get() * (DIVIDED_BY_ALL_FLOORS / floor)
}

/// The same for everyone, up to each workload's max.
fn split_equally(capacity: Millicores, bids: &[Bid]) -> Vec<u64> {
    let claims = bids.iter().map(|bid| Claim { cap: u128::from(bid.max().get()), pull: 1 });
    fill::fill(capacity, claims).shares
}

/// No price clears an overloaded market. What is published is what one millicore of spare capacity
/// would cost, the dearest it can get while the mins still fit.
fn unpayable(sums: &Sums) -> Ratio {
    Ratio::from_millionths(sums.weight_thousandths.saturating_mul(Ratio::ONE.millionths()))
}
