//! Names pods that would be better off on another node, and evicts them if told to.
//!
//! Once a minute the acting controller lists nodes and pods, asks the scheduler how nodes score for
//! each kind of pod, and lets `walras_core::rebalance` say what to do. Names are four annotations,
//! written and taken back together. Evictions go through the eviction API, so disruption budgets
//! hold; the node that a pod leaves gets a taint that asks kube-scheduler to prefer others, for
//! some minutes. Nodes that could be emptied are told.

mod convert;
mod windows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, Uri};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams};
use kube::{Client, Config, ResourceExt};
use serde_json::{Value, json};
use tokio::time;
use walras_core::place::{Basis, Points};
use walras_core::rebalance::empty::{Emptiable, emptiable};
use walras_core::rebalance::fit::Rooms;
use walras_core::rebalance::stay::{MoveRules, Stay, not_evicted, stays};
use walras_core::rebalance::{Named, Pass, Rebalancer, Rules, Seen};
use walras_core::units::{Ratio, Resources, WorkloadUid};
use walras_wire::placement::NodesTold;

use self::convert::{facts, owner_name, requests, resident, room};
pub use self::windows::{WindowError, Windows};
use super::Shared;
use crate::client::words;
use crate::names;

/// The node that a pod was evicted from, and until when others are preferred, in seconds of 1970.
const LEFT: &str = "walras.dev/moved-from";
/// For how long.
const LEFT_FOR_S: u64 = 300;
/// No node is planned to be fuller than this.
const FILL: Ratio = Ratio::from_percent(90);
/// So many kinds of pods are asked about in a pass; the others wait for the next.
const KINDS_MAX: usize = 64;
/// How long the scheduler may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Namespaces whose pods are never named, beside those that are excluded by settings.
const SYSTEM: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// What the rebalancer may do.
#[derive(Clone, Debug)]
pub struct RebalanceOptions {
    /// Where the scheduler tells how nodes score.
    pub scheduler: Uri,
    /// How often to look.
    pub every: Duration,
    /// Whether pods are evicted, or only named.
    pub evict: bool,
    /// When they may be.
    pub windows: Windows,
    /// Which pods may be moved.
    pub rules: MoveRules,
}

/// A kind of pods: what a model is told of them.
type Kind = (u64, u64, String, String);

/// What was read for one pass.
struct World {
    pods: BTreeMap<WorkloadUid, Pod>,
    rooms: Rooms,
    seen: Vec<Seen>,
    nodes: Vec<Node>,
}

/// Looks again and again, for as long as it is polled.
pub(super) async fn run(shared: Arc<Shared>, client: Client, options: RebalanceOptions) {
    let mut rebalancer = Rebalancer::default();
    let mut interval = time::interval(options.every);
    interval.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if shared.leadership.acts_until(shared.clock.now()).is_none() {
            // The next leader begins with what is written on pods.
            rebalancer = Rebalancer::default();
            continue;
        }
        if let Err(why) = pass(&shared, &client, &options, &mut rebalancer).await {
            tracing::warn!("no pod is named or evicted this time: {why}");
        }
    }
}

async fn pass(
    shared: &Shared,
    client: &Client,
    options: &RebalanceOptions,
    rebalancer: &mut Rebalancer,
) -> Result<(), String> {
    let now_ms = shared.clock.now().as_ms_floor();
    let world = read(shared, client, options, now_ms).await?;
    let scores = scores(options, &world).await?;
    let score = |uid: &WorkloadUid, node: &str| {
        let pod = world.pods.get(uid)?;
        scores.get(&kind(pod))?.get(node).copied()
    };
    let outcome = rebalancer.pass(&Rules::DEFAULT, &world.rooms, &world.seen, &score);
    let free = |uid: &WorkloadUid| world.stays(uid);
    tell(&outcome, &emptiable(&world.rooms, FILL, &free), &world);
    write(shared, client, &outcome, &world).await;
    if options.evict && options.windows.are_open(now_ms) {
        evict(shared, client, &outcome, &world, now_ms).await;
    }
    prefer_again(shared, client, &world, now_ms).await;
    Ok(())
}

async fn read(
    shared: &Shared,
    client: &Client,
    options: &RebalanceOptions,
    now_ms: u64,
) -> Result<World, String> {
    let all = ListParams::default().match_any();
    let nodes = Api::<Node>::all(client.clone()).list(&all).await;
    let nodes = nodes.map_err(|error| format!("nodes: {}", words(&error)))?.items;
    let pods = Api::<Pod>::all(client.clone()).list(&all).await;
    let pods = pods.map_err(|error| format!("pods: {}", words(&error)))?.items;
    let excluded = shared.store.settings().held.agent.excluded.clone();
    let is_excluded = |pod: &Pod| {
        let namespace = pod.namespace().unwrap_or_default();
        SYSTEM.contains(&namespace.as_str())
            || namespace == shared.namespace
            || excluded.contains(&namespace)
    };
    let mut replicas: BTreeMap<String, u32> = BTreeMap::new();
    let mut used: BTreeMap<String, (Resources, usize)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| resident(pod).is_some()) {
        *replicas.entry(owner_name(pod)).or_default() += 1;
        let spec = pod.spec.clone().unwrap_or_default();
        let node = used.entry(spec.node_name.clone().unwrap_or_default()).or_default();
        *node = (node.0 + requests(&spec), node.1 + 1);
    }
    let rooms = nodes.iter().map(|node| {
        let (requested, count) = used.get(&node.name_any()).copied().unwrap_or_default();
        room(node, requested, count)
    });
    let rooms = Rooms::new(rooms.collect(), pods.iter().filter_map(resident).collect());
    let seen = pods.iter().filter(|pod| resident(pod).is_some()).filter_map(|pod| {
        let of_owner = replicas.get(&owner_name(pod)).copied().unwrap_or(1);
        let facts = facts(pod, is_excluded(pod), of_owner, now_ms);
        Some(Seen {
            uid: WorkloadUid::new(pod.metadata.uid.as_deref()?),
            named_for: pod.annotations().get(names::REBALANCE_TARGET).cloned(),
            stays: stays(&options.rules, &facts),
            not_evicted: not_evicted(&options.rules, &facts),
            owner: owner_name(pod),
        })
    });
    let seen = seen.collect();
    let keyed = pods.into_iter().filter_map(|pod| {
        let uid = WorkloadUid::new(pod.metadata.uid.as_deref()?);
        Some((uid, pod))
    });
    Ok(World { pods: keyed.collect(), rooms, seen, nodes })
}

/// How nodes score for each kind of pods that might be moved. Only what a model scored counts.
async fn scores(
    options: &RebalanceOptions,
    world: &World,
) -> Result<BTreeMap<Kind, BTreeMap<String, Points>>, String> {
    let mut config = Config::new(options.scheduler.clone());
    config.read_timeout = Some(PATIENCE);
    config.connect_timeout = Some(PATIENCE);
    let scheduler = Client::try_from(config).map_err(|error| words(&error))?;
    let movable = world.seen.iter().filter(|pod| pod.stays.is_none());
    let kinds = movable.filter_map(|pod| world.pods.get(&pod.uid)).map(kind);
    let kinds: std::collections::BTreeSet<Kind> = kinds.collect();
    let mut found = BTreeMap::new();
    for kind in kinds.into_iter().take(KINDS_MAX) {
        let (cpu, memory, workload, criticality) = &kind;
        let path = format!(
            "/api/v1/nodes?cpu_milli={cpu}&memory_bytes={memory}&workload={workload}&\
             criticality={criticality}"
        );
        let question = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        let answer = time::timeout(PATIENCE, scheduler.request_text(question)).await;
        let answer = answer.map_err(|_| "the scheduler does not answer".to_owned())?;
        let answer = answer.map_err(|error| format!("the scheduler: {}", words(&error)))?;
        let told: NodesTold = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        let scored = told.nodes.into_iter().filter(|node| node.basis == Basis::Model.name());
        let points = scored.filter_map(|node| {
            #[expect(clippy::cast_possible_truncation, reason = "points go up to 100")]
            let points = Points::from_model_nearest(node.points as f32)?;
            Some((node.node, points))
        });
        found.insert(kind, points.collect());
    }
    Ok(found)
}

/// What a model is told of a pod. Requests are rounded, so that there are few kinds.
fn kind(pod: &Pod) -> Kind {
    let requests = pod.spec.as_ref().map(requests).unwrap_or_default();
    let said = |name: &str| {
        let found = pod.annotations().get(name).or_else(|| pod.labels().get(name));
        let plain = |text: &&String| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        found.filter(plain).cloned().unwrap_or_default()
    };
    let round = |amount: u64, step: u64| amount.div_ceil(step) * step;
    (
        round(requests.cpu.get(), 100),
        round(requests.memory.get(), 128 << 20),
        said(names::WORKLOAD_TYPE),
        said(names::CRITICALITY),
    )
}

fn tell(outcome: &Pass, empty: &[Emptiable], world: &World) {
    for one in &outcome.named {
        let (pod, points) = (world.name(&one.uid), one.points);
        tracing::info!(
            "{pod} -> {} (delta: {}): {} scores {points}",
            one.target,
            one.delta,
            one.from
        );
    }
    for one in empty.iter().filter(|one| !one.moves.is_empty()) {
        let pods = one.moves.len();
        tracing::info!("{} could be emptied: its {pods} pods fit elsewhere", one.node);
    }
}

/// Writes names onto pods and takes them back, all four annotations together.
async fn write(shared: &Shared, client: &Client, outcome: &Pass, world: &World) {
    let now = Timestamp::now().to_string();
    let named = outcome.named.iter().filter(|one| {
        let pod = world.pods.get(&one.uid);
        pod.and_then(|pod| pod.annotations().get(names::REBALANCE_TARGET)) != Some(&one.target)
    });
    let set = named.map(|one| {
        let (from, points) = (&one.from, one.points);
        let why = format!("{from} scores {points}, {} scores {} more", one.target, one.delta);
        let said = json!({
            names::REBALANCE_TARGET: one.target,
            names::REBALANCE_DELTA: one.delta.to_string(),
            names::REBALANCE_REASON: why,
            names::REBALANCE_TIMESTAMP: now,
        });
        (&one.uid, said)
    });
    let nothing = json!({
        names::REBALANCE_TARGET: null,
        names::REBALANCE_DELTA: null,
        names::REBALANCE_REASON: null,
        names::REBALANCE_TIMESTAMP: null,
    });
    let clear = outcome.cleared.iter().map(|uid| (uid, nothing.clone()));
    for (uid, annotations) in set.chain(clear) {
        let Some(pod) = world.pods.get(uid) else { continue };
        if shared.dry_run {
            tracing::info!("{}: would be annotated: {annotations}", world.name(uid));
            continue;
        }
        let patch = json!({ "metadata": { "uid": uid.as_str(), "annotations": annotations } });
        let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let written = api.patch(&pod.name_any(), &by_us(), &Patch::Merge(patch)).await;
        if let Err(error) = written
            && !is_gone(&error)
        {
            tracing::warn!("{}: cannot be annotated: {}", world.name(uid), words(&error));
        }
    }
}

async fn evict(shared: &Shared, client: &Client, outcome: &Pass, world: &World, now_ms: u64) {
    for one in &outcome.evict {
        let Some(pod) = world.pods.get(&one.uid) else { continue };
        let name = world.name(&one.uid);
        if shared.dry_run {
            tracing::info!("{name}: would be evicted from {}", one.from);
            continue;
        }
        // Before the pod goes, so that its replacement does not come back.
        prefer_others(client, world, one, now_ms).await;
        let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        match api.evict(&pod.name_any(), &EvictParams::default()).await {
            Ok(_) => tracing::info!("{name}: evicted from {}, for {}", one.from, one.target),
            Err(error) => tracing::info!("{name}: not evicted: {}", words(&error)),
        }
    }
}

/// Asks kube-scheduler to prefer other nodes for some minutes.
async fn prefer_others(client: &Client, world: &World, one: &Named, now_ms: u64) {
    let Some(node) = world.nodes.iter().find(|node| node.name_any() == one.from) else { return };
    let until = (now_ms / 1000 + LEFT_FOR_S).to_string();
    let mut taints = taints_but_ours(node);
    taints.push(json!({ "key": LEFT, "value": until, "effect": "PreferNoSchedule" }));
    set_taints(client, node, taints).await;
}

/// Takes back what is over.
async fn prefer_again(shared: &Shared, client: &Client, world: &World, now_ms: u64) {
    for node in world.nodes.iter().filter(|_| !shared.dry_run) {
        let spec = node.spec.as_ref();
        let mut taints = spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
        let ours = taints.find(|taint| taint.key == LEFT);
        let until = ours.map(|taint| taint.value.as_deref().and_then(|it| it.parse::<u64>().ok()));
        if until.is_some_and(|until| until.unwrap_or(0) <= now_ms / 1000) {
            set_taints(client, node, taints_but_ours(node)).await;
        }
    }
}

fn taints_but_ours(node: &Node) -> Vec<Value> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let others = taints.into_iter().filter(|taint| taint.key != LEFT);
    others.filter_map(|taint| serde_json::to_value(taint).ok()).collect()
}

async fn set_taints(client: &Client, node: &Node, taints: Vec<Value>) {
    // With its version: another program may just be tainting it, too.
    let version = node.metadata.resource_version.clone();
    let patch = json!({
        "metadata": { "resourceVersion": version },
        "spec": { "taints": taints },
    });
    let api = Api::<Node>::all(client.clone());
    if let Err(error) = api.patch(&node.name_any(), &by_us(), &Patch::Merge(patch)).await {
        tracing::warn!("{}: its taint is not changed: {}", node.name_any(), words(&error));
    }
}

fn by_us() -> PatchParams {
    let field_manager = Some(names::CONTROLLER_MANAGER.to_owned());
    PatchParams { field_manager, ..PatchParams::default() }
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if [404, 409].contains(&status.code))
}

// === impl World ===

impl World {
    fn name(&self, uid: &WorkloadUid) -> String {
        let pod = self.pods.get(uid);
        pod.map_or_else(
            || uid.to_string(),
            |pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()),
        )
    }

    fn stays(&self, uid: &WorkloadUid) -> Option<Stay> {
        let found = self.seen.iter().find(|pod| pod.uid == *uid);
        found.map_or(Some(Stay::NotRunning), |pod| pod.not_evicted)
    }
}
