//! What is known of all nodes at one moment, and how it becomes known.
//!
//! Scoring reads an immutable [`Table`], which is swapped as a whole: a lock is held for as long as
//! it takes to copy a pointer. Reports, nodes and pods change what lies behind it, and a task makes
//! a new table of that some twenty times a second at most. Pods that were bound a moment ago are
//! added to what a node measured, until its telemetry can show them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::Notify;
use walras_brain::features::{NodeFacts, NodeFeature, zone_diversity};
use walras_core::place::MarketSays;
use walras_core::place::estimate::Estimates;
use walras_core::units::{Millicores, Moment, Ratio, Resources, Span, WorkloadUid};
use walras_rpc::reports::Snapshot;

/// What seems to come from further ahead is of a clock that is wrong.
const AHEAD_MS: u64 = 2_000;
/// A price is no higher than this, whatever a node says.
const PRICE_MAX: f64 = 1e6;

/// A node as it is scored.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// What it measured, with what is about to show.
    pub(crate) facts: NodeFacts,
    /// When that was measured, in milliseconds since 1970.
    pub(crate) taken_ms: Option<u64>,
    /// What its market says.
    pub(crate) market: Option<MarketSays>,
}

/// All nodes at one moment, by name.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

/// How many nodes there are, and of how many there is telemetry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) fresh: usize,
    pub(crate) stale: usize,
    pub(crate) never: usize,
    /// The age of the oldest telemetry that is there.
    pub(crate) oldest_ms: u64,
}

/// Where tables come from.
#[derive(Debug, Default)]
pub(crate) struct Store {
    current: RwLock<Arc<Table>>,
    known: Mutex<Known>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    nodes: BTreeMap<Arc<str>, Node>,
    estimates: Estimates,
    nodes_listed: bool,
    pods_listed: bool,
    zones_changed: bool,
}

#[derive(Debug, Default)]
struct Node {
    /// What it has for pods, once the API server has told of it.
    allocatable: Option<Resources>,
    facts: NodeFacts,
    taken_ms: Option<u64>,
    price: Option<(Ratio, Millicores)>,
    zone: String,
    diversity: Option<f64>,
}

// === impl Table ===

impl Table {
    /// A node by its name.
    pub(crate) fn row(&self, name: &str) -> Option<&Row> {
        let found = self.rows.binary_search_by(|row| row.name.as_ref().cmp(name));
        found.ok().and_then(|place| self.rows.get(place))
    }

    /// All of them, by name.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// How it stands with telemetry.
    pub(crate) fn counts(&self, now_ms: u64, stale_after: Span) -> Counts {
        let mut counts = Counts::default();
        for row in &self.rows {
            match row.age(now_ms) {
                None => counts.never += 1,
                Some(age) if age > stale_after => counts.stale += 1,
                Some(_) => counts.fresh += 1,
            }
            let age = row.age(now_ms).map_or(0, Span::as_ms_floor);
            counts.oldest_ms = counts.oldest_ms.max(age);
        }
        counts
    }
}

// === impl Row ===

impl Row {
    /// How old its telemetry is; as old as can be where its clock is ahead of ours.
    pub(crate) fn age(&self, now_ms: u64) -> Option<Span> {
        let taken_ms = self.taken_ms?;
        if taken_ms > now_ms.saturating_add(AHEAD_MS) {
            return Some(Span::from_s(u64::from(u32::MAX)));
        }
        Some(Span::from_ms(now_ms.saturating_sub(taken_ms)))
    }
}

// === impl Store ===

impl Store {
    /// The table in force.
    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resolves when something has changed since the last table.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A node was seen in the API.
    pub(crate) fn node_seen(&self, name: &str, allocatable: Resources) {
        let mut known = self.known();
        known.node(name).allocatable = Some(allocatable);
        known.zones_changed = true;
        self.changed.notify_one();
    }

    /// A node is gone.
    pub(crate) fn node_gone(&self, name: &str) {
        let mut known = self.known();
        known.nodes.remove(name);
        known.zones_changed = true;
        self.changed.notify_one();
    }

    /// All nodes were listed, and these are all.
    pub(crate) fn nodes_listed(&self, present: &[String]) {
        let mut known = self.known();
        let present: std::collections::BTreeSet<&str> =
            present.iter().map(String::as_str).collect();
        known.nodes.retain(|name, _| present.contains(name.as_ref()));
        known.nodes_listed = true;
        known.zones_changed = true;
        self.changed.notify_one();
    }

    /// All pods were listed.
    pub(crate) fn pods_listed(&self) {
        self.known().pods_listed = true;
        self.changed.notify_one();
    }

    /// Whether nodes and pods were all seen once.
    pub(crate) fn is_listed(&self) -> bool {
        let known = self.known();
        known.nodes_listed && known.pods_listed
    }

    /// A node told of itself. One that the API server does not know counts once it does.
    pub(crate) fn reported(&self, snapshot: &Snapshot) {
        let mut known = self.known();
        let node = known.node(&snapshot.node_name);
        if node.taken_ms.is_some_and(|before| before > snapshot.taken_unix_ms) {
            // One that was overtaken on its way.
            return;
        }
        let moved = node.zone != snapshot.zone;
        node.facts = facts(snapshot);
        node.taken_ms = Some(snapshot.taken_unix_ms);
        node.price = snapshot.market.as_ref().map(|market| {
            (ratio(market.price), Millicores::new(market.lent_milli).min(Millicores::LIMIT))
        });
        if moved {
            node.zone.clone_from(&snapshot.zone);
            known.zones_changed = true;
        }
        drop(known);
        self.changed.notify_one();
    }

    /// A pod was bound to a node.
    pub(crate) fn bound(&self, node: &str, uid: &str, requests: Resources, at_ms: u64) {
        let mut known = self.known();
        let name = known.name(node);
        known.estimates.bound(&name, WorkloadUid::new(uid), requests, Moment::from_ms(at_ms));
        drop(known);
        self.changed.notify_one();
    }

    /// A pod is gone from a node, or has ended.
    pub(crate) fn unbound(&self, node: &str, uid: &str) {
        self.known().estimates.gone(node, &WorkloadUid::new(uid));
    }

    /// How many pods count as estimates.
    pub(crate) fn estimates(&self) -> usize {
        self.known().estimates.pods()
    }

    /// Makes a table of what is known, and puts it in force.
    pub(crate) fn publish(&self, now_ms: u64) {
        let table = Arc::new(self.known().table(now_ms));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Known ===

impl Known {
    fn name(&self, node: &str) -> Arc<str> {
        self.nodes.get_key_value(node).map_or_else(|| node.into(), |(name, _)| Arc::clone(name))
    }

    fn node(&mut self, name: &str) -> &mut Node {
        let name = self.name(name);
        self.nodes.entry(name).or_default()
    }

    fn table(&mut self, now_ms: u64) -> Table {
        let now = Moment::from_ms(now_ms);
        self.estimates.time_passed(now);
        if std::mem::take(&mut self.zones_changed) {
            self.diversify();
        }
        let known =
            self.nodes.iter().filter_map(|(name, node)| Some((name, node, node.allocatable?)));
        let mut rows: Vec<Row> = known.map(|(name, node, has)| node.row(name, has)).collect();
        for name in self.estimates.nodes() {
            let found = rows.binary_search_by(|row| row.name.as_ref().cmp(name.as_ref()));
            let Some(row) = found.ok().and_then(|place| rows.get_mut(place)) else { continue };
            let has = self.nodes.get(name).and_then(|node| node.allocatable);
            if let (Some(taken_ms), Some(has)) = (row.taken_ms, has) {
                let unseen = self.estimates.unseen(name, Moment::from_ms(taken_ms), now);
                row.facts = with(row.facts, unseen, has);
            }
        }
        Table { rows }
    }

    fn diversify(&mut self) {
        let zones: Vec<Option<&str>> = self
            .nodes
            .values()
            .map(|node| Some(node.zone.as_str()).filter(|zone| !zone.is_empty()))
            .collect();
        let found = zone_diversity(&zones);
        for (node, diversity) in self.nodes.values_mut().zip(found) {
            node.diversity = diversity;
        }
    }
}

// === impl Node ===

impl Node {
    fn row(&self, name: &Arc<str>, allocatable: Resources) -> Row {
        let facts = match self.diversity {
            Some(diversity) => self.facts.with(NodeFeature::ZoneDiversityScore, diversity),
            None => self.facts,
        };
        let market =
            self.price.map(|(price, lent)| MarketSays { price, lent, capacity: allocatable.cpu });
        Row { name: Arc::clone(name), facts, taken_ms: self.taken_ms, market }
    }
}

/// What a snapshot says, for a model. What is no number is kept, so that the model can refuse it.
fn facts(snapshot: &Snapshot) -> NodeFacts {
    use NodeFeature as N;
    let said = [
        (N::CpuUtilization, snapshot.cpu_utilization),
        (N::CpuThrottleRate, snapshot.cpu_throttle_rate),
        (N::MemoryUtilization, snapshot.memory_utilization),
        (N::MemoryBandwidthGbps, snapshot.memory_bandwidth_gbps),
        (N::L3CacheMissRate, snapshot.l3_cache_miss_rate),
        (N::L3CacheOccupancyMb, snapshot.l3_cache_occupancy_mb),
        (N::DiskIoWaitMs, snapshot.disk_io_wait_ms),
        (N::DiskIops, snapshot.disk_iops),
        (N::NetworkRxPacketsSec, snapshot.network_rx_packets_sec),
        (N::NetworkTxPacketsSec, snapshot.network_tx_packets_sec),
        (N::NetworkDropRate, snapshot.network_drop_rate),
        (N::NodeCostIndex, snapshot.node_cost_index),
        (N::IsSpotInstance, snapshot.is_spot_instance),
        (N::SpotInterruptionRisk, snapshot.spot_interruption_risk),
    ];
    said.into_iter().fold(NodeFacts::UNKNOWN, |facts, (feature, value)| match value {
        Some(value) => facts.with(feature, value),
        None => facts,
    })
}

/// The same node with pods that it does not show yet.
fn with(facts: NodeFacts, unseen: Resources, has: Resources) -> NodeFacts {
    let add = |facts: NodeFacts, feature, share: Ratio| match facts.get(feature) {
        Some(value) if share > Ratio::ZERO => {
            facts.with(feature, (value + share.to_f64()).min(1.0))
        }
        Some(_) | None => facts,
    };
    let memory = Ratio::of(unseen.memory.get(), has.memory.get());
    let facts = add(facts, NodeFeature::CpuUtilization, unseen.cpu.ratio_of(has.cpu));
    add(facts, NodeFeature::MemoryUtilization, memory)
}

/// A price as core counts it. What is no number is no price.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was brought within bounds"
)]
fn ratio(price: f64) -> Ratio {
    let price = if price.is_finite() { price.clamp(0.0, PRICE_MAX) } else { 0.0 };
    Ratio::from_millionths((price * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::units::Bytes;
    use walras_rpc::reports::Market;

    const HAS: Resources = Resources::new(Millicores::new(4000), Bytes::new(4 << 30));

    fn snapshot(node: &str, taken_unix_ms: u64, cpu: f64) -> Snapshot {
        Snapshot {
            node_name: node.to_owned(),
            taken_unix_ms,
            cpu_utilization: Some(cpu),
            memory_utilization: Some(0.5),
            market: Some(Market { price: 0.5, lent_milli: 1000 }),
            ..Snapshot::default()
        }
    }

    fn cpu(store: &Store, node: &str) -> Option<f64> {
        store.table().row(node)?.facts.get(NodeFeature::CpuUtilization)
    }

    #[test]
    fn a_node_is_there_once_the_api_server_says_so_and_neutral_until_it_reports() {
        let store = Store::default();
        store.reported(&snapshot("a", 1_000, 0.25));
        store.publish(1_500);
        assert!(store.table().row("a").is_none(), "the API server does not know it");
        store.node_seen("a", HAS);
        store.node_seen("b", HAS);
        store.publish(1_500);
        assert_eq!(cpu(&store, "a"), Some(0.25));
        let table = store.table();
        assert_eq!(table.row("b").map(|row| row.taken_ms), Some(None));
        let market = table.row("a").and_then(|row| row.market).unwrap();
        assert_eq!(market.price, Ratio::from_percent(50));
        assert_eq!((market.lent, market.capacity), (Millicores::new(1000), HAS.cpu));
        let counts = table.counts(12_000, Span::from_s(10));
        let expected = Counts { fresh: 0, stale: 1, never: 1, oldest_ms: 11_000 };
        assert_eq!(counts, expected);
        store.nodes_listed(&["b".to_owned()]);
        store.publish(1_500);
        assert_eq!(store.table().rows().len(), 1);
        assert!(!store.is_listed());
        store.pods_listed();
        assert!(store.is_listed());
    }

    #[test]
    fn a_table_in_use_does_not_change_and_what_was_overtaken_is_dropped() {
        let store = Store::default();
        store.node_seen("a", HAS);
        store.reported(&snapshot("a", 2_000, 0.25));
        store.publish(2_000);
        let held = store.table();
        store.reported(&snapshot("a", 3_000, 0.75));
        store.reported(&snapshot("a", 2_500, 0.1));
        store.publish(3_000);
        let before = held.row("a").and_then(|row| row.facts.get(NodeFeature::CpuUtilization));
        assert_eq!((before, cpu(&store, "a")), (Some(0.25), Some(0.75)));
    }

    #[test]
    fn pods_bound_a_moment_ago_count_until_telemetry_can_show_them() {
        let store = Store::default();
        store.node_seen("a", HAS);
        store.reported(&snapshot("a", 100_000, 0.25));
        let asks = Resources::new(Millicores::new(2000), Bytes::new(1 << 30));
        store.bound("a", "p", asks, 100_500);
        store.publish(101_000);
        assert_eq!(cpu(&store, "a"), Some(0.75));
        store.reported(&snapshot("a", 110_500, 0.5));
        store.publish(110_600);
        assert_eq!(cpu(&store, "a"), Some(0.5));
        store.bound("a", "q", asks, 110_600);
        store.unbound("a", "q");
        store.publish(110_700);
        assert_eq!((cpu(&store, "a"), store.estimates()), (Some(0.5), 1));
    }

    #[test]
    fn a_clock_that_is_ahead_makes_nothing_fresh() {
        let store = Store::default();
        store.node_seen("a", HAS);
        store.reported(&snapshot("a", 60_000, 0.25));
        store.publish(50_000);
        let table = store.table();
        assert!(table.row("a").and_then(|row| row.age(50_000)) > Some(Span::from_s(10)));
        assert_eq!(table.row("a").and_then(|row| row.age(58_000)), Some(Span::ZERO));
        assert_eq!(ratio(f64::NAN), Ratio::ZERO);
        assert_eq!(ratio(-1.0), Ratio::ZERO);
    }

    #[test]
    fn zones_are_compared_over_all_nodes() {
        let store = Store::default();
        for (name, zone) in [("a", "north"), ("b", "north"), ("c", "south"), ("d", "")] {
            store.node_seen(name, HAS);
            let zone = zone.to_owned();
            store.reported(&Snapshot { zone, ..snapshot(name, 1_000, 0.5) });
        }
        store.publish(1_000);
        let diversity = |name: &str| {
            store.table().row(name).unwrap().facts.get(NodeFeature::ZoneDiversityScore)
        };
        assert!(diversity("c") > diversity("a"), "{:?} {:?}", diversity("c"), diversity("a"));
        assert_eq!(diversity("a"), diversity("b"));
        assert_eq!(diversity("d"), None);
    }
}
