//! The figures for people: a table with both phases, and a sentence that sums up.
//!
//! What became worse is told like what became better.

use std::io::{self, Write};

use walras_sim::report::number::{short, trimmed};

use super::outcome::{Figures, Phase};
use crate::screen::Look;

/// The headings of the table.
pub(super) const HEADINGS: [&str; 4] = ["", "static limits", "market", "difference"];
/// Less than this is chance.
const NOTEWORTHY: f64 = 0.05;

/// What a phase is called.
pub(super) fn title(policy: &str) -> &'static str {
    if policy == "static" { HEADINGS[1] } else { HEADINGS[2] }
}

/// The rows of the table.
pub(super) fn rows(before: &Phase, after: &Phase) -> Vec<Vec<String>> {
    let (one, other) = (before.figures(), after.figures());
    let seconds = |value: f64| format!("{} s", short(value));
    let row = |what: &str, part: fn(&Figures) -> f64, shown: fn(f64) -> String| {
        let (one, other) = (part(&one), part(&other));
        vec![what.to_owned(), shown(one), shown(other), difference(one, other)]
    };
    let changes = |phase: &Phase| phase.changes.to_string();
    vec![
        row("web: periods throttled", |it| it.web_throttled_ratio, percent),
        row("web: latency, median", |it| it.web_p50_ms, latency),
        row("web: latency, 95 %", |it| it.web_p95_ms, latency),
        row("web: latency, 99 %", |it| it.web_p99_ms, latency),
        row("batch: work done, in core-seconds", |it| it.batch_core_s, seconds),
        row("greedy: share of the CPU in use", |it| it.greedy_ratio, percent),
        row("sleeper: had of its right a second after waking", woken, percent),
        row("all: core-seconds used", |it| it.used_core_s, seconds),
        vec!["changes made".to_owned(), changes(before), changes(after), String::new()],
    ]
}

/// Where it never woke, nothing was withheld from it.
fn woken(figures: &Figures) -> f64 {
    figures.woken_ratio.unwrap_or(1.0)
}

/// What it came to, in a sentence or two.
pub(super) fn sentence(before: &Figures, after: &Figures) -> String {
    let throttled = [before, after].map(|it| percent(it.web_throttled_ratio));
    let p95 = [before, after].map(|it| latency(it.web_p95_ms));
    let work = [before, after].map(|it| it.batch_core_s);
    let mut text = format!(
        "Under the market, web was throttled in {} of its periods instead of {}, answered 95 % of \
         its requests within {} instead of {}, and batch did {}. Greedy, which takes all it can \
         get, had {} of the CPU in use instead of {}.",
        throttled[1],
        throttled[0],
        p95[1],
        p95[0],
        compared(work[0], work[1], "work"),
        percent(after.greedy_ratio),
        percent(before.greedy_ratio),
    );
    if let Some(ratio) = after.woken_ratio {
        let ratio = percent(ratio);
        text +=
            &format!(" Each time sleeper woke, it had {ratio} of its right in the first second.");
    }
    let worse: Vec<String> = [
        (before.web_throttled_ratio, after.web_throttled_ratio, "throttling of web"),
        (before.web_p50_ms, after.web_p50_ms, "median latency of web"),
        (before.web_p99_ms, after.web_p99_ms, "99 % latency of web"),
        (after.batch_core_s, before.batch_core_s, "work left undone by batch"),
    ]
    .into_iter()
    .filter(|(one, other, _)| *other > one * (1.0 + NOTEWORTHY))
    .map(|(one, other, what)| compared(one, other, what))
    .collect();
    if !worse.is_empty() {
        text += &format!(" The price of that: {}.", worse.join(", "));
    }
    text
}

/// Prints the table.
pub(super) fn print(output: &mut impl Write, rows: &[Vec<String>], look: Look) -> io::Result<()> {
    let headings: Vec<String> = HEADINGS.map(str::to_owned).to_vec();
    let all = || std::iter::once(&headings).chain(rows);
    let width = |place: usize| all().map(|row| row[place].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    for (number, row) in all().enumerate() {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line += &format!("  {cell:>width$}");
        }
        let line = line.trim_end();
        let line = if number == 0 { look.heading(line) } else { line.to_owned() };
        writeln!(output, "{line}")?;
        if number == 0 {
            writeln!(output, "{}", "-".repeat(widths.iter().map(|it| it + 2).sum::<usize>() - 2))?;
        }
    }
    Ok(())
}

fn percent(ratio: f64) -> String {
    format!("{} %", trimmed(100.0 * ratio, 1))
}

fn latency(ms: f64) -> String {
    if ms < 1000.0 { format!("{} ms", short(ms)) } else { format!("{} s", short(ms / 1000.0)) }
}

fn difference(before: f64, after: f64) -> String {
    if before <= 0.0 || after <= 0.0 || (after / before - 1.0).abs() < 0.005 {
        return if before == after { "same".to_owned() } else { String::new() };
    }
    if before >= 2.0 * after {
        format!("{} times less", short(before / after))
    } else if after >= 2.0 * before {
        format!("{} times more", short(after / before))
    } else {
        format!("{:+.0} %", 100.0 * (after / before - 1.0))
    }
}

fn compared(before: f64, after: f64, what: &str) -> String {
    let change = 100.0 * (after / before.max(f64::MIN_POSITIVE) - 1.0);
    if change.abs() < 100.0 * NOTEWORTHY {
        format!("as much {what} as before")
    } else if change >= 100.0 {
        format!("{} times as much {what}", short(after / before.max(f64::MIN_POSITIVE)))
    } else if change > 0.0 {
        format!("{change:.0} % more {what}")
    } else {
        format!("{:.0} % less {what}", -change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(throttled: f64, p95_ms: f64, batch_core_s: f64, allocated_core_s: f64) -> Figures {
        Figures {
            web_throttled_ratio: throttled,
            web_p50_ms: p95_ms / 2.0,
            web_p95_ms: p95_ms,
            web_p99_ms: 2.0 * p95_ms,
            allocated_core_s,
            used_core_s: 30.0,
            batch_core_s,
            greedy_ratio: 0.25,
            woken_ratio: Some(0.97),
        }
    }

    #[test]
    fn what_became_better_is_told_and_what_became_worse_as_well() {
        let before = figures(0.8, 1800.0, 10.0, 50.0);
        assert_eq!(
            sentence(&before, &figures(0.011, 34.0, 14.0, 70.0)),
            "Under the market, web was throttled in 1.1 % of its periods instead of 80 %, answered \
             95 % of its requests within 34 ms instead of 1.8 s, and batch did 40 % more work. \
             Greedy, which takes all it can get, had 25 % of the CPU in use instead of 25 %. Each \
             time sleeper woke, it had 97 % of its right in the first second."
        );
        let worse = sentence(&before, &figures(0.9, 4000.0, 5.0, 50.0));
        assert!(worse.contains("and batch did 50 % less work."), "{worse}");
        assert!(worse.contains("2.22 times as much 99 % latency of web"), "{worse}");
        let same = sentence(&before, &before);
        assert!(same.contains("batch did as much work as before."), "{same}");
    }

    #[test]
    fn differences_are_factors_where_they_are_large() {
        let told = [(80.0, 8.0), (8.0, 80.0), (10.0, 12.0), (5.0, 5.0), (0.0, 5.0), (5.0, 0.0)]
            .map(|(before, after)| difference(before, after));
        assert_eq!(told, ["10 times less", "10 times more", "+20 %", "same", "", ""]);
    }

    #[test]
    fn numbers_stand_below_their_headings() {
        let row = ["web: latency", "1.8 s", "34 ms", "53 times less"].map(str::to_owned).to_vec();
        let mut text = Vec::new();
        print(&mut text, &[row], Look::PLAIN).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0].find("market").map(|at| at + 6),
            lines[2].find("34 ms").map(|at| at + 5)
        );
        assert_eq!(lines[1].len(), lines[2].len(), "{text}");
    }
}
