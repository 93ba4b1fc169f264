//! What a pod says about its placement, from the object as the API server has it.

use walras_brain::collect::{Condition, Ended, Phase, Placed, SeenPod};
use walras_brain::features::Criticality;
use walras_core::parse::quantity;
use walras_core::units::Moment;

use crate::controller::clock::moment;
use crate::names;
use crate::pod::{Pod, Terminated};

/// A pod that is bound, and not to a node by its own words alone; nothing for any other.
pub(super) fn seen(pod: &Pod) -> Option<SeenPod> {
    let node = pod.spec.node_name.clone().filter(|node| !node.is_empty())?;
    let bound = pod.condition("PodScheduled")?.last_transition_time.as_ref()?;
    let bound_us = moment(bound).since(Moment::ORIGIN).as_us();
    let said = |name: &str| pod.annotation(name).or_else(|| pod.label(name)).map(str::to_owned);
    let criticality = said(names::CRITICALITY).or_else(|| {
        let level = by_priority(pod.spec.priority?);
        (level != Criticality::Unknown).then(|| level.name().to_owned())
    });
    let placed = Placed {
        uid: pod.uid().to_owned(),
        name: pod.name().to_owned(),
        namespace: pod.namespace().to_owned(),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        cpu_milli: requested(
            pod,
            |requests| requests.cpu.as_deref(),
            |cpu| Some(quantity(cpu).ok()?.millicores_ceil().ok()?.get()),
        ),
        memory_bytes: requested(
            pod,
            |requests| requests.memory.as_deref(),
            |memory| Some(quantity(memory).ok()?.bytes_ceil().get()),
        ),
        workload_type: said(names::WORKLOAD_TYPE),
        criticality,
        node,
        scheduler: pod.spec.scheduler_name.clone().unwrap_or_default(),
        bound_ms: i64::try_from(bound_us / 1000).unwrap_or(i64::MAX),
    };
    Some(SeenPod { placed, condition: condition(pod) })
}

/// How much depends on a pod, by its priority: what the system needs is high, as is what the owners
/// of a cluster put above everything else.
const fn by_priority(priority: i32) -> Criticality {
    match priority {
        1_000_000.. => Criticality::High,
        1..1_000_000 => Criticality::Medium,
        0 => Criticality::Unknown,
        ..0 => Criticality::Low,
    }
}

fn requested(
    pod: &Pod,
    of: impl Fn(&crate::pod::Amounts) -> Option<&str>,
    read: impl Fn(&[u8]) -> Option<u64>,
) -> u64 {
    let amounts = pod
        .lasting_containers()
        .filter_map(|container| read(of(&container.resources.requests)?.as_bytes()));
    amounts.fold(0, u64::saturating_add)
}

fn condition(pod: &Pod) -> Condition {
    let phase = match pod.status.phase.as_deref() {
        Some("Pending") => Phase::Pending,
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some(_) | None => Phase::Unknown,
    };
    let is_oom = |ended: &Terminated| ended.reason.as_deref() == Some("OOMKilled");
    let mut ended = None;
    let mut restarted = false;
    for container in &pod.status.container_statuses {
        let now = container.state.terminated.as_ref();
        let before = container.last_state.terminated.as_ref();
        let found = if now.into_iter().chain(before).any(is_oom) {
            Some(Ended::OutOfMemory)
        } else {
            now.map(|_| Ended::Otherwise)
        };
        ended = ended.max(found);
        restarted |= container.restart_count > 0;
    }
    let evicted = pod.status.reason.as_deref() == Some("Evicted");
    Condition { phase, evicted, ended, restarted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use walras_brain::collect::outcome_of;

    fn pod(status: &serde_json::Value) -> Pod {
        let mut status = status.clone();
        status["conditions"] = json!([{ "type": "PodScheduled", "status": "True",
            "lastTransitionTime": "2026-11-17T08:30:00Z" }]);
        serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u-1",
                "labels": { "app": "web" },
                "annotations": { "kubeattention.io/workload-type": "cpu-bound" } },
            "spec": { "nodeName": "a", "schedulerName": "default-scheduler",
                "priority": 2_000_000_000,
                "containers": [
                    { "name": "c", "resources": { "requests":
                        { "cpu": "250m", "memory": "1Gi" } } },
                    { "name": "d", "resources": { "requests": { "cpu": "1" } } }] },
            "status": status
        }))
        .unwrap()
    }

    #[test]
    fn requests_add_up_and_annotations_say_what_it_is() {
        let seen = seen(&pod(&json!({ "phase": "Running" }))).unwrap().placed;
        assert_eq!((seen.cpu_milli, seen.memory_bytes), (1250, 1 << 30));
        assert_eq!(seen.workload_type.as_deref(), Some("cpu-bound"));
        assert_eq!(seen.criticality.as_deref(), Some("high"), "by its priority");
        assert_eq!(seen.bound_ms, 1_794_904_200_000);
        assert_eq!((seen.node.as_str(), seen.scheduler.as_str()), ("a", "default-scheduler"));
    }

    #[test]
    fn who_is_not_bound_is_not_followed() {
        let mut waiting = pod(&json!({ "phase": "Pending" }));
        waiting.spec.node_name = None;
        assert_eq!(seen(&waiting), None);
        let mut by_hand = pod(&json!({ "phase": "Running" }));
        by_hand.status.conditions.clear();
        assert_eq!(seen(&by_hand), None);
    }

    #[test]
    fn what_containers_went_through_is_seen() {
        let container = |state: serde_json::Value, last: serde_json::Value, restarts: u32| {
            json!({ "phase": "Running", "containerStatuses": [{ "name": "c",
                "restartCount": restarts, "state": state, "lastState": last }] })
        };
        let killed = json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } });
        let ended = json!({ "terminated": { "reason": "Completed", "exitCode": 0 } });
        let runs = json!({ "running": {} });
        let nothing = json!({});
        for (status, outcome) in [
            (container(runs.clone(), nothing.clone(), 0), "running"),
            (container(runs.clone(), ended.clone(), 1), "restarted"),
            (container(runs, killed.clone(), 1), "oom_killed"),
            (container(killed, nothing.clone(), 0), "oom_killed"),
            (container(ended, nothing, 0), "terminated"),
            (json!({ "phase": "Failed", "reason": "Evicted" }), "evicted"),
            (json!({ "phase": "Failed" }), "failed"),
        ] {
            let seen = seen(&pod(&status)).unwrap();
            assert_eq!(outcome_of(&seen.condition).name(), outcome, "{status}");
        }
    }
}
