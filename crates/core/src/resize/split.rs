//! Divides a pod's CPU among its containers, to the last millicore.
//!
//! Both functions give each container the whole part of its exact share and hand what is left, one
//! millicore each, to the largest remainders, the earlier container first where two are equal. The
//! parts always add up to exactly the total.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::units::Millicores;

/// Divides `total` in proportion to `weights`, each part at least `minimum` where the total allows
/// that for all, and otherwise as near to it as an equal split comes.
///
/// Nothing, where the total cannot give everyone a millicore. Weights are not zero.
pub(super) fn in_proportion(
    total: Millicores,
    weights: &[Millicores],
    minimum: Millicores,
) -> Option<Vec<Millicores>> {
    let count = u64::try_from(weights.len()).ok()?;
    let minimum = minimum.get().min(total.get().checked_div(count)?);
    if minimum == 0 {
        return None;
    }

    // A container that falls short of the minimum is given it and leaves; that shrinks the shares
    // of the others, so it is asked again until none falls short. The others never all do: what is
    // left is at least the minimum for each of them.
    let mut sharing: Vec<usize> = (0..weights.len()).collect();
    let mut rest = total.get();
    loop {
        let whole = sum(sharing.iter().map(|at| weights[*at]));
        let falls_short = |at: &usize| {
            u128::from(rest) * u128::from(weights[*at].get()) < u128::from(minimum) * whole
        };
        let staying: Vec<usize> = sharing.iter().copied().filter(|at| !falls_short(at)).collect();
        let leaving = sharing.len() - staying.len();
        sharing = staying;
        if leaving == 0 {
            break;
        }
        rest = rest.saturating_sub(minimum.saturating_mul(leaving as u64));
    }

    let kept: Vec<Millicores> = sharing.iter().map(|at| weights[*at]).collect();
    let mut parts = vec![Millicores::new(minimum); weights.len()];
    for (at, part) in sharing.into_iter().zip(by_largest_remainder(Millicores::new(rest), &kept)) {
        parts[at] = part;
    }
    Some(parts)
}

/// Divides `total` in proportion to `caps`, whose sum it is not above, so that no part is above its
/// cap: an exact share below a whole number is rounded up to at most that number.
pub(super) fn within(total: Millicores, caps: &[Millicores]) -> Vec<Millicores> {
    debug_assert!(u128::from(total.get()) <= sum(caps.iter().copied()));
    by_largest_remainder(total, caps)
}

fn by_largest_remainder(total: Millicores, weights: &[Millicores]) -> Vec<Millicores> {
    let whole = sum(weights.iter().copied()).max(1);
    let mut parts = Vec::with_capacity(weights.len());
    let mut remainders = Vec::with_capacity(weights.len());
    for (at, weight) in weights.iter().enumerate() {
        let product = u128::from(total.get()) * u128::from(weight.get());
        let part = u64::try_from(product / whole).expect("a share is at most its 64-bit total");
        parts.push(Millicores::new(part));
        remainders.push((Reverse(product % whole), at));
    }
    // Fewer millicores are left than there are containers with a remainder.
    let left = total.saturating_sub(parts.iter().copied().sum());
    remainders.sort_unstable();
    for (_, (_, at)) in (0..left.get()).zip(remainders) {
        parts[at] += Millicores::new(1);
    }
    parts
}

/// The sum in 128 bits, which no number of containers can fill.
fn sum(weights: impl Iterator<Item = Millicores>) -> u128 {
    weights.map(|weight| u128::from(weight.get())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn check(total: u64, weights: &[u64]) -> Option<Vec<u64>> {
        let weights: Vec<Millicores> = weights.iter().copied().map(Millicores::new).collect();
        let parts = in_proportion(Millicores::new(total), &weights, Millicores::new(10));
        parts.map(|parts| parts.into_iter().map(Millicores::get).collect())
    }

    #[test]
    fn shares_follow_the_weights_to_the_last_millicore() {
        assert_eq!(check(1000, &[100]), Some(vec![1000]));
        assert_eq!(check(900, &[200, 100]), Some(vec![600, 300]));
        // 66.67, 33.33: the larger remainder gets the millicore.
        assert_eq!(check(100, &[200, 100]), Some(vec![67, 33]));
        // Equal remainders: the first containers get them.
        assert_eq!(check(101, &[5, 5, 5]), Some(vec![34, 34, 33]));
    }

    #[test]
    fn the_minimum_is_taken_from_those_above_it() {
        assert_eq!(check(1000, &[10_000, 1]), Some(vec![990, 10]));
        // The exact shares are 14, 9 and 7: the last two leave with 10 each, and 10 are left.
        assert_eq!(check(30, &[140, 90, 70]), Some(vec![10, 10, 10]));
        // The second has 10.88 of 31, until the third has left and it has 7.45 of 21.
        assert_eq!(check(31, &[60, 33, 1]), Some(vec![11, 10, 10]));
    }

    #[test]
    fn a_total_below_the_minimum_for_all_is_split_almost_equally() {
        assert_eq!(check(29, &[1000, 1, 1]), Some(vec![11, 9, 9]));
        assert_eq!(check(3, &[1000, 1, 1]), Some(vec![1, 1, 1]));
        assert_eq!(check(2, &[1000, 1, 1]), None);
        assert_eq!(check(0, &[1000]), None);
        assert_eq!(check(100, &[]), None);
    }

    #[test]
    fn the_largest_numbers_are_divided_too() {
        assert_eq!(check(u64::MAX, &[u64::MAX, u64::MAX]), {
            Some(vec![u64::MAX / 2 + 1, u64::MAX / 2])
        });
    }

    #[test]
    fn any_split_adds_up_and_stays_within_a_millicore_of_its_share() {
        for seed in 0..20_000 {
            let mut rng = Rng::from_seed(seed);
            let mut draw = || {
                let bits = rng.below(30);
                rng.below(1 << bits) + 1
            };
            let total = draw();
            let weights: Vec<u64> = (0..draw() % 6 + 1).map(|_| draw()).collect();
            let Some(parts) = check(total, &weights) else {
                assert!(total < weights.len() as u64, "seed {seed}");
                continue;
            };
            assert_eq!(parts.iter().sum::<u64>(), total, "seed {seed}");
            let minimum = 10.min(total / weights.len() as u64);
            assert!(parts.iter().all(|part| *part >= minimum), "seed {seed}: {parts:?}");

            let caps: Vec<Millicores> = parts.iter().copied().map(Millicores::new).collect();
            let request = Millicores::new(rng.below(total + 1));
            let requests = within(request, &caps);
            assert_eq!(requests.iter().copied().sum::<Millicores>(), request, "seed {seed}");
            let whole: u64 = parts.iter().sum();
            for (part, cap) in requests.iter().zip(&caps) {
                assert!(part <= cap, "seed {seed}: {requests:?} in {caps:?}");
                let exact = u128::from(request.get()) * u128::from(cap.get());
                let given = u128::from(part.get()) * u128::from(whole);
                assert!(exact.abs_diff(given) < u128::from(whole), "seed {seed}");
            }
        }
    }
}
