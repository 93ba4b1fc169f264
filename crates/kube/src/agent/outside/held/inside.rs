//! The containers of a pod that go on for as long as it does: their groups, and what they may use
//! together.
//!
//! A container without a group, because it is being restarted or has done its work, counts with
//! what the API server has for it, which is what it gets when it is back.

use walras_cgroup::{CgroupPath, Group, Layout};
use walras_core::units::Millicores;

use super::SLACK;
use crate::agent::find::{container, id_in};
use crate::pod::{Pod, limits_in_force};

/// The containers of a pod.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// All of them, in the pod's order.
    containers: Vec<Contained>,
}

/// One container.
#[derive(Debug)]
struct Contained {
    name: String,
    /// What the runtime calls it; nothing before it has started.
    id: Option<String>,
    group: Option<Group>,
    /// The limit that the API server has for it, if any.
    limit: Option<Millicores>,
}

// === impl Inside ===

impl Inside {
    /// Opens the groups of `pod` that are there.
    pub(super) fn open(layout: &Layout, pod_path: &CgroupPath, pod: &Pod) -> Self {
        let containers = ids_of(pod).map(|(name, id)| {
            let path = id.as_ref().and_then(|id| container(layout, pod_path, id));
            let group = path.and_then(|path| Group::open(layout, &path).ok());
            Contained { name: name.to_owned(), id, group, limit: None }
        });
        let mut inside = Self { containers: containers.collect() };
        inside.follow(pod);
        inside
    }

    /// Whether these are the containers of `pod`, and all that have started are open.
    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        let ours = self.containers.iter().map(|one| (one.name.as_str(), one.id.clone()));
        ours.eq(ids_of(pod)) && self.is_complete()
    }

    /// Whether all that have started are open. A container has an id before it has a group.
    pub(super) fn is_complete(&self) -> bool {
        self.containers.iter().all(|one| one.id.is_some() == one.group.is_some())
    }

    /// Takes in which limits the API server has. Says whether there are others than before.
    pub(super) fn follow(&mut self, pod: &Pod) -> bool {
        let mut changed = false;
        for (name, limit) in limits_in_force(pod) {
            for one in self.containers.iter_mut().filter(|one| one.name == name) {
                changed |= one.limit != limit;
                one.limit = limit;
            }
        }
        changed
    }

    /// The groups that are there.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.containers.iter().filter_map(|one| one.group.as_ref())
    }

    /// The limit in force for a pod whose own group has `whole`: that, or what all containers have
    /// together where that is less. Nothing where neither is limited.
    pub(super) fn least(&self, whole: Option<Millicores>) -> Option<Millicores> {
        // One without a limit does not hold the pod back.
        let parts: Option<Vec<Millicores>> =
            self.containers.iter().map(Contained::may_use).collect();
        let Some(parts) = parts.filter(|parts| !parts.is_empty()) else {
            return whole;
        };
        // Each container's part is rounded down.
        let rounded = Millicores::new(u64::try_from(parts.len()).unwrap_or(0));
        let together: Millicores = parts.into_iter().sum();
        match whole {
            Some(whole) if together + rounded >= whole => Some(whole),
            Some(_) | None => Some(together),
        }
    }
}

// === impl Contained ===

impl Contained {
    /// What it may use; nothing where there is no limit.
    fn may_use(&self) -> Option<Millicores> {
        let Some(max) = self.group.as_ref().and_then(|group| group.max().ok()) else {
            return self.limit;
        };
        let found = max.limit_floor()?;
        // Quotas are rounded up where systemd sets them, which must not add up.
        let is_due = |limit: &Millicores| *limit <= found && found <= *limit + SLACK;
        Some(self.limit.filter(is_due).unwrap_or(found))
    }
}

/// The containers that go on for as long as the pod does, each with its id.
fn ids_of(pod: &Pod) -> impl Iterator<Item = (&str, Option<String>)> {
    pod.lasting_containers().map(|one| {
        let status = pod.container_statuses().find(|status| status.name == one.name);
        let id = status.and_then(|status| status.container_id.as_deref());
        (one.name.as_str(), id.map(|id| id_in(id).to_owned()))
    })
}
