//! What to do about one allocation, from everything that is known of it; without any I/O.
//!
//! The checks run from the cheapest lie to the dearest mistake: whose object it is, whether it is
//! meant for this pod, what may be changed, and then the plan. Where the plan has nothing left to
//! ask for, the question is whether the node did it.

use walras_core::resize::{
    Allocation, Asked, Autoscaler, ContainerPatch, History, InfeasibleMark, Note, Original,
    Pending, Plan, PodFault, PodView, QosClass, Rules, SkipReason, Verdict, Wish, plan_wish,
    verify, wished,
};
use walras_core::units::{Millicores, Moment, Span};

use super::clock::moment;
use super::facts::{AllocationFacts, Key, PodFacts};
use super::settings::Settings;
use super::siblings::with_siblings;
use crate::crd::{Phase, name_of};
use crate::names::{self, node_label};
use crate::pod::{Mode, mark_of};

/// How long a node may take before it counts as not having done it.
pub(crate) const PATIENCE: Span = Span::from_s(10);
/// How often a resize that is not in force yet is looked at after that.
const LOOK_AGAIN: Span = Span::from_s(30);

/// The API server keeps whole seconds of when a pod was resized: it was within the next one.
const STAMP_GRAIN: Span = Span::from_s(1);

/// After so long, whatever another controller asked for is to be seen, whatever the cooldown is.
const TAKE_OVER: Span = Span::from_s(10);

/// So much may the API server's clock be ahead of ours.
const CLOCK_SKEW: Span = Span::from_s(5);

/// What is said of every pod where none can be resized, before anything is written to it.
const TOO_OLD: &str = "The API server has no pods/resize, which Kubernetes has since 1.33, so no \
                       pod is changed. It is looked for again every few minutes.";

/// Everything that is known of one allocation.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) key: &'a Key,
    pub(crate) allocation: &'a AllocationFacts,
    pub(crate) pod: Option<&'a PodFacts>,
    /// Who else sizes the pod, or goes by its requests.
    pub(crate) autoscaler: Option<&'a Autoscaler>,
    /// The largest request that is suggested for a pod of its workload.
    pub(crate) siblings: Option<Millicores>,
    pub(crate) namespace_mode: Option<&'a str>,
    /// Where this controller runs.
    pub(crate) own_namespace: &'a str,
    /// Whether the API server can resize pods at all.
    pub(crate) can_resize: bool,
    pub(crate) settings: &'a Settings,
    pub(crate) memory: &'a Memory,
    /// Since when this controller acts.
    pub(crate) acts_since: Moment,
    pub(crate) now: Moment,
}

/// What the controller remembers of an allocation between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The pod that this is about.
    pub(crate) pod_uid: String,
    pub(crate) history: History,
    /// The resize that is not in force yet.
    pub(crate) asked: Option<AskedFor>,
    /// How often in a row something went wrong.
    pub(crate) failures: u32,
    /// The API server's stamp of the last resize that was ours.
    pub(crate) own_stamp: Option<Moment>,
    /// When a resize was attempted that was certainly refused, as the status says it.
    pub(crate) refused_attempt: Option<Moment>,
    /// This wish is not tried again before this moment, because something went wrong with it. The
    /// wish and not the generation, which also changes with the price.
    pub(crate) not_before: Option<(Option<Allocation>, Moment)>,
}

/// A resize that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedFor {
    pub(crate) at: Moment,
    pub(crate) generation: i64,
    pub(crate) restarts: Vec<u32>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// Nothing at all until then, not even a word.
    Wait(Moment),
    /// Nothing but to say how it stands.
    Tell(Told),
    /// Ask for this.
    Resize { containers: Vec<ContainerPatch>, notes: Vec<Note> },
}

/// How an allocation stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) phase: Phase,
    pub(crate) standing: Standing,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// When to look again, if nothing happens before.
    pub(crate) next: Option<Moment>,
}

/// What kind of word it is, for events, conditions and figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The resize that was asked for is in force.
    Verified,
    /// There is nothing to do.
    Settled,
    /// Nothing is to be done: its owner or the settings want it left alone.
    LeftAlone,
    /// It has to wait.
    Held,
    /// The node has been asked.
    Asked,
    /// The node should have done it by now.
    Unverified,
    /// The node has no room.
    Deferred,
    /// The node will never have room.
    Infeasible,
    /// It is not going to be done.
    Refused,
    /// The API server did not do it.
    Troubled,
}

/// Decides.
pub(crate) fn decide(situation: &Situation<'_>) -> Decision {
    let (pod, view, mode) = match admit(situation) {
        Ok(admitted) => admitted,
        Err(told) => return Decision::Tell(told),
    };
    let view = &PodView { autoscaler: situation.autoscaler.cloned(), ..view.clone() };
    let none: &[Original] = &[];
    let wish = match (mode, &situation.allocation.desired) {
        (Mode::Off, _) => Wish::Nothing,
        (Mode::Restore, _) => match &pod.originals {
            Ok(originals) => Wish::Originals(originals.as_deref().unwrap_or(none)),
            Err(because) => return refuse("InvalidOriginals", because.clone()),
        },
        (Mode::LimitsOnly | Mode::RequestsAndLimits, Err(because)) => {
            return refuse("InvalidDesiredCPU", because.clone());
        }
        (Mode::LimitsOnly, Ok(desired)) => Wish::Limits(*desired),
        (Mode::RequestsAndLimits, Ok(desired)) => {
            let siblings = situation.siblings.filter(|_| situation.settings.requests_follow_use());
            Wish::RequestsAndLimits(with_siblings(*desired, came_with(pod, view), siblings))
        }
    };
    if let Err(because) = &pod.originals {
        // What it came with could not be given back later.
        return refuse("InvalidOriginals", because.clone());
    }
    let rules = situation.settings.rules(pod.manage_guaranteed);
    let history = history(situation, pod);
    let plan = plan_wish(&wish, view, &history, &rules, situation.now);
    if let (Plan::Patch { .. } | Plan::Hold { .. }, Some(not_before)) = (&plan, barred(situation)) {
        return Decision::Wait(not_before);
    }
    match plan {
        Plan::Patch { containers, notes } => Decision::Resize { containers, notes },
        Plan::Hold { until, because } => Decision::Tell(Told {
            phase: Phase::Pending,
            standing: Standing::Held,
            reason: because.code(),
            message: because.to_string(),
            next: Some(until),
        }),
        Plan::Skip { because } => skip(situation, pod, &wish, view, &history, &rules, &because),
    }
}

/// The request that a pod came with.
fn came_with(pod: &PodFacts, view: &PodView) -> Millicores {
    match &pod.originals {
        Ok(Some(originals)) => originals.iter().filter_map(|one| one.request).sum(),
        // It was not changed yet; where that cannot be read, it is refused.
        Ok(None) | Err(_) => view.containers.iter().filter_map(|one| one.request).sum(),
    }
}

/// What the agent of the pod's node is to be told of its autoscaler, if it was told otherwise: the
/// text of an annotation, or that there is to be none.
///
/// Where nothing may be changed, nothing is written either, not even this; and a pod that is
/// left alone for another reason is none of the agent's business.
pub(crate) fn mark_due(situation: &Situation<'_>) -> Option<Option<String>> {
    let (pod, view, mode) = admit(situation).ok()?;
    match mode {
        Mode::Off | Mode::Restore => return None,
        Mode::LimitsOnly | Mode::RequestsAndLimits => {}
    }
    if view.excluded || view.static_pod || view.deleting {
        return None;
    }
    let mark = situation.autoscaler.map(mark_of);
    (mark != pod.mark).then_some(mark)
}

/// Whether this object may speak for this pod, and what may be changed of it.
fn admit<'a>(situation: &Situation<'a>) -> Result<(&'a PodFacts, &'a PodView, Mode), Told> {
    let Situation { key, allocation, .. } = situation;
    if allocation.namespace != *key.namespace {
        return Err(refusal(
            "ForeignNamespace",
            format!(
                "This object is in the namespace {}, and asks for a pod in {}: an allocation is \
                 for pods of its own namespace.",
                key.namespace, allocation.namespace
            ),
        ));
    }
    let Some(pod) = situation.pod else {
        let message = format!("There is no pod {} in this namespace.", allocation.pod);
        return Err(refusal("PodNotFound", message));
    };
    if !allocation.owners.is_empty() && !allocation.owners.contains(&pod.uid) {
        return Err(refusal(
            "StalePod",
            "This object belongs to an earlier pod of the same name.".to_owned(),
        ));
    }
    let pod_label = pod.node.as_deref().map(node_label);
    if allocation.node_label.is_some() && allocation.node_label != pod_label {
        let node = allocation.node_label.as_deref().unwrap_or_default();
        return Err(refusal(
            "ForeignNode",
            format!("The agent of {node} wrote this, and the pod is not on that node."),
        ));
    }
    let expected = name_of(&allocation.namespace, &allocation.pod, &pod.uid);
    if *key.name != *expected {
        return Err(refusal(
            "WrongName",
            format!(
                "The allocation of this pod is the object named {expected}; others are not obeyed, \
                 so that no two can contradict each other."
            ),
        ));
    }
    if !situation.can_resize {
        return Err(refusal("ResizeUnsupported", TOO_OLD.to_owned()));
    }
    let view = pod.view.as_ref();
    let view = view.map_err(|because| refusal("InvalidPodState", because.clone()))?;
    let everybody = situation.settings.mode();
    let mode = Mode::nearest(pod.mode.as_deref(), situation.namespace_mode, everybody);
    let mode = mode.map_err(|error| refusal("InvalidMode", format!("{error}.")))?;
    let mode = if situation.settings.are_read { mode } else { Mode::Off };
    // A pod that was changed before it was excluded gets everything back like any other.
    if mode != Mode::Restore
        && let Some(told) = excluded(situation)
    {
        return Err(told);
    }
    Ok((pod, view, mode))
}

/// Why the pod's namespace is left alone, if it is.
fn excluded(situation: &Situation<'_>) -> Option<Told> {
    let namespace = &*situation.key.namespace;
    let because = if namespace == situation.own_namespace {
        "Walras runs in it".to_owned()
    } else if names::EXCLUDED_NAMESPACES.contains(&namespace) {
        "it always is".to_owned()
    } else if situation.settings.held.agent.excluded.contains(namespace) {
        format!("the ConfigMap {} names it in excludedNamespaces", names::CONFIG)
    } else {
        return None;
    };
    let message = format!("The namespace {namespace} is left alone: {because}.");
    let (phase, standing) = (Phase::Applied, Standing::LeftAlone);
    Some(Told { phase, standing, reason: "ExcludedNamespace", message, next: None })
}

/// What happened to the pod before, by whatever is known: after a crash, its objects remember.
fn history(situation: &Situation<'_>, pod: &PodFacts) -> History {
    let status = &situation.allocation.status;
    let mut history = situation.memory.history.clone();
    // A stamp from the future is another clock's, or a lie, and would hold the pod until then.
    let stamp = |stamp: Option<Moment>| stamp.filter(|stamp| *stamp <= situation.now + CLOCK_SKEW);
    let memory = situation.memory;
    let attempted = stamp(status.last_attempt_time.as_ref().map(moment))
        .filter(|at| memory.refused_attempt != Some(*at));
    let resized =
        stamp(pod.resized_at).filter(|at| memory.own_stamp != Some(*at)).map(|at| at + STAMP_GRAIN);
    let stamped = resized.max(attempted);
    if stamped > history.last_applied_at {
        // Another client resized it since, and which way is not known.
        history.last_was_cut = false;
    }
    history.last_applied_at = history.last_applied_at.max(stamped);
    let refused_before = status.reason.as_deref() == Some("Infeasible")
        && status.observed_generation == Some(situation.allocation.generation);
    if history.infeasible.is_none()
        && refused_before
        && let Some(refused) = refused(situation.allocation, pod)
    {
        history.resize_refused_as_infeasible(&refused, situation.now);
    }
    history.at(situation.now)
}

/// What the node has refused for good: what the pod's spec asks for, where its condition says so,
/// else what the allocation would ask for.
pub(crate) fn refused(allocation: &AllocationFacts, pod: &PodFacts) -> Option<Allocation> {
    let (desired, view) = (*allocation.desired.as_ref().ok()?, pod.view.as_ref().ok()?);
    let request = if let Some(Pending::Infeasible { .. }) = pod.seen.pending {
        view.containers.iter().filter_map(|container| container.request).sum()
    } else {
        match view.qos {
            QosClass::Guaranteed => desired.limit,
            QosClass::Burstable | QosClass::BestEffort => desired.request,
        }
    };
    Some(Allocation { request, ..desired })
}

/// Until when nothing may be asked for, whatever the plan says.
fn barred(situation: &Situation<'_>) -> Option<Moment> {
    // The leader before this one may have asked for something that is not to be seen yet.
    let begins = situation.acts_since + situation.settings.held.cooldown.min(TAKE_OVER);
    let failed = situation.memory.not_before;
    let wish = situation.allocation.desired.as_ref().ok().copied();
    let failed = failed.filter(|(failed, _)| *failed == wish);
    let not_before = failed.map_or(begins, |(_, again)| again.max(begins));
    (situation.now < not_before).then_some(not_before)
}

fn skip(
    situation: &Situation<'_>,
    pod: &PodFacts,
    wish: &Wish<'_>,
    view: &PodView,
    history: &History,
    rules: &Rules,
    because: &SkipReason,
) -> Decision {
    let (phase, standing) = match because {
        SkipReason::AlreadyApplied { .. } | SkipReason::Restored => {
            return match wished(wish, view, history, rules) {
                Some(wanted) => judge(situation, pod, &wanted, rules, because),
                None => tell(Phase::Applied, Standing::Settled, because.code(), because),
            };
        }
        SkipReason::InvalidPodState(PodFault::NotRunning(_)) | SkipReason::RecommendOnly => {
            (Phase::Pending, Standing::Refused)
        }
        SkipReason::Infeasible { .. } => (Phase::Failed, Standing::Infeasible),
        // It has what it should have, and it is not ours to say what that is.
        SkipReason::Excluded
        | SkipReason::VerticalAutoscaler { .. }
        | SkipReason::HorizontalAutoscaler { .. }
        | SkipReason::GuaranteedQos => (Phase::Applied, Standing::LeftAlone),
        SkipReason::InvalidPodState(_)
        | SkipReason::BestEffortQos
        | SkipReason::InvalidDesiredCpu { .. }
        | SkipReason::NoRoomInContainers { .. } => (Phase::Failed, Standing::Refused),
    };
    // A node that could never do it may have grown by then.
    let next = history.infeasible.as_ref().map(InfeasibleMark::until);
    let next = next.filter(|_| standing == Standing::Infeasible);
    let (reason, message) = (because.code(), because.to_string());
    Decision::Tell(Told { phase, standing, reason, message, next })
}

/// How the resize stands, where the pod's spec has everything that is wanted.
fn judge(
    situation: &Situation<'_>,
    pod: &PodFacts,
    wanted: &[ContainerPatch],
    rules: &Rules,
    because: &SkipReason,
) -> Decision {
    let asked_for = situation.memory.asked.as_ref();
    let asked = Asked {
        containers: wanted,
        generation: asked_for.map_or(pod.generation, |asked| asked.generation),
        restarts: asked_for.map(|asked| &*asked.restarts).unwrap_or_default(),
    };
    let verdict = verify(&asked, &pod.seen, rules);
    let now = situation.now;
    // A resize that another client asked for is given as much time as one of ours.
    let deadline = asked_for.map_or(now, |asked| asked.at) + PATIENCE;
    let (phase, standing, next) = match &verdict {
        Verdict::Applied | Verdict::Restarted { .. } => {
            return settled(situation, because, &verdict);
        }
        Verdict::Waiting | Verdict::Mismatch { .. } if now < deadline => {
            return Decision::Tell(Told {
                phase: Phase::Pending,
                standing: Standing::Asked,
                reason: "Applying",
                message: "The node has been asked and has not confirmed it yet.".to_owned(),
                next: Some(deadline),
            });
        }
        Verdict::Waiting | Verdict::Mismatch { .. } | Verdict::Failed { .. } => {
            (Phase::Pending, Standing::Unverified, Some(now + LOOK_AGAIN))
        }
        Verdict::Deferred { .. } => (Phase::Pending, Standing::Deferred, Some(now + LOOK_AGAIN)),
        Verdict::Infeasible { .. } => (Phase::Failed, Standing::Infeasible, None),
    };
    let age = match &verdict {
        Verdict::Deferred { since, message: _ } => {
            format!(" It has waited for {} min.", now.since(*since).as_ms_floor() / 60_000)
        }
        Verdict::Applied
        | Verdict::Restarted { .. }
        | Verdict::Waiting
        | Verdict::Mismatch { .. }
        | Verdict::Failed { .. }
        | Verdict::Infeasible { .. } => String::new(),
    };
    let message = format!("{verdict}{age}");
    Decision::Tell(Told { phase, standing, reason: verdict.code(), message, next })
}

fn settled(situation: &Situation<'_>, because: &SkipReason, verdict: &Verdict) -> Decision {
    let restored = *because == SkipReason::Restored;
    let was_asked = situation.memory.asked.is_some();
    let standing = if was_asked { Standing::Verified } else { Standing::Settled };
    // What was applied once and still is needs no new word.
    let known = situation.allocation.status.reason.as_deref();
    let applied = was_asked || matches!(known, Some("Applied" | "ContainerRestarted"));
    let (reason, message) = if matches!(verdict, Verdict::Restarted { .. }) {
        (verdict.code(), verdict.to_string())
    } else if applied && !restored {
        ("Applied", Verdict::Applied.to_string())
    } else {
        (because.code(), because.to_string())
    };
    tell(Phase::Applied, standing, reason, &message)
}

fn tell(
    phase: Phase,
    standing: Standing,
    reason: &'static str,
    message: &impl ToString,
) -> Decision {
    Decision::Tell(Told { phase, standing, reason, message: message.to_string(), next: None })
}

fn refuse(reason: &'static str, message: String) -> Decision {
    Decision::Tell(refusal(reason, message))
}

fn refusal(reason: &'static str, message: String) -> Told {
    Told { phase: Phase::Failed, standing: Standing::Refused, reason, message, next: None }
}

#[cfg(test)]
mod tests;
