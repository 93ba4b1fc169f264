//! The market's rules in rational arithmetic, written to be obviously right and not to be fast.
//!
//! Property tests hold the core's whole millicores against these fractions. A scarce market hands
//! out its pool by pull and freezes whoever got more than its cap, until nobody did. An overloaded
//! one scales the mins and freezes whoever fell below its floor, until nobody did.
//!
//! Always: the grants add up to exactly capacity, unless all needs fit.
//!
//! 128 bits are enough. A pull is at most a weight times a surplus, 10^18, and a pool that matters
//! at most the caps of all workloads, 10^9 each; so for up to 10^6 workloads no product exceeds
//! 10^33.

use num_rational::Ratio;
use walras_core::market::{Bid, Fairness, SURVIVAL_FLOOR, Terms};
use walras_core::units::Millicores;

/// An amount in millicores, exactly.
pub type Exact = Ratio<i128>;

/// What each workload would be granted if millicores could be divided, in the order of the bids.
#[must_use]
pub fn grants(terms: &Terms, bids: &[Bid]) -> Vec<Exact> {
    let capacity = whole(terms.capacity);
    let mins: i128 = bids.iter().map(|bid| whole(bid.min())).sum();
    let needs: i128 = bids.iter().map(|bid| need(terms, bid)).sum();
    if mins > capacity {
        overloaded(capacity, bids)
    } else if needs > capacity {
        congested(terms, bids)
    } else {
        bids.iter().map(|bid| Exact::from(need(terms, bid))).collect()
    }
}

/// Each workload's min, and a share of what the mins leave, up to its need.
fn congested(terms: &Terms, bids: &[Bid]) -> Vec<Exact> {
    let mins: i128 = bids.iter().map(|bid| whole(bid.min())).sum();
    let claims: Vec<Claim> = bids
        .iter()
        .map(|bid| {
            let surplus = need(terms, bid) - whole(bid.min());
            let weight = i128::from(bid.weight().thousandths());
            let pull = match terms.fairness {
                Fairness::Proportional => weight * surplus,
                Fairness::Nash => weight,
            };
            Claim { cap: surplus, pull }
        })
        .collect();
    let extras = share(whole(terms.capacity) - mins, &claims);
    bids.iter().zip(extras).map(|(bid, extra)| Exact::from(whole(bid.min())) + extra).collect()
}

/// Each workload's min times one factor, but not below its floor; the same for all if there is not
/// even the floor for everyone. A workload that may not have the whole floor has its max for one.
fn overloaded(capacity: i128, bids: &[Bid]) -> Vec<Exact> {
    let floor = |bid: &Bid| whole(SURVIVAL_FLOOR.min(bid.max()));
    if capacity < bids.iter().map(floor).sum() {
        let claims: Vec<Claim> =
            bids.iter().map(|bid| Claim { cap: whole(bid.max()), pull: 1 }).collect();
        return share(capacity, &claims);
    }
    let mut frozen = vec![false; bids.len()];
    loop {
        let (mut pool, mut mins) = (capacity, 0);
        for (bid, &frozen) in bids.iter().zip(&frozen) {
            if frozen {
                pool -= floor(bid);
            } else {
                mins += whole(bid.min());
            }
        }
        let scaled = |bid: &Bid| match mins {
            0 => Exact::from(0),
            mins => Exact::new(pool * whole(bid.min()), mins),
        };
        let mut fell = false;
        for (bid, frozen) in bids.iter().zip(frozen.iter_mut()) {
            if !*frozen && scaled(bid) < Exact::from(floor(bid)) {
                (*frozen, fell) = (true, true);
            }
        }
        if !fell {
            let grant = |(bid, &frozen): (&Bid, &bool)| {
                if frozen { Exact::from(floor(bid)) } else { scaled(bid) }
            };
            return bids.iter().zip(&frozen).map(grant).collect();
        }
    }
}

/// One claim on a pool: no more than `cap`, in proportion to `pull`.
struct Claim {
    cap: i128,
    pull: i128,
}

/// Shares `pool` by pull, freezing whoever gets more than its cap, until nobody does.
fn share(pool: i128, claims: &[Claim]) -> Vec<Exact> {
    let mut frozen = vec![false; claims.len()];
    loop {
        let (mut left, mut pulls) = (pool, 0);
        for (claim, &frozen) in claims.iter().zip(&frozen) {
            if frozen {
                left -= claim.cap;
            } else {
                pulls += claim.pull;
            }
        }
        let part = |claim: &Claim| match pulls {
            0 => Exact::from(0),
            pulls => Exact::new(left * claim.pull, pulls),
        };
        let mut overflowed = false;
        for (claim, frozen) in claims.iter().zip(frozen.iter_mut()) {
            if !*frozen && part(claim) > Exact::from(claim.cap) {
                (*frozen, overflowed) = (true, true);
            }
        }
        if !overflowed {
            let amount = |(claim, &frozen): (&Claim, &bool)| {
                if frozen { Exact::from(claim.cap) } else { part(claim) }
            };
            return claims.iter().zip(&frozen).map(amount).collect();
        }
    }
}

fn need(terms: &Terms, bid: &Bid) -> i128 {
    whole(if terms.demand_capped { bid.need() } else { bid.max() })
}

fn whole(amount: Millicores) -> i128 {
    i128::from(amount.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::need::Bounds;
    use walras_core::units::Weight;

    /// Bids as `min/need/max*weight`, in thousandths of a weight, and the grants as fractions.
    fn check(capacity: u64, fairness: Fairness, bids: &str) -> String {
        let bids: Vec<Bid> = bids
            .split(' ')
            .map(|bid| {
                let numbers: Vec<u64> =
                    bid.split(['/', '*']).map(|number| number.parse().unwrap()).collect();
                let bounds = Bounds::new(Millicores::new(numbers[0]), Millicores::new(numbers[2]));
                let weight = Weight::from_thousandths(u32::try_from(numbers[3]).unwrap()).unwrap();
                Bid::new(bounds, Millicores::new(numbers[1]), weight)
            })
            .collect();
        let capacity = Millicores::new(capacity);
        let terms = Terms {
            capacity,
            fairness,
            demand_capped: true,
            previous_mode: None,
            scarce: None,
            weight_unit: Weight::ONE,
        };
        grants(&terms, &bids).iter().map(Exact::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn surpluses_are_cut_by_one_ratio_where_sharing_is_proportional() {
        let bids = "100/200/900*1000 100/400/900*1000";
        assert_eq!(check(500, Fairness::Proportional, bids), "175 325");
        assert_eq!(check(501, Fairness::Proportional, bids), "701/4 1303/4");
        assert_eq!(check(600, Fairness::Proportional, bids), "200 400");
    }

    #[test]
    fn a_small_need_is_filled_and_the_rest_shared_by_weight_in_nash() {
        let bids = "0/100/900*1000 0/900/900*1000 0/900/900*2000";
        assert_eq!(check(1000, Fairness::Nash, bids), "100 300 600");
    }

    #[test]
    fn an_overloaded_market_scales_mins_down_to_the_floor() {
        let bids = "10/10/10*1000 1000/1000/1000*1000 500/500/500*9000";
        assert_eq!(check(160, Fairness::Nash, bids), "10 100 50");
        assert_eq!(check(29, Fairness::Nash, bids), "29/3 29/3 29/3");
    }
}
