//! The containers of a simulated pod, as groups below its own.
//!
//! Called by a run for each pod that has some. Every piece of the pod's work passes through all of
//! them, each of which does its share of it, so the one that is held back holds up the pod. A pod's
//! limit is divided among them as it was when it was declared. What is told of the pod is what an
//! agent makes of its groups: the usage of all, and the worst throttling of any.

use walras_core::units::Millicores;

use crate::machine::{Counters, Machine, Want};
use crate::policy::Setting;
use crate::scenario::PodSpec;

/// The containers of one pod.
#[derive(Clone, Debug)]
pub(crate) struct Containers {
    pod: usize,
    declared: Option<Millicores>,
    all: Vec<Container>,
    /// What each group had counted a period ago, the pod's first.
    seen: Vec<Counters>,
    told: Counters,
}

#[derive(Clone, Copy, Debug)]
struct Container {
    place: usize,
    share: f64,
    limit: Option<Millicores>,
}

impl Containers {
    /// Makes the groups of the pod at a place; none where it has no containers to speak of.
    pub(crate) fn of(machine: &mut Machine, pod: usize, spec: &PodSpec) -> Option<Self> {
        if spec.containers.is_empty() {
            return None;
        }
        let sum: f64 = spec.containers.iter().map(|container| container.share).sum();
        let all = spec.containers.iter().map(|container| {
            let place = machine.add_child(pod);
            machine.group_mut(place).set_weight(container.weight);
            Container { place, share: container.share / sum, limit: container.limit }
        });
        let all: Vec<Container> = all.collect();
        let seen = vec![Counters::default(); all.len() + 1];
        Some(Self { pod, declared: spec.limit, all, seen, told: Counters::default() })
    }

    /// Splits what the pod wants in a slice.
    pub(crate) fn want(&self, want: Want, machine: &Machine, wants: &mut [Want]) {
        for one in &self.all {
            // No container gets ahead of one whose quota is used up.
            let others = self.all.iter().filter(|other| other.place != one.place);
            let work_core_ms = others.fold(want.work_core_ms, |work, other| {
                work.min(machine.group(other.place).left_core_ms().max(0.0) / other.share)
            });
            let (threads, work_core_ms) = (want.threads * one.share, work_core_ms * one.share);
            wants[one.place] = Want { threads, work_core_ms };
        }
    }

    /// How far the pod came with what its containers got.
    pub(crate) fn got(&self, got: &[f64]) -> f64 {
        self.all.iter().map(|one| got[one.place] / one.share).fold(f64::INFINITY, f64::min)
    }

    /// The pod ran so much; what its containers got beyond that they give back.
    pub(crate) fn ran(&self, ran_core_ms: f64, machine: &mut Machine, got: &[f64]) {
        for one in &self.all {
            machine.gave_back(one.place, got[one.place] - ran_core_ms * one.share);
        }
    }

    /// Sets the pod's limit on its containers. Where the pod was declared without one, they keep
    /// their own.
    pub(crate) fn set(&self, setting: &Setting, machine: &mut Machine) {
        for one in &self.all {
            let group = machine.group_mut(one.place);
            match (one.limit, self.declared) {
                (Some(limit), Some(declared)) => {
                    let part = |of: Millicores| of.get() * limit.get() / declared.get();
                    let now = setting.limit.map(|now| Millicores::new(part(now)).max(LEAST));
                    group.set_limit(now, Millicores::new(part(setting.burst)));
                }
                (limit, None) | (limit @ None, Some(_)) => group.set_limit(limit, Millicores::ZERO),
            }
        }
    }

    /// What is told of the pod, once a period has passed.
    pub(crate) fn period_passed(&mut self, machine: &Machine) -> Counters {
        let pod = *machine.group(self.pod).counters();
        let places = std::iter::once(self.pod).chain(self.all.iter().map(|one| one.place));
        let mut worst = Counters::default();
        for (place, before) in places.zip(&mut self.seen) {
            let now = *machine.group(place).counters();
            let throttled_core_ms = now.throttled_core_ms - before.throttled_core_ms;
            worst.throttled_core_ms = worst.throttled_core_ms.max(throttled_core_ms);
            worst.nr_periods = worst.nr_periods.max(now.nr_periods - before.nr_periods);
            worst.nr_throttled = worst.nr_throttled.max(now.nr_throttled - before.nr_throttled);
            *before = now;
        }
        self.told = Counters {
            throttled_core_ms: self.told.throttled_core_ms + worst.throttled_core_ms,
            nr_periods: self.told.nr_periods + worst.nr_periods,
            nr_throttled: self.told.nr_throttled + worst.nr_throttled,
            ..pod
        };
        self.told
    }
}

/// The least limit that the kernel takes: 1 ms per period.
const LEAST: Millicores = Millicores::new(10);
