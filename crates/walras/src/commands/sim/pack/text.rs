//! What a contest over nodes came to, for people: a sentence, a table, and comparisons.

use std::io::Write;

use walras_sim::pack::contest::PackStanding;
use walras_sim::pack::frontier::LEVEL;
use walras_sim::pack::tally::PackFigures;
use walras_sim::report::number::{count, short, trimmed};

use super::super::table::columns;
use super::Outcome;
use crate::failure::Failure;
use crate::screen::Look;

/// Whose standings begin with this are ours.
const OURS: &str = "walras";
/// Those that everybody is compared with.
const RIVALS: [&str; 2] = ["vpa", "declared"];
const HEADINGS: [&str; 9] = [
    "policy",
    "setting",
    "nodes",
    "rights broken, ppm",
    "worst 1 %",
    "services missed, ppm",
    "slack, %",
    "changes/pod-h",
    "moves/pod-week",
];

/// Prints it all.
pub(super) fn print(
    output: &mut impl Write,
    outcome: &Outcome<'_>,
    look: Look,
) -> Result<(), Failure> {
    let name = look.heading(&format!("{}:", outcome.town.name));
    writeln!(output, "{name} {}\n", introduction(outcome))?;
    let rows = outcome.standings.iter().flat_map(rows);
    columns(output, &HEADINGS, rows, &[2, 3, 4, 5, 6, 7, 8], look)?;
    for verdict in verdicts(&outcome.standings) {
        writeln!(output, "\n{verdict}")?;
    }
    Ok(())
}

/// What was packed, in a few sentences.
pub(super) fn introduction(outcome: &Outcome<'_>) -> String {
    let (town, asked) = (outcome.town, outcome.asked);
    let cores = trimmed(f64::from(asked.recipe.node_cores), 0);
    let days = usize::try_from(asked.days).unwrap_or(usize::MAX);
    format!(
        "{}. {} with {}, on nodes of {cores} cores; {} after a week of history, seed {}. A right \
         is broken in a minute in which a pod gets less than 95 % of what it wants, up to what its \
         owner declared, in any second.",
        asked.recipe.about,
        count(town.workloads.len(), "workload"),
        count(town.pods.len(), "pod"),
        count(days, "day"),
        asked.size.seed,
    )
}

/// By default, and at the setting with the fewest nodes that breaks few enough rights.
fn rows(standing: &PackStanding) -> Vec<[String; 9]> {
    let usual = standing.points.iter().find(|(setting, _)| *setting == standing.usual);
    let best = standing.best_at(LEVEL).filter(|(setting, _)| *setting != standing.usual);
    let row = |point: &(u32, PackFigures), what: &str| {
        let (setting, it) = point;
        [
            standing.policy.to_owned(),
            format!("{setting} %{what}"),
            trimmed(it.nodes, 1),
            short(it.broken * 1e6),
            short(it.broken_worst * 1e6),
            short(it.missed * 1e6),
            trimmed(it.slack * 100.0, 0),
            short(it.changes_per_pod_hour),
            short(it.moves_per_pod_hour * 168.0),
        ]
    };
    let usual = usual.map(|point| row(point, ", by default"));
    let best = best.map(|point| row(point, ", fewest nodes"));
    usual.into_iter().chain(best).collect()
}

/// How ours compare with the others, a sentence each.
pub(super) fn verdicts(standings: &[PackStanding]) -> Vec<String> {
    let named = |name: &str| standings.iter().find(|standing| standing.policy == name);
    let percent = |fewer: f64| {
        let (amount, word) = if fewer < 0.0 { (-fewer, "more") } else { (fewer, "fewer") };
        format!("{} % {word}", trimmed(amount * 100.0, 1))
    };
    let mut verdicts = Vec::new();
    for ours in standings.iter().filter(|standing| standing.policy.starts_with(OURS)) {
        for rival in RIVALS.iter().filter_map(|rival| named(rival)) {
            let found = ours.against(rival);
            let usual = found
                .fewer_than_default
                .map(|fewer| format!("{} nodes than it by default, at its misses", percent(fewer)));
            let best = found.fewer_than_best.map(|fewer| {
                format!(
                    "{} nodes with the best setting of both at {} ppm",
                    percent(fewer),
                    short(LEVEL * 1e6)
                )
            });
            let parts: Vec<String> = usual.into_iter().chain(best).collect();
            if !parts.is_empty() {
                verdicts.push(format!(
                    "{} beside {}: {}",
                    ours.policy,
                    rival.policy,
                    parts.join("; ")
                ));
            }
        }
    }
    verdicts
}
