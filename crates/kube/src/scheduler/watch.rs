//! What the API server says of nodes and pods, for the table and for placements.
//!
//! Of nodes it is kept what they have for pods; of pods nothing, unless they were bound a moment
//! ago. A watch that breaks begins again by itself, ever more slowly.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use walras_core::place::estimate::COUNTS_FOR;
use walras_core::units::{Bytes, Millicores, Resources};

use super::Shared;
use super::pod::requests;
use crate::client::{WATCH_S, watch_words};
use crate::pause::Rests;
use crate::pod::{Pod, millicores};
use walras_core::parse::quantity;

/// Objects of a list that are read at a time.
const PAGE: u32 = 500;

/// Watches nodes.
pub(super) async fn nodes(shared: Arc<Shared>, client: Client) {
    let config = watcher::Config::default().timeout(WATCH_S).page_size(PAGE);
    let stream = watcher::watcher(Api::<Node>::all(client), config);
    let mut present: Vec<String> = Vec::new();
    follow("nodes", stream, |event| match event {
        Event::Init => present.clear(),
        Event::InitApply(node) => {
            present.push(node.name_any());
            shared.store.node_seen(&node.name_any(), allocatable(&node));
        }
        Event::InitDone => shared.store.nodes_listed(&present),
        Event::Apply(node) => shared.store.node_seen(&node.name_any(), allocatable(&node)),
        Event::Delete(node) => shared.store.node_gone(&node.name_any()),
    })
    .await;
}

/// Watches pods.
pub(super) async fn pods(shared: Arc<Shared>, client: Client) {
    let config = watcher::Config::default().timeout(WATCH_S).page_size(PAGE);
    let stream = watcher::watcher(Api::<Pod>::all(client), config);
    follow("pods", stream, |event| match event {
        Event::Init => {}
        Event::InitApply(pod) | Event::Apply(pod) => seen(&shared, &pod),
        Event::InitDone => shared.store.pods_listed(),
        Event::Delete(pod) => {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            if let Some(node) = &pod.spec.node_name {
                shared.store.unbound(node, uid);
            }
        }
    })
    .await;
}

/// A pod that was bound a moment ago counts until telemetry shows it, and its placement is over.
fn seen(shared: &Shared, pod: &Pod) {
    let (Some(node), Some(uid)) = (&pod.spec.node_name, &pod.metadata.uid) else { return };
    let ended = ["Succeeded", "Failed"].map(Some).contains(&pod.status.phase.as_deref());
    if ended {
        shared.store.unbound(node, uid);
        return;
    }
    let now_ms = shared.now_ms();
    let bound_ms = bound_at(pod).unwrap_or(now_ms).min(now_ms);
    if now_ms - bound_ms <= COUNTS_FOR.as_ms_floor() {
        let asks = requests(&pod.spec.containers, &pod.spec.init_containers, &None);
        shared.store.bound(node, uid, asks, bound_ms);
    }
    if let Some(placement) = shared.memory.bound(uid, node) {
        shared.settled(placement);
    }
}

/// When a pod was bound, to the second.
fn bound_at(pod: &Pod) -> Option<u64> {
    let condition = pod.status.conditions.iter().find(|it| it.type_ == "PodScheduled")?;
    let time = condition.last_transition_time.as_ref()?;
    u64::try_from(time.0.as_millisecond()).ok()
}

fn allocatable(node: &Node) -> Resources {
    let said: BTreeMap<_, _> =
        node.status.as_ref().and_then(|status| status.allocatable.clone()).unwrap_or_default();
    let text = |name: &str| said.get(name).map(|amount| amount.0.as_str());
    let cpu = text("cpu").and_then(|cpu| millicores(cpu).ok());
    let memory = text("memory").and_then(|memory| quantity(memory.as_bytes()).ok());
    let memory = memory.map_or(Bytes::ZERO, |memory| memory.bytes_ceil());
    Resources::new(cpu.unwrap_or(Millicores::ZERO), memory)
}

async fn follow<T>(
    what: &str,
    stream: impl Stream<Item = watcher::Result<Event<T>>>,
    mut take: impl FnMut(Event<T>),
) {
    pin_mut!(stream);
    let mut broken = false;
    let mut rests = Rests::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                // That a list begins says nothing yet: it may fail.
                if !matches!(event, Event::Init) {
                    rests.worked();
                    if std::mem::take(&mut broken) {
                        tracing::info!("{what} are watched again");
                    }
                }
                take(event);
            }
            Err(error) => {
                if !std::mem::replace(&mut broken, true) {
                    let why = watch_words(&error);
                    tracing::warn!("{what} cannot be watched, what was seen last holds: {why}");
                }
                rests.rest().await;
            }
        }
    }
}
