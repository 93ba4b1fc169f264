//! What the controller keeps of each object, read once when it arrives: 5,000 pods have to fit into
//! a few megabytes, and a reconciliation should have nothing left to parse.
//!
//! What cannot be read is kept as the sentence that says so, and becomes a refusal.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use walras_core::resize::{
    Allocation, CameWith, ContainerSeen, InProgress, Observed, Original, Pending, Phase, PodView,
    QosClass,
};
use walras_core::units::{Millicores, Moment};

use super::clock::moment;
use crate::autoscaler::Workload;
use crate::crd::{PodAllocation, PodAllocationStatus};
use crate::names;
use crate::pod::{
    self, Amounts, Originals, Pod, RESIZE_IN_PROGRESS, RESIZE_PENDING, container_views,
    has_opted_out, is_static,
};

/// The name of an object in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// What is kept of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodFacts {
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) generation: i64,
    /// Where it runs.
    pub(crate) node: Option<String>,
    /// What it should be, for the plan; or why that cannot be said.
    pub(crate) view: Result<PodView, String>,
    /// How many of the containers in `view`, from the end, are sidecars.
    pub(crate) sidecars: usize,
    /// What is seen of it.
    pub(crate) seen: Observed,
    /// What it came with, if that was written down; or why that cannot be read.
    pub(crate) originals: Result<Option<Vec<Original>>, String>,
    /// Whether another client than the controller wrote down what it came with.
    pub(crate) forged: bool,
    /// What its annotation says of the mode.
    pub(crate) mode: Option<String>,
    /// What it belongs to.
    pub(crate) workloads: Vec<Workload>,
    /// What its annotation says of its autoscaler, for the agent of its node.
    pub(crate) mark: Option<String>,
    /// Whether it is to be sized although it is Guaranteed.
    pub(crate) manage_guaranteed: bool,
    /// When it was last resized, by any client.
    pub(crate) resized_at: Option<Moment>,
}

/// What is kept of an allocation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AllocationFacts {
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) generation: i64,
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// What it asks for; or why that cannot be read.
    pub(crate) desired: Result<Allocation, String>,
    pub(crate) price: Option<f64>,
    /// The uids of the pods that own it: one, unless others were added, or none.
    pub(crate) owners: Vec<String>,
    /// The node whose agent wrote it, as a label has it, if one did.
    pub(crate) node_label: Option<String>,
    pub(crate) status: PodAllocationStatus,
}

// === impl Key ===

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
        Self { namespace: text(&meta.namespace), name: text(&meta.name) }
    }
}

// === impl PodFacts ===

impl PodFacts {
    /// What matters of `pod`.
    pub(crate) fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let written = pod.annotation(names::ORIGINAL_RESOURCES).is_some();
        let forged = written && !pod::is_controllers(meta, names::ORIGINAL_RESOURCES);
        let originals = if forged { Ok(None) } else { Originals::written(pod) };
        let originals = originals.map_err(|error| error.to_string());
        // Where it cannot be read, nothing is planned.
        let came_with = originals.as_ref().ok().and_then(Option::as_ref);
        Self {
            uid: pod.uid().to_owned(),
            version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            node: pod.spec.node_name.clone(),
            view: view(pod, came_with),
            sidecars: pod.spec.init_containers.iter().filter(|one| one.is_sidecar()).count(),
            seen: seen(pod),
            forged,
            originals: originals.map(|written| written.as_ref().map(originals_of)),
            mode: pod.annotation(names::MODE).map(str::to_owned),
            workloads: Workload::all_of(pod),
            // By any client: what differs from what should be there is overwritten, and what
            // does not cannot be, since the API server takes no note of a change to the same.
            mark: pod.annotation(names::AUTOSCALER).map(str::to_owned),
            manage_guaranteed: pod.annotation(names::SKIP_GUARANTEED) == Some("false"),
            resized_at: resized_at(meta),
        }
    }

    /// Whether nothing that matters differs.
    pub(crate) fn same_but_for_version(&self, other: &Self) -> bool {
        Self { version: String::new(), ..self.clone() }
            == Self { version: String::new(), ..other.clone() }
    }
}

fn view(pod: &Pod, originals: Option<&Originals>) -> Result<PodView, String> {
    let set = |amounts: &Amounts| amounts.cpu.is_some();
    let of_pod = pod.spec.resources.as_ref();
    if of_pod.is_some_and(|resources| set(&resources.requests) || set(&resources.limits)) {
        return Err("The pod has CPU resources of its own beside those of its containers, which \
                    are not managed."
            .to_owned());
    }
    if let Some(one) = pod.lasting_containers().find(|one| one.restarts_on_cpu_resize()) {
        return Err(format!(
            "Container {} says that it must be restarted when its CPU changes, and restarting is \
             not what a resize is for.",
            one.name
        ));
    }
    let mut containers = container_views(pod).map_err(|error| format!("{error}."))?;
    for view in &mut containers {
        let came_with = originals.and_then(|all| all.0.get(&view.name));
        view.came_with = came_with.map(|one| CameWith {
            request: one.request.map(Millicores::new),
            limit: one.limit.map(Millicores::new),
        });
    }
    Ok(PodView {
        phase: phase(pod.status.phase.as_deref()),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        excluded: has_opted_out(pod),
        static_pod: is_static(pod),
        qos: qos(pod.status.qos_class.as_deref()),
        // That is not for the pod to say.
        autoscaler: None,
        containers,
    })
}

fn phase(phase: Option<&str>) -> Phase {
    match phase {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some("Unknown") => Phase::Unknown,
        Some(_) | None => Phase::Pending,
    }
}

fn qos(class: Option<&str>) -> QosClass {
    match class {
        Some("Guaranteed") => QosClass::Guaranteed,
        Some("Burstable") => QosClass::Burstable,
        // Without a class it is not known to be one that may be resized.
        Some(_) | None => QosClass::BestEffort,
    }
}

fn seen(pod: &Pod) -> Observed {
    let cpu = |amounts: &Amounts| pod::millicores(amounts.cpu.as_deref()?).ok();
    let container = |status: &pod::ContainerStatus| ContainerSeen {
        name: status.name.clone(),
        request: status.resources.as_ref().and_then(|resources| cpu(&resources.requests)),
        limit: status.resources.as_ref().and_then(|resources| cpu(&resources.limits)),
        allocated: status.allocated_resources.as_ref().and_then(cpu),
        restarts: u32::try_from(status.restart_count).unwrap_or(0),
    };
    let pending = pod.condition(RESIZE_PENDING).map(|condition| {
        let message = condition.message.clone().unwrap_or_default();
        let since = condition.last_transition_time.as_ref().map_or(Moment::ORIGIN, moment);
        match condition.reason.as_deref() {
            Some("Infeasible") => Pending::Infeasible { message },
            Some(_) | None => Pending::Deferred { since, message },
        }
    });
    let in_progress = pod.condition(RESIZE_IN_PROGRESS).map(|condition| InProgress {
        error: (condition.reason.as_deref() == Some("Error"))
            .then(|| condition.message.clone().unwrap_or_default()),
    });
    Observed {
        generation: pod.status.observed_generation,
        pending,
        in_progress,
        containers: pod.container_statuses().map(container).collect(),
    }
}

fn originals_of(written: &Originals) -> Vec<Original> {
    let original = |(name, came_with): (&String, &pod::ContainerResources)| Original {
        name: name.clone(),
        request: came_with.request.map(Millicores::new),
        limit: came_with.limit.map(Millicores::new),
    };
    written.0.iter().map(original).collect()
}

/// When the pod's resources were last written: the API server keeps the time of it.
fn resized_at(meta: &ObjectMeta) -> Option<Moment> {
    let entries = meta.managed_fields.as_deref().unwrap_or_default().iter();
    let resizes = entries.filter(|entry| entry.subresource.as_deref() == Some("resize"));
    resizes.filter_map(|entry| entry.time.as_ref()).map(moment).max()
}

// === impl AllocationFacts ===

impl AllocationFacts {
    /// Whether it asks for the same, in the same name.
    pub(crate) fn same_but_for_status(&self, other: &Self) -> bool {
        let bare = |one: &Self| {
            let status = PodAllocationStatus::default();
            Self { version: String::new(), status, ..one.clone() }
        };
        bare(self) == bare(other)
    }

    pub(crate) fn of(object: PodAllocation) -> Self {
        let (meta, spec) = (object.metadata, object.spec);
        let read = |name: &str, text: &str| {
            pod::millicores(text).map_err(|error| format!("{name} is `{text}`: {error}."))
        };
        let request = read("desiredCPURequest", &spec.desired_cpu_request);
        let limit = read("desiredCPULimit", &spec.desired_cpu_limit);
        let owners = meta.owner_references.unwrap_or_default();
        Self {
            uid: meta.uid.unwrap_or_default(),
            version: meta.resource_version.unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            desired: request.and_then(|request| limit.map(|limit| Allocation { request, limit })),
            namespace: spec.namespace,
            pod: spec.pod_name,
            price: spec.shadow_price_cpu,
            owners: owners.into_iter().filter(|it| it.kind == "Pod").map(|it| it.uid).collect(),
            node_label: meta.labels.and_then(|mut labels| labels.remove(names::NODE)),
            status: object.status.unwrap_or_default(),
        }
    }
}
