//! What Walras does and costs on a real Kubernetes: `cargo bench -p walras --features real-cluster
//! --bench kube`, as root; `-- reaction` or `-- cost` for one part, `-- reaction api` (or
//! `direct-new`, `direct-quiet`) for a part of that, `-- reaction api 20` for fewer trials. Only
//! where it is named: `-- scale`, a cluster of 5,000 nodes, or `-- scale 500 10000` with fewer.
//!
//! Prints Markdown for `docs/performance.md`. Nothing here passes or fails.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark prints, waits on purpose, and ends when something goes wrong"
)]

mod cost;
mod forward;
#[path = "../../tests/kube/installed.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod installed;
mod reaction;
mod scale;

fn main() {
    // Cargo adds `--bench`.
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wants = |part: &str| asked.is_empty() || asked.iter().any(|one| one == part);
    if wants("reaction") {
        reaction::run(&asked);
    }
    if wants("cost") {
        cost::run();
    }
    if asked.iter().any(|one| one == "scale") {
        scale::run(&asked);
    }
}
