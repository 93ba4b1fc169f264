//! A clearing as a table: one row per workload, however many there are.
//!
//! Rows are laid out in blocks, so that a million of them need no more memory than a thousand. The
//! widths of the columns are found in a first pass over all rows, so that all blocks look alike.
//! On a terminal the last column is wrapped to what is left of the width.

use std::io::{self, Write};

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Row, Table, TableStyle,
    Width,
};
use walras_core::market::{Clearing, Grant};
use walras_core::need::NeedFrom;
use walras_core::units::{Millicores, Ratio};
use walras_wire::market::{Market, Workload};

use crate::screen::Look;

const COLUMNS: usize = 9;
const HEADINGS: [&str; COLUMNS] =
    ["pod", "right", "max", "weight", "need", "made of", "allocation", "cut", "why"];
/// So many rows are laid out together.
const BLOCK: usize = 1000;
/// Columns that hold text stay at least this wide on a terminal.
const TEXT_MIN: u16 = 16;
/// Two spaces between columns.
const GAP: u16 = 2;
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-'));

/// Prints the table.
pub(super) fn print(
    output: &mut impl Write,
    market: &Market,
    clearing: &Clearing,
    look: Look,
) -> io::Result<()> {
    let rows = || market.granted(clearing).map(|(workload, grant)| row(market, workload, grant));
    let widths = fit(widths(rows()), look.width);
    let mut rows = rows();
    let mut first = true;
    loop {
        let block: Vec<_> = rows.by_ref().take(BLOCK).collect();
        if block.is_empty() {
            return Ok(());
        }
        for (place, line) in lay_out(block, first, &widths).lines().enumerate() {
            let line = line.trim_end();
            if first && place == 0 {
                writeln!(output, "{}", look.heading(line))?;
            } else {
                writeln!(output, "{line}")?;
            }
        }
        first = false;
    }
}

fn row(market: &Market, workload: &Workload, grant: &Grant) -> [String; COLUMNS] {
    [
        workload.uid.to_string(),
        workload.bounds.min().to_string(),
        workload.bounds.max().to_string(),
        workload.weight.to_string(),
        grant.need.to_string(),
        made_of(workload, market.estimate(workload).from),
        grant.amount.to_string(),
        percent(grant.cut()),
        why(market, workload, grant),
    ]
}

/// What a need was made of, with the figures of the input.
fn made_of(workload: &Workload, from: NeedFrom) -> String {
    let facts = &workload.facts;
    match (from, facts.usage) {
        (NeedFrom::Given, _) => "as given".to_owned(),
        (NeedFrom::Usage, Some(usage)) => format!("{usage} used + headroom"),
        (NeedFrom::Usage, None) | (NeedFrom::Demand, _) => {
            format!("demand {} + headroom", facts.demand)
        }
        (NeedFrom::Min, _) => "its min".to_owned(),
        (NeedFrom::Max, _) => "its max".to_owned(),
    }
}

fn why(market: &Market, workload: &Workload, grant: &Grant) -> String {
    let (right, lent) = (workload.bounds.min(), market.lent(workload));
    let unscaled = grant.amount == grant.need;
    if market.lends() && lent > Millicores::ZERO && unscaled {
        return format!("has a right to {right}, needs {}: {lent} are lent", grant.need);
    }
    grant.reason.sentence(&market.bid(workload), grant, market.terms.fairness)
}

/// A share in percent with one decimal, where there is one.
fn percent(ratio: Ratio) -> String {
    let tenths = (ratio.millionths() + 500) / 1000;
    match (tenths / 10, tenths % 10) {
        (0, 0) if ratio != Ratio::ZERO => "<0.1 %".to_owned(),
        (whole, 0) => format!("{whole} %"),
        (whole, tenth) => format!("{whole}.{tenth} %"),
    }
}

fn widths(rows: impl Iterator<Item = [String; COLUMNS]>) -> [u16; COLUMNS] {
    let mut widest = [0; COLUMNS];
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let table = table(rows.by_ref().take(BLOCK), true);
        for (widest, width) in widest.iter_mut().zip(table.column_max_content_widths()) {
            *widest = width.max(*widest);
        }
    }
    widest
}

/// Takes width from the reasons, then from the names, where a terminal is too narrow for all.
fn fit(mut widths: [u16; COLUMNS], available: Option<u16>) -> [u16; COLUMNS] {
    let Some(available) = available else {
        return widths;
    };
    for column in [COLUMNS - 1, 0] {
        let gaps = GAP * u16::try_from(COLUMNS - 1).unwrap_or_default();
        let needed = widths.iter().fold(gaps, |sum, &width| sum.saturating_add(width));
        let excess = needed.saturating_sub(available);
        let least = TEXT_MIN.min(widths[column]);
        widths[column] = widths[column].saturating_sub(excess).max(least);
    }
    widths
}

fn lay_out(rows: Vec<[String; COLUMNS]>, first: bool, widths: &[u16; COLUMNS]) -> String {
    let mut table = table(rows.into_iter(), first);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    for (place, (column, width)) in table.column_iter_mut().zip(widths).enumerate() {
        let gap = if place + 1 == COLUMNS { 0 } else { GAP };
        column.set_padding((0, gap));
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + gap)));
        if (1..COLUMNS - 1).contains(&place) && HEADINGS[place] != "made of" {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn table(rows: impl Iterator<Item = [String; COLUMNS]>, headed: bool) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    if headed {
        table.set_header(HEADINGS);
    }
    table.add_rows(rows.map(|cells| Row::from(cells.map(Cell::new_owned))));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::profile::Profile;
    use walras_wire::market;

    fn market(workloads: usize) -> Market {
        let workloads: Vec<String> = (0..workloads)
            .map(|uid| {
                format!(
                    r#"{{"uid": "pod-{uid}", "demand": 1, "min_milli": 100, "max_milli": 1000}}"#
                )
            })
            .collect();
        let json = format!("{{\"capacity_milli\": 500, \"pods\": [{}]}}", workloads.join(","));
        market::read(json.as_bytes(), &Profile::SEED).unwrap()
    }

    fn check(workloads: usize, width: Option<u16>) -> String {
        let market = market(workloads);
        let mut text = Vec::new();
        let look = Look { width, ..Look::PLAIN };
        print(&mut text, &market, &market.clear(), look).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn columns_are_aligned_under_their_headings() {
        let why = "keeps 100m and gets 150m of the 900m it wanted above that";
        let rule = "-".repeat(63 + why.len());
        assert_eq!(
            check(2, None),
            format!(
                "pod    right    max  weight   need  made of  allocation   cut  why\n\
                 {rule}\n\
                 pod-0   100m  1000m       1  1000m  its max        250m  75 %  {why}\n\
                 pod-1   100m  1000m       1  1000m  its max        250m  75 %  {why}\n"
            )
        );
    }

    #[test]
    fn a_narrow_terminal_wraps_the_reasons() {
        let text = check(2, Some(80));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.lines().count() > 4, "{text}");
    }

    #[test]
    fn a_terminal_too_narrow_for_anything_still_gets_a_table() {
        assert!(check(2, Some(1)).contains("pod-1"));
    }

    #[test]
    fn every_workload_of_a_large_market_has_its_row() {
        let text = check(2500, None);
        assert_eq!(text.lines().filter(|line| line.starts_with("pod-")).count(), 2500);
        assert_eq!(text.matches("allocation").count(), 1, "one heading for all blocks");
        let place = |line: &str| line.find("the mins do not fit").or(line.find("far too many"));
        let mut places = text.lines().skip(2).map(place);
        let first = places.next().unwrap();
        assert!(places.all(|place| place == first), "all blocks have the same widths");
    }

    #[test]
    fn a_share_is_told_in_percent() {
        let check = |millionths| percent(Ratio::from_millionths(millionths));
        assert_eq!(check(0), "0 %");
        assert_eq!(check(400), "<0.1 %");
        assert_eq!(check(571_429), "57.1 %");
        assert_eq!(check(600_000), "60 %");
        assert_eq!(check(1_000_000), "100 %");
    }
}
