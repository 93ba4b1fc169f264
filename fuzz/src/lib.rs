//! What must hold for any bytes at all: one check per fuzz target.
//!
//! libFuzzer calls the checks through `targets/`, on nightly; `tests/corpus.rs` calls them over the
//! committed corpus, on stable. A check fails by panicking.

use serde::Serialize;
use walras_brain::data::Rows;
use walras_brain::features::{Filler, NodeFacts, Order, PodFacts};
use walras_brain::label::LabelSettings;
use walras_brain::verdict::Verdict;
use walras_core::learn::{LearnConfig, QTable};
use walras_core::node::{Loop, Node};
use walras_core::parse;
use walras_core::permit::{Ask, Ledger, PerResource, Terms, VmTerms};
use walras_core::profile::{CapRule, Profile, ProfileName};
use walras_core::units::{Bytes, ComputeUnit, Millicores, Moment, Ratio, Resources};
use walras_wire::json::Lines;
use walras_wire::replay::{Replay, TickLine, parse_line};
use walras_wire::vm::informant::{self, ResourceMessage};
use walras_wire::vm::permit;

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The name of the target and of its folder in the corpus.
    pub name: &'static str,
    /// The check.
    pub run: fn(&[u8]),
}

/// All of them.
pub const CHECKS: &[Check] = &[
    Check { name: "parse_cpu_stat", run: parse_cpu_stat },
    Check { name: "parse_cpu_max", run: parse_cpu_max },
    Check { name: "parse_cpu_weight", run: parse_cpu_weight },
    Check { name: "parse_pressure", run: parse_pressure },
    Check { name: "parse_memory", run: parse_memory },
    Check { name: "parse_quantity", run: parse_quantity },
    Check { name: "load_table", run: load_table },
    Check { name: "clear_input", run: clear_input },
    Check { name: "replay_input", run: replay_input },
    Check { name: "vm_messages", run: vm_messages },
    Check { name: "load_model", run: load_model },
    Check { name: "brain_events", run: brain_events },
];

/// `cpu.stat` of both layouts; the two files of v1 are separated by a zero byte.
pub fn parse_cpu_stat(bytes: &[u8]) {
    let (first, second) = two_files(bytes);
    drop(parse::cpu_stat_v2(bytes));
    if let Ok(stat) = parse::cpu_stat_v1(first, second) {
        assert!(stat.bandwidth.is_some(), "v1 always tells of throttling");
    }
}

/// `cpu.max`, its burst, and the two files of v1.
pub fn parse_cpu_max(bytes: &[u8]) {
    let (quota, period) = two_files(bytes);
    for max in [parse::cpu_max(bytes), parse::cpu_max_v1(quota, period)].into_iter().flatten() {
        let limit = max.limit_floor();
        assert_eq!(limit.is_none(), max.quota.is_none(), "a quota is a limit");
        assert!(limit.is_none_or(|limit| limit <= Millicores::LIMIT), "{limit:?}");
    }
    drop(parse::cpu_max_burst(bytes));
}

/// `cpu.weight` and `cpu.shares`, which have ranges.
pub fn parse_cpu_weight(bytes: &[u8]) {
    if let Ok(weight) = parse::cpu_weight(bytes) {
        assert!((1..=10_000).contains(&weight.get()), "{weight:?}");
    }
    if let Ok(shares) = parse::cpu_shares(bytes) {
        assert!((2..=262_144).contains(&shares.get()), "{shares:?}");
    }
}

/// Pressure of CPU and memory, which have one format.
pub fn parse_pressure(bytes: &[u8]) {
    assert_eq!(parse::cpu_pressure(bytes).is_ok(), parse::memory_pressure(bytes).is_ok());
}

/// Every memory file of both layouts.
pub fn parse_memory(bytes: &[u8]) {
    drop(parse::memory_stat(bytes));
    drop(parse::memory_events(bytes));
    drop(parse::memory_high(bytes));
    // "max" is the only thing that `memory.max` may hold and a plain number may not be.
    if let Ok(Some(limit)) = parse::memory_max(bytes) {
        assert_eq!(parse::memory_current(bytes), Ok(limit));
    }
    assert_eq!(parse::memory_usage_v1(bytes).is_ok(), parse::memory_limit_v1(bytes).is_ok());
}

/// What is written canonically means the same when it is read again.
pub fn parse_quantity(bytes: &[u8]) {
    let Ok(quantity) = parse::quantity(bytes) else {
        return;
    };
    let written = quantity.to_string();
    assert_eq!(parse::quantity(written.as_bytes()), Ok(quantity), "{written}");
    if let Some(exact) = quantity.millicores_exact() {
        assert_eq!(quantity.millicores_ceil(), Ok(exact));
    }
}

/// A table that was accepted is saved and loaded without a difference; a refused one is replaced.
pub fn load_table(bytes: &[u8]) {
    let config = LearnConfig::DEFAULT;
    let (table, refused) = QTable::load(bytes, 1, &config);
    if refused.is_some() {
        assert_eq!(table, QTable::new(1, &config), "a refused table is a fresh one");
        return;
    }
    let (again, refused) = QTable::load(table.save().as_bytes(), 2, &config);
    assert_eq!((again, refused), (table, None));
}

/// A market that was accepted clears within its capacity, by whichever rules.
pub fn clear_input(bytes: &[u8]) {
    for name in ProfileName::ALL {
        clear_as(&Profile::named(name), bytes);
    }
}

fn clear_as(profile: &Profile, bytes: &[u8]) {
    let Ok(market) = walras_wire::market::read(bytes, profile) else {
        return;
    };
    let clearing = market.clear();
    let total: Millicores = clearing.grants.iter().map(|grant| grant.amount).sum();
    assert_eq!(total, clearing.total_grant);
    assert!(total <= market.terms.capacity, "{total} of {}", market.terms.capacity);
    assert_eq!(clearing.grants.len(), market.workloads().len());
}

/// Every clearing of a recording leaves the node within its capacity and its over-commit, up to the
/// line that is refused.
pub fn replay_input(bytes: &[u8]) {
    let mut lines = Lines::new(bytes);
    let mut replay = Replay::new();
    while let Ok(Some((number, line))) = lines.next_line() {
        let before = limits(&replay);
        let taken = parse_line(line, number).and_then(|fact| replay.take_in(number, &fact));
        let Ok(ticked) = taken else {
            return;
        };
        let Some(ticked) = ticked else {
            continue;
        };
        for action in &ticked.outcome.actions {
            assert!(action.burst <= action.limit, "{action:?}");
            assert!(action.request <= action.limit, "{action:?}");
        }
        drop(TickLine::new(&ticked));
        let node = replay.node().expect("nothing ticks before it was set up");
        match ticked.outcome.tick {
            Loop::Slow => stays_within(node, &before, number),
            // Pods may have arrived with more than there is since the last clearing.
            Loop::Fast => {}
        }
    }
    drop(replay.end());
}

/// Every message about virtual machines that is accepted is written so that it is read as the same;
/// and whatever is asked for, a ledger permits no more than there is.
pub fn vm_messages(bytes: &[u8]) {
    if let Ok(request) = permit::read_request(bytes) {
        let written = again(&request);
        assert_eq!(permit::read_request(&written).expect("what was written is read"), request);
        permitted(&request.ask(Bytes::new(1 << 30), Some(1)));
    }
    if let Ok(response) = permit::read_response(bytes) {
        let written = again(&response);
        assert_eq!(permit::read_response(&written).expect("what was written is read"), response);
    }
    if let Ok(agent) = informant::read_agent(bytes) {
        let written = again(&agent);
        assert_eq!(informant::read_agent(&written).expect("what was written is read"), agent);
    }
    if let Ok(message) = informant::read_numbered::<ResourceMessage>(bytes) {
        let written = again(&message);
        let read = informant::read_numbered(&written).expect("what was written is read");
        assert_eq!(message, read);
    }
    drop(informant::read::<informant::DownscaleResult>(bytes));
    drop(informant::read::<informant::MoreResources>(bytes));
    drop(informant::read::<informant::InformantDesc>(bytes));
}

fn again(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages can be written")
}

/// Asks a ledger on a node of 4 CPUs and 16 GiB, twice.
fn permitted(ask: &Ask) {
    let most = Resources::new(Millicores::from_cores(4), Bytes::new(16 << 30));
    let one = Resources::new(Millicores::new(250), Bytes::new(1 << 30));
    let mut ledger = Ledger::new(Terms {
        capacity: most,
        overcommit: PerResource::both(Ratio::ONE),
        watermark: PerResource::both(Ratio::ONE),
        system: Resources::ZERO,
        unit: ComputeUnit::new(one).expect("neither is zero"),
        moves_at_once: 1,
    });
    let terms = VmTerms { max: most, scales: true, may_move: true };
    ledger.vm_found(ask.vm.clone(), terms, one, most);
    for sequence in [1, 2] {
        let ask = Ask { sequence: Some(sequence), ..ask.clone() };
        if let Ok(answer) = ledger.ask(&ask, Moment::ORIGIN) {
            assert!(answer.permit.fits(ask.wanted), "{answer:?} to {ask:?}");
            assert!(ledger.standing().held.fits(most), "{answer:?} to {ask:?}");
        }
    }
}

/// A model of any kind that was accepted gives sane scores, and is the same after it was saved.
pub fn load_model(bytes: &[u8]) {
    for said in [None, Some(Order::Document), Some(Order::Kubeattention)] {
        let Ok(file) = walras_brain::file::read(bytes, said) else {
            continue;
        };
        let mut verdict = [Verdict::NO_MODEL];
        file.model.score(&PodFacts::default(), &[NodeFacts::UNKNOWN], &mut verdict);
        assert!((0.0..=100.0).contains(&verdict[0].score), "{verdict:?}");
        assert!((0.0..=1.0).contains(&verdict[0].confidence), "{verdict:?}");
        // A tree may be larger than our own format holds.
        let Ok(saved) = walras_brain::file::write(&file) else {
            continue;
        };
        let again = walras_brain::file::read(&saved, None).expect("what was saved is read");
        assert_eq!(walras_brain::file::write(&again), Ok(saved));
    }
}

/// Labels of events that were accepted are in their range, and inputs are numbers.
pub fn brain_events(bytes: &[u8]) {
    let events = walras_brain::events::read(bytes);
    let rows = Rows::of(&events.events, &LabelSettings::default());
    let matrix = rows.matrix(0..rows.rows.len(), Order::Document, Filler::Typical);
    let matrix = matrix.expect("what is not finite is no event");
    assert!(matrix.labels.iter().all(|label| (0.0..=1.0).contains(label)));
    assert!(matrix.inputs.as_flattened().iter().all(|value| (0.0..=1.0).contains(value)));
}

/// The limits in force, in uid order.
fn limits(replay: &Replay) -> Vec<Millicores> {
    let workloads = replay.node().into_iter().flat_map(Node::workloads);
    workloads.map(|workload| workload.in_force.limit).collect()
}

/// What is in force after a clearing adds up, except that no limit is cut by more than a step.
fn stays_within(node: &Node, before: &[Millicores], line: u64) {
    let capacity = node.capacity();
    let granted = node.workloads().filter_map(|workload| workload.grant).map(|grant| grant.amount);
    let granted: Millicores = granted.sum();
    assert!(granted <= capacity, "line {line}: grants of {granted} on {capacity}");
    if node.profile().cap_rule == CapRule::Loose {
        // Loose caps and requests are what workloads came with, whatever that adds up to.
        return;
    }
    let requests: Millicores = node.workloads().map(|workload| workload.in_force.request).sum();
    assert!(requests <= capacity, "line {line}: requests of {requests} on {capacity}");
    let step = node.profile().max_step_milli;
    let mut workloads = node.workloads().zip(before);
    let stepping = workloads.any(|(it, &before)| it.in_force.limit + step == before.min(capacity));
    let limits: Millicores = node.workloads().map(|workload| workload.in_force.limit).sum();
    let budget = node.limit_budget();
    assert!(
        limits <= budget || stepping,
        "line {line}: limits of {limits} where {budget} are the most"
    );
}

fn two_files(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|&byte| byte == 0) {
        Some(place) => (&bytes[..place], &bytes[place + 1..]),
        None => (bytes, bytes),
    }
}
