//! Keeps the store up to date: four watches, each of which goes on for as long as the process does.
//!
//! What is read is made small at once and put into the store; what it concerns is put into the
//! queue. A watch that breaks begins again by itself, ever more slowly, and what vanished meanwhile
//! is found by what is not in the new list.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};

use super::Shared;
use super::facts::{AllocationFacts, Key, PodFacts};
use super::store::Kind;
use crate::client::{WATCH_S, watch_words};
use crate::crd::PodAllocation;
use crate::names;
use crate::pause::Rests;
use crate::pod::Pod;

/// Objects of a list that are read at a time: what arrives is much larger than what is kept.
const PAGE: u32 = 100;

/// What is done with what a watch says.
trait Take<T> {
    fn seen(&self, key: &Key, object: T);
    fn gone(&self, key: &Key);
    fn listed(&self, present: &BTreeSet<Key>);
}

/// Watches allocations.
pub(super) async fn allocations(shared: Arc<Shared>, client: Client) {
    let stream = watcher::watcher(Api::<PodAllocation>::all(client), config());
    follow("PodAllocations", stream, &Allocations(shared)).await;
}

/// Watches pods.
pub(super) async fn pods(shared: Arc<Shared>, client: Client) {
    let stream = watcher::watcher(Api::<Pod>::all(client), config());
    follow("pods", stream, &Pods(shared)).await;
}

/// Watches what namespaces say of the mode.
pub(super) async fn namespaces(shared: Arc<Shared>, client: Client) {
    let stream = watcher::watcher(Api::<PartialObjectMeta<Namespace>>::all(client), config());
    follow("namespaces", stream, &Namespaces(shared)).await;
}

/// Watches the settings.
pub(super) async fn settings(shared: Arc<Shared>, client: Client) {
    let only = format!("metadata.name={}", names::CONFIG);
    let api = Api::<ConfigMap>::namespaced(client, &shared.namespace);
    let stream = watcher::watcher(api, config().fields(&only));
    follow("the settings", stream, &Settings(shared)).await;
}

fn config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_S).page_size(PAGE)
}

async fn follow<T>(
    what: &str,
    stream: impl Stream<Item = watcher::Result<Event<T>>>,
    take: &impl Take<T>,
) where
    T: Resource + Debug,
{
    pin_mut!(stream);
    let mut present = BTreeSet::new();
    let mut broken = false;
    let mut rests = Rests::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => {
                // It is about to be listed, which may fail.
                present.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                let key = Key::of(object.meta());
                present.insert(key.clone());
                take.seen(&key, object);
            }
            Ok(Event::InitDone) => {
                take.listed(&present);
                present = BTreeSet::new();
            }
            Ok(Event::Apply(object)) => take.seen(&Key::of(object.meta()), object),
            Ok(Event::Delete(object)) => take.gone(&Key::of(object.meta())),
            Err(error) => {
                // Once is enough: the same trouble comes back many times.
                if !broken {
                    tracing::warn!("cannot watch {what}; trying again: {}", watch_words(&error));
                }
                broken = true;
                rests.rest().await;
                continue;
            }
        }
        rests.worked();
        if broken {
            tracing::info!("watching {what} again");
        }
        broken = false;
    }
}

#[derive(Debug)]
struct Allocations(Arc<Shared>);
#[derive(Debug)]
struct Pods(Arc<Shared>);
#[derive(Debug)]
struct Namespaces(Arc<Shared>);
#[derive(Debug)]
struct Settings(Arc<Shared>);

// === impl Take ===

impl Take<PodAllocation> for Allocations {
    fn seen(&self, key: &Key, object: PodAllocation) {
        if self.0.store.allocation_seen(key, AllocationFacts::of(object)) {
            self.0.look_at(key.clone());
        }
    }

    fn gone(&self, key: &Key) {
        self.0.store.allocation_gone(key);
        self.0.queue.forget(key);
    }

    fn listed(&self, present: &BTreeSet<Key>) {
        for key in self.0.store.listed(Kind::Allocations, present) {
            self.gone(&key);
        }
        self.0.synced();
    }
}

impl Take<Pod> for Pods {
    fn seen(&self, key: &Key, object: Pod) {
        if let Some(allocation) = self.0.store.pod_seen(key, PodFacts::of(&object)) {
            self.0.look_at(allocation);
        }
    }

    fn gone(&self, key: &Key) {
        if let Some(allocation) = self.0.store.pod_gone(key) {
            self.0.look_at(allocation);
        }
    }

    fn listed(&self, present: &BTreeSet<Key>) {
        for key in self.0.store.listed(Kind::Pods, present) {
            self.gone(&key);
        }
        self.0.synced();
    }
}

impl<T: Resource> Take<T> for Namespaces {
    fn seen(&self, key: &Key, object: T) {
        let annotations = object.meta().annotations.as_ref();
        let mode = annotations.and_then(|all| all.get(names::MODE)).cloned();
        if self.0.store.namespace_seen(&key.name, mode) {
            self.0.look_at_all(Some(&key.name));
        }
    }

    fn gone(&self, key: &Key) {
        self.0.store.namespace_seen(&key.name, None);
    }

    fn listed(&self, present: &BTreeSet<Key>) {
        self.0.store.listed(Kind::Namespaces, present);
        self.0.synced();
    }
}

impl Take<ConfigMap> for Settings {
    fn seen(&self, _: &Key, object: ConfigMap) {
        let uid = object.metadata.uid.unwrap_or_default();
        let data = object.data.unwrap_or_default();
        let (problems, changed) = self.0.store.settings_seen(&data, &uid);
        for problem in problems {
            tracing::warn!("a setting in {} is refused: {problem}", names::CONFIG);
        }
        if changed {
            tracing::info!(settings = ?self.0.store.settings(), "the settings changed");
            self.0.settings_changed();
        }
    }

    fn gone(&self, _: &Key) {
        if let Some(problem) = self.0.store.settings_gone() {
            tracing::warn!("{problem}");
        }
    }

    fn listed(&self, present: &BTreeSet<Key>) {
        self.0.store.listed(Kind::Settings, present);
        if present.is_empty() {
            self.gone(&Key::new("", ""));
        }
        self.0.synced();
    }
}
