//! Figures of nodes that have no agent of ours, made of what others measure.
//!
//! [`tetragon()`] and [`node_exporter()`] read metrics in Prometheus' text format, [`node_usages`]
//! the resource metrics of Kubernetes; [`fetch()`] gets such a text from where it is served. All of
//! them are functions of a text: counters are kept as [`Counters`] until the next text comes, and
//! become rates by the same rules as our own.

mod exposition;
mod fetch;
mod metrics_api;
mod node_exporter;
mod tetragon;

pub use exposition::{Sample, TEXT_MAX, samples};
pub use fetch::{FetchError, fetch};
pub use metrics_api::{ApiError, Capacity, NodeUsage, node_usages, snapshot_of};
pub use node_exporter::node_exporter;
pub use tetragon::tetragon;

use crate::counters::{Counters, figures};
use crate::metric::Metric;
use crate::reading::{Reading, Unavailable};
use crate::snapshot::{Snapshot, Source};

/// What the two last texts of one node say. Metrics that the source does not have say so.
#[must_use]
pub fn snapshot(
    node: &str,
    taken_unix_ms: u64,
    source: Source,
    older: Option<&Counters>,
    newer: &Counters,
) -> Snapshot {
    let why = Unavailable::FirstLook;
    let mut snapshot = Snapshot::empty(node, taken_unix_ms, source, why);
    for (metric, reading) in Metric::ALL.into_iter().zip(figures(older, newer)) {
        // The source has no such thing, whatever the thing is called in there.
        let is_missing = matches!(
            reading.why_not(),
            Some(Unavailable::NotReported { .. } | Unavailable::NotSaid { .. })
        );
        let missing = Unavailable::NotReported { what: metric.name() };
        let reading = if is_missing { Reading::Unavailable(missing) } else { reading };
        snapshot.set(metric, reading, source);
    }
    snapshot.over = older.map(|older| newer.at.since(older.at));
    snapshot
}

/// A counter as a whole number; what is negative or no number is none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was checked")]
fn whole(value: f64) -> Option<u64> {
    // All whole numbers up to here are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (0.0..=EXACT).contains(&value).then_some(value as u64)
}

/// The sum of the samples of `name` that are `wanted`; nothing where there is none.
fn sum_of(
    samples: &[Sample<'_>],
    name: &'static str,
    wanted: impl Fn(&Sample<'_>) -> bool,
) -> Result<f64, Unavailable> {
    let mut found = samples.iter().filter(|it| it.name == name && wanted(it)).peekable();
    found.peek().ok_or(Unavailable::NotReported { what: name })?;
    Ok(found.map(|it| it.value).sum())
}

/// The same as a whole number.
fn count_of(
    samples: &[Sample<'_>],
    name: &'static str,
    wanted: impl Fn(&Sample<'_>) -> bool,
) -> Result<u64, Unavailable> {
    let sum = sum_of(samples, name, wanted)?;
    whole(sum).ok_or(Unavailable::Unreadable { what: name })
}
