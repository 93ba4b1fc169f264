//! What the watches have seen, and what the controller remembers of each allocation.
//!
//! Everything is behind one lock that is held for a lookup and never across a call. Answers
//! to our own writes arrive here before the watch has them, so what the watch says after that is
//! not taken while it is older. What is listed anew always counts: after a cluster was restored
//! from a backup, everything in it is older. Only a watch makes something known, and only a watch
//! ends it. Objects are kept packed: there may be a hundred thousand of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use walras_core::resize::{Autoscaler, Pending};
use walras_core::units::{Millicores, Moment, Span};

use super::autoscalers::{Autoscalers, autoscaler_of};
use super::decide::Memory;
use super::facts::{AllocationFacts, Key, PodFacts};
use super::kept::{Kept, Stands};
use super::packed::Packed;
use super::server;
use super::settings::Settings;
use super::siblings::{Siblings, family};
use crate::autoscaler::Scaler;
use crate::crd::name_of;
use crate::names;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Allocations,
    Pods,
    Namespaces,
    Settings,
    Horizontal,
    Vertical,
}

/// How many kinds that is.
const KINDS: usize = 6;

/// Everything that is known.
#[derive(Debug, Default)]
pub(crate) struct Store {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    pods: BTreeMap<Key, Packed<PodFacts>>,
    allocations: BTreeMap<Key, Kept>,
    /// The names of namespaces, so that each is kept once.
    names: BTreeSet<Arc<str>>,
    namespaces: BTreeMap<Arc<str>, String>,
    settings: Settings,
    /// The uid of the ConfigMap that has them.
    settings_uid: String,
    problems: Vec<String>,
    horizontal: Autoscalers,
    vertical: Autoscalers,
    siblings: Siblings,
    /// Whether the API server can resize pods, once it was asked.
    can_resize: Option<bool>,
    /// What is known from an answer to a write of ours, and was not seen by a watch yet.
    answers: BTreeSet<(Kind, Key)>,
    synced: BTreeSet<Kind>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            pods: BTreeMap::new(),
            allocations: BTreeMap::new(),
            names: BTreeSet::new(),
            namespaces: BTreeMap::new(),
            settings: Settings::unread(),
            settings_uid: String::new(),
            problems: Vec::new(),
            horizontal: Autoscalers::default(),
            vertical: Autoscalers::default(),
            siblings: Siblings::default(),
            can_resize: None,
            answers: BTreeSet::new(),
            synced: BTreeSet::new(),
        }
    }
}

/// What one reconciliation needs to know.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) allocation: Arc<AllocationFacts>,
    pub(crate) pod: Option<Arc<PodFacts>>,
    /// Who else sizes the pod, or goes by its requests.
    pub(crate) autoscaler: Option<Autoscaler>,
    /// The largest request that is suggested for a pod of its workload.
    pub(crate) siblings: Option<Millicores>,
    pub(crate) namespace_mode: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) memory: Memory,
    /// Whether the API server can resize pods at all.
    pub(crate) can_resize: bool,
}

/// Figures about everything that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) allocations: usize,
    pub(crate) pods: usize,
    /// Allocations that the node has refused for good.
    pub(crate) infeasible: usize,
    /// Allocations that the node has no room for now.
    pub(crate) deferred: usize,
    /// For how long the longest of them has waited.
    pub(crate) deferred_age_max: Span,
    pub(crate) problems: usize,
}

impl Store {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // What is inside is whole after every statement.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a pod in. What has to be looked at for it, if anything that matters changed.
    pub(crate) fn pod_seen(&self, key: &Key, pod: PodFacts) -> Option<Key> {
        let mut inner = self.inner();
        if inner.is_outdated(Kind::Pods, key, &pod.version) {
            return None;
        }
        let known = inner.pods.get(key).map(Packed::get);
        let same = known.is_some_and(|known| known.same_but_for_version(&pod));
        let allocation = allocation_of(key, &pod);
        let key = inner.own(key);
        inner.pods.insert(key, Packed::new(&pod));
        (!same && inner.allocations.contains_key(&allocation)).then_some(allocation)
    }

    /// Takes in what a write of ours made of a pod, unless a watch has seen its end.
    pub(crate) fn pod_written(&self, key: &Key, pod: &PodFacts) {
        let mut inner = self.inner();
        if let Some(kept) = inner.pods.get_mut(key)
            && let known = kept.get()
            && known.uid == pod.uid
            && !is_older(&pod.version, &known.version)
        {
            *kept = Packed::new(pod);
            inner.answers.insert((Kind::Pods, key.clone()));
        }
    }

    /// A pod is gone. What has to be looked at for it.
    pub(crate) fn pod_gone(&self, key: &Key) -> Option<Key> {
        let mut inner = self.inner();
        inner.answers.remove(&(Kind::Pods, key.clone()));
        let pod = inner.pods.remove(key)?;
        let allocation = allocation_of(key, &pod.get());
        inner.allocations.contains_key(&allocation).then_some(allocation)
    }

    /// Takes an allocation in, and says whether anything differs from what is known.
    pub(crate) fn allocation_seen(&self, key: &Key, allocation: &AllocationFacts) -> bool {
        let mut inner = self.inner();
        if inner.is_outdated(Kind::Allocations, key, &allocation.version) {
            return false;
        }
        if let Some(kept) = inner.allocations.get_mut(key) {
            let same = kept.facts.get().version == allocation.version;
            kept.has(allocation);
            return !same;
        }
        let key = inner.own(key);
        inner.allocations.insert(key, Kept::new(allocation));
        true
    }

    /// Takes in what a write of ours made of an allocation, unless a watch has seen its end.
    pub(crate) fn allocation_written(&self, key: &Key, allocation: &AllocationFacts) {
        let mut inner = self.inner();
        if let Some(kept) = inner.allocations.get_mut(key)
            && let known = kept.facts.get()
            && known.uid == allocation.uid
            && !is_older(&allocation.version, &known.version)
        {
            kept.has(allocation);
            inner.answers.insert((Kind::Allocations, key.clone()));
        }
    }

    /// An allocation is gone, and with it everything that is remembered of it. Whom that concerns.
    pub(crate) fn allocation_gone(&self, key: &Key) -> Vec<Key> {
        let mut inner = self.inner();
        inner.allocations.remove(key);
        inner.answers.remove(&(Kind::Allocations, key.clone()));
        inner.siblings.suggested(key, None)
    }

    /// Takes in what an allocation suggests for the siblings of its pod. Whom that concerns.
    pub(crate) fn suggested(&self, key: &Key) -> Vec<Key> {
        let mut inner = self.inner();
        let suggestion = inner.allocations.get(key).and_then(|kept| {
            let allocation = kept.facts.get();
            let pod = inner.pod_of(key, &allocation)?;
            let request = allocation.desired.as_ref().ok()?.request;
            Some((family(&key.namespace, &pod)?, request))
        });
        inner.siblings.suggested(key, suggestion)
    }

    /// What a namespace says of the mode, and whether that is new.
    pub(crate) fn namespace_seen(&self, name: &str, mode: Option<String>) -> bool {
        let mut inner = self.inner();
        let old = match mode.clone() {
            Some(mode) => inner.namespaces.insert(Arc::from(name), mode),
            None => inner.namespaces.remove(name),
        };
        old != mode
    }

    /// An autoscaler was seen, which may be none of our business. Whether anything differs.
    pub(crate) fn autoscaler_seen(&self, kind: Kind, key: &Key, scaler: Option<Scaler>) -> bool {
        self.inner().autoscalers(kind).is_some_and(|all| all.seen(key, scaler))
    }

    /// An autoscaler is gone. Whether it mattered.
    pub(crate) fn autoscaler_gone(&self, kind: Kind, key: &Key) -> bool {
        self.inner().autoscalers(kind).is_some_and(|all| all.gone(key))
    }

    /// What the settings say, in the ConfigMap with this uid. What was refused, if that is news;
    /// and whether something changed.
    pub(crate) fn settings_seen(
        &self,
        data: &BTreeMap<String, String>,
        uid: &str,
    ) -> (Vec<String>, bool) {
        let mut inner = self.inner();
        uid.clone_into(&mut inner.settings_uid);
        let (settings, problems) = Settings::read(data, &inner.settings);
        let changed = settings != inner.settings;
        let news = if problems == inner.problems { Vec::new() } else { problems.clone() };
        (inner.settings, inner.problems) = (settings, problems);
        (news, changed)
    }

    /// There are no settings any more, or never were: what held before goes on. Whether that is
    /// news.
    pub(crate) fn settings_gone(&self) -> Option<String> {
        let mut inner = self.inner();
        let mode = inner.settings.mode();
        let problem = format!(
            "there is no ConfigMap {}; what held before goes on, with the mode {mode}",
            names::CONFIG
        );
        let is_news = inner.problems != [problem.clone()];
        inner.problems = vec![problem.clone()];
        is_news.then_some(problem)
    }

    /// What `of` makes of each allocation and its pod, in the order of their names; of no more than
    /// `most`, those first whose pods do not have what they ask for. How many are left out.
    pub(crate) fn told<T>(
        &self,
        most: usize,
        of: impl Fn(&Key, &AllocationFacts, Option<&PodFacts>) -> T,
    ) -> (Vec<T>, usize) {
        let inner = self.inner();
        let (settled, others): (Vec<_>, Vec<_>) =
            inner.allocations.iter().partition(|(_, kept)| kept.stands == Stands::Settled);
        let mut chosen: Vec<(&Key, &Kept)> = others.into_iter().chain(settled).take(most).collect();
        chosen.sort_unstable_by_key(|(key, _)| *key);
        let left_out = inner.allocations.len() - chosen.len();
        let each = chosen.into_iter().map(|(key, kept)| {
            let allocation = kept.facts.get();
            of(key, &allocation, inner.pod_of(key, &allocation).as_ref())
        });
        (each.collect(), left_out)
    }

    /// What a person should know.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.inner().problems()
    }

    /// Whether the API server can resize pods. Whether that is news.
    pub(crate) fn server_asked(&self, can_resize: bool) -> bool {
        self.inner().can_resize.replace(can_resize) != Some(can_resize)
    }

    /// What the settings say without effect, and the uid of the ConfigMap that says it.
    pub(crate) fn in_vain(&self) -> (Vec<String>, String) {
        let inner = self.inner();
        (inner.settings.held.agent.notes.clone(), inner.settings_uid.clone())
    }

    pub(crate) fn settings(&self) -> Settings {
        self.inner().settings.clone()
    }

    /// Everything of `kind` is about to be listed, which has every write that was answered before.
    pub(crate) fn listing(&self, kind: Kind) {
        self.inner().answers.retain(|(answered, _)| *answered != kind);
    }

    /// Everything of `kind` is known now; what is not in `present` is gone. What that was.
    pub(crate) fn listed(&self, kind: Kind, present: &BTreeSet<Key>) -> Vec<Key> {
        let mut inner = self.inner();
        inner.synced.insert(kind);
        let absent = |keys: Vec<&Key>| -> Vec<Key> {
            keys.into_iter().filter(|key| !present.contains(key)).cloned().collect()
        };
        match kind {
            Kind::Allocations => absent(inner.allocations.keys().collect()),
            Kind::Pods => absent(inner.pods.keys().collect()),
            Kind::Namespaces => {
                inner.namespaces.retain(|name, _| present.contains(&Key::new("", name)));
                inner.names.retain(|name| present.contains(&Key::new("", name)));
                Vec::new()
            }
            Kind::Settings => Vec::new(),
            Kind::Horizontal => absent(inner.horizontal.keys().collect()),
            Kind::Vertical => absent(inner.vertical.keys().collect()),
        }
    }

    /// Whether everything has been listed once, and the API server was asked what it can do.
    pub(crate) fn is_synced(&self) -> bool {
        let inner = self.inner();
        inner.synced.len() == KINDS && inner.can_resize.is_some()
    }

    /// Every allocation, or those of one namespace.
    pub(crate) fn allocations(&self, namespace: Option<&str>) -> Vec<Key> {
        let inner = self.inner();
        let keys = inner.allocations.keys();
        keys.filter(|key| namespace.is_none_or(|name| *key.namespace == *name)).cloned().collect()
    }

    /// What is known of an allocation, if it is there.
    pub(crate) fn gather(&self, key: &Key) -> Option<Gathered> {
        let inner = self.inner();
        let kept = inner.allocations.get(key)?;
        let allocation = Arc::new(kept.facts.get());
        let pod = inner.pod_of(key, &allocation).map(Arc::new);
        let mut memory = kept.memory.as_deref().cloned().unwrap_or_default();
        if let Some(pod) = &pod
            && memory.pod_uid != pod.uid
        {
            memory = Memory { pod_uid: pod.uid.clone(), ..Memory::default() };
        }
        let autoscaler = pod.as_deref().and_then(|pod| inner.autoscaler(&key.namespace, pod));
        Some(Gathered {
            autoscaler,
            siblings: inner.siblings.largest(key),
            namespace_mode: inner.namespaces.get(&key.namespace).cloned(),
            settings: inner.settings.clone(),
            can_resize: inner.can_resize == Some(true),
            allocation,
            pod,
            memory,
        })
    }

    /// Remembers something of an allocation, unless it is gone.
    pub(crate) fn remember(&self, key: &Key, memory: Memory) {
        let mut inner = self.inner();
        if let Some(kept) = inner.allocations.get_mut(key).filter(|_| memory != Memory::default()) {
            kept.memory = Some(Box::new(memory));
        }
    }

    /// Another controller may have acted for a while: what was asked for and what went wrong is
    /// forgotten, since it may have been asked for otherwise. What a node can never do stays true.
    pub(crate) fn others_acted(&self) {
        for memory in self.inner().allocations.values_mut().filter_map(|it| it.memory.as_mut()) {
            (memory.asked, memory.failures, memory.not_before) = (None, 0, None);
        }
    }

    /// What `/metrics` says of it at `now`. How single allocations stand is what their status says:
    /// what was remembered on the way there may be true no more.
    pub(crate) fn figures(&self, now: Moment) -> Figures {
        let inner = self.inner();
        let mut figures = Figures {
            allocations: inner.allocations.len(),
            pods: inner.pods.len(),
            problems: inner.problems().len(),
            ..Figures::default()
        };
        for (key, kept) in &inner.allocations {
            match kept.stands {
                Stands::Infeasible => figures.infeasible += 1,
                Stands::Deferred => {
                    figures.deferred += 1;
                    let pod = inner.pod_of(key, &kept.facts.get());
                    let pending = pod.and_then(|pod| pod.seen.pending);
                    if let Some(Pending::Deferred { since, .. }) = pending {
                        let age = now.since(since);
                        figures.deferred_age_max = figures.deferred_age_max.max(age);
                    }
                }
                Stands::Settled | Stands::Otherwise => {}
            }
        }
        figures
    }
}

// === impl Inner ===

impl Inner {
    /// Whether a watch says something that was true before a write of ours. What it says otherwise
    /// is waited for no longer.
    fn is_outdated(&mut self, kind: Kind, key: &Key, version: &str) -> bool {
        let answer = (kind, key.clone());
        if !self.answers.contains(&answer) {
            return false;
        }
        let known = match kind {
            Kind::Pods => self.pods.get(key).map(|pod| pod.get().version),
            Kind::Allocations => self.allocations.get(key).map(|kept| kept.facts.get().version),
            Kind::Namespaces | Kind::Settings | Kind::Horizontal | Kind::Vertical => None,
        };
        if known.is_some_and(|known| is_older(version, &known)) {
            return true;
        }
        self.answers.remove(&answer);
        false
    }

    /// `key` with a namespace that is kept once for all that are in it.
    fn own(&mut self, key: &Key) -> Key {
        let namespace = self.names.get(&key.namespace).cloned().unwrap_or_else(|| {
            self.names.insert(Arc::clone(&key.namespace));
            Arc::clone(&key.namespace)
        });
        Key { namespace, name: Arc::clone(&key.name) }
    }

    /// The pod of an allocation, if it is there.
    fn pod_of(&self, key: &Key, allocation: &AllocationFacts) -> Option<PodFacts> {
        self.pods.get(&Key::new(&key.namespace, &allocation.pod)).map(Packed::get)
    }

    fn problems(&self) -> Vec<String> {
        let too_old = (self.can_resize == Some(false)).then(|| server::TOO_OLD.to_owned());
        self.problems.iter().cloned().chain(too_old).collect()
    }

    const fn autoscalers(&mut self, kind: Kind) -> Option<&mut Autoscalers> {
        match kind {
            Kind::Horizontal => Some(&mut self.horizontal),
            Kind::Vertical => Some(&mut self.vertical),
            Kind::Allocations | Kind::Pods | Kind::Namespaces | Kind::Settings => None,
        }
    }

    fn autoscaler(&self, namespace: &str, pod: &PodFacts) -> Option<Autoscaler> {
        let containers = pod.view.as_ref().map(|view| &*view.containers).unwrap_or_default();
        let names: Vec<&str> = containers.iter().map(|container| &*container.name).collect();
        autoscaler_of(&self.vertical, &self.horizontal, namespace, &pod.workloads, &names)
    }
}

fn allocation_of(pod: &Key, facts: &PodFacts) -> Key {
    Key::new(&pod.namespace, &name_of(&pod.namespace, &pod.name, &facts.uid))
}

/// Whether `version` is older than `than`: versions are numbers that grow.
fn is_older(version: &str, than: &str) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    number(version).is_some_and(|version| number(than).is_some_and(|than| version < than))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::decide::AskedFor;
    use crate::crd::PodAllocation;
    use crate::pod::Pod;
    use serde_json::{Value, json};

    fn see_allocation(store: &Store, name: &str, version: u64, reason: &str) {
        let object: PodAllocation = serde_json::from_value(json!({
            "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
            "metadata": { "name": format!("shop-{name}"), "namespace": "shop", "uid": "a1",
                "resourceVersion": version.to_string(), "generation": 1 },
            "spec": { "namespace": "shop", "podName": name,
                "desiredCPURequest": "150m", "desiredCPULimit": "300m" },
            "status": { "reason": reason, "observedGeneration": 1,
                "phase": if reason == "Applied" { "Applied" } else { "Pending" } },
        }))
        .unwrap();
        store.allocation_seen(&Key::of(&object.metadata), &AllocationFacts::of(object));
    }

    fn see_pod(store: &Store, name: &str, conditions: &Value) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "shop", "uid": "u1", "resourceVersion": "1" },
            "spec": { "containers": [] },
            "status": { "conditions": conditions },
        }))
        .unwrap();
        store.pod_seen(&Key::new("shop", name), PodFacts::of(&pod));
    }

    #[test]
    fn what_is_listed_anew_counts_even_if_it_is_older() {
        let store = Store::default();
        let key = Key::new("shop", "shop-web");
        let version = || store.gather(&key).unwrap().allocation.version.clone();
        see_allocation(&store, "web", 900, "");
        let mut answer = store.gather(&key).unwrap().allocation.as_ref().clone();
        answer.version = "950".to_owned();
        store.allocation_written(&key, &answer);
        see_allocation(&store, "web", 940, "");
        assert_eq!(version(), "950", "the watch is behind our own write");
        // The cluster was restored from a backup, and its versions count from there.
        store.listing(Kind::Pods);
        see_allocation(&store, "web", 5, "");
        assert_eq!(version(), "950");
        store.listing(Kind::Allocations);
        see_allocation(&store, "web", 5, "");
        assert_eq!(version(), "5");
        see_allocation(&store, "web", 6, "");
        assert_eq!(version(), "6");
    }

    #[test]
    fn an_answer_does_not_bring_back_what_is_gone() {
        let store = Store::default();
        let (pod_key, key) = (Key::new("shop", "web"), Key::new("shop", "shop-web"));
        see_pod(&store, "web", &json!([]));
        see_allocation(&store, "web", 5, "Applying");
        let known = || (store.figures(Moment::ORIGIN).pods, store.gather(&key));
        let gathered = known().1.unwrap();
        let (pod, written) = (gathered.pod.unwrap(), gathered.allocation);
        let newer = AllocationFacts { version: "6".to_owned(), ..written.as_ref().clone() };
        store.allocation_written(&key, &newer);
        store.allocation_written(&key, &written);
        assert_eq!(*known().1.unwrap().allocation, newer, "the older answer is not taken");
        store.pod_gone(&pod_key);
        store.allocation_gone(&key);
        store.pod_written(&pod_key, &pod);
        store.allocation_written(&key, &newer);
        assert!(matches!(known(), (0, None)));
    }

    #[test]
    fn after_others_acted_nothing_is_waited_for_that_was_asked_before() {
        let store = Store::default();
        let key = Key::new("shop", "shop-web");
        see_pod(&store, "web", &json!([]));
        see_allocation(&store, "web", 1, "Applying");
        let mut memory = store.gather(&key).unwrap().memory;
        memory.history.resize_applied(false, Moment::ORIGIN);
        memory.asked = Some(AskedFor { at: Moment::ORIGIN, generation: 2, restarts: vec![0] });
        memory.not_before = Some((None, Moment::from_ms(60_000)));
        memory.failures = 3;
        store.remember(&key, memory.clone());
        assert_eq!(store.gather(&key).unwrap().memory, memory);
        store.others_acted();
        let expected = Memory { asked: None, not_before: None, failures: 0, ..memory };
        assert_eq!(store.gather(&key).unwrap().memory, expected);
    }

    #[test]
    fn pods_of_one_workload_know_the_largest_request_that_is_suggested_for_any() {
        let store = Store::default();
        let see = |name: &str, uid: &str, version: u64, request: &str| {
            let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9c7",
                "uid": "r1", "controller": true });
            let pod: Pod = serde_json::from_value(json!({
                "metadata": { "name": name, "namespace": "shop", "uid": uid,
                    "resourceVersion": "1", "labels": { "pod-template-hash": "5d9c7" },
                    "ownerReferences": [owner] },
                "spec": { "containers": [{ "name": "app" }] },
            }))
            .unwrap();
            store.pod_seen(&Key::new("shop", name), PodFacts::of(&pod));
            let object: PodAllocation = serde_json::from_value(json!({
                "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
                "metadata": { "name": format!("shop-{name}"), "namespace": "shop",
                    "resourceVersion": version.to_string() },
                "spec": { "namespace": "shop", "podName": name,
                    "desiredCPURequest": request, "desiredCPULimit": "300m" },
            }))
            .unwrap();
            let key = Key::of(&object.metadata);
            store.allocation_seen(&key, &AllocationFacts::of(object));
            let concerned = store.suggested(&key);
            let largest = store.gather(&key).unwrap().siblings.unwrap().get();
            (concerned.len(), largest)
        };
        assert_eq!(see("web-1", "u1", 1, "150m"), (0, 150));
        assert_eq!(see("web-2", "u2", 1, "100m"), (0, 150));
        assert_eq!(see("web-2", "u2", 2, "200m"), (1, 200), "the other is looked at again");
        let gone = store.allocation_gone(&Key::new("shop", "shop-web-2"));
        assert_eq!(gone, [Key::new("shop", "shop-web-1")]);
    }

    #[test]
    fn of_many_allocations_those_are_told_whose_pods_do_not_have_what_they_ask_for() {
        let store = Store::default();
        for (name, reason) in [("a", "Applied"), ("b", "Deferred"), ("c", "Applied"), ("d", "")] {
            see_allocation(&store, name, 1, reason);
        }
        let told = |most: usize| {
            let (told, left_out) = store.told(most, |_, one, _| one.pod.clone());
            (told.join(" "), left_out)
        };
        assert_eq!(told(9), ("a b c d".to_owned(), 0));
        assert_eq!(told(3), ("a b d".to_owned(), 1));
        assert_eq!(told(1), ("b".to_owned(), 3));
    }

    #[test]
    fn where_pods_cannot_be_resized_everybody_is_told_and_nothing_begins_before_that_is_known() {
        let store = Store::default();
        for kind in [Kind::Allocations, Kind::Pods, Kind::Namespaces] {
            store.listed(kind, &BTreeSet::new());
        }
        for kind in [Kind::Settings, Kind::Horizontal, Kind::Vertical] {
            store.listed(kind, &BTreeSet::new());
        }
        assert!(!store.is_synced(), "the server was not asked yet");
        assert!(store.server_asked(false) && store.is_synced());
        assert!(!store.server_asked(false), "no news");
        assert_eq!(store.problems().len(), 1);
        assert!(store.server_asked(true), "it was upgraded");
        assert_eq!(store.problems(), [""; 0]);
    }

    /// How many are infeasible and how many deferred, and for how long.
    fn figures(store: &Store) -> (usize, usize, Span) {
        let figures = store.figures(Moment::from_ms(1_800_000_000_000));
        (figures.infeasible, figures.deferred, figures.deferred_age_max)
    }

    #[test]
    fn figures_count_how_allocations_stand_and_not_how_they_once_stood() {
        let store = Store::default();
        let waits = json!([{"type": "PodResizePending", "status": "True", "reason": "Deferred",
            "lastTransitionTime": "2027-01-15T07:53:20Z"}]);
        see_pod(&store, "waits", &waits);
        see_allocation(&store, "waits", 1, "Deferred");
        for name in ["fixed", "gone"] {
            see_pod(&store, name, &json!([]));
            see_allocation(&store, name, 1, "Infeasible");
            let key = Key::new("shop", &format!("shop-{name}"));
            let mut memory = store.gather(&key).unwrap().memory;
            let asked = store.gather(&key).unwrap().allocation.desired.clone().unwrap();
            memory.history.resize_refused_as_infeasible(&asked, Moment::ORIGIN);
            store.remember(&key, memory);
        }
        assert_eq!(figures(&store), (2, 1, Span::from_s(400)));
        see_allocation(&store, "fixed", 2, "Applied");
        store.allocation_gone(&Key::new("shop", "shop-gone"));
        assert_eq!(figures(&store), (0, 1, Span::from_s(400)));
        see_allocation(&store, "waits", 2, "Applied");
        assert_eq!(figures(&store), (0, 0, Span::ZERO));
    }
}
