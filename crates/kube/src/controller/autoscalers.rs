//! Which autoscalers there are, and which of them concerns a pod.
//!
//! They are found by the name of what they scale, so that a look at one pod does not grow with the
//! number of autoscalers. Of several that concern one pod, one that sets requests goes before one
//! that goes by them, and then the first by name: which one is named does not depend on the order
//! in which they were seen.

use std::collections::BTreeMap;

use walras_core::resize::Autoscaler;

use super::facts::Key;
use crate::autoscaler::{Scaler, Workload};

/// The autoscalers of one kind.
#[derive(Debug, Default)]
pub(crate) struct Autoscalers {
    /// What each of them scales, by its own name.
    scalers: BTreeMap<Key, Scaler>,
    /// Who scales something, by its namespace and name.
    by_target: BTreeMap<Key, Vec<Key>>,
}

// === impl Autoscalers ===

impl Autoscalers {
    /// One was seen, which may be none of our business. Whether anything differs.
    pub(crate) fn seen(&mut self, key: &Key, scaler: Option<Scaler>) -> bool {
        if self.scalers.get(key) == scaler.as_ref() {
            return false;
        }
        self.gone(key);
        if let Some(scaler) = scaler {
            let target = Key::new(&key.namespace, &scaler.target.name);
            let beside = self.by_target.entry(target).or_default();
            beside.push(key.clone());
            beside.sort();
            self.scalers.insert(key.clone(), scaler);
        }
        true
    }

    /// One is gone. Whether it was known.
    pub(crate) fn gone(&mut self, key: &Key) -> bool {
        let Some(scaler) = self.scalers.remove(key) else {
            return false;
        };
        let target = Key::new(&key.namespace, &scaler.target.name);
        if let Some(beside) = self.by_target.get_mut(&target) {
            beside.retain(|one| one != key);
            if beside.is_empty() {
                self.by_target.remove(&target);
            }
        }
        true
    }

    /// Those that are known.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.scalers.keys()
    }

    /// The first that concerns a pod of `workloads` with these containers.
    fn over(&self, namespace: &str, workloads: &[Workload], containers: &[&str]) -> Option<&Key> {
        let candidates = workloads.iter().flat_map(|workload| {
            let target = Key::new(namespace, &workload.name);
            self.by_target.get(&target).into_iter().flatten().map(move |key| (workload, key))
        });
        let concerned = candidates.filter(|(workload, key)| {
            self.scalers.get(*key).is_some_and(|Scaler { target, does }| {
                workload.is(target) && does.concerns(containers.iter().copied())
            })
        });
        concerned.map(|(_, key)| key).min()
    }
}

/// Who else sizes a pod, or goes by its requests.
pub(crate) fn autoscaler_of(
    vertical: &Autoscalers,
    horizontal: &Autoscalers,
    namespace: &str,
    workloads: &[Workload],
    containers: &[&str],
) -> Option<Autoscaler> {
    let name = |key: &Key| key.name.to_string();
    let sets = vertical.over(namespace, workloads, containers);
    let goes_by = || horizontal.over(namespace, workloads, containers);
    sets.map(|key| Autoscaler::Vertical(name(key)))
        .or_else(|| goes_by().map(|key| Autoscaler::Utilization(name(key))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autoscaler::Does;

    fn workload(kind: &str, name: &str) -> Workload {
        let group = Some("apps".to_owned());
        Workload { group, kind: kind.to_owned(), name: name.to_owned() }
    }

    fn by_use(name: &str) -> Option<Scaler> {
        let target = workload("Deployment", name);
        Some(Scaler { target, does: Does::GoesByUtilization })
    }

    fn sets(name: &str, container: &str) -> Option<Scaler> {
        let named = vec![(container.to_owned(), true)];
        let target = workload("Deployment", name);
        Some(Scaler { target, does: Does::SetsRequests { named, others: false } })
    }

    #[test]
    fn a_pod_is_scaled_by_who_names_its_workload_in_its_namespace() {
        let (mut vertical, mut horizontal) = (Autoscalers::default(), Autoscalers::default());
        let over = |vertical: &Autoscalers, horizontal: &Autoscalers, namespace, name: &str| {
            let workloads = [workload("ReplicaSet", "web-5d9c7"), workload("Deployment", name)];
            match autoscaler_of(vertical, horizontal, namespace, &workloads, &["app"]) {
                Some(Autoscaler::Vertical(name)) => format!("vertical {name}"),
                Some(Autoscaler::Utilization(name)) => format!("utilization {name}"),
                None => "nobody".to_owned(),
            }
        };
        let key = |name| Key::new("shop", name);
        assert!(horizontal.seen(&key("b"), by_use("web")));
        assert!(horizontal.seen(&key("a"), by_use("web")));
        assert!(!horizontal.seen(&key("a"), by_use("web")), "its status alone is no news");
        assert_eq!(over(&vertical, &horizontal, "shop", "web"), "utilization a");
        assert_eq!(over(&vertical, &horizontal, "bank", "web"), "nobody");
        assert_eq!(over(&vertical, &horizontal, "shop", "db"), "nobody");
        assert!(vertical.seen(&key("v"), sets("web", "log")));
        assert_eq!(over(&vertical, &horizontal, "shop", "web"), "utilization a", "not of app");
        assert!(vertical.seen(&key("v"), sets("web", "app")));
        assert_eq!(over(&vertical, &horizontal, "shop", "web"), "vertical v");
        assert!(vertical.seen(&key("v"), None), "it was switched off");
        assert!(horizontal.seen(&key("a"), by_use("db")), "it scales something else now");
        assert_eq!(over(&vertical, &horizontal, "shop", "web"), "utilization b");
        assert_eq!(over(&vertical, &horizontal, "shop", "db"), "utilization a");
        assert!(horizontal.gone(&key("b")));
        assert!(!horizontal.gone(&key("b")));
        assert_eq!(over(&vertical, &horizontal, "shop", "web"), "nobody");
        assert_eq!(horizontal.keys().collect::<Vec<_>>(), [&key("a")]);
    }
}
