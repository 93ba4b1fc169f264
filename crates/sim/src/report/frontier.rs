//! The page of a contest over nodes: the frontier first, and then every setting.
//!
//! Further left is cheaper, further down is better. A line is one policy with all of its settings;
//! the point with a name is the one that it has by default.

use super::frame::{Axis, Frame, label_at, line, picture};
use super::html::{END, figure, head, swatch};
use super::label::{Place, Spot, places};
use super::markup::{escape, px};
use super::number::{short, trimmed};
use super::palette::class_of;
use super::scale::Scale;
use crate::pack::contest::PackStanding;
use crate::pack::tally::PackFigures;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 420.0;
const FRAME: Frame = Frame { left: 46.0, top: 26.0, width: 500.0, height: 340.0, below: 8.0 };
/// Nobody wants more misses than this, or cares for fewer, in minutes of a million.
const MOST_PPM: f64 = 30_000.0;
const FEWEST_PPM: f64 = 1.0;

/// A contest over nodes, for the page.
#[derive(Clone, Copy, Debug)]
pub struct Frontier<'a> {
    /// What was packed.
    pub introduction: &'a str,
    /// How each policy did.
    pub standings: &'a [PackStanding],
    /// What it comes to, a sentence each.
    pub verdicts: &'a [String],
}

/// The columns of the table behind the setting: what each is, and its value.
type Column = (&'static str, fn(&PackFigures) -> String);
const COLUMNS: [Column; 10] = [
    ("nodes", |it| short(it.nodes)),
    ("at most", |it| short(it.nodes_most)),
    ("rights broken, ppm", |it| short(it.broken * 1e6)),
    ("worst 1 % of pods", |it| short(it.broken_worst * 1e6)),
    ("services missed, ppm", |it| short(it.missed * 1e6)),
    ("risers broken, ppm", |it| short(it.risers_broken * 1e6)),
    ("slack, %", |it| trimmed(it.slack * 100.0, 0)),
    ("changes per pod-hour", |it| short(it.changes_per_pod_hour)),
    ("moves per pod-week", |it| short(it.moves_per_pod_hour * 168.0)),
    ("batch core-hours", |it| short(it.batch_core_hours)),
];

/// The whole page.
#[must_use]
pub fn frontier(contest: &Frontier<'_>) -> String {
    let mut page = head("Walras: nodes needed");
    page += &format!("<p class=\"lead\">{}</p>\n<section>\n", escape(contest.introduction));
    for verdict in contest.verdicts {
        page += &format!("<p class=\"verdict\">{}</p>\n", escape(verdict));
    }
    let note = "<p class=\"note\">Left is cheaper, low is better. A line is a policy with all of \
                its settings, and the large point the one it has by default. The dotted line is \
                what would do if pods were a liquid.</p>\n";
    let drawn = figure("Nodes against broken rights", &(draw(contest.standings) + note));
    page += &format!("<div class=\"plots\">\n{drawn}</div>\n{}", table(contest.standings));
    page + "</section>\n" + END
}

/// Draws the picture.
fn draw(standings: &[PackStanding]) -> String {
    let all = || standings.iter().flat_map(|standing| standing.points.iter().map(|(_, it)| it));
    let bound = all().map(|it| it.bound_nodes).fold(0.0, f64::max);
    let most = all().map(|it| it.nodes).fold(1.0, f64::max);
    let fewest = all().map(|it| it.broken * 1e6).fold(MOST_PPM, f64::min);
    let across = Axis {
        scale: Scale::log(bound.max(0.1) * 0.95, most * 1.08),
        title: "nodes, on average (log scale)",
        ticks: 8,
    };
    let up = Axis {
        scale: Scale::log(fewest.max(FEWEST_PPM) * 0.8, MOST_PPM),
        title: "minutes of a million in which a right was broken (log scale)",
        ticks: 6,
    };
    let at = |it: &PackFigures| {
        [
            FRAME.x(across.scale.place(it.nodes)),
            FRAME.y(up.scale.place((it.broken * 1e6).max(FEWEST_PPM))),
        ]
    };
    let mut inside = FRAME.axes(&across, &up);
    let x = FRAME.x(across.scale.place(bound));
    inside += &line([x, FRAME.top], [x, FRAME.bottom()], "front");
    for standing in standings {
        inside += &curve(standing, &at);
    }
    inside += &names(standings, &at);
    picture(WIDTH, HEIGHT, "Nodes needed against minutes in which rights were broken", &inside)
}

/// One policy: its line, and a point for each setting.
fn curve(standing: &PackStanding, at: &dyn Fn(&PackFigures) -> [f64; 2]) -> String {
    let class = class_of(standing.policy);
    let seen: Vec<&(u32, PackFigures)> =
        standing.points.iter().filter(|(_, it)| it.broken * 1e6 <= MOST_PPM).collect();
    let spots = seen.iter().map(|(_, it)| at(it).map(px).join(","));
    let points = spots.collect::<Vec<_>>().join(" ");
    let mut text =
        format!("<g class=\"fades others {class}\"><polyline points=\"{points}\"/></g>\n");
    for (setting, it) in seen {
        let [x, y] = at(it).map(px);
        let radius = if *setting == standing.usual { "5.5" } else { "2.5" };
        text += &format!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" class=\"fades point {class}\"><title>{} \
             at {setting} %: {} nodes, {} ppm</title></circle>\n",
            escape(standing.policy),
            short(it.nodes),
            short(it.broken * 1e6)
        );
    }
    text
}

/// The names, at the points that policies have by default.
fn names(standings: &[PackStanding], at: &dyn Fn(&PackFigures) -> [f64; 2]) -> String {
    let named: Vec<(&PackStanding, [f64; 2])> = standings
        .iter()
        .filter_map(|standing| Some((standing, at(standing.by_default()?))))
        .collect();
    let spots: Vec<Spot<'_>> =
        named.iter().map(|(standing, at)| Spot { at: *at, name: standing.policy }).collect();
    let mut text = String::new();
    for ((standing, at), Place { at: base, anchor, tether }) in
        named.iter().zip(places(&FRAME, &spots))
    {
        let class = class_of(standing.policy);
        let label = label_at(base, anchor, standing.policy);
        let tether = tether.map_or_else(String::new, |end| line(*at, end, "tether"));
        text += &format!("<g class=\"fades name {class}\">{tether}{label}</g>\n");
    }
    text
}

/// Every setting of every policy.
fn table(standings: &[PackStanding]) -> String {
    let mut text =
        "<div class=\"wide\"><table>\n<thead><tr><th>policy</th><th>setting</th>".to_owned();
    for (heading, _) in COLUMNS {
        text += &format!("<th>{}</th>", escape(heading));
    }
    text += "</tr></thead>\n<tbody>\n";
    for standing in standings {
        for (setting, figures) in &standing.points {
            let class = class_of(standing.policy);
            let usual = if *setting == standing.usual { ", by default" } else { "" };
            text += &format!(
                "<tr class=\"{class}\"><th>{}</th><td>{setting} %{usual}</td>",
                swatch(standing.policy)
            );
            for (_, value) in COLUMNS {
                text += &format!("<td>{}</td>", escape(&value(figures)));
            }
            text += "</tr>\n";
        }
    }
    text + "</tbody>\n</table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_picture_first_then_all_settings_and_needs_nothing() {
        let figures = |nodes: f64, broken: f64| PackFigures {
            nodes,
            broken,
            bound_nodes: 5.0,
            ..PackFigures::default()
        };
        let points = vec![(80, figures(10.0, 0.01)), (115, figures(12.0, 0.0001))];
        let standings = [PackStanding { policy: "vpa", points, usual: 115 }];
        let page = frontier(&Frontier {
            introduction: "a <b>",
            standings: &standings,
            verdicts: &["fewer".to_owned()],
        });
        let places =
            ["a &lt;b&gt;", "<svg", "vpa at 80 %: 10 nodes, 10 000 ppm", "115 %, by default"]
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
