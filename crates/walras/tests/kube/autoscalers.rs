//! Autoscalers of others: whoever they size is left alone, and requests that they go by stay.

use serde_json::{Value, json};
use walras_testbed::{PATIENCE, wait_for};

use crate::stage::{Stage, resources};

const MARK: &str = "walras.dev/autoscaler";

/// What makes the API server know VerticalPodAutoscalers, as far as it has to for a test.
pub(crate) fn vertical_definition() -> Value {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let approved = "https://github.com/kubernetes/kubernetes/pull/63797";
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "verticalpodautoscalers.autoscaling.k8s.io",
            "annotations": { "api-approved.kubernetes.io": approved } },
        "spec": {
            "group": "autoscaling.k8s.io", "scope": "Namespaced",
            "names": { "kind": "VerticalPodAutoscaler", "plural": "verticalpodautoscalers",
                "singular": "verticalpodautoscaler" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": open } }],
        },
    })
}

/// An autoscaler of the Deployment `web`.
fn of_web(stage: &Stage, api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({ "apiVersion": api_version, "kind": kind,
        "metadata": { "name": "web", "namespace": stage.namespace() }, "spec": spec })
}

/// The only pod of a Deployment `web`, once it runs and its node says what it has.
fn deployed(stage: &Stage) -> Value {
    let pod = stage.pod_json("web", &[("web", "100m", "200m")]);
    let labels = json!({ "app": "web" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": stage.namespace() },
        "spec": { "replicas": 1, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod["spec"] } },
    });
    stage.kubectl.apply(&deployment).unwrap();
    let list = ["get", "pods", "-l", "app=web", "-n", stage.namespace()];
    wait_for("the pod of the Deployment", PATIENCE, || {
        let pods = stage.kubectl.json(&list)?;
        let pod = &pods["items"][0];
        let seen = &pod["status"]["containerStatuses"][0];
        let ready = seen["started"] == true && seen["resources"].is_object();
        Ok((pod["status"]["phase"] == "Running" && ready).then(|| pod.clone()))
    })
    .unwrap()
}

#[test]
fn pods_that_others_size_or_scale_by_their_requests_are_left_alone_as_far_as_that_goes() {
    let stage = Stage::set("autoscalers");
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let half = json!({ "type": "Utilization", "averageUtilization": 50 });
    let by_use = json!({ "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 1,
        "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": half } }] });
    let horizontal = of_web(&stage, "autoscaling/v2", "HorizontalPodAutoscaler", &by_use);
    stage.kubectl.apply(&horizontal).unwrap();
    let pod = deployed(&stage);
    let name = pod["metadata"]["name"].as_str().unwrap();
    // A cluster that does not know VerticalPodAutoscalers is worked on all the same.
    let _controller = stage.controller();
    let has = |mark: Value, resized: &str| {
        let what = format!("{resized} with the mark {mark}");
        wait_for(&what, PATIENCE, || {
            let pod = stage.get("pod", name);
            let same = pod["metadata"]["annotations"].get(MARK).unwrap_or(&Value::Null) == &mark
                && resources(&pod) == [resized];
            Ok(same.then_some(()))
        })
        .unwrap();
    };

    stage.allocate(&pod, "150m", "300m");
    stage.told_of(name, "Applied");
    has(json!("HorizontalPodAutoscaler/web"), "web 100m/300m");

    // One that is installed later is found.
    stage.kubectl.apply(&vertical_definition()).unwrap();
    let acts = json!({ "targetRef": target, "updatePolicy": { "updateMode": "Recreate" } });
    let vertical = of_web(&stage, "autoscaling.k8s.io/v1", "VerticalPodAutoscaler", &acts);
    wait_for("the VerticalPodAutoscaler", PATIENCE, || Ok(stage.kubectl.apply(&vertical).ok()))
        .unwrap();
    let status = stage.told_of(name, "VerticalPodAutoscaler");
    assert_eq!(status["phase"], "Applied", "{status:#}");
    stage.allocate(&pod, "200m", "400m");
    stage.told_of(name, "VerticalPodAutoscaler");
    has(json!("VerticalPodAutoscaler/web"), "web 100m/300m");

    let delete = |kind: &str| {
        stage.kubectl.run(&["delete", kind, "web", "-n", stage.namespace()]).unwrap();
    };
    delete("verticalpodautoscaler");
    has(json!("HorizontalPodAutoscaler/web"), "web 100m/400m");
    delete("horizontalpodautoscaler");
    has(Value::Null, "web 200m/400m");
}
