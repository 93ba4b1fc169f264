//! Where messages go: to standard error, as lines for people or as JSON for programs.

use tracing::Level;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How urgent a message must be to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Only what went wrong.
    Error,
    /// And what a person should look at.
    Warn,
    /// And what was done.
    Info,
    /// And what was considered.
    Debug,
    /// Everything.
    Trace,
}

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// A JSON object per line, for programs.
    Json,
}

impl LogLevel {
    /// Every word that a setting may have, with its meaning.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

impl LogFormat {
    /// Every word that a setting may have, with its meaning.
    pub const WORDS: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];
}

/// Starts logging. Only the first call counts. What the modules in `told_by_caller` warn of is said
/// by their callers, once and in words, so it is left out unless asked for.
pub fn start(level: LogLevel, format: LogFormat, told_by_caller: &[&str]) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let layer = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let layer = match format {
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    // A logger that was installed before stays.
    tracing_subscriber::registry()
        .with(layer.with_filter(told_at(level, told_by_caller)))
        .try_init()
        .ok();
}

/// What is told at `level`.
fn told_at(level: Level, told_by_caller: &[&str]) -> Targets {
    let of_others = if level >= Level::DEBUG { level } else { Level::ERROR };
    let others = told_by_caller.iter().map(|module| (*module, of_others));
    Targets::new().with_default(level).with_targets(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_caller_says_is_not_said_by_a_library_too_unless_somebody_wants_to_know() {
        let module = "library::watcher";
        let info = told_at(Level::INFO, &[module]);
        assert!(info.would_enable("walras_node::drive", &Level::INFO));
        assert!(info.would_enable("library::client", &Level::WARN));
        assert!(!info.would_enable(module, &Level::WARN));
        assert!(info.would_enable(module, &Level::ERROR));
        assert!(told_at(Level::DEBUG, &[module]).would_enable(module, &Level::WARN));
    }
}
