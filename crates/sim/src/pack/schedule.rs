//! Where a pod goes: as kube-scheduler decides, by requests alone.
//!
//! Nodes without room are filtered out; the rest have a score, and of equal ones the first is
//! taken. Replicas of one workload keep apart where they can, which outweighs any score.

use walras_core::units::Millicores;

use super::cluster::{Ask, Cluster, Node};
use super::workload::Town;

/// Which of the nodes with room is the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Score {
    /// The fullest, so that others become empty (`MostAllocated`).
    #[default]
    Most,
    /// The emptiest, so that load is spread (`LeastAllocated`, what Kubernetes does unless told).
    Least,
}

/// The node for a pod of a workload, if one has room. `but` is left out.
#[must_use]
pub fn choose(
    town: &Town,
    cluster: &Cluster,
    workload: usize,
    ask: Ask,
    score: Score,
    but: Option<usize>,
) -> Option<usize> {
    let siblings = &cluster.pods[town.pods_of(workload)];
    let mut best: Option<((bool, u64), usize)> = None;
    for (number, node) in cluster.there() {
        if Some(number) == but || node.is_closed || !node.fits(ask) {
            continue;
        }
        let is_apart = siblings.iter().all(|sibling| sibling.node != Some(number));
        let rank = (is_apart, rank(node, ask.request, score));
        if best.is_none_or(|(least, _)| rank > least) {
            best = Some((rank, number));
        }
    }
    best.map(|(_, number)| number)
}

/// How good a node is, from 0 to a million: by the share of its CPU that would be requested.
fn rank(node: &Node, request: Millicores, score: Score) -> u64 {
    let share = (node.requested + request).ratio_of(node.shape.allocatable()).at_most_one();
    match score {
        Score::Most => share.millionths(),
        Score::Least => share.complement().millionths(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::cluster::NodeShape;
    use crate::pack::workload::{Kind, Spread, Workload};

    fn town(replicas: u32) -> Town {
        let workload = Workload {
            kind: Kind::Service,
            replicas,
            declared: Millicores::new(1000),
            memory_mib: 100,
            threads: 0.0,
            spread: Spread { window: 0.0, block: 0.0, second: 0.0 },
            from: 0,
            until: 1,
            rollout_every: 0,
            rollout_first: 0,
        };
        let others = Workload { replicas: 9, ..workload.clone() };
        let shape = NodeShape {
            cpu: Millicores::new(4500),
            reserved: Millicores::new(300),
            daemons: Millicores::new(200),
            memory_mib: Some(1000),
            pods_max: 3,
        };
        Town::new("small", 1, vec![workload, others], vec![shape], vec![0.0; 2])
    }

    /// Nodes with these requests on them, each by one pod of the second workload.
    fn cluster(town: &Town, requests: &[u64]) -> Cluster {
        let mut cluster = Cluster::new(town.shapes.clone(), town.pods.len());
        for (place, request) in requests.iter().enumerate() {
            let number = cluster.add_node(0);
            let ask = Ask { request: Millicores::new(*request), memory_mib: 100 };
            assert!(cluster.place(town.pods_of(1).start + place, number, ask, 0));
        }
        cluster
    }

    fn ask(request: u64, memory_mib: u64) -> Ask {
        Ask { request: Millicores::new(request), memory_mib }
    }

    #[test]
    fn the_fullest_node_with_room_is_taken_or_the_emptiest() {
        let town = town(2);
        let cluster = cluster(&town, &[1000, 3500, 2000, 2000]);
        let of = |request, score| choose(&town, &cluster, 0, ask(request, 100), score, None);
        // 4 of 4.5 cores can be allocated.
        assert_eq!(of(500, Score::Most), Some(1));
        assert_eq!(of(501, Score::Most), Some(2), "of equal ones the first");
        assert_eq!(of(501, Score::Least), Some(0));
        assert_eq!(of(3000, Score::Most), Some(0));
        assert_eq!(of(3001, Score::Most), None);
        assert_eq!(choose(&town, &cluster, 0, ask(3000, 100), Score::Most, Some(0)), None);
    }

    #[test]
    fn memory_and_the_number_of_pods_are_bounds_too() {
        let town = town(4);
        let mut cluster = cluster(&town, &[100]);
        let of = |cluster: &Cluster, memory| {
            choose(&town, cluster, 0, ask(100, memory), Score::Most, None)
        };
        assert_eq!((of(&cluster, 900), of(&cluster, 901)), (Some(0), None));
        for pod in 0..2 {
            assert!(cluster.place(pod, 0, ask(100, 1), 0));
        }
        assert_eq!(of(&cluster, 1), None, "three pods are the most");
        assert!(!cluster.place(2, 0, ask(100, 1), 0));
        assert!(cluster.is_sound());
    }

    #[test]
    fn replicas_keep_apart_where_they_can() {
        let town = town(3);
        let mut cluster = cluster(&town, &[3000, 100]);
        let place = |cluster: &mut Cluster, pod| {
            let number = choose(&town, cluster, 0, ask(400, 1), Score::Most, None).unwrap();
            assert!(cluster.place(pod, number, ask(400, 1), 0));
            number
        };
        assert_eq!([0, 1, 2].map(|pod| place(&mut cluster, pod)), [0, 1, 0]);
        assert!(!cluster.resize(0, Millicores::new(700)), "3000 and 400 more are there");
        assert!(cluster.resize(0, Millicores::new(600)) && cluster.is_sound());
        cluster.remove(2);
        assert!(cluster.resize(0, Millicores::new(1000)) && cluster.is_sound());
    }
}
