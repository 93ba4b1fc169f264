//! The market itself: drives the real `core::node` machine, exactly as a daemon would.

use walras_core::demand::Sample;
use walras_core::need::Bounds;
use walras_core::node::{Action, Loop, Node, PodFacts};
use walras_core::profile::Profile;
use walras_core::units::{Millicores, Moment, PodUid};

use super::{Actuation, Policy, Setting, View};
use crate::machine::Counters;
use crate::scenario::{NodeSpec, PodSpec};

/// What a pod without a declared limit starts with: a part of the node.
const UNDECLARED_PART: u64 = 4;

/// A node's market.
#[derive(Clone, Debug)]
pub struct Market {
    node: Node,
    actuation: Actuation,
    capacity: Millicores,
    /// By place in the scenario.
    uids: Vec<PodUid>,
    settings: Vec<Option<Setting>>,
    missed: Vec<bool>,
    /// Pods to look at, kept from period to period.
    due: Vec<usize>,
}

impl Market {
    /// A market with these constants.
    #[must_use]
    pub fn new(profile: Profile, actuation: Actuation, node: &NodeSpec, pods: &[PodSpec]) -> Self {
        Self {
            node: Node::new(node.capacity, profile),
            actuation,
            capacity: node.capacity,
            // The place comes first, so that the order of uids is that of places.
            uids: pods
                .iter()
                .enumerate()
                .map(|(place, pod)| PodUid::new(&format!("{place:06}/{}", pod.name)))
                .collect(),
            settings: vec![None; pods.len()],
            missed: vec![false; pods.len()],
            due: Vec::new(),
        }
    }

    fn look(&mut self, now: Moment, view: &View<'_>) {
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        due.extend(self.node.due_for_sample(now).filter_map(|uid| self.place(uid)));
        for &place in &due {
            self.node.sampled(&self.uids[place], sample(&view.counters[place], now));
        }
        self.due = due;
        for place in 0..self.missed.len() {
            if view.running[place] && self.missed[place] != view.latency_missed[place] {
                self.missed[place] = view.latency_missed[place];
                self.node.latency_judged(&self.uids[place], self.missed[place]);
            }
        }
    }

    fn place(&self, uid: &PodUid) -> Option<usize> {
        self.uids.binary_search(uid).ok()
    }

    fn adopt(&mut self, action: &Action, settings: &mut Vec<(usize, Setting)>) {
        let Some(place) = self.place(&action.uid) else {
            return;
        };
        let setting = Setting {
            limit: Some(action.limit),
            request: action.request,
            weight: action.weight.get(),
            burst: action.burst,
        };
        self.settings[place] = Some(setting);
        settings.retain(|(other, _)| *other != place);
        settings.push((place, setting));
    }
}

impl Policy for Market {
    fn pod_started(&mut self, place: usize, pod: &PodSpec, now: Moment) -> Setting {
        let limit = pod
            .limit
            .unwrap_or(Millicores::new(self.capacity.get() / UNDECLARED_PART))
            .max(pod.request);
        self.node.pod_added(
            PodFacts {
                uid: self.uids[place].clone(),
                workload: None,
                // The declared limit is a starting point and not a ceiling.
                bounds: Bounds::new(pod.min.unwrap_or(LEAST).min(limit), self.capacity),
                weight: pod.weight,
                limit,
                request: Some(pod.request),
            },
            now,
        );
        let setting = Setting {
            limit: Some(limit),
            request: pod.request,
            weight: super::weight_from_request(pod.request),
            burst: Millicores::ZERO,
        };
        self.settings[place] = Some(setting);
        setting
    }

    fn pod_stopped(&mut self, place: usize, _: Moment) {
        self.settings[place] = None;
        self.node.pod_removed(&self.uids[place]);
    }

    fn period_passed(
        &mut self,
        now: Moment,
        view: &View<'_>,
        settings: &mut Vec<(usize, Setting)>,
    ) {
        let (mut due_at, mut due) = self.node.next_wake();
        if due_at > now {
            return;
        }
        self.look(now, view);
        // At most one tick of each loop: a clearing that a raise asks for comes a period later.
        for _ in 0..2 {
            if due_at > now {
                break;
            }
            let outcome = match due {
                Loop::Fast => self.node.fast_tick(now),
                Loop::Slow => self.node.slow_tick(now),
            };
            for action in &outcome.actions {
                self.adopt(action, settings);
            }
            (due_at, due) = (outcome.wake_at, outcome.wake_for);
        }
    }

    fn actuation(&self) -> Actuation {
        self.actuation
    }

    fn price(&self) -> Option<f64> {
        Some(self.node.price().to_f64())
    }
}

/// The least a pod may be granted whose owner does not say: the kernel's smallest quota, which is
/// 1 ms per period.
const LEAST: Millicores = Millicores::new(10);

fn sample(counters: &Counters, now: Moment) -> Sample {
    Sample {
        at: now,
        usage: counters.usage(),
        throttled: counters.throttled(),
        nr_periods: counters.nr_periods,
        nr_throttled: counters.nr_throttled,
        stalled: Some(counters.stalled()),
    }
}
