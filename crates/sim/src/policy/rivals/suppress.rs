//! Koordinator's suppression of best-effort pods (koordlet, policy `cfsQuota`): what batch work may
//! use together, so that it leaves the node to the others.
//!
//! Every second: the budget is 65 % of the node less what all other pods use. It rises by at most
//! 10 % of the node at a time, falls at once, is never less than 2 ms per period of 100 ms, and is
//! left as it is when it would change by less than 1 % of the node.
//!
//! Simplified: the original sets one quota on the group that holds all best-effort pods. Groups
//! have no groups in them here, so the budget is divided among the pods by their requests, up to
//! their declared limits; what one does not use is not passed on to another within the second.

use walras_core::units::{Millicores, Ratio};

/// Of the node, for all pods together.
const THRESHOLD: Ratio = Ratio::from_percent(65);
/// The largest rise, of the node.
const RISE: Ratio = Ratio::from_percent(10);
/// The smallest change, of the node.
const BAND: Ratio = Ratio::from_percent(1);
/// The least budget: a quota of 2000 us per period.
const LEAST: Millicores = Millicores::new(20);

/// What best-effort pods may use together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suppress {
    capacity: Millicores,
    /// None while nothing was set, which is no limit at all.
    budget: Option<Millicores>,
}

/// A pod's part in dividing the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// What it counts for.
    pub(super) request: Millicores,
    /// The most it may have.
    pub(super) most: Millicores,
}

impl Suppress {
    pub(super) const fn new(capacity: Millicores) -> Self {
        Self { capacity, budget: None }
    }

    /// Another second passed, in which the other pods used this much. Says what is left for the
    /// best-effort ones.
    pub(super) fn second_passed(&mut self, others: Millicores) -> Millicores {
        let wanted = self.capacity.scale_floor(THRESHOLD).saturating_sub(others).max(LEAST);
        let budget = match self.budget {
            None => wanted,
            Some(before) if before.abs_diff(wanted) < self.capacity.scale_floor(BAND) => before,
            Some(before) => wanted.min(before + self.capacity.scale_floor(RISE)),
        };
        self.budget = Some(budget);
        budget
    }

    /// What is left for the best-effort pods; the threshold before anything was measured.
    pub(super) fn budget(&self) -> Millicores {
        self.budget.unwrap_or(self.capacity.scale_floor(THRESHOLD))
    }
}

/// Divides a budget by requests, up to what each may have. Always something for everybody, since a
/// limit of nothing would stop a pod for good.
pub(super) fn divide(budget: Millicores, parts: &[Part]) -> Vec<Millicores> {
    let mut shares: Vec<Option<Millicores>> = vec![None; parts.len()];
    let mut left = budget;
    loop {
        let open = || (0..parts.len()).filter(|&place| shares[place].is_none());
        let requests: Millicores = open().map(|place| parts[place].request).sum();
        let share = |place: usize| left.share_floor(parts[place].request, requests);
        let full: Vec<usize> = open().filter(|&place| parts[place].most <= share(place)).collect();
        if full.is_empty() {
            let share = |place: usize| shares[place].unwrap_or_else(|| share(place));
            return (0..parts.len()).map(|place| share(place).max(Millicores::new(1))).collect();
        }
        for place in full {
            shares[place] = Some(parts[place].most);
            left = left.saturating_sub(parts[place].most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(others: &[u64]) -> Vec<u64> {
        let mut suppress = Suppress::new(Millicores::from_cores(10));
        let budget = |&others| suppress.second_passed(Millicores::new(others)).get();
        others.iter().map(budget).collect()
    }

    #[test]
    fn the_budget_is_65_percent_of_the_node_less_what_others_use() {
        assert_eq!(budgets(&[2000]), [4500]);
        assert_eq!(budgets(&[6490, 9000]), [20, 20], "never less than 2 ms per period");
    }

    #[test]
    fn it_falls_at_once_and_rises_by_a_tenth_of_the_node() {
        assert_eq!(
            budgets(&[0, 5000, 1000, 1000, 1000, 1000, 1000]),
            [6500, 1500, 2500, 3500, 4500, 5500, 5500]
        );
    }

    #[test]
    fn a_change_of_less_than_one_percent_of_the_node_is_not_made() {
        assert_eq!(budgets(&[2000, 2099, 1901, 2100, 2000]), [4500, 4500, 4500, 4400, 4500]);
    }

    #[test]
    fn it_is_divided_by_requests_up_to_the_limits() {
        let part =
            |request, most| Part { request: Millicores::new(request), most: Millicores::new(most) };
        let check = |budget, parts: &[Part]| -> Vec<u64> {
            divide(Millicores::new(budget), parts).iter().map(|share| share.get()).collect()
        };
        assert_eq!(check(4000, &[part(1000, 9000), part(3000, 9000)]), [1000, 3000]);
        assert_eq!(check(4000, &[part(1000, 9000), part(3000, 2000)]), [2000, 2000]);
        assert_eq!(check(4000, &[part(1000, 500), part(3000, 2000)]), [500, 2000]);
        assert_eq!(check(0, &[part(1000, 500)]), [1]);
        assert_eq!(check(4000, &[]), Vec::<u64>::new());
    }
}
