//! What pods use in windows of five minutes, and what they request by it.
//!
//! All pods of a node have their windows at the same time, so that their sum is that of one moment.
//! What counts of what they used is in `request::counted`; whoever was contained took all that it
//! could get.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::pod::Pod;
use super::{Allocatable, MachineSample, MachineUse, Node, Note, TABLES_MAX};
use crate::demand::{self, Reading, Signal};
use crate::request::{
    self, OF_THE_NODE, Pooled, PooledPeak, RequestFacts, RequestRule, RequestWhy, Room, UseRecord,
    WINDOW, WindowUse,
};
use crate::units::{Millicores, Moment, Span, WorkloadKey};

/// A pod that was there for less of a window than this is not counted in it.
const WINDOW_AT_LEAST: Span = Span::from_s(150);
/// A window that ended later than this says nothing: nobody looked in between.
const WINDOW_AT_MOST: Span = Span::from_s(600);

/// What a node knows of use, for requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    pub(super) records: BTreeMap<WorkloadKey, UseRecord>,
    pooled: Pooled,
    /// When the window began that goes on, and what the machine had counted then.
    window: Option<(Moment, Option<MachineSample>)>,
    /// Whether it was told that nothing is lowered here.
    is_busy_told: bool,
}

// === impl Node ===

impl Node {
    /// Counts a window if one is over, and decides every request.
    pub(super) fn follow_use(&mut self, now: Moment) {
        if self.pods.iter().any(|pod| pod.request_rule == RequestRule::Follows) {
            self.mark_elastic();
            self.count_window(now);
        } else {
            // Nobody asks; what is known stays for when somebody does.
            self.uses.window = None;
        }
        self.decide_requests(now);
    }

    fn mark_elastic(&mut self) {
        for pod in &mut self.pods {
            pod.was_elastic |= pod.containment.is_some() || pod.is_elastic();
        }
    }

    fn count_window(&mut self, now: Moment) {
        let began = match self.uses.window {
            Some((began, _)) if now.since(began) < WINDOW => return,
            Some((began, machine)) => Some((began, machine)),
            None => None,
        };
        let seen: Vec<Option<Signal>> =
            self.pods.iter_mut().map(|pod| pod.close_window()).collect();
        let machine = self.machine.latest();
        self.uses.window = Some((now, machine));
        let Some((began, machine_then)) = began else { return };
        if now.since(began) > WINDOW_AT_MOST {
            self.pods.iter_mut().for_each(|pod| pod.was_elastic = false);
            return;
        }
        let used: Millicores = seen.iter().flatten().map(|signal| signal.usage).sum();
        let both = machine_then.as_ref().zip(machine.as_ref());
        let of_machine = both.and_then(|(then, now)| MachineUse::between(then, now));
        self.uses.pooled.window_passed(of_machine.map_or(used, |machine| machine.busy));
        self.count_use(&seen);
    }

    fn count_use(&mut self, seen: &[Option<Signal>]) {
        let pods = self.pods.iter().map(AsRef::as_ref).zip(seen);
        let uses: Vec<(&Pod, WindowUse)> = pods
            .filter_map(|(pod, signal)| Some((pod, pod.window_use(signal.as_ref()?))))
            .collect();
        let rights: Millicores = self.pods.iter().map(|pod| pod.bounds.min()).sum();
        let free = self.size().saturating_sub(self.set_aside()).saturating_sub(rights);
        let is_lent = request::is_lent(uses.iter().map(|(_, used)| used), free);
        let mut by_workload: BTreeMap<WorkloadKey, Vec<Millicores>> = BTreeMap::new();
        for (pod, used) in uses.iter().filter(|(pod, _)| pod.request_rule == RequestRule::Follows) {
            let used = used.counted(is_lent);
            by_workload.entry(pod.workload.clone()).or_default().push(used);
        }
        for (workload, used) in by_workload {
            self.uses.records.entry(workload).or_default().window_passed(&used);
        }
        self.pods.iter_mut().for_each(|pod| pod.was_elastic = false);
        if self.uses.records.len() > TABLES_MAX {
            let pods = &self.pods;
            self.uses.records.retain(|key, _| pods.iter().any(|pod| pod.workload == *key));
        }
    }

    fn decide_requests(&mut self, now: Moment) {
        let most = self.size().scale_floor(OF_THE_NODE);
        let peak = self.uses.pooled.peak_ceil();
        let pooled = peak.map(|peak| PooledPeak { peak, most });
        let in_force: Millicores = self.pods.iter().map(|pod| pod.in_force.request).sum();
        let mut sum = in_force + self.set_aside();
        let mut is_stopped = false;
        let rounding = self.profile.rounding_milli;
        for pod in &mut self.pods {
            let record = self.uses.records.get(&pod.workload);
            let is_elastic = pod.was_elastic || pod.is_elastic();
            let facts = RequestFacts {
                original: pod.came_with.request.unwrap_or(pod.in_force.request),
                in_force: pod.in_force.request,
                suggested: record
                    .and_then(UseRecord::suggested)
                    .map(|suggested| suggested.round_up_to(rounding)),
                evidence: record.map(UseRecord::evidence).unwrap_or_default(),
                is_elastic,
                room: Room::of(sum, most),
                pooled,
                lowered_at: pod.lowered_at,
            };
            let (wish, why) = match pod.request_rule {
                RequestRule::Kept => (facts.original, RequestWhy::Kept),
                RequestRule::Scaled => (facts.original, RequestWhy::Scaled),
                RequestRule::Follows => request::step(&facts, now),
            };
            (pod.request_wish, pod.request_why) = (wish, Some(why));
            sum = sum.saturating_sub(pod.in_force.request) + wish;
            is_stopped |= why == RequestWhy::NodeBusy;
        }
        let busy = pooled.filter(|_| is_stopped);
        if let (Some(PooledPeak { peak, most }), false) = (busy, self.uses.is_busy_told) {
            self.note(Note::LoweringStopped { peak, most });
        }
        self.uses.is_busy_told = busy.is_some();
    }

    /// The whole node, as far as pods may have it.
    fn size(&self) -> Millicores {
        self.allocatable.map_or(self.capacity, |Allocatable { size, .. }| size)
    }

    /// What those request that are not sized.
    fn set_aside(&self) -> Millicores {
        self.allocatable.map_or(Millicores::ZERO, |Allocatable { set_aside, .. }| set_aside)
    }
}

// === impl Pod ===

impl Pod {
    /// What it did in the window that is over, if it was there for long enough.
    fn close_window(&mut self) -> Option<Signal> {
        let (from, latest) = (self.use_from.take(), self.latest);
        self.use_from = latest;
        match demand::read(&from?, &latest?) {
            Reading::Window(signal) if signal.window >= WINDOW_AT_LEAST => Some(signal),
            Reading::Window(_) | Reading::TooShort | Reading::OutOfOrder | Reading::Reset => None,
        }
    }

    /// What it did, for what it should request.
    fn window_use(&self, signal: &Signal) -> WindowUse {
        WindowUse {
            right: self.bounds.min(),
            used: signal.usage,
            stall_ratio: signal.stall_ratio,
            was_elastic: self.was_elastic,
        }
    }
}
