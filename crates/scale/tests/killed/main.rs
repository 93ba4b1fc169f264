//! Every party is killed at random, as real processes over loopback, while loads change: scheduler,
//! agents and the programs in guests. Machines are lines of a log that outlives all of them, so
//! there is one order of all changes. At no line do all machines together have more than the node,
//! and when nothing is killed any more, each comes to what it should have.
//!
//! Without a harness of its own kind: the same program is the test and each of the parties.

mod machine;
mod party;
mod story;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.split_first() {
        Some((first, rest)) if first == "party" => party::run(rest),
        // Whatever a test runner says beside: there is one test, and it is run. To list it is all
        // that some ask for.
        Some(_) if words.iter().any(|word| word == "--list") => ExitCode::SUCCESS,
        Some(_) | None => story::run(),
    }
}
