//! A HorizontalPodAutoscaler, as far as we are concerned: what it scales, and by which metrics.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Deserialize;

use super::{Does, Scaler, TargetRef};

/// A HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HorizontalPodAutoscaler {
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    scale_target_ref: TargetRef,
    metrics: Vec<Metric>,
}

/// One of the things it goes by. The field that belongs to its type is there, and no other.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metric {
    resource: Option<OfResource>,
    container_resource: Option<OfResource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OfResource {
    name: String,
    target: Target,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Target {
    #[serde(rename = "type")]
    type_: String,
}

// === impl HorizontalPodAutoscaler ===

impl HorizontalPodAutoscaler {
    /// What it has to do with us, if anything.
    pub(crate) fn scaler(&self) -> Option<Scaler> {
        let metrics = &self.spec.metrics;
        // Without metrics the API server has 80 % of the CPU that is requested for a default.
        let by_use = metrics.is_empty() || metrics.iter().any(Metric::is_use_over_request);
        let target = (&self.spec.scale_target_ref).into();
        by_use.then_some(Scaler { target, does: Does::GoesByUtilization })
    }
}

impl Metric {
    fn is_use_over_request(&self) -> bool {
        let mut of = [&self.resource, &self.container_resource].into_iter().flatten();
        of.any(|of| of.name == "cpu" && of.target.type_ == "Utilization")
    }
}

impl Resource for HorizontalPodAutoscaler {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "HorizontalPodAutoscaler".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "autoscaling".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v2".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "horizontalpodautoscalers".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
