//! Draws what `walras top` shows. Colours never carry a meaning that the words do not.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState, Wrap};
use walras_wire::state::{Explanation, NodeState, WorkloadState};

use super::app::{App, View};
use super::columns::Column;
use crate::commands::explain::{ago, changed, span};

/// A workload that is throttled more than this stands out.
const THROTTLED: f64 = 0.02;

const KEYS: &str = "enter explain  / filter  < > sort  r reverse  f freeze  ? help  q quit";

const HELP: [&str; 16] = [
    "up, down, page up, page down, home, end   move",
    "enter        why the pod has what it has",
    "/            filter by name, kind or uid; enter keeps it, escape clears it",
    "<  >         sort by the column to the left or right",
    "n u e l t c  sort by name, usage, need, limit, throttled, last change",
    "r            the other way round",
    "f            freeze the screen; the daemon goes on",
    "q            quit",
    "",
    "usage      what it used in the last second, in thousandths of a core",
    "need       what it needs, estimated from what it used and how often it was held back",
    "grant      what the market granted it",
    "request    its guarantee: its share when CPU is scarce",
    "limit      its cap",
    "throttled  periods in which it was held back by its limit, of all periods",
    "weight     what its claim counts for",
];

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(5), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    match &app.state {
        Some(state) => head(frame, top, app, state),
        None => no_daemon(frame, top, app),
    }
    match &app.view {
        View::Workloads | View::Filtering => workloads(frame, middle, app),
        View::Story { told, scroll, .. } => story(frame, middle, told.as_deref(), *scroll),
        View::Help => help(frame, middle),
    }
    frame.render_widget(foot(app), bottom);
}

/// Who tells, how the market stands, and four meters.
fn head(frame: &mut Frame<'_>, area: Rect, app: &App, state: &NodeState) {
    let mut who = vec![
        state.host.clone().bold(),
        format!(
            "  walras {}  up {}  profile {}  ",
            state.version,
            span(state.uptime_s),
            state.profile
        )
        .into(),
        if state.acting { "acting".into() } else { "only watching".yellow() },
    ];
    if app.frozen {
        who.push("  FROZEN".yellow().bold());
    }
    let mode = match state.mode.as_str() {
        "uncongested" => state.mode.clone().green(),
        "congested" => state.mode.clone().yellow(),
        _ => state.mode.clone().red(),
    };
    let market = Line::from(vec![
        mode.bold(),
        format!(
            "  price {:.3}  pods {}  clearings {}  changes {}",
            state.price,
            state.workloads.len(),
            state.slow_ticks,
            state.changes
        )
        .into(),
        if state.failures > 0 {
            format!("  failed {}", state.failures).red().bold()
        } else {
            "".into()
        },
    ]);
    let trouble = match (&app.trouble, state.problems.first()) {
        (Some(trouble), _) => format!("OLD: {trouble}").red().bold(),
        (None, Some(problem)) => problem.clone().yellow(),
        (None, None) => "".into(),
    };
    let [first, second, meters, last] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Line::from(who), first);
    frame.render_widget(market, second);
    let amounts = [
        ("usage", state.usage_milli, state.capacity_milli),
        ("need", state.need_milli, state.capacity_milli),
        ("requests", state.request_milli, state.capacity_milli),
        ("idle", state.idle_milli.unwrap_or_default(), state.capacity_milli),
    ];
    let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).spacing(2).areas(meters);
    for (place, (name, part, whole)) in amounts.into_iter().enumerate() {
        let column = if place < 2 { left } else { right };
        let row = column.rows().nth(place % 2).unwrap_or(column);
        frame.render_widget(meter(name, part, whole, row.width), row);
    }
    frame.render_widget(Line::from(trouble), last);
}

/// `usage    [||||||        1.25/4.00]`
fn meter(name: &str, part: u64, whole: u64, width: u16) -> Line<'static> {
    let figures = format!("{}/{}", cores(part), cores(whole));
    let room = usize::from(width).saturating_sub(11 + figures.len());
    let filled = part.saturating_mul(u64::try_from(room).unwrap_or_default()) / whole.max(1);
    let filled = usize::try_from(filled).unwrap_or(room).min(room);
    let bar = Style::new().fg(if part > whole { Color::Yellow } else { Color::Cyan });
    Line::from(vec![
        format!("{name:<9}[").into(),
        Span::styled("|".repeat(filled), bar),
        " ".repeat(room - filled).into(),
        figures.bold(),
        "]".into(),
    ])
}

fn cores(milli: u64) -> String {
    format!("{}.{:02}", milli / 1000, milli % 1000 / 10)
}

fn no_daemon(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let text = match &app.trouble {
        Some(trouble) => trouble.clone().red().bold(),
        None => format!("asking {} ...", app.base).into(),
    };
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

fn workloads(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let Some(state) = &app.state else {
        return;
    };
    let columns = Column::fitting(area.width);
    let workloads = app.workloads();
    let heading = Row::new(columns.iter().map(|column| title(*column, app)))
        .style(Style::new().add_modifier(Modifier::REVERSED));
    let rows = workloads.iter().map(|workload| row(workload, &columns, state.at_ms));
    let widths = columns.iter().map(|column| match column {
        Column::Name => Constraint::Min(column.width()),
        Column::Change => Constraint::Max(44),
        Column::Kind
        | Column::Usage
        | Column::Need
        | Column::Grant
        | Column::Request
        | Column::Limit
        | Column::Throttled
        | Column::Weight => Constraint::Length(column.width()),
    });
    let table = Table::new(rows, widths)
        .header(heading)
        .row_highlight_style(Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED));
    let mut at = TableState::new().with_selected(app.place_among(&workloads));
    frame.render_stateful_widget(table, area, &mut at);
    if workloads.is_empty() {
        let why = if app.filter.is_empty() { "no pods yet" } else { "no pod fits the filter" };
        let below = Rect { y: area.y.saturating_add(1), height: area.height.min(1), ..area };
        frame.render_widget(why, below);
    }
}

fn title(column: Column, app: &App) -> Cell<'static> {
    let mark = match (column == app.by, app.down) {
        (false, _) => "",
        (true, true) => "v",
        (true, false) => "^",
    };
    aligned(format!("{}{mark}", column.title()), column)
}

fn row(workload: &WorkloadState, columns: &[Column], now_ms: u64) -> Row<'static> {
    let throttled = workload.throttled_period_ratio.is_some_and(|ratio| ratio > THROTTLED);
    let cells = columns.iter().map(|column| aligned(column.text(workload, now_ms), *column));
    let row = Row::new(cells);
    if throttled { row.red() } else { row }
}

fn aligned(text: String, column: Column) -> Cell<'static> {
    let side = if column.is_text() { Alignment::Left } else { Alignment::Right };
    Cell::new(Line::from(text).alignment(side))
}

fn story(frame: &mut Frame<'_>, area: Rect, told: Option<&Explanation>, scroll: u16) {
    let (title, lines) = match told {
        Some(told) => {
            (format!(" {} ({}) ", told.workload.name, told.workload.uid), story_lines(told))
        }
        None => (" asking ".to_owned(), Vec::new()),
    };
    let text = Paragraph::new(lines)
        .block(Block::bordered().title(title.bold()))
        .wrap(Wrap { trim: false })
        .scroll((scroll, 0));
    frame.render_widget(text, area);
}

fn story_lines(told: &Explanation) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> =
        told.sentences.iter().map(|sentence| Line::from(sentence.clone())).collect();
    lines.extend([Line::default(), Line::from("Last changes".bold())]);
    lines.extend(told.changes.iter().map(|change| Line::from(changed(change, told.at_ms))));
    if told.changes.is_empty() {
        lines.push("none since it was adopted".into());
    }
    if !told.notes.is_empty() {
        lines.extend([Line::default(), Line::from("Noticed".bold())]);
    }
    lines.extend(told.notes.iter().map(|noticed| {
        Line::from(format!("{}: {}", ago(told.at_ms, noticed.at_ms), noticed.text))
    }));
    lines
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
    let text = Paragraph::new(lines).block(Block::bordered().title(" help: any key goes back "));
    frame.render_widget(text, area);
}

fn foot(app: &App) -> Line<'static> {
    match &app.view {
        View::Filtering => {
            Line::from(vec!["filter: ".bold(), app.filter.clone().into(), "_".into()])
        }
        View::Story { .. } => Line::from("up/down scroll  q or escape back  ctrl-c quit").dim(),
        View::Workloads | View::Help if app.filter.is_empty() => Line::from(KEYS).dim(),
        View::Workloads | View::Help => {
            Line::from(vec![format!("filter: {}  ", app.filter).yellow(), KEYS.dim()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::app::Key;
    use crate::commands::top::made_up;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// What a screen of this size shows.
    fn check(app: &App, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app)).unwrap();
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        let lines = cells.chunks(usize::from(width)).map(|line| line.concat());
        lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    fn app() -> App {
        let mut app = App::new("http://node-7:8082".to_owned());
        app.told(Ok(made_up::state(&[("web", 300), ("db", 900)])));
        app
    }

    #[test]
    fn a_screen_has_the_node_its_meters_and_its_workloads() {
        assert_eq!(
            check(&app(), 80, 9),
            "node-7  walras 1.2.3  up 5 min  profile direct  acting\n\
             congested  price 0.250  pods 2  clearings 20  changes 3\n\
             usage    [|||||              1.20/4.00]  requests [||||               1.00/4.00]\n\
             need     [|||||||||||||||||||5.00/4.00]  idle     [|                  0.30/4.00]\n\
             \n\
             POD                      USAGEv     NEED    GRANT   REQUEST    LIMIT   THROTTLED\n\
             db                         900m     400m     350m      350m    1000m        12 %\n\
             web                        300m     400m     350m      350m    1000m        12 %\n\
             enter explain  / filter  < > sort  r reverse  f freeze  ? help  q quit"
        );
    }

    #[test]
    fn a_daemon_that_is_gone_is_said_where_it_cannot_be_missed() {
        let mut app = app();
        app.told(Err("no daemon answers at http://node-7:8082".to_owned()));
        let text = check(&app, 80, 9);
        assert!(text.contains("OLD: no daemon answers at http://node-7:8082"), "{text}");
        assert!(text.contains("db "), "what was known is still there: {text}");
    }

    #[test]
    fn any_size_can_be_drawn() {
        let mut app = app();
        for key in ["pods", "/", "?", "enter"] {
            match key {
                "enter" => drop(app.pressed(Key::Enter)),
                "pods" => {}
                letter => drop(app.pressed(Key::Char(letter.chars().next().unwrap()))),
            }
            for width in [1, 2, 10, 20, 40, 80, 200] {
                for height in [1, 2, 5, 6, 7, 24] {
                    check(&app, width, height);
                }
            }
            app.pressed(Key::Escape);
        }
    }
}
