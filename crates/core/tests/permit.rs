//! One node's permits, driven by scripts: the cases in `testdata/permit`. A script is what a server
//! would hear, a line each; what follows the dashes is what it answered. Amounts are written as
//! millicores, a slash, and GiB.

mod fixture;

use std::fmt::Write;

use fixture::Case;
use walras_core::permit::{Ask, Ledger, PerResource, Standing, Terms, VmTerms};
use walras_core::units::{Bytes, ComputeUnit, Millicores, Moment, Ratio, Resources, VmName};

#[test]
fn a_ledger_answers_as_scripted() {
    for text in [
        include_str!("../testdata/permit/grants.txt"),
        include_str!("../testdata/permit/moves.txt"),
        include_str!("../testdata/permit/restart.txt"),
    ] {
        for case in fixture::read(text) {
            fixture::compare(&case, &run(&case));
        }
    }
}

fn run(case: &Case) -> String {
    let mut lines = case.input.lines();
    let mut ledger = Ledger::new(terms(lines.next().expect("a first line")));
    let mut shown = String::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let now = Moment::from_ms(words[0].parse::<u64>().expect("seconds") * 1000);
        if let Some(told) = step(&mut ledger, now, words[1], &words[2..]) {
            writeln!(shown, "{told}").expect("a string takes all");
        }
    }
    shown
}

/// `CAPACITY unit=... watermark=... overcommit=... system=... moves=...`
fn terms(line: &str) -> Terms {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ratio = |key: &str, usual: u64| {
        let percent = value(&words, key).map_or(usual, |text| text.parse().expect("percent"));
        PerResource::both(Ratio::from_millionths(percent * 10_000))
    };
    Terms {
        capacity: amount(words[0]),
        overcommit: ratio("overcommit", 100),
        watermark: ratio("watermark", 100),
        system: value(&words, "system").map_or(Resources::ZERO, amount),
        unit: ComputeUnit::new(amount(value(&words, "unit").unwrap_or("250/1"))).expect("a unit"),
        moves_at_once: value(&words, "moves").map_or(0, |text| text.parse().expect("a count")),
    }
}

fn step(ledger: &mut Ledger, now: Moment, verb: &str, rest: &[&str]) -> Option<String> {
    let vm = VmName::new(rest.first().copied().unwrap_or_default());
    let second = || amount(rest[1]);
    match verb {
        "started" => ledger.vm_started(vm, vm_terms(rest), second()),
        "found" => {
            let terms = vm_terms(rest);
            let most = value(rest, "most").map_or(terms.max, amount);
            ledger.vm_found(vm, terms, second(), most);
        }
        "changed" => ledger.vm_changed(&vm, vm_terms(rest)),
        "seen" => ledger.vm_seen(&vm, second()),
        "moved" => ledger.vm_moved(&vm, now),
        "gone" => ledger.vm_gone(&vm),
        "moving" => ledger.move_started(&vm, now),
        "stays" => ledger.move_failed(&vm),
        "others" => ledger.others_changed(amount(rest[0])),
        "capacity" => {
            let terms = Terms { capacity: amount(rest[0]), ..*ledger.terms() };
            ledger.terms_changed(terms);
        }
        "admits" => return Some(format!("admits {}", ledger.admits(amount(rest[0])))),
        "ask" => return Some(asked(ledger, now, rest)),
        "standing" => return Some(standing(&ledger.standing())),
        unknown => panic!("no verb {unknown}"),
    }
    None
}

fn asked(ledger: &mut Ledger, now: Moment, rest: &[&str]) -> String {
    let load = |text: &str| Ratio::from_millionths(text.parse::<u64>().expect("a load") * 10_000);
    let ask = Ask {
        vm: VmName::new(rest[0]),
        wanted: amount(rest[1]),
        last_permit: value(rest, "last").map(amount),
        load: value(rest, "load").map(load),
        sequence: value(rest, "seq").map(|text| text.parse().expect("a number")),
    };
    match ledger.ask(&ask, now) {
        Ok(answer) => {
            let moves = if answer.migrate { " migrate" } else { "" };
            format!("{} {}{moves}", rest[0], show(answer.permit))
        }
        Err(refusal) => refusal.to_string(),
    }
}

fn standing(standing: &Standing) -> String {
    let Standing { budget, watermark, others, held, logical, denied, accounted } = standing;
    let pressed = if standing.is_pressed() { "pressed" } else { "fine" };
    format!(
        "{pressed}: budget {} watermark {} others {} held {} logical {} denied {} accounted {}",
        show(*budget),
        show(*watermark),
        show(*others),
        show(*held),
        show(*logical),
        show(*denied),
        show(*accounted)
    )
}

fn vm_terms(words: &[&str]) -> VmTerms {
    VmTerms {
        max: amount(value(words, "max").expect("a max")),
        scales: !words.contains(&"fixed"),
        may_move: words.contains(&"moves"),
    }
}

fn value<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn amount(text: &str) -> Resources {
    let (cpu, gib) = text.split_once('/').expect("cpu/memory");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    Resources::new(Millicores::new(number(cpu)), Bytes::new(number(gib) << 30))
}

fn show(amount: Resources) -> String {
    format!("{}/{}", amount.cpu.get(), amount.memory.get() >> 30)
}
