//! What a search came to, for people: what changed, how it does where it was searched and where it
//! was not, and how to use it.

use std::io::Write;

use serde_json::Value as Json;
use walras_sim::measure::Figures;
use walras_sim::report::number::{count, short};

use super::super::table::columns;
use super::asked::Asked;
use super::{Found, Judged, OnScenario, json};
use crate::failure::Failure;
use crate::screen::Look;

/// Prints all of it.
pub(super) fn print(
    output: &mut impl Write,
    asked: &Asked,
    found: &Found,
    look: Look,
) -> Result<(), Failure> {
    let Found { changes, evaluations, train, test } = found;
    let sets = usize::try_from(*evaluations).unwrap_or(usize::MAX);
    let profile = look.heading(&format!("{}:", asked.profile.name()));
    let sets = count(sets, "set");
    writeln!(output, "{profile} {sets} of constants tried, {}.\n", fell(train))?;
    if changes.is_empty() {
        writeln!(output, "Nothing that was tried is better than the present constants.\n")?;
    } else {
        let rows = changes.iter().map(|change| {
            let saved = short(change.saved_core_hours);
            [change.key.to_owned(), change.from.to_string(), change.to.to_string(), saved]
        });
        let headings = ["constant", "from", "to", "saved, core-h"];
        columns(output, &headings, rows, &[1, 2, 3], look)?;
        writeln!(output)?;
    }
    let rows = rows("train", train).chain(rows("test", test));
    let headings =
        ["suite", "scenario", "policy", "limit core-h", "SLO missed min", "resizes /pod-h"];
    columns(output, &headings, rows, &[3, 4, 5], look)?;
    writeln!(output, "\nOn the scenarios it has not seen, {}.", fell(test))?;
    if !changes.is_empty() {
        let keys = Json::Object(json::config(asked, found)).to_string();
        writeln!(
            output,
            "To use it, give these keys where constants are set, as in the config line of \
             `walras replay`:\n  {}",
            keys.trim_start_matches('{').trim_end_matches('}')
        )?;
    }
    Ok(())
}

/// How the cost changed.
fn fell(judged: &Judged) -> String {
    let (before, after) = (short(judged.cost_before), short(judged.cost_after));
    if judged.cost_before == judged.cost_after {
        return format!("the cost stayed at {before} core-hours");
    }
    let verb = if judged.cost_after < judged.cost_before { "fell" } else { "rose" };
    format!("the cost {verb} from {before} to {after} core-hours")
}

fn rows<'a>(suite: &'a str, judged: &'a Judged) -> impl Iterator<Item = [String; 6]> + 'a {
    judged.scenarios.iter().flat_map(move |on| policies(on, suite))
}

fn policies(on: &OnScenario, suite: &str) -> Vec<[String; 6]> {
    let row = |policy: String, figures: &Figures| {
        [
            suite.to_owned(),
            on.name.clone(),
            policy,
            short(figures.core_hours),
            short(figures.slo_violation_minutes),
            short(figures.resizes_per_pod_hour),
        ]
    };
    let mut rows = vec![row("before".to_owned(), &on.before), row("after".to_owned(), &on.after)];
    for rival in &on.rivals {
        let name = match &rival.setting {
            Some(setting) => format!("{} ({setting})", rival.policy),
            None => rival.policy.to_owned(),
        };
        rows.push(row(name, &rival.figures));
    }
    rows
}
