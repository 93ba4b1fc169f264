//! What of a replay is printed: ticks that changed something, one pod, a stretch of time.
//!
//! Everything is replayed whatever is chosen, so that what is printed is the same with and without
//! a choice; and the counts at the end are those of the whole replay.

use std::borrow::Cow;

use walras_core::units::Moment;
use walras_wire::replay::Ticked;

use super::ReplayArgs;
use super::ledger::Changes;

/// Which part to print.
#[derive(Debug)]
pub(super) struct Chosen {
    only_changes: bool,
    pod: Option<String>,
    from: Option<Moment>,
    to: Option<Moment>,
}

impl Chosen {
    /// As the command line says.
    pub(super) fn of(args: &ReplayArgs) -> Self {
        let ReplayArgs { changes, pod, from, to, .. } = args;
        Self { only_changes: *changes, pod: pod.clone(), from: *from, to: *to }
    }

    /// What of `ticked` is printed, if anything is.
    pub(super) fn part<'a>(&self, ticked: &'a Ticked) -> Option<Cow<'a, Ticked>> {
        let early = self.from.is_some_and(|from| ticked.at < from);
        let late = self.to.is_some_and(|to| ticked.at > to);
        if early || late {
            return None;
        }
        let mut part = Cow::Borrowed(ticked);
        if let Some(pod) = &self.pod {
            let outcome = &mut part.to_mut().outcome;
            outcome.actions.retain(|action| action.uid.as_str() == pod);
            outcome.notes.retain(|note| note.about().is_some_and(|uid| uid.as_str() == pod));
        }
        let outcome = &part.outcome;
        let silent = outcome.actions.is_empty() && outcome.notes.is_empty();
        let unchanged = self.only_changes && outcome.actions.is_empty();
        let nothing_of_it = silent && self.pod.is_some();
        (!unchanged && !nothing_of_it).then_some(part)
    }

    /// The `changes` of every action of `ticked`, without those of other pods.
    pub(super) fn changes(&self, ticked: &Ticked, changes: Vec<Changes>) -> Vec<Changes> {
        let Some(pod) = &self.pod else { return changes };
        let actions = ticked.outcome.actions.iter().zip(changes);
        actions.filter(|(action, _)| action.uid.as_str() == pod).map(|(_, change)| change).collect()
    }
}
