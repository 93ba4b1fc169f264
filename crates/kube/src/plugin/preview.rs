//! What a pod has and should have, as one row for people.

use serde::Serialize;

use crate::crd::PodAllocation;

/// A pod, what it has, and what it should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// The CPU request it has, if that is known.
    pub request: Option<String>,
    /// The CPU limit it has, if that is known.
    pub limit: Option<String>,
    /// The CPU request it should have.
    pub desired_request: String,
    /// The CPU limit it should have.
    pub desired_limit: String,
    /// How that stands.
    pub phase: Option<String>,
    /// Why, for programs.
    pub reason: Option<String>,
    /// Why, and what comes next, for people.
    pub message: Option<String>,
    /// Why it should have this, for people.
    pub explanation: Option<String>,
}

impl Row {
    /// The row of `allocation`.
    #[must_use]
    pub fn of(allocation: &PodAllocation) -> Self {
        let spec = &allocation.spec;
        let status = allocation.status.clone().unwrap_or_default();
        Self {
            namespace: spec.namespace.clone(),
            pod: spec.pod_name.clone(),
            request: status.applied_cpu_request,
            limit: status.applied_cpu_limit,
            desired_request: spec.desired_cpu_request.clone(),
            desired_limit: spec.desired_cpu_limit.clone(),
            phase: status.phase.map(|phase| format!("{phase:?}")),
            reason: status.reason,
            message: status.message,
            explanation: spec.explanation.clone(),
        }
    }

    /// The same in sentences.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let Self { namespace, pod, desired_request, desired_limit, .. } = self;
        let mut told = vec![format!(
            "{namespace}/{pod} should have a CPU request of {desired_request} and a limit of \
             {desired_limit}."
        )];
        told.extend(self.explanation.clone());
        told.push(match (&self.request, &self.limit) {
            (Some(request), Some(limit)) => {
                format!("It has a request of {request} and a limit of {limit}.")
            }
            (Some(request), None) => format!("It has a request of {request} and no limit."),
            (None, Some(limit)) => format!("It has no request and a limit of {limit}."),
            (None, None) => "What it has was not looked at yet.".to_owned(),
        });
        let phase = self.phase.as_deref().unwrap_or("Pending");
        let reason = self.reason.as_deref().map(|reason| format!(" ({reason})"));
        let message = self.message.clone().unwrap_or_else(|| {
            "The controller has not said anything about it; is it running?".to_owned()
        });
        told.push(format!("{phase}{}: {message}", reason.unwrap_or_default()));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: &str) -> String {
        let text = format!(
            r#"{{"apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
            "metadata": {{"name": "shop-web"}}, "spec": {{"namespace": "shop", "podName": "web",
            "desiredCPURequest": "450m", "desiredCPULimit": "500m"}}{status}}}"#
        );
        Row::of(&serde_json::from_str(&text).unwrap()).sentences().join(" ")
    }

    #[test]
    fn a_pod_is_told_in_sentences() {
        assert_eq!(
            check(
                r#", "status": {"appliedCPURequest": "200m", "phase": "Pending",
                "reason": "RateLimited", "message": "It is too soon."}"#
            ),
            "shop/web should have a CPU request of 450m and a limit of 500m. It has a request of \
             200m and no limit. Pending (RateLimited): It is too soon."
        );
    }

    #[test]
    fn a_controller_that_is_away_is_suspected() {
        let told = check("");
        assert!(told.ends_with("has not said anything about it; is it running?"), "{told}");
    }
}
