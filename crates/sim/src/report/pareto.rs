//! What each policy reserves against what it misses: the picture to choose a policy by.
//!
//! Further left is cheaper, further down is better. The line is the Pareto front: who is not on it
//! is beaten by somebody in both. The oracle is not part of it.

use super::frame::{Axis, Frame, label_at, line, picture};
use super::label::{Place, Spot, places};
use super::markup::{escape, px};
use super::number::short;
use super::palette::class_of;
use super::scale::Scale;
use super::words::name;
use super::{MARKET, ORACLE};
use crate::contest::Standing;
use crate::measure::Figures;

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 340.0;
const FRAME: Frame = Frame { left: 30.0, top: 26.0, width: 342.0, height: 252.0, below: 21.0 };

/// Where values are in the picture.
struct View {
    across: Scale,
    up: Scale,
}

/// Draws the picture.
pub(super) fn draw(standings: &[Standing]) -> String {
    let view = View::of(standings);
    let across = Axis { scale: view.across, title: "core-hours of limit (log scale)", ticks: 6 };
    let up = Axis { scale: view.up, title: "minutes in which targets were missed", ticks: 7 };
    let mut inside = FRAME.axes(&across, &up);
    inside += &front(&view, standings);
    for standing in standings {
        inside += &alternatives(&view, standing);
    }
    let spots: Vec<[f64; 2]> =
        standings.iter().map(|standing| view.spot(&standing.figures)).collect();
    inside += &names(standings, &spots);
    for (standing, spot) in standings.iter().zip(&spots) {
        inside += &point(standing, *spot);
    }
    picture(WIDTH, HEIGHT, "Core-hours of limit against minutes of missed targets", &inside)
}

/// The staircase of those that nobody beats in both.
fn front(view: &View, standings: &[Standing]) -> String {
    let competitors = standings.iter().filter(|standing| standing.policy != ORACLE);
    let mut all: Vec<(f64, f64)> = competitors
        .map(|standing| (standing.figures.core_hours, standing.figures.slo_violation_minutes))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut path = String::new();
    let mut least = f64::INFINITY;
    for (core_hours, minutes) in all {
        if minutes < least {
            let [x, y] = view.at(core_hours, minutes).map(px);
            path += &if path.is_empty() { format!("M{x} {y}") } else { format!("H{x}V{y}") };
            least = minutes;
        }
    }
    path += &format!("H{}", px(FRAME.right()));
    format!("<path d=\"{path}\" class=\"front\"/>\n")
}

/// The same policy with other settings, as a faint line.
fn alternatives(view: &View, standing: &Standing) -> String {
    if standing.others.is_empty() {
        return String::new();
    }
    let class = class_of(standing.policy);
    let spots: Vec<[f64; 2]> =
        standing.others.iter().map(|(_, figures)| view.spot(figures)).collect();
    let points: Vec<String> = spots.iter().map(|[x, y]| format!("{},{}", px(*x), px(*y))).collect();
    let mut text =
        format!("<g class=\"fades others {class}\"><polyline points=\"{}\"/>\n", points.join(" "));
    for ((setting, figures), [x, y]) in standing.others.iter().zip(spots) {
        let told = told(&format!("{} ({setting})", standing.policy), figures);
        text += &format!("<circle cx=\"{}\" cy=\"{}\" r=\"2.5\">{told}</circle>\n", px(x), px(y));
    }
    text + "</g>\n"
}

/// The names of all points; that of the market has the first choice of place.
fn names(standings: &[Standing], spots: &[[f64; 2]]) -> String {
    let mut order: Vec<(&Standing, [f64; 2])> =
        standings.iter().zip(spots.iter().copied()).collect();
    order.sort_by_key(|(standing, _)| standing.policy != MARKET);
    let wanted: Vec<Spot<'_>> =
        order.iter().map(|(standing, at)| Spot { at: *at, name: standing.policy }).collect();
    let mut text = String::new();
    for ((standing, at), Place { at: base, anchor, tether }) in
        order.iter().zip(places(&FRAME, &wanted))
    {
        let class = class_of(standing.policy);
        let label = label_at(base, anchor, standing.policy);
        let tether = tether.map_or_else(String::new, |end| line(*at, end, "tether"));
        text += &format!("<g class=\"fades name {class}\">{tether}{label}</g>\n");
    }
    text
}

fn point(standing: &Standing, [x, y]: [f64; 2]) -> String {
    let class = class_of(standing.policy);
    let told = told(&name(standing), &standing.figures);
    if standing.policy == ORACLE {
        let (x0, x1, y0, y1) = (px(x - 6.0), px(x + 6.0), px(y - 6.0), px(y + 6.0));
        let (x, y) = (px(x), px(y));
        let diamond = format!("M{x0} {y}L{x} {y0}L{x1} {y}L{x} {y1}Z");
        return format!(
            "<path d=\"{diamond}\" class=\"fades point hollow {class}\">{told}</path>\n"
        );
    }
    let radius = if standing.policy == MARKET { "6" } else { "4.5" };
    let (x, y) = (px(x), px(y));
    let class = format!("fades point {class}");
    format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" class=\"{class}\">{told}</circle>\n")
}

/// What is told of a point when somebody points at it.
fn told(name: &str, figures: &Figures) -> String {
    let Figures { core_hours, slo_violation_minutes, .. } = figures;
    format!(
        "<title>{}: {} core-hours, {} minutes missed</title>",
        escape(name),
        short(*core_hours),
        short(*slo_violation_minutes)
    )
}

// === impl View ===

impl View {
    fn of(standings: &[Standing]) -> Self {
        let figures = || {
            let others = standings.iter().flat_map(|standing| &standing.others);
            let others = others.map(|(_, figures)| figures);
            standings.iter().map(|standing| &standing.figures).chain(others)
        };
        let least = figures().map(|figures| figures.core_hours).fold(f64::INFINITY, f64::min);
        let most = figures().map(|figures| figures.core_hours).fold(0.0, f64::max);
        let minutes = figures().map(|figures| figures.slo_violation_minutes).fold(0.0, f64::max);
        Self { across: Scale::log(least * 0.85, most * 1.15), up: Scale::root(minutes) }
    }

    fn at(&self, core_hours: f64, minutes: f64) -> [f64; 2] {
        [FRAME.x(self.across.place(core_hours)), FRAME.y(self.up.place(minutes))]
    }

    fn spot(&self, figures: &Figures) -> [f64; 2] {
        self.at(figures.core_hours, figures.slo_violation_minutes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::standing;

    #[test]
    fn the_front_goes_through_those_that_nobody_beats() {
        let standings = [
            standing("static", 2.0, 40.0),
            standing("vpa", 5.0, 10.0),
            standing("walras", 4.0, 5.0),
            standing("oracle", 1.0, 0.0),
        ];
        let view = View::of(&standings);
        let [x0, y0] = view.at(2.0, 40.0).map(px);
        let [x1, y1] = view.at(4.0, 5.0).map(px);
        let right = px(FRAME.right());
        let expected = format!("<path d=\"M{x0} {y0}H{x1}V{y1}H{right}\" class=\"front\"/>\n");
        assert_eq!(front(&view, &standings), expected);
    }

    #[test]
    fn every_policy_has_a_point_with_its_name_and_figures() {
        let standings = [standing("autothrottle", 5.0, 2.0), standing("oracle", 5.0, 0.0)];
        let text = draw(&standings);
        for expected in [
            ">autothrottle</text>",
            ">oracle</text>",
            "<title>autothrottle (target 0.02): 5 core-hours, 2 minutes missed</title>",
            "<title>autothrottle (target 0.3): 2.5 core-hours, 2 minutes missed</title>",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
