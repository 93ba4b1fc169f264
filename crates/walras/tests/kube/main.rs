//! `walras` on a real cluster: a real API server and kubelet, real pods, the real program.
//!
//! One cluster serves all tests of this process, one test at a time, because a controller is
//! responsible for a whole cluster. `cargo xtask test --tier kube` runs them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, also in what it calls")]
#![expect(clippy::print_stderr, reason = "whoever looks for a fault reads the logs")]

mod agent;
mod autoscalers;
mod controller;
mod faults;
mod hostile;
#[expect(dead_code, reason = "the benchmark uses the rest of it")]
mod installed;
mod market;
mod pods;
mod rights;
mod stage;
