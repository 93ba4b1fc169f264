//! Which limits the groups of a pod should have, and which of those that were found they cannot
//! have from the kubelet. Nothing is read here but what the API server said.

use walras_cgroup::{CgroupPath, Layout, Settings};
use walras_core::units::Millicores;

use super::SLACK;
use crate::agent::direct::{Part, Parts};
use crate::agent::find::{container, id_in};
use crate::pod::{Pod, RESIZE_IN_PROGRESS, RESIZE_PENDING, container_views, limits_in_force};

/// The groups of a pod and of its containers with their limits, without those that are not there;
/// nothing where a container has no limit. A resize that the node has not agreed to does not count,
/// since it may never do so.
pub(super) fn parts_of(layout: &Layout, pod: &Pod, pod_path: &CgroupPath) -> Option<Parts> {
    let views = container_views(pod).ok()?;
    let (mut in_force, mut wanted) = (Millicores::ZERO, Millicores::ZERO);
    let mut containers = Vec::new();
    for (view, (name, limit)) in views.iter().zip(limits_in_force(pod)) {
        let (limit, next) = (limit?, view.limit?);
        in_force += limit;
        wanted += next;
        let status = pod.container_statuses().find(|status| status.name == name);
        let id = status.and_then(|status| status.container_id.as_deref());
        if let Some(path) = id.and_then(|id| container(layout, pod_path, id_in(id))) {
            containers.push(Part { path, limit, least: limit.min(next) });
        }
    }
    let least = in_force.min(wanted);
    Some(Parts { pod: Part { path: pod_path.clone(), limit: in_force, least }, containers })
}

/// Whether no resize is under way, so that every group has the limit that its node has agreed to.
pub(super) fn is_settled(pod: &Pod) -> bool {
    let Ok(views) = container_views(pod) else {
        return false;
    };
    let agreed =
        views.iter().zip(limits_in_force(pod)).all(|(view, (_, limit))| view.limit == limit);
    let resizing = [RESIZE_PENDING, RESIZE_IN_PROGRESS];
    agreed && resizing.iter().all(|resizing| pod.condition(resizing).is_none())
}

/// Whether the quota of a group was not set by the kubelet.
pub(super) fn is_foreign(part: &Part, now: &Settings) -> bool {
    now.max.limit_floor().is_some_and(|found| found.abs_diff(part.limit) > SLACK)
}
