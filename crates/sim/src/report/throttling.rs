//! How often each policy let pods be throttled, as bars.

use super::frame::{Anchor, label_at, line, picture};
use super::markup::px;
use super::number::trimmed;
use super::palette::class_of;
use super::scale::Scale;
use crate::contest::Standing;

const WIDTH: f64 = 380.0;
const LEFT: f64 = 126.0;
const RIGHT: f64 = 324.0;
const TOP: f64 = 26.0;
const ROW: f64 = 28.0;
const BAR: f64 = 16.0;
/// As tall as the pictures beside it, where there are few bars.
const HEIGHT_MIN: f64 = 340.0;

/// Draws the picture.
pub(super) fn draw(standings: &[Standing]) -> String {
    let percent = |standing: &Standing| standing.figures.throttled_period_ratio * 100.0;
    let scale = Scale::linear(standings.iter().map(percent).fold(0.0, f64::max));
    let count = u32::try_from(standings.len()).unwrap_or(u32::MAX);
    let row = ROW.max((HEIGHT_MIN - 2.0 * TOP) / f64::from(count.max(1))).min(1.6 * ROW);
    let mut inside = label_at([6.0, TOP - 9.0], Anchor::Start, "percent of CFS periods throttled");
    let mut y = TOP;
    for standing in standings {
        let middle = y + row / 2.0;
        let class = class_of(standing.policy);
        let width = (RIGHT - LEFT) * scale.place(percent(standing));
        let value = format!("{} %", told(percent(standing)));
        inside += &format!("<g class=\"fades {class}\">\n");
        inside += &label_at([LEFT - 8.0, middle + 3.5], Anchor::End, standing.policy);
        inside += &format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"bar\"/>\n",
            px(LEFT),
            px(middle - BAR / 2.0),
            px(width.max(1.0)),
            px(BAR)
        );
        inside += &label_at([LEFT + width + 6.0, middle + 3.5], Anchor::Start, &value);
        inside += "</g>\n";
        y += row;
    }
    inside += &line([LEFT, TOP], [LEFT, y], "axis");
    picture(WIDTH, (y + 12.0).max(HEIGHT_MIN), "Throttled periods in percent, by policy", &inside)
}

fn told(percent: f64) -> String {
    if percent > 0.0 && percent < 0.005 { "<0.01".to_owned() } else { trimmed(percent, 2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::standing;

    #[test]
    fn every_policy_has_a_bar_with_its_value() {
        let mut low = standing("walras", 1.0, 0.0);
        low.figures.throttled_period_ratio = 0.000_01;
        let text = draw(&[standing("vpa", 1.0, 0.0), low]);
        assert_eq!(text.matches("class=\"bar\"").count(), 2);
        assert!(text.contains(">vpa</text>") && text.contains(">2 %</text>"), "{text}");
        assert!(text.contains("&lt;0.01 %"), "{text}");
    }
}
