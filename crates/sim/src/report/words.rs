//! What is said about a scenario in words: what it is, and how the market did in it.

use super::number::{count, duration, short, trimmed};
use super::{LIMITLESS, MARKET, ORACLE};
use crate::contest::Standing;
use crate::run::cores;
use crate::scenario::Scenario;

/// What a scenario is, and how large.
#[must_use]
pub fn introduction(scenario: &Scenario) -> String {
    let Scenario { about, seed, duration_s, node, nodes, pods, .. } = scenario;
    let nodes = count(usize::try_from(*nodes).unwrap_or(usize::MAX), "node");
    let size = trimmed(cores(node.capacity), 3);
    let size = if size == "1" { "1 core".to_owned() } else { format!("{size} cores") };
    let each = if scenario.nodes == 1 { "" } else { " each" };
    let pods = count(pods.len(), "pod");
    let length = duration(*duration_s);
    format!("{about} {nodes} of {size} with {pods}{each}, {length}, seed {seed}.")
}

/// A policy with the setting that was found for it.
#[must_use]
pub fn name(standing: &Standing) -> String {
    match &standing.setting {
        Some(setting) => format!("{} ({setting})", standing.policy),
        None => standing.policy.to_owned(),
    }
}

/// How the market did beside its best rival; nothing where it did not take part.
#[must_use]
pub fn comparison(standings: &[Standing]) -> Option<String> {
    let ours = standings.iter().find(|standing| standing.policy == MARKET)?;
    let rivals = || standings.iter().filter(|standing| is_rival(standing.policy));
    let limited = |standing: &&Standing| !LIMITLESS.contains(&standing.policy);
    let mut text = format!(
        "{MARKET}: {} core-hours and {} violation {}",
        short(ours.figures.core_hours),
        short(ours.figures.slo_violation_minutes),
        if ours.figures.slo_violation_minutes == 1.0 { "minute" } else { "minutes" },
    );
    text += &match best(rivals().filter(limited)) {
        Some(rival) => {
            format!("; the best rival by violations, {}, {}", name(rival), figures_of(rival))
        }
        None => "; no rival that sets limits took part".to_owned(),
    };
    if let Some(rival) = best(rivals().filter(|standing| !limited(standing))) {
        text += &format!("; without limits ({}), {}", name(rival), figures_of(rival));
    }
    Some(text)
}

fn figures_of(standing: &Standing) -> String {
    let figures = &standing.figures;
    format!("{} and {}", short(figures.core_hours), short(figures.slo_violation_minutes))
}

/// The fewest violations, then the fewest core-hours.
fn best<'a>(rivals: impl Iterator<Item = &'a Standing>) -> Option<&'a Standing> {
    rivals.min_by(|a, b| {
        let (a, b) = (&a.figures, &b.figures);
        let by_violations = a.slo_violation_minutes.total_cmp(&b.slo_violation_minutes);
        by_violations.then(a.core_hours.total_cmp(&b.core_hours))
    })
}

/// Variants of the market are no rivals of it, and nobody competes with who knows the future.
fn is_rival(policy: &str) -> bool {
    policy != ORACLE && policy != MARKET && !policy.starts_with("walras-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{scenario, standing};

    #[test]
    fn a_scenario_is_told_in_a_sentence_with_its_size() {
        let mut scenario = scenario(&["web", "batch"]);
        assert_eq!(
            introduction(&scenario),
            "A sample. 1 node of 4 cores with 2 pods, 2 minutes, seed 7."
        );
        scenario.nodes = 20;
        scenario.pods.truncate(1);
        scenario.duration_s = 5400;
        assert_eq!(
            introduction(&scenario),
            "A sample. 20 nodes of 4 cores with 1 pod each, 1.5 hours, seed 7."
        );
    }

    fn check(standings: &[(&'static str, f64, f64)]) -> Option<String> {
        let standings: Vec<Standing> = standings
            .iter()
            .map(|&(policy, core_hours, minutes)| standing(policy, core_hours, minutes))
            .collect();
        comparison(&standings)
    }

    #[test]
    fn the_market_is_compared_with_its_best_rival() {
        assert_eq!(
            check(&[
                ("static", 3.0, 40.0),
                ("autothrottle", 11.84, 18.0),
                ("vpa", 12.0, 18.0),
                ("walras", 8.71, 3.0),
                ("walras-api", 1.0, 0.0),
                ("oracle", 1.0, 0.0),
            ])
            .expect("it took part"),
            "walras: 8.71 core-hours and 3 violation minutes; the best rival by violations, \
             autothrottle (target 0.02), 11.8 and 18"
        );
    }

    #[test]
    fn who_sets_no_limits_is_told_apart() {
        assert_eq!(
            check(&[("weights", 96.0, 0.0), ("vpa", 12.0, 1.0), ("walras", 8.0, 1.0)]).as_deref(),
            Some(
                "walras: 8 core-hours and 1 violation minute; the best rival by violations, vpa, \
                 12 and 1; without limits (weights), 96 and 0"
            )
        );
        assert_eq!(
            check(&[("walras", 8.0, 0.0), ("oracle", 5.0, 0.0)]).as_deref(),
            Some(
                "walras: 8 core-hours and 0 violation minutes; no rival that sets limits took part"
            )
        );
        assert_eq!(check(&[("static", 8.0, 0.0)]), None);
    }
}
