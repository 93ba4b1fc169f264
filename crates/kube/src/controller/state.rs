//! The cluster as its page and its API tell it.

use std::time::{SystemTime, UNIX_EPOCH};

use walras_core::resize::{ContainerView, PodView};
use walras_core::units::Millicores;
use walras_wire::cluster::{AllocationState, ClusterState};

use super::Shared;
use super::facts::{AllocationFacts, PodFacts};

/// How everything stands.
pub(super) fn state(shared: &Shared) -> ClusterState {
    let now = shared.clock.now();
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let everything = shared.store.everything();
    let each = everything.iter().map(|(one, pod)| allocation(one, pod.as_deref()));
    ClusterState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        leader: shared.leadership.acts_until(now).is_some(),
        mode: shared.store.settings().mode.name().to_owned(),
        resizes: shared.metrics.resizes.get(),
        verified: shared.metrics.verified_count(),
        waiting: u64::try_from(shared.queue.len()).unwrap_or(u64::MAX),
        problems: shared.store.problems(),
        allocations: each.collect(),
    }
}

fn allocation(one: &AllocationFacts, pod: Option<&PodFacts>) -> AllocationState {
    let view = pod.and_then(|pod| pod.view.as_ref().ok());
    let desired = one.desired.as_ref().ok();
    let status = &one.status;
    AllocationState {
        namespace: one.namespace.clone(),
        pod: one.pod.clone(),
        node: pod.and_then(|pod| pod.node.clone()),
        desired_request_milli: desired.map(|desired| desired.request.get()),
        desired_limit_milli: desired.map(|desired| desired.limit.get()),
        request_milli: view.and_then(|view| sum(view, |container| container.request)),
        limit_milli: view.and_then(|view| sum(view, |container| container.limit)),
        price: one.price,
        phase: status.phase.map(|phase| phase.name().to_owned()).unwrap_or_default(),
        reason: status.reason.clone().unwrap_or_default(),
        message: status.message.clone().unwrap_or_default(),
    }
}

/// The sum over all containers, if all have one.
fn sum(view: &PodView, of: impl Fn(&ContainerView) -> Option<Millicores>) -> Option<u64> {
    let parts: Option<Vec<Millicores>> = view.containers.iter().map(of).collect();
    parts.map(|parts| parts.into_iter().sum::<Millicores>().get())
}
