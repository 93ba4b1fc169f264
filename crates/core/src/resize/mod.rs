//! What to do about one pod's CPU allocation: patch its containers, hold until later, or skip it.
//!
//! The Kubernetes controller calls [`plan`] once per pod and allocation, carries the plan out, and
//! tells the pod's [`History`] what came of it. The checks run in this order, and the first that
//! objects decides: Excluded, InvalidPodState, VerticalPodAutoscaler, GuaranteedQoS or
//! BestEffortQoS, HorizontalPodAutoscaler, InvalidDesiredCPU, NoRoomInContainers, Infeasible,
//! AlreadyApplied (all skip), then RateLimited, StepSizeExceeded, DeltaExceeded (all hold).
//!
//! What always holds: a patch names every container in the pod's order; its limits and requests add
//! up to exactly what was asked (one thousandth less where the class demands it, with a note); no
//! request is above its limit; no limit is zero, which the kernel would read as none. The class
//! (QoS) of the pod never changes. A hold ends after `now`, so a refusal is always tried again.

mod autoscaler;
mod bucket;
mod history;
mod mode;
mod reason;
mod refusal;
mod split;
mod verify;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::profile::Profile;
use crate::units::{Millicores, Moment, Ratio, Span};

pub use autoscaler::Autoscaler;
pub use bucket::Bucket;
pub use history::{History, InfeasibleMark};
pub use mode::{Original, UNLIMITED, Wish, plan_wish, wished};
pub use reason::{DesiredFault, HoldReason, Note, PodFault, SkipReason};
pub use refusal::{Ask, Barred, Cause, Refusals};
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
    /// Who else sizes it, or goes by its requests.
    pub autoscaler: Option<Autoscaler>,
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
    /// What it came with, where that was written down; else it has that still.
    pub came_with: Option<CameWith>,
    /// Whether it has a memory request and a memory limit, and they are equal.
    pub memory_request_equals_limit: bool,
}

/// What a container had before anybody resized it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameWith {
    /// Its CPU request, if it had one.
    pub request: Option<Millicores>,
    /// Its CPU limit, if it had one.
    pub limit: Option<Millicores>,
}

/// The bounds every plan keeps. See [`Rules::DEFAULT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether Guaranteed pods are resized too, with their requests kept equal to their limits.
    pub manage_guaranteed: bool,
    /// The least time between two patches of one pod, but for a raise after a cut.
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
    let target = target(allocation, pod, history, rules);
    on_the_way(target, allocation.limit, pod, history, rules, now)
}

/// What every container should have in the end, and what to know about it; or why not.
type Target = Result<(Vec<ContainerPatch>, Vec<Note>), SkipReason>;

/// What to do now about a `target` that gives the pod the limit `limit`: nothing where it is
/// reached, and to wait where it is too soon or too far away.
fn on_the_way(
    target: Target,
    limit: Millicores,
    pod: &PodView,
    history: &History,
    rules: &Rules,
    now: Moment,
) -> Plan {
    let (containers, notes) = match target {
        Ok(target) => target,
        Err(because) => return Plan::Skip { because },
    };
    if is_applied(&containers, pod, rules) {
        return Plan::Skip { because: SkipReason::AlreadyApplied { allocation: sum(&containers) } };
    }
    let is_raise = !is_cut(&containers, pod);
    let waits = cooling_down(is_raise, history, rules, now)
        .or_else(|| too_large_a_step(limit, pod, rules, now));
    match waits {
        Some((until, because)) => Plan::Hold { until, because },
        None => Plan::Patch { containers, notes },
    }
}

/// What every container should have in the end, unless the pod is not to have `allocation` at all.
fn target(allocation: &Allocation, pod: &PodView, history: &History, rules: &Rules) -> Target {
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
    autoscaler::check_class(pod, rules)
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

/// Divides `wanted` among the containers: limits as they came, requests as the new limits.
///
/// Because no container's part of the request is above its part of the limit while the request is
/// not above the limit, following the limits is what keeps each request below its limit.
fn divide(
    wanted: &Allocation,
    pod: &PodView,
    notes: &mut Vec<Note>,
) -> Result<Vec<ContainerPatch>, SkipReason> {
    let shares: Vec<Millicores> = pod.containers.iter().map(ContainerView::share).collect();
    let Some(limits) = split::in_proportion(wanted.limit, &shares, CONTAINER_LIMIT_MIN) else {
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
    let parts = limits.into_iter().zip(requests);
    Ok(pod
        .containers
        .iter()
        .zip(parts)
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

/// Whether a patch gives no container of `pod` a larger limit. A first limit takes something away.
#[must_use]
pub fn is_cut(containers: &[ContainerPatch], pod: &PodView) -> bool {
    let mut pairs = pod.containers.iter().zip(containers);
    pairs.all(|(now, then)| !now.is_limited() || then.limit <= now.counted())
}

/// Until when the pod's last patch is too recent for another, if it is.
///
/// A raise that follows a cut does not wait: who was cut a moment before its burst would be held
/// back for as long as the cooldown lasts. The next cut does, so no pod swings faster than that.
fn cooling_down(
    is_raise: bool,
    history: &History,
    rules: &Rules,
    now: Moment,
) -> Option<(Moment, HoldReason)> {
    if is_raise && history.last_was_cut {
        return None;
    }
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
    if one_step(&pod.containers, rules)?.contains(&desired) {
        return None;
    }
    let Rules { refusal_retry, growth_max, change_max, .. } = *rules;
    let current: Millicores = pod.containers.iter().map(ContainerView::counted).sum();
    let reach = current.max(UNSTATED_LIMIT).scale_floor(growth_max);
    let because = if desired > current && desired > reach {
        HoldReason::StepSizeExceeded { current, desired, reach }
    } else {
        HoldReason::DeltaExceeded { current, desired, change_max }
    };
    // Even rules without any patience must leave the controller time for something else.
    Some((now + refusal_retry.max(Span::from_us(1)), because))
}

/// The limits that one patch can bring a pod to; nothing where any limit can be reached at once. A
/// larger change takes several patches, each of which is asked for by itself.
///
/// Any limit can be reached by a pod that has none: the first one takes something away, however
/// large it is, and a refusal would never end, because nothing else would change the pod.
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
    /// What the container's limit counts as today.
    fn counted(&self) -> Millicores {
        counted(self.request, self.limit)
    }

    /// What the container counts as where the pod's CPU is divided: what it came with.
    ///
    /// By what it has today, the rounding of one division would be the proportions of the next: a
    /// pod that shrinks to the minimum of its containers and grows again would not be what it was.
    fn share(&self) -> Millicores {
        let now = CameWith { request: self.request, limit: self.limit };
        let CameWith { request, limit } = self.came_with.unwrap_or(now);
        counted(request, limit)
    }

    /// Whether the container has a limit that a node could enforce.
    fn is_limited(&self) -> bool {
        self.limit.is_some_and(is_enforced)
    }
}

/// What a limit counts as: itself, else the request, else 100m. A zero is as good as nothing, as
/// Kubernetes has it.
fn counted(request: Option<Millicores>, limit: Option<Millicores>) -> Millicores {
    let request = request.filter(|request| *request > Millicores::ZERO);
    limit.filter(|limit| is_enforced(*limit)).or(request).unwrap_or(UNSTATED_LIMIT)
}

/// Whether a node could enforce a limit.
fn is_enforced(limit: Millicores) -> bool {
    limit > Millicores::ZERO && limit < UNLIMITED
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
mod tests;
