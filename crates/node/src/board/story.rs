//! Why a workload has what it has, in sentences: a pure function from figures to text.
//!
//! The order is that of a decision: what the workload did, what it needs, how the market stands,
//! what it was granted, what is set on it, what changed last, and what was held back. Every
//! sentence stands on its own, and numbers are those of the same moment.

use walras_core::market::Mode;
use walras_core::node::Note;
use walras_core::units::{Millicores, Ratio};
use walras_wire::state::{Change, ChangeResult, Suggested, WorkloadState};

use super::{Market, OwnerSet};

/// What there is to tell from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    /// How the workload stands.
    pub(super) workload: &'a WorkloadState,
    /// How the market stood at the last clearing.
    pub(super) market: &'a Market,
    /// All needs together.
    pub(super) need: Millicores,
    /// What its owner set on it last, while it was sized.
    pub(super) owner_set: Option<OwnerSet>,
    /// Whether the market was cleared at all.
    pub(super) cleared: bool,
    /// Whether the daemon changes anything.
    pub(super) acting: bool,
    /// When this is told.
    pub(super) now_ms: u64,
}

/// The story of one workload.
pub(super) fn sentences(scene: &Scene<'_>) -> Vec<String> {
    let workload = scene.workload;
    let mut told = vec![did(workload), needs(workload), market(scene)];
    told.extend(granted(workload));
    told.push(set(workload));
    told.extend(scene.owner_set.map(|owner_set| owned(&owner_set, scene.now_ms)));
    if let Some(reason) = &workload.request_reason {
        told.push(format!("Why it requests that much: {reason}."));
    }
    if workload.latency_missed {
        told.push(match workload.target_latency_ms {
            Some(target) => format!("It misses its latency target of {target} ms."),
            None => "It misses its latency target.".to_owned(),
        });
    }
    match &workload.last_change {
        Some(change) => told.push(changed(change, scene.now_ms)),
        None => told.push("Nothing was changed since it was adopted.".to_owned()),
    }
    if !scene.acting {
        told.push(suggested(workload));
    }
    told
}

/// What a daemon that only watches would do, as a summary.
fn suggested(workload: &WorkloadState) -> String {
    let Some(Suggested { request_milli, limit_milli, changes_last_hour }) = workload.suggested
    else {
        return "Walras only watches here, and would leave it as it is.".to_owned();
    };
    let times = match changes_last_hour {
        0 => "no changes".to_owned(),
        1 => "1 change".to_owned(),
        many => format!("{many} changes"),
    };
    format!(
        "Walras only watches here. By now it would have set a request of {} and a limit of {}, \
         with {times} in the last hour.",
        milli(request_milli),
        milli(limit_milli)
    )
}

/// A note as one reads it beside the workload it is about.
pub(super) fn noted(note: &Note, times: u32) -> String {
    let text = match note {
        // The node counts time from a moment of its own, which means nothing to a reader.
        Note::ChangeHeld { .. } => {
            "a change is wanted, and waits until the workload may change".into()
        }
        Note::UnknownWorkload { .. }
        | Note::WorkloadReplaced { .. }
        | Note::SampleOutOfOrder { .. }
        | Note::CounterReset { .. }
        | Note::SampleMissing { .. }
        | Note::ClockWentBack { .. }
        | Note::ModeChanged { .. }
        | Note::AtMax { .. }
        | Note::LateElsewhere { .. }
        | Note::NoRoom { .. }
        | Note::Contained { .. }
        | Note::ContainedFor { .. }
        | Note::Released { .. }
        | Note::NothingIdle { .. }
        | Note::RequestsForced { .. }
        | Note::LimitsForced { .. }
        | Note::LoweringStopped { .. }
        | Note::RecordRefused { .. }
        | Note::TableRefused { .. }
        | Note::TooManyTables { .. }
        | Note::NotesDropped { .. } => without_uid(note),
    };
    match times {
        0 | 1 => text,
        times => format!("{text} ({times} times in a row)"),
    }
}

/// How long ago something was, for people.
pub(super) fn ago(now_ms: u64, then_ms: u64) -> String {
    match now_ms.saturating_sub(then_ms) / 1000 {
        0 => "Just now".to_owned(),
        s @ 1..120 => format!("{s} s ago"),
        s @ 120..7200 => format!("{} min ago", s / 60),
        s => format!("{} h ago", s / 3600),
    }
}

fn without_uid(note: &Note) -> String {
    let text = note.to_string();
    match note.about() {
        Some(uid) => {
            let rest = text.strip_prefix(uid.as_str()).and_then(|rest| rest.strip_prefix(": "));
            rest.unwrap_or(&text).to_owned()
        }
        None => text,
    }
}

fn did(workload: &WorkloadState) -> String {
    let Some(usage) = workload.usage_milli else {
        return "Its counters were not read twice yet, so it is not known what it does.".to_owned();
    };
    let used = format!("It uses {}", milli(usage));
    let of_limit = match Ratio::of(usage, workload.limit_milli).millionths() / 10_000 {
        0 if usage == 0 => "It is idle".to_owned(),
        _ if is_unlimited(workload.limit_milli) => format!("{used} and has no limit"),
        percent => format!("{used}, {percent} % of its limit of {}", milli(workload.limit_milli)),
    };
    match workload.throttled_period_ratio {
        Some(ratio) if ratio > 0.0 => {
            format!("{of_limit}, and was throttled in {} of its periods.", percent(ratio))
        }
        Some(_) | None => format!("{of_limit}, and is not throttled."),
    }
}

fn needs(workload: &WorkloadState) -> String {
    let Some(need) = workload.need_milli else {
        return "What it needs is estimated when the market is cleared next.".to_owned();
    };
    let need_text = milli(need);
    if workload.lent_milli > 0 {
        let (right, lent) = (milli(workload.min_milli), milli(workload.lent_milli));
        format!("It has a right to {right}, needs {need_text}, and {lent} are lent to others.")
    } else if need <= workload.min_milli {
        format!("It needs no more than its min of {}.", milli(workload.min_milli))
    } else if need >= workload.max_milli {
        format!("It needs all it may have: its max of {}.", milli(workload.max_milli))
    } else {
        format!("It needs {need_text}, going by what it used and how often it was held back.")
    }
}

fn market(scene: &Scene<'_>) -> String {
    let Scene { market, need, .. } = scene;
    let capacity = market.capacity;
    if !scene.cleared {
        return "The market was not cleared yet.".to_owned();
    }
    let idle = market.machine.map(|machine| machine.idle);
    match market.mode {
        Mode::Uncongested if idle.is_some() => {
            let (idle, guard) = (idle.unwrap_or_default(), market.guard);
            let enough = if *need > capacity {
                format!("all needs together are {need} of {capacity}, but never at once")
            } else {
                format!("all workloads together need {need} of {capacity}")
            };
            format!(
                "The market is uncongested: {idle} of the machine are idle, and it would be scarce \
                 below {guard}; {enough}, so everybody gets what they need."
            )
        }
        Mode::Uncongested => format!(
            "The market is uncongested: all workloads together need {need} of {capacity}, so \
             everybody gets what they need."
        ),
        Mode::Congested => format!(
            "The market is congested at a price of {}: all workloads together need {need}, and \
             there are {capacity}. Everybody keeps their min, as far as it is needed, and the rest \
             is shared by weight.",
            market.price
        ),
        Mode::Overloaded => format!(
            "The market is overloaded at a price of {}: not even the mins fit into {capacity}, so \
             everybody is cut.",
            market.price
        ),
    }
}

fn granted(workload: &WorkloadState) -> Option<String> {
    let (grant, reason) = (workload.grant_milli?, workload.grant_reason.as_ref()?);
    let weight = if (workload.weight - 1.0).abs() > f64::EPSILON {
        format!(" Its weight is {}.", workload.weight)
    } else {
        String::new()
    };
    Some(format!("It was granted {}: {reason}.{weight}", milli(grant)))
}

fn set(workload: &WorkloadState) -> String {
    let limit = if is_unlimited(workload.limit_milli) {
        "none".to_owned()
    } else {
        milli(workload.limit_milli)
    };
    let came = match workload.original_limit_milli {
        None if is_unlimited(workload.limit_milli) => ", as it came".to_owned(),
        Some(original) if original == workload.limit_milli => ", as it came".to_owned(),
        Some(original) => format!(" (it came with {})", milli(original)),
        None => " (it came without)".to_owned(),
    };
    let mut text =
        format!("Its limit is {limit}{came}, its request {}", milli(workload.request_milli));
    if let Some(weight) = workload.kernel_weight {
        text += &format!(", its kernel weight {weight}");
    }
    if workload.burst_milli > 0 {
        text += &format!(", its burst buffer {}", milli(workload.burst_milli));
    }
    text.push('.');
    if let Some(waiting) = &workload.contained_for {
        text +=
            &format!(" It is held there because it takes all it can get while {waiting} waits.");
    } else if let Some(grant) = workload.grant_milli
        && workload.limit_milli > grant
        && !is_unlimited(workload.limit_milli)
    {
        let spare = milli(workload.limit_milli - grant);
        text += &format!(" The limit leaves {spare} above the grant for bursts.");
    }
    text
}

fn owned(set: &OwnerSet, now_ms: u64) -> String {
    let when = ago(now_ms, set.at_ms);
    let shown = |limit: Option<Millicores>| limit.map_or("none".to_owned(), |it| it.to_string());
    let what = if set.from == set.to {
        "changed its weight, or a limit inside of it".to_owned()
    } else {
        format!("changed its limit from {} to {}", shown(set.from), shown(set.to))
    };
    format!("{when} its owner {what}; that is what it came with from then on.")
}

fn changed(change: &Change, now_ms: u64) -> String {
    let when = ago(now_ms, change.at_ms);
    let what = match change.limit_to_milli.cmp(&change.limit_from_milli) {
        std::cmp::Ordering::Less => "lowered its limit",
        std::cmp::Ordering::Equal => "left its limit",
        std::cmp::Ordering::Greater => "raised its limit",
    };
    let (from, to) = (milli(change.limit_from_milli), milli(change.limit_to_milli));
    let limits = if change.limit_from_milli == change.limit_to_milli {
        let (from, to) = (change.request_from_milli, change.request_to_milli);
        let request = match from == to {
            true => String::new(),
            false => format!(" and moved its request from {} to {}", milli(from), milli(to)),
        };
        format!("{what} at {}{request}", milli(change.limit_to_milli))
    } else {
        format!("{what} from {from} to {to}")
    };
    let (who, why) = (&change.r#loop, &change.why);
    match &change.result {
        ChangeResult::Done => format!("{when} the {who} loop {limits}: {why}."),
        ChangeResult::Asked => {
            format!("{when} the {who} loop asked for this: it {limits}: {why}.")
        }
        ChangeResult::OnlyWatching => {
            format!("{when} the {who} loop would have {limits}: {why}.")
        }
        ChangeResult::Failed(error) => {
            format!("{when} the {who} loop would have {limits}: {why}. It failed: {error}.")
        }
    }
}

fn milli(amount: u64) -> String {
    if is_unlimited(amount) { "none".to_owned() } else { Millicores::new(amount).to_string() }
}

const fn is_unlimited(amount: u64) -> bool {
    Millicores::new(amount).is_unlimited()
}

fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent < 1.0 { "under 1 %".to_owned() } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::market::Fairness;
    use walras_core::node::MachineUse;

    const CASES: &str = include_str!("../../testdata/board/story.txt");

    #[test]
    fn stories_read_as_written() {
        let mut told = 0;
        for case in CASES.split("\ncase ").skip(1) {
            let (head, rest) = case.split_once('\n').unwrap();
            let (input, expected) = rest.split_once("----\n").unwrap();
            let expected = expected.split("\n\n").next().unwrap().trim_end();
            assert_eq!(check(input), expected, "case {head}");
            told += 1;
        }
        assert!(told > 5, "only {told} cases were found");
    }

    /// The story of a workload given as `key=value` words; what is not given is as in the first
    /// case.
    fn check(input: &str) -> String {
        let value = |key: &str| {
            let mut words = input.lines().flat_map(|line| line.split_whitespace());
            words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        };
        let number = |key| value(key).map(|text: &str| text.parse::<u64>().unwrap());
        let ratio = |key| value(key).map(|text: &str| text.parse::<f64>().unwrap());
        let line =
            |key: &str| input.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let workload = WorkloadState {
            uid: "u".to_owned(),
            name: "web".to_owned(),
            kind: "path".to_owned(),
            min_milli: number("min").unwrap_or(100),
            max_milli: number("max").unwrap_or(2000),
            weight: ratio("weight").unwrap_or(1.0),
            usage_milli: number("usage"),
            need_milli: number("need"),
            grant_milli: number("grant"),
            grant_reason: line("reason").map(str::to_owned),
            reduction_ratio: None,
            request_milli: number("request").unwrap_or(100),
            request_reason: line("request_reason").map(str::to_owned),
            limit_milli: number("limit").unwrap_or(500),
            lent_milli: number("lent").unwrap_or(0),
            suggested: number("suggested").map(|limit_milli| Suggested {
                request_milli: 150,
                limit_milli,
                changes_last_hour: 3,
            }),
            contained_for: value("waiting").map(str::to_owned),
            burst_milli: number("burst").unwrap_or(0),
            kernel_weight: number("kernel_weight").map(|weight| u32::try_from(weight).unwrap()),
            original_limit_milli: number("original"),
            throttled_period_ratio: ratio("throttled"),
            throttle_ratio: None,
            target_latency_ms: ratio("target_ms"),
            latency_missed: value("late").is_some(),
            hot: false,
            last_change: line("change").map(|text| change(text, line("result"))),
        };
        let market = Market {
            capacity: Millicores::new(number("capacity").unwrap_or(4000)),
            limit_budget: Millicores::new(8000),
            fairness: Fairness::Nash,
            mode: match value("mode") {
                None => Mode::Uncongested,
                Some("congested") => Mode::Congested,
                Some("overloaded") => Mode::Overloaded,
                Some(other) => panic!("no mode {other}"),
            },
            price: Ratio::from_millionths(number("price_ppm").unwrap_or(0)),
            multiplier: Ratio::ZERO,
            machine: number("idle")
                .map(|idle| MachineUse { idle: Millicores::new(idle), busy: Millicores::ZERO }),
            unmanaged: None,
            guard: Millicores::new(400),
            interval: walras_core::units::Span::ZERO,
        };
        let scene = Scene {
            workload: &workload,
            market: &market,
            need: Millicores::new(number("needs").unwrap_or(1000)),
            owner_set: line("owner").map(owner_set),
            cleared: value("cleared") != Some("no"),
            acting: value("acting") != Some("no"),
            now_ms: number("now").unwrap_or(60_000),
        };
        sentences(&scene).join("\n")
    }

    /// What an owner set, as `AT FROM TO`; a limit of 0 is none.
    fn owner_set(text: &str) -> OwnerSet {
        let mut words = text.split(' ').map(|word| word.parse::<u64>().unwrap());
        let mut number = || words.next().unwrap();
        let at_ms = number();
        let mut limit = || Some(Millicores::new(number())).filter(|limit| limit.get() > 0);
        OwnerSet { at_ms, from: limit(), to: limit() }
    }

    /// A change as `AT FROM TO REQUEST_FROM REQUEST_TO LOOP WHY`.
    fn change(text: &str, result: Option<&str>) -> Change {
        let mut words = text.splitn(6, ' ');
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        let (at_ms, limit_from_milli, limit_to_milli) = (number(), number(), number());
        let (request_from_milli, request_to_milli) = (number(), number());
        let (name, why) = words.next().unwrap().split_once(' ').unwrap();
        Change {
            at_ms,
            r#loop: name.to_owned(),
            limit_from_milli,
            limit_to_milli,
            request_from_milli,
            request_to_milli,
            why: why.to_owned(),
            result: match result {
                None => ChangeResult::Done,
                Some("only watching") => ChangeResult::OnlyWatching,
                Some(error) => ChangeResult::Failed(error.to_owned()),
            },
        }
    }

    #[test]
    fn a_moment_is_told_by_how_long_ago_it_was() {
        assert_eq!(ago(5_900, 5_000), "Just now");
        assert_eq!(ago(5_000, 9_000), "Just now", "a clock that was set back");
        assert_eq!(ago(119_000, 0), "119 s ago");
        assert_eq!(ago(150_000, 0), "2 min ago");
        assert_eq!(ago(7_200_000, 0), "2 h ago");
    }

    #[test]
    fn a_note_does_not_repeat_whose_it_is() {
        let uid = walras_core::units::WorkloadUid::new("u");
        let note = Note::AtMax { uid: uid.clone(), max: Millicores::new(500) };
        assert_eq!(noted(&note, 1), "held back at its max of 500m");
        assert_eq!(noted(&note, 7), "held back at its max of 500m (7 times in a row)");
        let until = walras_core::units::Moment::from_ms(99);
        assert!(!noted(&Note::ChangeHeld { uid, until }, 1).contains("99"));
    }
}
