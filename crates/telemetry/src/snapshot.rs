//! What is known of a node at one moment: every metric, where it came from, and how old it is.
//!
//! A snapshot carries its time on the clock of the world, so that whoever gets it later can say
//! whether it is still about now. Nothing in it is invented: what was not measured says why.

use std::fmt;

use walras_core::market::Mode;
use walras_core::units::{Millicores, Span};

use crate::metric::{METRICS, Metric};
use crate::reading::{Reading, Unavailable};

/// A snapshot that is older tells nothing about now.
pub const STALE_AFTER: Span = Span::from_ms(10_000);
/// A snapshot from the future is one of a clock that is wrong; by less than this it may be.
const AHEAD: u64 = 2_000;

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `/proc/stat`.
    ProcStat,
    /// `/proc/meminfo`.
    ProcMeminfo,
    /// `/proc/diskstats`.
    ProcDiskstats,
    /// `/proc/net/dev`.
    ProcNetDev,
    /// `/proc/pressure`.
    ProcPressure,
    /// Files of control groups.
    Cgroup,
    /// Our programs in the kernel.
    Ebpf,
    /// Counters of the CPU, by perf events.
    Perf,
    /// Counters of the memory controller, by perf events.
    PerfUncore,
    /// Counters of caches and memory, by resctrl.
    Resctrl,
    /// Labels of the node.
    Labels,
    /// Settings.
    Settings,
    /// All nodes of the cluster together.
    Cluster,
    /// Tetragon's metrics.
    Tetragon,
    /// The metrics of Prometheus' node exporter.
    NodeExporter,
    /// The resource metrics of Kubernetes.
    MetricsApi,
}

/// One metric of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub reading: Reading,
    /// Where it comes from, or would.
    pub source: Source,
}

/// What the market of the node says about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Market {
    /// The published price.
    pub price: f64,
    /// The mode it is in.
    pub mode: Mode,
    /// What pods have a right to and do not need.
    pub lent: Millicores,
}

/// Packets that were thrown away for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Drops {
    /// The kernel's name of the reason, or its number.
    pub reason: String,
    /// How many in a second.
    pub per_second: f64,
}

/// Where a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its zone.
    pub zone: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
}

/// A node at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Its name.
    pub node: String,
    /// When it was taken, in milliseconds since 1970.
    pub taken_unix_ms: u64,
    /// What its rates are over; nothing where there was no earlier look.
    pub over: Option<Span>,
    /// In the order of [`Metric::ALL`].
    pub figures: [Figure; METRICS],
    /// Why packets were thrown away, the most frequent reason first.
    pub drops: Vec<Drops>,
    /// Where it is.
    pub place: Place,
    /// Its market, if it has one.
    pub market: Option<Market>,
}

/// How old a snapshot is, and whether that is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It tells about now.
    Fresh(Span),
    /// It is too old, or its time lies ahead of ours.
    Stale(Span),
}

// === impl Snapshot ===

impl Snapshot {
    /// A snapshot in which nothing is known, for this reason.
    #[must_use]
    pub fn empty(node: &str, taken_unix_ms: u64, source: Source, why: Unavailable) -> Self {
        let figure = Figure { reading: Reading::Unavailable(why), source };
        Self {
            node: node.to_owned(),
            taken_unix_ms,
            over: None,
            figures: [figure; METRICS],
            drops: Vec::new(),
            place: Place::default(),
            market: None,
        }
    }

    /// One metric.
    #[must_use]
    pub fn figure(&self, metric: Metric) -> Figure {
        self.figures.get(metric.place()).copied().unwrap_or(Figure {
            reading: Reading::Unavailable(Unavailable::NotReported { what: metric.name() }),
            source: Source::Settings,
        })
    }

    /// The number of one metric, where it was measured.
    #[must_use]
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.figure(metric).reading.value()
    }

    /// Sets one metric.
    pub fn set(&mut self, metric: Metric, reading: Reading, source: Source) {
        if let Some(figure) = self.figures.get_mut(metric.place()) {
            *figure = Figure { reading, source };
        }
    }

    /// How old it is at `now_unix_ms`. A clock that is behind makes nothing fresh: what seems to
    /// come from the future is stale as well.
    #[must_use]
    pub fn age(&self, now_unix_ms: u64) -> Age {
        let old = Span::from_ms(now_unix_ms.saturating_sub(self.taken_unix_ms));
        if old > STALE_AFTER || self.taken_unix_ms > now_unix_ms.saturating_add(AHEAD) {
            Age::Stale(old)
        } else {
            Age::Fresh(old)
        }
    }
}

// === impl Age ===

impl Age {
    /// Whether it is too old.
    #[must_use]
    pub const fn is_stale(self) -> bool {
        match self {
            Self::Fresh(_) => false,
            Self::Stale(_) => true,
        }
    }

    /// How old.
    #[must_use]
    pub const fn span(self) -> Span {
        match self {
            Self::Fresh(span) | Self::Stale(span) => span,
        }
    }
}

// === impl Source ===

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProcStat => "/proc/stat",
            Self::ProcMeminfo => "/proc/meminfo",
            Self::ProcDiskstats => "/proc/diskstats",
            Self::ProcNetDev => "/proc/net/dev",
            Self::ProcPressure => "/proc/pressure",
            Self::Cgroup => "cgroup",
            Self::Ebpf => "ebpf",
            Self::Perf => "perf",
            Self::PerfUncore => "perf uncore",
            Self::Resctrl => "resctrl",
            Self::Labels => "labels",
            Self::Settings => "settings",
            Self::Cluster => "cluster",
            Self::Tetragon => "tetragon",
            Self::NodeExporter => "node_exporter",
            Self::MetricsApi => "metrics.k8s.io",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_knows_when_it_is_no_longer_about_now() {
        let why = Unavailable::FirstLook;
        let snapshot = Snapshot::empty("a", 100_000, Source::ProcStat, why);
        assert_eq!(snapshot.age(100_000), Age::Fresh(Span::ZERO));
        assert_eq!(snapshot.age(110_000), Age::Fresh(Span::from_ms(10_000)));
        assert_eq!(snapshot.age(110_001), Age::Stale(Span::from_ms(10_001)));
        // A clock that is a little behind is usual; one that is far behind is wrong.
        assert!(!snapshot.age(98_000).is_stale() && snapshot.age(97_999).is_stale());
    }

    #[test]
    fn what_is_set_is_found_and_nothing_else_is_known() {
        let why = Unavailable::FirstLook;
        let mut snapshot = Snapshot::empty("a", 0, Source::ProcStat, why);
        snapshot.set(Metric::Spot, Reading::Measured(1.0), Source::Labels);
        assert_eq!(snapshot.value(Metric::Spot), Some(1.0));
        assert_eq!(snapshot.figure(Metric::Spot).source, Source::Labels);
        let known = Metric::ALL.iter().filter(|metric| snapshot.value(**metric).is_some());
        assert_eq!(known.count(), 1);
    }
}
