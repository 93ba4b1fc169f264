//! What `walras-core` needs to know of a pod, read from Kubernetes' object.
//!
//! An amount that cannot be read is an error that names it, never a zero: to take a limit for
//! absent would be to change it.

use walras_core::parse::quantity;
use walras_core::resize::ContainerView;
use walras_core::units::Millicores;

use super::{Container, Pod, Resources};
use crate::names;

/// An amount of CPU that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("container {container}: `{value}` is not an amount of CPU: {because}")]
pub struct ViewError {
    /// The container.
    pub container: String,
    /// What is written there.
    pub value: String,
    /// What is wrong with it.
    pub because: String,
}

/// The containers and sidecars of `pod`, in its order.
///
/// # Errors
/// An amount of CPU cannot be read.
pub fn container_views(pod: &Pod) -> Result<Vec<ContainerView>, ViewError> {
    pod.lasting_containers().map(container_view).collect()
}

fn container_view(container: &Container) -> Result<ContainerView, ViewError> {
    let read = |cpu: &Option<String>| {
        let parsed = cpu.as_deref().map(|cpu| (cpu, millicores(cpu)));
        match parsed {
            None => Ok(None),
            Some((_, Ok(cpu))) => Ok(Some(cpu)),
            Some((value, Err(because))) => Err(ViewError {
                container: container.name.clone(),
                value: value.to_owned(),
                because,
            }),
        }
    };
    let resources = &container.resources;
    let memory = (&resources.requests.memory, &resources.limits.memory);
    Ok(ContainerView {
        name: container.name.clone(),
        request: read(&resources.requests.cpu)?,
        limit: read(&resources.limits.cpu)?,
        came_with: None,
        memory_request_equals_limit: matches!(memory, (Some(request), Some(limit))
            if same_bytes(request, limit)),
    })
}

/// The limit that each container and sidecar has by its node, in the pod's order: the one it should
/// have where the node says none. A resize that the node has not carried out is not among them.
pub fn limits_in_force(pod: &Pod) -> impl Iterator<Item = (&str, Option<Millicores>)> {
    let cpu = |resources: &Resources| millicores(resources.limits.cpu.as_deref()?).ok();
    pod.lasting_containers().map(move |one| {
        let status = pod.container_statuses().find(|status| status.name == one.name);
        let in_force = status.and_then(|status| cpu(status.resources.as_ref()?));
        (one.name.as_str(), in_force.or_else(|| cpu(&one.resources)))
    })
}

/// CPU as Kubernetes writes it, rounded up to a thousandth as Kubernetes rounds it.
///
/// # Errors
/// It is not an amount, in words.
pub fn millicores(cpu: &str) -> Result<Millicores, String> {
    let quantity = quantity(cpu.as_bytes()).map_err(|error| error.to_string())?;
    quantity.millicores_ceil().map_err(|error| error.to_string())
}

/// Whether its owner wants it left alone: an annotation or a label, as the predecessor has both.
#[must_use]
pub fn has_opted_out(pod: &Pod) -> bool {
    let said = [pod.annotation(names::MANAGED), pod.label(names::MANAGED)];
    said.contains(&Some("false"))
}

/// Whether it comes from a file on its node.
#[must_use]
pub fn is_static(pod: &Pod) -> bool {
    pod.annotation("kubernetes.io/config.mirror").is_some()
        || pod.annotation("kubernetes.io/config.source").is_some_and(|source| source != "api")
}

fn same_bytes(one: &str, other: &str) -> bool {
    let bytes = |text: &str| quantity(text.as_bytes()).ok().map(|read| read.bytes_ceil());
    one == other || bytes(one).is_some_and(|one| Some(one) == bytes(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(text: &str) -> Result<Vec<ContainerView>, ViewError> {
        container_views(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn sidecars_count_and_finished_init_containers_do_not() {
        let views = views(
            r#"{"spec": {"containers": [{"name": "app", "resources":
                {"requests": {"cpu": "1500u", "memory": "1Gi"},
                 "limits": {"cpu": "2", "memory": "1024Mi"}}}],
              "initContainers": [{"name": "setup"},
                {"name": "mesh", "restartPolicy": "Always", "resources": {}}]}}"#,
        )
        .unwrap();
        let names: Vec<_> = views.iter().map(|view| view.name.as_str()).collect();
        assert_eq!(names, ["app", "mesh"]);
        assert_eq!(views[0].request, Some(Millicores::new(2)));
        assert_eq!(views[0].limit, Some(Millicores::new(2000)));
        assert!(views[0].memory_request_equals_limit);
        assert!(!views[1].memory_request_equals_limit);
    }

    #[test]
    fn the_limit_in_force_is_that_of_the_node_where_it_says_one() {
        let pod: Pod = serde_json::from_str(
            r#"{"spec": {"containers": [
                {"name": "app", "resources": {"limits": {"cpu": "2"}}},
                {"name": "log", "resources": {"limits": {"cpu": "1"}}},
                {"name": "free"}]},
              "status": {"containerStatuses": [
                {"name": "app", "resources": {"limits": {"cpu": "500m"}}}, {"name": "log"}]}}"#,
        )
        .unwrap();
        let limits: Vec<_> = limits_in_force(&pod).collect();
        let milli = |milli| Some(Millicores::new(milli));
        assert_eq!(limits, [("app", milli(500)), ("log", milli(1000)), ("free", None)]);
    }

    #[test]
    fn an_amount_that_is_none_is_named() {
        let text = r#"{"spec": {"containers": [{"name": "app", "resources":
            {"limits": {"cpu": "lots"}}}]}}"#;
        let told = views(text).unwrap_err().to_string();
        assert!(told.starts_with("container app: `lots` is not an amount of CPU: "), "{told}");
    }

    #[test]
    fn one_may_opt_out_by_annotation_or_by_label() {
        for place in ["annotations", "labels"] {
            let text = format!(r#"{{"metadata": {{"{place}": {{"mbcas.io/managed": "false"}}}}}}"#);
            assert!(has_opted_out(&serde_json::from_str(&text).unwrap()), "{place}");
        }
        assert!(!has_opted_out(&Pod::default()));
    }
}
