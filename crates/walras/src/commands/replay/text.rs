//! What a tick decided, as text for people; and the last line.

use std::fmt;

use walras_core::node::Action;
use walras_core::units::Moment;
use walras_wire::replay::Ticked;

use super::ledger::{Change, Changes, Totals};
use crate::screen::Look;

const HOUR_US: u128 = 3_600_000_000;

/// One line about the tick, and an indented one for each action and note.
pub(super) fn tick(ticked: &Ticked, changes: &[Changes], look: Look) -> String {
    let Ticked { at, outcome } = ticked;
    let mut text = format!(
        "{:>10}  {}  {}  price {}  {}\n",
        seconds(*at),
        outcome.tick.name(),
        look.mode(outcome.mode, outcome.mode.name()),
        outcome.price,
        count(u64::try_from(changes.len()).unwrap_or(u64::MAX), "change"),
    );
    for (action, changes) in outcome.actions.iter().zip(changes) {
        text += &action_line(action, changes, look);
    }
    for note in &outcome.notes {
        text += &look.aside(&format!("    note: {note}"));
        text.push('\n');
    }
    text
}

/// What it all came to.
pub(super) fn summary(totals: &Totals) -> String {
    let Totals { ticks, changes, workloads, workload_time } = *totals;
    let mut text = format!(
        "{}, {}, {}",
        count(ticks, "tick"),
        count(changes, "change"),
        count(workloads, "pod")
    );
    let tenths = u128::from(changes) * HOUR_US * 10;
    if let Some(rate) = tenths.checked_div(u128::from(workload_time.as_us())) {
        let (whole, tenth) = (rate / 10, rate % 10);
        text += &format!("; {whole}.{tenth} changes per pod-hour over {workload_time} of pod time");
    }
    text
}

fn action_line(action: &Action, changes: &Changes, look: Look) -> String {
    let parts: Vec<String> = [
        changed("limit", &changes.limit),
        changed("request", &changes.request),
        changed("weight", &changes.weight),
        changed("burst", &changes.burst),
    ]
    .into_iter()
    .flatten()
    .collect();
    let uid = look.heading(action.uid.as_str());
    format!("    {uid}: {}; {}\n", parts.join(", "), action.why)
}

/// `limit 500m -> 1000m`, or nothing where nothing changes.
fn changed<T: PartialEq + fmt::Display>(what: &str, change: &Change<T>) -> Option<String> {
    let Change { before, after } = change;
    match before {
        Some(before) if before == after => None,
        Some(before) => Some(format!("{what} {before} -> {after}")),
        None => Some(format!("{what} {after}")),
    }
}

fn seconds(at: Moment) -> String {
    let ms = at.as_ms_floor();
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

fn count(number: u64, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::units::{Millicores, Span};

    #[test]
    fn the_summary_counts_in_words() {
        let check = |ticks, changes, workloads, workload_time| {
            summary(&Totals { ticks, changes, workloads, workload_time })
        };
        assert_eq!(check(0, 0, 0, Span::ZERO), "no ticks, no changes, no pods");
        assert_eq!(
            check(1, 1, 1, Span::from_s(3600)),
            "1 tick, 1 change, 1 pod; 1.0 changes per pod-hour over 3600 s of pod time"
        );
        assert_eq!(
            check(9, 7, 2, Span::from_s(7200)),
            "9 ticks, 7 changes, 2 pods; 3.5 changes per pod-hour over 7200 s of pod time"
        );
        assert!(check(9, u64::MAX, 2, Span::from_us(1)).contains("changes per pod-hour"));
    }

    #[test]
    fn only_what_changes_is_told() {
        let check = |before: Option<u64>, after| {
            let before = before.map(Millicores::new);
            changed("limit", &Change { before, after: Millicores::new(after) })
        };
        assert_eq!(check(Some(500), 500), None);
        assert_eq!(check(Some(500), 1000).unwrap(), "limit 500m -> 1000m");
        assert_eq!(check(None, 1000).unwrap(), "limit 1000m");
    }

    #[test]
    fn time_is_told_in_seconds_to_the_millisecond() {
        assert_eq!(seconds(Moment::from_ms(12_400)), "12.400 s");
        assert_eq!(seconds(Moment::from_ms(7)), "0.007 s");
    }
}
