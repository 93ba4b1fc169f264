//! Tests of `walras agent` and `walras controller` on a real cluster, which
//! `cargo xtask test --tier kube` runs.
//!
//! The program under test is a process, as users have it. Every wait has a deadline that only
//! something broken misses, and nothing depends on speed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, also in what it calls")]

mod agent;
