//! What may be changed of a pod: nothing, its limits, its requests and limits, or back to what it
//! came with.
//!
//! The controller calls [`plan_wish`], which is [`plan`] but for the parts that a mode changes.
//! With limits alone, no container's request changes, unless it would be above the limit. Under a
//! HorizontalPodAutoscaler that goes by use over request, limits alone are changed in either mode,
//! and no limit falls below its request. To give
//! back is to set every container to exactly what it came with, in one step however large: it is
//! what the owner chose and what the node had room for. The cooldown is the same in every
//! mode.

use alloc::string::String;
use alloc::vec::Vec;

use super::{
    Allocation, Autoscaler, ContainerPatch, ContainerView, History, Note, Plan, PodView, QosClass,
    Rules, SkipReason, Target, check_feasible, check_pod, cooling_down, is_applied, is_cut,
    keep_burstable, on_the_way, plan, sum, target,
};
use crate::units::{Millicores, Moment};

/// The limit of a container that came without one: it cannot be removed, only made so large that
/// it does not matter.
pub const UNLIMITED: Millicores = Millicores::UNLIMITED;

/// What is wanted of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish<'a> {
    /// To know what it should have, and change nothing.
    Nothing,
    /// This limit; requests as they are.
    Limits(Allocation),
    /// This request and this limit.
    RequestsAndLimits(Allocation),
    /// What its containers came with; those without an entry stay as they are.
    Originals(&'a [Original]),
}

/// What a container came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The container.
    pub name: String,
    /// Its request, if it had one.
    pub request: Option<Millicores>,
    /// Its limit, if it had one.
    pub limit: Option<Millicores>,
}

/// Decides what to do about `wish` for `pod` at `now`.
#[must_use]
pub fn plan_wish(
    wish: &Wish<'_>,
    pod: &PodView,
    history: &History,
    rules: &Rules,
    now: Moment,
) -> Plan {
    match wish {
        Wish::Nothing => {
            let because = check_pod(pod, rules).err().unwrap_or(SkipReason::RecommendOnly);
            Plan::Skip { because }
        }
        Wish::Limits(allocation) => {
            let target = limits_target(allocation, pod, history, rules);
            on_the_way(target, allocation.limit, pod, history, rules, now)
        }
        Wish::RequestsAndLimits(allocation) => match pod.autoscaler {
            Some(Autoscaler::Utilization(_)) => {
                plan_wish(&Wish::Limits(*allocation), pod, history, rules, now)
            }
            Some(Autoscaler::Vertical(_)) | None => plan(allocation, pod, history, rules, now),
        },
        Wish::Originals(originals) => originals_back(originals, pod, history, rules, now),
    }
}

/// What every container should have in the end: what was asked for in a patch, if there was one,
/// and what to look for where there is nothing left to ask.
#[must_use]
pub fn wished(
    wish: &Wish<'_>,
    pod: &PodView,
    history: &History,
    rules: &Rules,
) -> Option<Vec<ContainerPatch>> {
    let wished = match wish {
        Wish::Nothing => return None,
        Wish::Limits(allocation) => limits_target(allocation, pod, history, rules),
        Wish::RequestsAndLimits(allocation) => match pod.autoscaler {
            Some(Autoscaler::Utilization(_)) => limits_target(allocation, pod, history, rules),
            Some(Autoscaler::Vertical(_)) | None => target(allocation, pod, history, rules),
        },
        Wish::Originals(originals) => originals_target(originals, pod, history, rules),
    };
    wished.ok().map(|(containers, _)| containers)
}

fn limits_target(
    allocation: &Allocation,
    pod: &PodView,
    history: &History,
    rules: &Rules,
) -> Target {
    // The request is not ours to judge here: only the limit is taken from the allocation.
    let limit_alone = Allocation { request: Millicores::ZERO, limit: allocation.limit };
    let unmarked = History { infeasible: None, ..history.clone() };
    let (mut containers, notes) = target(&limit_alone, pod, &unmarked, rules)?;
    let is_guaranteed = pod.qos == QosClass::Guaranteed;
    let mut notes: Vec<Note> =
        notes.into_iter().filter(|note| !matches!(note, Note::KeptBurstable { .. })).collect();
    if !is_guaranteed {
        for (container, view) in containers.iter_mut().zip(&pod.containers) {
            let request = view.request.unwrap_or(Millicores::ZERO);
            if let Some(Autoscaler::Utilization(_)) = pod.autoscaler {
                container.limit = container.limit.max(request);
            }
            container.request = request.min(container.limit);
        }
        keep_burstable(&mut containers, pod, &mut notes);
    }
    if let Some(Autoscaler::Utilization(name)) = &pod.autoscaler {
        notes.push(Note::RequestsLeftAlone { autoscaler: name.clone() });
    }
    check_feasible(sum(&containers).request, history)?;
    Ok((containers, notes))
}

fn originals_back(
    originals: &[Original],
    pod: &PodView,
    history: &History,
    rules: &Rules,
    now: Moment,
) -> Plan {
    let (containers, notes) = match originals_target(originals, pod, history, rules) {
        Ok(target) => target,
        Err(because) => return Plan::Skip { because },
    };
    if is_applied(&containers, pod, &Rules { tolerance: Millicores::ZERO, ..*rules }) {
        return Plan::Skip { because: SkipReason::Restored };
    }
    let is_raise = !is_cut(&containers, pod);
    match cooling_down(is_raise, history, rules, now) {
        Some((until, because)) => Plan::Hold { until, because },
        None => Plan::Patch { containers, notes },
    }
}

fn originals_target(
    originals: &[Original],
    pod: &PodView,
    history: &History,
    rules: &Rules,
) -> Target {
    // A pod that was resized once gets everything back, also where the rules say otherwise by now.
    let unexcluded = PodView { excluded: false, autoscaler: None, ..pod.clone() };
    check_pod(&unexcluded, &Rules { manage_guaranteed: true, ..*rules })?;
    // A pod that was never changed has what it came with.
    if originals.is_empty() {
        return Err(SkipReason::Restored);
    }
    let mut out_of_reach = 0;
    let containers: Vec<ContainerPatch> = pod
        .containers
        .iter()
        .map(|view| {
            let original = originals.iter().find(|original| original.name == view.name);
            let (request, limit, unlimited) = back(view, original);
            out_of_reach += usize::from(unlimited);
            ContainerPatch { name: view.name.clone(), request, limit }
        })
        .collect();
    check_feasible(sum(&containers).request, history)?;
    let mut notes = Vec::new();
    if out_of_reach > 0 {
        notes.push(Note::LimitsOutOfReach { containers: out_of_reach });
    }
    Ok((containers, notes))
}

/// The request and limit that a container is given back, and whether it came without the latter.
fn back(view: &ContainerView, original: Option<&Original>) -> (Millicores, Millicores, bool) {
    let (request, limit) = match original {
        Some(original) => (original.request, original.limit),
        None => (view.request, view.limit),
    };
    (request.unwrap_or(Millicores::ZERO), limit.unwrap_or(UNLIMITED), limit.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resize::Phase;
    use crate::units::Span;
    use alloc::format;
    use alloc::string::ToString;

    const NOW: Moment = Moment::from_ms(1_000_000);

    fn cpu(text: &str) -> Option<Millicores> {
        let milli = |text: &str| text.strip_suffix('m').expect(text).parse().expect(text);
        (text != "-").then(|| Millicores::new(milli(text)))
    }

    /// `name request/limit`, one container each.
    fn read(text: &str) -> Vec<Original> {
        let container = |text: &str| {
            let (name, both) = text.trim().split_once(' ').expect(text);
            let (request, limit) = both.split_once('/').expect(text);
            Original { name: name.to_string(), request: cpu(request), limit: cpu(limit) }
        };
        text.split(',').filter(|text| !text.is_empty()).map(container).collect()
    }

    fn pod(containers: &str) -> PodView {
        let view = |one: Original| ContainerView {
            name: one.name,
            request: one.request,
            limit: one.limit,
            came_with: None,
            memory_request_equals_limit: true,
        };
        PodView {
            phase: Phase::Running,
            deleting: false,
            excluded: false,
            static_pod: false,
            qos: QosClass::Burstable,
            autoscaler: None,
            containers: read(containers).into_iter().map(view).collect(),
        }
    }

    fn told(plan: &Plan) -> String {
        match plan {
            Plan::Patch { containers, notes } => {
                let patch = |c: &ContainerPatch| format!("{} {}/{}", c.name, c.request, c.limit);
                let parts = containers.iter().map(patch);
                let codes = notes.iter().map(|note| note.code().to_string());
                parts.chain(codes).collect::<Vec<_>>().join(", ")
            }
            Plan::Hold { because, .. } => because.code().to_string(),
            Plan::Skip { because } => because.code().to_string(),
        }
    }

    fn wanted(request: u64, limit: u64) -> Allocation {
        Allocation { request: Millicores::new(request), limit: Millicores::new(limit) }
    }

    fn check(wish: &Wish<'_>, containers: &str) -> String {
        told(&plan_wish(wish, &pod(containers), &History::default(), &Rules::DEFAULT, NOW))
    }

    #[test]
    fn off_changes_nothing() {
        assert_eq!(check(&Wish::Nothing, "app 100m/200m"), "RecommendOnly");
    }

    #[test]
    fn limits_alone_leave_every_request_as_it_is() {
        let wish = Wish::Limits(wanted(900, 600));
        let now = "app 100m/200m, log 50m/100m";
        assert_eq!(check(&wish, now), "app 100m/400m, log 50m/200m");
        let settled = "app 100m/400m, log 50m/200m";
        assert_eq!(check(&wish, settled), "AlreadyApplied");
    }

    #[test]
    fn a_request_is_never_above_its_limit_and_the_class_stays() {
        let wish = Wish::Limits(wanted(100, 80));
        assert_eq!(check(&wish, "app 100m/200m"), "app 79m/80m, KeptBurstable");
    }

    #[test]
    fn a_container_without_a_request_keeps_having_none() {
        let wish = Wish::Limits(wanted(100, 300));
        assert_eq!(check(&wish, "app -/-, log 50m/200m"), "app 0m/100m, log 50m/200m, LimitsAdded");
    }

    #[test]
    fn limits_alone_are_bounded_in_size() {
        assert_eq!(check(&Wish::Limits(wanted(1, 5000)), "app 100m/200m"), "StepSizeExceeded");
    }

    #[test]
    fn a_pod_gets_back_exactly_what_each_container_came_with() {
        let originals = read("app 200m/1000m,log 10m/50m");
        let wish = Wish::Originals(&originals);
        assert_eq!(check(&wish, "app 20m/70m, log 30m/90m"), "app 200m/1000m, log 10m/50m");
        assert_eq!(check(&wish, "app 200m/1000m, log 10m/50m"), "Restored");
        // Near is not enough.
        assert_eq!(check(&wish, "app 200m/1000m, log 10m/51m"), "app 200m/1000m, log 10m/50m");
    }

    #[test]
    fn what_was_not_there_becomes_as_good_as_nothing() {
        let originals = read("app -/-,log 10m/50m");
        let back = "app 0m/1024000m, log 10m/50m, LimitsOutOfReach";
        assert_eq!(check(&Wish::Originals(&originals), "app 20m/70m, log 30m/90m"), back);
        let wish = Wish::Originals(&originals);
        assert_eq!(check(&wish, "app 0m/1024000m, log 10m/50m"), "Restored");
    }

    #[test]
    fn a_pod_that_nobody_changed_has_what_it_came_with() {
        assert_eq!(check(&Wish::Originals(&[]), "app 20m/70m"), "Restored");
    }

    #[test]
    fn giving_back_waits_for_the_cooldown_and_for_nothing_else() {
        let originals = read("app 200m/900000m");
        let wish = Wish::Originals(&originals);
        let mut pod = pod("app 20m/70m");
        pod.excluded = true;
        let mut history = History::default();
        let plan = |history: &History| told(&plan_wish(&wish, &pod, history, &Rules::DEFAULT, NOW));
        assert_eq!(plan(&history), "app 200m/900000m");
        history.resize_applied(false, Moment::from_ms(1_000_000 - 3_000));
        assert_eq!(plan(&history), "RateLimited");
        assert!(Span::from_s(3) < Rules::DEFAULT.cooldown);
    }

    #[test]
    fn requests_stay_where_an_autoscaler_goes_by_use_over_request() {
        let under = |autoscaler: Autoscaler, qos, wish: &Wish<'_>| {
            let containers = "app 100m/200m, log 90m/100m";
            let pod = PodView { autoscaler: Some(autoscaler), qos, ..pod(containers) };
            let rules = Rules { manage_guaranteed: true, ..Rules::DEFAULT };
            told(&plan_wish(wish, &pod, &History::default(), &rules, NOW))
        };
        let by_use = || Autoscaler::Utilization("web".to_string());
        let (both, limits) = (Wish::RequestsAndLimits, Wish::Limits);
        let (up, burstable) = (wanted(500, 600), QosClass::Burstable);
        let raised = "app 100m/400m, log 90m/200m, RequestsLeftAlone";
        assert_eq!(under(by_use(), burstable, &both(up)), raised);
        assert_eq!(under(by_use(), burstable, &limits(up)), raised);
        // A limit does not push a request down, as it would elsewhere.
        let down = wanted(10, 240);
        assert_eq!(
            under(by_use(), burstable, &both(down)),
            "app 100m/160m, log 90m/90m, RequestsLeftAlone"
        );
        assert_eq!(
            check(&limits(down), "app 100m/200m, log 90m/100m"),
            "app 100m/160m, log 80m/80m"
        );
        let guaranteed = under(by_use(), QosClass::Guaranteed, &both(up));
        assert_eq!(guaranteed, "HorizontalPodAutoscaler");
        let vertical = || Autoscaler::Vertical("web".to_string());
        assert_eq!(under(vertical(), burstable, &both(up)), "VerticalPodAutoscaler");
        assert_eq!(under(vertical(), burstable, &Wish::Nothing), "VerticalPodAutoscaler");
        // What was changed before it came is given back like everything else.
        let originals = read("app 10m/20m,log 10m/20m");
        let back = under(vertical(), burstable, &Wish::Originals(&originals));
        assert_eq!(back, "app 10m/20m, log 10m/20m");
    }

    #[test]
    fn what_is_wished_is_what_a_patch_asks_for() {
        let now = pod("app 100m/200m, log 50m/100m");
        let originals = read("app 10m/20m,log 10m/20m");
        for wish in [
            Wish::Limits(wanted(1, 600)),
            Wish::RequestsAndLimits(wanted(60, 600)),
            Wish::Originals(&originals),
        ] {
            let history = History::default();
            let plan = plan_wish(&wish, &now, &history, &Rules::DEFAULT, NOW);
            let Plan::Patch { containers, .. } = plan else { panic!("{plan:?}") };
            assert_eq!(wished(&wish, &now, &history, &Rules::DEFAULT), Some(containers));
        }
    }
}
