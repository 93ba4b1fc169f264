//! A node and its workloads, driven as it asks to be: on a clock that is never late, with a sample
//! of every workload that is due, and limits that take effect at once.

use std::collections::BTreeMap;

use walras_core::claim::{CameWith, Nature};
use walras_core::need::Bounds;
use walras_core::node::{Loop, MachineSample, Node, Outcome, WorkloadFacts};
use walras_core::profile::Profile;
use walras_core::request::RequestRule;
use walras_core::units::{Millicores, Moment, Span, Weight, WorkloadUid};
use walras_sim::random::load::{Appetite, Load};

/// A node, its workloads and the time.
pub(crate) struct Town {
    node: Node,
    workloads: BTreeMap<WorkloadUid, Inhabitant>,
    start: Moment,
    now: Moment,
    capacity: Millicores,
    /// What nobody used so far.
    idle_us: u64,
}

struct Inhabitant {
    load: Load,
    limit: Millicores,
}

/// A workload with an appetite.
#[derive(Clone, Debug)]
pub(crate) struct Eater {
    pub(crate) name: String,
    pub(crate) bounds: Bounds,
    pub(crate) limit: Millicores,
    pub(crate) appetite: Appetite,
}

impl Town {
    pub(crate) fn new(capacity: Millicores, profile: &Profile, eaters: &[Eater]) -> Self {
        let start = Moment::from_ms(1_000_000);
        let mut node = Node::new(capacity, profile.clone());
        let mut workloads = BTreeMap::new();
        for eater in eaters {
            let uid = WorkloadUid::new(&eater.name);
            let facts = WorkloadFacts {
                uid: uid.clone(),
                family: None,
                bounds: eater.bounds,
                weight: Weight::ONE,
                limit: eater.limit,
                request: None,
                came_with: CameWith { request: None, limit: Some(eater.limit), weight: None },
                nature: Nature::Unknown,
                request_rule: RequestRule::Kept,
            };
            node.workload_added(facts, start);
            let load = Load::new(eater.appetite, 1, start);
            workloads.insert(uid, Inhabitant { load, limit: eater.limit });
        }
        Self { node, workloads, start, now: start, capacity, idle_us: 0 }
    }

    /// The next tick, whichever is due.
    pub(crate) fn tick(&mut self) -> Outcome {
        let (now, due) = self.node.next_wake();
        let passed = now.since(self.now);
        self.now = now;
        let sampled: Vec<WorkloadUid> = self.node.due_for_sample(now).cloned().collect();
        let before_us = self.busy_us();
        for workload in self.workloads.values_mut() {
            workload.load.run_until(now, workload.limit);
        }
        let busy_us = self.busy_us();
        let whole_us = self.capacity.get() * passed.as_us() / 1000;
        // Workloads that want more than there is are not held to it here: then nothing is idle.
        self.idle_us += whole_us.saturating_sub(busy_us - before_us);
        let (idle, busy) = (Span::from_us(self.idle_us), Span::from_us(busy_us));
        self.node.machine_sampled(MachineSample { at: now, idle, busy });
        for uid in sampled {
            self.node.sampled(&uid, self.workloads[&uid].load.sample(now));
        }
        let outcome = match due {
            Loop::Fast => self.node.fast_tick(now),
            Loop::Slow => self.node.slow_tick(now),
        };
        for action in &outcome.actions {
            let workload = self
                .workloads
                .get_mut(&action.uid)
                .expect("actions are for workloads that are here");
            workload.limit = action.limit;
            self.node.limit_took_effect(&action.uid, now);
        }
        outcome
    }

    fn busy_us(&self) -> u64 {
        self.workloads.values().map(|workload| workload.load.sample(self.now).usage.as_us()).sum()
    }

    /// How much time has passed.
    pub(crate) fn age(&self) -> Span {
        self.now.since(self.start)
    }

    /// What is set on a workload.
    pub(crate) fn limit(&self, name: &str) -> Millicores {
        self.workloads[&WorkloadUid::new(name)].limit
    }
}
