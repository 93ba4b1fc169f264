//! How an allocation stands, as its status says it.
//!
//! A status that says the same as the one that is there is the same, whatever time it is: nothing
//! is written then. A wait that was announced goes on as announced.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value, json};
use walras_core::units::{Millicores, Moment};

use super::clock::{moment, stamp, stamp_ceil};
use super::decide::{Standing, Told};
use super::facts::{AllocationFacts, PodFacts};
use crate::crd::{Phase, PodAllocationStatus};

/// Every field, so that one which is not said any more is taken away.
const FIELDS: [&str; 11] = [
    "appliedCPURequest",
    "appliedCPULimit",
    "phase",
    "reason",
    "message",
    "lastAppliedTime",
    "lastAttemptTime",
    "nextAttemptTime",
    "shadowPriceCPU",
    "observedGeneration",
    "conditions",
];
/// The longest message that a condition may have.
const MESSAGE_MAX: usize = 4096;

/// The status that says `told` at `now`.
pub(crate) fn status(
    allocation: &AllocationFacts,
    pod: Option<&PodFacts>,
    told: &Told,
    now: Moment,
) -> PodAllocationStatus {
    let old = &allocation.status;
    let stands = old.phase == Some(told.phase) && old.reason.as_deref() == Some(told.reason);
    let same = stands && old.observed_generation == Some(allocation.generation);
    if same && told.standing == Standing::Asked {
        // That the node is asked was said when it was; more is said when it has answered.
        return old.clone();
    }
    let announced = old.next_attempt_time.as_ref().map(moment).filter(|next| *next > now);
    let goes_on = same && told.standing == Standing::Held && announced.is_some();
    let (message, next_attempt_time) = if goes_on {
        (old.message.clone(), old.next_attempt_time.clone())
    } else {
        (Some(shortened(&told.message)), next_attempt(told))
    };
    let (applied_request, applied_limit) = in_force(pod);
    let text = |cpu: Option<Millicores>| cpu.map(|cpu| cpu.to_string());
    let mut status = PodAllocationStatus {
        applied_cpu_request: text(applied_request),
        applied_cpu_limit: text(applied_limit),
        phase: Some(told.phase),
        reason: Some(told.reason.to_owned()),
        message,
        last_applied_time: old.last_applied_time.clone(),
        last_attempt_time: old.last_attempt_time.clone(),
        next_attempt_time,
        shadow_price_cpu: allocation.price,
        observed_generation: Some(allocation.generation),
        conditions: Vec::new(),
    };
    // A generation that brings nothing but another price applies nothing.
    let unapplied = !stands
        || status.applied_cpu_limit != old.applied_cpu_limit
        || status.applied_cpu_request != old.applied_cpu_request;
    // Nothing is applied to who is left alone.
    let is_applied = told.phase == Phase::Applied && told.standing != Standing::LeftAlone;
    if is_applied && (unapplied || old.last_applied_time.is_none()) {
        status.last_applied_time = Some(stamp(now));
    }
    status.conditions = conditions(old, &status, told, allocation.generation, now);
    status
}

/// The same status with a resize that begins at `now`.
pub(crate) fn attempting(
    allocation: &AllocationFacts,
    pod: &PodFacts,
    message: String,
    now: Moment,
) -> PodAllocationStatus {
    let told = Told {
        phase: Phase::Pending,
        standing: Standing::Asked,
        reason: "Applying",
        message,
        next: None,
    };
    let unasked = AllocationFacts {
        status: PodAllocationStatus { reason: None, ..allocation.status.clone() },
        ..allocation.clone()
    };
    let status = status(&unasked, Some(pod), &told, now);
    PodAllocationStatus { last_attempt_time: Some(stamp(now)), ..status }
}

/// The patch that makes `status` the status of the object with this uid and, if so wanted, version.
pub(crate) fn patch(status: &PodAllocationStatus, uid: &str, version: Option<&str>) -> Value {
    let mut fields: Map<String, Value> =
        FIELDS.iter().map(|field| (String::from(*field), Value::Null)).collect();
    if let Ok(Value::Object(said)) = serde_json::to_value(status) {
        fields.extend(said);
    }
    let mut metadata = json!({ "uid": uid });
    if let Some(version) = version {
        metadata["resourceVersion"] = json!(version);
    }
    json!({ "metadata": metadata, "status": fields })
}

/// What the pod has, its containers together; nothing where one of them does not say.
pub(super) fn in_force(pod: Option<&PodFacts>) -> (Option<Millicores>, Option<Millicores>) {
    let Some(PodFacts { view: Ok(view), seen, .. }) = pod else {
        return (None, None);
    };
    let each = view.containers.iter().map(|container| {
        let seen = seen.containers.iter().find(|seen| seen.name == container.name)?;
        Some((seen.allocated.or(seen.request), seen.limit))
    });
    let each: Option<Vec<_>> = each.collect();
    let each = each.unwrap_or_default();
    if each.is_empty() {
        return (None, None);
    }
    let sum = |parts: Option<Vec<Millicores>>| parts.map(|parts| parts.into_iter().sum());
    let requests = each.iter().map(|(request, _)| *request).collect();
    let limits = each.iter().map(|(_, limit)| *limit).collect();
    (sum(requests), sum(limits))
}

fn next_attempt(told: &Told) -> Option<Time> {
    match told.standing {
        Standing::Held | Standing::Troubled => told.next.map(stamp_ceil),
        Standing::Verified
        | Standing::Settled
        | Standing::LeftAlone
        | Standing::Asked
        | Standing::Unverified
        | Standing::Deferred
        | Standing::Infeasible
        | Standing::Refused => None,
    }
}

fn conditions(
    old: &PodAllocationStatus,
    new: &PodAllocationStatus,
    told: &Told,
    generation: i64,
    now: Moment,
) -> Vec<Condition> {
    let condition = |type_: &str, holds: bool| {
        let status = if holds { "True" } else { "False" };
        let before = old.conditions.iter().find(|one| one.type_ == type_ && one.status == status);
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: told.reason.to_owned(),
            message: new.message.clone().unwrap_or_default(),
            observed_generation: Some(generation),
            last_transition_time: before
                .map_or_else(|| stamp(now), |before| before.last_transition_time.clone()),
        }
    };
    let applied = condition("Applied", told.phase == Phase::Applied);
    let more = match told.standing {
        Standing::Deferred => Some(condition("Deferred", true)),
        Standing::Infeasible => Some(condition("Infeasible", true)),
        Standing::Verified
        | Standing::Settled
        | Standing::LeftAlone
        | Standing::Held
        | Standing::Asked
        | Standing::Unverified
        | Standing::Refused
        | Standing::Troubled => None,
    };
    [Some(applied), more].into_iter().flatten().collect()
}

fn shortened(message: &str) -> String {
    message.chars().take(MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_applied_by_a_new_price() {
        let object = |generation: i64, price: f64| {
            let object = json!({
                "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
                "metadata": { "generation": generation },
                "spec": { "namespace": "shop", "podName": "web", "shadowPriceCPU": price,
                    "desiredCPURequest": "150m", "desiredCPULimit": "300m" },
            });
            AllocationFacts::of(serde_json::from_value(object).unwrap())
        };
        let told = Told {
            phase: Phase::Applied,
            standing: Standing::Settled,
            reason: "AlreadyApplied",
            message: "It is so.".to_owned(),
            next: None,
        };
        let (early, late) = (Moment::from_ms(1_000_000), Moment::from_ms(9_000_000));
        let first = status(&object(1, 0.0), None, &told, early);
        assert_eq!(first.last_applied_time, Some(stamp(early)));
        let repriced = AllocationFacts { status: first.clone(), ..object(2, 0.4) };
        let second = status(&repriced, None, &told, late);
        assert_eq!(second.last_applied_time, first.last_applied_time);
        assert_eq!((second.observed_generation, second.shadow_price_cpu), (Some(2), Some(0.4)));
    }
}
