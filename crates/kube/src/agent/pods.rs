//! What the API server says about this node: its pods, their namespaces, itself, and the settings.
//!
//! Watched in the background; the loop takes a copy when something changed and never waits. What
//! was seen last stays true while the API server is away. Nothing counts before everything was seen
//! once: a pod must not be sized before it is known that its namespace wants it left alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use tracing::{debug, info, warn};
use walras_core::units::Millicores;

use super::tenants::{NamespaceSays, Namespaces};
use crate::client::{short_list, watch_words};
use crate::names;
use crate::pause::Rests;
use crate::pod::{Pod, disown, millicores};

/// A watch that had trouble and has had none for so long works again, although nothing changed that
/// it could tell of: whatever is wrong shows again within the time that a connection may take.
const SILENCE: Duration = Duration::from_secs(30);

/// Namespaces of a list that are read at a time.
const PAGE: u32 = 500;

/// The keys of a ConfigMap.
pub type Data = BTreeMap<String, String>;

/// What was seen, shared between the watches and the loop.
#[derive(Debug, Default)]
pub struct World(Mutex<Seen>);

/// What was seen at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Grows with every change.
    pub generation: u64,
    /// The node's pods, by uid.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// What namespaces say, where they do.
    pub namespaces: Arc<Namespaces>,
    /// What the node has for pods.
    pub allocatable: Millicores,
}

#[derive(Debug, Default)]
struct Seen {
    generation: u64,
    pods: Option<BTreeMap<String, Arc<Pod>>>,
    namespaces: Option<Arc<Namespaces>>,
    allocatable: Option<Millicores>,
    node_uid: Option<String>,
    node_labels: BTreeMap<String, String>,
    /// The settings, where they were looked for: nothing if there are none.
    config: Option<Option<Data>>,
    config_generation: u64,
    /// What cannot be watched, and why.
    troubles: BTreeMap<&'static str, String>,
}

/// Which pods, and which settings.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The node.
    pub node: String,
    /// The namespace of the settings.
    pub namespace: String,
    /// Whether the settings are in a ConfigMap.
    pub watch_config: bool,
}

/// Watches everything, for as long as it is polled.
pub async fn watch(client: Client, scope: Scope, world: Arc<World>) {
    let of_node = short_list(&scope.node).fields(&format!("spec.nodeName={}", scope.node));
    let named = |name: &str| short_list(&scope.node).fields(&format!("metadata.name={name}"));
    let all = Api::<Pod>::all(client.clone());
    let pods = follow("pods", all, of_node, &world, disown, |seen, pods| {
        seen.pods = Some(pods);
    });
    let node = Api::<Node>::all(client.clone());
    let node = follow(
        "the node",
        node,
        named(&scope.node),
        &world,
        |_| {},
        |seen, nodes| {
            let node = nodes.values().next();
            seen.node_uid = node.and_then(|node| node.metadata.uid.clone());
            let labels = node.and_then(|node| node.metadata.labels.clone());
            seen.node_labels = labels.unwrap_or_default();
            let status = node.and_then(|node| node.status.as_ref()?.allocatable.as_ref());
            let cpu = status.and_then(|amounts| amounts.get("cpu"));
            match cpu.map(|cpu| millicores(&cpu.0)) {
                Some(Ok(cpu)) => seen.allocatable = Some(cpu),
                Some(Err(error)) => warn!("what the node has cannot be read: {error}"),
                None => {}
            }
        },
    );
    let config = async {
        if scope.watch_config {
            let maps = Api::<ConfigMap>::namespaced(client.clone(), &scope.namespace);
            follow(
                "the ConfigMap",
                maps,
                named(names::CONFIG),
                &world,
                |_| {},
                |seen, maps| {
                    let data = maps.values().next().map(|map| map.data.clone().unwrap_or_default());
                    seen.set_config(data);
                },
            )
            .await;
        }
    };
    tokio::join!(pods, node, config, watch_namespaces(client.clone(), &scope.node, &world));
}

async fn watch_namespaces(client: Client, node: &str, world: &World) {
    // There may be many of them, so they are read in pages.
    let config = short_list(node).page_size(PAGE);
    let stream = watcher(Api::<PartialObjectMeta<Namespace>>::all(client), config);
    gather("namespaces", SILENCE, stream, world, NamespaceSays::read, |seen, namespaces| {
        // Most changes of namespaces say nothing that matters here.
        if seen.namespaces.as_deref() == Some(&namespaces) {
            return;
        }
        seen.namespaces = Some(Arc::new(namespaces));
    })
    .await;
}

/// Watches one kind of object whole, by uid; `check` sees each as the API server has it.
async fn follow<K>(
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
    world: &World,
    check: impl Fn(&mut K),
    take: impl Fn(&mut Seen, BTreeMap<String, Arc<K>>),
) where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let stream = watcher(api, config).modify(|object| {
        check(object);
        object.meta_mut().managed_fields = None;
    });
    let keyed = |object: &K| Some((object.uid()?, Arc::new(object.clone())));
    gather(what, SILENCE, stream, world, keyed, take).await;
}

/// What a watch says next. If that takes longer than `silence` after a trouble, there is none.
async fn heard<S>(
    stream: &mut S,
    what: &'static str,
    silence: Duration,
    world: &World,
) -> Option<S::Item>
where
    S: futures_util::Stream + Unpin,
{
    while world.lock().troubles.contains_key(what) {
        match tokio::time::timeout(silence, stream.next()).await {
            Ok(event) => return event,
            Err(_) => world.lock().untroubled(what),
        }
    }
    stream.next().await
}

/// Keeps a map of what a watch sees, and hands it over after every change.
async fn gather<O, K, V>(
    what: &'static str,
    silence: Duration,
    stream: impl futures_util::Stream<Item = watcher::Result<Event<O>>>,
    world: &World,
    keyed: impl Fn(&O) -> Option<(K, V)>,
    take: impl Fn(&mut Seen, BTreeMap<K, V>),
) where
    O: ResourceExt,
    K: Ord + Clone,
    V: Clone,
{
    let mut stream = std::pin::pin!(stream);
    let mut all: BTreeMap<K, V> = BTreeMap::new();
    // Which entry an object has, so that it can be taken out when the object is gone.
    let mut by_name: BTreeMap<(Option<String>, String), K> = BTreeMap::new();
    let mut complete = false;
    let mut rests = Rests::new();
    while let Some(event) = heard(&mut stream, what, silence, world).await {
        let changed = match event {
            Ok(Event::Init) => {
                all.clear();
                by_name.clear();
                complete = false;
                // It is about to be listed, which may fail.
                continue;
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let name = (object.namespace(), object.name_any());
                if let Some(before) = by_name.remove(&name) {
                    all.remove(&before);
                }
                if let Some((key, value)) = keyed(&object) {
                    by_name.insert(name, key.clone());
                    all.insert(key, value);
                }
                complete
            }
            Ok(Event::Delete(object)) => {
                let name = (object.namespace(), object.name_any());
                if let Some(before) = by_name.remove(&name) {
                    all.remove(&before);
                }
                complete
            }
            Ok(Event::InitDone) => {
                complete = true;
                debug!("{what}: {} seen", all.len());
                true
            }
            Err(error) => {
                world.lock().troubled(what, &error);
                rests.rest().await;
                continue;
            }
        };
        rests.worked();
        let mut seen = world.lock();
        seen.untroubled(what);
        if changed {
            take(&mut seen, all.clone());
            seen.generation += 1;
        }
    }
}

// === impl World ===

impl World {
    /// Everything, if it was all seen and something is newer than `generation`.
    #[must_use]
    pub fn newer_than(&self, generation: u64) -> Option<Snapshot> {
        let seen = self.lock();
        if seen.generation == generation {
            return None;
        }
        // Nothing counts before the settings are known.
        seen.config.as_ref()?;
        Some(Snapshot {
            generation: seen.generation,
            pods: seen.pods.clone()?,
            namespaces: seen.namespaces.clone()?,
            allocatable: seen.allocatable?,
        })
    }

    /// The settings, if they are known and newer than `generation`, with their generation.
    #[must_use]
    pub fn config_newer_than(&self, generation: u64) -> Option<(u64, Option<Data>)> {
        let seen = self.lock();
        let config = seen.config.clone()?;
        (seen.config_generation > generation).then_some((seen.config_generation, config))
    }

    /// The settings come from elsewhere.
    pub fn set_config(&self, data: Data) {
        self.lock().set_config(Some(data));
    }

    /// The uid of the node, if it was seen.
    pub fn node_uid(&self) -> Option<String> {
        self.lock().node_uid.clone()
    }

    /// The labels of the node; none before it was seen.
    #[must_use]
    pub fn node_labels(&self) -> BTreeMap<String, String> {
        self.lock().node_labels.clone()
    }

    /// Whether everything was seen once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let seen = self.lock();
        seen.pods.is_some()
            && seen.namespaces.is_some()
            && seen.allocatable.is_some()
            && seen.config.is_some()
    }

    /// What cannot be watched, in sentences.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let seen = self.lock();
        let each = seen.troubles.iter();
        each.map(|(what, error)| format!("The API server cannot be asked for {what}: {error}."))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl World {
    /// A node of 4 CPUs has these pods, and no namespace says anything.
    pub(super) fn show(&self, pods: Vec<Pod>) {
        let mut seen = self.lock();
        let pods = pods.into_iter().map(|pod| (pod.uid().to_owned(), Arc::new(pod)));
        seen.pods = Some(pods.collect());
        seen.namespaces.get_or_insert_default();
        seen.allocatable = Some(Millicores::new(4000));
        seen.generation += 1;
    }
}

// === impl Seen ===

impl Seen {
    fn set_config(&mut self, data: Option<Data>) {
        if self.config.as_ref() != Some(&data) {
            self.config = Some(data);
            self.config_generation += 1;
            self.generation += 1;
        }
    }

    fn troubled(&mut self, what: &'static str, error: &watcher::Error) {
        let error = watch_words(error);
        let told = self.troubles.insert(what, error.clone());
        if told.is_none() {
            warn!("{what} cannot be watched for now; what was seen last stays: {error}");
        } else {
            debug!("{what} cannot be watched: {error}");
        }
    }

    fn untroubled(&mut self, what: &'static str) {
        if self.troubles.remove(what).is_some() {
            info!("{what} can be watched again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_that_fails_again_and_again_stays_a_problem_until_something_was_seen() {
        let world = World::default();
        let failed = || {
            let status = r#"{"message": "pods is forbidden", "code": 403}"#;
            let status = serde_json::from_str(status).unwrap();
            Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
        };
        let keyed = |pod: &Pod| Some((pod.uid().to_owned(), ()));
        let problems = |events: Vec<watcher::Result<Event<Pod>>>| {
            let world = &world;
            async move {
                gather(
                    "pods",
                    SILENCE,
                    futures_util::stream::iter(events),
                    world,
                    keyed,
                    |_, _| {},
                )
                .await;
                world.problems().len()
            }
        };
        assert_eq!(problems(vec![Ok(Event::Init), failed(), Ok(Event::Init)]).await, 1);
        assert_eq!(problems(vec![Ok(Event::Init), Ok(Event::InitDone)]).await, 0);
    }

    #[tokio::test]
    async fn a_watch_that_is_silent_after_a_trouble_works_again() {
        let world = World::default();
        let status = serde_json::from_str(r#"{"message": "not now", "code": 503}"#).unwrap();
        let failed = watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status)));
        world.lock().troubled("pods", &failed);
        assert_eq!(world.problems().len(), 1);
        let silent = futures_util::stream::pending();
        let keyed = |pod: &Pod| Some((pod.uid().to_owned(), ()));
        let watch = gather("pods", Duration::from_millis(1), silent, &world, keyed, |_, _| {});
        let told = async {
            while !world.problems().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = watch => panic!("it goes on"),
            () = told => {}
        }
    }

    #[test]
    fn what_cannot_be_watched_is_told_in_the_words_of_the_api_server() {
        let world = World::default();
        let status = r#"{"message": "pods is forbidden", "reason": "Forbidden", "code": 403}"#;
        let status = serde_json::from_str(status).unwrap();
        let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
        world.lock().troubled("pods", &error);
        let told = "The API server cannot be asked for pods: pods is forbidden (403).";
        assert_eq!(world.problems(), [told]);
        world.lock().untroubled("pods");
        assert_eq!(world.problems(), Vec::<String>::new());
    }
}
