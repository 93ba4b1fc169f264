//! One node's market, driven by scripts: the cases in `testdata/node`. A script is what a driver
//! would do, a line each; what follows the dashes is what the market decided.

mod constants;
mod fixture;

use std::collections::BTreeMap;
use std::fmt::Write;

use fixture::Case;
use walras_core::claim::{CameWith, Nature};
use walras_core::demand::Sample;
use walras_core::learn::{self, Experience, LearnConfig, QTable, State};
use walras_core::need::Bounds;
use walras_core::node::{MachineSample, Node, Note, Outcome, WorkloadFacts};
use walras_core::profile::{Profile, ProfileName, Value};
use walras_core::request::RequestRule;
use walras_core::units::{FamilyKey, Millicores, Moment, Span, Weight, WorkloadUid};

#[test]
fn a_node_decides_as_scripted() {
    for text in [
        include_str!("../testdata/node/fast.txt"),
        include_str!("../testdata/node/slow.txt"),
        include_str!("../testdata/node/faults.txt"),
        include_str!("../testdata/node/learning.txt"),
        include_str!("../testdata/node/signals.txt"),
        include_str!("../testdata/node/serve.txt"),
    ] {
        for case in fixture::read(text) {
            fixture::compare(&case, &run(&case));
        }
    }
}

/// What a script has built up so far.
struct Stage {
    node: Node,
    /// Each workload's counters, which the script gives as differences.
    counters: BTreeMap<String, Sample>,
    /// The machine's, given likewise.
    machine: MachineSample,
    now: Moment,
    shown: String,
}

fn run(case: &Case) -> String {
    let mut lines = case.input.lines();
    let mut stage = Stage {
        node: open(lines.next().expect("a first line")),
        counters: BTreeMap::new(),
        machine: MachineSample::default(),
        now: Moment::ORIGIN,
        shown: String::new(),
    };
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        stage.now = Moment::from_ms(number(words[0]));
        stage.step(words[1], &words[2..]);
    }
    stage.shown
}

/// `capacity PROFILE key=value...`
fn open(line: &str) -> Node {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = ProfileName::ALL.into_iter().find(|name| name.name() == words[1]);
    let mut profile = constants::pinned(name.expect("a profile"));
    for setting in &words[2..] {
        let (key, value) = setting.split_once('=').expect("key=value");
        let value = match (value.parse::<f64>(), value.parse::<bool>()) {
            (Ok(number), _) => Value::Number(number),
            (_, Ok(flag)) => Value::Flag(flag),
            (Err(_), Err(_)) => Value::Word(value.to_owned()),
        };
        profile.set(key, &value).expect("a good setting");
    }
    Node::new(Millicores::new(number(words[0])), profile)
}

impl Stage {
    fn step(&mut self, verb: &str, rest: &[&str]) {
        let uid = WorkloadUid::new(rest.first().copied().unwrap_or_default());
        let (node, now) = (&mut self.node, self.now);
        match verb {
            "workload" => node.workload_added(workload_facts(uid, &rest[1..]), now),
            "gone" => node.workload_removed(&uid),
            "capacity" => node.capacity_changed(Millicores::new(number(rest[0]))),
            "applied" => node.limit_took_effect(&uid, now),
            "found" => node.limit_found(&uid, Millicores::new(number(rest[1]))),
            "latency" => node.latency_judged(&uid, rest[1] == "missed"),
            "table" => node.table_restored(FamilyKey::new(rest[0]), rest[1].as_bytes()),
            "prefers" => {
                let table = preferring(rest[1], rest[2]);
                node.table_restored(FamilyKey::new(rest[0]), table.save().as_bytes());
            }
            "ran" | "stale" | "reset" => self.sample(verb, rest),
            "machine" => {
                let more =
                    |span: Span, word: &str| Span::from_ms(span.as_ms_floor() + number(word));
                let MachineSample { idle, busy, .. } = self.machine;
                let (idle, busy) = (more(idle, rest[0]), more(busy, rest[1]));
                self.machine = MachineSample { at: now, idle, busy };
                node.machine_sampled(self.machine);
            }
            "fast" => {
                let outcome = node.fast_tick(now);
                self.show(&outcome);
            }
            "slow" => {
                let outcome = node.slow_tick(now);
                self.show(&outcome);
            }
            "due" => {
                let due: Vec<&str> = node.due_for_sample(now).map(WorkloadUid::as_str).collect();
                writeln!(self.shown, "due {}", due.join(" ")).expect("a string takes all");
            }
            "workloads" => self.show_workloads(),
            "learned" => self.show_tables(),
            unknown => panic!("no verb {unknown}"),
        }
    }

    /// `ran WORKLOAD used_ms throttled_ms throttled/periods [waited_ms]`: what it did since its
    /// last sample.
    fn sample(&mut self, verb: &str, rest: &[&str]) {
        let counters = self.counters.entry(rest[0].to_owned()).or_default();
        if verb == "reset" {
            *counters = Sample::default();
        } else if verb == "ran" {
            let (throttled, periods) = rest[3].split_once('/').expect("throttled/periods");
            *counters = Sample {
                at: counters.at,
                usage: Span::from_ms(counters.usage.as_ms_floor() + number(rest[1])),
                throttled: Span::from_ms(counters.throttled.as_ms_floor() + number(rest[2])),
                nr_periods: counters.nr_periods + number(periods),
                nr_throttled: counters.nr_throttled + number(throttled),
                stalled: rest.get(4).map(|waited| {
                    let before = counters.stalled.unwrap_or_default().as_ms_floor();
                    Span::from_ms(before + number(waited))
                }),
            };
        }
        counters.at = self.now;
        let sample = *counters;
        self.node.sampled(&WorkloadUid::new(rest[0]), sample);
    }

    fn show(&mut self, outcome: &Outcome) {
        let Outcome { tick, mode, price, wake_at, wake_for, .. } = outcome;
        let (tick, wake_for) = (tick.name(), wake_for.name());
        let wake_at = wake_at.as_ms_floor();
        writeln!(self.shown, "{tick} {mode} price {price} next {wake_for} at {wake_at}")
            .expect("a string takes all");
        for action in &outcome.actions {
            writeln!(
                self.shown,
                "  {} limit {} request {} weight {} burst {}: {}",
                action.uid,
                action.limit,
                action.request,
                action.weight.get(),
                action.burst,
                action.why
            )
            .expect("a string takes all");
        }
        for note in &outcome.notes {
            writeln!(self.shown, "  ({note})").expect("a string takes all");
        }
    }

    /// What each workload did since the last clearing, and what came of it there.
    fn show_workloads(&mut self) {
        for workload in self.node.workloads() {
            let usage = workload.signal.map_or(Millicores::ZERO, |signal| signal.usage);
            let need = workload.need.expect("a clearing came first");
            let grant = workload.grant.expect("a clearing came first").amount;
            write!(self.shown, "{} used {usage}, needs {need}, granted {grant}", workload.uid)
                .expect("a string takes all");
            if workload.lent > Millicores::ZERO {
                write!(self.shown, ", lends {}", workload.lent).expect("a string takes all");
            }
            self.shown.push('\n');
        }
    }

    /// The values that are not zero, of every table.
    fn show_tables(&mut self) {
        for (family, table) in self.node.tables() {
            for state in State::all() {
                for action in learn::Action::ALL {
                    let value = table.value(state, action);
                    if value != 0.0 {
                        writeln!(self.shown, "{family} {action} in {state}: {value:.4}")
                            .expect("a string takes all");
                    }
                }
            }
        }
    }
}

/// A table that holds `action` to be worth so much in every state, and all else nothing.
fn preferring(action: &str, worth: &str) -> QTable {
    let at_once = LearnConfig { learning_rate: 1.0, discount: 0.0, ..LearnConfig::DEFAULT };
    let found = learn::Action::ALL.into_iter().find(|known| known.to_string() == action);
    let action = found.expect("an action");
    let reward = worth.parse().expect("a worth");
    let mut table = QTable::new(0, &at_once);
    for state in State::all() {
        table.update(&Experience { state, action, reward, next: state }, &at_once);
    }
    table
}

/// `min max limit|none [weight=N] [request=N] [family=NAME] [came_limit=N|none] [came_request=N]
/// [nature=batch|service]`. Unless said otherwise, it came with the limit that is in force.
fn workload_facts(uid: WorkloadUid, words: &[&str]) -> WorkloadFacts {
    let milli = |word: &str| Millicores::new(number(word));
    let limit = |word: &str| (word != "none").then(|| milli(word));
    let mut facts = WorkloadFacts {
        uid,
        family: None,
        bounds: Bounds::new(milli(words[0]), milli(words[1])),
        weight: Weight::ONE,
        limit: limit(words[2]).unwrap_or(Millicores::UNLIMITED),
        request: None,
        came_with: CameWith { request: None, limit: limit(words[2]), weight: None },
        nature: Nature::Unknown,
        request_rule: RequestRule::Kept,
    };
    for word in &words[3..] {
        match word.split_once('=').expect("key=value") {
            ("weight", value) => {
                let thousandths = u32::try_from(number(value) * 1000).expect("a small weight");
                facts.weight = Weight::from_thousandths(thousandths).expect("a weight");
            }
            ("request", value) => facts.request = Some(milli(value)),
            ("came_limit", value) => facts.came_with.limit = limit(value),
            ("came_request", value) => facts.came_with.request = Some(milli(value)),
            ("nature", "batch") => facts.nature = Nature::Batch,
            ("nature", "service") => facts.nature = Nature::Service,
            ("family", value) => facts.family = Some(FamilyKey::new(value)),
            (unknown, _) => panic!("no key {unknown}"),
        }
    }
    facts
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

#[test]
fn a_recreated_workload_keeps_what_its_family_learned() {
    let mut node = Node::new(Millicores::from_cores(4), Profile::SEED);
    let facts = |uid: &str| {
        let mut facts = workload_facts(WorkloadUid::new(uid), &["100", "4000", "500"]);
        facts.family = Some(FamilyKey::new("shop/web"));
        facts
    };
    let mut sample = Sample::default();
    node.workload_added(facts("web-1"), Moment::ORIGIN);
    for round in 1..=20 {
        sample.at = Moment::from_ms(round * 15_000);
        sample.usage = Span::from_ms(round * 7_000);
        sample.nr_periods = round * 150;
        node.sampled(&WorkloadUid::new("web-1"), sample);
        node.slow_tick(sample.at);
    }
    let learned = node.tables().next().expect("a table").1.clone();
    assert!(learned.updates() > 10, "{} updates", learned.updates());
    node.workload_removed(&WorkloadUid::new("web-1"));
    node.workload_added(facts("web-2"), sample.at);
    let kept: Vec<_> = node.tables().map(|(key, table)| (key.as_str(), table)).collect();
    assert_eq!(kept, [("shop/web", &learned)]);

    // The same table, saved and brought back to a node that was started anew.
    let mut restarted = Node::new(Millicores::from_cores(4), Profile::SEED);
    restarted.table_restored(FamilyKey::new("shop/web"), learned.save().as_bytes());
    let restored: Vec<_> = restarted.tables().map(|(_, table)| table).collect();
    assert_eq!(restored, [&learned]);
    let fresh = QTable::new(0, &LearnConfig::DEFAULT);
    assert_ne!(restored, [&fresh]);
}

#[test]
fn notes_beyond_what_is_kept_are_counted() {
    let mut node = Node::new(Millicores::from_cores(4), Profile::DIRECT);
    let uid = WorkloadUid::new("stranger");
    for _ in 0..1030 {
        node.workload_removed(&uid);
    }
    let notes = node.fast_tick(Moment::ORIGIN).notes;
    let (last, kept) = notes.split_last().expect("some notes");
    assert_eq!(kept.len(), 1024);
    assert!(
        kept.iter().all(|note| *note == Note::UnknownWorkload { uid: uid.clone() }),
        "{kept:?}"
    );
    assert_eq!(*last, Note::NotesDropped { count: 6 });

    // What was told is not told again, and exactly as many as are kept drop none.
    assert_eq!(node.fast_tick(Moment::from_ms(200)).notes, []);
    for _ in 0..1024 {
        node.workload_removed(&uid);
    }
    let notes = node.fast_tick(Moment::from_ms(400)).notes;
    assert_eq!(notes.len(), 1024);
    assert_eq!(notes.last(), Some(&Note::UnknownWorkload { uid }));
}
