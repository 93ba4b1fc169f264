//! The cluster as its page and its API tell it.

use std::time::{SystemTime, UNIX_EPOCH};

use walras_core::resize::{ContainerView, PodView};
use walras_core::units::Millicores;
use walras_wire::cluster::{AllocationState, ClusterState};

use super::Shared;
use super::facts::{AllocationFacts, Key, PodFacts};
use super::status::in_force;

/// Of no more allocations is told: whoever asks would get fifty megabytes in a large cluster, and
/// nobody reads more.
const TOLD_MOST: usize = 5_000;

/// How everything stands.
pub(super) fn state(shared: &Shared) -> ClusterState {
    let now = shared.clock.now();
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (allocations, left_out) = shared.store.told(TOLD_MOST, allocation);
    ClusterState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        me: shared.me.clone(),
        holder: shared.leadership.holder(now),
        dry_run: shared.dry_run,
        synced: shared.store.is_synced(),
        leader: shared.leadership.acts_until(now).is_some(),
        configured: shared.store.settings().are_read,
        mode: shared.store.settings().mode().name().to_owned(),
        resizes: shared.metrics.resizes.get(),
        verified: shared.metrics.verified_count(),
        waiting: u64::try_from(shared.queue.len()).unwrap_or(u64::MAX),
        problems: shared.store.problems(),
        allocations,
        left_out: u64::try_from(left_out).unwrap_or(u64::MAX),
    }
}

fn allocation(key: &Key, one: &AllocationFacts, pod: Option<&PodFacts>) -> AllocationState {
    let view = pod.and_then(|pod| pod.view.as_ref().ok());
    // What a pod's spec says is what was asked for. Its node may not have done it, and may never.
    let (request, limit) = in_force(pod);
    let asked = |of: fn(&ContainerView) -> Option<Millicores>| view.and_then(|view| sum(view, of));
    let milli = |cpu: Option<Millicores>| cpu.map(Millicores::get);
    let desired = one.desired.as_ref().ok();
    let status = &one.status;
    AllocationState {
        allocation: key.to_string(),
        namespace: one.namespace.clone(),
        pod: one.pod.clone(),
        node: pod.and_then(|pod| pod.node.clone()),
        desired_request_milli: desired.map(|desired| desired.request.get()),
        desired_limit_milli: desired.map(|desired| desired.limit.get()),
        request_milli: milli(request.or_else(|| asked(|container| container.request))),
        limit_milli: milli(limit.or_else(|| asked(|container| container.limit))),
        price: one.price,
        answered: status.observed_generation == Some(one.generation),
        phase: status.phase.map(|phase| phase.name().to_owned()).unwrap_or_default(),
        reason: status.reason.clone().unwrap_or_default(),
        message: status.message.clone().unwrap_or_default(),
    }
}

/// The sum over all containers, if all have one.
fn sum(view: &PodView, of: impl Fn(&ContainerView) -> Option<Millicores>) -> Option<Millicores> {
    let parts: Option<Vec<Millicores>> = view.containers.iter().map(of).collect();
    parts.map(|parts| parts.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A pod whose spec has 150m and 300m, and whose node says `seen`; asked for by an allocation
    /// of the fourth generation.
    fn check(seen: &Value, status: &Value) -> AllocationState {
        let cpu = json!({ "requests": { "cpu": "150m" }, "limits": { "cpu": "300m" } });
        let pod = json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
            "spec": { "containers": [{ "name": "app", "resources": cpu }] },
            "status": { "phase": "Running", "containerStatuses": seen },
        });
        let object = json!({
            "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
            "metadata": { "name": "shop-web", "namespace": "shop", "generation": 4 },
            "spec": { "namespace": "shop", "podName": "web",
                "desiredCPURequest": "150m", "desiredCPULimit": "300m" },
            "status": status,
        });
        let pod = PodFacts::of(&serde_json::from_value(pod).unwrap());
        let one = AllocationFacts::of(serde_json::from_value(object).unwrap());
        allocation(&Key::new("shop", "shop-web"), &one, Some(&pod))
    }

    #[test]
    fn a_pod_has_what_its_node_does_and_not_what_was_asked_for() {
        let cpu = json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": "200m" } });
        let seen = json!([{ "name": "app", "resources": cpu }]);
        let told = check(&seen, &Value::Null);
        assert_eq!((told.request_milli, told.limit_milli), (Some(100), Some(200)));
        assert_eq!((told.desired_request_milli, told.desired_limit_milli), (Some(150), Some(300)));
        let told = check(&json!([]), &Value::Null);
        assert_eq!((told.request_milli, told.limit_milli), (Some(150), Some(300)), "nothing seen");
    }

    #[test]
    fn a_word_about_something_older_is_no_answer() {
        let status =
            |generation: i64| json!({ "phase": "Applied", "observedGeneration": generation });
        let told = check(&json!([]), &status(4));
        assert_eq!((&*told.allocation, &*told.phase), ("shop/shop-web", "Applied"));
        assert!(told.answered);
        assert!(!check(&json!([]), &status(3)).answered);
        assert!(!check(&json!([]), &Value::Null).answered);
    }
}
