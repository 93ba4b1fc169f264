//! The placements of the last hour: what was recommended, and what became of it.
//!
//! Bounded: so many placements, and so many nodes of each. A pod that is scored again, because it
//! did not fit anywhere, is remembered as it was scored last.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use walras_wire::placement::PlacementTold;

/// So many placements are remembered.
const PLACEMENTS_MAX: usize = 2_000;
/// For no longer than this.
const HOUR_MS: u64 = 3_600_000;
/// So many nodes of each placement.
pub(crate) const NODES_MAX: usize = 24;

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Each with its number.
    by_uid: BTreeMap<String, (u64, Remembered)>,
    /// In the order in which they came: a pod stands here as often as it was scored, and counts
    /// where its number is the one above. Two of one pod may have the same time.
    order: VecDeque<Place>,
    /// How many came so far.
    count: u64,
}

/// Where a placement stands among the others.
#[derive(Debug)]
struct Place {
    number: u64,
    at_ms: u64,
    uid: String,
}

/// One placement.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) told: PlacementTold,
    /// How much the model trusts what it says of the best node.
    pub(crate) confidence: f32,
}

impl Memory {
    /// Nodes were scored for a pod.
    pub(crate) fn scored(&self, placement: Remembered) {
        let mut inner = self.lock();
        let (at_ms, uid) = (placement.told.at_ms, placement.told.uid.clone());
        inner.count += 1;
        let number = inner.count;
        inner.order.push_back(Place { number, at_ms, uid: uid.clone() });
        inner.by_uid.insert(uid, (number, placement));
        while inner.order.len() > PLACEMENTS_MAX
            || inner.order.front().is_some_and(|oldest| oldest.at_ms + HOUR_MS < at_ms)
        {
            let Some(oldest) = inner.order.pop_front() else { break };
            if inner.by_uid.get(&oldest.uid).is_some_and(|(number, _)| *number == oldest.number) {
                inner.by_uid.remove(&oldest.uid);
            }
        }
    }

    /// A pod was bound to a node. Tells of its placement, if it is remembered and this is news.
    pub(crate) fn bound(&self, uid: &str, node: &str) -> Option<Remembered> {
        let mut inner = self.lock();
        let (_, found) = inner.by_uid.get_mut(uid)?;
        if found.told.actual.is_some() {
            return None;
        }
        found.told.actual = Some(node.to_owned());
        Some(found.clone())
    }

    /// The placements, the newest first; of one pod, if it is named.
    pub(crate) fn told(&self, pod: Option<(&str, &str)>) -> Vec<PlacementTold> {
        let inner = self.lock();
        let newest = inner.order.iter().rev().filter_map(|place| {
            let (number, it) = inner.by_uid.get(&place.uid)?;
            (*number == place.number).then_some(it)
        });
        let wanted = newest.filter(|it| match pod {
            Some((namespace, name)) => it.told.namespace == namespace && it.told.pod == name,
            None => true,
        });
        wanted.map(|it| it.told.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(uid: &str, at_ms: u64) -> Remembered {
        let told = PlacementTold {
            namespace: "shop".to_owned(),
            pod: format!("pod-{uid}"),
            uid: uid.to_owned(),
            at_ms,
            ..PlacementTold::default()
        };
        Remembered { told, confidence: 0.5 }
    }

    fn uids(memory: &Memory) -> Vec<String> {
        memory.told(None).into_iter().map(|told| told.uid).collect()
    }

    #[test]
    fn the_newest_comes_first_and_a_pod_is_told_once() {
        let memory = Memory::default();
        for (uid, at_ms) in [("a", 1), ("b", 2), ("a", 3), ("a", 3)] {
            memory.scored(placement(uid, at_ms));
        }
        assert_eq!(uids(&memory), ["a", "b"]);
        let one = memory.told(Some(("shop", "pod-b")));
        assert_eq!(one.len(), 1);
        assert_eq!(memory.told(Some(("bank", "pod-b"))), []);
    }

    #[test]
    fn a_pod_is_bound_once() {
        let memory = Memory::default();
        memory.scored(placement("a", 1));
        assert!(memory.bound("a", "n1").is_some());
        assert!(memory.bound("a", "n1").is_none());
        assert!(memory.bound("b", "n1").is_none());
        assert_eq!(memory.told(None)[0].actual.as_deref(), Some("n1"));
    }

    #[test]
    fn what_is_too_much_or_too_old_is_forgotten() {
        let memory = Memory::default();
        for at_ms in 0..3_000 {
            memory.scored(placement(&format!("p{at_ms}"), at_ms));
        }
        assert_eq!(uids(&memory).len(), PLACEMENTS_MAX);
        memory.scored(placement("late", HOUR_MS + 3_001));
        assert_eq!(uids(&memory), ["late"]);
    }
}
