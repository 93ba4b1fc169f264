//! Where messages go: to standard error, as lines for people or as JSON for programs.

use tracing::Level;

use crate::config::{LogFormat, LogLevel};

/// Starts logging. Only the first call counts.
pub fn start(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(false);
    // Somebody who logs already goes on doing so.
    match format {
        LogFormat::Text => builder.with_ansi(false).try_init().ok(),
        LogFormat::Json => builder.json().flatten_event(true).try_init().ok(),
    };
}
