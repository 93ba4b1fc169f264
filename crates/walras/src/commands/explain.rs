//! `walras explain`: why a workload has what it has, as its daemon tells it.

use std::io::{self, Write};

use walras_core::units::Millicores;
use walras_wire::state::{Change, ChangeResult, Explanation};

use clap::Args;

use crate::daemon::{DEFAULT_ADDRESS, Daemon};
use crate::failure::Failure;
use crate::screen::{self, Look};

/// What to explain.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The workload, by its name or its uid
    #[arg(value_name = "POD", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) workload: String,
    /// The daemon to ask
    #[arg(long, value_name = "URL", default_value = DEFAULT_ADDRESS, env = "WALRAS_ADDRESS")]
    pub(crate) address: String,
    /// Print JSON for programs, not sentences for people
    #[arg(long)]
    pub(crate) json: bool,
}

/// Text is no wider than this, however wide the terminal is.
const WIDTH_MAX: usize = 100;

/// Asks and prints.
pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let explanation = Daemon::at(&args.address)?.explain(&args.workload)?;
    let mut output = screen::output();
    if args.json {
        serde_json::to_writer_pretty(&mut output, &explanation).map_err(io::Error::from)?;
        writeln!(output)?;
    } else {
        let look = Look::of_stdout();
        for line in lines(&explanation, look) {
            writeln!(output, "{line}")?;
        }
    }
    Ok(output.flush()?)
}

/// The story as lines.
fn lines(told: &Explanation, look: Look) -> Vec<String> {
    let width = look.width.map_or(WIDTH_MAX, usize::from).clamp(20, WIDTH_MAX);
    let workload = &told.workload;
    let mut lines = vec![
        format!(
            "{}  {}",
            look.heading(&workload.name),
            look.aside(&format!("{} {}", workload.kind, workload.uid))
        ),
        String::new(),
    ];
    for sentence in &told.sentences {
        lines.extend(wrapped(sentence, "", width));
    }
    if !told.changes.is_empty() {
        lines.extend([String::new(), look.heading("Last changes")]);
        for change in &told.changes {
            lines.extend(wrapped(&changed(change, told.at_ms), "    ", width));
        }
    }
    if !told.notes.is_empty() {
        lines.extend([String::new(), look.heading("Noticed")]);
        for noticed in &told.notes {
            let text = format!("{}: {}", ago(told.at_ms, noticed.at_ms), noticed.text);
            lines.extend(wrapped(&text, "    ", width));
        }
    }
    lines
}

/// One change in a line.
pub(crate) fn changed(change: &Change, now_ms: u64) -> String {
    let when = ago(now_ms, change.at_ms);
    let became = match &change.result {
        ChangeResult::Done => String::new(),
        ChangeResult::Asked => " (asked for)".to_owned(),
        ChangeResult::OnlyWatching => " (only watching: nothing was written)".to_owned(),
        ChangeResult::Failed(error) => format!(" (failed: {error})"),
    };
    format!("{when}, {} loop: {}: {}{became}", change.r#loop, moved(change), change.why)
}

/// What a change moves: the limit if that, else the request, else what hangs on them.
pub(crate) fn moved(change: &Change) -> String {
    let between = |from: u64, to: u64| format!("{} -> {}", milli(from), milli(to));
    if change.limit_from_milli != change.limit_to_milli {
        between(change.limit_from_milli, change.limit_to_milli)
    } else if change.request_from_milli != change.request_to_milli {
        format!("request {}", between(change.request_from_milli, change.request_to_milli))
    } else {
        "weight or burst".to_owned()
    }
}

/// How long ago something was.
pub(crate) fn ago(now_ms: u64, then_ms: u64) -> String {
    format!("{} ago", span(now_ms.saturating_sub(then_ms) / 1000))
}

/// A length of time.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `text` in lines of at most `width`, all but the first indented. A word that is longer than a
/// line has one to itself.
pub(crate) fn wrapped(text: &str, indent: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

fn milli(amount: u64) -> String {
    Millicores::new(amount).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(limits: (u64, u64), requests: (u64, u64), result: ChangeResult) -> Change {
        Change {
            at_ms: 1000,
            r#loop: "slow".to_owned(),
            limit_from_milli: limits.0,
            limit_to_milli: limits.1,
            request_from_milli: requests.0,
            request_to_milli: requests.1,
            why: "needs only 50m now".to_owned(),
            result,
        }
    }

    #[test]
    fn a_change_is_told_by_what_it_moves_and_what_became_of_it() {
        let check = |limits, requests, result| changed(&change(limits, requests, result), 6000);
        assert_eq!(
            check((500, 100), (100, 50), ChangeResult::Done),
            "5 s ago, slow loop: 500m -> 100m: needs only 50m now"
        );
        assert_eq!(
            check((500, 500), (100, 50), ChangeResult::OnlyWatching),
            "5 s ago, slow loop: request 100m -> 50m: needs only 50m now (only watching: nothing \
             was written)"
        );
        assert_eq!(
            check((500, 500), (50, 50), ChangeResult::Failed("read-only".to_owned())),
            "5 s ago, slow loop: weight or burst: needs only 50m now (failed: read-only)"
        );
    }

    #[test]
    fn text_is_wrapped_at_spaces_and_never_lost() {
        assert_eq!(wrapped("one two three", "  ", 8), ["one two", "  three"]);
        assert_eq!(wrapped("incomprehensible one", "", 5), ["incomprehensible", "one"]);
        assert_eq!(wrapped("", "", 5), [""]);
    }
}
