//! Whether a pod fits a node: room, taints, affinity, spread, ports and volumes.
//!
//! The rules are kube-scheduler's, for what a pod *requires*; what it merely prefers is the
//! scheduler's business. Where something is not known for sure, the pod does not fit: a move that
//! is not made costs little, and a pod that finds no node after its eviction costs a lot.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::units::{Resources, WorkloadUid};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// A node that a pod might go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Its name.
    pub name: String,
    /// What it has for pods.
    pub allocatable: Resources,
    /// What the pods that are there request.
    pub requested: Resources,
    /// How many more pods it may have.
    pub places: u32,
    /// Whether it takes pods at all: it is ready, and nobody has cordoned it.
    pub open: bool,
    /// Its labels.
    pub labels: Labels,
    /// Its taints that keep pods away.
    pub taints: Vec<Taint>,
}

/// What keeps pods away from a node. Taints that only ask for it are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// `NoSchedule` or `NoExecute`.
    pub effect: String,
}

/// What lets a pod go to a node with a taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// The key; nothing means every key.
    pub key: Option<String>,
    /// The value that a taint has to have; nothing means any.
    pub value: Option<String>,
    /// The effect; nothing means every effect.
    pub effect: Option<String>,
}

/// One requirement of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Which label.
    pub key: String,
    /// What of it.
    pub what: Operator,
}

/// What a requirement says of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// It is there and has one of these values.
    In(BTreeSet<String>),
    /// It has none of these values, or is not there.
    NotIn(BTreeSet<String>),
    /// It is there.
    Exists,
    /// It is not there.
    Absent,
    /// It is a number above this.
    Above(i64),
    /// It is a number below this.
    Below(i64),
}

/// Requirements that have to hold together.
pub type All = Vec<Requirement>;

/// Pods that a pod wants to be near to, or far from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// The namespaces of those pods.
    pub namespaces: BTreeSet<String>,
    /// Their labels.
    pub labels: All,
    /// The label of nodes that says what is near.
    pub topology: String,
}

/// How evenly pods have to be spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The label of nodes by which they are spread.
    pub topology: String,
    /// How many more one part may have than the emptiest.
    pub skew: u32,
    /// Which pods of the same namespace count.
    pub labels: All,
}

/// What a pod requires of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// What it requests.
    pub requests: Resources,
    /// Which taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Lists of which each has to have one that holds: node selector, node affinity, volumes.
    pub nodes: Vec<Vec<All>>,
    /// Ports of the node that it takes.
    pub ports: BTreeSet<u16>,
    /// Pods that have to be near.
    pub near: Vec<Near>,
    /// Pods that must not be.
    pub apart: Vec<Near>,
    /// How it has to be spread.
    pub spread: Vec<Spread>,
    /// What it requires and is not understood here, such as a device.
    pub unknown: Option<&'static str>,
}

/// A pod that is somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Who.
    pub uid: WorkloadUid,
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: Labels,
    /// The name of its node.
    pub node: String,
    /// What it requires.
    pub needs: Needs,
}

/// Why a pod does not fit a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// The node takes no pods, or is not known.
    Closed,
    /// There is no room for its requests.
    NoRoom,
    /// The node has as many pods as it may have.
    NoPlace,
    /// A taint keeps it away.
    Taint,
    /// Its selector, its affinity or its volumes want another node.
    Affinity,
    /// It must not be with pods that are there, or they not with it, or has to be with others.
    Neighbours,
    /// It would be spread too unevenly.
    Spread,
    /// A port of the node is taken.
    Port,
    /// It needs something that is not understood here.
    Unknown,
}

/// All nodes and who is there.
#[derive(Clone, Debug, Default)]
pub struct Rooms {
    nodes: BTreeMap<String, Room>,
    residents: BTreeMap<WorkloadUid, Resident>,
}

// === impl Rooms ===

impl Rooms {
    /// These nodes with these pods; requests of the pods are in the nodes already.
    #[must_use]
    pub fn new(nodes: Vec<Room>, residents: Vec<Resident>) -> Self {
        Self {
            nodes: nodes.into_iter().map(|node| (node.name.clone(), node)).collect(),
            residents: residents.into_iter().map(|one| (one.uid.clone(), one)).collect(),
        }
    }

    /// The nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Room> {
        self.nodes.values()
    }

    /// A node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Room> {
        self.nodes.get(name)
    }

    /// A pod.
    #[must_use]
    pub fn resident(&self, uid: &WorkloadUid) -> Option<&Resident> {
        self.residents.get(uid)
    }

    /// The pods of a node.
    pub fn residents_of(&self, node: &str) -> impl Iterator<Item = &Resident> {
        self.residents.values().filter(move |one| one.node == node)
    }

    /// Nobody goes to this node any more.
    pub fn close(&mut self, node: &str) {
        if let Some(room) = self.nodes.get_mut(node) {
            room.open = false;
        }
    }

    /// A pod is on another node now.
    pub fn moved(&mut self, uid: &WorkloadUid, to: &str) {
        let Some(pod) = self.residents.get_mut(uid) else { return };
        let requests = pod.needs.requests;
        if let Some(from) = self.nodes.get_mut(&pod.node) {
            from.requested = from.requested.saturating_sub(requests);
            from.places += 1;
        }
        pod.node = to.into();
        if let Some(to) = self.nodes.get_mut(to) {
            to.requested = to.requested + requests;
            to.places = to.places.saturating_sub(1);
        }
    }

    /// Whether a pod that is elsewhere fits this node.
    ///
    /// # Errors
    /// It does not, for this reason.
    pub fn fits(&self, uid: &WorkloadUid, node: &str) -> Result<(), Unfit> {
        let pod = self.residents.get(uid).ok_or(Unfit::Unknown)?;
        let room = self.nodes.get(node).filter(|room| room.open).ok_or(Unfit::Closed)?;
        let needs = &pod.needs;
        let after = room.requested + needs.requests;
        let holds = |one_of: &Vec<All>| one_of.iter().any(|all| meets(&room.labels, all));
        let taken = |port: &u16| self.residents_of(node).any(|one| one.needs.ports.contains(port));
        if needs.unknown.is_some() {
            Err(Unfit::Unknown)
        } else if !after.fits(room.allocatable) {
            Err(Unfit::NoRoom)
        } else if room.places == 0 {
            Err(Unfit::NoPlace)
        } else if !room.taints.iter().all(|taint| tolerated(taint, &needs.tolerations)) {
            Err(Unfit::Taint)
        } else if !needs.nodes.iter().all(holds) {
            Err(Unfit::Affinity)
        } else if needs.ports.iter().any(taken) {
            Err(Unfit::Port)
        } else if !self.neighbours_agree(pod, room) {
            Err(Unfit::Neighbours)
        } else if !needs.spread.iter().all(|spread| self.even(pod, spread, room)) {
            Err(Unfit::Spread)
        } else {
            Ok(())
        }
    }

    fn neighbours_agree(&self, pod: &Resident, room: &Room) -> bool {
        let others = || self.residents.values().filter(|other| other.uid != pod.uid);
        let is_near = |other: &Resident, topology: &str| {
            let (there, here) = (self.nodes.get(&other.node), room.labels.get(topology));
            here.is_some() && there.and_then(|node| node.labels.get(topology)) == here
        };
        let found =
            |near: &Near| others().any(|other| near.means(other) && is_near(other, &near.topology));
        // A group that wants to be together has to begin somewhere, but a pod that moves has left
        // the others behind: then it stays with them.
        let together = pod.needs.near.iter().all(found);
        let apart = !pod.needs.apart.iter().any(found);
        let wanted = others().all(|other| {
            let minds = |near: &Near| near.means(pod) && is_near(other, &near.topology);
            !other.needs.apart.iter().any(minds)
        });
        together && apart && wanted
    }

    /// Whether the parts of the cluster stay even enough if `pod` goes to `room`.
    fn even(&self, pod: &Resident, spread: &Spread, room: &Room) -> bool {
        let Some(here) = room.labels.get(&spread.topology) else { return false };
        let mut counts: BTreeMap<&String, u32> = BTreeMap::new();
        for node in self.nodes.values().filter(|node| node.open) {
            if let Some(part) = node.labels.get(&spread.topology) {
                counts.entry(part).or_default();
            }
        }
        for other in self.residents.values().filter(|other| {
            other.uid != pod.uid
                && other.namespace == pod.namespace
                && meets(&other.labels, &spread.labels)
        }) {
            let node = self.nodes.get(&other.node);
            if let Some(part) = node.and_then(|node| node.labels.get(&spread.topology)) {
                *counts.entry(part).or_default() += 1;
            }
        }
        let least = counts.values().min().copied().unwrap_or_default();
        let after = counts.get(here).copied().unwrap_or_default() + 1;
        after.saturating_sub(least) <= spread.skew
    }
}

// === impl Near ===

impl Near {
    fn means(&self, pod: &Resident) -> bool {
        self.namespaces.contains(&pod.namespace) && meets(&pod.labels, &self.labels)
    }
}

// === impl Unfit ===

impl Unfit {
    /// Why, in a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Closed => "it takes no pods",
            Self::NoRoom => "it has no room for the pod's requests",
            Self::NoPlace => "it has as many pods as it may have",
            Self::Taint => "the pod does not tolerate its taints",
            Self::Affinity => "the pod's selector, affinity or volumes want another node",
            Self::Neighbours => "the pod and those that are there do not go together",
            Self::Spread => "pods would be spread too unevenly",
            Self::Port => "a port of the node is taken",
            Self::Unknown => "the pod needs something that is not understood",
        }
    }
}

/// Whether labels meet all requirements. No requirement at all is met by nobody, as in Kubernetes.
fn meets(labels: &Labels, all: &All) -> bool {
    !all.is_empty() && all.iter().all(|one| one.holds(labels))
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.what {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Above(than) => number().is_some_and(|number| number > *than),
            Operator::Below(than) => number().is_some_and(|number| number < *than),
        }
    }
}

fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    let says = |said: &Option<String>, is: &String| said.as_ref().is_none_or(|said| said == is);
    tolerations.iter().any(|one| {
        says(&one.key, &taint.key)
            && says(&one.value, &taint.value)
            && says(&one.effect, &taint.effect)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, Millicores};
    use alloc::borrow::ToOwned;
    use alloc::vec;

    fn labels(of: &[(&str, &str)]) -> Labels {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn cpu(milli: u64) -> Resources {
        Resources::new(Millicores::new(milli), Bytes::new(1 << 20))
    }

    fn room(name: &str, zone: &str) -> Room {
        Room {
            name: name.to_owned(),
            allocatable: Resources::new(Millicores::new(1000), Bytes::new(1 << 30)),
            places: 5,
            open: true,
            labels: labels(&[("zone", zone), ("size", "8")]),
            ..Room::default()
        }
    }

    fn pod(uid: &str, node: &str, needs: Needs) -> Resident {
        Resident {
            uid: WorkloadUid::new(uid),
            namespace: "shop".to_owned(),
            labels: labels(&[("app", "web")]),
            node: node.to_owned(),
            needs,
        }
    }

    fn is(key: &str, value: &str) -> Requirement {
        Requirement { key: key.to_owned(), what: Operator::In(BTreeSet::from([value.to_owned()])) }
    }

    fn web() -> Near {
        Near {
            namespaces: BTreeSet::from(["shop".to_owned()]),
            labels: vec![is("app", "web")],
            topology: "zone".to_owned(),
        }
    }

    /// Whether a pod on `a` with these needs fits `b`, where `others` are as well.
    fn check(needs: Needs, b: Room, others: Vec<Resident>) -> Result<(), Unfit> {
        let mut all = vec![pod("p", "a", needs)];
        all.extend(others);
        Rooms::new(vec![room("a", "north"), b], all).fits(&WorkloadUid::new("p"), "b")
    }

    #[test]
    fn room_places_and_ports_are_counted() {
        let south = || room("b", "south");
        let needs = |milli| Needs { requests: cpu(milli), ..Needs::default() };
        assert_eq!(check(needs(1000), south(), vec![]), Ok(()));
        assert_eq!(check(needs(1001), south(), vec![]), Err(Unfit::NoRoom));
        let full = Room { requested: cpu(500), ..south() };
        assert_eq!(check(needs(501), full, vec![]), Err(Unfit::NoRoom));
        assert_eq!(check(needs(1), Room { places: 0, ..south() }, vec![]), Err(Unfit::NoPlace));
        let closed = Room { open: false, ..south() };
        assert_eq!(check(needs(1), closed, vec![]), Err(Unfit::Closed));
        let port = || Needs { ports: BTreeSet::from([80]), ..Needs::default() };
        let there = pod("q", "b", port());
        assert_eq!(check(port(), south(), vec![there]), Err(Unfit::Port));
        let odd = Needs { unknown: Some("a device"), ..Needs::default() };
        assert_eq!(check(odd, south(), vec![]), Err(Unfit::Unknown));
    }

    #[test]
    fn taints_and_selectors_keep_pods_away() {
        let taint = |effect: &str| Taint {
            key: "team".to_owned(),
            value: "db".to_owned(),
            effect: effect.to_owned(),
        };
        let tainted = || Room { taints: vec![taint("NoSchedule")], ..room("b", "south") };
        assert_eq!(check(Needs::default(), tainted(), vec![]), Err(Unfit::Taint));
        let toleration = |key: Option<&str>, value: Option<&str>| {
            let own = |text: &str| text.to_owned();
            let one = Toleration { key: key.map(own), value: value.map(own), effect: None };
            Needs { tolerations: vec![one], ..Needs::default() }
        };
        assert_eq!(check(toleration(None, None), tainted(), vec![]), Ok(()));
        assert_eq!(check(toleration(Some("team"), Some("db")), tainted(), vec![]), Ok(()));
        let other = toleration(Some("team"), Some("web"));
        assert_eq!(check(other, tainted(), vec![]), Err(Unfit::Taint));
        let wants = |all: All| Needs { nodes: vec![vec![all]], ..Needs::default() };
        assert_eq!(check(wants(vec![is("zone", "south")]), room("b", "south"), vec![]), Ok(()));
        let north = wants(vec![is("zone", "north")]);
        assert_eq!(check(north, room("b", "south"), vec![]), Err(Unfit::Affinity));
        let above =
            |than| wants(vec![Requirement { key: "size".to_owned(), what: Operator::Above(than) }]);
        assert_eq!(check(above(7), room("b", "south"), vec![]), Ok(()));
        assert_eq!(check(above(8), room("b", "south"), vec![]), Err(Unfit::Affinity));
        assert_eq!(check(wants(vec![]), room("b", "south"), vec![]), Err(Unfit::Affinity));
    }

    #[test]
    fn neighbours_are_asked_in_both_directions() {
        let there = || pod("q", "b", Needs::default());
        let apart = || Needs { apart: vec![web()], ..Needs::default() };
        let near = || Needs { near: vec![web()], ..Needs::default() };
        let south = || room("b", "south");
        assert_eq!(check(apart(), south(), vec![there()]), Err(Unfit::Neighbours));
        assert_eq!(check(apart(), south(), vec![]), Ok(()));
        let minds = pod("q", "b", apart());
        assert_eq!(check(Needs::default(), south(), vec![minds]), Err(Unfit::Neighbours));
        assert_eq!(check(near(), south(), vec![there()]), Ok(()));
        assert_eq!(check(near(), south(), vec![]), Err(Unfit::Neighbours));
    }

    #[test]
    fn pods_stay_spread() {
        let spread = |skew| Needs {
            spread: vec![Spread {
                topology: "zone".to_owned(),
                skew,
                labels: vec![is("app", "web")],
            }],
            ..Needs::default()
        };
        let there = || pod("q", "b", Needs::default());
        // North would have none, south two.
        assert_eq!(check(spread(1), room("b", "south"), vec![there()]), Err(Unfit::Spread));
        assert_eq!(check(spread(2), room("b", "south"), vec![there()]), Ok(()));
        assert_eq!(check(spread(1), room("b", "south"), vec![]), Ok(()));
    }

    #[test]
    fn a_pod_that_moved_takes_its_requests_along() {
        let needs = Needs { requests: cpu(600), ..Needs::default() };
        let from = Room { requested: cpu(600), places: 1, ..room("a", "north") };
        let mut rooms = Rooms::new(vec![from, room("b", "south")], vec![pod("p", "a", needs)]);
        rooms.moved(&WorkloadUid::new("p"), "b");
        let left =
            |name: &str| rooms.node(name).map(|room| (room.requested.cpu.get(), room.places));
        assert_eq!((left("a"), left("b")), (Some((0, 2)), Some((600, 4))));
        assert_eq!(rooms.residents_of("b").count(), 1);
    }
}
