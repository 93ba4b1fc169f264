//! Tells schedulers how this node is: one stream to each of them, about a snapshot a second.
//!
//! A name stands for all addresses that it leads to, so every replica of a scheduler hears of the
//! node; it is looked up again now and then. A stream that ends is opened again, ever more slowly
//! and never at the same time as those of other nodes. The token is read from its file for every
//! stream, since it is replaced every hour. The loop that sizes pods never waits for any of it:
//! what is told is copied from the board.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::{net, time};
use tracing::{debug, info, warn};
use walras_core::units::Span;
use walras_node::board::Board;
use walras_rpc::reports::{Market, Snapshot};
use walras_rpc::telemetry::{Scheduler, push};
use walras_wire::telemetry::NodeTelemetry;

use crate::pause::Rests;

/// How often there may be something new.
const LOOK: Duration = Duration::from_millis(500);
/// How often the name is looked up again.
const LOOK_UP: Duration = Duration::from_secs(15);
/// The longest pause between two tries.
const LONGEST: Span = Span::from_s(30);

/// Whom to tell, and how to prove oneself.
#[derive(Clone, Debug)]
pub struct ReportTo {
    /// The scheduler by its name or address and port, such as
    /// `walras-scheduler-telemetry.mbcas-system.svc:10303`.
    pub scheduler: String,
    /// The certificate of the authority that it proves itself by; without it, loopback addresses
    /// alone are told.
    pub ca: Option<PathBuf>,
    /// The name that it has to prove, where that is another one.
    pub server_name: Option<String>,
    /// The file with the token.
    pub token: PathBuf,
}

/// What every stream needs to know.
#[derive(Clone, Debug)]
struct Told {
    to: ReportTo,
    node: String,
    board: Arc<Board>,
}

/// Tells all addresses of the scheduler, for as long as it is polled.
pub async fn report(to: ReportTo, node: String, board: Arc<Board>) {
    let told = Told { to, node, board };
    let mut streams = JoinSet::new();
    let mut open: BTreeMap<SocketAddr, AbortHandle> = BTreeMap::new();
    let mut known = false;
    loop {
        match net::lookup_host(&told.to.scheduler).await {
            Ok(found) => {
                known = true;
                let found: BTreeSet<SocketAddr> = found.collect();
                open.retain(|address, stream| {
                    let stays = found.contains(address);
                    if !stays {
                        stream.abort();
                    }
                    stays
                });
                for address in found {
                    let told = told.clone();
                    open.entry(address).or_insert_with(|| streams.spawn(told.tell(address)));
                }
            }
            Err(error) if known => debug!("{}: {error}", told.to.scheduler),
            Err(error) => warn!("--scheduler {}: cannot be found: {error}", told.to.scheduler),
        }
        // Streams go on for ever; those that were aborted are forgotten here.
        while streams.try_join_next().is_some() {}
        time::sleep(LOOK_UP).await;
    }
}

impl Told {
    /// Tells one scheduler, again and again.
    async fn tell(self, address: SocketAddr) {
        let mut rests = Rests::new();
        let mut broken = false;
        loop {
            match self.once(address).await {
                Ok(taken) => {
                    info!(%address, "a scheduler took {taken} snapshots, and asks who we are");
                    rests.worked();
                    broken = false;
                    // Not at once: all streams of a cluster may have ended together.
                    rests.rest_up_to(Span::from_s(1)).await;
                    rests.worked();
                }
                Err(why) => {
                    if !std::mem::replace(&mut broken, true) {
                        warn!(%address, "no telemetry reaches the scheduler: {why}");
                    }
                    rests.rest_up_to(LONGEST).await;
                }
            }
        }
    }

    /// One stream, until it ends.
    async fn once(&self, address: SocketAddr) -> Result<u64, String> {
        let token = std::fs::read_to_string(&self.to.token)
            .map_err(|error| format!("{}: {error}", self.to.token.display()))?;
        let scheduler = match &self.to.ca {
            Some(ca) => Scheduler::Tls { address, name: self.server_name(), ca: ca.clone() },
            None if address.ip().is_loopback() => Scheduler::Plain { address },
            None => return Err("a token is sent to other machines only with --scheduler-ca".into()),
        };
        let snapshots = snapshots(self.node.clone(), Arc::clone(&self.board));
        push(&scheduler, &token, snapshots).await.map_err(|refused| refused.to_string())
    }

    fn server_name(&self) -> String {
        let host = || self.to.scheduler.rsplit_once(':').map_or("", |(host, _)| host).to_owned();
        self.to.server_name.clone().unwrap_or_else(host)
    }
}

/// What the board says of the node, whenever that is news.
fn snapshots(node: String, board: Arc<Board>) -> impl Stream<Item = Snapshot> + Send + 'static {
    stream::unfold((0, node, board), |(last, node, board)| async move {
        loop {
            if let Some(told) = board.telemetry().filter(|told| told.taken_unix_ms > last) {
                let sent = snapshot(&node, &told);
                return Some((sent, (told.taken_unix_ms, node, board)));
            }
            time::sleep(LOOK).await;
        }
    })
}

/// The same as a message.
fn snapshot(node: &str, told: &NodeTelemetry) -> Snapshot {
    let value = |name: &str| told.figures.iter().find(|it| it.name == name).and_then(|it| it.value);
    Snapshot {
        node_name: node.to_owned(),
        taken_unix_ms: told.taken_unix_ms,
        cpu_utilization: value("cpu_utilization"),
        cpu_throttle_rate: value("cpu_throttle_rate"),
        memory_utilization: value("memory_utilization"),
        memory_bandwidth_gbps: value("memory_bandwidth_gbps"),
        l3_cache_miss_rate: value("l3_cache_miss_rate"),
        l3_cache_occupancy_mb: value("l3_cache_occupancy_mb"),
        disk_io_wait_ms: value("disk_io_wait_ms"),
        disk_iops: value("disk_iops"),
        network_rx_packets_sec: value("network_rx_packets_sec"),
        network_tx_packets_sec: value("network_tx_packets_sec"),
        network_drop_rate: value("network_drop_rate"),
        market: told
            .market
            .as_ref()
            .map(|market| Market { price: market.price, lent_milli: market.lent_milli }),
        node_cost_index: value("node_cost_index"),
        is_spot_instance: value("is_spot_instance"),
        spot_interruption_risk: value("spot_interruption_risk"),
        zone: told.zone.clone().unwrap_or_default(),
    }
}
