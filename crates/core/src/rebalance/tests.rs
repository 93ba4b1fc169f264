//! Tests of what is named, kept, cleared and evicted, and of nodes that could be emptied.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::empty::emptiable;
use super::fit::{Needs, Resident, Room, Rooms};
use super::stay::tests::MOVABLE;
use super::stay::{Facts, MoveRules, Owner, Stay, not_evicted, stays};
use super::*;
use crate::rng::Rng;
use crate::units::{Bytes, Millicores, Resources};

const RULES: Rules = Rules::DEFAULT;

fn cpu(milli: u64) -> Resources {
    Resources::new(Millicores::new(milli), Bytes::new(milli << 10))
}

fn room(name: &str, milli: u64, requested: u64) -> Room {
    Room {
        name: name.to_owned(),
        allocatable: cpu(milli),
        requested: cpu(requested),
        places: 50,
        open: true,
        ..Room::default()
    }
}

fn resident(uid: &str, node: &str, milli: u64) -> Resident {
    Resident {
        uid: WorkloadUid::new(uid),
        namespace: "shop".to_owned(),
        labels: fit::Labels::new(),
        node: node.to_owned(),
        needs: Needs { requests: cpu(milli), ..Needs::default() },
    }
}

/// Four pods of 100m on the noisy node, none on the quiet one.
fn four_on_noisy() -> Rooms {
    let pods = (0..4).map(|n| resident(&format!("p{n}"), "noisy", 100)).collect();
    Rooms::new(vec![room("noisy", 4000, 400), room("quiet", 4000, 0)], pods)
}

fn seen(rooms: &Rooms, named: &[(&str, &str)]) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    for node in rooms.nodes() {
        for pod in rooms.residents_of(&node.name) {
            let named_for = named.iter().find(|(uid, _)| *uid == pod.uid.as_str());
            all.push(Seen {
                uid: pod.uid.clone(),
                named_for: named_for.map(|(_, target)| (*target).to_owned()),
                stays: None,
                not_evicted: None,
                owner: format!("owner of {}", pod.uid),
            });
        }
    }
    all
}

fn points(of: &'static [(&'static str, u8)]) -> impl Fn(&WorkloadUid, &str) -> Option<Points> {
    move |_, node| {
        let found = of.iter().find(|(name, _)| *name == node);
        found.map(|(_, points)| Points::from_whole(*points))
    }
}

const NOISY: &[(&str, u8)] = &[("noisy", 25), ("quiet", 80)];
const CALM: &[(&str, u8)] = &[("noisy", 75), ("quiet", 80)];

#[test]
fn four_pods_on_a_noisy_node_are_named_for_the_quiet_one_by_two_looks_that_agree() {
    let rooms = four_on_noisy();
    let mut rebalancer = Rebalancer::default();
    let first = rebalancer.pass(&RULES, &rooms, &seen(&rooms, &[]), &points(NOISY));
    assert_eq!(first, Pass::default(), "one look says nothing");
    let second = rebalancer.pass(&RULES, &rooms, &seen(&rooms, &[]), &points(NOISY));
    assert_eq!((second.named.len(), second.evict.len()), (4, 0), "named, not evicted");
    for (place, named) in second.named.iter().enumerate() {
        assert_eq!((named.from.as_str(), named.target.as_str()), ("noisy", "quiet"));
        assert!(named.delta >= Points::from_whole(20), "{named:?}");
        // Each that goes makes the target 2.5 points fuller.
        let costs = u16::try_from(place).unwrap() * 250;
        assert_eq!(named.delta, Points::from_hundredths(5500 - costs));
    }
    let third = rebalancer.pass(&RULES, &rooms, &seen(&rooms, &[]), &points(NOISY));
    assert_eq!((third.named.len(), third.evict.len()), (4, 1), "one of each node");
}

#[test]
fn a_name_is_taken_back_when_it_no_longer_holds() {
    let rooms = four_on_noisy();
    let mut rebalancer = Rebalancer::default();
    for _ in 0..2 {
        rebalancer.pass(&RULES, &rooms, &seen(&rooms, &[]), &points(NOISY));
    }
    let written = [("p0", "quiet"), ("p1", "quiet"), ("p2", "quiet"), ("p3", "quiet")];
    let pods = seen(&rooms, &written);
    let mut cleared = 0;
    for _ in 0..4 {
        let pass = rebalancer.pass(&RULES, &rooms, &pods, &points(CALM));
        cleared = cleared.max(pass.cleared.len());
    }
    assert_eq!(cleared, 4);
    // A target that is full, closed or gone does not hold either.
    let full = Rooms::new(
        vec![room("noisy", 4000, 400), room("quiet", 4000, 4000)],
        vec![resident("p0", "noisy", 100)],
    );
    let mut rebalancer = Rebalancer::default();
    let pods = seen(&full, &[("p0", "quiet")]);
    let pass = rebalancer.pass(&RULES, &full, &pods, &points(NOISY));
    assert_eq!(pass.cleared, [WorkloadUid::new("p0")]);
}

#[test]
fn a_name_survives_a_restart_and_small_changes() {
    let rooms = four_on_noisy();
    let written = [("p0", "quiet"), ("p1", "quiet"), ("p2", "quiet"), ("p3", "quiet")];
    let mut restarted = Rebalancer::default();
    // 42 would not be named anew, and 17 points are no 20.
    let near: &[(&str, u8)] = &[("noisy", 42), ("quiet", 59)];
    let pass = restarted.pass(&RULES, &rooms, &seen(&rooms, &written), &points(near));
    assert_eq!((pass.named.len(), pass.cleared.len(), pass.evict.len()), (4, 0, 0));
    let pass = restarted.pass(&RULES, &rooms, &seen(&rooms, &written), &points(near));
    assert_eq!((pass.named.len(), pass.evict.len()), (4, 1));
}

#[test]
fn one_bad_look_moves_nothing() {
    let rooms = four_on_noisy();
    let mut rebalancer = Rebalancer::default();
    for round in 0..20 {
        let look = if round % 3 == 0 { NOISY } else { CALM };
        let pass = rebalancer.pass(&RULES, &rooms, &seen(&rooms, &[]), &points(look));
        assert_eq!(pass.named, [], "round {round}");
    }
}

#[test]
fn what_is_not_known_is_no_reason_to_move() {
    let rooms = four_on_noisy();
    for known in [&[("noisy", 10)][..], &[("quiet", 100)][..], &[][..]] {
        let mut rebalancer = Rebalancer::default();
        for _ in 0..4 {
            let pass = rebalancer.pass(&RULES, &rooms, &seen(&rooms, &[]), &points(known));
            assert_eq!(pass, Pass::default());
        }
    }
    let mut rebalancer = Rebalancer::default();
    let mut pods = seen(&rooms, &[]);
    pods.iter_mut().for_each(|pod| pod.stays = Some(Stay::OptedOut));
    for _ in 0..4 {
        assert_eq!(rebalancer.pass(&RULES, &rooms, &pods, &points(NOISY)), Pass::default());
    }
}

#[test]
fn random_clusters_come_to_rest_within_bounds() {
    for seed in 0..40 {
        let mut rng = Rng::from_seed(seed);
        let mut draw = |below: u64| rng.next_u64() % below;
        let nodes = usize::try_from(draw(6) + 2).unwrap();
        let names: Vec<String> = (0..nodes).map(|n| format!("n{n}")).collect();
        let pods: Vec<Resident> = (0..draw(40))
            .map(|n| {
                // Most of them on the first two nodes.
                let at = usize::try_from(draw(8)).unwrap().saturating_sub(5).min(nodes - 1);
                resident(&format!("p{n}"), &names[at], draw(80) + 20)
            })
            .collect();
        let used = |pods: &[Resident], node: &str| {
            let of = pods.iter().filter(|pod| pod.node == node);
            of.map(|pod| pod.needs.requests.cpu.get()).sum::<u64>()
        };
        let all: Vec<Room> = names.iter().map(|name| room(name, 2000, used(&pods, name))).collect();
        let mut rooms = Rooms::new(all, pods);
        let mut rebalancer = Rebalancer::default();
        let mut quiet = 0;
        for pass_number in 0..200 {
            let load = |node: &str| rooms.node(node).map(|node| node.requested.cpu.get());
            let loads: BTreeMap<String, u64> =
                names.iter().map(|name| (name.clone(), load(name).unwrap_or(0))).collect();
            let score = |_: &WorkloadUid, node: &str| {
                let load = loads.get(node)?;
                Some(Points::from_whole(u8::try_from(100 - (load / 15).min(100)).unwrap()))
            };
            let pass = rebalancer.pass(&RULES, &rooms, &seen(&rooms, &[]), &score);
            let from: BTreeSet<&String> = pass.evict.iter().map(|one| &one.from).collect();
            assert_eq!(from.len(), pass.evict.len(), "seed {seed}: one of each node");
            assert!(pass.evict.len() <= RULES.moves_max);
            for one in &pass.evict {
                assert!(rooms.fits(&one.uid, &one.target).is_ok(), "seed {seed}: {one:?}");
                rooms.moved(&one.uid, &one.target);
            }
            quiet = if pass.evict.is_empty() { quiet + 1 } else { 0 };
            assert!(pass_number < 150 || quiet > 0, "seed {seed}: still moving");
        }
        assert!(quiet > 20, "seed {seed}: it never came to rest");
    }
}

#[test]
fn the_emptiest_nodes_can_be_emptied_and_nothing_is_filled_up() {
    let pods = vec![
        resident("big", "a", 600),
        resident("small", "b", 100),
        resident("tiny", "c", 50),
        resident("daemon", "c", 10),
    ];
    let nodes = vec![room("a", 1000, 600), room("b", 1000, 100), room("c", 1000, 60)];
    let rooms = Rooms::new(nodes, pods);
    let facts = |uid: &WorkloadUid| match uid.as_str() {
        "daemon" => Facts { owner: Owner::DaemonSet, ..MOVABLE },
        _ => MOVABLE,
    };
    let rules = MoveRules::DEFAULT;
    let free = |uid: &WorkloadUid| not_evicted(&rules, &facts(uid));
    let fill = Ratio::from_percent(90);
    let found = emptiable(&rooms, fill, &free);
    let told: Vec<(&str, Vec<(&str, &str)>)> = found
        .iter()
        .map(|one| {
            let moves = one.moves.iter().map(|(uid, to)| (uid.as_str(), to.as_str()));
            (one.node.as_str(), moves.collect())
        })
        .collect();
    assert_eq!(told, [("c", vec![("tiny", "a")]), ("b", vec![("small", "a")])]);
    let held = |uid: &WorkloadUid| {
        let facts = Facts { opted_out: Some("x"), ..facts(uid) };
        if uid.as_str() == "tiny" { stays(&rules, &facts) } else { free(uid) }
    };
    let found = emptiable(&rooms, fill, &held);
    let nodes: Vec<&str> = found.iter().map(|one| one.node.as_str()).collect();
    assert_eq!(nodes, ["b"], "who stays keeps its node");
    assert_eq!(emptiable(&rooms, Ratio::from_percent(50), &free).len(), 1, "nothing beyond half");
}
