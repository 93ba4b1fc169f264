//! What a pod's containers came with, as an annotation of the pod.
//!
//! It is written before the first resize and never again, so that pausing or uninstalling can give
//! it back, whatever became of Walras in between.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use walras_core::units::Millicores;

use super::{Pod, ViewError, container_views};
use crate::names;

/// What one container came with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerResources {
    /// Its CPU request, if it had one.
    #[serde(rename = "cpuRequestMilli", default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// Its CPU limit, if it had one.
    #[serde(rename = "cpuLimitMilli", default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// What each container of a pod came with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Originals(pub BTreeMap<String, ContainerResources>);

/// Why it is not known what a pod came with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginalError {
    /// Another client wrote the annotation.
    #[error("the annotation {name} cannot be read: {0}", name = names::ORIGINAL_RESOURCES)]
    Annotation(String),
    /// The pod itself cannot be read.
    #[error(transparent)]
    Pod(#[from] ViewError),
}

// === impl Originals ===

impl Originals {
    /// What `pod` came with: what was written down, and nothing if that was not done yet.
    ///
    /// # Errors
    /// What was written down is damaged.
    pub fn written(pod: &Pod) -> Result<Option<Self>, OriginalError> {
        let Some(text) = pod.annotation(names::ORIGINAL_RESOURCES) else {
            return Ok(None);
        };
        let read = serde_json::from_str(text);
        read.map(Some).map_err(|error| OriginalError::Annotation(error.to_string()))
    }

    /// What `pod` has now, which is what it came with if it was never resized.
    ///
    /// # Errors
    /// An amount of CPU cannot be read.
    pub fn now(pod: &Pod) -> Result<Self, OriginalError> {
        let views = container_views(pod)?;
        let milli = |cpu: Option<Millicores>| cpu.map(Millicores::get);
        let each = views.into_iter().map(|view| {
            let has = ContainerResources { request: milli(view.request), limit: milli(view.limit) };
            (view.name, has)
        });
        Ok(Self(each.collect()))
    }

    /// What `pod` came with: what was written down, else what it has now.
    ///
    /// # Errors
    /// Either cannot be read.
    pub fn of(pod: &Pod) -> Result<Self, OriginalError> {
        match Self::written(pod)? {
            Some(written) => Ok(written),
            None => Self::now(pod),
        }
    }

    /// The requests of all containers together; a container without one counts as its limit, as
    /// Kubernetes has it.
    #[must_use]
    pub fn request(&self) -> Millicores {
        self.0.values().filter_map(|one| one.request.or(one.limit)).map(Millicores::new).sum()
    }

    /// The limits of all containers together, if all have one.
    #[must_use]
    pub fn limit(&self) -> Option<Millicores> {
        let limits: Option<Vec<_>> = self.0.values().map(|one| one.limit).collect();
        limits.map(|limits| limits.into_iter().map(Millicores::new).sum())
    }

    /// As it is written down.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a map from text to numbers can be written as JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotation: Option<&str>) -> Pod {
        let mut pod: Pod = serde_json::from_str(
            r#"{"spec": {"containers": [
                {"name": "app", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "1"}}},
                {"name": "side", "resources": {"limits": {"cpu": "0.1"}}}]}}"#,
        )
        .unwrap();
        if let Some(text) = annotation {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(names::ORIGINAL_RESOURCES.to_owned(), text.to_owned());
        }
        pod
    }

    #[test]
    fn what_a_pod_has_now_is_what_it_came_with_until_something_else_is_written() {
        let now = Originals::of(&pod(None)).unwrap();
        let text =
            r#"{"app":{"cpuRequestMilli":200,"cpuLimitMilli":1000},"side":{"cpuLimitMilli":100}}"#;
        assert_eq!(now.to_text(), text);
        assert_eq!(now.request(), Millicores::new(300));
        assert_eq!(now.limit(), Some(Millicores::new(1100)));
        let written = Originals::of(&pod(Some(r#"{"app":{"cpuRequestMilli":50}}"#))).unwrap();
        assert_eq!(written.request(), Millicores::new(50));
        assert_eq!(written.limit(), None);
    }

    #[test]
    fn a_damaged_annotation_is_an_error_and_not_a_guess() {
        for damaged in ["", "[]", r#"{"app":{"cpu":1}}"#, r#"{"app":{"cpuRequestMilli":-1}}"#] {
            let error = Originals::of(&pod(Some(damaged))).unwrap_err().to_string();
            assert!(error.starts_with("the annotation walras.dev/original-resources"), "{error}");
        }
    }
}
