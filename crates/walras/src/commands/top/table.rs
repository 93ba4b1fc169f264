//! The state as a table that is printed once: what a pipe or a file gets.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};
use walras_wire::state::NodeState;

use super::columns::Column;
use crate::screen::Look;

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-'));

/// A sentence about the node, what is wrong with it, and a row for each workload, the busiest
/// first.
pub(crate) fn text(state: &NodeState, look: Look) -> String {
    let cores = |milli: u64| format!("{}.{:02}", milli / 1000, milli % 1000 / 10);
    let mut text = format!(
        "{}: {}, price {:.3}, {} of {} cores used, {} needed; {}\n",
        look.heading(&state.host),
        state.mode,
        state.price,
        cores(state.usage_milli),
        cores(state.capacity_milli),
        cores(state.need_milli),
        if state.acting { "acting" } else { "only watching" },
    );
    for problem in &state.problems {
        text += &format!("! {problem}\n");
    }
    text.push('\n');
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(Column::ALL.map(Column::title));
    let mut workloads: Vec<_> = state.workloads.iter().collect();
    workloads.sort_by(|a, b| Column::Usage.compare(b, a).then_with(|| a.uid.cmp(&b.uid)));
    for workload in workloads {
        table.add_row(Column::ALL.map(|column| Cell::new(column.text(workload, state.at_ms))));
    }
    for (column, cells) in Column::ALL.into_iter().zip(table.column_iter_mut()) {
        cells.set_padding((0, 2));
        if !column.is_text() {
            cells.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        text += line.trim_end();
        text.push('\n');
    }
    text
}
