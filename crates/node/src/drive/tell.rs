//! What the log says of a tick.

use tracing::{debug, info};
use walras_core::node::{Action, Loop, Note, Outcome};

/// What was noticed in a tick.
pub(super) fn tell_notes(outcome: &Outcome) {
    for note in &outcome.notes {
        match note {
            // Who reads the log after an incident looks for it first.
            Note::ModeChanged { .. } => info!(price = %outcome.price, "{note}"),
            Note::UnknownPod { .. }
            | Note::PodReplaced { .. }
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
        pod = %action.uid, limit = %action.limit, request = %action.request,
        weight = action.weight.get(), burst = %action.burst, loop_ = tick.name(), "{}", action.why
    );
}
