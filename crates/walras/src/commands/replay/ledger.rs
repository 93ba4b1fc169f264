//! What is in force on each workload during a replay, so that people can be told what changed from
//! what to what; and the counts for the last line.

use std::collections::BTreeMap;

use walras_core::node::Action;
use walras_core::units::{Millicores, Moment, Span, WorkloadUid};
use walras_wire::replay::{Event, Fact, Ticked, WorkloadAdded};

/// What is known from the facts and decisions so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    workloads: BTreeMap<WorkloadUid, Entry>,
    totals: Totals,
    now: Moment,
}

/// The counts of a whole replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Ticks of either loop.
    pub(super) ticks: u64,
    /// Actions.
    pub(super) changes: u64,
    /// Workloads that arrived.
    pub(super) workloads: u64,
    /// How long they were here, all together.
    pub(super) workload_time: Span,
}

/// One value before and after an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change<T> {
    pub(super) before: Option<T>,
    pub(super) after: T,
}

/// What an action changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) limit: Change<Millicores>,
    pub(super) request: Change<Millicores>,
    pub(super) weight: Change<u32>,
    pub(super) burst: Change<Millicores>,
}

#[derive(Debug)]
struct Entry {
    since: Moment,
    limit: Millicores,
    request: Millicores,
    weight: Option<u32>,
    burst: Millicores,
}

// === impl Ledger ===

impl Ledger {
    /// Takes note of a fact.
    pub(super) fn fact(&mut self, fact: &Fact) {
        self.now = fact.at;
        match &fact.event {
            Event::WorkloadAdded(workload) => {
                let mut entry = Entry::new(workload, fact.at);
                match self.workloads.get(&workload.uid) {
                    // It is the same workload with other facts, and its time goes on.
                    Some(before) => entry.since = before.since,
                    None => self.totals.workloads += 1,
                }
                self.workloads.insert(workload.uid.clone(), entry);
            }
            Event::WorkloadRemoved(workload) => {
                if let Some(entry) = self.workloads.remove(&workload.uid) {
                    self.totals.add_time(fact.at.since(entry.since));
                }
            }
            Event::Found(found) => {
                if let Some(entry) = self.workloads.get_mut(&found.uid) {
                    entry.limit = found.limit_milli;
                    entry.request = entry.request.min(found.limit_milli);
                    (entry.weight, entry.burst) = (None, Millicores::ZERO);
                }
            }
            Event::Config(_)
            | Event::Sample(_)
            | Event::Machine(_)
            | Event::Tick(_)
            | Event::Capacity(_)
            | Event::Applied(_)
            | Event::Latency(_)
            | Event::TableRestored(_)
            | Event::UseRestored(_)
            | Event::Allocatable(_) => {}
        }
    }

    /// Takes note of what a tick decided: what changes, per action.
    pub(super) fn tick(&mut self, ticked: &Ticked) -> Vec<Changes> {
        self.totals.ticks += 1;
        ticked.outcome.actions.iter().map(|action| self.action(action)).collect()
    }

    /// The counts so far.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = self.totals;
        for entry in self.workloads.values() {
            totals.add_time(self.now.since(entry.since));
        }
        totals
    }

    fn action(&mut self, action: &Action) -> Changes {
        self.totals.changes += 1;
        let entry = self.workloads.get(&action.uid);
        let changes = Changes {
            limit: Change { before: entry.map(|entry| entry.limit), after: action.limit },
            request: Change { before: entry.map(|entry| entry.request), after: action.request },
            weight: Change {
                before: entry.and_then(|entry| entry.weight),
                after: action.weight.get(),
            },
            burst: Change { before: entry.map(|entry| entry.burst), after: action.burst },
        };
        if let Some(entry) = self.workloads.get_mut(&action.uid) {
            entry.limit = action.limit;
            entry.request = action.request;
            entry.weight = Some(action.weight.get());
            entry.burst = action.burst;
        }
        changes
    }
}

// === impl Totals ===

impl Totals {
    fn add_time(&mut self, span: Span) {
        self.workload_time = Span::from_us(self.workload_time.as_us().saturating_add(span.as_us()));
    }
}

// === impl Entry ===

impl Entry {
    fn new(workload: &WorkloadAdded, since: Moment) -> Self {
        let request =
            workload.request_milli.unwrap_or(workload.min_milli).min(workload.limit_milli);
        let limit = workload.limit_milli;
        Self { since, limit, request, weight: None, burst: Millicores::ZERO }
    }
}
