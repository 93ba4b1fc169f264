//! The tables of `walras sim`: the scores of a scenario, and lists.
//!
//! Scores are laid out by hand, since all their cells are short and some are bold. On a terminal
//! that is too narrow, settings move below their policies, and then columns into further tables.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use walras_sim::report::scores::{COLUMNS, Column, Row, Scores};

use crate::screen::Look;

/// Blanks between columns.
const GAP: usize = 2;
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-'));
const LEGEND: &str = "* the best of those who do not know the future";

/// Where the setting of a policy is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settings {
    Beside,
    Below,
}

/// Prints the scores of one scenario.
pub(super) fn print(output: &mut impl Write, scores: &Scores, look: Look) -> io::Result<()> {
    let widths: Vec<usize> = (0..COLUMNS.len()).map(|place| width(scores, place)).collect();
    let available = look.width.map_or(usize::MAX, usize::from);
    let whole =
        |settings| name_width(scores, settings) + widths.iter().map(|w| w + GAP).sum::<usize>();
    let settings =
        if whole(Settings::Beside) <= available { Settings::Beside } else { Settings::Below };
    let name_width = name_width(scores, settings);
    let parts = parts(&widths, available.saturating_sub(name_width));
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            writeln!(output)?;
        }
        print_part(output, scores, &Layout { name_width, settings, widths: &widths, part, look })?;
    }
    if scores.rows.iter().any(|row| row.cells.iter().any(|cell| cell.best)) {
        writeln!(output, "{}", look.aside(LEGEND))?;
    }
    Ok(())
}

/// Prints rows under headings; `right` are the columns that hold numbers. On a terminal, the last
/// column is wrapped.
pub(super) fn columns<const N: usize>(
    output: &mut impl Write,
    headings: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
    right: &[usize],
    look: Look,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(headings.iter());
    table.add_rows(rows);
    if let Some(width) = look.width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if place + 1 == N { 0 } else { 2 }));
        if right.contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (place, line) in table.to_string().lines().enumerate() {
        let line = line.trim_end();
        let line = if place == 0 { look.heading(line) } else { line.to_owned() };
        writeln!(output, "{line}")?;
    }
    Ok(())
}

/// How some of the columns are printed.
struct Layout<'a> {
    name_width: usize,
    settings: Settings,
    widths: &'a [usize],
    /// The columns, by their places.
    part: &'a [usize],
    look: Look,
}

fn print_part(output: &mut impl Write, scores: &Scores, layout: &Layout<'_>) -> io::Result<()> {
    for (line, first) in ["", "policy"].into_iter().enumerate() {
        let mut text = format!("{first:<0$}", layout.name_width);
        for &place in layout.part {
            // Below a heading there is a number, and beside the number perhaps a star.
            let (width, star) = inner_width(place, layout.widths[place]);
            text += &format!("  {:>width$}{star}", COLUMNS[place].heading[line]);
        }
        writeln!(output, "{}", layout.look.heading(text.trim_end()))?;
    }
    let rule: usize = layout.part.iter().map(|&place| layout.widths[place] + GAP).sum();
    writeln!(output, "{}", "-".repeat(layout.name_width + rule))?;
    for row in &scores.rows {
        print_row(output, row, layout)?;
    }
    Ok(())
}

fn print_row(output: &mut impl Write, row: &Row, layout: &Layout<'_>) -> io::Result<()> {
    let (name, below) = name(row, layout.settings);
    let mut text = format!("{name:<0$}", layout.name_width);
    for &place in layout.part {
        let cell = &row.cells[place];
        let (width, blank) = inner_width(place, layout.widths[place]);
        let padding = " ".repeat(width.saturating_sub(cell.text.len()) + GAP);
        let shown = match cell.best {
            true => layout.look.heading(&format!("{}*", cell.text)),
            false => format!("{}{blank}", cell.text),
        };
        text += &format!("{padding}{shown}");
    }
    writeln!(output, "{}", text.trim_end())?;
    match below {
        Some(setting) => writeln!(output, "  {setting}"),
        None => Ok(()),
    }
}

/// The name of a row, and what is shown below it.
fn name(row: &Row, settings: Settings) -> (String, Option<&str>) {
    match (&row.setting, settings) {
        (Some(setting), Settings::Beside) => (format!("{} ({setting})", row.policy), None),
        (Some(setting), Settings::Below) => (row.policy.to_owned(), Some(setting)),
        (None, Settings::Beside | Settings::Below) => (row.policy.to_owned(), None),
    }
}

fn name_width(scores: &Scores, settings: Settings) -> usize {
    let width = |row: &Row| {
        let (name, below) = name(row, settings);
        name.len().max(below.map_or(0, |below| below.len() + GAP))
    };
    scores.rows.iter().map(width).fold("policy".len(), usize::max)
}

/// The width of a column, with the star where it may have one.
fn width(scores: &Scores, place: usize) -> usize {
    let Column { heading, is_key, .. } = &COLUMNS[place];
    let cells = scores.rows.iter().map(|row| row.cells[place].text.len());
    let texts = cells.chain(heading.iter().map(|line| line.len())).max().unwrap_or_default();
    texts + usize::from(*is_key)
}

/// The width without the star, and the blank that stands for the star where there is none.
fn inner_width(place: usize, width: usize) -> (usize, &'static str) {
    if COLUMNS[place].is_key { (width - 1, " ") } else { (width, "") }
}

/// Which columns are printed together: as many as fit, and at least one.
fn parts(widths: &[usize], available: usize) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for (place, width) in widths.iter().enumerate() {
        match parts.last_mut() {
            Some(part) if width + GAP <= room => {
                part.push(place);
                room -= width + GAP;
            }
            Some(_) | None => {
                parts.push(vec![place]);
                room = available.saturating_sub(width + GAP);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_sim::report::scores::Cell;

    fn scores() -> Scores {
        let row = |policy, setting: Option<&str>, best| {
            let cell = |(place, column): (usize, &Column)| Cell {
                text: place.to_string(),
                best: best && column.is_key,
            };
            let cells = COLUMNS.iter().enumerate().map(cell).collect();
            Row { policy, setting: setting.map(str::to_owned), cells }
        };
        Scores {
            rows: vec![row("autothrottle", Some("target 0.02"), false), row("vpa", None, true)],
        }
    }

    fn check(width: Option<u16>, colour: bool) -> String {
        let mut text = Vec::new();
        print(&mut text, &scores(), Look { colour, width }).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_stand_below_their_headings_and_the_best_have_a_star() {
        let text = check(None, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1].find("core-h").map(|at| at + 6), lines[3].find(" 0 ").map(|at| at + 2));
        assert!(lines[3].starts_with("autothrottle (target 0.02)  "), "{text}");
        assert!(lines[4].starts_with("vpa   ") && lines[4].contains(" 0*  "), "{text}");
        assert_eq!(lines[2].len(), lines[1].len(), "{text}");
        assert_eq!(lines[5], LEGEND);
    }

    #[test]
    fn a_narrow_terminal_gets_several_tables() {
        for width in [20, 60, 80, 100, 130] {
            let text = check(Some(width), false);
            let fits = |line: &str| line.len() <= usize::from(width.max(30)) || line == LEGEND;
            assert!(text.lines().all(fits), "{width}\n{text}");
            assert_eq!(text.matches("oracle").count(), 1, "{text}");
            assert!(text.contains("\n  target 0.02\n"), "{text}");
        }
        assert_eq!(check(Some(160), false), check(None, false));
    }

    #[test]
    fn the_best_are_bold_on_a_terminal() {
        assert!(check(None, true).contains("\u{1b}[1m0*\u{1b}[0m"), "{}", check(None, true));
    }
}
