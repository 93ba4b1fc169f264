//! `walras telemetry`: the figures of this machine, once or again and again.
//!
//! It looks by itself and asks no daemon, so it works where none runs; `walras top` is about the
//! pods of one that does, and `daemon` looks beside one. It changes nothing. Programs are in the
//! kernel only while it runs.

pub(crate) mod daemon;
mod elsewhere;
mod resource_metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args;
use walras_cgroup::{CgroupPath, allow_open_files};
use walras_core::units::Moment;
use walras_telemetry::cpu_set::CpuSet;
use walras_telemetry::ebpf::{ProbeOptions, Probes};
use walras_telemetry::export::{prometheus, served_as};
use walras_telemetry::metadata::{Metadata, Said};
use walras_telemetry::metric::Metric;
use walras_telemetry::reading::Unavailable;
use walras_telemetry::sampler::{Roots, Sampler, Scope};
use walras_telemetry::snapshot::Snapshot;
use walras_telemetry::watch::unix_ms;
use walras_wire::telemetry::{Drops, Figure, MarketSaid, NodeTelemetry, VERSION};

use crate::failure::Failure;
use crate::figures::{self, CLEAR};
use crate::screen::{self, Look};

/// Control groups are kept open, a few files for each.
const OPEN_FILES: u64 = 16_384;

const TELEMETRY_HELP: &str = "\
Examples:
  walras telemetry
  walras telemetry --watch
  walras telemetry --cpus 0-1 --group /kubepods
  walras telemetry --json | jq '.figures[] | select(.value == null) | {name, unavailable}'
  walras telemetry --label karpenter.sh/capacity-type=spot
  walras telemetry --node-exporter http://node-1:9100/metrics
  walras telemetry --node-exporter http://node-1:9100/metrics --tetragon http://node-1:2112/metrics
  kubectl proxy & walras telemetry --metrics-api http://127.0.0.1:8001 --node node-1

Looks twice, a second apart. What was not measured says why, and is never zero. Run it as root to
have run-queue and block latency, which take programs in the kernel; without root the rest is told.
With --node-exporter or --tetragon nothing is looked at here: the figures are those of the node that
these are on, and who asks needs neither root nor an agent there.

Exit codes:
  0  fine
  1  something else went wrong, such as output that cannot be written
  2  bad input or usage; nothing is looked at";

/// What to look at.
#[derive(Debug, Args)]
#[command(after_help = TELEMETRY_HELP)]
pub(crate) struct TelemetryArgs {
    /// Go on looking until it is stopped
    #[arg(long)]
    pub(crate) watch: bool,
    /// How far two looks are apart
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) seconds: u64,
    /// Print JSON for programs; with --watch one object a line
    #[arg(long, conflicts_with = "prometheus")]
    pub(crate) json: bool,
    /// Print metrics in Prometheus' text format
    #[arg(long)]
    pub(crate) prometheus: bool,
    /// The CPUs of the node, where it is a part of this machine
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub(crate) cpus: Option<CpuSet>,
    /// The control group that everything of the node is in
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = group)]
    pub(crate) group: CgroupPath,
    /// A disk of the node; may be given several times; otherwise those of the machine
    #[arg(long = "disk", value_name = "NAME")]
    pub(crate) disks: Vec<String>,
    /// An interface of the node; may be given several times; otherwise those of the machine
    #[arg(long = "interface", value_name = "NAME")]
    pub(crate) interfaces: Vec<String>,
    /// A label of the node, for its zone and whether it is a spot instance
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Load no programs into the kernel
    #[arg(long)]
    pub(crate) without_ebpf: bool,
    /// Take the figures from Prometheus' node exporter at this URL, and look at nothing here
    #[arg(long, value_name = "URL", value_parser = elsewhere::url,
          conflicts_with_all = OF_THIS_MACHINE)]
    pub(crate) node_exporter: Option<String>,
    /// Take the figures from Tetragon's metrics at this URL, where the node exporter has none
    #[arg(long, value_name = "URL", value_parser = elsewhere::url,
          conflicts_with_all = OF_THIS_MACHINE)]
    pub(crate) tetragon: Option<String>,
    /// Take CPU and memory of all nodes from Kubernetes' resource metrics, by an API without TLS as
    /// `kubectl proxy` serves it
    #[arg(long, value_name = "URL", value_parser = elsewhere::url,
          conflicts_with_all = OF_THIS_MACHINE, conflicts_with_all = OF_ONE_NODE)]
    pub(crate) metrics_api: Option<String>,
    /// The name of the node that others measure; its host's where it is not said
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
}

/// What says where to look on this machine, and means nothing elsewhere.
const OF_THIS_MACHINE: [&str; 5] = ["cpus", "group", "disks", "interfaces", "without_ebpf"];
/// What asks for one node, again and again.
const OF_ONE_NODE: [&str; 3] = ["node_exporter", "tetragon", "watch"];

/// Looks and prints.
pub(crate) fn run(args: &TelemetryArgs) -> Result<(), Failure> {
    let labels: BTreeMap<String, String> = args.labels.iter().cloned().collect();
    let metadata = Metadata::of(&Said::default(), &labels);
    if let Some(url) = &args.metrics_api {
        return resource_metrics::run(args, url, unix_ms());
    }
    if args.node_exporter.is_some() || args.tetragon.is_some() {
        return elsewhere::run(args, &metadata);
    }
    let allowed = allow_open_files(OPEN_FILES);
    if allowed < OPEN_FILES {
        tell(&format!("only {allowed} files may be open, so not all control groups may be seen"));
    }
    let probes = if args.without_ebpf {
        Err(Unavailable::NotSaid { what: "eBPF" })
    } else {
        Probes::load(ProbeOptions::default()).map_err(|error| {
            tell(&format!("without programs in the kernel: {error}"));
            Unavailable::NotAllowed { what: "eBPF programs" }
        })
    };
    let named = |names: &[String]| -> Option<BTreeSet<String>> {
        (!names.is_empty()).then(|| names.iter().cloned().collect())
    };
    let scope = Scope {
        cpus: args.cpus.clone(),
        group: args.group.clone(),
        disks: named(&args.disks),
        interfaces: named(&args.interfaces),
        own_network: false,
    };
    let mut sampler = Sampler::new(scope, Roots::of_this_machine(), probes);
    let node = args.node.clone().unwrap_or_else(host_name);
    let start = Instant::now();
    let (_never, nobody) = mpsc::channel::<()>();
    sampler.look(since(start));
    loop {
        // Nobody ever sends anything: this is how long a look is apart from the next.
        nobody.recv_timeout(Duration::from_secs(args.seconds)).ok();
        sampler.look(since(start));
        print(args, &sampler.snapshot(&node, unix_ms(), &metadata))?;
        if !args.watch {
            return Ok(());
        }
    }
}

fn print(args: &TelemetryArgs, snapshot: &Snapshot) -> Result<(), Failure> {
    let mut output = screen::output();
    if args.prometheus {
        output.write_all(prometheus(snapshot, unix_ms()).as_bytes())?;
    } else if args.json {
        let message = message(snapshot, unix_ms());
        if args.watch {
            serde_json::to_writer(&mut output, &message).map_err(io::Error::from)?;
        } else {
            serde_json::to_writer_pretty(&mut output, &message).map_err(io::Error::from)?;
        }
        writeln!(output)?;
    } else {
        if args.watch && io::stdout().is_terminal() {
            output.write_all(CLEAR.as_bytes())?;
        }
        let told = message(snapshot, unix_ms());
        output.write_all(figures::text(&told, Look::of_stdout()).as_bytes())?;
    }
    Ok(output.flush()?)
}

/// A snapshot as a message.
fn message(snapshot: &Snapshot, now_unix_ms: u64) -> NodeTelemetry {
    let age = snapshot.age(now_unix_ms);
    let figure = |metric: Metric| {
        let figure = snapshot.figure(metric);
        Figure {
            name: metric.name().to_owned(),
            metric: served_as(metric).to_owned(),
            about: metric.about().to_owned(),
            unit: metric.unit().to_owned(),
            feature: metric.is_feature(),
            value: figure.reading.value(),
            unavailable: figure.reading.why_not().map(|why| why.to_string()),
            source: figure.source.to_string(),
        }
    };
    let drops = snapshot
        .drops
        .iter()
        .map(|drops| Drops { reason: drops.reason.clone(), per_second: drops.per_second });
    NodeTelemetry {
        version: VERSION,
        node: snapshot.node.clone(),
        taken_unix_ms: snapshot.taken_unix_ms,
        age_ms: age.span().as_us() / 1000,
        stale: age.is_stale(),
        over_ms: snapshot.over.map(|over| over.as_us() / 1000),
        zone: snapshot.place.zone.clone(),
        rack: snapshot.place.rack.clone(),
        figures: Metric::ALL.map(figure).into(),
        drops: drops.collect(),
        market: snapshot.market.map(|market| MarketSaid {
            price: market.price,
            mode: market.mode.name().to_owned(),
            lent_milli: market.lent.get(),
        }),
    }
}

fn tell(message: &str) {
    // There is no one to tell if this cannot be written.
    writeln!(anstream::stderr().lock(), "walras telemetry: {message}").ok();
}

fn since(start: Instant) -> Moment {
    Moment::from_us(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX))
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "node".to_owned() } else { name.trim().to_owned() }
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    let set = CpuSet::parse(text).map_err(|error| error.to_string())?;
    if set.is_empty() { Err("a node has at least one CPU".to_owned()) } else { Ok(set) }
}

fn group(text: &str) -> Result<CgroupPath, String> {
    CgroupPath::new(text.as_bytes()).ok_or_else(|| "must be a path as in /kubepods".to_owned())
}

fn label(text: &str) -> Result<(String, String), String> {
    let label = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = label.ok_or_else(|| "must be KEY=VALUE".to_owned())?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_telemetry::reading::Reading;
    use walras_telemetry::snapshot::Source;

    fn made_up() -> Snapshot {
        let why = Unavailable::NoHardware { what: "cache counters of the CPU" };
        let mut snapshot = Snapshot::empty("node-7", 1_000, Source::Perf, why);
        snapshot.set(Metric::CpuUtilization, Reading::Measured(0.25), Source::ProcStat);
        snapshot.set(Metric::DiskOperations, Reading::Measured(1234.4), Source::ProcDiskstats);
        snapshot
    }

    #[test]
    fn programs_see_null_and_the_age() {
        let told = message(&made_up(), 12_500);
        assert_eq!((told.age_ms, told.stale), (11_500, true));
        assert_eq!(told.figures.len(), Metric::ALL.len());
        let value: serde_json::Value = serde_json::to_value(&told).unwrap();
        assert_eq!(value["figures"][0]["value"], 0.25);
        assert!(value["figures"][4]["value"].is_null());
        assert_eq!(value["figures"][4]["unavailable"].as_str().unwrap().len(), 48);
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused() {
        assert!(cpus("0-1").is_ok() && cpus("").is_err() && cpus("a").is_err());
        assert!(group("/a/b").is_ok() && group("/a/../b").is_err());
        assert!(label("a=b=c").is_ok() && label("a").is_err() && label("=b").is_err());
    }
}
