//! Makes the values of all workloads add up, whatever damping wanted to keep.
//!
//! Requests together are at most capacity: if held values stand in the way, those that stand above
//! its grant goes down to it. Limits together are at most the over-commit budget: what exceeds the
//! workloads' floors shares the room by weight. Both are no-ops where the sums fit.

use alloc::vec::Vec;

use super::{exceeds, falls_below, round_down_keeping};
use crate::market::{Claim, fill};
use crate::profile::Profile;
use crate::units::{Millicores, Weight};

/// One workload's limit on its way to fitting the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// What it should keep.
    pub floor: Millicores,
    /// What it must keep, whatever rounding says: its request.
    pub request: Millicores,
    /// What it would have.
    pub limit: Millicores,
    /// What its claim on the room counts for.
    pub weight: Weight,
}

/// One workload's request on its way to fitting capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// What the market granted.
    pub grant: Millicores,
    /// What it would have.
    pub request: Millicores,
    /// The workload's min.
    pub min: Millicores,
}

/// One value of one workload, before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// What is in force.
    pub in_force: Millicores,
    /// What is planned.
    pub planned: Millicores,
    /// What the workload must have: to keep less than this in force is no choice.
    pub must: Millicores,
}

/// Takes back moves that are inside their bands, as far as the budget allows. Making sums fit moves
/// everybody a little, and a little is not worth a change.
pub fn keep_inside_bands(profile: &Profile, budget: Millicores, moves: &mut [Move]) {
    for one in moves.iter_mut() {
        let raise = one.planned > one.in_force;
        if raise
            && one.must <= one.in_force
            && !exceeds(one.planned, one.in_force, profile.raise_band)
        {
            one.planned = one.in_force;
        }
    }
    let total: Millicores = moves.iter().map(|one| one.planned).sum();
    let mut room = budget.saturating_sub(total);
    for one in moves {
        let more = one.in_force.saturating_sub(one.planned);
        if more <= room && !falls_below(one.planned, one.in_force, profile.shrink_band) {
            one.planned += more;
            room = room.saturating_sub(more);
        }
    }
}

/// Lowers requests above their grants if all of them together exceed capacity. Says whether it did.
pub fn fit_requests(profile: &Profile, capacity: Millicores, workloads: &mut [Guarantee]) -> bool {
    let total: Millicores = workloads.iter().map(|workload| workload.request).sum();
    if total <= capacity {
        return false;
    }
    for workload in workloads {
        workload.request =
            workload.request.min(round_down_keeping(workload.grant, workload.min, profile));
    }
    true
}

/// Lowers limits towards their floors if all of them together exceed the budget. Says whether it
/// did. Floors that do not fit either are the caller's to answer for.
pub fn fit_limits(profile: &Profile, budget: Millicores, workloads: &mut [Cap]) -> bool {
    let total: Millicores = workloads.iter().map(|workload| workload.limit).sum();
    if total <= budget {
        return false;
    }
    let floors: Millicores = workloads.iter().map(|workload| workload.floor).sum();
    let room = budget.saturating_sub(floors);
    let claims = workloads.iter().map(|workload| Claim {
        cap: u128::from(workload.limit.saturating_sub(workload.floor).get()),
        pull: u128::from(workload.weight.thousandths()),
    });
    let shares: Vec<u64> = fill(room, claims).shares;
    let mut cut: Vec<(usize, Millicores)> = Vec::new();
    for (place, (workload, share)) in workloads.iter_mut().zip(shares).enumerate() {
        let limit = workload.floor + Millicores::new(share);
        if limit < workload.limit {
            cut.push((place, workload.limit));
            // Rounded down, unlike a limit that has room: the sum must hold.
            workload.limit = round_down_keeping(limit, workload.request, profile);
        }
    }
    give_back_rounding(profile.rounding_milli, budget, workloads, &cut);
    true
}

/// Hands out what rounding left of the budget, a step each, to those that were cut. Room that
/// none has would only tempt the fast loop to give it to the first that asks.
fn give_back_rounding(
    step: Millicores,
    budget: Millicores,
    workloads: &mut [Cap],
    cut: &[(usize, Millicores)],
) {
    let total: Millicores = workloads.iter().map(|workload| workload.limit).sum();
    let mut left = budget.saturating_sub(total);
    for &(place, wanted) in cut {
        let limit = &mut workloads[place].limit;
        let more = (*limit + step).round_down_to(step).min(wanted).saturating_sub(*limit);
        if more <= left {
            *limit += more;
            left = left.saturating_sub(more);
        }
    }
}
