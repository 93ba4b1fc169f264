//! Walras: requests by the slow rules of `walras_core::request`, which decides everything here.
//!
//! As it is shipped, an agent on each node has a record of every workload there, decides over the
//! pods of its node, and the controller takes the largest request that any agent wishes for a
//! workload's pods, as far as each pod's original. New pods come with what their owner declared.
//! With records shared, there is one of each workload for the whole cluster, and new pods come with
//! what it says; a pod that was seen to use more than its siblings gets more. Nobody is ever
//! evicted.

use std::collections::BTreeMap;

use walras_core::profile::Profile;
use walras_core::request::{
    self, Evidence, OF_THE_NODE, Pooled, PooledPeak, RequestFacts, Room, UseRecord, WINDOW,
    WindowUse,
};
use walras_core::units::{Millicores, Moment, Ratio};

use super::{Seen, Sizer, Wish, millicores_nearest};
use crate::pack::cluster::{Node, Pod};
use crate::pack::workload::{Kind, Town};

/// Who knows what a workload used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The agent of each node, of what was on that node: as it is shipped.
    Node,
    /// All of them together, and a webhook for new pods.
    Cluster,
}

/// What an agent saw of a pod counts beside the shared record after an hour: before that, starting
/// is a large part of it.
const OWN_AT_LEAST: Evidence = Evidence::of_windows(12);

/// All agents, and the controller.
#[derive(Clone, Debug)]
pub struct Walras {
    sharing: Sharing,
    margin: Ratio,
    /// By place of the workload, where records are shared.
    shared: Vec<Known>,
    /// By number of the node.
    agents: Vec<Agent>,
    /// When the request of each pod was last lowered, or when it came.
    lowered_at: Vec<Moment>,
    /// What each pod is wished to request.
    wished: Vec<Option<Millicores>>,
    /// Room to work in.
    counted: Vec<Millicores>,
}

/// What one node knows.
#[derive(Clone, Debug, Default)]
struct Agent {
    /// The window in which its node came, which tells it from one before it of the same number.
    since: usize,
    records: BTreeMap<usize, Known>,
    pooled: Pooled,
}

/// A record, and what was worked out of it.
#[derive(Clone, Debug, Default)]
struct Known {
    record: UseRecord,
    suggested: Option<Millicores>,
}

// === impl Walras ===

impl Walras {
    /// Without any record.
    #[must_use]
    pub fn new(town: &Town, sharing: Sharing, margin: Ratio) -> Self {
        Self {
            sharing,
            margin,
            shared: vec![Known::default(); town.workloads.len()],
            agents: Vec::new(),
            lowered_at: vec![Moment::ORIGIN; town.pods.len()],
            wished: vec![None; town.pods.len()],
            counted: Vec::new(),
        }
    }

    /// What was used on one node.
    fn node_seen(&mut self, seen: &Seen<'_>, number: usize, node: &Node) {
        let town = seen.town;
        if self.agents.len() <= number {
            self.agents.resize_with(number + 1, Agent::default);
        }
        if self.agents[number].since != node.since {
            self.agents[number] = Agent { since: node.since, ..Agent::default() };
        }
        let of_pod = |pod: usize| WindowUse {
            right: town.workload_of(pod).declared,
            used: millicores_nearest(seen.uses[pod].cores),
            stall_ratio: stall_ratio(seen.uses[pod].stalled),
            was_elastic: town.workload_of(pod).kind == Kind::Batch,
        };
        let pods = || node.pods.iter().copied().filter(|pod| seen.uses[*pod].is_seen);
        let uses: Vec<(usize, WindowUse)> = pods().map(|pod| (pod, of_pod(pod))).collect();
        let rights: Millicores = node.pods.iter().map(|pod| town.workload_of(*pod).declared).sum();
        let free = node.shape.allocatable().saturating_sub(rights);
        let is_lent = request::is_lent(uses.iter().map(|(_, used)| used), free);
        let agent = &mut self.agents[number];
        agent.pooled.window_passed(uses.iter().map(|(_, used)| used.used).sum());
        for (pod, used) in &uses {
            let used = used.counted(is_lent);
            let workload = town.pods[*pod].workload;
            // Replicas keep apart, so there is seldom more than one on a node.
            agent.records.entry(workload).or_default().record.window_passed(&[used]);
            self.counted[*pod] = used;
        }
    }

    /// What the records say by now.
    fn suggest(&mut self, seen: &Seen<'_>) {
        let margin = self.margin;
        let agents = self.agents.iter_mut();
        agents.flat_map(|agent| agent.records.values_mut()).for_each(|it| it.work_out(margin));
        if self.sharing == Sharing::Node {
            return;
        }
        for workload in 0..seen.town.workloads.len() {
            let pods = seen.town.pods_of(workload);
            let is_seen = |pod: &usize| seen.uses[*pod].is_seen;
            let used: Vec<Millicores> = pods.filter(is_seen).map(|pod| self.counted[pod]).collect();
            let known = &mut self.shared[workload];
            known.record.window_passed(&used);
            known.work_out(margin);
        }
    }

    /// What is known of a workload on a node: what its agent saw, and where records are shared what
    /// all saw. A replica that has more to do than its siblings needs more than they do.
    fn known(&self, agent: &Agent, workload: usize) -> (Option<Millicores>, Evidence) {
        let own = agent.records.get(&workload);
        let of = |it: &Known| (it.suggested, it.record.evidence());
        let (suggested, evidence) = own.map(of).unwrap_or_default();
        match self.sharing {
            Sharing::Node => (suggested, evidence),
            Sharing::Cluster => {
                let (shared, of_all) = of(&self.shared[workload]);
                let own = suggested.filter(|_| evidence >= OWN_AT_LEAST);
                (shared.max(own), of_all)
            }
        }
    }

    /// What the agent of a node wishes for its pods.
    fn node_decides(&mut self, seen: &Seen<'_>, number: usize, node: &Node, now: Moment) {
        let most = node.shape.allocatable().scale_floor(OF_THE_NODE);
        let agent = &self.agents[number];
        let pooled = agent.pooled.peak_ceil().map(|peak| PooledPeak { peak, most });
        let mut sum = node.requested;
        for place in &node.pods {
            let workload = seen.town.pods[*place].workload;
            let (suggested, evidence) = self.known(agent, workload);
            let Pod { request: in_force, since, .. } = seen.cluster.pods[*place];
            let it = &seen.town.workloads[workload];
            let facts = RequestFacts {
                original: it.declared,
                in_force,
                suggested,
                evidence,
                is_elastic: it.kind == Kind::Batch,
                room: Room::of(sum, most),
                pooled,
                lowered_at: self.lowered_at[*place].max(moment(since)),
            };
            let (wish, _) = request::step(&facts, now);
            self.wished[*place] = Some(wish);
            sum = sum.saturating_sub(in_force) + wish;
        }
    }

    /// What the controller makes of it: the largest wish for a workload counts for all of its pods,
    /// as far as what they came with.
    fn with_siblings(&self, town: &Town, pod: usize) -> Option<Millicores> {
        let own = self.wished[pod]?;
        if self.sharing != Sharing::Node {
            // What siblings need is in the shared record.
            return Some(own);
        }
        let workload = town.pods[pod].workload;
        let largest = self.wished[town.pods_of(workload)].iter().flatten().max()?;
        Some(own.max((*largest).min(town.workloads[workload].declared)))
    }
}

impl Sizer for Walras {
    fn at_arrival(&self, town: &Town, workload: usize) -> Millicores {
        let declared = town.workloads[workload].declared;
        match self.sharing {
            Sharing::Node => declared,
            Sharing::Cluster => {
                let Known { record, suggested } = &self.shared[workload];
                request::at_arrival(declared, *suggested, record.evidence())
            }
        }
    }

    fn window_passed(&mut self, seen: &Seen<'_>) {
        self.counted.clear();
        self.counted.resize(seen.town.pods.len(), Millicores::ZERO);
        for (number, node) in seen.cluster.there() {
            self.node_seen(seen, number, node);
        }
        self.suggest(seen);
    }

    fn decide(&mut self, seen: &Seen<'_>, wishes: &mut Vec<Wish>) {
        let now = moment(seen.window + 1);
        self.wished.fill(None);
        for (number, node) in seen.cluster.there() {
            self.node_decides(seen, number, node, now);
        }
        for (place, pod) in seen.cluster.pods.iter().enumerate() {
            let Some(request) = self.with_siblings(seen.town, place) else { continue };
            if request < pod.request {
                self.lowered_at[place] = now;
            }
            if request != pod.request {
                wishes.push(Wish { pod: place, request, or_move: false });
            }
        }
    }
}

// === impl Known ===

impl Known {
    fn work_out(&mut self, margin: Ratio) {
        let used = self.record.largest_p90();
        let rounding = Profile::API.rounding_milli;
        self.suggested = used.map(|used| used.scale_ceil(margin).round_up_to(rounding));
    }
}

/// When a window begins.
fn moment(window: usize) -> Moment {
    let windows = u64::try_from(window).unwrap_or(u64::MAX);
    Moment::from_us(windows.saturating_mul(WINDOW.as_us()))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
fn stall_ratio(stalled: f64) -> Ratio {
    Ratio::from_millionths((stalled.clamp(0.0, 1.0) * 1e6) as u64)
}
