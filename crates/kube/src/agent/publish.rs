//! Writes PodAllocations: what each pod should have, for the controller to carry out.
//!
//! The loop leaves wishes in the [`Outbox`] and never waits; a task in the background takes them
//! out, one after the other, at a bounded pace. Only the newest wish of a pod counts. When the API
//! server is away, it is tried again after longer and longer pauses that differ from node to node,
//! and then at the same bounded pace, so that nothing is stampeded. What there is of this node is
//! watched by its label: what others change or delete is seen at once, and written again.

mod outbox;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::json;
use tracing::{debug, info, warn};
use walras_core::parse::quantity;
use walras_core::units::{Millicores, Moment, Ratio};

pub use self::outbox::{Desired, Job, Key, Outbox, Pace, Urgency};
use self::outbox::{Next, Outcome, There, Whose};
use crate::client::{short_list, watch_words, words};
use crate::crd::{PodAllocation, PodAllocationSpec, name_of};
use crate::names;
use crate::pause::Rests;
use crate::pod::Pod;

/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// An explanation is cut to this many characters.
const EXPLANATION_LONGEST: usize = 500;

/// The key of a pod's allocation.
#[must_use]
pub fn key_of(pod: &Pod) -> Key {
    Key {
        namespace: pod.namespace().to_owned(),
        name: name_of(pod.namespace(), pod.name(), pod.uid()),
    }
}

/// Watches what there is and writes what is in the outbox, for as long as it is polled.
pub async fn run(client: Client, node: String, outbox: Arc<Outbox>) {
    let label = names::node_label(&node);
    let all = Api::<PodAllocation>::all(client.clone());
    let of_node = short_list(&node).labels(&format!("{}={label}", names::NODE));
    let started = Instant::now();
    let now = || {
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Moment::from_ms(ms)
    };
    let watching = follow(watcher(all, of_node), &outbox, now);
    tokio::join!(watching, write(&client, &label, &outbox, now));
}

async fn write(client: &Client, label: &str, outbox: &Outbox, now: impl Fn() -> Moment) {
    loop {
        match outbox.next(now()) {
            Next::Wait(until) => {
                let wait = Duration::from_micros(until.since(now()).as_us());
                tokio::select! {
                    () = outbox.told() => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
            Next::Do(job) => {
                let outcome = carry_out(client, label, &job).await;
                outbox.done(&job, &outcome, now());
            }
        }
    }
}

/// Tells the outbox what there is of this node.
async fn follow(
    stream: impl Stream<Item = watcher::Result<Event<PodAllocation>>>,
    outbox: &Outbox,
    now: impl Fn() -> Moment,
) {
    let mut stream = std::pin::pin!(stream);
    let mut listed = BTreeMap::new();
    let mut broken = false;
    let mut rests = Rests::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => {
                // It is about to be listed, which may fail.
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => listed.extend(there(object)),
            Ok(Event::InitDone) => outbox.listed(std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => {
                if let Some((key, there)) = there(object) {
                    outbox.seen(key, there, now());
                }
            }
            Ok(Event::Delete(object)) => {
                if let Some((key, there)) = there(object) {
                    outbox.gone(&key, there.version, now());
                }
            }
            Err(error) => {
                let error = watch_words(&error);
                // Once is enough: the same trouble comes back many times.
                if !broken {
                    warn!("PodAllocations cannot be watched; trying again: {error}");
                }
                broken = true;
                outbox.not_listed(&error);
                rests.rest().await;
                continue;
            }
        }
        rests.worked();
        broken = false;
    }
}

fn there(allocation: PodAllocation) -> Option<(Key, There)> {
    let metadata = allocation.metadata;
    let key = Key { namespace: metadata.namespace?, name: metadata.name? };
    let spec = allocation.spec;
    // Others may have made it belong to something else as well, which a write does not change.
    let mut owners = metadata.owner_references.into_iter().flatten();
    let owner = owners.find(|owner| owner.kind == "Pod" && owner.name == spec.pod_name);
    let uid = owner.map(|owner| owner.uid).unwrap_or_default();
    let desired = desired_in(&spec).filter(|_| spec.namespace == key.namespace);
    let version = version_in(metadata.resource_version.as_deref());
    Some((key, There { whose: Whose { pod: spec.pod_name, uid }, desired, version }))
}

async fn carry_out(client: &Client, label: &str, job: &Job) -> Outcome {
    let api = Api::<PodAllocation>::namespaced(client.clone(), &job.key.namespace);
    let name = &job.key.name;
    let result = match &job.desired {
        Some(desired) => {
            let body = allocation(&job.key, &job.whose, desired, label);
            let params = PatchParams::apply(names::AGENT_MANAGER).force();
            let patch = Patch::Apply(&body);
            let call = api.patch(name, &params, &patch);
            let answer = tokio::time::timeout(PATIENCE, call).await;
            let version = |it: PodAllocation| version_in(it.metadata.resource_version.as_deref());
            answer.map(|done| done.map(version))
        }
        None => {
            let params = DeleteParams::default();
            let call = api.delete(name, &params);
            tokio::time::timeout(PATIENCE, call).await.map(|done| done.map(|_| None))
        }
    };
    match result.unwrap_or_else(|_| Err(too_late())) {
        Ok(version) => {
            debug!("{}/{name}: written", job.key.namespace);
            Outcome::Done(version)
        }
        Err(kube::Error::Api(status)) if status.code == 404 && job.desired.is_none() => {
            Outcome::Done(None)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 400..=428 | 430..=499) => {
            info!("{}/{name}: refused: {}", job.key.namespace, status.message);
            Outcome::Refused(status.message.clone())
        }
        Err(error) => {
            let error = words(&error);
            debug!("{}/{name}: not written: {error}", job.key.namespace);
            Outcome::Away(error)
        }
    }
}

/// The object as it is applied.
fn allocation(key: &Key, whose: &Whose, desired: &Desired, label: &str) -> serde_json::Value {
    let explanation: String = desired.why.chars().take(EXPLANATION_LONGEST).collect();
    let spec = PodAllocationSpec {
        namespace: key.namespace.clone(),
        pod_name: whose.pod.clone(),
        desired_cpu_request: desired.request.to_string(),
        desired_cpu_limit: desired.limit.to_string(),
        shadow_price_cpu: Some(desired.price.to_f64()),
        explanation: Some(explanation).filter(|text| !text.is_empty()),
    };
    json!({
        "apiVersion": "allocation.mbcas.io/v1alpha1",
        "kind": "PodAllocation",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": { names::NODE: label },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": whose.pod, "uid": whose.uid,
            }],
        },
        "spec": spec,
    })
}

/// Versions are numbers that grow; one that is not can be compared with nothing.
fn version_in(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

fn desired_in(spec: &PodAllocationSpec) -> Option<Desired> {
    let cpu = |text: &str| quantity(text.as_bytes()).ok()?.millicores_ceil().ok();
    Some(Desired {
        request: cpu(&spec.desired_cpu_request)?,
        limit: cpu(&spec.desired_cpu_limit).filter(|limit| *limit > Millicores::ZERO)?,
        price: price_in(spec),
        why: String::new(),
    })
}

/// The price to the millionth, which is as fine as it was; what makes no sense counts as none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
fn price_in(spec: &PodAllocationSpec) -> Ratio {
    Ratio::from_millionths((spec.shadow_price_cpu.unwrap_or(0.0) * 1e6).round() as u64)
}

fn too_late() -> kube::Error {
    let error = std::io::Error::new(std::io::ErrorKind::TimedOut, "the API server did not answer");
    kube::Error::Service(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pod that an object of the namespace `shop` is for, and the limit that it says.
    fn check(pod: &str, namespace: &str, owners: &[(&str, &str)]) -> (Whose, Option<u64>) {
        let owner = |(name, uid): &(&str, &str)| {
            let kind = "Pod";
            json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid })
        };
        let object = json!({
            "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
            "metadata": { "name": "shop-web", "namespace": "shop",
                "ownerReferences": owners.iter().map(owner).collect::<Vec<_>>() },
            "spec": { "namespace": namespace, "podName": pod,
                "desiredCPURequest": "150m", "desiredCPULimit": "300m" },
        });
        let (_, found) = there(serde_json::from_value(object).unwrap()).unwrap();
        (found.whose, found.desired.map(|desired| desired.limit.get()))
    }

    #[test]
    fn a_price_is_read_as_it_was_written() {
        let key = Key { namespace: "shop".to_owned(), name: "shop-web".to_owned() };
        let whose = Whose { pod: "web".to_owned(), uid: "u1".to_owned() };
        for millionths in [0, 1, 333_333, 935_000_001] {
            let desired = Desired {
                request: Millicores::new(150),
                limit: Millicores::new(300),
                price: Ratio::from_millionths(millionths),
                why: String::new(),
            };
            let object = allocation(&key, &whose, &desired, "n1");
            let (_, found) = there(serde_json::from_value(object).unwrap()).unwrap();
            assert_eq!(found.desired, Some(desired));
        }
    }

    #[test]
    fn what_is_there_says_for_whom_it_is_and_makes_sense_in_its_own_namespace_only() {
        let whose = |pod: &str, uid: &str| Whose { pod: pod.to_owned(), uid: uid.to_owned() };
        let owners = [("other", "u0"), ("web", "u1")];
        assert_eq!(check("web", "shop", &owners), (whose("web", "u1"), Some(300)));
        assert_eq!(check("db", "shop", &owners), (whose("db", ""), Some(300)));
        assert_eq!(check("web", "bank", &owners), (whose("web", "u1"), None));
    }
}
