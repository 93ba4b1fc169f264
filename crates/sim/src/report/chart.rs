//! Pages and charts for whoever has other results than a contest's: lines, points and bars.
//!
//! They look like the simulator's own, and like them they are text that needs nothing from
//! elsewhere.

use super::frame::{Axis, Frame, line, picture};
use super::html::{END, figure, head};
use super::markup::{escape, px};
use super::number::short;
use super::scale::Scale;

/// A line through points, with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it shows.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<[f64; 2]>,
    /// Whether every point is marked.
    pub marked: bool,
    /// Whether it is a yardstick, which is drawn faintly.
    pub faint: bool,
}

/// A chart of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines<'a> {
    /// What it shows.
    pub title: &'a str,
    /// What goes from left to right.
    pub across: &'a str,
    /// What goes from the bottom up.
    pub up: &'a str,
    /// The lines.
    pub lines: &'a [Line],
}

const FRAME: Frame = Frame { left: 52.0, top: 24.0, width: 420.0, height: 210.0, below: 6.0 };
const WIDTH: f64 = 490.0;
const HEIGHT: f64 = 284.0;
const BAR: f64 = 20.0;
const NAMES: f64 = 170.0;
const COLOURS: [&str; 3] = ["#0b6e99", "#c2571a", "#6b7280"];

/// A whole page.
#[must_use]
pub fn page(title: &str, lead: &str, body: &str) -> String {
    format!("{}<p class=\"lead\">{}</p>\n{body}{END}", head(title), escape(lead))
}

/// A part of a page: a heading, a text, and pictures beside each other.
#[must_use]
pub fn section(heading: &str, text: &str, figures: &[String]) -> String {
    let pictures = if figures.is_empty() {
        String::new()
    } else {
        format!("<div class=\"plots\">\n{}</div>\n", figures.concat())
    };
    let (heading, text) = (escape(heading), escape(text));
    format!("<section>\n<h2>{heading}</h2>\n<p>{text}</p>\n{pictures}</section>\n")
}

/// A table with two columns.
#[must_use]
pub fn table(rows: &[(String, String)]) -> String {
    let row = |(name, value): &(String, String)| {
        format!("<tr><th>{}</th><td>{}</td></tr>\n", escape(name), escape(value))
    };
    let rows: String = rows.iter().map(row).collect();
    format!("<div class=\"wide glance\"><table>\n<tbody>\n{rows}</tbody>\n</table></div>\n")
}

/// Lines over each other.
#[must_use]
pub fn lines(chart: &Lines<'_>) -> String {
    let all = || chart.lines.iter().flat_map(|line| &line.points);
    let most = |side: usize| all().map(|point| point[side]).fold(0.0, f64::max);
    let (across, up) = (Scale::linear(most(0)), Scale::linear(most(1)));
    let mut text = FRAME.axes(
        &Axis { scale: across, title: chart.across, ticks: 6 },
        &Axis { scale: up, title: chart.up, ticks: 5 },
    );
    let mut legend = String::new();
    for (one, colour) in chart.lines.iter().zip(COLOURS.iter().cycle()) {
        let at = |point: &[f64; 2]| {
            [px(FRAME.x(across.place(point[0]))), px(FRAME.y(up.place(point[1])))]
        };
        let places: Vec<[String; 2]> = one.points.iter().map(at).collect();
        let path: Vec<String> = places.iter().map(|[x, y]| format!("{x} {y}")).collect();
        let dashes = if one.faint { " stroke-dasharray=\"4 4\"" } else { "" };
        text += &format!(
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n",
            path.join("L")
        );
        for ([x, y], point) in places.iter().zip(&one.points).filter(|_| one.marked) {
            let [told, found] = point.map(short);
            text += &format!(
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{colour}\">\
                 <title>{told}, {found}</title></circle>\n"
            );
        }
        legend += &format!(
            "<span><i class=\"swatch\" style=\"background:{colour}\"></i>{}</span> ",
            escape(&one.name)
        );
    }
    let drawn = picture(WIDTH, HEIGHT, chart.title, &text);
    figure(&escape(chart.title), &format!("{drawn}<p class=\"legend\">{legend}</p>\n"))
}

/// Bars below each other, the longest of which fills the picture.
#[must_use]
pub fn bars(title: &str, unit: &str, bars: &[(String, f64)]) -> String {
    let most = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let room = WIDTH - NAMES - 60.0;
    let mut text = String::new();
    let mut top = 6.0;
    for (name, value) in bars {
        let width = if most > 0.0 { (value / most).max(0.0) * room } else { 0.0 };
        let (name, value) = (escape(name), escape(&format!("{} {unit}", short(*value))));
        let colour = COLOURS[0];
        text += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>\n\
             <rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{colour}\"/>\n\
             <text x=\"{}\" y=\"{}\">{value}</text>\n",
            px(NAMES - 6.0),
            px(top + 12.0),
            px(NAMES),
            px(top),
            px(width),
            px(BAR - 5.0),
            px(NAMES + width + 5.0),
            px(top + 12.0),
        );
        top += BAR;
    }
    text += &line([NAMES, 2.0], [NAMES, top], "axis");
    figure(&escape(title), &picture(WIDTH, top + 6.0, title, &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> String {
        let one = |name: &str, faint: bool| Line {
            name: name.to_owned(),
            points: vec![[0.0, 0.0], [0.5, 0.25], [1.0, 1.0]],
            marked: !faint,
            faint,
        };
        let both = [one("<b>&", false), one("right", true)];
        let drawn = lines(&Lines { title: "a < b", across: "x", up: "y", lines: &both });
        let drawn = section("S & T", "Text.", &[drawn, bars("c", "pt", &[("d".to_owned(), 2.0)])]);
        page("P", "Lead.", &(drawn + &table(&[("e".to_owned(), "f < g".to_owned())])))
    }

    #[test]
    fn what_is_opened_is_closed_and_text_is_no_markup() {
        let page = sample();
        for tag in ["section", "figure", "svg", "table", "tr", "div", "p", "circle", "title"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(page.contains("&lt;b&gt;&amp;") && !page.contains("<b>&<"), "{page}");
        for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn nothing_to_show_is_no_trouble() {
        let drawn = lines(&Lines { title: "t", across: "x", up: "y", lines: &[] });
        assert!(drawn.contains("<svg") && bars("t", "pt", &[]).contains("<svg"));
    }
}
