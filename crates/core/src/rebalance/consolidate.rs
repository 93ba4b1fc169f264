//! Empties nodes that are not needed, one at a time: closed first, then drained pod by pod.
//!
//! What it closed is kept closed as long as nobody waits for a node; when a pod does, everything it
//! closed is opened again, and it rests for a while. A node that turns out not to be emptiable is
//! opened again, too. It never closes the last open node, nor one of the control plane, and opens
//! none that somebody else closed.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::empty::{Emptiable, emptiable, plan};
use super::fit::{Room, Rooms};
use super::stay::Stay;
use crate::units::{Moment, Ratio, Span, WorkloadUid};

/// After nodes had to be opened again, none is closed for so long.
pub const REST: Span = Span::from_s(1800);
/// The labels of nodes that keep the cluster going.
const CONTROL_PLANE: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// What is true of the cluster at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Closed<'a> {
    /// The nodes that were closed by us.
    pub ours: &'a BTreeSet<String>,
    /// Whether pods wait for a node that takes them.
    pub pods_wait: bool,
    /// Whether a node may be closed and drained now.
    pub may_begin: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Close this node: all of its pods would fit elsewhere.
    Close(Emptiable),
    /// Move the pods of this node, which is closed, one at a time.
    Drain(Emptiable),
    /// Open these again.
    Open(Vec<String>, Why),
}

/// Why nodes are opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A pod waits for a node.
    PodsWait,
    /// A pod that is there stays, or fits nowhere else.
    NotEmptiable,
}

/// What is remembered from one look to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consolidator {
    rests_until: Option<Moment>,
}

impl Consolidator {
    /// One look at the cluster.
    pub fn next(
        &mut self,
        rooms: &Rooms,
        fill: Ratio,
        stays: &dyn Fn(&WorkloadUid) -> Option<Stay>,
        closed: Closed<'_>,
        now: Moment,
    ) -> Step {
        let ours: Vec<&str> =
            closed.ours.iter().map(String::as_str).filter(|it| rooms.node(it).is_some()).collect();
        if closed.pods_wait && !ours.is_empty() {
            self.rests_until = Some(now + REST);
            return Step::Open(ours.into_iter().map(String::from).collect(), Why::PodsWait);
        }
        for node in ours {
            match plan(rooms, node, fill, stays) {
                Some(emptied) if emptied.moves.is_empty() => {}
                Some(emptied) if closed.may_begin => return Step::Drain(emptied),
                Some(_) => return Step::Rest,
                None => {
                    self.rests_until = Some(now + REST);
                    return Step::Open([String::from(node)].into(), Why::NotEmptiable);
                }
            }
        }
        let resting = self.rests_until.is_some_and(|until| now < until);
        let open = rooms.nodes().filter(|node| node.open).count();
        if resting || closed.pods_wait || !closed.may_begin || open < 2 {
            return Step::Rest;
        }
        let mut found = emptiable(rooms, fill, stays).into_iter();
        let chosen = found.find(|one| rooms.node(&one.node).is_some_and(may_close));
        chosen.map_or(Step::Rest, Step::Close)
    }
}

fn may_close(node: &Room) -> bool {
    !CONTROL_PLANE.iter().any(|label| node.labels.contains_key(*label))
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    use super::super::fit::{Needs, Resident};
    use super::*;
    use crate::units::{Bytes, Millicores, Resources};

    const FILL: Ratio = Ratio::from_percent(90);

    fn cpu(milli: u64) -> Resources {
        Resources::new(Millicores::new(milli), Bytes::new(milli << 10))
    }

    /// Nodes of four cores, each with pods of so many millicores.
    fn cluster(nodes: &[(&str, &[u64])]) -> Rooms {
        let mut residents = Vec::new();
        let rooms = nodes.iter().map(|(name, pods)| {
            for (place, milli) in pods.iter().enumerate() {
                residents.push(Resident {
                    uid: WorkloadUid::new(&format!("{name}-{place}")),
                    namespace: "shop".to_owned(),
                    labels: Default::default(),
                    node: (*name).to_owned(),
                    needs: Needs { requests: cpu(*milli), ..Needs::default() },
                });
            }
            Room {
                name: (*name).to_owned(),
                allocatable: cpu(4000),
                requested: cpu(pods.iter().sum()),
                places: 50,
                open: true,
                ..Room::default()
            }
        });
        let rooms = rooms.collect();
        Rooms::new(rooms, residents)
    }

    struct Case {
        rooms: Rooms,
        ours: BTreeSet<String>,
        consolidator: Consolidator,
        pods_wait: bool,
        may_begin: bool,
        stays: Option<&'static str>,
    }

    impl Case {
        fn new(nodes: &[(&str, &[u64])]) -> Self {
            Self {
                rooms: cluster(nodes),
                ours: BTreeSet::new(),
                consolidator: Consolidator::default(),
                pods_wait: false,
                may_begin: true,
                stays: None,
            }
        }

        fn closed(mut self, node: &str) -> Self {
            self.rooms.close(node);
            self.ours.insert(node.to_owned());
            self
        }

        fn at(&mut self, s: u64) -> String {
            let stays =
                |uid: &WorkloadUid| (self.stays == Some(uid.as_str())).then_some(Stay::OptedOut);
            let closed =
                Closed { ours: &self.ours, pods_wait: self.pods_wait, may_begin: self.may_begin };
            let now = Moment::from_ms(s * 1000);
            match self.consolidator.next(&self.rooms, FILL, &stays, closed, now) {
                Step::Rest => "rest".to_owned(),
                Step::Close(one) => format!("close {} with {}", one.node, one.moves.len()),
                Step::Drain(one) => format!("drain {} of {}", one.node, one.moves.len()),
                Step::Open(nodes, why) => format!("open {} since {why:?}", nodes.join(",")),
            }
        }
    }

    #[test]
    fn the_emptiest_node_is_closed_then_drained_then_left_closed() {
        let nodes: [(&str, &[u64]); 3] = [("a", &[2000]), ("b", &[500, 500]), ("c", &[1500])];
        assert_eq!(Case::new(&nodes).at(0), "close b with 2");
        assert_eq!(Case::new(&nodes).closed("b").at(0), "drain b of 2");
        // Empty: the next one is looked at, and a and c would fill one node to 87 %.
        let nodes: [(&str, &[u64]); 3] = [("a", &[2000]), ("b", &[]), ("c", &[1500])];
        assert_eq!(Case::new(&nodes).closed("b").at(0), "close c with 1");
    }

    #[test]
    fn nothing_is_closed_that_is_needed() {
        // Together they would be fuller than 90 %.
        assert_eq!(Case::new(&[("a", &[2000]), ("b", &[1700])]).at(0), "rest");
        assert_eq!(Case::new(&[("a", &[])]).at(0), "rest", "the last one");
        assert_eq!(Case::new(&[("a", &[100]), ("b", &[])]).closed("b").at(0), "rest");
        let mut stays = Case::new(&[("a", &[3550]), ("b", &[100])]);
        stays.stays = Some("b-0");
        assert_eq!(stays.at(0), "rest", "b keeps its pod, and that of a would fill it");
        let mut later = Case::new(&[("a", &[100]), ("b", &[200])]);
        later.may_begin = false;
        assert_eq!(later.at(0), "rest");
    }

    #[test]
    fn nodes_are_opened_again_when_pods_wait_and_not_closed_again_at_once() {
        let mut case = Case::new(&[("a", &[500]), ("b", &[]), ("c", &[600])]).closed("b");
        case.pods_wait = true;
        assert_eq!(case.at(0), "open b since PodsWait");
        let mut again = Case::new(&[("a", &[500]), ("b", &[]), ("c", &[600])]);
        again.consolidator = case.consolidator;
        assert_eq!(again.at(1799), "rest");
        assert_eq!(again.at(1800), "close b with 0");
        again.pods_wait = true;
        assert_eq!(again.at(1900), "rest");
    }

    #[test]
    fn a_node_that_cannot_be_emptied_after_all_is_opened_again() {
        let mut case = Case::new(&[("a", &[500]), ("b", &[100]), ("c", &[600])]).closed("b");
        case.stays = Some("b-0");
        assert_eq!(case.at(0), "open b since NotEmptiable");
        assert_eq!(case.closed("c").at(1).as_str(), "open b since NotEmptiable");
    }

    #[test]
    fn the_control_plane_stays_open() {
        let mut all: Vec<Room> = cluster(&[("a", &[500]), ("b", &[])]).nodes().cloned().collect();
        for room in &mut all {
            room.labels.insert(CONTROL_PLANE[0].to_string(), String::new());
        }
        let mut case = Case::new(&[]);
        case.rooms = Rooms::new(all, vec![]);
        assert_eq!(case.at(0), "rest");
    }
}
