//! The market itself: drives the real `core::node` machine, exactly as a daemon would.

use walras_core::claim::{CameWith, Ground, Known, claim, share_of_request};
use walras_core::demand::Sample;
use walras_core::node::{Action, Loop, MachineSample, Node, Why, WorkloadFacts};
use walras_core::profile::Profile;
use walras_core::request::RequestRule;
use walras_core::units::{Millicores, Moment, WorkloadUid};

use super::{Actuation, Policy, Setting, View};
use crate::machine::Counters;
use crate::scenario::{NodeSpec, PodSpec};

/// A node's market.
#[derive(Clone, Debug)]
pub struct Market {
    node: Node,
    actuation: Actuation,
    capacity: Millicores,
    /// By place in the scenario.
    uids: Vec<WorkloadUid>,
    settings: Vec<Option<Setting>>,
    missed: Vec<bool>,
    contained: Vec<bool>,
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
                .map(|(place, pod)| WorkloadUid::new(&format!("{place:06}/{}", pod.name)))
                .collect(),
            settings: vec![None; pods.len()],
            missed: vec![false; pods.len()],
            contained: vec![false; pods.len()],
            due: Vec::new(),
        }
    }

    /// Whether the pod at a place was ever contained.
    #[must_use]
    pub fn was_contained(&self, place: usize) -> bool {
        self.contained[place]
    }

    fn look(&mut self, now: Moment, view: &View<'_>) {
        let (idle, busy) = (view.idle, view.busy);
        self.node.machine_sampled(MachineSample { at: now, idle, busy });
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

    fn place(&self, uid: &WorkloadUid) -> Option<usize> {
        self.uids.binary_search(uid).ok()
    }

    fn adopt(&mut self, action: &Action, settings: &mut Vec<(usize, Setting)>) {
        let Some(place) = self.place(&action.uid) else {
            return;
        };
        let setting = Setting {
            limit: Some(action.limit).filter(|limit| !limit.is_unlimited()),
            request: action.request,
            weight: action.weight.get(),
            burst: action.burst,
        };
        self.settings[place] = Some(setting);
        self.contained[place] |= matches!(action.why, Why::Contained { .. });
        settings.retain(|(other, _)| *other != place);
        settings.push((place, setting));
    }
}

impl Policy for Market {
    fn pod_started(&mut self, place: usize, pod: &PodSpec, now: Moment) -> Setting {
        let came_with = CameWith { request: Some(pod.request), limit: pod.limit, weight: None };
        let known = Known {
            came_with,
            min: pod.min,
            max: pod.max,
            share: share_of_request(pod.request),
            priority: pod.weight,
            nature: pod.nature,
        };
        let ground = Ground {
            cap_rule: self.node.profile().cap_rule,
            baseline: BASELINE,
            node: self.capacity,
            respect_limits: false,
        };
        let claim = claim(&known, &ground);
        self.node.workload_added(
            WorkloadFacts {
                uid: self.uids[place].clone(),
                family: None,
                bounds: claim.bounds,
                weight: claim.weight,
                limit: pod.limit.unwrap_or(Millicores::UNLIMITED),
                request: Some(pod.request),
                came_with,
                nature: pod.nature,
                request_rule: RequestRule::Kept,
            },
            now,
        );
        let setting = Setting {
            limit: pod.limit,
            request: pod.request,
            weight: super::weight_from_request(pod.request),
            burst: Millicores::ZERO,
        };
        self.settings[place] = Some(setting);
        setting
    }

    fn pod_stopped(&mut self, place: usize, _: Moment) {
        self.settings[place] = None;
        self.node.workload_removed(&self.uids[place]);
    }

    fn took_effect(&mut self, place: usize, setting: &Setting, now: Moment) {
        // A newer decision is on its way: this one says nothing about it.
        if self.settings[place].as_ref() == Some(setting) {
            self.node.limit_took_effect(&self.uids[place], now);
        }
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

/// What the agent gives every pod in the documents' market.
const BASELINE: Millicores = Millicores::new(100);

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
