//! What to do about one pod's CPU allocation: patch its containers, hold until later, or skip it.
//!
//! The Kubernetes controller calls [`plan`] once per pod and allocation, carries the plan out, and
//! tells the pod's [`History`] what came of it. The checks run in this order, and the first that
//! objects decides: Excluded, InvalidPodState, GuaranteedQoS or BestEffortQoS, InvalidDesiredCPU,
//! NoRoomInContainers, Infeasible, AlreadyApplied (all skip), then RateLimited, StepSizeExceeded,
//! DeltaExceeded (all hold).
//!
//! What always holds: a patch names every container in the pod's order; its limits and requests add
//! up to exactly what was asked (one thousandth less where the class demands it, with a note); no
//! request is above its limit; no limit is zero, which the kernel would read as none. The class
//! (QoS) of the pod never changes. A hold ends after `now`, so a refusal is always tried again.

mod bucket;
mod mode;
mod reason;
mod split;
mod verify;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::profile::Profile;
use crate::units::{Millicores, Moment, Ratio, Span};

pub use bucket::Bucket;
pub use mode::{Original, UNLIMITED, Wish, plan_wish, wished};
pub use reason::{DesiredFault, HoldReason, Note, PodFault, SkipReason};
pub use verify::{
    Asked, ContainerSeen, Difference, InProgress, Observed, Pending, Verdict, verify,
};

/// What a container counts as that has neither limit nor request, and the least a pod's current
/// limit counts as where growth is judged.
pub const UNSTATED_LIMIT: Millicores = Millicores::new(100);
/// The least limit of a container where the total allows it: what the kernel can hold as a quota.
pub const CONTAINER_LIMIT_MIN: Millicores = Millicores::new(10);

/// What a pod as a whole should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The sum of its containers' CPU requests.
    pub request: Millicores,
    /// The sum of its containers' CPU limits.
    pub limit: Millicores,
}

/// Where a pod is in its life, as Kubernetes has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers have started.
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, at least one badly.
    Failed,
    /// The node cannot be asked.
    Unknown,
}

/// The quality-of-service class, fixed when a pod is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Every container has limits, and requests equal to them.
    Guaranteed,
    /// Anything between the other two.
    Burstable,
    /// No container has any request or limit.
    BestEffort,
}

/// What the plan needs to know about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Where it is in its life.
    pub phase: Phase,
    /// Whether its deletion has begun.
    pub deleting: bool,
    /// Whether its owner asked that it be left alone.
    pub excluded: bool,
    /// Whether it comes from a file on the node, where the API server cannot change it.
    pub static_pod: bool,
    /// Its class.
    pub qos: QosClass,
    /// Its containers, in the pod's order.
    pub containers: Vec<ContainerView>,
}

/// What the plan needs to know about a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// Its name, unique within the pod.
    pub name: String,
    /// Its CPU request, if it has one.
    pub request: Option<Millicores>,
    /// Its CPU limit, if it has one.
    pub limit: Option<Millicores>,
    /// Whether it has a memory request and a memory limit, and they are equal.
    pub memory_request_equals_limit: bool,
}

/// What happened to a pod's earlier patches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// When a patch was last applied.
    pub last_applied_at: Option<Moment>,
    /// The smallest request the node has called infeasible.
    pub infeasible: Option<InfeasibleMark>,
}

/// A request that this pod's node can never satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfeasibleMark {
    /// The request, summed over the pod.
    pub request: Millicores,
    /// When it was refused.
    pub at: Moment,
}

/// The bounds every plan keeps. See [`Rules::DEFAULT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether Guaranteed pods are resized too, with their requests kept equal to their limits.
    pub manage_guaranteed: bool,
    /// The least time between two patches of one pod.
    pub cooldown: Span,
    /// How long a step that is too large waits before it is considered again.
    pub refusal_retry: Span,
    /// The most a pod's limit is multiplied by in one step. Shrinking has no such bound.
    pub growth_max: Ratio,
    /// The most a pod's limit changes in one step, up or down.
    pub change_max: Millicores,
    /// What a node may round limits and requests up to a multiple of.
    pub tolerance: Millicores,
}

/// What to do about an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Patch the pod now.
    Patch {
        /// Every container of the pod, in the pod's order.
        containers: Vec<ContainerPatch>,
        /// What a person may want to know about the patch.
        notes: Vec<Note>,
    },
    /// Do nothing yet, and plan again later.
    Hold {
        /// When to plan again; later than the moment of the plan.
        until: Moment,
        /// Why.
        because: HoldReason,
    },
    /// Do nothing about this allocation.
    Skip {
        /// Why.
        because: SkipReason,
    },
}

/// What one container gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPatch {
    /// The container.
    pub name: String,
    /// Its CPU request.
    pub request: Millicores,
    /// Its CPU limit.
    pub limit: Millicores,
}

/// Decides what to do about `allocation` for `pod` at `now`.
#[must_use]
pub fn plan(
    allocation: &Allocation,
    pod: &PodView,
    history: &History,
    rules: &Rules,
    now: Moment,
) -> Plan {
    let (containers, notes) = match target(allocation, pod, history, rules) {
        Ok(target) => target,
        Err(because) => return Plan::Skip { because },
    };
    if is_applied(&containers, pod, rules) {
        return Plan::Skip { because: SkipReason::AlreadyApplied { allocation: sum(&containers) } };
    }
    let waits = cooling_down(history, rules, now)
        .or_else(|| too_large_a_step(allocation.limit, pod, rules, now));
    match waits {
        Some((until, because)) => Plan::Hold { until, because },
        None => Plan::Patch { containers, notes },
    }
}

/// What every container should have in the end, unless the pod is not to have `allocation` at all.
fn target(
    allocation: &Allocation,
    pod: &PodView,
    history: &History,
    rules: &Rules,
) -> Result<(Vec<ContainerPatch>, Vec<Note>), SkipReason> {
    check_pod(pod, rules)?;
    check_desired(allocation)?;
    let mut notes = Vec::new();

    let wanted = match pod.qos {
        QosClass::Guaranteed => Allocation { request: allocation.limit, ..*allocation },
        QosClass::Burstable | QosClass::BestEffort => *allocation,
    };
    if wanted != *allocation {
        notes.push(Note::KeptGuaranteed { desired: allocation.request, request: wanted.request });
    }

    let mut containers = divide(&wanted, pod, &mut notes)?;
    if pod.qos == QosClass::Burstable {
        keep_burstable(&mut containers, pod, &mut notes);
    }

    check_feasible(wanted.request, history)?;
    Ok((containers, notes))
}

fn check_feasible(desired: Millicores, history: &History) -> Result<(), SkipReason> {
    match history.infeasible {
        Some(InfeasibleMark { request: refused, at: _ }) if desired >= refused => {
            Err(SkipReason::Infeasible { desired, refused })
        }
        Some(_) | None => Ok(()),
    }
}

fn check_pod(pod: &PodView, rules: &Rules) -> Result<(), SkipReason> {
    if pod.excluded {
        return Err(SkipReason::Excluded);
    }
    let fault = if pod.deleting {
        Some(PodFault::Deleting)
    } else if pod.static_pod {
        Some(PodFault::Static)
    } else if pod.phase != Phase::Running {
        Some(PodFault::NotRunning(pod.phase))
    } else if pod.containers.is_empty() {
        Some(PodFault::NoContainers)
    } else {
        None
    };
    if let Some(fault) = fault {
        return Err(SkipReason::InvalidPodState(fault));
    }
    match pod.qos {
        QosClass::Guaranteed if !rules.manage_guaranteed => Err(SkipReason::GuaranteedQos),
        QosClass::BestEffort => Err(SkipReason::BestEffortQos),
        QosClass::Guaranteed | QosClass::Burstable => Ok(()),
    }
}

fn check_desired(allocation: &Allocation) -> Result<(), SkipReason> {
    let Allocation { request, limit } = *allocation;
    let fault = if limit == Millicores::ZERO {
        DesiredFault::NoLimit
    } else if request.max(limit) > Millicores::LIMIT {
        DesiredFault::TooLarge
    } else if request > limit {
        DesiredFault::RequestAboveLimit
    } else {
        return Ok(());
    };
    Err(SkipReason::InvalidDesiredCpu { allocation: *allocation, fault })
}

/// Divides `wanted` among the containers: limits as they are now, requests as the new limits.
///
/// Because no container's part of the request is above its part of the limit while the request is
/// not above the limit, following the limits is what keeps each request below its limit.
fn divide(
    wanted: &Allocation,
    pod: &PodView,
    notes: &mut Vec<Note>,
) -> Result<Vec<ContainerPatch>, SkipReason> {
    let current: Vec<Millicores> = pod.containers.iter().map(ContainerView::counted).collect();
    let Some(limits) = split::in_proportion(wanted.limit, &current, CONTAINER_LIMIT_MIN) else {
        let containers = pod.containers.len();
        return Err(SkipReason::NoRoomInContainers { limit: wanted.limit, containers });
    };
    let requests = split::within(wanted.request, &limits);

    let unlimited = pod.containers.iter().filter(|container| container.limit.is_none()).count();
    if unlimited > 0 {
        notes.push(Note::LimitsAdded { containers: unlimited });
    }
    if limits.iter().any(|limit| *limit < CONTAINER_LIMIT_MIN) {
        let containers = pod.containers.len();
        notes.push(Note::BelowContainerMinimum { limit: wanted.limit, containers });
    }
    let shares = limits.into_iter().zip(requests);
    Ok(pod
        .containers
        .iter()
        .zip(shares)
        .map(|(view, (limit, request))| ContainerPatch { name: view.name.clone(), request, limit })
        .collect())
}

/// Lowers the largest request by a thousandth where the patch would make the pod Guaranteed, which
/// the API server refuses. There is always one to lower: it equals its limit, which is not zero.
fn keep_burstable(containers: &mut [ContainerPatch], pod: &PodView, notes: &mut Vec<Note>) {
    let memory_is_equal = pod.containers.iter().all(|view| view.memory_request_equals_limit);
    let cpu_is_equal = containers.iter().all(|container| container.request == container.limit);
    if !(memory_is_equal && cpu_is_equal) {
        return;
    }
    // The first of the largest, where `max_by_key` alone would take the last.
    let largest = containers.iter_mut().rev().max_by_key(|container| container.request);
    if let Some(largest) = largest {
        largest.request = largest.request.saturating_sub(Millicores::new(1));
        let (container, request) = (largest.name.clone(), largest.request);
        notes.push(Note::KeptBurstable { container, request });
    }
}

/// Whether every container has its target already, or what a node rounds that up to.
fn is_applied(containers: &[ContainerPatch], pod: &PodView, rules: &Rules) -> bool {
    let has = |current: Option<Millicores>, target: Millicores| {
        current == Some(target) || current == Some(target.round_up_to(rules.tolerance))
    };
    let mut pairs = pod.containers.iter().zip(containers);
    pairs.all(|(now, then)| has(now.request, then.request) && has(now.limit, then.limit))
}

/// Until when the pod's last patch is too recent for another, if it is.
fn cooling_down(history: &History, rules: &Rules, now: Moment) -> Option<(Moment, HoldReason)> {
    let (last, cooldown) = (history.last_applied_at?, rules.cooldown);
    let waited = now.since(last);
    // A stamp from the future counts as one from now: it must not hold a pod for years.
    let until = last.min(now) + cooldown;
    (waited < cooldown).then_some((until, HoldReason::RateLimited { waited, cooldown }))
}

/// Why one patch cannot bring the pod's limit to `desired`, if so, and when to look again.
fn too_large_a_step(
    desired: Millicores,
    pod: &PodView,
    rules: &Rules,
    now: Moment,
) -> Option<(Moment, HoldReason)> {
    if pod.containers.iter().any(|container| !container.is_limited()) {
        // The first limit of a pod that had none takes something away, however large it is; and
        // a refusal would never end, because nothing else would change the pod.
        return None;
    }
    let Rules { refusal_retry, growth_max, change_max, .. } = *rules;
    let current: Millicores = pod.containers.iter().map(ContainerView::counted).sum();
    let reach = current.max(UNSTATED_LIMIT).scale_floor(growth_max);
    let because = if desired > current && desired > reach {
        HoldReason::StepSizeExceeded { current, desired, reach }
    } else if desired.abs_diff(current) > change_max {
        HoldReason::DeltaExceeded { current, desired, change_max }
    } else {
        return None;
    };
    // Even rules without any patience must leave the controller time for something else.
    Some((now + refusal_retry.max(Span::from_us(1)), because))
}

/// The limits that one patch can bring a pod to; nothing where any limit can be reached at once. A
/// larger change takes several patches, each of which is asked for by itself.
#[must_use]
pub fn one_step(containers: &[ContainerView], rules: &Rules) -> Option<RangeInclusive<Millicores>> {
    if !containers.iter().all(ContainerView::is_limited) {
        return None;
    }
    let current: Millicores = containers.iter().map(ContainerView::counted).sum();
    let reach = current.max(UNSTATED_LIMIT).scale_floor(rules.growth_max).max(current);
    let most = reach.min(current + rules.change_max);
    Some(current.saturating_sub(rules.change_max)..=most)
}

fn sum(containers: &[ContainerPatch]) -> Allocation {
    Allocation {
        request: containers.iter().map(|container| container.request).sum(),
        limit: containers.iter().map(|container| container.limit).sum(),
    }
}

// === impl ContainerView ===

impl ContainerView {
    /// What the container's limit counts as today: the limit, else the request, else 100m. A zero
    /// is as good as nothing, as Kubernetes has it.
    fn counted(&self) -> Millicores {
        let request = self.request.filter(|request| *request > Millicores::ZERO);
        self.limit.filter(|_| self.is_limited()).or(request).unwrap_or(UNSTATED_LIMIT)
    }

    /// Whether the container has a limit that a node could enforce.
    fn is_limited(&self) -> bool {
        self.limit.is_some_and(|limit| limit > Millicores::ZERO && limit < UNLIMITED)
    }
}

// === impl History ===

impl History {
    /// Records that a patch was applied, which starts the cooldown.
    pub fn resize_applied(&mut self, now: Moment) {
        self.last_applied_at = Some(now);
    }

    /// Records that the node called `asked` infeasible: neither this request nor a larger one is
    /// planned for the pod again. Pass what the patch asked for ([`Plan::asked`]), which is more
    /// than the allocation's request where the pod is Guaranteed.
    pub fn resize_refused_as_infeasible(&mut self, asked: &Allocation, now: Moment) {
        let smallest = self.infeasible.is_none_or(|known| asked.request < known.request);
        if smallest {
            self.infeasible = Some(InfeasibleMark { request: asked.request, at: now });
        }
    }
}

// === impl Rules ===

impl Rules {
    /// Guaranteed pods are left alone; patches 5 s apart; a refused step is tried again after 30 s;
    /// at most ten times the limit and 20 cores more or less in one step; nodes round up to 10m, as
    /// the systemd cgroup driver does.
    pub const DEFAULT: Self = Self {
        manage_guaranteed: false,
        cooldown: Span::from_s(5),
        refusal_retry: Span::from_s(30),
        growth_max: Ratio::from_percent(1000),
        change_max: Millicores::from_cores(20),
        tolerance: Millicores::new(10),
    };

    /// The same rules with the steps and the cooldown of a profile, so that what its market decides
    /// is never refused for its size.
    #[must_use]
    pub const fn of(profile: &Profile) -> Self {
        Self {
            cooldown: profile.cooldown_ms,
            growth_max: profile.max_step_factor,
            change_max: profile.max_step_milli,
            ..Self::DEFAULT
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::DEFAULT
    }
}

// === impl Plan ===

impl Plan {
    /// What the patch asks for in total, if the plan is one.
    #[must_use]
    pub fn asked(&self) -> Option<Allocation> {
        match self {
            Self::Patch { containers, notes: _ } => Some(sum(containers)),
            Self::Hold { .. } | Self::Skip { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
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
                ["container", name, both, ref memory @ ..] => {
                    let (request, limit) = both.split_once('/').expect(line);
                    assert!(memory.is_empty() || memory == ["memory", "equal"], "{line}");
                    self.pod.containers.push(ContainerView {
                        name: name.to_string(),
                        request: (request != "-").then(|| cpu(request)),
                        limit: (limit != "-").then(|| cpu(limit)),
                        memory_request_equals_limit: !memory.is_empty(),
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
                    self.history.resize_applied(Moment::from_us(1_000_000_000 - ago_us));
                }
                ["applied", "in", ms, "ms"] => {
                    self.history.resize_applied(NOW + Span::from_ms(ms.parse().unwrap()));
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
        history.resize_applied(Moment::from_ms(5));
        let smaller = InfeasibleMark { request: cpu("400m"), at: Moment::from_ms(4) };
        assert_eq!(history.infeasible, Some(smaller));
        assert_eq!(history.last_applied_at, Some(Moment::from_ms(5)));
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
            case.history
                .resize_applied(Moment::from_us(NOW.as_ms_floor() * 1000 - rng.below(9_000_000)));
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
        assert!(waited.is_none_or(|waited| waited >= Span::from_s(5)), "seed {seed}");

        let mut total = case.allocation;
        for note in notes {
            match note {
                Note::KeptGuaranteed { .. } => total.request = total.limit,
                Note::KeptBurstable { .. } => {
                    total.request = total.request.saturating_sub(Millicores::new(1));
                }
                Note::LimitsAdded { .. }
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
}
