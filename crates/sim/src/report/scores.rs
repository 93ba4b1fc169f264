//! The table of a scenario as data: one row per policy, one column per figure, the best marked.
//!
//! The command prints it as text, the report as HTML.

use super::ORACLE;
use super::number::{ABSENT, decimals_for, decimals_of};
use crate::contest::Standing;
use crate::measure::Figures;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// What it is called, in two lines.
    pub heading: [&'static str; 2],
    /// What it means.
    pub meaning: &'static str,
    /// Whether its best value is marked, which is always the lowest.
    pub is_key: bool,
    precision: Precision,
    value: fn(&Figures, Option<f64>) -> Option<f64>,
}

/// The table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scores {
    /// A row for each policy, in the order of the contest.
    pub rows: Vec<Row>,
}

/// A policy's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The policy.
    pub policy: &'static str,
    /// The setting that was found for it.
    pub setting: Option<String>,
    /// A cell for each of [`COLUMNS`].
    pub cells: Vec<Cell>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// As people read it.
    pub text: String,
    /// Whether nobody has a better one, who does not know the future.
    pub best: bool,
}

#[derive(Clone, Copy, Debug)]
enum Precision {
    /// As many decimals as the largest value of the column leaves room for.
    ByColumn,
    /// About three digits whatever the others are: latencies differ by factors of a thousand.
    Significant,
    /// So many decimals.
    Decimals(usize),
    /// A share, in percent with as many decimals as there is room for.
    Percent,
    /// A factor.
    Times,
}

/// The columns of the table, after the name of the policy.
pub const COLUMNS: [Column; 13] = [
    Column {
        heading: ["limit", "core-h"],
        meaning: "core-hours of limit; without a limit, a pod counts as the whole node",
        is_key: true,
        precision: Precision::ByColumn,
        value: |figures, _| Some(figures.core_hours),
    },
    Column {
        heading: ["request", "core-h"],
        meaning: "core-hours of request, which is what packing pays for",
        is_key: true,
        precision: Precision::ByColumn,
        value: |figures, _| Some(figures.request_core_hours),
    },
    Column {
        heading: ["slack", "%"],
        meaning: "the share of the limits that was not used",
        is_key: false,
        precision: Precision::Percent,
        value: |figures, _| Some(figures.slack_ratio),
    },
    Column {
        heading: ["throttled", "%"],
        meaning: "the share of CFS periods in which a pod was throttled",
        is_key: false,
        precision: Precision::Percent,
        value: |figures, _| Some(figures.throttled_period_ratio),
    },
    Column {
        heading: ["p50", "ms"],
        meaning: "the median latency of all requests",
        is_key: false,
        precision: Precision::Significant,
        value: |figures, _| figures.latency_p50_ms,
    },
    Column {
        heading: ["p95", "ms"],
        meaning: "the 95th percentile of latency",
        is_key: false,
        precision: Precision::Significant,
        value: |figures, _| figures.latency_p95_ms,
    },
    Column {
        heading: ["p99", "ms"],
        meaning: "the 99th percentile of latency",
        is_key: true,
        precision: Precision::Significant,
        value: |figures, _| figures.latency_p99_ms,
    },
    Column {
        heading: ["SLO missed", "min"],
        meaning: "minutes, summed over services, in which the 99th percentile missed its target",
        is_key: true,
        precision: Precision::Decimals(0),
        value: |figures, _| Some(figures.slo_violation_minutes),
    },
    Column {
        heading: ["batch", "s"],
        meaning: "the mean time that a run of batch work took",
        is_key: true,
        precision: Precision::ByColumn,
        value: |figures, _| figures.batch_completion_s,
    },
    Column {
        heading: ["resizes", "/pod-h"],
        meaning: "changes of limit or request, per pod and hour",
        is_key: false,
        precision: Precision::ByColumn,
        value: |figures, _| Some(figures.resizes_per_pod_hour),
    },
    Column {
        heading: ["reaction", "s"],
        meaning: "the mean time from a step in load to a limit that holds it",
        is_key: false,
        precision: Precision::ByColumn,
        value: |figures, _| figures.reaction_s,
    },
    Column {
        heading: ["Jain", "index"],
        meaning: "how alike pods did in getting what they wanted; 1 is the same share for all",
        is_key: false,
        precision: Precision::Decimals(3),
        value: |figures, _| Some(figures.jain_index),
    },
    Column {
        heading: ["vs", "oracle"],
        meaning: "core-hours of limit, as a multiple of the oracle's",
        is_key: false,
        precision: Precision::Times,
        value: vs_oracle,
    },
];

/// The table of a contest.
#[must_use]
pub fn scores(standings: &[Standing]) -> Scores {
    let oracle = oracle_core_hours(standings);
    let mut rows: Vec<Row> = standings
        .iter()
        .map(|standing| Row {
            policy: standing.policy,
            setting: standing.setting.clone(),
            cells: Vec::with_capacity(COLUMNS.len()),
        })
        .collect();
    for column in &COLUMNS {
        let values: Vec<Option<f64>> =
            standings.iter().map(|standing| (column.value)(&standing.figures, oracle)).collect();
        for (row, cell) in rows.iter_mut().zip(cells(column, standings, &values)) {
            row.cells.push(cell);
        }
    }
    Scores { rows }
}

/// The oracle's core-hours, if it took part.
#[must_use]
pub fn oracle_core_hours(standings: &[Standing]) -> Option<f64> {
    let oracle = standings.iter().find(|standing| standing.policy == ORACLE)?;
    Some(oracle.figures.core_hours)
}

/// Core-hours as a multiple of the oracle's.
#[must_use]
pub fn vs_oracle(figures: &Figures, oracle_core_hours: Option<f64>) -> Option<f64> {
    let oracle = oracle_core_hours.filter(|hours| *hours > 0.0)?;
    Some(figures.core_hours / oracle)
}

/// The cells of one column.
fn cells(column: &Column, standings: &[Standing], values: &[Option<f64>]) -> Vec<Cell> {
    let texts: Vec<String> = column.precision.texts(values);
    // Whoever looks the same as the best is as good, whatever the hidden decimals say.
    let judged = || {
        let rows = standings.iter().zip(values).zip(&texts);
        rows.filter(|((standing, _), _)| standing.policy != ORACLE)
    };
    let lowest = judged()
        .filter_map(|((_, value), text)| Some(((*value)?, text)))
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, text)| text);
    let all_alike = judged().all(|(_, text)| Some(text) == lowest);
    let marked = if column.is_key && !all_alike { lowest.cloned() } else { None };
    let rows = standings.iter().zip(texts);
    rows.map(|(standing, text)| {
        let best = standing.policy != ORACLE && marked.as_ref() == Some(&text);
        Cell { text, best }
    })
    .collect()
}

// === impl Precision ===

impl Precision {
    fn texts(self, values: &[Option<f64>]) -> Vec<String> {
        let largest = values.iter().flatten().copied().fold(0.0, f64::max);
        let text = |value: f64| match self {
            Self::ByColumn => fixed(value, decimals_for(largest)),
            Self::Significant => fixed(value, decimals_of(value)),
            Self::Decimals(decimals) => fixed(value, decimals),
            Self::Percent => fixed(value * 100.0, if largest >= 0.099_95 { 1 } else { 2 }),
            Self::Times => format!("{}x", fixed(value, decimals_for(largest))),
        };
        let or_absent = |value: &Option<f64>| value.map_or_else(|| ABSENT.to_owned(), text);
        values.iter().map(or_absent).collect()
    }
}

fn fixed(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::standing;

    /// The cells of one column, the best with a star.
    fn check(heading: &str, standings: &[Standing]) -> Vec<String> {
        let place = COLUMNS.iter().position(|column| column.heading.join(" ") == heading);
        let place = place.expect("there is such a column");
        let star = |cell: &Cell| if cell.best { "*" } else { "" };
        let scores = scores(standings);
        let cells = scores.rows.iter().map(|row| &row.cells[place]);
        cells.map(|cell| format!("{}{}", cell.text, star(cell))).collect()
    }

    #[test]
    fn the_lowest_is_the_best_but_for_the_yardstick() {
        let standings = [
            standing("static", 12.0, 40.0),
            standing("walras", 8.126, 3.0),
            standing("vpa", 8.1299, 0.0),
            standing("oracle", 4.0, 0.0),
        ];
        assert_eq!(check("limit core-h", &standings), ["12.00", "8.13*", "8.13*", "4.00"]);
        assert_eq!(check("SLO missed min", &standings), ["40", "3", "0*", "0"]);
        assert_eq!(check("vs oracle", &standings), ["3.00x", "2.03x", "2.03x", "1.00x"]);
    }

    #[test]
    fn what_is_the_same_for_all_is_not_marked() {
        let standings = [standing("static", 8.0, 0.0), standing("vpa", 9.0, 0.0)];
        assert_eq!(check("SLO missed min", &standings), ["0", "0"]);
        assert_eq!(check("vs oracle", &standings), ["-", "-"]);
        assert_eq!(check("batch s", &standings), ["-", "-"]);
    }

    #[test]
    fn large_columns_have_fewer_decimals() {
        let standings = [standing("static", 1234.4, 0.0), standing("vpa", 9.6, 0.0)];
        assert_eq!(check("limit core-h", &standings), ["1234", "10*"]);
        assert_eq!(check("slack %", &standings), ["25.0", "25.0"]);
    }
}
