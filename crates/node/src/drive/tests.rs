//! The loop against a scripted outside: a made-up machine on which time passes as the test says.

mod telling;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use walras_core::claim::{CameWith, Nature};
use walras_core::demand::Sample;
use walras_core::learn::{LearnConfig, QTable, SAVED_BYTES_MAX};
use walras_core::market::Fairness;
use walras_core::need::Bounds;
use walras_core::node::{Action, Allocatable, MachineSample, Node, WorkloadFacts};
use walras_core::profile::Profile;
use walras_core::request::{RequestRule, UseRecord, WEEK_WINDOWS};
use walras_core::units::{FamilyKey, Millicores, Moment, Ratio, Span, Weight, WorkloadUid};
use walras_wire::replay::{Replay, parse_line};
use walras_wire::state::ChangeResult;

use super::{Arrival, Carried, Change, Drive, Outside, Owned, Trouble};
use crate::board::{Board, Identity, WorkloadKind, WorkloadLabel};
use crate::record::RecordTo;
use crate::record::Recorder;

const CAPACITY: Millicores = Millicores::from_cores(2);
const LOOK: Span = Span::from_s(1);

/// A made-up machine.
struct Script {
    now: Moment,
    workloads: BTreeMap<WorkloadUid, Load>,
    changes: Vec<Change>,
    mood: Mood,
    carried: Vec<Action>,
    /// Whether counters can be read.
    readable: bool,
    /// How often any workload was read.
    reads: usize,
    price: Ratio,
    /// What CPU cost as far as was known when each action was carried out.
    prices: Vec<Ratio>,
    allocatable: Option<Allocatable>,
}

/// What becomes of actions.
#[derive(Clone, Copy)]
enum Mood {
    Works,
    Asks,
    Watches,
    IsOvertaken,
    IsLate,
    AsksInstead,
    Fails,
}

/// A workload that wants so much all the time.
struct Load {
    wants: Millicores,
    limit: Millicores,
    counters: Sample,
}

impl Load {
    /// Runs until `now`, a period of 100 ms at a time.
    fn run_until(&mut self, now: Moment) {
        while self.counters.at + Span::from_ms(100) <= now {
            let counters = &mut self.counters;
            counters.at = counters.at + Span::from_ms(100);
            let used = self.wants.min(self.limit);
            counters.usage = Span::from_us(counters.usage.as_us() + used.get() * 100);
            counters.nr_periods += 1;
            if self.wants > self.limit {
                let lacks = self.wants.saturating_sub(self.limit).get() * 50;
                counters.nr_throttled += 1;
                counters.throttled = Span::from_us(counters.throttled.as_us() + lacks);
            }
        }
    }
}

impl Script {
    fn new(mood: Mood) -> Self {
        Self {
            now: Moment::from_ms(12_000),
            workloads: BTreeMap::new(),
            changes: Vec::new(),
            mood,
            carried: Vec::new(),
            readable: true,
            reads: 0,
            price: Ratio::ZERO,
            prices: Vec::new(),
            allocatable: None,
        }
    }

    fn comes(&mut self, name: &str, wants: u64, limit: u64) {
        let counters = Sample { at: self.now, ..Sample::default() };
        let (wants, limit) = (Millicores::new(wants), Millicores::new(limit));
        self.workloads.insert(WorkloadUid::new(name), Load { wants, limit, counters });
        self.changes.push(Change::Came(Box::new(arrival(name, limit))));
    }

    /// The owner of a workload changed its limit.
    fn is_owned(&mut self, name: &str, from: u64, to: u64) {
        let (from, to) = (Millicores::new(from), Millicores::new(to));
        let (arrival, from, to) = (arrival(name, to), Some(from), Some(to));
        self.changes.push(Change::Owned(Box::new(Owned { arrival, from, to })));
    }

    /// What is told of the workload that came last, before the loop looks.
    fn last_arrival(&mut self) -> &mut WorkloadFacts {
        match self.changes.last_mut() {
            Some(Change::Came(arrival)) => &mut arrival.facts,
            other => panic!("{other:?}"),
        }
    }
}

/// A workload that comes with this limit.
fn arrival(name: &str, limit: Millicores) -> Arrival {
    Arrival {
        facts: WorkloadFacts {
            uid: WorkloadUid::new(name),
            family: Some(FamilyKey::new(name)),
            bounds: Bounds::new(Millicores::new(100), CAPACITY),
            weight: Weight::ONE,
            limit,
            request: None,
            came_with: CameWith { limit: Some(limit), ..CameWith::default() },
            nature: Nature::Unknown,
            request_rule: RequestRule::Kept,
        },
        label: WorkloadLabel {
            name: name.to_owned(),
            kind: WorkloadKind::Path,
            original_limit: Some(limit),
            target_latency_ms: None,
        },
    }
}

impl Outside for Script {
    fn now(&self) -> Moment {
        self.now
    }

    fn unix_ms(&self) -> u64 {
        self.now.as_ms_floor()
    }

    fn capacity(&mut self) -> Millicores {
        CAPACITY
    }

    fn allocatable(&mut self) -> Option<Allocatable> {
        self.allocatable
    }

    fn look(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    fn sample(&mut self, uid: &WorkloadUid, now: Moment) -> Result<Sample, Trouble> {
        let load = self.workloads.get_mut(uid).ok_or(Trouble::Gone)?;
        self.reads += 1;
        load.run_until(now);
        if !self.readable {
            return Err(Trouble::Unreadable("the kernel does not like it".to_owned()));
        }
        Ok(Sample { at: now, ..load.counters })
    }

    fn set_price(&mut self, price: Ratio) {
        self.price = price;
    }

    fn machine(&mut self, _: Moment) -> Option<MachineSample> {
        None
    }

    fn carry_out(&mut self, action: &Action) -> Carried {
        self.carried.push(action.clone());
        self.prices.push(self.price);
        let Some(load) = self.workloads.get_mut(&action.uid) else {
            return Carried::Gone;
        };
        match self.mood {
            Mood::Works => {
                load.run_until(self.now);
                load.limit = action.limit;
                Carried::Done
            }
            Mood::Asks => Carried::Asked,
            Mood::Watches => Carried::OnlyWatching(load.limit),
            Mood::IsOvertaken => Carried::Overtaken(load.limit),
            Mood::IsLate => Carried::Late(load.limit),
            Mood::AsksInstead => {
                let because = "the kernel does not like it".to_owned();
                Carried::AskedInstead { because, in_force: load.limit }
            }
            Mood::Fails => {
                let because = "the kernel does not like it".to_owned();
                Carried::Failed { because, in_force: Some(load.limit) }
            }
        }
    }

    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}

fn drive(script: Script) -> (Drive<Script>, Arc<Board>) {
    drive_with(script, &Profile::DIRECT)
}

fn drive_with(script: Script, profile: &Profile) -> (Drive<Script>, Arc<Board>) {
    let board = Arc::new(Board::new(Identity {
        version: "test".to_owned(),
        host: "test".to_owned(),
        profile: profile.name.name().to_owned(),
        acting: true,
    }));
    let node = Node::new(CAPACITY, profile.clone());
    (Drive::new(node, script, Arc::clone(&board), LOOK), board)
}

/// Lets the loop run for so long: it is woken when it asked to be.
fn run(drive: &mut Drive<Script>, ms: u64) {
    let end = drive.outside().now + Span::from_ms(ms);
    while drive.outside().now < end {
        let wake_at = drive.step();
        let now = drive.outside().now;
        assert!(wake_at >= now, "to be woken in the past");
        drive.outside().now = wake_at.max(now + Span::from_ms(1)).min(end);
    }
}

fn limit(drive: &Drive<Script>, name: &str) -> u64 {
    let uid = WorkloadUid::new(name);
    let workload = drive.node().workloads().find(|workload| *workload.uid == uid);
    workload.map_or(0, |workload| workload.in_force.limit.get())
}

#[test]
fn a_throttled_workload_has_more_after_two_fast_ticks() {
    let mut script = Script::new(Mood::Works);
    script.comes("web", 1200, 200);
    let (mut drive, board) = drive(script);
    run(&mut drive, 250);
    assert!(limit(&drive, "web") >= 400, "{}", limit(&drive, "web"));
    run(&mut drive, 5000);
    assert!(limit(&drive, "web") >= 1200);
    let state = board.state();
    assert_eq!(state.workloads.len(), 1);
    assert_eq!(state.workloads[0].limit_milli, limit(&drive, "web"));
    assert_eq!(state.failures, 0);
}

#[test]
fn a_change_that_failed_is_not_believed() {
    let mut script = Script::new(Mood::Fails);
    script.comes("web", 1200, 200);
    let (mut drive, board) = drive(script);
    run(&mut drive, 5000);
    assert_eq!(limit(&drive, "web"), 200);
    assert!(board.state().failures > 0);
    drive.outside().mood = Mood::Works;
    run(&mut drive, 3000);
    assert!(limit(&drive, "web") > 200);
}

#[test]
fn actions_are_carried_out_with_the_price_of_their_own_clearing() {
    let mut script = Script::new(Mood::Works);
    script.comes("a", 3000, 200);
    script.comes("b", 3000, 200);
    let (mut drive, _) = drive_with(script, &Profile::SEED);
    let mut carried_with_a_new_price = 0;
    for step in 0..100 {
        if step == 50 {
            drive.outside().comes("c", 3000, 200);
        }
        let before = drive.node().price();
        let wake_at = drive.step();
        let price = drive.node().price();
        let told = std::mem::take(&mut drive.outside().prices);
        assert!(told.iter().all(|told| *told == price), "{told:?} instead of {price:?}");
        if price != before {
            carried_with_a_new_price += told.len();
        }
        let now = drive.outside().now;
        drive.outside().now = wake_at.max(now + Span::from_ms(1));
    }
    assert!(carried_with_a_new_price > 0, "no clearing changed both the price and a pod");
}

/// How often a workload is read in ten seconds.
fn reads(sampling_ms: u64, fast_ms: u64) -> usize {
    let mut script = Script::new(Mood::Works);
    script.comes("web", 10, 1000);
    let profile = Profile {
        sampling_interval_ms: Span::from_ms(sampling_ms),
        fast_loop_interval_ms: Span::from_ms(fast_ms),
        hot_memory_s: 0,
        ..Profile::SEED
    };
    let (mut drive, _) = drive_with(script, &profile);
    // It counts as hot until it is known.
    run(&mut drive, 10_000);
    let before = drive.outside().reads;
    run(&mut drive, 10_000);
    drive.outside().reads - before
}

#[test]
fn a_quiet_workload_is_read_as_often_as_is_said_however_rarely_the_loop_ticks() {
    assert_eq!(reads(500, 2000), 20);
    assert_eq!(reads(1000, 2000), 10, "as the predecessor documents it");
    assert_eq!(reads(2000, 500), 5);
    assert_eq!(reads(1000, 1000), 10);
}

#[test]
fn who_only_watches_says_the_same_thing_once() {
    let mut script = Script::new(Mood::Watches);
    script.comes("web", 1200, 200);
    let (mut drive, board) = drive(script);
    run(&mut drive, 60_000);
    assert_eq!(limit(&drive, "web"), 200);
    assert!(drive.outside().carried.len() > 50, "it goes on being throttled");
    let told = board.explain("web").unwrap().changes;
    assert!(told.len() <= 10, "{}", told.len());
    assert!(told.iter().all(|change| change.result == ChangeResult::OnlyWatching));
    assert_eq!(board.state().changes, 0);
}

#[test]
fn who_only_watches_does_not_think_that_a_workload_needs_more_and_more() {
    for profile in [Profile::DIRECT, Profile::API, Profile::TIGHT] {
        let need = |mood| {
            let mut script = Script::new(mood);
            script.comes("web", 1200, 1100);
            let (mut drive, board) = drive_with(script, &profile);
            run(&mut drive, 600_000);
            let workload = drive.node().workloads().next().expect("it came");
            (workload.need.expect("it was cleared").get(), board.state().workloads[0].suggested)
        };
        let (acting, nothing_suggested) = need(Mood::Works);
        let (watching, suggested) = need(Mood::Watches);
        assert_eq!(nothing_suggested, None);
        assert!((1200..1500).contains(&acting), "{acting}");
        // It sees 1100m of the 1200m, throttled all the time.
        let about = 1100..acting + acting / 5;
        assert!(about.contains(&watching), "{watching}, and {acting} when acting");
        let suggested = suggested.expect("it would be raised");
        assert!(suggested.limit_milli > 1100, "{suggested:?}");
        assert!(suggested.changes_last_hour <= 3, "{suggested:?}");
    }
}

#[test]
fn a_workload_that_is_gone_is_let_go_of() {
    let mut script = Script::new(Mood::Works);
    script.comes("web", 1200, 200);
    script.comes("db", 100, 200);
    let (mut drive, board) = drive(script);
    run(&mut drive, 1000);
    drive.outside().workloads.remove(&WorkloadUid::new("web"));
    run(&mut drive, 1500);
    let names: Vec<String> =
        board.state().workloads.into_iter().map(|workload| workload.name).collect();
    assert_eq!(names, ["db"]);
    drive.outside().changes.push(Change::Went(WorkloadUid::new("db")));
    run(&mut drive, 1500);
    assert_eq!(drive.node().workloads().count(), 0);
}

#[test]
fn a_limit_that_somebody_else_set_is_taken_over() {
    let mut script = Script::new(Mood::Works);
    script.comes("web", 50, 500);
    let (mut drive, _) = drive(script);
    run(&mut drive, 1500);
    let uid = WorkloadUid::new("web");
    drive.outside().changes.push(Change::Limited(uid, Millicores::new(700)));
    run(&mut drive, 1200);
    assert_eq!(limit(&drive, "web"), 700);
}

#[test]
fn what_is_late_is_not_counted_on_and_is_told_once() {
    let mut script = Script::new(Mood::IsLate);
    script.comes("web", 1200, 200);
    let (mut drive, board) = drive(script);
    run(&mut drive, 10_000);
    assert!(drive.outside().carried.len() > 2, "it is asked for again and again");
    assert_eq!(limit(&drive, "web"), 200);
    let failures = board.tally().failures;
    assert!((1..=4).contains(&failures), "{failures}");
    let uid = WorkloadUid::new("web");
    drive.outside().changes.push(Change::Late(uid, Millicores::new(250)));
    run(&mut drive, 1200);
    assert_eq!(limit(&drive, "web"), 200);
}

#[test]
fn what_had_to_be_asked_for_instead_is_not_taken_for_granted() {
    let mut script = Script::new(Mood::AsksInstead);
    script.comes("web", 1200, 200);
    let (mut drive, board) = drive(script);
    run(&mut drive, 5000);
    assert_eq!(limit(&drive, "web"), 200);
    assert!(board.tally().asked_instead > 0);
}

#[test]
fn another_node_starts_with_the_workloads_that_are_there() {
    let mut script = Script::new(Mood::Works);
    script.comes("web", 50, 500);
    script.comes("db", 50, 500);
    let (mut drive, board) = drive(script);
    run(&mut drive, 1500);
    drive.outside().comes("web", 50, 500);
    drive.start_over(Node::new(CAPACITY, Profile::SEED), None);
    assert_eq!(drive.node().workloads().count(), 1);
    assert_eq!(board.state().workloads.len(), 1, "the other is not sized any more");
}

/// Everything that can happen, recorded and fed to `walras replay`'s machine: the same actions.
#[test]
fn a_recording_replays_to_the_same_actions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.jsonl");
    let mut script = Script::new(Mood::Works);
    script.comes("web \"1\"", 1200, 200);
    script.comes("batch", 2500, 400);
    let (mut drive, _) = drive(script);
    record(&mut drive, &file, &Profile::DIRECT);
    run(&mut drive, 20_000);
    drive.outside().mood = Mood::Fails;
    drive.outside().comes("late", 900, 300);
    run(&mut drive, 10_000);
    drive.outside().mood = Mood::Watches;
    run(&mut drive, 10_000);
    drive.outside().mood = Mood::Works;
    drive.outside().workloads.remove(&WorkloadUid::new("batch"));
    let late = WorkloadUid::new("late");
    drive.outside().changes.push(Change::Limited(late, Millicores::new(333)));
    run(&mut drive, 60_000);
    check_recording(&mut drive, &file, 20);
}

#[test]
fn a_workload_that_comes_again_is_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.jsonl");
    let mut script = Script::new(Mood::Works);
    script.comes("web", 1200, 200);
    script.comes("batch", 2500, 400);
    let (mut drive, _) = drive(script);
    record(&mut drive, &file, &Profile::DIRECT);
    run(&mut drive, 20_000);
    // The API server has another claim for it, or another limit.
    drive.outside().comes("web", 700, 300);
    run(&mut drive, 20_000);
    // An agent was killed after it had lowered the limit, and before the request was lowered.
    drive.outside().comes("batch", 2500, 200);
    drive.outside().last_arrival().request = Some(Millicores::new(900));
    run(&mut drive, 20_000);
    check_recording(&mut drive, &file, 10);
}

#[test]
fn what_was_learned_before_is_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.jsonl");
    let learning = Profile { learning: true, ..Profile::SEED };
    let mut script = Script::new(Mood::Works);
    script.comes("web", 1200, 200);
    script.comes("batch", 2500, 400);
    let (mut drive, _) = drive_with(script, &learning);
    record(&mut drive, &file, &learning);
    let saved = |seed| QTable::new(seed, &LearnConfig::DEFAULT).save();
    drive.restore_table(FamilyKey::new("web"), saved(7).as_bytes());
    drive.restore_table(FamilyKey::new("gone"), saved(8).as_bytes());
    run(&mut drive, 100_000);
    // What the API server keeps may be there late, and may be damaged in any way.
    drive.restore_table(FamilyKey::new("batch"), saved(9).as_bytes());
    drive.restore_table(FamilyKey::new("odd"), &[0, 0xff, b'"', b'\n']);
    drive.restore_table(FamilyKey::new("long"), &vec![b'x'; 3 * SAVED_BYTES_MAX]);
    run(&mut drive, 100_000);
    check_recording(&mut drive, &file, 10);
}

#[test]
fn what_was_used_before_and_requests_that_follow_it_are_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.jsonl");
    let mut week = UseRecord::default();
    for _ in 0..2 * WEEK_WINDOWS {
        week.window_passed(&[Millicores::new(70)]);
    }
    let mut script = Script::new(Mood::Works);
    let size = Millicores::new(8000);
    script.allocatable = Some(Allocatable { size, set_aside: Millicores::new(300) });
    script.comes("web", 100, 800);
    let arrival = script.last_arrival();
    arrival.request_rule = RequestRule::Follows;
    (arrival.request, arrival.came_with.request) =
        (Some(Millicores::new(400)), Some(Millicores::new(400)));
    let (mut drive, _) = drive_with(script, &Profile::API);
    record(&mut drive, &file, &Profile::API);
    drive.restore_use(FamilyKey::new("web"), week.save().as_bytes());
    drive.restore_use(FamilyKey::new("odd"), &[0, 0xff, b'"', b'\n']);
    drive.restore_use(FamilyKey::new("long"), &vec![b'x'; 3 * SAVED_BYTES_MAX]);
    run(&mut drive, 3 * 3_600_000);
    let request = drive.node().workloads().next().unwrap().in_force.request;
    assert!(request < Millicores::new(400), "it was lowered: {request}");
    check_recording(&mut drive, &file, 2);

    let recorder = recorder(&file, &Profile::API, drive.outside().now);
    let before = drive.node().records().map(|(_, record)| record.clone()).collect::<Vec<_>>();
    drive.start_over(Node::new(CAPACITY, Profile::API), Some(recorder));
    let after: Vec<_> = drive.node().records().map(|(_, record)| record.clone()).collect();
    assert_eq!(after, before, "what was seen stays");
}

#[test]
fn a_node_that_starts_over_has_a_recording_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.jsonl");
    let learning = Profile { learning: true, ..Profile::SEED };
    let mut script = Script::new(Mood::Works);
    script.comes("web", 1200, 200);
    script.comes("batch", 2500, 400);
    let (mut drive, _) = drive_with(script, &learning);
    record(&mut drive, &file, &learning);
    run(&mut drive, 100_000);
    let before = text_of(drive.node());
    let carried = std::mem::take(&mut drive.outside().carried);

    // Other constants hold, and every workload arrives anew.
    let other = Profile { fairness: Fairness::Nash, ..learning };
    for (name, wants) in [("web", 1200), ("batch", 2500)] {
        let limit = limit(&drive, name);
        drive.outside().comes(name, wants, limit);
    }
    let recorder = recorder(&file, &other, drive.outside().now);
    drive.start_over(Node::new(CAPACITY, other), Some(recorder));
    assert_eq!(drive.node().tables().count(), 2, "what was learned stays");
    run(&mut drive, 100_000);
    check_recording(&mut drive, &file, 3);

    let older = replayed(&folder.path().join("node.jsonl.1"));
    assert_eq!(older.actions, carried, "the recording before is whole");
    assert_eq!(older.node, before);
}

/// What came of a recording.
struct Replayed {
    actions: Vec<Action>,
    /// All that the node knows in the end.
    node: String,
}

fn recorder(file: &Path, profile: &Profile, now: Moment) -> Recorder {
    let to = RecordTo { file: file.to_owned(), max_mib: 10 };
    Recorder::start(&to, CAPACITY, profile, now).unwrap()
}

fn record(drive: &mut Drive<Script>, file: &Path, profile: &Profile) {
    let recorder = recorder(file, profile, drive.outside().now);
    drive.record_to(recorder);
}

fn replayed(file: &Path) -> Replayed {
    let text = std::fs::read_to_string(file).unwrap();
    let mut replay = Replay::new();
    let mut actions = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let fact = parse_line(line.as_bytes(), number).unwrap_or_else(|error| panic!("{error}"));
        let ticked = replay.take_in(number, &fact).unwrap_or_else(|error| panic!("{error}"));
        actions.extend(ticked.into_iter().flat_map(|ticked| ticked.outcome.actions));
    }
    Replayed { actions, node: text_of(replay.node().unwrap()) }
}

/// All that a node knows, and all that it learned. What follows from equal text is equal.
fn text_of(node: &Node) -> String {
    let tables: Vec<String> = node.tables().map(|(_, table)| table.save()).collect();
    format!("{node:#?}\n{tables:#?}")
}

/// The recording leads to the actions that were carried out, more than `least` of them, and to a
/// node that knows the same, byte for byte.
fn check_recording(drive: &mut Drive<Script>, file: &Path, least: usize) {
    let replayed = replayed(file);
    assert!(replayed.actions.len() > least, "{}", replayed.actions.len());
    assert_eq!(replayed.actions, drive.outside().carried);
    assert_eq!(replayed.node, text_of(drive.node()));
}

#[test]
fn a_recording_stops_where_it_is_full_and_the_one_before_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.jsonl");
    std::fs::write(&file, "before").unwrap();
    let to = RecordTo { file: file.clone(), max_mib: 1 };
    let mut recorder = Recorder::start(&to, CAPACITY, &Profile::DIRECT, Moment::ORIGIN).unwrap();
    let event = || {
        let uid = WorkloadUid::new(&"x".repeat(500));
        walras_wire::replay::Event::Applied(walras_wire::replay::Applied { uid })
    };
    let mut stopped = Vec::new();
    for at in 0..4000 {
        recorder.fact(Moment::from_ms(at), event());
        stopped.extend(recorder.flush().map(|stopped| stopped.to_string()));
    }
    assert_eq!(stopped.len(), 1, "{stopped:?}");
    assert!(stopped[0].ends_with("the recording has reached 1 MiB and stops here"));
    assert!(std::fs::metadata(&file).unwrap().len() <= 1024 * 1024);
    assert_eq!(std::fs::read_to_string(folder.path().join("node.jsonl.1")).unwrap(), "before");
}

#[test]
fn a_recording_that_cannot_be_made_is_refused() {
    let to = RecordTo { file: "/nowhere/at/all".into(), max_mib: 1 };
    let told = Recorder::start(&to, CAPACITY, &Profile::DIRECT, Moment::ORIGIN).unwrap_err();
    assert!(told.to_string().starts_with("/nowhere/at/all: the recording cannot be written: "));
}
