//! What `walras host` costs, and how soon it answers, on real control groups of this machine:
//! `cargo bench -p walras --bench host`, as root. Takes about seven minutes.
//!
//! The daemon is the real program with the profile `direct`, told to act, and knows no groups but
//! those made here. `-- cost` or `-- reaction` measures one of the two. Times are CPU times as the
//! kernel counts them for each thread, so that a busy machine disturbs them little; reaction is
//! time on the wall, and a busy machine shows in it.

mod burner;
mod cost;
mod ground;
mod reaction;

use std::error::Error;
use std::io::{Write, stderr, stdout};

/// Whatever goes wrong ends the benchmark.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(burner) = burner::asked_for(&arguments) {
        burner.run();
        return Ok(());
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        // Whoever runs every target as a test does not want to wait for this.
        writeln!(stderr(), "not run: this is measured by `cargo bench -p walras --bench host`")?;
        return Ok(());
    }
    let wanted = |part: &str| {
        let mut parts = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
        parts.peek().is_none() || parts.any(|argument| argument == part)
    };
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let [now, minutes, ..] = load.split(' ').collect::<Vec<_>>()[..] else {
        return Err("/proc/loadavg has fewer than two numbers".into());
    };
    writeln!(stdout(), "load average of the machine before: {now} (1 min), {minutes} (5 min)\n")?;
    if wanted("cost") {
        cost::measure()?;
    }
    if wanted("reaction") {
        reaction::measure()?;
    }
    Ok(())
}
