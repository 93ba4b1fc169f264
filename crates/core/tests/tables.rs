//! Learned tables as a node keeps them: how many, for whom, and where their random numbers start.

use walras_core::claim::{CameWith, Nature};
use walras_core::demand::Sample;
use walras_core::learn::{LearnConfig, QTable};
use walras_core::need::Bounds;
use walras_core::node::{Node, Note, Outcome, WorkloadFacts};
use walras_core::profile::{Profile, Value};
use walras_core::request::RequestRule;
use walras_core::units::{FamilyKey, Millicores, Moment, Ratio, Span, Weight, WorkloadUid};

/// How many tables a node keeps before it forgets those without a workload.
const TABLES_MAX: usize = 4096;

#[test]
fn no_more_tables_are_restored_than_a_node_keeps() {
    let mut node = full_node(TABLES_MAX);
    assert_eq!(node.tables().count(), TABLES_MAX);
    assert_eq!(node.fast_tick(Moment::ORIGIN).notes, []);

    let saved = saved_table();
    let one_more = FamilyKey::new("one more");
    node.table_restored(one_more.clone(), saved.as_bytes());
    assert_eq!(node.tables().count(), TABLES_MAX);
    let notes = node.fast_tick(Moment::from_ms(200)).notes;
    assert_eq!(notes, [Note::TooManyTables { family: one_more }]);

    // One that is there already may be replaced.
    node.table_restored(FamilyKey::new("idle-7"), saved.as_bytes());
    assert_eq!(node.tables().count(), TABLES_MAX);
    assert_eq!(node.fast_tick(Moment::from_ms(400)).notes, []);
}

#[test]
fn too_many_tables_are_forgotten_unless_a_workload_uses_them() {
    let mut node = full_node(TABLES_MAX - 1);
    node.workload_added(facts("web"), Moment::ORIGIN);
    for seconds in [15, 30] {
        node.slow_tick(Moment::from_ms(seconds * 1000));
        assert_eq!(node.tables().count(), TABLES_MAX, "as many as are kept");
    }
    node.workload_added(facts("db"), Moment::from_ms(30_000));
    node.slow_tick(Moment::from_ms(45_000));
    node.slow_tick(Moment::from_ms(60_000));
    let kept: Vec<&str> = node.tables().map(|(family, _)| family.as_str()).collect();
    assert_eq!(kept, ["db", "web"]);
}

#[test]
fn the_seed_decides_what_is_explored() {
    let first = explore(1);
    assert_eq!(first, explore(1), "the same seed repeats itself");
    let differs = |seed| first.iter().zip(explore(seed)).any(|(one, other)| *one != other);
    assert!(differs(2), "another seed explores otherwise");
    assert!(differs(u32::MAX), "another seed explores otherwise");
}

/// What a node decides that picks every action at random, for twenty clearings.
fn explore(seed: u32) -> Vec<Outcome> {
    let mut profile = Profile::SEED;
    profile.exploration_start = Ratio::ONE;
    profile.exploration_floor = Ratio::ONE;
    profile.set("exploration_seed", &Value::Number(seed.into())).expect("a good seed");
    let mut node = Node::new(Millicores::from_cores(4), profile);
    node.workload_added(facts("web"), Moment::ORIGIN);
    (0..20)
        .map(|round| {
            let sample = Sample {
                at: Moment::from_ms(round * 15_000),
                usage: Span::from_ms(round * 15_000),
                nr_periods: round * 150,
                ..Sample::default()
            };
            node.sampled(&WorkloadUid::new("web"), sample);
            node.slow_tick(sample.at)
        })
        .collect()
}

/// A learning node with as many tables of families that have no workload.
fn full_node(tables: usize) -> Node {
    let mut node = Node::new(Millicores::from_cores(4), Profile::SEED);
    let saved = saved_table();
    for number in 0..tables {
        node.table_restored(FamilyKey::new(&format!("idle-{number}")), saved.as_bytes());
    }
    node
}

fn saved_table() -> String {
    QTable::new(0, &LearnConfig::DEFAULT).save()
}

fn facts(uid: &str) -> WorkloadFacts {
    WorkloadFacts {
        uid: WorkloadUid::new(uid),
        family: None,
        bounds: Bounds::new(Millicores::new(100), Millicores::from_cores(4)),
        weight: Weight::ONE,
        limit: Millicores::from_cores(1),
        request: None,
        came_with: CameWith::default(),
        nature: Nature::Unknown,
        request_rule: RequestRule::Kept,
    }
}
