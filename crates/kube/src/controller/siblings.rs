//! Pods of one family on several nodes: the largest request that any of their agents suggests
//! counts for all.
//!
//! An agent knows what the family used on its own node, and the next pod may be put on any. Pods
//! are siblings if they have the same owner, or the same behind that, and the same containers, in
//! one namespace. Nothing is read or written here.

use std::collections::BTreeMap;
use std::sync::Arc;

use walras_core::resize::Allocation;
use walras_core::units::Millicores;

use super::facts::{Key, PodFacts};
use crate::names::fnv;

/// What siblings have in common: their namespace, and a sum of their workload and containers. Who
/// finds two with the same sum has found them in a namespace of their own.
type Family = (Arc<str>, u64);

/// What is suggested for the pods of each family.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// The requests that are suggested, by the names of the allocations.
    families: BTreeMap<Family, Vec<(Key, Millicores)>>,
    family_of: BTreeMap<Key, Family>,
}

// === impl Siblings ===

impl Siblings {
    /// The allocation `key` suggests this for a pod of this family, or nothing any more. Whom that
    /// concerns beside it.
    pub(crate) fn suggested(
        &mut self,
        key: &Key,
        suggestion: Option<(Family, Millicores)>,
    ) -> Vec<Key> {
        let mut concerned = Vec::new();
        let stays = suggestion.as_ref().map(|(family, _)| family);
        if let Some(before) = self.family_of.get(key).filter(|before| Some(*before) != stays) {
            let before = before.clone();
            concerned.extend(self.change(&before, key, None));
            self.family_of.remove(key);
        }
        if let Some((family, request)) = suggestion {
            concerned.extend(self.change(&family, key, Some(request)));
            self.family_of.insert(key.clone(), family);
        }
        concerned
    }

    /// The largest request that is suggested for the family of `key`.
    pub(crate) fn largest(&self, key: &Key) -> Option<Millicores> {
        let family = self.families.get(self.family_of.get(key)?)?;
        largest(family)
    }

    /// Changes what is suggested within a family, and says who else is concerned: all, where the
    /// largest is another now, and none else.
    fn change(&mut self, family: &Family, key: &Key, request: Option<Millicores>) -> Vec<Key> {
        let members = self.families.entry(family.clone()).or_default();
        let before = largest(members);
        match (members.binary_search_by(|(member, _)| member.cmp(key)), request) {
            (Ok(place), Some(request)) => members[place].1 = request,
            (Err(place), Some(request)) => members.insert(place, (key.clone(), request)),
            (Ok(place), None) => drop(members.remove(place)),
            (Err(_), None) => {}
        }
        let changed = largest(members) != before;
        let others = members.iter().map(|(member, _)| member).filter(|other| *other != key);
        let others = if changed { others.cloned().collect() } else { Vec::new() };
        if members.is_empty() {
            self.families.remove(family);
        }
        others
    }
}

fn largest(members: &[(Key, Millicores)]) -> Option<Millicores> {
    members.iter().map(|(_, request)| *request).max()
}

/// The family of a pod; nothing for one without an owner, which has no siblings.
pub(crate) fn family(namespace: &Arc<str>, pod: &PodFacts) -> Option<Family> {
    let workload = pod.workloads.last()?;
    let view = pod.view.as_ref().ok()?;
    let group = workload.group.as_deref().unwrap_or_default();
    let mut family = format!("{group}/{}/{}", workload.kind, workload.name);
    for container in &view.containers {
        family.push('/');
        family += &container.name;
    }
    Some((Arc::clone(namespace), fnv(family.as_bytes())))
}

/// What is asked for a pod that came with a request of `original`: what its own agent wants, and at
/// least what is suggested for its siblings, as far as that is not more than it came with. Whether
/// there is room for more only its own agent knows.
pub(crate) fn with_siblings(
    own: Allocation,
    original: Millicores,
    largest: Option<Millicores>,
) -> Allocation {
    let at_least = largest.unwrap_or_default().min(original).min(own.limit);
    Allocation { request: own.request.max(at_least), ..own }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milli(value: u64) -> Millicores {
        Millicores::new(value)
    }

    #[test]
    fn the_largest_suggestion_of_a_family_counts_up_to_what_a_pod_came_with() {
        let own = Allocation { request: milli(100), limit: milli(300) };
        let check = |original, largest: Option<u64>| {
            with_siblings(own, milli(original), largest.map(milli)).request.get()
        };
        assert_eq!(check(400, Some(100)), 100, "its own is the largest");
        assert_eq!(check(400, Some(250)), 250);
        assert_eq!(check(200, Some(250)), 200, "no more than it came with");
        assert_eq!(check(400, Some(350)), 300, "nor than its limit");
        assert_eq!(check(50, Some(250)), 100, "what its own agent wants is not taken back");
        assert_eq!(check(400, None), 100);
    }

    #[test]
    fn others_are_looked_at_only_where_the_largest_is_another() {
        let mut siblings = Siblings::default();
        let key = |name: &str| Key::new("shop", name);
        let mut says = |name: &str, suggestion: Option<(&str, u64)>| {
            let family = |name: &str| (Arc::from("shop"), fnv(name.as_bytes()));
            let suggestion = suggestion.map(|(name, cpu)| (family(name), milli(cpu)));
            let concerned = siblings.suggested(&key(name), suggestion);
            let names: Vec<String> = concerned.iter().map(|key| key.name.to_string()).collect();
            let largest = siblings.largest(&key(name)).map(Millicores::get);
            (names.join(" "), largest)
        };
        assert_eq!(says("a", Some(("web", 100))), (String::new(), Some(100)));
        assert_eq!(says("b", Some(("web", 80))), (String::new(), Some(100)));
        assert_eq!(says("b", Some(("web", 90))), (String::new(), Some(100)), "not the largest");
        assert_eq!(says("c", Some(("db", 900))), (String::new(), Some(900)), "another workload");
        assert_eq!(says("b", Some(("web", 120))), ("a".to_owned(), Some(120)));
        assert_eq!(says("b", None), ("a".to_owned(), None), "it is gone");
        assert_eq!(says("a", Some(("db", 100))), (String::new(), Some(900)), "it changed sides");
        assert_eq!(says("c", None), ("a".to_owned(), None));
        assert_eq!(says("a", None), (String::new(), None));
        assert!(siblings.families.is_empty() && siblings.family_of.is_empty());
    }
}
