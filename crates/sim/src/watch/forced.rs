//! The promises about a move that the sums forced: it is a cut, it is told, and it is needed.

use walras_core::node::{Action, Note, Outcome};

use super::{Broken, Seen, Watch};

impl Watch {
    /// A move that the sums forced.
    pub(super) fn force_is_right(
        &self,
        workload: &Seen,
        action: &Action,
        outcome: &Outcome,
    ) -> Result<(), Broken> {
        let before = &workload.in_force;
        let limit_moved = action.limit != before.limit;
        let request_moved = action.request != before.request;
        promise!(limit_moved || request_moved, "nothing moved by force");
        let forced =
            |note: &Note| matches!(note, Note::RequestsForced { .. } | Note::LimitsForced { .. });
        promise!(outcome.notes.iter().any(forced), "forced without a note of it");
        promise!(
            action.limit < before.limit || action.request < before.request,
            "a raise was called a cut"
        );
        // Making room for somebody who needs it moves the others a little.
        let follows_request = action.limit == action.request;
        let made_room = outcome.actions.iter().any(|other| {
            let before = self.workloads.get(&other.uid).map(|workload| workload.in_force.limit);
            before.is_some_and(|before| other.limit > before)
        });
        promise!(
            !self.fitted
                || !limit_moved
                || follows_request
                || made_room
                || self.is_outside_band(before.limit, action.limit),
            "a limit was forced to move inside its band, though everything fitted"
        );
        Ok(())
    }
}
