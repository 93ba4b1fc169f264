//! The page of a contest over placement: a picture and a table for each town.
//!
//! Further left is better. A point is a rule's mean over seeds, its line the 95 % interval.

use super::frame::{Anchor, label_at, line, picture};
use super::html::{END, figure, head, swatch};
use super::markup::{escape, px};
use super::number::trimmed;
use super::palette::class_of;
use super::scale::Scale;
use crate::place::contest::{Estimate, PlaceStanding};
use crate::place::tally::PlaceFigures;

/// A town of the page.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// Its name.
    pub town: &'a str,
    /// What was placed.
    pub introduction: String,
    /// How each rule did.
    pub standings: &'a [PlaceStanding],
    /// What it comes to, a sentence each.
    pub verdicts: Vec<String>,
}

const WIDTH: f64 = 500.0;
const NAMES: f64 = 112.0;
const ROW: f64 = 24.0;
const TOP: f64 = 8.0;

/// What each column is, and its value.
type Column = (&'static str, fn(&PlaceFigures) -> f64, f64, usize);
const COLUMNS: [Column; 7] = [
    ("p99 slowdown", |it| it.p99, 1.0, 2),
    ("p99, waited for", |it| it.p99_latency, 1.0, 2),
    ("mean slowdown", |it| it.mean, 1.0, 3),
    ("slow minutes, %", |it| it.slow, 100.0, 1),
    ("CPU used, %", |it| it.utilisation, 100.0, 1),
    ("nodes used", |it| it.nodes_used, 1.0, 1),
    ("waiting for room, ppm", |it| it.pending, 1e6, 0),
];

/// The whole page.
#[must_use]
pub fn placement(towns: &[Placement<'_>]) -> String {
    let mut page = head("Walras: who slows down whom");
    page += "<p class=\"lead\">The same pods on the same nodes, placed by each rule. A slowdown is \
             how many times longer a pod's work takes than alone on its node.</p>\n";
    for town in towns {
        page += &format!(
            "<section>\n<h2>{}</h2>\n<p>{}</p>\n",
            escape(town.town),
            escape(&town.introduction)
        );
        for verdict in &town.verdicts {
            page += &format!("<p class=\"verdict\">{}</p>\n", escape(verdict));
        }
        let pictures = [
            drawn("99th percentile of slowdowns, all pods", town.standings, |it| it.p99),
            drawn("Of pods that somebody waits for", town.standings, |it| it.p99_latency),
        ];
        page += &format!("<div class=\"plots\">\n{}</div>\n", pictures.concat());
        page += &table(town.standings);
        page += "</section>\n";
    }
    page + END
}

/// Points with their intervals, the best first.
fn drawn(title: &str, standings: &[PlaceStanding], of: fn(&PlaceFigures) -> f64) -> String {
    let mut rows: Vec<(&str, Estimate)> =
        standings.iter().map(|standing| (standing.policy, standing.of(of))).collect();
    rows.sort_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
    let ends = rows.iter().map(|(_, it)| it.mean + finite(it.half));
    let scale = Scale::linear(ends.fold(1.0, f64::max));
    let x = |value: f64| NAMES + (WIDTH - NAMES - 50.0) * scale.place(value.max(0.0)).min(1.0);
    let bottom = TOP + ROW * f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX));
    let mut inside = String::new();
    for tick in scale.ticks(6) {
        let x = NAMES + (WIDTH - NAMES - 50.0) * tick.place;
        inside += &line([x, TOP], [x, bottom], "grid");
        inside += &label_at([x, bottom + 14.0], Anchor::Middle, &tick.label);
    }
    // Nobody can be faster than alone.
    inside += &line([x(1.0), TOP], [x(1.0), bottom], "front");
    let mut y = TOP + ROW / 2.0;
    for (policy, it) in rows {
        let class = class_of(policy);
        let (left, right) = (x(it.mean - finite(it.half)), x(it.mean + finite(it.half)));
        let value = format!("{} ± {}", trimmed(it.mean, 2), trimmed(finite(it.half), 2));
        inside += &format!(
            "<g class=\"fades name {class}\">{}{}</g>\n<g class=\"fades {class}\">\
             <line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"limit\"/>\
             <circle cx=\"{}\" cy=\"{}\" r=\"4.5\" class=\"point\"><title>{}: {}</title></circle>\
             </g>\n",
            label_at([NAMES - 8.0, y + 4.0], Anchor::End, policy),
            label_at([right + 8.0, y + 4.0], Anchor::Start, &trimmed(it.mean, 2)),
            px(left),
            px(y),
            px(right),
            px(y),
            px(x(it.mean)),
            px(y),
            escape(policy),
            value,
        );
        y += ROW;
    }
    figure(&escape(title), &picture(WIDTH, bottom + 20.0, title, &inside))
}

fn table(standings: &[PlaceStanding]) -> String {
    let mut text = "<div class=\"wide\"><table>\n<thead><tr><th>rule</th>".to_owned();
    for (heading, ..) in COLUMNS {
        text += &format!("<th>{}</th>", escape(heading));
    }
    text += "</tr></thead>\n<tbody>\n";
    for standing in standings {
        let class = class_of(standing.policy);
        text += &format!("<tr class=\"{class}\"><th>{}</th>", swatch(standing.policy));
        for (_, of, unit, decimals) in COLUMNS {
            let it = standing.of(of);
            let [mean, half] =
                [it.mean, finite(it.half)].map(|value| trimmed(value * unit, decimals));
            text += &format!("<td>{mean} <span class=\"setting\">± {half}</span></td>");
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>\n"
}

/// Of a single seed there is no interval.
fn finite(half: f64) -> f64 {
    if half.is_finite() { half } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_picture_and_a_table_for_each_town_and_needs_nothing() {
        let run = |p99: f64| PlaceFigures { p99, p99_latency: p99, ..PlaceFigures::default() };
        let standings = [
            PlaceStanding { policy: "random", runs: vec![run(2.0), run(2.2)] },
            PlaceStanding { policy: "mlp", runs: vec![run(1.2), run(1.4)] },
        ];
        let page = placement(&[Placement {
            town: "a <b>",
            introduction: "some & pods".to_owned(),
            standings: &standings,
            verdicts: vec!["lower".to_owned()],
        }]);
        let places = ["a &lt;b&gt;", "some &amp; pods", "<svg", "mlp: 1.3 ± 1.27", "<table"]
            .map(|text| page.find(text).unwrap_or_else(|| panic!("{text}\n{page}")));
        assert!(places.is_sorted(), "{places:?}");
        for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        for tag in ["section", "figure", "svg", "table", "tr", "div", "p", "g", "title"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
