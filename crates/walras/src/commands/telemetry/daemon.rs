//! Telemetry beside a daemon: what can be said about it on the command line, and its thread.
//!
//! `walras host` and `walras agent` start it last and end it first. It looks; what it finds goes to
//! the daemon's board, which serves it, and to whoever reads [`Looking::latest`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use walras_cgroup::{CgroupPath, Layout};
use walras_core::units::Span;
use walras_node::board::Board;
use walras_telemetry::cpu_set::CpuSet;
use walras_telemetry::metadata::{Metadata, Said};
use walras_telemetry::sampler::{Roots, Scope};
use walras_telemetry::snapshot::Market;
use walras_telemetry::watch::{Around, Latest, Watch, WatchSettings, unix_ms};

use super::{cpus, group, label, message};

/// Whether the machine is looked at, and which part of it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Telemetry")]
pub(crate) struct TelemetryFlags {
    /// Whether the figures of the machine are measured; programs in the kernel are loaded where
    /// that is allowed
    #[arg(long, value_enum, default_value = "on", env = "WALRAS_TELEMETRY")]
    telemetry: Choice,
    /// How far two looks at the machine are apart; looks that take long come less often
    #[arg(long, value_name = "N", default_value_t = 1, env = "WALRAS_TELEMETRY_SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=5))]
    telemetry_seconds: u64,
    /// The CPUs of the node, where it is a part of this machine
    #[arg(long, value_name = "LIST", value_parser = cpus, env = "WALRAS_TELEMETRY_CPUS")]
    telemetry_cpus: Option<CpuSet>,
    /// The control group that everything of the node is in, where it is a part of this machine
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = group,
          env = "WALRAS_TELEMETRY_GROUP")]
    telemetry_group: CgroupPath,
    /// A disk of the node; may be given several times; otherwise those of the machine
    #[arg(
        long = "telemetry-disk",
        value_name = "NAME",
        value_delimiter = ',',
        env = "WALRAS_TELEMETRY_DISKS"
    )]
    telemetry_disks: Vec<String>,
    /// An interface of the node; may be given several times; otherwise those of the machine
    #[arg(
        long = "telemetry-interface",
        value_name = "NAME",
        value_delimiter = ',',
        env = "WALRAS_TELEMETRY_INTERFACES"
    )]
    telemetry_interfaces: Vec<String>,
    /// A label of the node, which goes before what a cluster says: its zone, whether it is a spot
    /// instance, its cost
    #[arg(long = "telemetry-label", value_name = "KEY=VALUE", value_parser = label,
          value_delimiter = ',', env = "WALRAS_TELEMETRY_LABELS")]
    telemetry_labels: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// Everything that can be measured
    On,
    /// Without programs in the kernel
    WithoutEbpf,
    /// Nothing
    Off,
}

/// A daemon that is to be looked at.
pub(crate) struct Daemon {
    /// What it tells.
    pub(crate) board: Arc<Board>,
    /// Where its control groups are, if not at their usual place.
    pub(crate) layout: Option<Layout>,
    /// Whether it sees the network of a container only.
    pub(crate) own_network: bool,
    /// What a cluster says about the node.
    pub(crate) labels: Box<dyn Fn() -> BTreeMap<String, String> + Send>,
}

/// A machine that is looked at, until this value goes; nothing where that is switched off.
#[derive(Debug)]
pub(crate) struct Looking(Option<Watch>);

/// Starts to look, unless that is switched off.
pub(crate) fn start(flags: &TelemetryFlags, daemon: Daemon) -> Result<Looking, String> {
    if flags.telemetry == Choice::Off {
        return Ok(Looking(None));
    }
    let Daemon { board, layout, own_network, labels } = daemon;
    let of_this_machine = Roots::of_this_machine();
    let settings = WatchSettings {
        node: board.host(),
        scope: Scope {
            cpus: flags.telemetry_cpus.clone(),
            group: flags.telemetry_group.clone(),
            disks: named(&flags.telemetry_disks),
            interfaces: named(&flags.telemetry_interfaces),
            own_network,
        },
        roots: Roots { layout: layout.or(of_this_machine.layout), ..of_this_machine },
        every: Span::from_s(flags.telemetry_seconds),
        ebpf: flags.telemetry == Choice::On,
    };
    let said = flags.telemetry_labels.clone();
    let asked = Arc::clone(&board);
    let market = move || {
        let market = asked.market()?;
        Some(Market { price: market.price, mode: market.mode, lent: market.lent })
    };
    let metadata = move || {
        let mut labels = labels();
        labels.extend(said.iter().cloned());
        Metadata::of(&Said::default(), &labels)
    };
    let around = Around {
        market: Box::new(market),
        metadata: Box::new(metadata),
        told: Box::new(move |snapshot| board.set_telemetry(message(snapshot, unix_ms()))),
    };
    let watch = Watch::start(settings, around);
    let watch = watch.map_err(|error| format!("telemetry cannot start: no thread: {error}"))?;
    Ok(Looking(Some(watch)))
}

fn named(names: &[String]) -> Option<BTreeSet<String>> {
    (!names.is_empty()).then(|| names.iter().cloned().collect())
}

// === impl Looking ===

impl Looking {
    /// Where the latest snapshot is kept, if the machine is looked at.
    #[expect(dead_code, reason = "for the stream to the scheduler, which is about to be added")]
    pub(crate) fn latest(&self) -> Option<Latest> {
        self.0.as_ref().map(Watch::latest)
    }
}
