//! How many requests were answered within which time, by policy.
//!
//! Both axes are stretched where it matters: times by their logarithm, shares towards the top,
//! where the slowest requests are.

use super::frame::{Anchor, Axis, Frame, label_at, line, picture};
use super::markup::{escape, px};
use super::palette::class_of;
use super::scale::Scale;
use super::words::name;
use crate::contest::Standing;
use crate::load::Histogram;

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 310.0;
const FRAME: Frame = Frame { left: 46.0, top: 26.0, width: 326.0, height: 242.0, below: 0.0 };
/// What fewer than so many requests did is not worth room in the picture.
const FASTEST: f64 = 0.02;

/// Draws the picture; nothing where no request was answered.
pub(super) fn draw(standings: &[Standing]) -> Option<String> {
    let quantile = |share: f64| {
        let all = standings.iter().filter_map(move |s| s.latencies.quantile_ms(share));
        all.fold(None, |range: Option<(f64, f64)>, ms| {
            Some(range.map_or((ms, ms), |(least, most)| (least.min(ms), most.max(ms))))
        })
    };
    let ((least_ms, _), (_, most_ms)) = (quantile(FASTEST)?, quantile(0.9995)?);
    let across = Scale::latency(least_ms, most_ms * 1.1);
    let up = Scale::nines();
    let mut inside = FRAME.axes(
        &Axis { scale: across, title: "latency (log scale)", ticks: 7 },
        &Axis { scale: up, title: "share of requests answered within", ticks: 10 },
    );
    for standing in standings.iter().filter(|standing| standing.latencies.total() > 0) {
        let path = path(&standing.latencies, &across, &up);
        let class = class_of(standing.policy);
        let title = escape(&name(standing));
        inside += &format!(
            "<path d=\"{path}\" class=\"fades curve {class}\"><title>{title}</title></path>\n"
        );
    }
    // Last, so that its label is not crossed out.
    inside += &target(standings, &across);
    Some(picture(WIDTH, HEIGHT, "Distribution of latencies", &inside))
}

/// The target, where there is a single service and so a single one.
fn target(standings: &[Standing], across: &Scale) -> String {
    let pods = standings.first().map_or(&[][..], |standing| &standing.first_node);
    let mut targets = pods.iter().filter_map(crate::measure::PodTally::slo_ms);
    let (Some(slo_ms), None) = (targets.next(), targets.next()) else {
        return String::new();
    };
    let x = FRAME.x(across.place(slo_ms));
    let label = format!("target {} ms", super::number::short(slo_ms));
    let drawn = line([x, FRAME.top], [x, FRAME.bottom()], "target");
    drawn + &label_at([x + 4.0, FRAME.bottom() - 6.0], Anchor::Start, &label)
}

fn path(latencies: &Histogram, across: &Scale, up: &Scale) -> String {
    let mut path = String::new();
    let mut last = [String::new(), String::new()];
    for (latency_ms, share) in latencies.cumulative() {
        let spot = [FRAME.x(across.place(latency_ms)), FRAME.y(up.place(share))].map(px);
        if spot != last {
            path += if path.is_empty() { "M" } else { " " };
            path += &spot.join(" ");
            last = spot;
        }
        // What is slower still would only be a line along the upper edge.
        if share >= up.highest() {
            break;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::standing;

    #[test]
    fn there_is_a_curve_for_each_policy_and_the_target() {
        let text = draw(&[standing("vpa", 1.0, 0.0), standing("autothrottle", 1.0, 0.0)]);
        let text = text.expect("there are latencies");
        assert_eq!(text.matches("class=\"fades curve ").count(), 2);
        assert!(text.contains("<title>autothrottle (target 0.02)</title>"), "{text}");
        assert!(text.contains(">target 30 ms</text>"), "{text}");
    }

    #[test]
    fn a_curve_goes_up_and_to_the_right() {
        let mut latencies = Histogram::default();
        for latency_ms in [1.0, 10.0, 10.0, 100.0] {
            latencies.record(latency_ms);
        }
        let path = path(&latencies, &Scale::log(1.0, 100.0), &Scale::nines());
        let numbers: Vec<f64> =
            path[1..].split(' ').map(|number| number.parse().expect("a number")).collect();
        let spots: Vec<&[f64]> = numbers.chunks(2).collect();
        assert_eq!(spots.len(), 3, "{path}");
        assert!(spots.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] > pair[1][1]));
    }

    #[test]
    fn without_requests_there_is_no_picture() {
        let mut standing = standing("vpa", 1.0, 0.0);
        standing.latencies.clear();
        assert_eq!(draw(&[standing]), None);
    }
}
