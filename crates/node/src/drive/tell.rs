//! What the log says of a tick.

use std::collections::BTreeSet;

use tracing::{debug, info};
use walras_core::node::{Action, Loop, Note, Outcome};
use walras_core::units::{Moment, Span, WorkloadUid};

/// What was noticed in a tick.
pub(super) fn tell_notes(outcome: &Outcome) {
    for note in &outcome.notes {
        match note {
            // Who reads the log after an incident looks for it first.
            Note::ModeChanged { .. } => info!(price = %outcome.price, "{note}"),
            Note::UnknownWorkload { .. }
            | Note::WorkloadReplaced { .. }
            | Note::SampleOutOfOrder { .. }
            | Note::CounterReset { .. }
            | Note::SampleMissing { .. }
            | Note::ClockWentBack { .. }
            | Note::AtMax { .. }
            | Note::LateElsewhere { .. }
            | Note::NoRoom { .. }
            | Note::Contained { .. }
            | Note::ContainedFor { .. }
            | Note::Released { .. }
            | Note::NothingIdle { .. }
            | Note::LoweringStopped { .. }
            | Note::RecordRefused { .. }
            | Note::ChangeHeld { .. }
            | Note::RequestsForced { .. }
            | Note::LimitsForced { .. }
            | Note::TableRefused { .. }
            | Note::TooManyTables { .. }
            | Note::NotesDropped { .. } => debug!(loop_ = outcome.tick.name(), "{note}"),
        }
    }
}

/// An action that was carried out or asked for.
pub(super) fn tell_action(action: &Action, tick: Loop) {
    debug!(
        workload = %action.uid, limit = %action.limit, request = %action.request,
        weight = action.weight.get(), burst = %action.burst, loop_ = tick.name(), "{}", action.why
    );
}

/// So often the log says how much was changed.
const TOLD_EVERY: Span = Span::from_s(60);

/// What was changed since the log last said so. The first change after a quiet time is told at
/// once and the others together once a minute, because a line for each would not be read.
#[derive(Debug, Default)]
pub(super) struct Changes {
    told_at: Option<Moment>,
    count: u64,
    workloads: BTreeSet<WorkloadUid>,
}

impl Changes {
    /// A change that was carried out or asked for.
    pub(super) fn add(&mut self, action: &Action, now: Moment) {
        if self.told_at.is_none() {
            self.told_at = Some(now);
            info!(workload = %action.uid, limit = %action.limit, "changed: {}", action.why);
            return;
        }
        self.count += 1;
        self.workloads.insert(action.uid.clone());
    }

    /// Says how many there were, once a minute, if there were any.
    pub(super) fn tell_if_due(&mut self, now: Moment) {
        if self.told_at.is_none_or(|at| now.since(at) < TOLD_EVERY) {
            return;
        }
        if self.count == 0 {
            self.told_at = None;
            return;
        }
        info!(
            changes = self.count,
            workloads = self.workloads.len(),
            "changed in the last minute; `walras top` shows which, `walras explain NAME` why"
        );
        *self = Self { told_at: Some(now), ..Self::default() };
    }
}
