//! Figures of a node that others measure: Prometheus' node exporter, Tetragon, or both.
//!
//! Their texts are fetched, and two of them make rates, as two looks of our own do. Where both
//! have a figure, the exporter's counts: Tetragon's depend on the policies that are loaded there.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use walras_core::units::Moment;
use walras_telemetry::adapt::{
    FetchError, Sample, fetch, node_exporter, samples, snapshot, tetragon,
};
use walras_telemetry::counters::Counters;
use walras_telemetry::metadata::Metadata;
use walras_telemetry::metric::Metric;
use walras_telemetry::snapshot::{Snapshot, Source};
use walras_telemetry::watch::unix_ms;

use super::{TelemetryArgs, print, since};
use crate::failure::Failure;

/// Somebody who is asked.
struct Exporter<'a> {
    url: &'a str,
    source: Source,
    read: fn(&[Sample<'_>], Moment) -> Counters,
    older: Option<Counters>,
}

/// Asks and prints, once or again and again.
pub(super) fn run(args: &TelemetryArgs, metadata: &Metadata) -> Result<(), Failure> {
    let mut exporters = exporters(args);
    let name = args.node.clone().unwrap_or_else(|| {
        exporters.first().map_or_else(String::new, |exporter| host_of(exporter.url).to_owned())
    });
    let start = Instant::now();
    let (_never, nobody) = mpsc::channel::<()>();
    let mut first = true;
    loop {
        let mut all: Option<Snapshot> = None;
        for exporter in &mut exporters {
            let one = exporter.look(&name, since(start))?;
            all = Some(match all {
                None => one,
                Some(all) => completed(all, &one),
            });
        }
        if let Some(mut all) = all.filter(|_| !first) {
            metadata.put(&mut all);
            print(args, &all)?;
            if !args.watch {
                return Ok(());
            }
        }
        first = false;
        // Nobody ever sends anything: this is how long a look is apart from the next.
        nobody.recv_timeout(Duration::from_secs(args.seconds)).ok();
    }
}

fn exporters(args: &TelemetryArgs) -> Vec<Exporter<'_>> {
    let exporter = |url, source, read| Exporter { url, source, read, older: None };
    let node = args.node_exporter.as_deref();
    let node = node.map(|url| exporter(url, Source::NodeExporter, node_exporter as _));
    let other = args.tetragon.as_deref();
    let other = other.map(|url| exporter(url, Source::Tetragon, tetragon as _));
    node.into_iter().chain(other).collect()
}

impl Exporter<'_> {
    fn look(&mut self, node: &str, at: Moment) -> Result<Snapshot, Failure> {
        let text = fetch(self.url).map_err(|error| match error {
            FetchError::NoAnswer { .. } | FetchError::Status { .. } => {
                Failure::Machine(error.to_string())
            }
        })?;
        let (read, unreadable) = samples(&text);
        let newer = (self.read)(&read, at);
        let told = snapshot(node, unix_ms(), self.source, self.older.as_ref(), &newer);
        if Metric::ALL.iter().all(|metric| !is_known(&told, *metric)) {
            return Err(Failure::Input(format!(
                "{}: there is nothing of a node in its answer, which has {} samples and {} lines \
                 that are none",
                self.url,
                read.len(),
                unreadable
            )));
        }
        self.older = Some(newer);
        Ok(told)
    }
}

/// Whether there is a value, or will be when there is a second text.
fn is_known(told: &Snapshot, metric: Metric) -> bool {
    use walras_telemetry::reading::Unavailable;
    match told.figure(metric).reading.why_not() {
        None | Some(Unavailable::FirstLook) => true,
        Some(_) => false,
    }
}

/// What the first one does not know is taken from the second.
fn completed(mut first: Snapshot, second: &Snapshot) -> Snapshot {
    for metric in Metric::ALL {
        let figure = second.figure(metric);
        if first.value(metric).is_none() && figure.reading.value().is_some() {
            first.set(metric, figure.reading, figure.source);
        }
    }
    first
}

/// The host in a URL, as the name of a node that nobody named.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let host = &rest[..end];
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

/// A URL that can be asked.
pub(super) fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").filter(|rest| !host_of(rest).is_empty());
    match rest {
        Some(_) => Ok(text.to_owned()),
        None => Err("must be a URL as http://node-1:9100/metrics".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_telemetry::reading::{Reading, Unavailable};

    #[test]
    fn a_node_is_named_after_its_host_and_other_urls_are_refused() {
        for (text, host) in [
            ("http://node-1:9100/metrics", "node-1"),
            ("http://10.0.0.7:9100", "10.0.0.7"),
            ("http://[::1]:9100/metrics", "[::1]"),
            ("http://node-1/metrics?collect[]=cpu", "node-1"),
        ] {
            assert_eq!(url(text).as_deref(), Ok(text));
            assert_eq!(host_of(text), host);
        }
        for text in ["node-1:9100", "https://node-1", "http://", "http://:9100/metrics"] {
            assert!(url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_the_first_does_not_know_comes_from_the_second() {
        let empty = |source| Snapshot::empty("a", 1, source, Unavailable::FirstLook);
        let (mut one, mut two) = (empty(Source::NodeExporter), empty(Source::Tetragon));
        one.set(Metric::DiskWait, Reading::Measured(1.0), Source::NodeExporter);
        two.set(Metric::DiskWait, Reading::Measured(2.0), Source::Tetragon);
        two.set(Metric::CpuThrottleRate, Reading::Measured(3.0), Source::Tetragon);
        let both = completed(one, &two);
        assert_eq!(both.value(Metric::DiskWait), Some(1.0));
        assert_eq!(both.value(Metric::CpuThrottleRate), Some(3.0));
        assert_eq!(both.figure(Metric::CpuThrottleRate).source, Source::Tetragon);
        assert_eq!(both.value(Metric::CpuUtilization), None);
    }
}
