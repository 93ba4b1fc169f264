//! The agent of a virtual machine, driven by scripts with a clock of their own: the cases in
//! `testdata/vm`. A line is a moment in milliseconds and what happened then; the agent steps after
//! each, and what follows the dashes is exactly what it asked for, noted, and when it wants to be
//! woken. Amounts are written as millicores, a slash, and GiB.

mod fixture;

use std::fmt::Write;

use fixture::Case;
use walras_core::permit::Answer;
use walras_core::units::{Bytes, ComputeUnit, Millicores, Moment, Ratio, Resources};
use walras_core::vm::{
    Action, Agent, Goal, Memory, Metrics, Outcome, RequestId, Seen, Settings, VmBounds,
};

#[test]
fn an_agent_acts_as_scripted() {
    for text in [
        include_str!("../testdata/vm/ways.txt"),
        include_str!("../testdata/vm/faults.txt"),
        include_str!("../testdata/vm/goals.txt"),
    ] {
        for case in fixture::read(text) {
            fixture::compare(&case, &run(&case));
        }
    }
}

fn run(case: &Case) -> String {
    let mut lines = case.input.lines();
    let first: Vec<&str> = lines.next().expect("a first line").split_whitespace().collect();
    let mut agent = Agent::new(settings(&first), unit(&first), bounds(&first), 100);
    let mut shown = String::new();
    let mut version = 0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let now = Moment::from_ms(number(words[0]));
        let answers = Answers { version: &mut version, unit: unit(&first) };
        if words[1] == "goal" {
            writeln!(shown, "{}", show_goal(agent.goal(now))).expect("a string takes all");
            continue;
        }
        answers.tell(&mut agent, words[1], &words[2..], now);
        let told = show(&agent.step(now));
        writeln!(shown, "{}: {told}", words[0]).expect("a string takes all");
    }
    shown
}

fn unit(words: &[&str]) -> ComputeUnit {
    ComputeUnit::new(amount(value(words, "unit").unwrap_or("250/1"))).expect("a unit")
}

fn bounds(words: &[&str]) -> VmBounds {
    let of = |key: &str, usual: &str| amount(value(words, key).unwrap_or(usual).trim());
    VmBounds::new(of("min", "250/1"), of("max", "2000/8"))
}

fn settings(words: &[&str]) -> Settings {
    let mut settings = Settings::DEFAULT;
    let percent =
        |key: &str| value(words, key).map(|text| Ratio::from_millionths(number(text) * 10_000));
    settings.goal.load_stable = percent("stable").unwrap_or(settings.goal.load_stable);
    settings.goal.load_mixed = percent("mixed").unwrap_or(settings.goal.load_mixed);
    settings
}

/// What has to be remembered to write scripts shortly: the version of the machine, which grows with
/// every change.
struct Answers<'a> {
    version: &'a mut u64,
    unit: ComputeUnit,
}

impl Answers<'_> {
    fn tell(self, agent: &mut Agent, verb: &str, rest: &[&str], now: Moment) {
        let id = || RequestId(number(rest[0]));
        match verb {
            "step" => {}
            "load" => agent.metrics_read(metrics(rest), now),
            "bounds" => agent.bounds_changed(bounds(rest)),
            "more" => agent.guest_asked(rest.contains(&"cpu"), rest.contains(&"memory"), now),
            "seen" => agent.vm_seen(self.changed(rest[0])),
            "read" => agent.vm_read(id(), self.unchanged(rest[1])),
            "patched" => agent.vm_patched(id(), self.changed(rest[1])),
            "unpatched" => agent.vm_failed(id(), now),
            "scheduler" => agent.scheduler_came(),
            "no-scheduler" => agent.scheduler_gone(),
            "permit" => {
                let migrate = rest.contains(&"migrate");
                let answer = Answer { permit: amount(rest[1]), migrate, unit: self.unit };
                agent.permit_answered(id(), &answer, now);
            }
            "no-permit" => agent.permit_failed(id(), value(rest, "newest").map(number), now),
            "resumed" => agent.informant_resumed(),
            "suspended" => agent.informant_suspended(),
            "no-informant" => agent.informant_gone(),
            "agreed" => agent.downscale_answered(id(), true, now),
            "denied" => agent.downscale_answered(id(), false, now),
            "told" => agent.upscale_confirmed(id()),
            "untold" => agent.informant_failed(id(), now),
            "stays" => agent.move_failed(),
            // The usual beginning, in one line: a machine with a scheduler and an informant.
            "began" => self.begin(agent, rest, now),
            unknown => panic!("no verb {unknown}"),
        }
    }

    fn begin(self, agent: &mut Agent, rest: &[&str], now: Moment) {
        let using = amount(rest[0]);
        *self.version = 2;
        agent.scheduler_came();
        agent.informant_resumed();
        if rest.len() > 1 {
            agent.metrics_read(metrics(&rest[1..]), now);
        }
        agent.step(now);
        agent.vm_read(RequestId(1), Seen { using, version: 1 });
        agent.step(now);
        agent.vm_patched(RequestId(2), Seen { using, version: 2 });
        agent.step(now);
        agent.upscale_confirmed(RequestId(3));
        let answer = Answer { permit: using, migrate: false, unit: self.unit };
        agent.permit_answered(RequestId(4), &answer, now);
    }

    fn unchanged(self, using: &str) -> Seen {
        let using = amount(using);
        Seen { using, version: *self.version }
    }

    fn changed(self, using: &str) -> Seen {
        *self.version += 1;
        self.unchanged(using)
    }
}

/// `LOAD1 load5=... used=USED/TOTAL cached=... touched=...`, loads in hundredths, memory in MiB.
fn metrics(words: &[&str]) -> Metrics {
    let load = |text: &str| Ratio::from_millionths(number(text) * 10_000);
    let mib = |text: &str| Bytes::new(number(text) << 20);
    let memory = value(words, "used").map(|text| {
        let (used, total) = text.split_once('/').expect("used/total");
        let available = Bytes::new((number(total) - number(used)) << 20);
        let cached = value(words, "cached").map_or(Bytes::ZERO, mib);
        Memory { total: mib(total), available, cached }
    });
    let touched = value(words, "touched").map(|list| list.split(',').map(mib).collect());
    Metrics {
        load1: load(words[0]),
        load5: value(words, "load5").map(load),
        memory,
        touched: touched.unwrap_or_default(),
    }
}

fn show(outcome: &Outcome) -> String {
    let mut told: Vec<String> = outcome.actions.iter().map(show_action).collect();
    told.extend(outcome.notes.iter().map(|note| format!("({note})")));
    told.push(match outcome.wake_at {
        Some(at) => format!("wake {}", at.as_ms_floor()),
        None => "sleep".to_owned(),
    });
    told.join(", ")
}

fn show_action(action: &Action) -> String {
    match action {
        Action::ReadVm { id } => format!("#{} read", id.0),
        Action::PatchVm { id, to, version } => {
            format!("#{} patch {} if v{version}", id.0, write(*to))
        }
        Action::AskPermit { id, wanted, last_permit, load: _, sequence } => {
            let last = last_permit.map_or("nothing".to_owned(), write);
            format!("#{} ask {} having {last} seq {sequence}", id.0, write(*wanted))
        }
        Action::AskDownscale { id, to } => format!("#{} down {}", id.0, write(*to)),
        Action::TellUpscale { id, to } => format!("#{} up {}", id.0, write(*to)),
    }
}

fn show_goal(goal: Option<Goal>) -> String {
    let Some(Goal { amount, units, parts, from, bounded, refused }) = goal else {
        return "no goal".to_owned();
    };
    let part = |units: Option<u64>| units.map_or("-".to_owned(), |units| units.to_string());
    let bounded = if bounded { " bounded" } else { "" };
    let refused = if refused { " refused" } else { "" };
    format!(
        "goal {} {units} units by {}: cpu {} memory {} total {} set {} asked {}{bounded}{refused}",
        write(amount),
        from.code(),
        part(parts.cpu),
        part(parts.memory),
        part(parts.memory_total),
        part(parts.working_set),
        part(parts.requested)
    )
}

fn value<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn amount(text: &str) -> Resources {
    let (cpu, gib) = text.split_once('/').expect("cpu/memory");
    Resources::new(Millicores::new(number(cpu)), Bytes::new(number(gib) << 30))
}

fn write(amount: Resources) -> String {
    format!("{}/{}", amount.cpu.get(), amount.memory.get() >> 30)
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}
