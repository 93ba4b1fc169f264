//! Which nodes could be emptied: all of their pods would fit elsewhere, and nothing would be full.
//!
//! The emptiest nodes are tried first. Pods go where most is requested already, so that few nodes
//! fill up and the others can be emptied, too. A node that takes pods in is not emptied in the same
//! plan: nothing would have to move twice.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::fit::Rooms;
use super::stay::Stay;
use crate::units::{Ratio, Resources, WorkloadUid};

/// No more nodes are tried in one plan; a cluster's emptiest nodes are what matters.
const TRIED_MAX: usize = 32;

/// A node that could be emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emptiable {
    /// The node.
    pub node: String,
    /// Which of its pods would go where.
    pub moves: Vec<(WorkloadUid, String)>,
    /// What they request together.
    pub requests: Resources,
}

/// The nodes that could be emptied together, the emptiest first. No node is filled beyond `fill`
/// of what it has; `stays` says who may not go.
#[must_use]
pub fn emptiable(
    rooms: &Rooms,
    fill: Ratio,
    stays: &dyn Fn(&WorkloadUid) -> Option<Stay>,
) -> Vec<Emptiable> {
    let mut rooms = rooms.clone();
    let mut order: Vec<(Ratio, String)> = rooms
        .nodes()
        .filter(|node| node.open)
        .map(|node| (share(node.requested, node.allocatable), node.name.clone()))
        .collect();
    order.sort_unstable();
    let mut receivers: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for (_, node) in order.into_iter().take(TRIED_MAX) {
        if receivers.contains(&node) {
            continue;
        }
        let mut tried = rooms.clone();
        tried.close(&node);
        if let Some(emptied) = empty(&mut tried, &node, fill, stays) {
            receivers.extend(emptied.moves.iter().map(|(_, to)| to.clone()));
            rooms = tried;
            found.push(emptied);
        }
    }
    found
}

/// How one node would be emptied, whether it is open or not; nothing where that cannot be done.
#[must_use]
pub fn plan(
    rooms: &Rooms,
    node: &str,
    fill: Ratio,
    stays: &dyn Fn(&WorkloadUid) -> Option<Stay>,
) -> Option<Emptiable> {
    let mut tried = rooms.clone();
    tried.close(node);
    empty(&mut tried, node, fill, stays)
}

/// Moves all pods of a node elsewhere, if that can be done.
fn empty(
    rooms: &mut Rooms,
    node: &str,
    fill: Ratio,
    stays: &dyn Fn(&WorkloadUid) -> Option<Stay>,
) -> Option<Emptiable> {
    let mut pods: Vec<(Resources, WorkloadUid)> = Vec::new();
    for pod in rooms.residents_of(node) {
        match stays(&pod.uid) {
            Some(why) if why.goes_with_its_node() => {}
            Some(_) => return None,
            None => pods.push((pod.needs.requests, pod.uid.clone())),
        }
    }
    // The largest first, as they are the hardest to fit.
    pods.sort_by(|one, other| {
        (other.0.cpu, other.0.memory, &one.1).cmp(&(one.0.cpu, one.0.memory, &other.1))
    });
    let mut emptied = Emptiable { node: node.into(), moves: Vec::new(), requests: Resources::ZERO };
    for (requests, uid) in pods {
        let to = fullest_that_fits(rooms, &uid, requests, fill)?;
        rooms.moved(&uid, &to);
        emptied.requests = emptied.requests + requests;
        emptied.moves.push((uid, to));
    }
    Some(emptied)
}

fn fullest_that_fits(
    rooms: &Rooms,
    uid: &WorkloadUid,
    requests: Resources,
    fill: Ratio,
) -> Option<String> {
    let mut nodes: Vec<(Ratio, &str)> = rooms
        .nodes()
        .filter(|node| {
            let after = node.requested + requests;
            // A node without any pods is better emptied than filled.
            node.open && after.fits(node.allocatable.scale_floor(fill, fill))
        })
        .map(|node| (share(node.requested, node.allocatable), node.name.as_str()))
        .collect();
    nodes.sort_by(|one, other| (other.0, one.1).cmp(&(one.0, other.1)));
    let mut fitting = nodes.into_iter().filter(|(_, node)| rooms.fits(uid, node).is_ok());
    fitting.next().map(|(_, node)| node.into())
}

/// How full a node is by requests: the fuller of its two resources.
fn share(requested: Resources, allocatable: Resources) -> Ratio {
    let cpu = requested.cpu.ratio_of(allocatable.cpu);
    cpu.max(Ratio::of(requested.memory.get(), allocatable.memory.get()))
}
