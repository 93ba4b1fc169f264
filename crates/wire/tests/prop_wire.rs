//! What must hold for any input: a valid one is accepted and its sums are right, garbage is refused
//! with words, and nothing panics.
//!
//! Case `k` of a run is drawn from the seed `WALRAS_SEED + k`, and a broken case names its seed.
#![expect(clippy::print_stdout, reason = "seeds and numbers of cases are the point")]

use std::fmt::Write;

use serde_json::{Value, json};
use walras_core::learn::{LearnConfig, QTable};
use walras_core::node::{Loop, Node};
use walras_core::profile::{CapRule, Profile, ProfileName};
use walras_core::request::UseRecord;
use walras_core::rng::Rng;
use walras_core::units::Millicores;
use walras_wire::field::SHOWN_MAX;
use walras_wire::json::{Lines, ReadError};
use walras_wire::market::{self, ClearOutput};
use walras_wire::replay::{self, Replay, TickLine};

/// Runs `check` with one generator after the other.
fn check(test: &str, cases: u64, check: impl Fn(&mut Rng)) {
    let first = from_environment("WALRAS_SEED").unwrap_or(1);
    let cases = from_environment("WALRAS_CASES").unwrap_or(cases);
    println!("{test}: {cases} cases from seed {first}");
    for seed in (0..cases).map(|place| first.wrapping_add(place)) {
        let _named = NameSeed { test, seed };
        check(&mut Rng::from_seed(seed));
    }
}

/// Names the seed of a case that panics.
struct NameSeed<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for NameSeed<'_> {
    fn drop(&mut self) {
        let Self { test, seed } = self;
        if std::thread::panicking() {
            println!(
                "run it again: WALRAS_SEED={seed} WALRAS_CASES=1 cargo test --package walras-wire \
                 {test}"
            );
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a broken case is run again by its seed")]
fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// An amount of CPU: mostly ordinary, at times extreme.
fn amount(rng: &mut Rng) -> u64 {
    let limit = Millicores::LIMIT.get();
    match rng.below(10) {
        0 => 0,
        1 => limit,
        2 => rng.below(limit + 1),
        _ => rng.below(5000),
    }
}

fn bounds(rng: &mut Rng) -> (u64, u64) {
    let (a, b) = (amount(rng), amount(rng));
    (a.min(b), a.max(b))
}

fn weight(rng: &mut Rng) -> Value {
    match rng.below(4) {
        0 => json!(0.001),
        1 => json!(1_000_000),
        2 => json!(rng.below(10) + 1),
        _ => json!(0.001 + rng.unit() * 10.0),
    }
}

fn pick<'a>(rng: &mut Rng, words: &[&'a str]) -> &'a str {
    let place = rng.below(u64::try_from(words.len()).expect("short"));
    words[usize::try_from(place).expect("below the length")]
}

fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

fn market(rng: &mut Rng) -> Value {
    let workloads = rng.below(30);
    let workloads: Vec<Value> = (0..workloads).map(|place| workload(rng, place)).collect();
    let mut market = json!({ "capacity_milli": amount(rng), "pods": workloads });
    if chance(rng, 50) {
        market["fairness"] = json!(pick(rng, &["proportional", "nash"]));
    }
    if chance(rng, 30) {
        market["demand_capped"] = json!(chance(rng, 50));
    }
    if chance(rng, 30) {
        let mode = pick(rng, &["uncongested", "congested", "overloaded"]);
        market["previous_mode"] = json!(mode);
    }
    market
}

fn workload(rng: &mut Rng, place: u64) -> Value {
    let (min, max) = bounds(rng);
    let uid = format!("{}-{place}", rng.below(1000));
    let mut workload =
        json!({ "uid": uid, "demand": rng.unit(), "min_milli": min, "max_milli": max });
    if chance(rng, 50) {
        workload["weight"] = weight(rng);
    }
    if chance(rng, 30) {
        workload["usage_milli"] = json!(amount(rng));
    }
    if chance(rng, 30) {
        workload["need_milli"] = json!(amount(rng));
    }
    if chance(rng, 30) {
        workload["headroom_misses"] = json!(rng.below(u64::from(u32::MAX) + 1));
    }
    workload
}

fn profile(rng: &mut Rng) -> Profile {
    let names = ProfileName::ALL;
    let place = rng.below(u64::try_from(names.len()).expect("few"));
    Profile::named(names[usize::try_from(place).expect("few")])
}

#[test]
fn any_valid_market_is_cleared_within_its_capacity() {
    check("any_valid_market_is_cleared_within_its_capacity", 3000, |rng| {
        let text = market(rng).to_string();
        let profile = profile(rng);
        let market = market::read(text.as_bytes(), &profile)
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let clearing = market.clear();
        let total: Millicores = clearing.grants.iter().map(|grant| grant.amount).sum();
        assert_eq!(total, clearing.total_grant);
        assert!(total <= market.terms.capacity, "{total}\n{text}");
        for (workload, grant) in market.granted(&clearing) {
            assert!(grant.amount <= workload.bounds.max(), "{}: {grant:?}\n{text}", workload.uid);
        }
        let output = serde_json::to_value(ClearOutput::new(&market, &clearing)).expect("JSON");
        assert_eq!(output["pods"].as_array().map(Vec::len), Some(market.workloads().len()));
    });
}

#[test]
fn the_answer_does_not_depend_on_the_order_of_the_workloads() {
    check("the_answer_does_not_depend_on_the_order_of_the_pods", 500, |rng| {
        let mut document = market(rng);
        let profile = profile(rng);
        let allocations = |document: &Value| {
            let market = market::read(document.to_string().as_bytes(), &profile).expect("valid");
            let clearing = market.clear();
            let workloads = market.granted(&clearing);
            let mut workloads: Vec<_> =
                workloads.map(|(workload, grant)| (workload.uid.clone(), *grant)).collect();
            workloads.sort_by(|a, b| a.0.cmp(&b.0));
            (clearing.mode, clearing.price, workloads)
        };
        let straight = allocations(&document);
        document["pods"].as_array_mut().expect("a list").reverse();
        assert_eq!(allocations(&document), straight, "{document}");
    });
}

/// Facts of a node as lines of text, in order of time.
fn facts(rng: &mut Rng) -> String {
    let mut text = String::new();
    let profile = pick(rng, &["seed", "direct", "api"]);
    let config = json!({ "type": "config", "capacity_milli": amount(rng), "profile": profile });
    writeln!(text, "{config}").expect("memory");
    let (mut now, mut present, mut counters) = (0_u64, [false; 5], [0_u64; 5]);
    for _ in 0..rng.below(60) {
        now += rng.below(4000);
        let place = usize::try_from(rng.below(5)).expect("small");
        let uid = format!("pod-{place}");
        let fact = match rng.below(15) {
            0..=2 if !present[place] || chance(rng, 10) => {
                present[place] = true;
                let (min, max) = bounds(rng);
                json!({ "type": "pod_added", "uid": uid, "min_milli": min, "max_milli": max,
                        "weight": weight(rng), "limit_milli": amount(rng),
                        "request_rule": chance(rng, 30).then_some("follows") })
            }
            0 => {
                present[place] = false;
                json!({ "type": "pod_removed", "uid": uid })
            }
            1..=5 => {
                // A counter goes backwards at times, and wide jumps are made.
                let step = if chance(rng, 5) { rng.next_u64() } else { rng.below(4_000_000) };
                counters[place] = counters[place].wrapping_add(step);
                let usage = counters[place];
                json!({ "type": "sample", "uid": uid, "usage_usec": usage,
                        "throttled_usec": usage / 7, "nr_periods": usage / 100_000,
                        "nr_throttled": usage / 700_000,
                        "stalled_usec": chance(rng, 50).then_some(usage / 3) })
            }
            6 => json!({ "type": "capacity", "capacity_milli": amount(rng) }),
            7 => json!({ "type": "applied", "uid": uid }),
            8 => json!({ "type": "latency", "uid": uid, "missed": chance(rng, 50) }),
            9 => json!({ "type": "tick", "loop": "slow" }),
            11 => {
                // Most are no tables, and those that are have learnt nothing.
                let table = QTable::new(rng.next_u64(), &LearnConfig::DEFAULT).save();
                let length = if chance(rng, 50) { table.len() } else { 20 };
                let hex: String =
                    table.bytes().take(length).map(|byte| format!("{byte:02x}")).collect();
                json!({ "type": "table_restored", "workload": uid, "saved_hex": hex })
            }
            12 => {
                let mut record = UseRecord::default();
                record.window_passed(&[Millicores::new(rng.below(4000))]);
                let saved = record.save();
                let length = if chance(rng, 50) { saved.len() } else { 20 };
                let hex: String =
                    saved.bytes().take(length).map(|byte| format!("{byte:02x}")).collect();
                json!({ "type": "use_restored", "workload": uid, "saved_hex": hex })
            }
            13 => json!({ "type": "allocatable", "allocatable_milli": amount(rng),
                "set_aside_milli": amount(rng) }),
            10 => json!({ "type": "found", "uid": uid, "limit_milli": amount(rng) }),
            _ => json!({ "type": "tick", "loop": "fast" }),
        };
        let mut fact = fact;
        fact["at_ms"] = json!(now);
        writeln!(text, "{fact}").expect("memory");
    }
    text
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
    let stepping =
        workloads.any(|(workload, &before)| workload.in_force.limit + step == before.min(capacity));
    let limits: Millicores = node.workloads().map(|workload| workload.in_force.limit).sum();
    let budget = node.limit_budget();
    assert!(
        limits <= budget || stepping,
        "line {line}: limits of {limits} where {budget} are the most"
    );
}

/// What `walras replay --json` prints, or what is wrong with the input. Every clearing leaves the
/// node within its capacity and its over-commit.
fn replay_all(text: &[u8]) -> Result<String, ReadError> {
    let mut lines = Lines::new(text);
    let mut replay = Replay::new();
    let mut output = String::new();
    while let Some((number, line)) = lines.next_line()? {
        let fact = replay::parse_line(line, number)?;
        let before = limits(&replay);
        if let Some(ticked) = replay.take_in(number, &fact)? {
            if ticked.outcome.tick == Loop::Slow {
                let node = replay.node().expect("nothing ticks before it was set up");
                stays_within(node, &before, number);
            }
            let line = serde_json::to_string(&TickLine::new(&ticked)).expect("JSON");
            writeln!(output, "{line}").expect("memory");
        }
    }
    replay.end()?;
    Ok(output)
}

#[test]
fn any_valid_history_is_replayed_the_same_way_twice() {
    check("any_valid_history_is_replayed_the_same_way_twice", 2000, |rng| {
        let text = facts(rng);
        let once = replay_all(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let again = replay_all(text.as_bytes()).expect("it was fine before");
        assert_eq!(once, again, "{text}");
        let ticks = text.lines().filter(|line| line.contains("\"tick\"")).count();
        assert_eq!(once.lines().count(), ticks, "{text}");
    });
}

/// Bytes that are no market and no fact: random ones, or valid ones with something done to them.
fn garbage(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = match rng.below(3) {
        0 => {
            let length = rng.below(200);
            return (0..length).map(|_| byte(rng)).collect();
        }
        1 => market(rng).to_string().into_bytes(),
        _ => facts(rng).into_bytes(),
    };
    for _ in 0..=rng.below(4) {
        let length = u64::try_from(bytes.len()).expect("short");
        let place = usize::try_from(rng.below(length)).expect("below the length");
        match rng.below(3) {
            0 => bytes.truncate(place),
            1 => {
                let byte = byte(rng);
                bytes.insert(place, byte);
            }
            _ => {
                let byte = byte(rng);
                if let Some(old) = bytes.get_mut(place) {
                    *old = byte;
                }
            }
        }
    }
    bytes
}

fn byte(rng: &mut Rng) -> u8 {
    const FAMILIAR: &[u8] = b"{}[]\":,0123456789.-+eE \n\\utrufalsn";
    if chance(rng, 70) {
        let place = rng.below(u64::try_from(FAMILIAR.len()).expect("short"));
        return FAMILIAR[usize::try_from(place).expect("below the length")];
    }
    u8::try_from(rng.below(256)).expect("a byte")
}

/// Whatever is said about bad input is short, and safe to print on a terminal.
fn check_words(error: &ReadError) {
    let words = error.to_string();
    assert!(!words.is_empty());
    assert!(words.lines().count() <= SHOWN_MAX + 2, "{words}");
    assert!(words.len() < 40_000, "{} bytes", words.len());
    let harmless = |letter: char| letter == '\n' || !letter.is_control();
    assert!(words.chars().all(harmless), "{words:?}");
}

#[test]
fn no_bytes_make_reading_panic_and_every_refusal_has_words() {
    check("no_bytes_make_reading_panic_and_every_refusal_has_words", 20_000, |rng| {
        let bytes = garbage(rng);
        if let Err(error) = market::read(bytes.as_slice(), &Profile::DIRECT) {
            check_words(&error);
        }
        if let Err(error) = replay_all(&bytes) {
            check_words(&error);
        }
    });
}

#[test]
fn random_bytes_are_always_refused() {
    check("random_bytes_are_always_refused", 5000, |rng| {
        let length = rng.below(300);
        let bytes: Vec<u8> =
            (0..length).map(|_| u8::try_from(rng.below(256)).expect("a byte")).collect();
        check_words(&market::read(bytes.as_slice(), &Profile::SEED).expect_err("garbage"));
        check_words(&replay_all(&bytes).expect_err("garbage"));
    });
}
