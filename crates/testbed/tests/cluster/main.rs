//! Tests that start real clusters. `cargo xtask test --tier kube` runs them.
//!
//! Tests that change nothing for others share a cluster; those that break one have their own. Every
//! wait has a deadline that only a broken cluster misses, and nothing depends on speed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, also in what it calls")]

mod chart;
mod deploy;
mod faults;
mod left;
mod lifecycle;
mod many;
mod node;
mod pair;

use std::time::Duration;

/// How long anything may take on a slow machine before it counts as broken.
const PATIENCE: Duration = Duration::from_secs(180);
