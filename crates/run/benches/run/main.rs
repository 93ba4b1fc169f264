//! What the workload API costs: `cargo bench -p walras-run --bench run`. Takes about two minutes.
//!
//! Workloads are those of a runtime that keeps them in memory (`played`), so that nothing but the
//! host itself is measured; the store is the real one, on the disk. Requests come over TCP with
//! certificates on both sides, and are compared with a handler that does nothing, over the same, in
//! the same run. The host is a process of its own, so that its memory is its own; who asks shares
//! its CPUs with it, for both sides of the comparison.

mod asked;
mod host;
mod played;

use std::error::Error;
use std::io::{Write as _, stderr, stdout};

/// Whatever goes wrong ends the benchmark.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, folder, kind] = &arguments[..]
        && flag == host::FLAG
    {
        return host::serve(folder.as_ref(), kind);
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        // Whoever runs every target as a test does not want to wait for this.
        writeln!(stderr(), "not run: this is measured by `cargo bench -p walras-run --bench run`")?;
        return Ok(());
    }
    let load = std::fs::read_to_string("/proc/loadavg")?;
    writeln!(stdout(), "load average of the machine before: {}", load.trim())?;
    asked::measure()
}
