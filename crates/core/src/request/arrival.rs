//! What a new workload requests of a family that is known already.
//!
//! The same bounds hold as for a workload that is there: nothing less than declared before a day of
//! evidence, and not below half before a week of it. Never more than declared: whether there is
//! room for that only its node knows.

use super::{Evidence, FLOOR, KEPT_OF_THE_FIRST_WEEK};
use crate::units::Millicores;

/// What a workload that comes with `original` requests at first.
#[must_use]
pub fn at_arrival(
    original: Millicores,
    suggested: Option<Millicores>,
    evidence: Evidence,
) -> Millicores {
    let Some(suggested) = suggested.filter(|_| evidence >= Evidence::A_DAY) else {
        return original;
    };
    let half = original.scale_ceil(KEPT_OF_THE_FIRST_WEEK);
    let least = if evidence < Evidence::A_WEEK { half } else { FLOOR };
    suggested.max(least).min(original)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{DAY_WINDOWS, WEEK_WINDOWS};

    #[test]
    fn a_new_workload_gets_what_its_family_is_known_to_use() {
        let at = |suggested, windows| {
            let suggested = Some(Millicores::new(suggested));
            at_arrival(Millicores::new(400), suggested, Evidence::of_windows(windows)).get()
        };
        assert_eq!(at(100, DAY_WINDOWS - 1), 400, "not before a day");
        assert_eq!(at(100, DAY_WINDOWS), 200, "not below half before a week");
        assert_eq!(at(100, WEEK_WINDOWS), 100);
        assert_eq!(at(0, WEEK_WINDOWS), 10, "a workload that requests nothing has no weight");
        assert_eq!(at(900, WEEK_WINDOWS), 400, "its node may raise it");
        assert_eq!(at_arrival(Millicores::new(400), None, Evidence::A_WEEK).get(), 400);
    }
}
