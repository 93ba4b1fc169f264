//! Packs again: empties nodes whose pods have room elsewhere, as autoscalers of clusters do.
//!
//! Every half hour, the emptiest nodes first, a twentieth of all at most. A node is emptied only if
//! every one of its pods fits elsewhere with the request that it would come with. A disruption
//! budget lets a quarter of a workload's pods go at a time, and a pod takes a minute to be back, so
//! there are five turns to a window.

use super::cluster::{Ask, Cluster, Pod};
use super::rules::Sizer;
use super::schedule::{Score, choose};
use super::workload::{HOUR, Town};

/// How often it is tried.
pub(super) const EVERY: usize = HOUR / 2;
/// A node that came less than this ago is left alone, and an empty one stays for so long.
pub(super) const DELAY: usize = 2;
/// How many times a disruption budget is used in a window.
const TURNS: u32 = 5;
/// So many nodes that could not be emptied end a round.
const FAILURES_MAX: usize = 8;

/// What a round needs to know.
#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    pub(super) town: &'a Town,
    pub(super) sizer: &'a dyn Sizer,
    pub(super) score: Score,
    pub(super) window: usize,
}

/// Empties what can be emptied. Pods that moved are appended to `moved`; `budgets` counts the moves
/// of each workload in this window.
pub(super) fn consolidate(
    round: &Round<'_>,
    cluster: &mut Cluster,
    budgets: &mut [u32],
    moved: &mut Vec<usize>,
) {
    let mut candidates: Vec<(u64, usize)> = cluster
        .there()
        .filter(|(_, node)| {
            !node.is_closed && !node.pods.is_empty() && node.since + DELAY <= round.window
        })
        .map(|(number, node)| {
            (node.requested.ratio_of(node.shape.allocatable()).millionths(), number)
        })
        .collect();
    candidates.sort_unstable();
    let most = cluster.count().div_ceil(20);
    let (mut emptied, mut failures) = (0, 0);
    for (_, number) in candidates {
        if emptied == most || failures == FAILURES_MAX {
            return;
        }
        if empty(round, cluster, budgets, moved, number) {
            emptied += 1;
        } else {
            failures += 1;
        }
    }
}

/// Moves all pods of a node elsewhere, or none. Whether it did.
fn empty(
    round: &Round<'_>,
    cluster: &mut Cluster,
    budgets: &mut [u32],
    moved: &mut Vec<usize>,
    number: usize,
) -> bool {
    let Some(node) = &mut cluster.nodes[number] else { return false };
    node.is_closed = true;
    let mut pods = node.pods.clone();
    // Large ones are the hardest to place.
    pods.sort_by_key(|pod| core::cmp::Reverse(cluster.pods[*pod].request));
    let before = moved.len();
    let mut was: Vec<Pod> = Vec::with_capacity(pods.len());
    for pod in pods {
        let workload = round.town.pods[pod].workload;
        let it = &round.town.workloads[workload];
        let request = round.sizer.at_arrival(round.town, workload);
        let ask = Ask { request, memory_mib: it.memory_mib };
        let is_allowed = budgets[workload] < TURNS * it.replicas.div_ceil(4);
        let to = choose(round.town, cluster, workload, ask, round.score, None);
        let Some(to) = to.filter(|_| is_allowed) else {
            for (pod, was) in moved.drain(before..).zip(was) {
                budgets[round.town.pods[pod].workload] -= 1;
                restore(cluster, pod, was);
            }
            if let Some(node) = &mut cluster.nodes[number] {
                node.is_closed = false;
            }
            return false;
        };
        was.push(cluster.pods[pod]);
        cluster.remove(pod);
        let fitted = cluster.place(pod, to, ask, round.window);
        debug_assert!(fitted, "the scheduler chose a node without room");
        budgets[workload] += 1;
        moved.push(pod);
    }
    true
}

/// Puts a pod back to where it was, as it was.
fn restore(cluster: &mut Cluster, pod: usize, was: Pod) {
    cluster.remove(pod);
    if let Some(number) = was.node {
        let ask = Ask { request: was.request, memory_mib: was.memory_mib };
        let fitted = cluster.place(pod, number, ask, was.since);
        debug_assert!(fitted, "nobody came to a closed node");
    }
}
