//! A pod, as far as Walras is concerned: who it is, what it may use, and how its resize stands.
//!
//! The API server sends much more, which is not kept: a controller watches every pod of a cluster.
//! Nothing here is written back whole; changes are patches of a few fields.

mod autoscaled;
mod mode;
mod original;
mod ours;
mod owner;
mod view;

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

pub use self::autoscaled::{autoscaler_from, mark_of};
pub use self::mode::{Mode, ModeError};
pub use self::original::{ContainerResources, OriginalError, Originals};
pub(crate) use self::ours::{disown, is_controllers};
pub use self::owner::{Behind, Owner, group_of, owner};
pub use self::view::{
    ViewError, container_views, has_opted_out, is_static, limits_in_force, millicores,
};

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Who it is.
    pub metadata: ObjectMeta,
    /// What it should be.
    pub spec: PodSpec,
    /// What it is.
    pub status: PodStatus,
}

/// What a pod should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it was put on.
    pub node_name: Option<String>,
    /// Who puts it on a node.
    pub scheduler_name: Option<String>,
    /// How important it is.
    pub priority: Option<i32>,
    /// Its containers.
    pub containers: Vec<Container>,
    /// What runs before them, and sidecars, which go on beside them.
    pub init_containers: Vec<Container>,
    /// What all of it may use together, where that is said.
    pub resources: Option<Resources>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name, unique in its pod.
    pub name: String,
    /// What it may use.
    pub resources: Resources,
    /// `Always` makes a sidecar of an init container.
    pub restart_policy: Option<String>,
    /// Whether a resize restarts it.
    pub resize_policy: Vec<ResizePolicy>,
}

/// Whether a resize of one resource restarts a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResizePolicy {
    /// `cpu` or `memory`.
    pub resource_name: String,
    /// `NotRequired` or `RestartContainer`.
    pub restart_policy: String,
}

/// Requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// What is set aside.
    pub requests: Amounts,
    /// What is the most.
    pub limits: Amounts,
}

/// Amounts of the two resources that matter here, as Kubernetes writes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amounts {
    /// CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// What a pod is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Where it is in its life.
    pub phase: Option<String>,
    /// Why it is there, in a word, such as `Evicted`.
    pub reason: Option<String>,
    /// Its class.
    pub qos_class: Option<String>,
    /// When its node first heard of it.
    pub start_time: Option<Time>,
    /// The newest generation that its node has seen.
    pub observed_generation: Option<i64>,
    /// What is true of it.
    pub conditions: Vec<PodCondition>,
    /// Its containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// Its init containers and sidecars.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// Something that is or is not true of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// What.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, for programs.
    pub reason: Option<String>,
    /// Why, for people.
    pub message: Option<String>,
    /// Since when.
    pub last_transition_time: Option<Time>,
    /// Which generation this is about.
    pub observed_generation: Option<i64>,
}

/// What a container is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// The runtime and its id there, for instance `containerd://0f6c...`.
    #[serde(rename = "containerID")]
    pub container_id: Option<String>,
    /// How often it was restarted.
    pub restart_count: i32,
    /// How it is.
    pub state: ContainerState,
    /// How it was before it was last started again.
    pub last_state: ContainerState,
    /// The requests that its node has agreed to.
    pub allocated_resources: Option<Amounts>,
    /// What is in force.
    pub resources: Option<Resources>,
}

/// How a container is, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// How it ended, if it has.
    pub terminated: Option<Terminated>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terminated {
    /// In a word, such as `OOMKilled`.
    pub reason: Option<String>,
}

/// The condition that is there while a node has not agreed to a resize.
pub const RESIZE_PENDING: &str = "PodResizePending";
/// The condition that is there while a node carries out a resize.
pub const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";

// === impl Pod ===

impl Resource for Pod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Pod {
    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its uid, which no other pod ever had.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }

    /// A label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// Its containers and sidecars: everything that goes on for as long as it does.
    pub fn lasting_containers(&self) -> impl Iterator<Item = &Container> {
        let sidecars = self.spec.init_containers.iter().filter(|one| one.is_sidecar());
        self.spec.containers.iter().chain(sidecars)
    }

    /// The statuses of all containers, init containers and sidecars among them.
    pub fn container_statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status.container_statuses.iter().chain(&self.status.init_container_statuses)
    }

    /// A condition that is there and true.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.type_ == type_ && condition.status == "True")
    }
}

// === impl Container ===

impl Container {
    /// Whether it is an init container that goes on beside the others.
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    /// Whether a change of its CPU restarts it.
    #[must_use]
    pub fn restarts_on_cpu_resize(&self) -> bool {
        let mut policies = self.resize_policy.iter();
        policies.any(|one| one.resource_name == "cpu" && one.restart_policy == "RestartContainer")
    }
}
