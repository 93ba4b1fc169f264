//! The page of a trial: the same load before and after, measured or simulated, on one node.
//!
//! Whoever made the trial says what is in the table; the pictures are those of a contest.

use super::html::{END, figure, head, legend, over_time};
use super::markup::escape;
use super::{Chapter, latency};

/// What a page of a trial shows.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The heading.
    pub title: &'a str,
    /// What was tried, in a few sentences.
    pub lead: &'a str,
    /// What came of it, in a sentence.
    pub verdict: &'a str,
    /// The headings of the table.
    pub headings: &'a [&'a str],
    /// The table: a row for each figure, as long as the headings.
    pub rows: &'a [Vec<String>],
    /// What the pictures of pods over time show.
    pub about_pods: &'a str,
    /// What is drawn.
    pub chapter: Chapter<'a>,
}

/// The whole page.
#[must_use]
pub fn trial(trial: &Trial<'_>) -> String {
    let mut page = head(trial.title);
    page += &format!("<p class=\"lead\">{}</p>\n<section>\n", escape(trial.lead));
    page += &format!("<p class=\"verdict\">{}</p>\n", escape(trial.verdict));
    page += &table(trial);
    if let Some(picture) = latency::draw(trial.chapter.standings) {
        let picture = picture + &legend(trial.chapter.standings);
        page += &format!("<div class=\"plots\">\n{}</div>\n", figure("Latency", &picture));
    }
    page += &over_time(&trial.chapter, trial.about_pods);
    page + "</section>\n" + END
}

fn table(trial: &Trial<'_>) -> String {
    let mut text = "<div class=\"wide glance\"><table>\n<thead><tr>".to_owned();
    for heading in trial.headings {
        text += &format!("<th>{}</th>", escape(heading));
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in trial.rows {
        text += "<tr>";
        for (place, cell) in row.iter().enumerate() {
            let tag = if place == 0 { "th" } else { "td" };
            text += &format!("<{tag}>{}</{tag}>", escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{recording, scenario, standing};

    #[test]
    fn a_page_has_the_table_and_a_picture_of_every_pod_before_and_after() {
        let scenario = scenario(&["web", "batch"]);
        let standings = [standing("static", 5.0, 2.0), standing("walras", 4.0, 1.0)];
        let recordings = [("static", recording(&[0, 1], &[])), ("walras", recording(&[0, 1], &[]))];
        let page = trial(&Trial {
            title: "a < b",
            lead: "lead",
            verdict: "verdict",
            headings: &["", "before", "after"],
            rows: &[vec!["web & co".to_owned(), "1".to_owned(), "2".to_owned()]],
            about_pods: "pods",
            chapter: Chapter {
                scenario: &scenario,
                standings: &standings,
                recordings: &recordings,
            },
        });
        assert!(page.contains("<title>a &lt; b</title>"), "{page}");
        assert!(page.contains("<th>web &amp; co</th><td>1</td><td>2</td>"), "{page}");
        assert_eq!(page.matches("CPU over time under").count(), 4, "{page}");
        for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
