//! The overloaded rule: the mins do not fit, so each pod gets a part of its min.
//!
//! Mins are scaled by one factor for all, regardless of weight, and the sum is exactly capacity.
//! Nobody falls below the survival floor where capacity allows it for every pod; where it does not,
//! capacity is split equally. No pod gets more than its max.

use alloc::vec::Vec;

use super::fill::{self, Claim};
use super::{Bid, Grant, Reason, SURVIVAL_FLOOR, Solution, Sums, Terms};
use crate::units::{Millicores, Ratio};

/// Divides a capacity that is smaller than the sum of the mins.
pub(super) fn scale_mins(terms: &Terms, bids: &[Bid], sums: &Sums) -> Solution {
    let floors_fit = u128::from(terms.capacity.get())
        >= u128::from(SURVIVAL_FLOOR.get()) * u128::from(sums.pods);
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

/// `max(floor, min * factor)` for each pod, with the one factor that uses up capacity.
fn scale_with_floor(capacity: Millicores, bids: &[Bid]) -> (Vec<u64>, Vec<bool>) {
    let floor = |bid: &Bid| u128::from(SURVIVAL_FLOOR.min(bid.max()).get());
    let min = |bid: &Bid| u128::from(bid.min().get());
    // The higher the floor is against the min, the sooner a falling factor reaches it.
    let mut order: Vec<usize> = (0..bids.len()).collect();
    order.sort_unstable_by(|&a, &b| {
        let (a_bid, b_bid) = (&bids[a], &bids[b]);
        (floor(b_bid) * min(a_bid)).cmp(&(floor(a_bid) * min(b_bid))).then(a.cmp(&b))
    });
    let mut pool = u128::from(capacity.get());
    let mut min_total: u128 = bids.iter().map(min).sum();
    let mut at_floor = alloc::vec![false; bids.len()];
    for place in order {
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
            lost.push((product % min_total, place));
            let share = product / min_total;
            left -= share;
            share
        };
        shares.push(u64::try_from(share).expect("a share is at most the capacity"));
    }
    fill::hand_out(&mut shares, &mut lost, left);
    (shares, at_floor)
}

/// The same for everyone, up to each pod's max.
fn split_equally(capacity: Millicores, bids: &[Bid]) -> Vec<u64> {
    let claims = bids.iter().map(|bid| Claim { cap: u128::from(bid.max().get()), pull: 1 });
    fill::fill(capacity, claims).shares
}

/// No price clears an overloaded market. What is published is what one millicore of spare capacity
/// would cost, the dearest it can get while the mins still fit.
fn unpayable(sums: &Sums) -> Ratio {
    Ratio::from_millionths(sums.weight_thousandths.saturating_mul(Ratio::ONE.millionths()))
}
