//! A clearing in one sentence: what happened and why; and its sums in another.

use walras_core::market::{Clearing, Fairness, HYSTERESIS_BAND, Mode, Reason, SURVIVAL_FLOOR};
use walras_core::units::Millicores;
use walras_wire::market::Market;

use crate::screen::Look;

/// What happened, and why.
pub(super) fn what_happened(market: &Market, clearing: &Clearing, look: Look) -> String {
    let capacity = market.terms.capacity;
    let workloads = count(market.workloads().len());
    let story = match clearing.actual {
        _ if market.workloads().is_empty() => {
            format!("there are no pods, so all {capacity} stay free")
        }
        Mode::Uncongested => all_fits(market, clearing, &workloads),
        Mode::Congested => only_mins_fit(market, clearing, &workloads),
        Mode::Overloaded => nothing_fits(market, clearing, &workloads),
    };
    let mode = look.mode(clearing.mode, &capitalised(clearing.mode.name()));
    let kept = if clearing.mode == clearing.actual {
        String::new()
    } else {
        let percent = HYSTERESIS_BAND.millionths() / 10_000;
        format!(" (still called so, because needs are within {percent} % of capacity)")
    };
    format!("{mode}{kept}: {story}.")
}

/// The sums.
pub(super) fn totals(market: &Market, clearing: &Clearing) -> String {
    let Clearing { total_min, total_need, total_grant, price, multiplier, .. } = clearing;
    let capacity = market.terms.capacity;
    let floor = if market.lends() { "rights in use" } else { "min" };
    format!(
        "Total: {floor} {total_min}, need {total_need}, allocation {total_grant} of {capacity}. \
         Price {price}, multiplier {multiplier}."
    )
}

fn all_fits(market: &Market, clearing: &Clearing, workloads: &str) -> String {
    let capacity = market.terms.capacity;
    let free = capacity.saturating_sub(clearing.total_grant);
    let (asked, got) = asked_and_got(market, clearing);
    format!("{workloads} {asked} of {capacity}, so each gets {got} and {free} stay free")
}

fn only_mins_fit(market: &Market, clearing: &Clearing, workloads: &str) -> String {
    let capacity = market.terms.capacity;
    let rest = capacity.saturating_sub(clearing.total_min);
    let (asked, _) = asked_and_got(market, clearing);
    let most = if market.terms.demand_capped { "than it needs" } else { "than its max" };
    let kept = if market.lends() { "what it needs of its right" } else { "its min" };
    let fairness = market.terms.fairness;
    let rule = match (fairness, weights_differ(market)) {
        (Fairness::Proportional, false) => "in proportion to what they want above it".to_owned(),
        (Fairness::Proportional, true) => {
            "in proportion to what they want above it, times their weight".to_owned()
        }
        (Fairness::Nash, false) => format!("equally, but no pod gets more {most}"),
        (Fairness::Nash, true) => format!("by weight, but no pod gets more {most}"),
    };
    format!(
        "{workloads} {asked} of {capacity}, so each keeps {kept} and the remaining {rest} are \
         shared {rule} (fairness: {fairness})"
    )
}

fn nothing_fits(market: &Market, clearing: &Clearing, workloads: &str) -> String {
    let capacity = market.terms.capacity;
    let mins = clearing.total_min;
    let what = if market.lends() { "needed parts of the rights" } else { "mins" };
    let one = if market.lends() { "needed part of a right" } else { "min" };
    let has = |reason: Reason| clearing.grants.iter().any(|grant| grant.reason == reason);
    let rule = if capacity == Millicores::ZERO {
        return format!(
            "the {what} of {workloads} add up to {mins} and there is no CPU to share at all"
        );
    } else if has(Reason::EqualSplit) {
        format!("not even {SURVIVAL_FLOOR} for each, so all get about the same")
    } else if has(Reason::SurvivalFloor) {
        format!("so every {one} is scaled down alike, but to no less than {SURVIVAL_FLOOR}")
    } else {
        format!("so every {one} is scaled down alike")
    };
    format!("the {what} of {workloads} add up to {mins} and there are only {capacity}, {rule}")
}

/// What the workloads asked for together, and what each gets where that fits.
fn asked_and_got(market: &Market, clearing: &Clearing) -> (String, &'static str) {
    let need = clearing.total_need;
    let one = market.workloads().len() == 1;
    match (market.terms.demand_capped, one) {
        (true, true) => (format!("needs {need}"), "all it needs"),
        (true, false) => (format!("need {need}"), "all it needs"),
        (false, _) => (format!("may have up to {need}"), "its max"),
    }
}

fn weights_differ(market: &Market) -> bool {
    market.workloads().windows(2).any(|pair| pair[0].weight != pair[1].weight)
}

fn count(workloads: usize) -> String {
    if workloads == 1 { "1 pod".to_owned() } else { format!("{workloads} pods") }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::profile::Profile;
    use walras_wire::market;

    /// The sentence for a market of workloads that each need what is given, with a min of 100m.
    fn check(terms: &str, needs: &[u64]) -> String {
        check_as(&Profile::SEED, terms, needs)
    }

    fn check_as(profile: &Profile, terms: &str, needs: &[u64]) -> String {
        let workloads: Vec<String> = (0..)
            .zip(needs)
            .map(|(uid, need)| {
                format!(
                    r#"{{"uid": "{uid}", "demand": 0, "min_milli": 100, "max_milli": 2000,
                        "need_milli": {need}}}"#
                )
            })
            .collect();
        let json = format!("{{{terms}, \"pods\": [{}]}}", workloads.join(","));
        let market = market::read(json.as_bytes(), profile).unwrap();
        what_happened(&market, &market.clear(), Look::PLAIN)
    }

    #[test]
    fn an_uncongested_market_tells_what_is_left() {
        assert_eq!(
            check(r#""capacity_milli": 1000"#, &[300, 400]),
            "Uncongested: 2 pods need 700m of 1000m, so each gets all it needs and 300m stay free."
        );
        assert_eq!(
            check(r#""capacity_milli": 1000"#, &[300]),
            "Uncongested: 1 pod needs 300m of 1000m, so each gets all it needs and 700m stay free."
        );
        assert_eq!(
            check(r#""capacity_milli": 5000, "demand_capped": false"#, &[300, 400]),
            "Uncongested: 2 pods may have up to 4000m of 5000m, so each gets its max and 1000m \
             stay free."
        );
        assert_eq!(
            check(r#""capacity_milli": 1000"#, &[]),
            "Uncongested: there are no pods, so all 1000m stay free."
        );
    }

    #[test]
    fn a_congested_market_tells_how_the_rest_is_shared() {
        assert_eq!(
            check(r#""capacity_milli": 1000"#, &[600, 700]),
            "Congested: 2 pods need 1300m of 1000m, so each keeps its min and the remaining 800m \
             are shared in proportion to what they want above it (fairness: proportional)."
        );
        assert_eq!(
            check(r#""capacity_milli": 1000, "fairness": "nash""#, &[600, 700]),
            "Congested: 2 pods need 1300m of 1000m, so each keeps its min and the remaining 800m \
             are shared equally, but no pod gets more than it needs (fairness: nash)."
        );
    }

    #[test]
    fn where_rights_are_lent_only_what_is_needed_of_them_is_kept() {
        assert_eq!(
            check_as(&Profile::DIRECT, r#""capacity_milli": 1000"#, &[20, 600, 700]),
            "Congested: 3 pods need 1320m of 1000m, so each keeps what it needs of its right and \
             the remaining 780m are shared equally, but no pod gets more than it needs (fairness: \
             nash)."
        );
        assert_eq!(
            check_as(&Profile::DIRECT, r#""capacity_milli": 150"#, &[100, 100]),
            "Overloaded: the needed parts of the rights of 2 pods add up to 200m and there are \
             only 150m, so every needed part of a right is scaled down alike."
        );
    }

    #[test]
    fn a_label_that_was_kept_is_explained() {
        assert_eq!(
            check(r#""capacity_milli": 1000, "previous_mode": "congested""#, &[480, 480]),
            "Congested (still called so, because needs are within 5 % of capacity): 2 pods need \
             960m of 1000m, so each gets all it needs and 40m stay free."
        );
    }

    #[test]
    fn an_overloaded_market_tells_what_becomes_of_the_mins() {
        assert_eq!(
            check(r#""capacity_milli": 150"#, &[100, 100]),
            "Overloaded: the mins of 2 pods add up to 200m and there are only 150m, so every min \
             is scaled down alike."
        );
        assert_eq!(
            check(r#""capacity_milli": 15"#, &[100, 100]),
            "Overloaded: the mins of 2 pods add up to 200m and there are only 15m, not even \
             10m for each, so all get about the same."
        );
    }

    #[test]
    fn a_node_without_capacity_is_told_as_such() {
        assert_eq!(
            check(r#""capacity_milli": 0"#, &[100, 100]),
            "Overloaded: the mins of 2 pods add up to 200m and there is no CPU to share at all."
        );
    }
}
