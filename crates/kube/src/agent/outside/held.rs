//! A pod whose control groups are open: read, compared, and written where that is the way to act.
//!
//! What was written is given back as soon as it is not wanted any more. The limit in force is that
//! of the pod's group or that of its containers together, whichever is less: the kubelet gives a
//! pod more than its containers have, or no limit at all, where an init container may use more, and
//! a container that was restarted since its pod was raised holds the pod back.

mod inside;
mod parts;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::{debug, warn};
use walras_cgroup::{CgroupError, CgroupPath, Group, Layout, Settings};
use walras_core::demand::Sample;
use walras_core::node::Action;
use walras_core::units::{Millicores, Moment, Span};
use walras_node::drive::Carried;

use self::inside::Inside;
use self::parts::{is_foreign, is_settled, parts_of};
use super::SLACK;
use crate::agent::direct::{self, Direct, Left};
use crate::agent::params::Params;
use crate::agent::publish::{Key, key_of};
use crate::agent::sample::{Meter, Reading};
use crate::pod::{Mode, Pod};
use crate::settings::Actuation;

/// A pod that is sized.
#[derive(Debug)]
pub(super) struct Held {
    pod: Arc<Pod>,
    pub(super) params: Params,
    pub(super) key: Key,
    /// The limit in force, as far as is known.
    pub(super) limit: Millicores,
    group: Group,
    inside: Inside,
    meter: Meter,
    direct: Option<Direct>,
    /// What was written here, and not by the kubelet.
    left: Left,
    wish: Option<Wish>,
    /// Whether more (or less) than is in force should have come by now. Until something else is in
    /// force, no other wish for more (or less) is believed either.
    late: Option<Ordering>,
    /// What was decided and is further away than one resize can reach.
    pub(super) cut_short: Option<Action>,
    /// Whether a write was refused, so that no other one is tried.
    unwritable: bool,
    /// Whether it was told that something cannot be given back.
    is_told: bool,
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
    /// What was asked for should be in force by now, and this limit is.
    Late(Millicores),
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
            limit: params.limit.unwrap_or(params.unlimited),
            params,
            group: Group::open(layout, path)?,
            inside: Inside::default(),
            meter: Meter::default(),
            direct: None,
            left: Left::default(),
            wish: None,
            late: None,
            cut_short: None,
            unwritable: false,
            is_told: false,
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
        let agreed = self.inside.follow(pod);
        if resized || agreed || !self.inside.is_of(pod) {
            self.open_containers(layout, actuation);
        }
        match self.params.mode {
            Mode::LimitsOnly | Mode::RequestsAndLimits if resized => self.cap_bursts(layout),
            Mode::LimitsOnly | Mode::RequestsAndLimits => {}
            // Who is not to be changed any more must not keep what was changed behind its back.
            Mode::Off | Mode::Restore => {
                self.give_back(layout);
            }
        }
    }

    /// Claims writes left by a crashed agent, so that they are undone.
    pub(super) fn remember(&mut self, layout: &Layout) {
        let Some(parts) = parts_of(layout, &self.pod, self.group.path()) else {
            return;
        };
        let (found, settled) = (self.settings(), is_settled(&self.pod));
        for part in &parts.containers {
            if let Some(now) = found.get(&part.path) {
                self.left.found(&part.path, now, settled && is_foreign(part, now));
            }
        }
        // The kubelet gives a pod more than its containers have for reasons of its own.
        if let Some(now) = found.get(&parts.pod.path) {
            let bursts = now.burst.is_some_and(|burst| burst > Span::ZERO);
            let written = settled && (bursts || !self.left.is_empty());
            self.left.found(&parts.pod.path, now, written && is_foreign(&parts.pod, now));
        }
    }

    /// Takes over what was written before the pod was found again.
    pub(super) fn inherit(&mut self, from: Self) {
        self.left = from.left;
        self.forget_gone();
    }

    /// Whether something was written that is not given back.
    pub(super) fn owes(&self) -> bool {
        !self.left.is_empty()
    }

    /// Takes in that the pod is not sized any more. Says whether something was given back.
    pub(super) fn leave(&mut self, layout: &Layout, pod: &Arc<Pod>) -> bool {
        self.pod = Arc::clone(pod);
        self.give_back(layout)
    }

    /// Whether nothing changed since it was last taken in.
    pub(super) fn is_of(&self, pod: &Arc<Pod>, params: &Params) -> bool {
        Arc::ptr_eq(&self.pod, pod) && self.params == *params && self.inside.is_complete()
    }

    pub(super) fn whose(&self) -> (&str, &str) {
        (self.pod.name(), self.pod.uid())
    }

    pub(super) fn label(&self) -> String {
        format!("{}/{}", self.pod.namespace(), self.pod.name())
    }

    /// What the pod has counted, from all of its groups or not at all: without the container that
    /// is held back, it would look like one that wants nothing. What cannot be read now is in the
    /// next sample, since the meter goes on from the last one that was whole.
    pub(super) fn sample(&mut self, now: Moment) -> Result<Sample, CgroupError> {
        let read = |group: &Group| {
            Ok(Reading { inode: group.identity().inode, sample: group.sample(now)? })
        };
        let pod = read(&self.group)?;
        let mut containers = Vec::new();
        for group in self.inside.groups() {
            match read(group) {
                Ok(reading) => containers.push(reading),
                // A container that is gone is news that the API server brings.
                Err(CgroupError::Gone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.meter.read(now, pod, &containers))
    }

    /// Something is asked of the API server.
    pub(super) fn asked(&mut self, limit: Millicores, believed: bool, now: Moment) -> Carried {
        if limit.abs_diff(self.limit) < SLACK && believed {
            self.wish = None;
            return Carried::Done;
        }
        let same = self.wish.filter(|wish| wish.limit.abs_diff(limit) <= SLACK);
        let asked_at = same.map_or(now, |wish| wish.asked_at);
        if self.late == Some(limit.cmp(&self.limit)) {
            self.wish = Some(Wish { limit, asked_at, believed: false });
            return Carried::Late(self.limit);
        }
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
        let limit = limit.unwrap_or(self.params.unlimited);
        let changed = limit != self.limit;
        self.limit = limit;
        if changed {
            self.late = None;
        }
        let Some(wish) = &mut self.wish else {
            return if changed { Seen::Other(limit) } else { Seen::Nothing };
        };
        if limit.abs_diff(wish.limit) <= SLACK {
            let believed = wish.believed;
            self.wish = None;
            return if believed { Seen::Took } else { Seen::Other(limit) };
        }
        if changed {
            (wish.believed, wish.asked_at) = (false, now);
            return Seen::Other(limit);
        }
        let way = Some(wish.limit.cmp(&limit));
        if self.late != way && now.since(wish.asked_at) >= deadline {
            wish.believed = false;
            self.late = way;
            return Seen::Late(limit);
        }
        Seen::Nothing
    }

    pub(super) const fn can_be_written(&self) -> bool {
        self.direct.is_some()
    }

    /// Writes an action to the control groups.
    pub(super) fn write(&mut self, action: &Action) -> Carried {
        let before = self.settings();
        let Some(direct) = &self.direct else {
            return Carried::Gone;
        };
        let applied = direct.apply(action.limit, action.burst);
        // Also a write that failed may have left something.
        for (path, after) in self.settings() {
            if let Some(before) = before.get(&path) {
                self.left.note(&path, before, &after);
            }
        }
        match applied {
            Ok(applied) => {
                self.limit = applied.now.max.limit_floor().unwrap_or(action.limit);
                applied.held_by.map_or(Carried::Done, |above| Carried::HeldAt(above.limit))
            }
            Err(error) if error.is_gone() => Carried::Gone,
            Err(error) => {
                // What was refused once is refused again, and half of it may be written each time.
                (self.direct, self.unwritable) = (None, true);
                let in_force = self.limit_in_force().ok().flatten();
                self.limit = in_force.unwrap_or(self.limit);
                Carried::Failed { because: error.to_string(), in_force }
            }
        }
    }

    /// Gives back what the kubelet set, if anything was written. Says whether it was.
    pub(super) fn give_back(&mut self, layout: &Layout) -> bool {
        if self.left.is_empty() {
            return false;
        }
        let Some(parts) = parts_of(layout, &self.pod, self.group.path()) else {
            return false;
        };
        match direct::take_back(layout, &parts, &self.left) {
            Ok(()) => {
                (self.left, self.is_told) = (Left::default(), false);
                if let Ok(Some(limit)) = self.limit_in_force() {
                    self.limit = limit;
                }
                true
            }
            Err(error) if error.is_gone() => false,
            Err(error) => {
                // It is tried again and again, and told once.
                if !std::mem::replace(&mut self.is_told, true) {
                    warn!("{}: not given back yet: {error}", self.label());
                }
                false
            }
        }
    }

    /// Makes room for a smaller limit, which the kubelet is about to set.
    fn cap_bursts(&self, layout: &Layout) {
        let parts = parts_of(layout, &self.pod, self.group.path());
        let Some(parts) = parts.filter(|_| !self.left.is_empty()) else {
            return;
        };
        if let Err(error) = direct::cap_bursts(layout, &parts) {
            warn!("{}: its burst buffer may be in the kubelet's way: {error}", self.pod.name());
        }
    }

    /// What its groups have, of those that are there.
    fn settings(&self) -> BTreeMap<CgroupPath, Settings> {
        let groups = std::iter::once(&self.group).chain(self.inside.groups());
        let settings =
            groups.filter_map(|group| Some((group.path().clone(), group.settings().ok()?)));
        settings.collect()
    }

    /// The limit in force; nothing if there is none.
    fn limit_in_force(&self) -> Result<Option<Millicores>, CgroupError> {
        let whole = self.group.max()?.limit_floor();
        Ok(self.inside.least(whole))
    }

    fn open_containers(&mut self, layout: &Layout, actuation: Actuation) {
        let pod_path = self.group.path().clone();
        self.inside = Inside::open(layout, &pod_path, &self.pod);
        self.forget_gone();
        self.direct = match actuation {
            Actuation::Direct if self.unwritable => None,
            Actuation::Api => None,
            Actuation::Direct => self.open_direct(layout, &pod_path),
        };
    }

    /// Forgets what was written to groups that are not there any more.
    fn forget_gone(&mut self) {
        let groups = std::iter::once(&self.group).chain(self.inside.groups());
        self.left.keep_only(groups.map(Group::path));
    }

    fn open_direct(&self, layout: &Layout, pod_path: &CgroupPath) -> Option<Direct> {
        let parts = parts_of(layout, &self.pod, pod_path)?;
        // A container that is not there yet could not be given its part.
        if parts.containers.len() != self.pod.lasting_containers().count() {
            return None;
        }
        match Direct::open(layout, parts) {
            Ok(direct) => Some(direct),
            Err(error) => {
                debug!("{}: cannot be written directly: {error}", self.pod.name());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
