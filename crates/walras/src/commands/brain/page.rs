//! The page about a model: how it learned, how its confidence fits, what it looks at.

use walras_brain::judge::Judgement;
use walras_brain::mlp::Round;
use walras_sim::report::chart::{self, Line, Lines};

/// Makes the page. `rounds` is empty where the model was not trained just now.
pub(super) fn page(name: &str, about: &str, found: &Judgement, rounds: &[Round]) -> String {
    let mut body = chart::table(&figures(found));
    let mut figures = vec![reliability(found), importance(found)];
    let mut text = "Figures are of the events that are named above.";
    if !rounds.is_empty() {
        figures.insert(0, learning(rounds));
        text = "Figures are of the youngest events, which the model did not learn from.";
    }
    body += &chart::section("How good it is", text, &figures);
    chart::page(&format!("Walras Brain: {name}"), about, &body)
}

fn figures(found: &Judgement) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    vec![
        row("Rows, events", format!("{}, {}", found.rows, found.events)),
        row("Error (root mean square)", format!("{:.2} points", found.rmse)),
        row("Error of always 50", format!("{:.2} points", found.rmse_neutral)),
        row("Error of always the mean", format!("{:.2} points", found.rmse_mean)),
        row("Mean error", format!("{:.2} points", found.mae)),
        row("Within ten points", format!("{:.1} %", found.within_ten * 100.0)),
        row("Rank correlation in an event", format!("{:.3}", found.rank_in_event)),
        row("Rank correlation over all", format!("{:.3}", found.rank)),
        row("Best node first", format!("{:.1} %", found.best_first * 100.0)),
        row("Calibration error", format!("{:.1} %", found.calibration_error * 100.0)),
    ]
}

fn learning(rounds: &[Round]) -> String {
    let line = |name: &str, error: fn(&Round) -> f64| Line {
        name: name.to_owned(),
        points: rounds.iter().map(|r| [f64::from(r.round), error(r).sqrt() * 100.0]).collect(),
        marked: false,
        faint: false,
    };
    let lines = [line("learned from", |r| r.train), line("validated by", |r| r.validate)];
    chart::lines(&Lines {
        title: "Error while it learned",
        across: "epoch or tree",
        up: "points",
        lines: &lines,
    })
}

fn reliability(found: &Judgement) -> String {
    let points = found.reliability.iter().map(|bin| [bin.told, bin.hits]).collect();
    let lines = [
        Line { name: "this model".to_owned(), points, marked: true, faint: false },
        Line {
            name: "as told".to_owned(),
            points: vec![[0.0, 0.0], [1.0, 1.0]],
            marked: false,
            faint: true,
        },
    ];
    chart::lines(&Lines {
        title: "Confidence against hits",
        across: "confidence that was told",
        up: "share within ten points",
        lines: &lines,
    })
}

fn importance(found: &Judgement) -> String {
    let bars: Vec<(String, f64)> =
        found.importance.iter().map(|i| (i.feature.to_owned(), i.points)).collect();
    chart::bars("What the error grows by without a feature", "pt", &bars)
}
