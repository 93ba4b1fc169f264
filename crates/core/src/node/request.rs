//! What workloads use in windows of five minutes, and what they request by it.
//!
//! All workloads of a node have their windows at the same time, so that their sum is that of one
//! moment. What counts of what they used is in `request::counted`; one that was contained took all
//! that it could get.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::workload::Workload;
use super::{Allocatable, MachineSample, MachineUse, Node, Note, TABLES_MAX};
use crate::demand::{self, Reading, Signal};
use crate::request::{
    self, OF_THE_NODE, Pooled, PooledPeak, RequestFacts, RequestRule, RequestWhy, Room, UseRecord,
    WINDOW, WindowUse,
};
use crate::units::{FamilyKey, Millicores, Moment, Span};

/// A workload that was there for less of a window than this is not counted in it.
const WINDOW_AT_LEAST: Span = Span::from_s(150);
/// A window that ended later than this says nothing: there was no look in between.
const WINDOW_AT_MOST: Span = Span::from_s(600);

/// What a node knows of use, for requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    pub(super) records: BTreeMap<FamilyKey, UseRecord>,
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
        if self.workloads.iter().any(|workload| workload.request_rule == RequestRule::Follows) {
            self.mark_elastic();
            self.count_window(now);
        } else {
            // It is not asked for; what is known stays for when it is.
            self.uses.window = None;
        }
        self.decide_requests(now);
    }

    fn mark_elastic(&mut self) {
        for workload in &mut self.workloads {
            workload.was_elastic |= workload.containment.is_some() || workload.is_elastic();
        }
    }

    fn count_window(&mut self, now: Moment) {
        let began = match self.uses.window {
            Some((began, _)) if now.since(began) < WINDOW => return,
            Some((began, machine)) => Some((began, machine)),
            None => None,
        };
        let seen: Vec<Option<Signal>> =
            self.workloads.iter_mut().map(|workload| workload.close_window()).collect();
        let machine = self.machine.latest();
        self.uses.window = Some((now, machine));
        let Some((began, machine_then)) = began else { return };
        if now.since(began) > WINDOW_AT_MOST {
            self.workloads.iter_mut().for_each(|workload| workload.was_elastic = false);
            return;
        }
        let used: Millicores = seen.iter().flatten().map(|signal| signal.usage).sum();
        let both = machine_then.as_ref().zip(machine.as_ref());
        let of_machine = both.and_then(|(then, now)| MachineUse::between(then, now));
        self.uses.pooled.window_passed(of_machine.map_or(used, |machine| machine.busy));
        self.count_use(&seen);
    }

    fn count_use(&mut self, seen: &[Option<Signal>]) {
        let workloads = self.workloads.iter().map(AsRef::as_ref).zip(seen);
        let uses: Vec<(&Workload, WindowUse)> = workloads
            .filter_map(|(workload, signal)| {
                Some((workload, workload.window_use(signal.as_ref()?)))
            })
            .collect();
        let rights: Millicores = self.workloads.iter().map(|workload| workload.bounds.min()).sum();
        let free = self.size().saturating_sub(self.set_aside()).saturating_sub(rights);
        let is_lent = request::is_lent(uses.iter().map(|(_, used)| used), free);
        let mut by_family: BTreeMap<FamilyKey, Vec<Millicores>> = BTreeMap::new();
        for (workload, used) in
            uses.iter().filter(|(workload, _)| workload.request_rule == RequestRule::Follows)
        {
            let used = used.counted(is_lent);
            by_family.entry(workload.family.clone()).or_default().push(used);
        }
        for (family, used) in by_family {
            self.uses.records.entry(family).or_default().window_passed(&used);
        }
        self.workloads.iter_mut().for_each(|workload| workload.was_elastic = false);
        if self.uses.records.len() > TABLES_MAX {
            let workloads = &self.workloads;
            self.uses
                .records
                .retain(|key, _| workloads.iter().any(|workload| workload.family == *key));
        }
    }

    fn decide_requests(&mut self, now: Moment) {
        let most = self.size().scale_floor(OF_THE_NODE);
        let peak = self.uses.pooled.peak_ceil();
        let pooled = peak.map(|peak| PooledPeak { peak, most });
        let in_force: Millicores =
            self.workloads.iter().map(|workload| workload.in_force.request).sum();
        let mut sum = in_force + self.set_aside();
        let mut is_stopped = false;
        let rounding = self.profile.rounding_milli;
        for workload in &mut self.workloads {
            let record = self.uses.records.get(&workload.family);
            let is_elastic = workload.was_elastic || workload.is_elastic();
            let facts = RequestFacts {
                original: workload.came_with.request.unwrap_or(workload.in_force.request),
                in_force: workload.in_force.request,
                suggested: record
                    .and_then(UseRecord::suggested)
                    .map(|suggested| suggested.round_up_to(rounding)),
                evidence: record.map(UseRecord::evidence).unwrap_or_default(),
                is_elastic,
                room: Room::of(sum, most),
                pooled,
                lowered_at: workload.lowered_at,
            };
            let (wish, why) = match workload.request_rule {
                RequestRule::Kept => (facts.original, RequestWhy::Kept),
                RequestRule::Scaled => (facts.original, RequestWhy::Scaled),
                RequestRule::Follows => request::step(&facts, now),
            };
            (workload.request_wish, workload.request_why) = (wish, Some(why));
            sum = sum.saturating_sub(workload.in_force.request) + wish;
            is_stopped |= why == RequestWhy::NodeBusy;
        }
        let busy = pooled.filter(|_| is_stopped);
        if let (Some(PooledPeak { peak, most }), false) = (busy, self.uses.is_busy_told) {
            self.note(Note::LoweringStopped { peak, most });
        }
        self.uses.is_busy_told = busy.is_some();
    }

    /// The whole node, as far as workloads may have it.
    fn size(&self) -> Millicores {
        self.allocatable.map_or(self.capacity, |Allocatable { size, .. }| size)
    }

    /// What those request that are not sized.
    fn set_aside(&self) -> Millicores {
        self.allocatable.map_or(Millicores::ZERO, |Allocatable { set_aside, .. }| set_aside)
    }
}

// === impl Workload ===

impl Workload {
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
