//! Pods that were bound a moment ago, counted by what they request until telemetry can show them.
//!
//! A snapshot of a node shows a pod once it was taken some seconds after the pod was bound: its
//! containers have to start, and a rate is over two looks. Until then, and at most for a minute, a
//! pod counts by its requests, and one without requests by what kube-scheduler assumes of it.
//! Counting a pod twice for some seconds is the lesser fault: a node seems fuller than it is.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::units::{Bytes, Millicores, Moment, Resources, Span, WorkloadUid};

/// A snapshot shows the pods that were bound so long before it was taken.
pub const SHOWS_AFTER: Span = Span::from_s(10);
/// No pod counts for longer, whatever becomes of telemetry.
pub const COUNTS_FOR: Span = Span::from_s(60);
/// What a pod without requests counts as.
pub const UNSAID: Resources = Resources::new(Millicores::new(100), Bytes::new(200 << 20));

/// Pods that telemetry may not show yet.
#[derive(Clone, Debug, Default)]
pub struct Estimates {
    by_node: BTreeMap<Arc<str>, Vec<Bound>>,
}

#[derive(Clone, Debug)]
struct Bound {
    uid: WorkloadUid,
    counts: Resources,
    at: Moment,
}

impl Estimates {
    /// A pod was bound to a node. The same pod once more changes nothing.
    pub fn bound(&mut self, node: &Arc<str>, uid: WorkloadUid, requests: Resources, at: Moment) {
        let pods = self.by_node.entry(Arc::clone(node)).or_default();
        if pods.iter().all(|pod| pod.uid != uid) {
            pods.push(Bound { uid, counts: counts_as(requests), at });
        }
    }

    /// A pod is gone from a node.
    pub fn gone(&mut self, node: &str, uid: &WorkloadUid) {
        if let Some(pods) = self.by_node.get_mut(node) {
            pods.retain(|pod| pod.uid != *uid);
            if pods.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    /// Forgets what counts no longer.
    pub fn time_passed(&mut self, now: Moment) {
        self.by_node.retain(|_, pods| {
            pods.retain(|pod| now.since(pod.at) <= COUNTS_FOR);
            !pods.is_empty()
        });
    }

    /// What telemetry of a node that was taken at `taken` does not show yet, at `now`.
    #[must_use]
    pub fn unseen(&self, node: &str, taken: Moment, now: Moment) -> Resources {
        let pods = self.by_node.get(node).map(Vec::as_slice).unwrap_or_default();
        let unseen = pods
            .iter()
            .filter(|pod| taken < pod.at + SHOWS_AFTER && now.since(pod.at) <= COUNTS_FOR);
        unseen.fold(Resources::default(), |sum, pod| sum + pod.counts)
    }

    /// The nodes that have any.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_node.keys()
    }

    /// How many pods there are.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.by_node.values().map(Vec::len).sum()
    }
}

fn counts_as(requests: Resources) -> Resources {
    let or = |said: u64, unsaid: u64| if said == 0 { unsaid } else { said };
    Resources::of(|resource| or(requests.get(resource), UNSAID.get(resource)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Arc<str> {
        Arc::from("a")
    }

    fn asks(cpu: u64) -> Resources {
        Resources::new(Millicores::new(cpu), Bytes::new(1 << 20))
    }

    #[test]
    fn a_pod_counts_until_telemetry_was_taken_late_enough_to_show_it() {
        let mut estimates = Estimates::default();
        let at = Moment::from_ms(100_000);
        estimates.bound(&node(), WorkloadUid::new("p"), asks(500), at);
        estimates.bound(&node(), WorkloadUid::new("p"), asks(500), at);
        let cpu = |taken, now| {
            let unseen = estimates.unseen("a", Moment::from_ms(taken), Moment::from_ms(now));
            unseen.cpu.get()
        };
        assert_eq!(cpu(99_000, 100_001), 500);
        assert_eq!(cpu(109_999, 110_500), 500);
        assert_eq!(cpu(110_000, 110_500), 0);
        assert_eq!(cpu(99_000, 160_001), 0, "telemetry that stands still does not keep it");
        assert_eq!(estimates.unseen("b", at, at), Resources::default());
    }

    #[test]
    fn what_is_gone_or_old_is_forgotten() {
        let mut estimates = Estimates::default();
        let at = Moment::from_ms(1000);
        estimates.bound(&node(), WorkloadUid::new("p"), asks(500), at);
        estimates.bound(&node(), WorkloadUid::new("q"), asks(0), at);
        assert_eq!(estimates.unseen("a", at, at).cpu.get(), 600, "q counts as 100m");
        estimates.gone("a", &WorkloadUid::new("p"));
        assert_eq!(estimates.pods(), 1);
        estimates.time_passed(Moment::from_ms(62_000));
        assert_eq!((estimates.pods(), estimates.nodes().count()), (0, 0));
    }
}
