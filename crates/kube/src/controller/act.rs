//! The calls that the controller makes about an allocation and its pod, each with an end.
//!
//! Every write names the uid of the object it is meant for, which the API server compares: another
//! object of the same name is never touched. What the server answers is put into the store at once.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::time;
use walras_core::resize::{ContainerPatch, ContainerView};

use super::Shared;
use super::facts::{AllocationFacts, Key, PodFacts};
use super::status;
use super::trouble::Trouble;
use crate::crd::{PodAllocation, PodAllocationStatus};
use crate::names;
use crate::pod::{ContainerResources, Originals, Pod};

/// A call that takes longer has failed, whatever becomes of it.
pub(super) const WITHIN: Duration = Duration::from_secs(10);
/// The longest note that an event may have.
const NOTE_MAX: usize = 1000;

/// An event of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) is_warning: bool,
    pub(super) reason: String,
    pub(super) note: String,
}

/// Removes an annotation that another client wrote in our name, so that what is written next is
/// ours: the API server records no writer for a value that was there already.
async fn remove_forged(
    shared: &Shared,
    client: &Client,
    key: &Key,
    pod: &PodFacts,
) -> Result<PodFacts, Trouble> {
    let patch = json!({ "metadata": {
        "uid": pod.uid,
        "resourceVersion": pod.version,
        "annotations": { names::ORIGINAL_RESOURCES: null },
    } });
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let (parameters, patch) = (parameters(), Patch::Merge(patch));
    let answer = within(WITHIN, api.patch(&key.name, &parameters, &patch)).await?;
    Ok(kept(shared, key, &answer))
}

/// Writes down what the pod came with, which is what it has now.
pub(super) async fn write_originals(
    shared: &Shared,
    client: &Client,
    key: &Key,
    pod: &PodFacts,
    views: &[ContainerView],
) -> Result<PodFacts, Trouble> {
    let bare = match pod.forged {
        true => Some(remove_forged(shared, client, key, pod).await?),
        false => None,
    };
    let pod = bare.as_ref().unwrap_or(pod);
    let came_with = |view: &ContainerView| ContainerResources {
        request: view.request.map(|cpu| cpu.get()),
        limit: view.limit.map(|cpu| cpu.get()),
    };
    let each = views.iter().map(|view| (view.name.clone(), came_with(view)));
    let originals = Originals(each.collect());
    let patch = json!({ "metadata": {
        "uid": pod.uid,
        "resourceVersion": pod.version,
        "annotations": { names::ORIGINAL_RESOURCES: originals.to_text() },
    } });
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let (parameters, patch) = (parameters(), Patch::Merge(patch));
    let answer = within(WITHIN, api.patch(&key.name, &parameters, &patch)).await?;
    Ok(kept(shared, key, &answer))
}

/// Writes down who else sizes the pod, or that nothing else does any more.
pub(super) async fn write_mark(
    shared: &Shared,
    client: &Client,
    key: &Key,
    pod: &PodFacts,
    mark: Option<&str>,
) -> Result<PodFacts, Trouble> {
    let patch = json!({ "metadata": {
        "uid": pod.uid,
        "annotations": { names::AUTOSCALER: mark },
    } });
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let (parameters, patch) = (parameters(), Patch::Merge(patch));
    let answer = within(WITHIN, api.patch(&key.name, &parameters, &patch)).await?;
    Ok(kept(shared, key, &answer))
}

/// Asks for a resize. What the pod is then.
pub(super) async fn resize(
    shared: &Shared,
    client: &Client,
    key: &Key,
    pod: &PodFacts,
    containers: &[ContainerPatch],
    limit: Duration,
) -> Result<PodFacts, Trouble> {
    let part = |container: &ContainerPatch| {
        json!({ "name": container.name, "resources": {
            "requests": { "cpu": container.request.to_string() },
            "limits": { "cpu": container.limit.to_string() },
        } })
    };
    // The order is that of the pod: containers, then sidecars.
    let (own, sidecars) = containers.split_at(containers.len().saturating_sub(pod.sidecars));
    let mut spec = json!({ "containers": own.iter().map(part).collect::<Vec<Value>>() });
    if !sidecars.is_empty() {
        spec["initContainers"] = sidecars.iter().map(part).collect();
    }
    let patch = Patch::Strategic(json!({ "metadata": { "uid": pod.uid }, "spec": spec }));
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let parameters = parameters();
    let call = api.patch_subresource("resize", &key.name, &parameters, &patch);
    let answer = within(limit.min(WITHIN), call).await?;
    Ok(kept(shared, key, &answer))
}

/// Writes a status. With a version, only if the object is still that one.
pub(super) async fn write_status(
    shared: &Shared,
    client: &Client,
    key: &Key,
    allocation: &AllocationFacts,
    status: &PodAllocationStatus,
    version: Option<&str>,
) -> Result<AllocationFacts, Trouble> {
    let patch = Patch::Merge(status::patch(status, &allocation.uid, version));
    let api: Api<PodAllocation> = Api::namespaced(client.clone(), &key.namespace);
    let parameters = parameters();
    let call = api.patch_status(&key.name, &parameters, &patch);
    let answer = AllocationFacts::of(within(WITHIN, call).await?);
    shared.store.allocation_written(key, &answer);
    if !answer.same_but_for_status(allocation) {
        // The answer is the first to show the new wish; the watch will show nothing that differs.
        shared.look_at_family(key.clone());
    }
    Ok(answer)
}

/// Tells something of an allocation.
pub(super) async fn tell(
    shared: &Shared,
    client: &Client,
    key: &Key,
    allocation: &AllocationFacts,
    word: Word,
) {
    let (api_version, kind) = (PodAllocation::api_version(&()), PodAllocation::kind(&()));
    let about = about(&api_version, &kind, key, &allocation.uid);
    send(shared, client, about, "Resize", word).await;
}

/// Tells something of the settings, in the ConfigMap with this uid.
pub(super) async fn tell_settings(shared: &Shared, client: &Client, uid: &str, word: Word) {
    let key = Key::new(&shared.namespace, names::CONFIG);
    let about = about("v1", "ConfigMap", &key, uid);
    send(shared, client, about, "Configure", word).await;
}

fn about(api_version: &str, kind: &str, key: &Key, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(key.name.to_string()),
        namespace: Some(key.namespace.to_string()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// Makes an event, if there were not too many. One that is lost is not worth a second try.
async fn send(shared: &Shared, client: &Client, about: ObjectReference, action: &str, word: Word) {
    if !shared.events().take(word.is_warning, shared.clock.now()) {
        shared.metrics.events_left_out.inc();
        return;
    }
    let namespace = about.namespace.clone().unwrap_or_default();
    let name = about.name.clone().unwrap_or_default();
    let now = jiff::Timestamp::now();
    let event = Event {
        metadata: ObjectMeta {
            name: Some(event_name(&name, now.as_nanosecond())),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        action: Some(action.to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(word.note.chars().take(NOTE_MAX).collect()),
        reason: Some(word.reason),
        regarding: Some(about),
        reporting_controller: Some(names::CONTROLLER_MANAGER.to_owned()),
        reporting_instance: Some(shared.me.clone()),
        type_: Some(if word.is_warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    if let Err(trouble) = within(WITHIN, api.create(&PostParams::default(), &event)).await {
        tracing::debug!("an event is lost: {}", trouble.sentence());
    }
}

/// Names of objects have at most 253 characters.
fn event_name(of: &str, nanosecond: i128) -> String {
    let end = format!(".{nanosecond:x}");
    let kept: String = of.chars().take(253 - end.len()).collect();
    format!("{kept}{end}")
}

fn kept(shared: &Shared, key: &Key, pod: &Pod) -> PodFacts {
    let facts = PodFacts::of(pod);
    shared.store.pod_written(key, &facts);
    facts
}

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(names::CONTROLLER_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Trouble> {
    match time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(|error| Trouble::of(&error)),
        Err(_) => Err(Trouble::timed_out(limit)),
    }
}
