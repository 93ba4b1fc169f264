//! A VerticalPodAutoscaler, as far as we are concerned: whether it sets CPU requests, and whose.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Deserialize;

use super::{Does, Scaler, TargetRef};

/// What a policy says where it is for every container that has none of its own.
const EVERY_OTHER: &str = "*";
/// The mode in which it only recommends; a container may have it, too.
const OFF: &str = "Off";

/// A VerticalPodAutoscaler.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VerticalPodAutoscaler {
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    target_ref: Option<TargetRef>,
    update_policy: Option<UpdatePolicy>,
    resource_policy: Option<ResourcePolicy>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdatePolicy {
    update_mode: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourcePolicy {
    container_policies: Vec<ContainerPolicy>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerPolicy {
    container_name: String,
    mode: Option<String>,
    controlled_resources: Option<Vec<String>>,
}

// === impl VerticalPodAutoscaler ===

impl VerticalPodAutoscaler {
    /// What it has to do with us, if anything. A mode that we do not know is one that acts: there
    /// is one word for doing nothing, and new words for acting have been added before.
    pub(crate) fn scaler(&self) -> Option<Scaler> {
        let Spec { target_ref, update_policy, resource_policy } = &self.spec;
        let mode = update_policy.as_ref().and_then(|policy| policy.update_mode.as_deref());
        let target = target_ref.as_ref()?.into();
        if mode == Some(OFF) {
            return None;
        }
        let policies = resource_policy.as_ref().map(|policy| &*policy.container_policies);
        let policies = policies.unwrap_or_default();
        let (every_other, named): (Vec<_>, Vec<_>) =
            policies.iter().partition(|policy| policy.container_name == EVERY_OTHER);
        let others = every_other.first().is_none_or(|policy| policy.sets_cpu());
        let named: Vec<(String, bool)> = named
            .into_iter()
            .map(|policy| (policy.container_name.clone(), policy.sets_cpu()))
            .collect();
        let sets_any = others || named.iter().any(|(_, sets)| *sets);
        sets_any.then_some(Scaler { target, does: Does::SetsRequests { named, others } })
    }
}

impl ContainerPolicy {
    fn sets_cpu(&self) -> bool {
        let controlled = self.controlled_resources.as_ref();
        let controls_cpu = controlled.is_none_or(|all| all.iter().any(|one| one == "cpu"));
        self.mode.as_deref() != Some(OFF) && controls_cpu
    }
}

impl Resource for VerticalPodAutoscaler {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "VerticalPodAutoscaler".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "autoscaling.k8s.io".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "verticalpodautoscalers".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
