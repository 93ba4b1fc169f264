//! Cases as text in, plans as text out; and what holds for every plan of any pod.

use super::*;
use crate::rng::Rng;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

const NOW: Moment = Moment::from_ms(1_000_000);
const FIXTURES: [&str; 3] = [
    include_str!("../../testdata/resize/skip.txt"),
    include_str!("../../testdata/resize/hold.txt"),
    include_str!("../../testdata/resize/patch.txt"),
];

/// One case of a fixture: what to plan for, with everything unsaid as it usually is.
#[derive(Clone, Debug)]
struct Case {
    allocation: Allocation,
    pod: PodView,
    history: History,
    rules: Rules,
    now: Moment,
}

impl Case {
    fn usual() -> Self {
        Self {
            allocation: allocation("0m/0m"),
            pod: PodView {
                phase: Phase::Running,
                deleting: false,
                excluded: false,
                static_pod: false,
                qos: QosClass::Burstable,
                autoscaler: None,
                containers: vec![],
            },
            history: History::default(),
            rules: Rules::DEFAULT,
            now: NOW,
        }
    }

    fn plan(&self) -> Plan {
        plan(&self.allocation, &self.pod, &self.history, &self.rules, self.now)
    }

    /// Takes in one line of a fixture.
    fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["desired", both] => self.allocation = allocation(both),
            ["container", name, both, ref rest @ ..] => {
                let (memory_request_equals_limit, came_with) = match *rest {
                    [] => (false, None),
                    ["memory", "equal"] => (true, None),
                    ["came", "with", both] => (false, Some(has(both))),
                    _ => panic!("{line}"),
                };
                let CameWith { request, limit } = has(both);
                self.pod.containers.push(ContainerView {
                    name: name.to_string(),
                    request,
                    limit,
                    came_with,
                    memory_request_equals_limit,
                });
            }
            ["pod", "excluded"] => self.pod.excluded = true,
            ["pod", "deleting"] => self.pod.deleting = true,
            ["pod", "static"] => self.pod.static_pod = true,
            ["pod", "Pending"] => self.pod.phase = Phase::Pending,
            ["pod", "Succeeded"] => self.pod.phase = Phase::Succeeded,
            ["pod", "Failed"] => self.pod.phase = Phase::Failed,
            ["pod", "Unknown"] => self.pod.phase = Phase::Unknown,
            ["pod", "Guaranteed"] => self.pod.qos = QosClass::Guaranteed,
            ["pod", "BestEffort"] => self.pod.qos = QosClass::BestEffort,
            ["applied", ms, "ms", "ago"] => {
                let ago_us = ms.parse::<u64>().unwrap() * 1000;
                self.history.resize_applied(false, Moment::from_us(1_000_000_000 - ago_us));
            }
            ["cut", ms, "ms", "ago"] => {
                let ago_us = ms.parse::<u64>().unwrap() * 1000;
                self.history.resize_applied(true, Moment::from_us(1_000_000_000 - ago_us));
            }
            ["applied", "in", ms, "ms"] => {
                self.history.resize_applied(false, NOW + Span::from_ms(ms.parse().unwrap()));
            }
            ["infeasible", both] => {
                self.history.resize_refused_as_infeasible(&allocation(both), NOW);
            }
            ["rules", "manage_guaranteed"] => self.rules.manage_guaranteed = true,
            ["rules", "refusal_retry", "0"] => self.rules.refusal_retry = Span::ZERO,
            ["rules", "growth_max", "0"] => self.rules.growth_max = Ratio::ZERO,
            ref other => panic!("not a line of a case: {other:?}"),
        }
    }
}

fn cpu(text: &str) -> Millicores {
    Millicores::new(text.strip_suffix('m').expect(text).parse().expect(text))
}

/// A request and a limit of a container, either of which may be missing.
fn has(text: &str) -> CameWith {
    let (request, limit) = text.split_once('/').expect(text);
    let cpu = |text: &str| (text != "-").then(|| cpu(text));
    CameWith { request: cpu(request), limit: cpu(limit) }
}

fn allocation(text: &str) -> Allocation {
    let (request, limit) = text.split_once('/').expect(text);
    Allocation { request: cpu(request), limit: cpu(limit) }
}

/// The plan as the fixtures spell it, one line each.
fn lines_of(plan: &Plan, now: Moment) -> Vec<String> {
    match plan {
        Plan::Patch { containers, notes } => {
            let patch = |c: &ContainerPatch| format!("{} {}/{}", c.name, c.request, c.limit);
            let note = |note: &Note| format!("{}: {note}", note.code());
            let mut lines = vec!["Patch".to_string()];
            lines.extend(containers.iter().map(patch));
            lines.extend(notes.iter().map(note));
            lines
        }
        Plan::Hold { until, because } => {
            let wait = until.since(now);
            vec![format!("Hold {} us", wait.as_us()), format!("{}: {because}", because.code())]
        }
        Plan::Skip { because } => {
            vec!["Skip".to_string(), format!("{}: {because}", because.code())]
        }
    }
}

/// Plans every case of `fixture` (a run of indented lines, the expected ones after `=`), and
/// gives the codes that were seen.
fn check(fixture: &str) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for block in fixture.split("\n\n") {
        if !block.starts_with("    ") {
            assert!(!block.contains("\n    "), "prose and cases are kept apart: {block}");
            continue;
        }
        let (mut case, mut expected) = (Case::usual(), Vec::new());
        for line in block.lines() {
            let line = line.strip_prefix("    ").expect("prose and cases are kept apart");
            match line.strip_prefix("= ") {
                Some(line) => expected.push(line.to_string()),
                None => case.read(line),
            }
        }
        let lines = lines_of(&case.plan(), case.now);
        assert_eq!(lines, expected, "\n{block}");
        let code = |line: &String| line.split_once(": ").map(|(code, _)| code.to_string());
        codes.extend(lines.iter().filter_map(code));
    }
    codes
}

#[test]
fn every_case_is_planned_as_written_and_every_code_has_a_case() {
    let codes: BTreeSet<String> = FIXTURES.into_iter().flat_map(check).collect();
    let all = [
        "AlreadyApplied",
        "BelowContainerMinimum",
        "BestEffortQoS",
        "DeltaExceeded",
        "Excluded",
        "GuaranteedQoS",
        "Infeasible",
        "InvalidDesiredCPU",
        "InvalidPodState",
        "KeptBurstable",
        "KeptGuaranteed",
        "LimitsAdded",
        "NoRoomInContainers",
        "RateLimited",
        "StepSizeExceeded",
    ];
    assert!(codes.iter().eq(all), "{codes:?}");
}

#[test]
fn history_keeps_the_smallest_refusal_and_an_applied_patch_does_not_clear_it() {
    let mut history = History::default();
    history.resize_refused_as_infeasible(&allocation("500m/900m"), Moment::from_ms(1));
    history.resize_refused_as_infeasible(&allocation("700m/800m"), Moment::from_ms(2));
    history.resize_refused_as_infeasible(&allocation("500m/500m"), Moment::from_ms(3));
    let first = InfeasibleMark { request: cpu("500m"), at: Moment::from_ms(1) };
    assert_eq!(history.infeasible, Some(first));
    history.resize_refused_as_infeasible(&allocation("400m/900m"), Moment::from_ms(4));
    history.resize_applied(false, Moment::from_ms(5));
    let smaller = InfeasibleMark { request: cpu("400m"), at: Moment::from_ms(4) };
    assert_eq!(history.infeasible, Some(smaller));
    assert_eq!(history.last_applied_at, Some(Moment::from_ms(5)));
}

#[test]
fn a_refusal_is_over_after_a_while_and_the_next_one_counts_from_then() {
    let mut history = History::default();
    let marked = |history: &History, s: u64| {
        history.at(Moment::from_ms(1000 * s)).infeasible.map(|mark| mark.request)
    };
    history.resize_refused_as_infeasible(&allocation("500m/900m"), Moment::from_ms(0));
    assert_eq!(marked(&history, 599), Some(cpu("500m")));
    assert_eq!(marked(&history, 600), None, "the node may have grown");
    history.resize_refused_as_infeasible(&allocation("700m/900m"), Moment::from_ms(600_000));
    assert_eq!(marked(&history, 1199), Some(cpu("700m")), "500m may be possible by now");
    assert_eq!(marked(&history, 1200), None);
}

#[test]
fn an_infeasible_guaranteed_patch_is_not_planned_again_but_a_smaller_one_is() {
    let mut case = Case::usual();
    case.read("rules manage_guaranteed");
    case.read("pod Guaranteed");
    case.read("container app 100m/100m memory equal");
    case.read("desired 200m/900m");
    let asked = case.plan().asked().expect("a patch");
    assert_eq!(asked, allocation("900m/900m"));
    case.history.resize_refused_as_infeasible(&asked, NOW);
    assert_eq!(case.plan().asked(), None);
    case.read("desired 200m/899m");
    assert_eq!(case.plan().asked(), Some(allocation("899m/899m")));
}

#[test]
fn impossible_figures_of_a_pod_count_as_none() {
    let mut case = Case::usual();
    case.read("container app 0m/18446744073709551615m");
    case.read("container log 18446744073709551615m/-");
    case.read("desired 100m/1000m");
    assert_eq!(lines_of(&case.plan(), NOW)[..3], ["Patch", "app 1m/10m", "log 99m/990m"]);
}

/// The class Kubernetes computes, taking memory that is not equal for absent.
fn class_of(pod: &PodView) -> QosClass {
    let cpu_is_equal = |c: &ContainerView| {
        c.limit.is_some_and(|limit| limit > Millicores::ZERO && c.request == Some(limit))
    };
    let has_any = |c: &ContainerView| {
        let stated = |cpu: Option<Millicores>| cpu.is_some_and(|cpu| cpu > Millicores::ZERO);
        stated(c.request) || stated(c.limit) || c.memory_request_equals_limit
    };
    if pod.containers.iter().all(|c| cpu_is_equal(c) && c.memory_request_equals_limit) {
        QosClass::Guaranteed
    } else if pod.containers.iter().any(has_any) {
        QosClass::Burstable
    } else {
        QosClass::BestEffort
    }
}

/// Numbers of every size up to `2^bits`, the small ones as likely as the large ones.
fn any_cpu(rng: &mut Rng, bits: u64) -> Millicores {
    let bits = rng.below(bits + 1);
    Millicores::new(rng.below(1 << bits))
}

fn random_case(rng: &mut Rng) -> Case {
    let mut case = Case::usual();
    let equal = rng.below(3) == 0;
    for at in 0..=rng.below(4) {
        let limit = (rng.below(4) > 0).then(|| any_cpu(rng, 16));
        let request = match (equal, limit, rng.below(4)) {
            (true, limit, _) => limit,
            (false, _, 0) => None,
            (false, Some(limit), _) => Some(Millicores::new(rng.below(limit.get() + 1))),
            (false, None, _) => Some(any_cpu(rng, 16)),
        };
        case.pod.containers.push(ContainerView {
            name: format!("c{at}"),
            request,
            limit,
            came_with: None,
            memory_request_equals_limit: equal || rng.below(2) == 0,
        });
    }
    case.pod.qos = class_of(&case.pod);
    case.rules.manage_guaranteed = rng.below(4) > 0;
    let limit = any_cpu(rng, 17);
    let request = match rng.below(3) {
        0 => limit,
        _ => Millicores::new(rng.below(limit.get() + 2)),
    };
    case.allocation = Allocation { request, limit };
    if rng.below(2) == 0 {
        let at = Moment::from_us(NOW.as_ms_floor() * 1000 - rng.below(9_000_000));
        case.history.resize_applied(rng.below(2) == 0, at);
    }
    if rng.below(4) == 0 {
        let refused = Allocation { request: any_cpu(rng, 17), limit };
        case.history.resize_refused_as_infeasible(&refused, NOW);
    }
    case
}

/// What holds for every patch, whatever the pod; `seed` finds the case again.
fn check_patch(case: &Case, containers: &[ContainerPatch], notes: &[Note], seed: u64) {
    let counted = case.pod.containers.iter().map(ContainerView::counted);
    let current: u64 = counted.map(Millicores::get).sum();
    let limit = sum(containers).limit.get();
    if case.pod.containers.iter().all(ContainerView::is_limited) {
        assert!(limit <= 10 * current.max(100), "seed {seed}: {current} to {limit}");
        assert!(limit.abs_diff(current) <= 20_000, "seed {seed}: {current} to {limit}");
    }
    let last = case.history.last_applied_at;
    let waited = last.map(|last| NOW.since(last));
    let mut pairs = case.pod.containers.iter().zip(containers);
    let raises = pairs.any(|(now, then)| now.limit.is_some_and(|limit| then.limit > limit));
    let raises_after_a_cut = case.history.last_was_cut && raises;
    let is_apart = waited.is_none_or(|waited| waited >= Span::from_s(5));
    assert!(is_apart || raises_after_a_cut, "seed {seed}");

    let mut total = case.allocation;
    for note in notes {
        match note {
            Note::KeptGuaranteed { .. } => total.request = total.limit,
            Note::KeptBurstable { .. } => {
                total.request = total.request.saturating_sub(Millicores::new(1));
            }
            Note::LimitsAdded { .. }
            | Note::RequestsLeftAlone { .. }
            | Note::LimitsOutOfReach { .. }
            | Note::BelowContainerMinimum { .. } => {}
        }
    }
    assert_eq!(sum(containers), total, "seed {seed}");
    assert!(containers.iter().all(|c| c.request <= c.limit), "seed {seed}");
    assert!(containers.iter().all(|c| c.limit > Millicores::ZERO), "seed {seed}");
    let refused = case.history.infeasible;
    assert!(refused.is_none_or(|mark| total.request < mark.request), "seed {seed}");

    // Once it is applied, the class is what it was and nothing more is to be done.
    let mut after = case.clone();
    for (view, patch) in after.pod.containers.iter_mut().zip(containers) {
        assert_eq!(view.name, patch.name, "seed {seed}");
        view.request = Some(patch.request);
        view.limit = Some(patch.limit);
    }
    assert_eq!(after.pod.containers.len(), containers.len(), "seed {seed}");
    assert_eq!(class_of(&after.pod), case.pod.qos, "seed {seed}");
    let again = after.plan();
    let settled =
        Plan::Skip { because: SkipReason::AlreadyApplied { allocation: sum(containers) } };
    assert_eq!(again, settled, "seed {seed}");
}

#[test]
fn any_plan_keeps_the_bounds_the_sums_and_the_class() {
    let (mut patches, mut holds, mut skips) = (0, 0, 0);
    for seed in 0..100_000 {
        let case = random_case(&mut Rng::from_seed(seed));
        let plan = case.plan();
        assert_eq!(plan, case.plan(), "seed {seed}");
        let (Case { pod, rules, .. }, limit) = (&case, case.allocation.limit);
        let step = one_step(&pod.containers, rules);
        let in_reach = step.is_none_or(|step| step.contains(&limit));
        let refused = too_large_a_step(limit, pod, rules, case.now);
        assert_eq!(in_reach, refused.is_none(), "seed {seed}");
        match &plan {
            Plan::Patch { containers, notes } => {
                check_patch(&case, containers, notes, seed);
                patches += 1;
            }
            Plan::Hold { until, .. } => {
                assert!(*until > case.now, "seed {seed}: {plan:?}");
                holds += 1;
            }
            Plan::Skip { .. } => skips += 1,
        }
    }
    // The test means nothing unless each kind of plan is common.
    assert!(patches > 10_000, "{patches} patches, {holds} holds, {skips} skips");
    assert!(holds > 10_000, "{patches} patches, {holds} holds, {skips} skips");
    assert!(skips > 10_000, "{patches} patches, {holds} holds, {skips} skips");
}

/// Carries out what a pod should have in the end, as often as it takes.
fn carry_out(case: &mut Case, limit: Millicores) {
    case.allocation = Allocation { request: Millicores::ZERO, limit };
    let Ok((containers, _)) = target(&case.allocation, &case.pod, &case.history, &case.rules)
    else {
        return;
    };
    for (view, patch) in case.pod.containers.iter_mut().zip(containers) {
        let had = CameWith { request: view.request, limit: view.limit };
        view.came_with.get_or_insert(had);
        (view.request, view.limit) = (Some(patch.request), Some(patch.limit));
    }
}

#[test]
fn however_often_a_pod_is_resized_its_containers_keep_their_proportions() {
    for seed in 0..10_000 {
        let mut rng = Rng::from_seed(seed);
        let mut fresh = random_case(&mut rng);
        (fresh.pod.qos, fresh.history) = (QosClass::Burstable, History::default());
        let mut resized = fresh.clone();
        for _ in 0..rng.below(20) {
            carry_out(&mut resized, any_cpu(&mut rng, 14));
        }
        let last = any_cpu(&mut rng, 14) + Millicores::new(100);
        carry_out(&mut fresh, last);
        carry_out(&mut resized, last);
        assert_eq!(resized.pod.containers, fresh.pod.containers, "seed {seed}");
    }
}
