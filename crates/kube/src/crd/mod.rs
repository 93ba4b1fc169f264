//! `PodAllocation`: what one pod should have, and what became of it.
//!
//! The agent of the pod's node writes the spec, the controller writes the status. The definition
//! that the API server gets is made from these types, so the two cannot disagree; what it refuses
//! never reaches the controller, which still believes nothing. The name of an object says which pod
//! it is for; a spec that names another one is refused there, and the agent can put it right.
#![expect(
    unreachable_pub,
    reason = "the derive for the schema makes public types inside functions"
)]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, CustomResourceExt, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one pod should have.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "allocation.mbcas.io",
    version = "v1alpha1",
    kind = "PodAllocation",
    plural = "podallocations",
    shortname = "pa",
    category = "walras",
    namespaced,
    status = "PodAllocationStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Namespace", "type": "string", "jsonPath": ".spec.namespace"}"#,
    printcolumn = r#"{"name": "Pod", "type": "string", "jsonPath": ".spec.podName"}"#,
    printcolumn = r#"{"name": "Desired Request", "type": "string",
        "jsonPath": ".spec.desiredCPURequest"}"#,
    printcolumn = r#"{"name": "Desired Limit", "type": "string",
        "jsonPath": ".spec.desiredCPULimit"}"#,
    printcolumn = r#"{"name": "Applied Request", "type": "string",
        "jsonPath": ".status.appliedCPURequest"}"#,
    printcolumn = r#"{"name": "Applied Limit", "type": "string",
        "jsonPath": ".status.appliedCPULimit"}"#,
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.reason", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!isQuantity(self.desiredCPURequest) || \
        !isQuantity(self.desiredCPULimit) || quantity(self.desiredCPULimit)\
        .compareTo(quantity(self.desiredCPURequest)) >= 0")
        .message("desiredCPULimit must not be below desiredCPURequest")
)]
pub struct PodAllocationSpec {
    /// The pod's namespace: the one that this object is in.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// The pod's name.
    #[schemars(length(min = 1, max = 253))]
    pub pod_name: String,
    /// The CPU that the pod's containers should request together, for instance 450m.
    #[serde(rename = "desiredCPURequest")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(
        validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('0')) >= 0")
            .message("must be a CPU quantity such as 450m or 2, and not negative")
    )]
    pub desired_cpu_request: String,
    /// The CPU limit that the pod's containers should have together, for instance 500m.
    #[serde(rename = "desiredCPULimit")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(
        validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('0')) > 0")
            .message("must be a CPU quantity such as 500m or 2, and more than zero")
    )]
    pub desired_cpu_limit: String,
    /// What CPU cost on the node when this was written: 0 when there is enough for everybody.
    #[serde(rename = "shadowPriceCPU", default, skip_serializing_if = "Option::is_none")]
    pub shadow_price_cpu: Option<f64>,
    /// Why the pod should have this, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub explanation: Option<String>,
}

/// What became of a pod's allocation.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAllocationStatus {
    /// The CPU request that the pod has, its containers together.
    #[serde(rename = "appliedCPURequest", default, skip_serializing_if = "Option::is_none")]
    pub applied_cpu_request: Option<String>,
    /// The CPU limit that the pod has, its containers together.
    #[serde(rename = "appliedCPULimit", default, skip_serializing_if = "Option::is_none")]
    pub applied_cpu_limit: Option<String>,
    /// How it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Why it stands so, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it stands so and what comes next, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the pod was last seen to have what it should have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_time: Option<Time>,
    /// When a resize was last asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt_time: Option<Time>,
    /// When it is tried again, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_time: Option<Time>,
    /// What CPU cost on the node.
    #[serde(rename = "shadowPriceCPU", default, skip_serializing_if = "Option::is_none")]
    pub shadow_price_cpu: Option<f64>,
    /// Which generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The same for tools: `Applied`, and `Deferred` or `Infeasible` while the node says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// How an allocation stands.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It is not in force yet.
    Pending,
    /// It is in force, or there is nothing to do.
    Applied,
    /// It cannot be.
    Failed,
}

impl Phase {
    /// The name that is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Applied => "Applied",
            Self::Failed => "Failed",
        }
    }
}

/// What the API server has to be told so that it knows `PodAllocation`.
#[must_use]
pub fn definition() -> CustomResourceDefinition {
    PodAllocation::crd()
}

/// The name of a pod's allocation.
///
/// The namespace and the pod's name, as the predecessor has it. Where that is longer than a name
/// may be, it ends in the pod's uid instead, which differs for every pod.
#[must_use]
pub fn name_of(namespace: &str, pod: &str, uid: &str) -> String {
    const LONGEST: usize = 253;
    let name = format!("{namespace}-{pod}");
    if name.len() <= LONGEST {
        return name;
    }
    let uid: String = uid.chars().take(64).collect();
    let kept: String = name.chars().take(LONGEST - uid.len() - 1).collect();
    format!("{kept}-{uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_is_named_after_its_pod() {
        assert_eq!(name_of("shop", "web-0", "a1"), "shop-web-0");
        let long = name_of("shop", &"x".repeat(253), "0f6c1c1e-3a53-4f0e-9b2e-1d2f3a4b5c6d");
        assert_eq!(long.len(), 253);
        assert!(long.ends_with("-0f6c1c1e-3a53-4f0e-9b2e-1d2f3a4b5c6d"));
    }

    #[test]
    fn names_and_fields_are_those_that_users_of_the_predecessor_know() {
        let crd = serde_json::to_value(definition()).unwrap();
        assert_eq!(crd["metadata"]["name"], "podallocations.allocation.mbcas.io");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        for field in ["namespace", "podName", "desiredCPURequest", "desiredCPULimit"] {
            assert_eq!(schema["spec"]["properties"][field]["type"], "string", "{field}");
        }
        let required = schema["spec"]["required"].as_array().unwrap();
        assert_eq!(required.len(), 4, "{required:?}");
        assert!(crd["spec"]["versions"][0]["subresources"]["status"].is_object());
    }

    #[test]
    fn what_names_the_wrong_pod_can_be_put_right() {
        let crd = serde_json::to_value(definition()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let fields = schema["spec"]["properties"].as_object().unwrap();
        for (name, field) in fields {
            let rules = field["x-kubernetes-validations"].to_string();
            assert!(!rules.contains("oldSelf"), "{name} cannot change: {rules}");
        }
    }
}
