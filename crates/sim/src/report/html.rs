//! The page: one chapter per scenario, with the table and the pictures.

use std::collections::BTreeSet;

use super::markup::escape;
use super::number::{count, short};
use super::palette::{self, class_of};
use super::scores::{COLUMNS, Row, scores};
use super::words::{comparison, introduction};
use super::{Chapter, ORACLE, latency, pareto, throttling, timeline};
use crate::contest::Standing;
use crate::recording::{Recording, Series};

const STYLE: &str = include_str!("style.css");
/// So many pods are shown at once; the others open when they are asked for.
const OPEN_PODS: usize = 2;
/// What the captions of a simulation's pods say.
const SIMULATED_PODS: &str = "Pods of the first node, with their core-hours of limit and, for \
                              services, the minutes in which the target was missed.";
/// The end of a page.
pub(super) const END: &str = "</main>\n</body>\n</html>\n";

/// The whole page.
#[must_use]
pub fn html(chapters: &[Chapter<'_>]) -> String {
    let mut page = head(&format!("Walras: {} simulated", count(chapters.len(), "scenario")));
    page += "<p class=\"lead\">The same load on the same machine under each policy. Limits cost \
             core-hours and missed latency targets cost users; a good policy has little of \
             both. The oracle knows the future and is the yardstick, not a competitor.</p>\n";
    if chapters.len() > 1 {
        page += &overview(chapters);
    }
    for (number, chapter) in chapters.iter().enumerate() {
        page += &section(number, chapter);
    }
    page += &meanings();
    page + END
}

/// The beginning of a page, up to its heading.
pub(super) fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        palette::css()
    )
}

/// All scenarios in one table: core-hours and missed minutes of each policy.
fn overview(chapters: &[Chapter<'_>]) -> String {
    let mut policies: Vec<&'static str> = Vec::new();
    for standing in chapters.iter().flat_map(|chapter| chapter.standings) {
        if !policies.contains(&standing.policy) {
            policies.push(standing.policy);
        }
    }
    let mut text = "<section>\n<h2>At a glance</h2>\n<p>Core-hours of limit, and the minutes in \
                    which latency targets were missed.</p>\n<div class=\"wide glance\">\
                    <table>\n<thead><tr><th>policy</th>"
        .to_owned();
    for (number, chapter) in chapters.iter().enumerate() {
        let name = escape(&chapter.scenario.name);
        text += &format!("<th><a href=\"#s{number}\">{name}</a></th>");
    }
    text += "</tr></thead>\n<tbody>\n";
    for policy in policies {
        text += &format!("<tr class=\"{}\"><th>{}</th>", class_of(policy), swatch(policy));
        for chapter in chapters {
            let mut standings = chapter.standings.iter();
            let cell = standings.find(|standing| standing.policy == policy).map(|standing| {
                let figures = &standing.figures;
                let hours = short(figures.core_hours);
                let minutes = short(figures.slo_violation_minutes);
                format!("{hours} <span class=\"minutes\">{minutes} min</span>")
            });
            text += &format!("<td>{}</td>", cell.unwrap_or_default());
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>\n</section>\n"
}

/// One scenario.
fn section(number: usize, chapter: &Chapter<'_>) -> String {
    let mut text = format!(
        "<section id=\"s{number}\">\n<h2>{}</h2>\n<p>{}</p>\n",
        escape(&chapter.scenario.name),
        escape(&introduction(chapter.scenario))
    );
    if let Some(comparison) = comparison(chapter.standings) {
        text += &format!("<p class=\"verdict\">{}.</p>\n", escape(&comparison));
    }
    text += &table(chapter.standings);
    text += "<div class=\"plots\">\n";
    let note = "<p class=\"note\">Left is cheaper, low is better. Dotted: nobody is better in \
                both. Faint: the same policy with other settings.</p>\n";
    let picture = pareto::draw(chapter.standings) + note;
    text += &figure("Limits against missed targets", &picture);
    if let Some(picture) = latency::draw(chapter.standings) {
        text += &figure("Latency", &(picture + &legend(chapter.standings)));
    }
    text += &figure("Throttling", &throttling::draw(chapter.standings));
    text += "</div>\n";
    text += &over_time(chapter, SIMULATED_PODS);
    text + "</section>\n"
}

/// What the columns of the tables mean, for who reads them on paper or without a mouse.
fn meanings() -> String {
    let mut text =
        "<section>\n<h2>What the columns mean</h2>\n<dl class=\"meanings\">\n".to_owned();
    for column in &COLUMNS {
        let [first, second] = column.heading.map(escape);
        text += &format!("<dt>{first} {second}</dt><dd>{}</dd>\n", escape(column.meaning));
    }
    text + "</dl>\n</section>\n"
}

fn table(standings: &[Standing]) -> String {
    let mut text = "<div class=\"wide\"><table>\n<thead><tr><th>policy</th>".to_owned();
    for column in &COLUMNS {
        let [first, second] = column.heading.map(escape);
        text += &format!("<th title=\"{}\">{first}<br>{second}</th>", escape(column.meaning));
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &scores(standings).rows {
        text += &table_row(row);
    }
    text + "</tbody>\n</table></div>\n"
}

fn table_row(row: &Row) -> String {
    let setting = row.setting.as_ref().map_or_else(String::new, |setting| {
        format!(" <span class=\"setting\">{}</span>", escape(setting))
    });
    let kind = if row.policy == ORACLE { " yardstick" } else { "" };
    let class = class_of(row.policy);
    let mut text = format!("<tr class=\"{class}{kind}\"><th>{}{setting}</th>", swatch(row.policy));
    for cell in &row.cells {
        let best = if cell.best { " class=\"best\"" } else { "" };
        text += &format!("<td{best}>{}</td>", escape(&cell.text));
    }
    text + "</tr>\n"
}

/// How the chosen pods did, and the price; `about` says which pods and what is told of them.
pub(super) fn over_time(chapter: &Chapter<'_>, about: &str) -> String {
    let places: BTreeSet<(usize, usize)> = chapter
        .recordings
        .iter()
        .flat_map(|(_, recording)| recording.pods.iter().enumerate())
        .map(|(order, series)| (order, series.place))
        .collect();
    if places.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<h3>Allocation against usage</h3>\n<p>{}</p>\n<p class=\"key\">\
         <span><i class=\"k-used\"></i>used</span> \
         <span><i class=\"k-offered\"></i>offered</span> \
         <span><i class=\"k-limit\"></i>limit</span> \
         <span><i class=\"k-request\"></i>request</span> \
         <span><i class=\"k-throttled\"></i>throttled</span></p>\n",
        escape(about)
    );
    let is_drawn = |policy: &str| chapter.recordings.iter().any(|(drawn, _)| *drawn == policy);
    let missing: Vec<&str> = chapter
        .standings
        .iter()
        .map(|standing| standing.policy)
        .filter(|policy| !is_drawn(policy))
        .collect();
    if !missing.is_empty() {
        let missing = escape(&missing.join(", "));
        text += &format!("<p class=\"note\">Not drawn, to save time: {missing}.</p>\n");
    }
    for (order, place) in places {
        text += &pod(chapter, order, place);
    }
    text + &prices(chapter)
}

/// One pod under all policies.
fn pod(chapter: &Chapter<'_>, order: usize, place: usize) -> String {
    let recorded: Vec<(&str, &Recording, &Series)> = chapter
        .recordings
        .iter()
        .filter_map(|(policy, recording)| Some((*policy, recording, recording.pods.get(order)?)))
        .collect();
    let all = recorded.iter().map(|(_, _, series)| *series);
    let view = timeline::View::of(chapter.scenario.duration_s, all);
    let open = if order < OPEN_PODS { " open" } else { "" };
    let pod = chapter.scenario.pods.get(place).map_or("", |pod| pod.name.as_str());
    let mut text =
        format!("<details{open}>\n<summary>{}</summary>\n<div class=\"multiples\">\n", escape(pod));
    for (policy, recording, series) in recorded {
        let mut standings = chapter.standings.iter();
        let standing = standings.find(|standing| standing.policy == policy);
        let caption = caption(policy, standing, place);
        let picture = timeline::draw(&view, policy, recording, series);
        text += &format!("<figure class=\"{}\">{caption}{picture}</figure>\n", class_of(policy));
    }
    text + "</div>\n</details>\n"
}

/// The policy, and what it came to for the pod.
fn caption(policy: &str, standing: Option<&Standing>, place: usize) -> String {
    let setting = standing.and_then(|standing| standing.setting.as_deref());
    let setting =
        setting.map_or_else(String::new, |setting| format!(" <span>{}</span>", escape(setting)));
    let tally = standing.and_then(|standing| standing.first_node.get(place));
    let figures = tally.map_or_else(String::new, |tally| {
        let missed = match tally.slo_ms() {
            Some(_) => format!(", {} min", short(tally.violation_minutes())),
            None => String::new(),
        };
        format!("<span>{} core-h{missed}</span>", short(tally.limit_core_hours()))
    });
    format!("<figcaption><div><b>{}</b>{setting}</div>{figures}</figcaption>\n", swatch(policy))
}

fn prices(chapter: &Chapter<'_>) -> String {
    let priced: Vec<&(&'static str, Recording)> =
        chapter.recordings.iter().filter(|(_, recording)| !recording.prices.is_empty()).collect();
    if priced.is_empty() {
        return String::new();
    }
    let view = timeline::View::of(chapter.scenario.duration_s, std::iter::empty());
    let mut pictures = String::new();
    let mut free: Vec<&str> = Vec::new();
    for (policy, recording) in priced {
        match timeline::draw_price(&view, policy, recording) {
            Some(picture) => {
                let caption = caption(policy, None, usize::MAX);
                let class = class_of(policy);
                pictures += &format!("<figure class=\"{class}\">{caption}{picture}</figure>\n");
            }
            None => free.push(policy),
        }
    }
    let mut text = "<h3>Price of CPU</h3>\n".to_owned();
    if !free.is_empty() {
        let who = escape(&free.join(", "));
        text += &format!("<p>Always zero under {who}: all needs fit on the node.</p>\n");
    }
    if !pictures.is_empty() {
        text += &format!("<div class=\"multiples\">\n{pictures}</div>\n");
    }
    text
}

pub(super) fn figure(title: &str, inside: &str) -> String {
    format!("<figure><figcaption><b>{title}</b></figcaption>\n{inside}</figure>\n")
}

/// The policies with their lines.
pub(super) fn legend(standings: &[Standing]) -> String {
    let entry = |standing: &Standing| {
        let class = class_of(standing.policy);
        let stroke = "<svg viewBox=\"0 0 28 8\" class=\"stroke\" aria-hidden=\"true\">\
                      <path d=\"M0 4H28\" class=\"curve\"/></svg>";
        format!("<span class=\"{class}\">{stroke}{}</span>", escape(standing.policy))
    };
    let entries: Vec<String> = standings.iter().map(entry).collect();
    format!("<p class=\"legend\">{}</p>\n", entries.join("\n"))
}

pub(super) fn swatch(policy: &str) -> String {
    format!("<i class=\"swatch\"></i>{}", escape(policy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{recording, scenario, standing};

    fn page(names: &[&str]) -> String {
        let scenario = scenario(names);
        let standings = [
            standing("autothrottle", 5.0, 2.0),
            standing("walras", 4.0, 1.0),
            standing("oracle", 2.0, 0.0),
        ];
        let recordings = [("walras", recording(&[0, 1], &[0.0, 0.5]))];
        let chapter =
            Chapter { scenario: &scenario, standings: &standings, recordings: &recordings };
        html(&[chapter, chapter])
    }

    #[test]
    fn names_are_text_and_never_markup() {
        let page = page(&["<b>&\"", "b"]);
        assert!(page.contains("<summary>&lt;b&gt;&amp;&quot;</summary>"), "{page}");
        assert!(!page.contains("<b>&\""), "{page}");
    }

    #[test]
    fn a_page_has_everything_and_needs_nothing() {
        let page = page(&["a", "b"]);
        for expected in [
            "<h2>At a glance</h2>",
            "<h2>sample</h2>",
            "<span class=\"setting\">target 0.02</span>",
            "Limits against missed targets",
            "<h3>Price of CPU</h3>",
            "<dt>Jain index</dt><dd>how alike pods did",
            "<summary>b</summary>",
            "Not drawn, to save time: autothrottle, oracle.",
            "prefers-color-scheme:dark",
        ] {
            assert!(page.contains(expected), "{expected}\n{page}");
        }
        for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn what_is_opened_is_closed() {
        let page = page(&["a", "b"]);
        for tag in
            ["section", "figure", "svg", "table", "tr", "details", "div", "p", "g", "title", "dl"]
        {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn a_scenario_without_pictures_over_time_has_none() {
        let scenario = scenario(&["a"]);
        let standings = [standing("vpa", 1.0, 0.0)];
        let chapter = Chapter { scenario: &scenario, standings: &standings, recordings: &[] };
        let page = html(&[chapter]);
        assert!(!page.contains("Allocation against usage") && !page.contains("At a glance"));
    }
}
