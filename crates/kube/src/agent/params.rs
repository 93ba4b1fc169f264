//! What the market is told of a pod, or why the pod is left alone.
//!
//! Called for every pod whenever something about the pods, their namespaces, the node or the
//! configuration changed. Nothing is read or written. Weights and bounds come from what a pod came
//! with, never from what Walras made of it, so they stay the same while it is resized. An
//! annotation that cannot be understood is complained about, and the default is used.

use std::fmt;
use std::ops::RangeInclusive;

use walras_core::claim::{CameWith, Claim, Ground, Known, Nature, claim, share_of_request};
use walras_core::need::Bounds;
use walras_core::profile::CapRule;
use walras_core::request::RequestRule;
use walras_core::resize::{self, Allocation, Autoscaler, UNLIMITED, one_step};
use walras_core::units::{FamilyKey, Millicores, Ratio, Weight};
use walras_wire::settings::{cpu_from, latency_from};

use super::find::Qos;
use super::tables::USE_PREFIX;
use crate::names;
use crate::pod::{
    Amounts, Container, Mode, Originals, Pod, Resources, autoscaler_from, container_views,
    has_opted_out, is_static, millicores, owner,
};

/// A key of a ConfigMap can be no longer than 253, and some begin with something more.
const KEY_LONGEST: usize = 253 - USE_PREFIX.len();
/// What a priority multiplies a weight by, at least and at most, in thousandths.
const PRIORITY_RANGE: (i64, i64) = (100, 10_000);

/// What holds for every pod of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// What a pod may have at least.
    pub baseline: Millicores,
    /// What becomes of a grant.
    pub cap_rule: CapRule,
    /// What a pod may have at most where nothing is said: the node.
    pub node: Millicores,
    /// Whether Guaranteed pods are sized, too.
    pub guaranteed: bool,
    /// Whether no pod gets more than the limit it came with.
    pub respect_limits: bool,
    /// Namespaces whose pods are left alone.
    pub excluded: Vec<String>,
    /// What may be changed where nothing is said.
    pub mode: Mode,
    /// The latency target of pods that name none.
    pub target_latency_ms: Option<f64>,
}

/// What the market is told of a pod, apart from what is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Its class.
    pub qos: Qos,
    /// What may be changed of it.
    pub mode: Mode,
    /// What is known of its claim, with all that its owner wishes for.
    pub known: Known,
    /// What its weight is multiplied by where its owner wishes for nothing else.
    pub usual_priority: Weight,
    /// The least and the most it may be granted.
    pub bounds: Bounds,
    /// What its claim counts for.
    pub weight: Weight,
    /// What kind of work it does, as far as its owner said so.
    pub nature: Nature,
    /// What counts as its limit where it has none.
    pub unlimited: Millicores,
    /// What its learned table is kept under.
    pub family: FamilyKey,
    /// The request it came with.
    pub original_request: Millicores,
    /// The limit it came with, if all its containers have one.
    pub original_limit: Option<Millicores>,
    /// What it requests now.
    pub request: Millicores,
    /// The limits of its containers together now, if all have one.
    pub limit: Option<Millicores>,
    /// The limits that one resize can bring it to, where not any limit is.
    pub step: Option<RangeInclusive<Millicores>>,
    /// The HorizontalPodAutoscaler that goes by its requests, which stay as they are for that.
    pub scaled_by: Option<String>,
    /// What becomes of its request.
    pub request_rule: RequestRule,
    /// Its latency target.
    pub target_latency_ms: Option<f64>,
    /// What is wrong with its annotations, in sentences.
    pub complaints: Vec<String>,
}

/// Why a pod is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftAlone {
    /// Its owner wants that.
    OptedOut,
    /// Its namespace is.
    Namespace,
    /// It comes from a file on the node, and the API cannot change it.
    Static,
    /// A VerticalPodAutoscaler sizes it, or it is Guaranteed and a HorizontalPodAutoscaler goes by
    /// its request, which is its limit.
    Autoscaled(Autoscaler),
    /// It was promised exactly what it has.
    Guaranteed,
    /// It has neither requests nor limits, and cannot get any.
    BestEffort,
    /// It does not run yet.
    NotRunning,
    /// It is about to go.
    BeingDeleted,
    /// It has done its work.
    Finished,
    /// A change of its CPU would restart this container.
    Restarts(String),
    /// It has CPU resources of its own beside those of its containers.
    PodLevel,
    /// What it has cannot be read.
    Unreadable(String),
}

/// What the market is told of `pod`, whose namespace says `namespace_mode`.
///
/// # Errors
/// It is left alone.
pub fn judge(pod: &Pod, namespace_mode: Option<&str>, rules: &Rules) -> Result<Params, LeftAlone> {
    let qos = check_eligible(pod, rules)?;
    let unreadable = |error: String| LeftAlone::Unreadable(error);
    let originals = Originals::of(pod).map_err(|error| unreadable(error.to_string()))?;
    let views = container_views(pod).map_err(|error| unreadable(error.to_string()))?;
    let mut complaints = Vec::new();
    let mode = Mode::of(pod, namespace_mode, rules.mode).unwrap_or_else(|error| {
        complaints.push(error.to_string());
        Mode::Off
    });
    let scaled_by = pod.annotation(names::AUTOSCALER).and_then(autoscaler_from);
    let scaled_by = match (scaled_by, qos) {
        (Some(Autoscaler::Utilization(name)), Qos::Burstable | Qos::BestEffort) => Some(name),
        (Some(other), _) => return Err(LeftAlone::Autoscaled(other)),
        (None, _) => None,
    };
    let mode = match mode {
        Mode::RequestsAndLimits if scaled_by.is_some() => Mode::LimitsOnly,
        Mode::Off | Mode::LimitsOnly | Mode::RequestsAndLimits | Mode::Restore => mode,
    };
    let known = known(pod, &originals, &mut complaints);
    let Claim { bounds, weight } = claim(&known, &rules.ground());
    let target = annotated(
        pod,
        names::TARGET_LATENCY_MS,
        &mut complaints,
        "a number of \
        milliseconds above 0",
        |text| latency_from(text.parse().ok()?),
    );
    let limit: Option<Millicores> = views.iter().map(|view| view.limit).sum();
    let request_rule = match (&scaled_by, limit) {
        (Some(_), _) => RequestRule::Scaled,
        // A resize sets limits as well, and one that was added cannot be taken away again.
        (None, None) => RequestRule::Kept,
        (None, Some(_)) => request_rule(mode, qos),
    };
    Ok(Params {
        qos,
        mode,
        known,
        usual_priority: priority_of_class(pod),
        bounds,
        weight,
        nature: known.nature,
        unlimited: match rules.cap_rule {
            CapRule::Grant | CapRule::Tight => bounds.max(),
            CapRule::Loose => Millicores::UNLIMITED,
        },
        family: family(pod),
        original_request: originals.request(),
        original_limit: originals.limit(),
        request: views.iter().filter_map(|view| view.request.or(view.limit)).sum(),
        limit,
        step: one_step(&views, &resize::Rules::DEFAULT),
        scaled_by,
        request_rule,
        target_latency_ms: target.or(rules.target_latency_ms),
        complaints,
    })
}

/// What `pod` sets aside on its node, whether it is sized or not.
#[must_use]
pub fn request_of(pod: &Pod) -> Millicores {
    if is_finished(pod) {
        return Millicores::ZERO;
    }
    let cpu = |amounts: &Amounts| millicores(amounts.cpu.as_deref()?).ok();
    // Who says nothing of its request has its limit for one.
    let of_container = |container: &Container| {
        let Resources { requests, limits } = &container.resources;
        cpu(requests).or_else(|| cpu(limits))
    };
    let of_containers: Vec<Millicores> =
        pod.lasting_containers().filter_map(of_container).collect();
    let sum = || of_containers.iter().copied().sum();
    // What is said for the whole pod counts; its limit only where no container has a request.
    let whole = pod.spec.resources.as_ref();
    let whole_request = whole.and_then(|whole| cpu(&whole.requests));
    let whole_limit = whole.and_then(|whole| cpu(&whole.limits));
    let default = whole_limit.filter(|_| of_containers.is_empty());
    whole_request.or(default).unwrap_or_else(sum)
}

/// What `pod` is to get back: the sums of what its containers came with. Nothing where the mode
/// says otherwise, or where it was never changed.
///
/// This goes by what the pod carries and not by whether it is sized: a pod that opted out after a
/// resize, or is left alone for another reason by now, gets it back like any other.
#[must_use]
pub fn to_give_back(
    pod: &Pod,
    namespace_mode: Option<&str>,
    everybody: Mode,
) -> Option<Allocation> {
    let gone = is_finished(pod) || pod.metadata.deletion_timestamp.is_some();
    if gone || is_static(pod) || Mode::of(pod, namespace_mode, everybody) != Ok(Mode::Restore) {
        return None;
    }
    let originals = match Originals::written(pod) {
        Ok(written) => written?,
        // The controller refuses, and says so where there is something to say it on.
        Err(_) => Originals::now(pod).ok()?,
    };
    let unlimited = UNLIMITED.get();
    let limits = originals.0.values().map(|one| Millicores::new(one.limit.unwrap_or(unlimited)));
    let limit: Millicores = limits.sum();
    let request = originals.request().min(limit);
    (limit > Millicores::ZERO).then_some(Allocation { request, limit })
}

/// What there is to divide: what the node has for pods, less the reserve, less what the pods
/// request that are left alone; but not less than the others `came_with`, as far as the node has
/// it. A scheduler packs nodes by what pods request, so the reserve is what gives way: a node that
/// is full is not one where everybody has to give something up.
#[must_use]
pub fn capacity(
    allocatable: Millicores,
    reserve: Ratio,
    left_alone: Millicores,
    came_with: Millicores,
) -> Millicores {
    let spare = allocatable.scale_floor(reserve.complement()).saturating_sub(left_alone);
    spare.max(came_with.min(allocatable.saturating_sub(left_alone)))
}

/// What becomes of a pod's request. What is only recommended is recommended as it would be done; a
/// Guaranteed pod's request is its limit.
const fn request_rule(mode: Mode, qos: Qos) -> RequestRule {
    match (mode, qos) {
        (_, Qos::Guaranteed) | (Mode::LimitsOnly | Mode::Restore, _) => RequestRule::Kept,
        (Mode::Off | Mode::RequestsAndLimits, Qos::Burstable | Qos::BestEffort) => {
            RequestRule::Follows
        }
    }
}

fn check_eligible(pod: &Pod, rules: &Rules) -> Result<Qos, LeftAlone> {
    if is_finished(pod) {
        return Err(LeftAlone::Finished);
    }
    if has_opted_out(pod) {
        return Err(LeftAlone::OptedOut);
    }
    if rules.excluded.iter().any(|excluded| excluded == pod.namespace()) {
        return Err(LeftAlone::Namespace);
    }
    if is_static(pod) {
        return Err(LeftAlone::Static);
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Err(LeftAlone::BeingDeleted);
    }
    let told = pod.annotation(names::SKIP_GUARANTEED);
    let qos = match pod.status.qos_class.as_deref() {
        Some("BestEffort") => return Err(LeftAlone::BestEffort),
        Some("Guaranteed") if !rules.guaranteed && told != Some("false") => {
            return Err(LeftAlone::Guaranteed);
        }
        Some("Guaranteed") if told == Some("true") => return Err(LeftAlone::Guaranteed),
        Some("Guaranteed") => Qos::Guaranteed,
        Some(_) | None => Qos::Burstable,
    };
    if pod.status.phase.as_deref() != Some("Running") {
        return Err(LeftAlone::NotRunning);
    }
    if has_resources_of_its_own(pod) {
        return Err(LeftAlone::PodLevel);
    }
    let mut containers = pod.lasting_containers();
    match containers.find(|container| container.restarts_on_cpu_resize()) {
        Some(Container { name, .. }) => Err(LeftAlone::Restarts(name.clone())),
        None => Ok(qos),
    }
}

/// Whether CPU is said for the pod as a whole, as Kubernetes 1.34 and newer allow: what its
/// containers have is not what counts then, and the controller refuses it.
fn has_resources_of_its_own(pod: &Pod) -> bool {
    let set = |amounts: &Amounts| amounts.cpu.is_some();
    let whole = pod.spec.resources.as_ref();
    whole.is_some_and(|whole| set(&whole.requests) || set(&whole.limits))
}

fn is_finished(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// What is known of a pod's claim: what it came with, and what its owner wrote.
fn known(pod: &Pod, originals: &Originals, complaints: &mut Vec<String>) -> Known {
    let cpu = "an amount of CPU such as 250m or 2";
    let min = annotated(pod, names::MIN_CPU, complaints, cpu, cpu_from);
    let max = annotated(pod, names::MAX_CPU, complaints, cpu, cpu_from);
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        complaints.push(format!(
            "the annotation {} ({min}) asks for more than {} allows ({max}); the former counts",
            names::MIN_CPU,
            names::MAX_CPU
        ));
    }
    let nature = annotated(pod, names::NATURE, complaints, "batch, service or unknown", |text| {
        Nature::ALL.into_iter().find(|nature| nature.name() == text)
    });
    let request = originals.request();
    let came_with = CameWith { request: Some(request), limit: originals.limit(), weight: None };
    Known {
        came_with,
        min,
        max,
        share: share_of_request(request),
        priority: priority(pod, complaints),
        nature: nature.unwrap_or_default(),
    }
}

/// What multiplies a pod's weight: what its owner says, or else its priority.
fn priority(pod: &Pod, complaints: &mut Vec<String>) -> Weight {
    let named =
        annotated(pod, names::PRIORITY_MULTIPLIER, complaints, "a number above 0", |text| {
            // Three digits behind the point are as fine as weights are.
            let weight = walras_wire::settings::weight_from(text.parse().ok()?)?;
            Some(i64::from(weight.thousandths()))
        });
    named.map_or_else(|| priority_of_class(pod), priority_from)
}

/// What multiplies a pod's weight by its priority class, which administrators make.
fn priority_of_class(pod: &Pod) -> Weight {
    priority_from(1000 + i64::from(pod.spec.priority.unwrap_or(0)) / 10)
}

fn priority_from(thousandths: i64) -> Weight {
    let (low, high) = PRIORITY_RANGE;
    let thousandths = u32::try_from(thousandths.clamp(low, high));
    Weight::from_thousandths(thousandths.unwrap_or(1000)).unwrap_or(Weight::ONE)
}

/// Whose pods share what was learned: those of one owner with the same containers. A name that is
/// fit for a key of a ConfigMap; no part of it can have an underscore.
fn family(pod: &Pod) -> FamilyKey {
    let owner = owner(pod);
    let (kind, name) = match &owner {
        None => ("Pod", pod.name()),
        Some(owner) => (owner.kind, owner.behind.as_ref().map_or(owner.name, |behind| behind.name)),
    };
    let mut key = format!("{}_{kind}_{name}", pod.namespace());
    for container in pod.lasting_containers() {
        key.push('_');
        key += &container.name;
    }
    if key.len() > KEY_LONGEST {
        let hash = format!("_{:016x}", names::fnv(key.as_bytes()));
        key.truncate(KEY_LONGEST - hash.len());
        key += &hash;
    }
    FamilyKey::new(&key)
}

/// An annotation's meaning; one without is complained about.
fn annotated<T>(
    pod: &Pod,
    name: &str,
    complaints: &mut Vec<String>,
    what: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let text = pod.annotation(name)?;
    let meaning = read(text.trim());
    if meaning.is_none() {
        let shown: String = text.chars().take(60).collect();
        complaints.push(format!("the annotation {name} is {shown:?}, which is not {what}"));
    }
    meaning
}

// === impl Rules, Params ===

impl Rules {
    /// What holds for the claims of all of them.
    #[must_use]
    pub const fn ground(&self) -> Ground {
        Ground {
            cap_rule: self.cap_rule,
            baseline: self.baseline,
            node: self.node,
            respect_limits: self.respect_limits,
        }
    }
}

impl Params {
    /// What it came with.
    #[must_use]
    pub const fn came_with(&self) -> CameWith {
        let (request, limit) = (Some(self.original_request), self.original_limit);
        CameWith { request, limit, weight: None }
    }
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OptedOut => write!(f, "{} is \"false\"", names::MANAGED),
            Self::Namespace => f.write_str("its namespace is left alone"),
            Self::Static => f.write_str("it is static: the API cannot change it"),
            Self::Autoscaled(Autoscaler::Vertical(name)) => {
                write!(f, "the VerticalPodAutoscaler {name} sizes it")
            }
            Self::Autoscaled(Autoscaler::Utilization(name)) => write!(
                f,
                "it is Guaranteed, so its limit is its request, and the HorizontalPodAutoscaler \
                 {name} goes by use over request"
            ),
            Self::Guaranteed => write!(
                f,
                "it is Guaranteed; the annotation {} \"false\" sizes it, too",
                names::SKIP_GUARANTEED
            ),
            Self::BestEffort => {
                f.write_str("it is BestEffort: a resize may not give it requests or limits")
            }
            Self::NotRunning => f.write_str("it does not run"),
            Self::BeingDeleted => f.write_str("it is being deleted"),
            Self::Finished => f.write_str("it has finished"),
            Self::Restarts(container) => write!(
                f,
                "the resizePolicy of its container {container} says that a change of CPU restarts \
                 it, and nothing is restarted"
            ),
            Self::PodLevel => f.write_str(
                "it has CPU resources for the pod as a whole (spec.resources), which are not sized",
            ),
            Self::Unreadable(error) => f.write_str(error),
        }
    }
}

#[cfg(test)]
mod tests;
