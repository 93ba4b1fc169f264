//! Pods that come, go and fail under a collector, and collectors that die.

use super::*;
use crate::events::read_line;
use crate::features::NodeFeature;

const MINUTE: i64 = 60_000;

fn pod(uid: &str, bound_ms: i64, condition: Condition) -> SeenPod {
    let placed = Placed {
        uid: uid.to_owned(),
        name: format!("{uid}-name"),
        namespace: "shop".to_owned(),
        labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
        cpu_milli: 500,
        memory_bytes: 1 << 30,
        workload_type: Some("cpu-bound".to_owned()),
        criticality: None,
        node: "a".to_owned(),
        scheduler: "default-scheduler".to_owned(),
        bound_ms,
    };
    SeenPod { placed, condition }
}

fn telemetry() -> BTreeMap<String, NodeTelemetry> {
    let node = |cpu: f64| BTreeMap::from([("cpu_utilization".to_owned(), cpu)]);
    BTreeMap::from([("a".to_owned(), node(0.25)), ("b".to_owned(), node(0.75))])
}

const RUNNING: Condition = Condition { phase: Phase::Running, ..Condition::UNSEEN };
const PENDING: Condition = Condition { phase: Phase::Pending, ..Condition::UNSEEN };
const OUT_OF_MEMORY: Condition = Condition { ended: Some(Ended::OutOfMemory), ..RUNNING };

fn fresh() -> Collector {
    Collector::resumed(CollectSettings::USUAL, [], [])
}

fn outcomes(steps: impl IntoIterator<Item = Step>) -> Vec<(String, Outcome)> {
    let settled = steps.into_iter().filter_map(|step| match step {
        Step::Settled(record) => Some((record.placed.uid, record.outcome?.0)),
        Step::Opened(_) => None,
    });
    settled.collect()
}

#[test]
fn a_pod_is_opened_at_its_binding_and_settled_once_after_its_window() {
    let mut collector = fresh();
    let opened = collector.pod_seen(1_000, &pod("p", 0, PENDING), telemetry);
    let Some(Step::Opened(record)) = opened else { panic!("{opened:?}") };
    assert_eq!(record.nodes.len(), 2);
    assert_eq!(collector.pod_seen(2_000, &pod("p", 0, RUNNING), || panic!("joined once")), None);
    assert_eq!(collector.tick(5 * MINUTE - 1), []);
    let settled = collector.tick(5 * MINUTE);
    assert_eq!(outcomes(settled), [("p".to_owned(), Outcome::Running)]);
    assert_eq!(collector.pod_seen(6 * MINUTE, &pod("p", 0, OUT_OF_MEMORY), telemetry), None);
    assert_eq!((collector.tick(60 * MINUTE).len(), collector.open_count()), (0, 0));
}

#[test]
fn a_pod_that_goes_early_is_settled_then() {
    let mut collector = fresh();
    for (uid, condition, outcome) in [
        ("well", RUNNING, Outcome::Deleted),
        ("never", PENDING, Outcome::Deleted),
        ("killed", OUT_OF_MEMORY, Outcome::OomKilled),
        ("sent", Condition { phase: Phase::Failed, evicted: true, ..RUNNING }, Outcome::Evicted),
    ] {
        collector.pod_seen(0, &pod(uid, 0, condition), telemetry);
        let gone = collector.pod_gone(MINUTE, uid);
        assert_eq!(outcomes(gone), [(uid.to_owned(), outcome)]);
        assert_eq!(collector.pod_gone(MINUTE, uid), None);
    }
}

#[test]
fn a_watch_that_begins_anew_finds_who_is_gone_and_repeats_nobody() {
    let mut collector = fresh();
    for uid in ["a", "b"] {
        collector.pod_seen(0, &pod(uid, 0, RUNNING), telemetry);
    }
    assert_eq!(collector.pod_seen(10, &pod("a", 0, RUNNING), telemetry), None);
    let steps = collector.listed(MINUTE, &BTreeSet::from(["a".to_owned()]));
    assert_eq!(outcomes(steps), [("b".to_owned(), Outcome::Deleted)]);
    assert_eq!(outcomes(collector.tick(9 * MINUTE)), [("a".to_owned(), Outcome::Running)]);
}

#[test]
fn a_collector_that_died_goes_on_with_what_was_open_and_repeats_nothing() {
    let mut dead = fresh();
    let mut lines = Vec::new();
    for uid in ["open", "settled"] {
        let step = dead.pod_seen(0, &pod(uid, 0, RUNNING), telemetry);
        let Some(Step::Opened(record)) = step else { panic!("{step:?}") };
        lines.push(record.line());
    }
    let records = lines.iter().map(|line| Record::read(line.as_bytes()).unwrap());
    let mut next = Collector::resumed(CollectSettings::USUAL, records, ["settled".to_owned()]);
    assert_eq!(next.tick(6 * MINUTE), [], "nobody is judged unseen");
    for uid in ["open", "settled"] {
        assert_eq!(next.pod_seen(6 * MINUTE, &pod(uid, 0, RUNNING), telemetry), None);
    }
    let steps = next.tick(6 * MINUTE);
    let [Step::Settled(record)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(record.nodes, telemetry(), "what was joined at the binding is still there");
    assert_eq!(record.placed.uid, "open");
}

#[test]
fn who_was_bound_before_anybody_looked_is_left_alone_and_late_ones_have_no_telemetry() {
    let mut collector = fresh();
    let now = 10 * MINUTE;
    assert_eq!(collector.pod_seen(now, &pod("old", 0, RUNNING), telemetry), None);
    let step = collector.pod_seen(now, &pod("late", now - 11_000, RUNNING), || panic!("too late"));
    assert!(matches!(step, Some(Step::Opened(record)) if record.nodes.is_empty()));
}

#[test]
fn no_more_pods_are_followed_than_there_is_room_for() {
    let mut collector = fresh();
    for number in 0..OPEN_MAX + 3 {
        collector.pod_seen(0, &pod(&number.to_string(), 0, RUNNING), BTreeMap::new);
    }
    assert_eq!((collector.open_count(), collector.passed_over()), (OPEN_MAX, 3));
}

#[test]
fn training_reads_what_is_written() {
    let mut nodes = telemetry();
    nodes.entry("b".to_owned()).or_default().insert("disk_iops".to_owned(), f64::NAN);
    let record = Record::opened(pod("p", 1_763_368_200_250, RUNNING).placed, nodes);
    let open = read_line(record.line().as_bytes());
    let event = read_line(record.settled(Outcome::Evicted, 1_763_368_500_000).line().as_bytes());
    // A number that is no number was not measured.
    assert_eq!(open.unwrap().outcome, Outcome::Pending);
    let event = event.unwrap();
    assert_eq!((event.id.as_str(), event.outcome), ("p", Outcome::Evicted));
    assert_eq!((event.time_ms, event.chosen.as_str()), (1_763_368_200_250, "a"));
    assert_eq!(event.pod.cpu_milli, 500);
    assert_eq!(event.nodes["b"].get(NodeFeature::CpuUtilization), Some(0.75));
    assert_eq!(event.nodes["b"].get(NodeFeature::DiskIops), None);
}
