//! Keeps the store up to date: six watches, each of which goes on for as long as the process does.
//!
//! What is read is made small at once and put into the store; what it concerns is put into the
//! queue. A watch that breaks begins again by itself, ever more slowly, and what vanished meanwhile
//! is found by what is not in the new list. A kind that the API server does not know has no
//! objects; it is looked for again, ever more slowly, since it may be installed later.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};

use walras_core::units::Span;

use super::Shared;
use super::facts::{AllocationFacts, Key, PodFacts};
use super::store::Kind;
use crate::autoscaler::{HorizontalPodAutoscaler, Scaler, VerticalPodAutoscaler};
use crate::client::{WATCH_S, watch_words};
use crate::crd::PodAllocation;
use crate::names;
use crate::pause::Rests;
use crate::pod::Pod;

/// Objects of a list that are read at a time: what arrives is much larger than what is kept.
const PAGE: u32 = 500;
/// The same, where a list took so long that its beginning was forgotten before its end.
const PAGE_MOST: u32 = 2_000;
/// A kind that is not known is looked for this often in the end.
const UNKNOWN_LONGEST: Span = Span::from_s(300);

/// What is done with what a watch says.
trait Take<T> {
    /// Everything is about to be listed.
    fn listing(&self) {}
    fn seen(&self, key: &Key, object: T);
    fn gone(&self, key: &Key);
    fn listed(&self, present: &BTreeSet<Key>);
}

/// Watches allocations.
pub(super) async fn allocations(shared: Arc<Shared>, client: Client) {
    let list = |page| watcher::watcher(Api::<PodAllocation>::all(client.clone()), config(page));
    keep_up("PodAllocations", list, &Allocations(shared)).await;
}

/// Watches pods.
pub(super) async fn pods(shared: Arc<Shared>, client: Client) {
    let list = |page| watcher::watcher(Api::<Pod>::all(client.clone()), config(page));
    keep_up("pods", list, &Pods(shared)).await;
}

/// Watches what namespaces say of the mode.
pub(super) async fn namespaces(shared: Arc<Shared>, client: Client) {
    let api = Api::<PartialObjectMeta<Namespace>>::all(client);
    let list = |page| watcher::watcher(api.clone(), config(page));
    keep_up("namespaces", list, &Namespaces(shared)).await;
}

/// Watches the settings.
pub(super) async fn settings(shared: Arc<Shared>, client: Client) {
    let only = format!("metadata.name={}", names::CONFIG);
    let api = Api::<ConfigMap>::namespaced(client, &shared.namespace);
    let list = |page| watcher::watcher(api.clone(), config(page).fields(&only));
    keep_up("the settings", list, &Settings(shared)).await;
}

/// Watches HorizontalPodAutoscalers.
pub(super) async fn horizontal(shared: Arc<Shared>, client: Client) {
    let api = Api::<HorizontalPodAutoscaler>::all(client);
    let list = |page| watcher::watcher(api.clone(), config(page));
    keep_up("HorizontalPodAutoscalers", list, &Autoscalers(shared, Kind::Horizontal)).await;
}

/// Watches VerticalPodAutoscalers, which not every cluster knows.
pub(super) async fn vertical(shared: Arc<Shared>, client: Client) {
    let api = Api::<VerticalPodAutoscaler>::all(client);
    let list = |page| watcher::watcher(api.clone(), config(page));
    keep_up("VerticalPodAutoscalers", list, &Autoscalers(shared, Kind::Vertical)).await;
}

fn config(page: u32) -> watcher::Config {
    watcher::Config::default().timeout(WATCH_S).page_size(page)
}

/// How the following of a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The watch did.
    ByItself,
    /// The API server had compacted the state that a list began with before it was read to its end:
    /// it would be so again.
    TooSlow,
}

/// Follows watches for ever. A list that is in vain is read again in larger pages, so that it does
/// not take longer than its beginning is kept.
async fn keep_up<T, S>(what: &str, list: impl Fn(u32) -> S, take: &impl Take<T>)
where
    T: Resource + Debug,
    S: Stream<Item = watcher::Result<Event<T>>>,
{
    let (mut page, mut rests) = (PAGE, Rests::new());
    while follow(what, list(page), take).await == Ended::TooSlow {
        page = (2 * page).min(PAGE_MOST);
        tracing::warn!(
            "the list of {what} was forgotten by the API server before it was read to its end; it \
             is read again, {page} at a time"
        );
        rests.rest().await;
    }
}

async fn follow<T>(
    what: &str,
    stream: impl Stream<Item = watcher::Result<Event<T>>>,
    take: &impl Take<T>,
) -> Ended
where
    T: Resource + Debug,
{
    pin_mut!(stream);
    let mut present = BTreeSet::new();
    let mut broken = false;
    let mut unknown = false;
    let mut rests = Rests::new();
    while let Some(event) = stream.next().await {
        match event {
            Err(error) if is_unknown_kind(&error) => {
                if !unknown {
                    tracing::info!("this cluster does not know {what}");
                    take.listed(&BTreeSet::new());
                }
                (unknown, broken) = (true, false);
                rests.rest_up_to(UNKNOWN_LONGEST).await;
                continue;
            }
            Err(error) if is_too_slow(&error) => return Ended::TooSlow,
            Ok(Event::Init) => {
                // It is about to be listed, which may fail.
                take.listing();
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
        if broken || unknown {
            tracing::info!("watching {what} again");
        }
        (broken, unknown) = (false, false);
    }
    Ended::ByItself
}

/// Whether a list expired while it was read.
fn is_too_slow(error: &watcher::Error) -> bool {
    let watcher::Error::InitialListFailed(kube::Error::Api(status)) = error else { return false };
    status.code == 410
}

/// Whether the API server has no such kind of objects.
fn is_unknown_kind(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => false,
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
#[derive(Debug)]
struct Autoscalers(Arc<Shared>, Kind);

// === impl Take ===

impl Take<PodAllocation> for Allocations {
    fn listing(&self) {
        self.0.store.listing(Kind::Allocations);
    }

    fn seen(&self, key: &Key, object: PodAllocation) {
        if self.0.store.allocation_seen(key, &AllocationFacts::of(object)) {
            self.0.look_at_family(key.clone());
        }
    }

    fn gone(&self, key: &Key) {
        for sibling in self.0.store.allocation_gone(key) {
            self.0.look_at(sibling);
        }
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
    fn listing(&self) {
        self.0.store.listing(Kind::Pods);
    }

    fn seen(&self, key: &Key, object: Pod) {
        if let Some(collecting) = self.0.collecting() {
            collecting.seen(key, &object, self.0.clock.now());
        }
        if let Some(allocation) = self.0.store.pod_seen(key, PodFacts::of(&object)) {
            self.0.look_at_family(allocation);
        }
    }

    fn gone(&self, key: &Key) {
        if let Some(collecting) = self.0.collecting() {
            collecting.gone(key, self.0.clock.now());
        }
        if let Some(allocation) = self.0.store.pod_gone(key) {
            self.0.look_at_family(allocation);
        }
    }

    fn listed(&self, present: &BTreeSet<Key>) {
        if let Some(collecting) = self.0.collecting() {
            collecting.listed(present, self.0.clock.now());
        }
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

impl Take<HorizontalPodAutoscaler> for Autoscalers {
    fn seen(&self, key: &Key, object: HorizontalPodAutoscaler) {
        self.say(key, object.scaler());
    }

    fn gone(&self, key: &Key) {
        self.forget(key);
    }

    fn listed(&self, present: &BTreeSet<Key>) {
        self.all(present);
    }
}

impl Take<VerticalPodAutoscaler> for Autoscalers {
    fn seen(&self, key: &Key, object: VerticalPodAutoscaler) {
        self.say(key, object.scaler());
    }

    fn gone(&self, key: &Key) {
        self.forget(key);
    }

    fn listed(&self, present: &BTreeSet<Key>) {
        self.all(present);
    }
}

impl Autoscalers {
    fn say(&self, key: &Key, scaler: Option<Scaler>) {
        // Its status changes several times a minute, and says nothing that matters here.
        if self.0.store.autoscaler_seen(self.1, key, scaler) {
            self.0.look_at_all(Some(&key.namespace));
        }
    }

    fn forget(&self, key: &Key) {
        if self.0.store.autoscaler_gone(self.1, key) {
            self.0.look_at_all(Some(&key.namespace));
        }
    }

    fn all(&self, present: &BTreeSet<Key>) {
        for key in self.0.store.listed(self.1, present) {
            self.forget(&key);
        }
        self.0.synced();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[derive(Default)]
    struct Told(RefCell<Vec<String>>);

    impl Take<Pod> for Told {
        fn seen(&self, key: &Key, _: Pod) {
            self.0.borrow_mut().push(format!("seen {}", key.name));
        }

        fn gone(&self, key: &Key) {
            self.0.borrow_mut().push(format!("gone {}", key.name));
        }

        fn listed(&self, present: &BTreeSet<Key>) {
            self.0.borrow_mut().push(format!("{} listed", present.len()));
        }
    }

    fn failed(code: u16) -> watcher::Result<Event<Pod>> {
        let status = format!(r#"{{"message": "no", "code": {code}}}"#);
        let status = serde_json::from_str(&status).unwrap();
        Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
    }

    #[tokio::test]
    async fn a_kind_that_is_not_known_has_no_objects_and_one_that_may_not_be_listed_may_have() {
        for (code, told) in [(404, vec!["0 listed"]), (403, vec![])] {
            let events = [Ok(Event::Init), failed(code)];
            let take = Told::default();
            follow("pods", futures_util::stream::iter(events), &take).await;
            assert_eq!(take.0.into_inner(), told, "{code}");
        }
    }

    #[tokio::test]
    async fn a_list_that_expires_is_read_again_in_larger_pages_until_it_ends() {
        let pages = RefCell::new(Vec::new());
        let take = Told::default();
        let list = |page| {
            pages.borrow_mut().push(page);
            let pod: Pod = serde_json::from_str(r#"{"metadata": {"name": "web"}}"#).unwrap();
            let end = if pages.borrow().len() < 2 { failed(410) } else { Ok(Event::InitDone) };
            futures_util::stream::iter([Ok(Event::Init), Ok(Event::InitApply(pod)), end])
        };
        keep_up("pods", list, &take).await;
        assert_eq!(pages.into_inner(), [500, 1000]);
        let told = take.0.into_inner();
        assert_eq!(told.last().unwrap(), "1 listed");
        assert!(!told.contains(&"0 listed".to_owned()), "nothing is gone for that: {told:?}");
    }

    #[tokio::test]
    async fn a_kind_that_is_installed_later_is_found() {
        let pod: Pod = serde_json::from_str(r#"{"metadata": {"name": "web"}}"#).unwrap();
        let found = [Ok(Event::Init), Ok(Event::InitApply(pod)), Ok(Event::InitDone)];
        let events = [Ok(Event::Init), failed(404)].into_iter().chain(found);
        let take = Told::default();
        follow("pods", futures_util::stream::iter(events), &take).await;
        assert_eq!(take.0.into_inner(), ["0 listed", "seen web", "1 listed"]);
    }
}
