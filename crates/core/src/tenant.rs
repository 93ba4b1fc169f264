//! What workloads may claim where their owners do not trust each other.
//!
//! What an owner writes is a wish. It orders the owner's own workloads among themselves, and never
//! takes from others what they requested: a right above the request comes out of what was not
//! requested, which owners share equally, and priorities leave the weight of all workloads of one
//! owner together as it is. An administrator may allow an owner more, or less.
//!
//! Always: the rights of one owner are at most what its workloads requested, and its part of what
//! was not requested; its weights together are at most what they are without any wish, times what
//! it is allowed. So whatever others write, a workload is granted the smaller of its need and of
//! its right with its part of the rest by weight.

use alloc::vec;
use alloc::vec::Vec;

use crate::claim::{Claim, Ground, Known, claim};
use crate::market::{self, fill};
use crate::need::Bounds;
use crate::units::{Millicores, Ratio, Weight};

/// What an administrator lets one owner have by writing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// What the rights of its workloads may be above what they requested, together on one node.
    pub rights: Millicores,
    /// The most that any of its workloads may have.
    pub max: Millicores,
    /// What the weights of its workloads together may be multiplied by.
    pub priority: Weight,
}

/// A workload, and what its owner wishes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wished {
    /// Whose it is, as a place in the list of owners.
    pub owner: usize,
    /// What is known of it, wishes included.
    pub known: Known,
    /// What its weight is multiplied by where its owner wishes for nothing else.
    pub usual_priority: Weight,
}

/// The claims of all workloads of a node, in their order, where `leaves` has every owner's.
#[must_use]
pub fn claims(
    wished: &[Wished],
    leaves: &[Leave],
    ground: &Ground,
    capacity: Millicores,
) -> Vec<Claim> {
    let mut claims: Vec<Claim> =
        wished.iter().map(|one| claim(&without_wish(one, leaves), ground)).collect();
    let wishes: Vec<Claim> =
        wished.iter().map(|one| claim(&within_max(one, leaves), ground)).collect();
    let more = |place: usize| {
        let (wish, has) = (wishes[place].bounds.min(), claims[place].bounds.min());
        wish.saturating_sub(has)
    };
    let extra = extra_rights(wished, leaves, (0..wished.len()).map(more).collect(), {
        let rights: Millicores = claims.iter().map(|claim| claim.bounds.min()).sum();
        capacity.saturating_sub(rights)
    });
    let factors = weight_factors(wished, leaves);
    for (place, claim) in claims.iter_mut().enumerate() {
        let right = claim.bounds.min() + extra[place];
        let max = wishes[place].bounds.max().max(right);
        let weight = wishes[place].weight.scale_nearest(factors[wished[place].owner]);
        *claim = Claim { bounds: Bounds::new(right, max), weight };
    }
    claims
}

// === impl Leave ===

impl Default for Leave {
    fn default() -> Self {
        Self { rights: Millicores::UNLIMITED, max: Millicores::UNLIMITED, priority: Weight::ONE }
    }
}

/// The workload with a min that is no more than it requested.
fn without_wish(one: &Wished, leaves: &[Leave]) -> Known {
    let known = within_max(one, leaves);
    let requested = known.came_with.request.unwrap_or(Millicores::ZERO);
    Known { min: known.min.map(|min| min.min(requested)), ..known }
}

/// The workload with a max that its owner is allowed. What it requested, it may have.
fn within_max(one: &Wished, leaves: &[Leave]) -> Known {
    let Leave { max: most, .. } = leaves[one.owner];
    if most.is_unlimited() {
        return one.known;
    }
    let requested = one.known.came_with.request.unwrap_or(Millicores::ZERO);
    let most = most.max(requested);
    let max = one.known.max.map_or(most, |max| max.min(most));
    Known { min: one.known.min.map(|min| min.min(most)), max: Some(max), ..one.known }
}

/// How much of the rights above what was requested each workload gets: what is spare is shared
/// equally by the owners, and within one by what its workloads wish for.
fn extra_rights(
    wished: &[Wished],
    leaves: &[Leave],
    wishes: Vec<Millicores>,
    spare: Millicores,
) -> Vec<Millicores> {
    let mut of_owner = vec![Millicores::ZERO; leaves.len()];
    for (one, wish) in wished.iter().zip(&wishes) {
        of_owner[one.owner] += *wish;
    }
    let claims = of_owner.iter().zip(leaves).map(|(wish, leave)| market::Claim {
        cap: u128::from(wish.min(&leave.rights).get()),
        pull: 1,
    });
    let shares = fill(spare, claims).shares;
    let each = wished.iter().zip(wishes).map(|(one, wish)| {
        let share = Millicores::new(shares[one.owner]);
        if wish == Millicores::ZERO { wish } else { share.share_floor(wish, of_owner[one.owner]) }
    });
    each.collect()
}

/// What the wished weights of each owner are multiplied by, so that priorities order its own
/// workloads only.
fn weight_factors(wished: &[Wished], leaves: &[Leave]) -> Vec<Ratio> {
    let mut sums = vec![(0_u64, 0_u64); leaves.len()];
    for Wished { owner, known, usual_priority } in wished {
        let weight = |priority: &Weight| {
            let factor = u64::from(priority.thousandths());
            u64::from(known.share.thousandths()).saturating_mul(factor)
        };
        let (usual, wish) = &mut sums[*owner];
        *usual = usual.saturating_add(weight(usual_priority));
        *wish = wish.saturating_add(weight(&known.priority));
    }
    let factor = |((usual, wish), leave): (&(u64, u64), &Leave)| {
        let allowed = u128::from(*usual) * u128::from(leave.priority.thousandths()) / 1000;
        // Rounded down, so that it is never more than is allowed.
        let millionths = allowed * 1_000_000 / u128::from(*wish).max(1);
        Ratio::from_millionths(u64::try_from(millionths).unwrap_or(u64::MAX)).at_most_one()
    };
    sums.iter().zip(leaves).map(factor).collect()
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::claim::{CameWith, Nature, share_of_request};
    use crate::profile::CapRule;

    const GROUND: Ground = Ground {
        cap_rule: CapRule::Loose,
        baseline: Millicores::ZERO,
        node: Millicores::new(4000),
        respect_limits: false,
    };

    /// Whose, request and min in millicores (0 for none), priority in tenths.
    fn one((owner, request, min, priority): (usize, u64, u64, u32)) -> Wished {
        let request = Millicores::new(request);
        let known = Known {
            came_with: CameWith { request: Some(request), limit: None, weight: None },
            min: (min > 0).then(|| Millicores::new(min)),
            max: None,
            share: share_of_request(request),
            priority: Weight::from_thousandths(priority * 100).unwrap(),
            nature: Nature::Unknown,
        };
        Wished { owner, known, usual_priority: Weight::ONE }
    }

    /// Every right, and every weight in thousands of the request of one millicore.
    fn check(all: &[(usize, u64, u64, u32)], leaves: &[Leave], capacity: u64) -> String {
        let wished: Vec<Wished> = all.iter().copied().map(one).collect();
        let claims = claims(&wished, leaves, &GROUND, Millicores::new(capacity));
        let each = claims.iter().map(|claim| {
            alloc::format!("{}:{}", claim.bounds.min(), claim.weight.thousandths() / 1000)
        });
        each.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn without_wishes_everybody_has_what_it_requested() {
        let all = [(0, 100, 0, 10), (1, 300, 0, 10), (1, 50, 50, 10)];
        assert_eq!(check(&all, &[Leave::default(); 2], 1000), "100m:100 300m:300 50m:50");
    }

    #[test]
    fn a_right_above_the_request_comes_out_of_what_nobody_requested() {
        let greedy = [(0, 10, 16_000, 10), (1, 900, 0, 10)];
        assert_eq!(check(&greedy, &[Leave::default(); 2], 910), "10m:10 900m:900", "it is full");
        assert_eq!(check(&greedy, &[Leave::default(); 2], 1000), "100m:10 900m:900");
        let leaves = [Leave { rights: Millicores::new(40), ..Leave::default() }, Leave::default()];
        assert_eq!(check(&greedy, &leaves, 1000), "50m:10 900m:900", "the administrator's bound");
    }

    #[test]
    fn owners_share_what_nobody_requested_equally_however_many_workloads_they_have() {
        let mut all = vec![(1, 100, 500, 10)];
        all.extend([(0, 10, 1000, 10); 10]);
        let rights = check(&all, &[Leave::default(); 2], 1000);
        assert_eq!(rights.split(' ').next(), Some("500m:100"));
        let mut others = rights.split(' ').skip(1);
        assert!(others.all(|each| each == "50m:10"), "400m for ten: {rights}");
    }

    #[test]
    fn priorities_order_the_workloads_of_one_owner_and_take_nothing_from_others() {
        let all = [(0, 100, 0, 100), (0, 100, 0, 10), (1, 200, 0, 10)];
        assert_eq!(check(&all, &[Leave::default(); 2], 400), "100m:181 100m:18 200m:200");
        let leave = Leave { priority: Weight::from_thousandths(3000).unwrap(), ..Leave::default() };
        let allowed = check(&all, &[leave, Leave::default()], 400);
        assert_eq!(allowed, "100m:545 100m:54 200m:200", "three times as much, if allowed");
        let lowered = [(0, 100, 0, 1), (1, 200, 0, 10)];
        assert_eq!(check(&lowered, &[Leave::default(); 2], 400), "100m:10 200m:200");
    }

    #[test]
    fn the_most_is_what_the_administrator_says_and_never_less_than_the_request() {
        let leave = Leave { max: Millicores::new(300), ..Leave::default() };
        let max = |request: u64, max: Option<u64>| {
            let mut wished = one((0, request, 0, 10));
            wished.known.max = max.map(Millicores::new);
            claims(&[wished], &[leave], &GROUND, Millicores::new(4000))[0].bounds.max().get()
        };
        assert_eq!(max(100, None), 300);
        assert_eq!(max(100, Some(200)), 200);
        assert_eq!(max(100, Some(2000)), 300);
        assert_eq!(max(500, Some(2000)), 500);
    }
}
