//! One pod under one policy over time: what it was offered, what it used, and what was set for it.
//!
//! All pictures of a pod have the same axes, so that policies can be compared by eye. Below the
//! axis is a strip that is the darker, the more periods were throttled.

use super::frame::{Anchor, Axis, Frame, label_at, picture};
use super::markup::px;
use super::number::short;
use super::palette::class_of;
use super::scale::Scale;
use crate::machine::PERIOD_MS;
use crate::recording::{Point, Recording, Series};

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 174.0;
const FRAME: Frame = Frame { left: 26.0, top: 8.0, width: 288.0, height: 128.0, below: STRIP };
/// How high the strip of throttled periods is, between zero and the axis.
const STRIP: f64 = 6.0;
/// A limit may be so many times what the pod wants before it is cut off at the top.
const LIMIT_SHOWN: f64 = 2.0;

/// The axes that all pictures of a pod have.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    time: Scale,
    cores: Scale,
    unit: TimeUnit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeUnit {
    Second,
    Minute,
    Hour,
}

/// What a line shows.
type Level = fn(&Point) -> Option<f64>;

/// Draws how a pod did under a policy.
pub(super) fn draw(view: &View, policy: &str, recording: &Recording, series: &Series) -> String {
    let step = view.unit.of_seconds(recording.step_s);
    let line = Line { view, step, points: &series.points };
    let mut inside = view.axes("cores");
    inside += &line.area(|point| point.used_cores, "used");
    inside += &line.outline(|point| point.offered_cores, "offered");
    inside += &line.steps(|point| Some(point.request_cores), "request");
    inside += &line.steps(|point| point.limit_cores, "limit");
    inside += &line.strip(recording.step_s);
    let limits = series.points.iter().filter_map(|point| point.limit_cores);
    let note = match limits.reduce(f64::max) {
        None => "no limit".to_owned(),
        Some(most) if most <= view.cores.highest() => String::new(),
        Some(most) => format!("limit up to {}", short(most)),
    };
    if !note.is_empty() {
        inside += &label_at([FRAME.right() - 4.0, FRAME.top + 12.0], Anchor::End, &note);
    }
    let group = format!("<g class=\"{}\">\n{inside}</g>\n", class_of(policy));
    picture(WIDTH, HEIGHT, &format!("CPU over time under {policy}"), &group)
}

/// Draws the price over time; nothing where there was none, or it was always zero.
pub(super) fn draw_price(view: &View, policy: &str, recording: &Recording) -> Option<String> {
    let most = recording.prices.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let view = View { cores: Scale::linear(most), ..*view };
    let as_point = |price: &f64| Point { used_cores: *price, ..Point::default() };
    let points: Vec<Point> = recording.prices.iter().map(as_point).collect();
    let step = view.unit.of_seconds(recording.step_s);
    let line = Line { view: &view, step, points: &points };
    let mut inside = view.axes("price");
    inside += &line.area(|point| point.used_cores, "price");
    let group = format!("<g class=\"{}\">\n{inside}</g>\n", class_of(policy));
    Some(picture(WIDTH, HEIGHT, &format!("Price over time under {policy}"), &group))
}

// === impl View ===

impl View {
    /// The axes for all of these, which are of the same pod.
    pub(super) fn of<'a>(duration_s: u32, all: impl Iterator<Item = &'a Series> + Clone) -> Self {
        let points = || all.clone().flat_map(|series| &series.points);
        let wanted =
            points().map(|point| point.offered_cores.max(point.used_cores)).fold(0.0, f64::max);
        let limit = points().filter_map(|point| point.limit_cores).fold(0.0, f64::max);
        let unit = TimeUnit::for_length(duration_s);
        Self {
            time: Scale::time(unit.of_seconds(duration_s)),
            cores: Scale::linear(limit.min(wanted * LIMIT_SHOWN).max(wanted)),
            unit,
        }
    }

    fn axes(&self, what: &str) -> String {
        let title = format!("{what}, over {}", self.unit.plural());
        let across = Axis { scale: self.time, title: &title, ticks: 6 };
        let up = Axis { scale: self.cores, title: "", ticks: 4 };
        FRAME.axes(&across, &up)
    }
}

// === impl TimeUnit ===

impl TimeUnit {
    fn for_length(duration_s: u32) -> Self {
        match duration_s {
            0..=180 => Self::Second,
            181..=10_800 => Self::Minute,
            10_801.. => Self::Hour,
        }
    }

    fn of_seconds(self, seconds: u32) -> f64 {
        let per_unit = match self {
            Self::Second => 1.0,
            Self::Minute => 60.0,
            Self::Hour => 3600.0,
        };
        f64::from(seconds) / per_unit
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Second => "seconds",
            Self::Minute => "minutes",
            Self::Hour => "hours",
        }
    }
}

/// The points of a series, drawn in several ways.
struct Line<'a> {
    view: &'a View,
    /// How much time a point stands for.
    step: f64,
    points: &'a [Point],
}

// === impl Line ===

impl Line<'_> {
    /// Filled down to zero.
    fn area(&self, level: fn(&Point) -> f64, class: &str) -> String {
        let corners = self.corners(level);
        let (Some((first, _)), Some((last, _))) = (corners.first(), corners.last()) else {
            return String::new();
        };
        let spots: Vec<String> = corners.iter().map(|(x, y)| format!("{x} {y}")).collect();
        let bottom = px(FRAME.bottom());
        let path = format!("M{first} {bottom}L{}L{last} {bottom}Z", spots.join(" "));
        format!("<path d=\"{path}\" class=\"{class}\"/>\n")
    }

    /// A line through the middle of each point.
    fn outline(&self, level: fn(&Point) -> f64, class: &str) -> String {
        let spots: Vec<String> =
            self.corners(level).iter().map(|(x, y)| format!("{x} {y}")).collect();
        format!("<path d=\"M{}\" class=\"{class}\"/>\n", spots.join(" "))
    }

    /// A line that stays where it is until it changes, with gaps where there is nothing.
    fn steps(&self, level: Level, class: &str) -> String {
        let mut path = String::new();
        let mut before: Option<String> = None;
        for (place, point) in self.points.iter().enumerate() {
            let now = level(point).map(|cores| px(self.y(cores)));
            if now == before {
                continue;
            }
            let x = px(self.x(place));
            path += &match (&before, &now) {
                (None, Some(y)) => format!("M{x} {y}"),
                (Some(_), Some(y)) => format!("H{x}V{y}"),
                (Some(_), None) => format!("H{x}"),
                (None, None) => String::new(),
            };
            before = now;
        }
        if before.is_some() {
            path += &format!("H{}", px(self.x(self.points.len())));
        }
        if path.is_empty() {
            return String::new();
        }
        format!("<path d=\"{path}\" class=\"{class}\"/>\n")
    }

    /// Dashes where periods were throttled, in three shades.
    fn strip(&self, step_s: u32) -> String {
        let periods = f64::from(step_s * 1000 / PERIOD_MS);
        let y = px(FRAME.bottom() + STRIP / 2.0);
        let mut text = String::new();
        for (shade, low, high) in [(1, 0.0, 0.1), (2, 0.1, 0.4), (3, 0.4, f64::INFINITY)] {
            let mut path = String::new();
            let mut begun: Option<usize> = None;
            let ratios = self.points.iter().map(|point| ratio(point.throttled_periods, periods));
            for (place, ratio) in ratios.chain(std::iter::once(0.0)).enumerate() {
                match (begun, ratio > low && ratio <= high) {
                    (None, true) => begun = Some(place),
                    (Some(from), false) => {
                        path += &format!("M{} {y}H{}", px(self.x(from)), px(self.x(place)));
                        begun = None;
                    }
                    (None, false) | (Some(_), true) => {}
                }
            }
            if !path.is_empty() {
                text += &format!("<path d=\"{path}\" class=\"throttled t{shade}\"/>\n");
            }
        }
        text
    }

    /// The middle of each point, without those in a row of equal ones.
    fn corners(&self, level: fn(&Point) -> f64) -> Vec<(String, String)> {
        let mut corners: Vec<(String, String)> = Vec::new();
        for (place, point) in self.points.iter().enumerate() {
            let x = px(self.x(place) + self.x_step() / 2.0);
            let y = px(self.y(level(point)));
            match corners.as_mut_slice() {
                [.., (_, earlier), (last_x, last)] if *earlier == y && *last == y => *last_x = x,
                _ => corners.push((x, y)),
            }
        }
        corners
    }

    fn x(&self, place: usize) -> f64 {
        let place = u32::try_from(place).map_or(0.0, f64::from);
        FRAME.x(self.view.time.place(place * self.step))
    }

    fn x_step(&self) -> f64 {
        self.x(1) - self.x(0)
    }

    fn y(&self, value: f64) -> f64 {
        FRAME.y(self.view.cores.place(value))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a point has few periods")]
fn ratio(part: u64, whole: f64) -> f64 {
    if whole > 0.0 { part as f64 / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::recording;

    fn view(recording: &Recording) -> View {
        View::of(120, recording.pods.iter())
    }

    #[test]
    fn a_pod_is_drawn_with_all_its_lines() {
        let recording = recording(&[0], &[]);
        let text = draw(&view(&recording), "vpa", &recording, &recording.pods[0]);
        for class in ["used", "offered", "request", "limit", "throttled t3"] {
            assert_eq!(text.matches(&format!("class=\"{class}\"")).count(), 1, "{class}\n{text}");
        }
        assert!(text.contains(">cores, over seconds</text>"), "{text}");
        assert!(!text.contains("no limit"), "{text}");
    }

    #[test]
    fn a_limit_that_does_not_change_is_one_stroke() {
        let recording = recording(&[0], &[]);
        let view = view(&recording);
        let line = Line { view: &view, step: 1.0, points: &recording.pods[0].points };
        let middle = px(FRAME.y(0.5));
        let expected = format!("<path d=\"M26 {middle}H314\" class=\"limit\"/>\n");
        assert_eq!(line.steps(|point| point.limit_cores, "limit"), expected);
        assert_eq!(line.steps(|_| None, "limit"), "");
    }

    #[test]
    fn what_has_no_limit_and_what_is_cut_off_is_said() {
        let mut recording = recording(&[0], &[]);
        for point in &mut recording.pods[0].points {
            point.limit_cores = Some(64.0);
        }
        let cut = draw(&view(&recording), "vpa", &recording, &recording.pods[0]);
        assert!(cut.contains(">limit up to 64</text>"), "{cut}");
        for point in &mut recording.pods[0].points {
            point.limit_cores = None;
        }
        let none = draw(&view(&recording), "weights", &recording, &recording.pods[0]);
        assert!(none.contains(">no limit</text>"), "{none}");
    }

    #[test]
    fn a_price_is_drawn_where_there_was_one() {
        let with = recording(&[0], &[0.0, 0.5]);
        assert!(draw_price(&view(&with), "walras", &with).expect("a price").contains("price"));
        let without = recording(&[0], &[0.0, 0.0]);
        assert_eq!(draw_price(&view(&without), "walras", &without), None);
    }
}
