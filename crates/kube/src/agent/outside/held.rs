//! A pod whose control groups are open: read, compared, and written where that is the way to act.
//!
//! The limit in force is that of the pod's group. A container whose part is smaller, because it was
//! restarted since its pod was raised, holds the pod back, so there the containers together count.

use std::sync::Arc;

use tracing::{debug, warn};
use walras_cgroup::{CgroupError, CgroupPath, Group, Layout};
use walras_core::demand::Sample;
use walras_core::node::Action;
use walras_core::units::{Millicores, Moment, Span};
use walras_host::drive::Carried;

use super::SLACK;
use crate::agent::config::Actuation;
use crate::agent::direct::{Direct, Part};
use crate::agent::find::{container, id_in};
use crate::agent::params::Params;
use crate::agent::publish::{Key, key_of};
use crate::agent::sample::{Meter, Reading};
use crate::pod::{Pod, container_views};

/// A pod that is sized.
#[derive(Debug)]
pub(super) struct Held {
    pod: Arc<Pod>,
    pub(super) params: Params,
    pub(super) key: Key,
    /// The limit in force, as far as is known.
    pub(super) limit: Millicores,
    group: Group,
    containers: Vec<Group>,
    /// The ids that `containers` were opened for, in order.
    ids: Vec<String>,
    meter: Meter,
    direct: Option<Direct>,
    /// The limit that was last written here, and not by the kubelet.
    written: Option<Millicores>,
    wish: Option<Wish>,
}

/// A limit that was asked for.
#[derive(Clone, Copy, Debug)]
struct Wish {
    limit: Millicores,
    asked_at: Moment,
    /// Whether the market takes it for what is in force.
    believed: bool,
}

/// What a comparison showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Nothing,
    /// What was asked for is in force.
    Took,
    /// Something else is.
    Other(Millicores),
}

impl Held {
    pub(super) fn open(
        layout: &Layout,
        path: &CgroupPath,
        pod: &Arc<Pod>,
        params: Params,
        actuation: Actuation,
    ) -> Result<Self, CgroupError> {
        let mut held = Self {
            pod: Arc::clone(pod),
            key: key_of(pod),
            limit: params.limit.unwrap_or(params.bounds.max()),
            params,
            group: Group::open(layout, path)?,
            containers: Vec::new(),
            ids: Vec::new(),
            meter: Meter::default(),
            direct: None,
            written: None,
            wish: None,
        };
        held.open_containers(layout, actuation);
        if let Ok(Some(limit)) = held.limit_in_force() {
            held.limit = limit;
        }
        Ok(held)
    }

    /// Takes in that the API server says something else about the pod.
    pub(super) fn follow(
        &mut self,
        layout: &Layout,
        pod: &Arc<Pod>,
        params: Params,
        actuation: Actuation,
    ) {
        self.pod = Arc::clone(pod);
        let resized = self.params.limit != params.limit;
        if let (true, Some(limit)) = (resized, params.limit) {
            debug!("{}: the API server has {limit} for it now", pod.name());
        }
        self.params = params;
        // A container that is starting has an id before it has a group.
        if resized || ids_of(pod) != self.ids || self.containers.len() != self.ids.len() {
            self.open_containers(layout, actuation);
        }
    }

    /// Whether nothing changed since it was last taken in.
    pub(super) fn is_of(&self, pod: &Arc<Pod>, params: &Params) -> bool {
        Arc::ptr_eq(&self.pod, pod)
            && self.params == *params
            && self.containers.len() == self.ids.len()
    }

    pub(super) fn whose(&self) -> (&str, &str) {
        (self.pod.name(), self.pod.uid())
    }

    pub(super) fn label(&self) -> String {
        format!("{}/{}", self.pod.namespace(), self.pod.name())
    }

    pub(super) fn sample(&mut self, now: Moment) -> Result<Sample, CgroupError> {
        let pod = Reading { inode: self.group.identity().inode, sample: self.group.sample(now)? };
        let readings = self.containers.iter().filter_map(|group| {
            // A container that is gone is news that the API server brings.
            let sample = group.sample(now).ok()?;
            Some(Reading { inode: group.identity().inode, sample })
        });
        let readings: Vec<Reading> = readings.collect();
        Ok(self.meter.read(now, pod, &readings))
    }

    /// Something is asked of the API server.
    pub(super) fn asked(&mut self, limit: Millicores, believed: bool, now: Moment) -> Carried {
        if limit.abs_diff(self.limit) < SLACK && believed {
            self.wish = None;
            return Carried::Done;
        }
        let asked_at = match self.wish {
            Some(wish) if wish.limit == limit => wish.asked_at,
            Some(_) | None => now,
        };
        self.wish = Some(Wish { limit, asked_at, believed });
        Carried::Asked
    }

    /// Whether something was asked for that is not in force yet.
    pub(super) const fn is_waiting(&self) -> bool {
        self.wish.is_some()
    }

    /// Compares what is in force with what was asked for and with what was known.
    pub(super) fn compare(&mut self, now: Moment, deadline: Span) -> Seen {
        let Ok(limit) = self.limit_in_force() else {
            return Seen::Nothing;
        };
        let limit = limit.unwrap_or(self.params.bounds.max());
        let changed = limit != self.limit;
        self.limit = limit;
        let Some(wish) = &mut self.wish else {
            return if changed { Seen::Other(limit) } else { Seen::Nothing };
        };
        if limit.abs_diff(wish.limit) <= SLACK {
            let believed = wish.believed;
            self.wish = None;
            return if believed { Seen::Took } else { Seen::Other(limit) };
        }
        let late = now.since(wish.asked_at) >= deadline;
        if changed || (late && wish.believed) {
            wish.believed = false;
            return Seen::Other(limit);
        }
        Seen::Nothing
    }

    pub(super) const fn can_be_written(&self) -> bool {
        self.direct.is_some()
    }

    /// Writes an action to the control groups.
    pub(super) fn write(&mut self, layout: &Layout, action: &Action) -> Carried {
        let Some(direct) = &mut self.direct else {
            return Carried::Gone;
        };
        match direct.apply(layout, action.limit, action.burst) {
            Ok(applied) => {
                self.limit = applied.now.max.limit_floor().unwrap_or(action.limit);
                self.written = Some(self.limit);
                applied.held_by.map_or(Carried::Done, |above| Carried::HeldAt(above.limit))
            }
            Err(error) if error.is_gone() => Carried::Gone,
            Err(error) => {
                let in_force = self.limit_in_force().ok().flatten();
                Carried::Failed { because: error.to_string(), in_force }
            }
        }
    }

    /// Gives back what the API server says, if anything was written. Where the kubelet has set a
    /// limit since, only the burst buffer is taken back, which is none of the kubelet's.
    pub(super) fn give_back(&mut self, layout: &Layout) -> bool {
        let in_force = self.limit_in_force().ok().flatten();
        let (Some(direct), Some(written)) = (&mut self.direct, self.written) else {
            return false;
        };
        let given = match in_force {
            Some(limit) if limit != written => {
                direct.apply(layout, limit, Millicores::ZERO).map(drop)
            }
            Some(_) | None => direct.give_back(layout),
        };
        match given {
            Ok(()) => true,
            Err(error) if error.is_gone() => false,
            Err(error) => {
                warn!("{}: not given back: {error}", self.pod.name());
                false
            }
        }
    }

    /// The limit in force; nothing if there is none.
    fn limit_in_force(&self) -> Result<Option<Millicores>, CgroupError> {
        let whole = self.group.settings()?.max.limit_floor();
        if self.direct.is_none() {
            return Ok(whole);
        }
        let mut parts = Millicores::ZERO;
        for group in &self.containers {
            match group.settings().map(|settings| settings.max.limit_floor()) {
                Ok(Some(limit)) => parts += limit,
                // One without a limit holds nobody back, and one that is gone is being replaced.
                Ok(None) | Err(_) => return Ok(whole),
            }
        }
        // Each container's part is rounded down.
        let rounded = Millicores::new(u64::try_from(self.containers.len()).unwrap_or(0));
        Ok(whole.map(|whole| if parts + rounded < whole { parts } else { whole }))
    }

    fn open_containers(&mut self, layout: &Layout, actuation: Actuation) {
        let pod_path = self.group.path().clone();
        self.ids = ids_of(&self.pod);
        let paths = self.ids.iter().filter_map(|id| container(layout, &pod_path, id));
        self.containers = paths.filter_map(|path| Group::open(layout, &path).ok()).collect();
        self.direct = match actuation {
            Actuation::Api => None,
            Actuation::Direct => self.open_direct(layout, &pod_path),
        };
    }

    fn open_direct(&self, layout: &Layout, pod_path: &CgroupPath) -> Option<Direct> {
        let parts = parts_of(layout, &self.pod, pod_path)?;
        match Direct::open(layout, pod_path, parts) {
            Ok(direct) => Some(direct),
            Err(error) => {
                debug!("{}: cannot be written directly: {error}", self.pod.name());
                None
            }
        }
    }
}

/// The ids of the containers that go on for as long as the pod does.
fn ids_of(pod: &Pod) -> Vec<String> {
    let lasting = |name: &str| pod.lasting_containers().any(|container| container.name == name);
    let statuses = pod.container_statuses().filter(|status| lasting(&status.name));
    let ids = statuses.filter_map(|status| status.container_id.as_deref());
    ids.map(|id| id_in(id).to_owned()).collect()
}

/// The groups of all containers with their limits; nothing where one has none.
fn parts_of(layout: &Layout, pod: &Pod, pod_path: &CgroupPath) -> Option<Vec<Part>> {
    let views = container_views(pod).ok()?;
    let part = |view: &walras_core::resize::ContainerView| {
        let mut statuses = pod.container_statuses();
        let status = statuses.find(|status| status.name == view.name)?;
        let path = container(layout, pod_path, id_in(status.container_id.as_deref()?))?;
        Some(Part { path, limit: view.limit? })
    };
    views.iter().map(part).collect()
}

#[cfg(test)]
mod tests;
