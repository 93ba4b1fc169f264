//! How full a node is, and which machine moves away because of it.
//!
//! Called by the ledger with every question. What is handed out above the watermark is logical
//! pressure, what was denied is capacity pressure, and a move that has begun accounts for what its
//! machine held and was denied then. One more machine moves while the first two exceed the third.

use crate::units::{Moment, Resource, Resources, VmName};

use super::{Ledger, MOVE_PAUSE, SILENT_AFTER, Vm};

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What may be handed out in all.
    pub budget: Resources,
    /// Above this, machines move away.
    pub watermark: Resources,
    /// What other workloads and the system take.
    pub others: Resources,
    /// What machines hold. Before all were heard, that may be more than there is.
    pub held: Resources,
    /// What is taken above the watermark.
    pub logical: Resources,
    /// What was asked for and denied.
    pub denied: Resources,
    /// What the moves that have begun will take away of both.
    pub accounted: Resources,
}

impl Ledger {
    /// How the node stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let sum = |part: fn(&Vm) -> Resources| self.vms.values().map(part).sum::<Resources>();
        let budget = self.budget();
        let watermark = self.terms.watermark.of_floor(budget);
        let others = self.taken();
        let counted = sum(Vm::counted);
        Standing {
            budget,
            watermark,
            others,
            held: sum(|vm| vm.held),
            logical: (others + counted).saturating_sub(watermark),
            denied: sum(|vm| vm.denied),
            accounted: sum(|vm| vm.leaving.unwrap_or_default()),
        }
    }

    /// Whether this machine is the one to move now: there is pressure that no move accounts for,
    /// and of all that may move it is the one that works least.
    pub(super) fn chooses(&self, name: &VmName, now: Moment) -> bool {
        let leaving = self.vms.values().filter(|vm| vm.leaving.is_some()).count();
        let limit = usize::try_from(self.terms.moves_at_once).unwrap_or(usize::MAX);
        if leaving >= limit || !self.standing().is_pressed() {
            return false;
        }
        // Whoever tells no load may be busy, and comes last.
        let movable = self.vms.iter().filter(|(_, vm)| vm.may_move_at(now));
        let first = movable.min_by_key(|(name, vm)| (vm.load.is_none(), vm.load, *name));
        first.is_some_and(|(first, _)| first == name)
    }
}

impl Standing {
    /// Whether there is more pressure than the moves that have begun account for.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        let pressure = self.logical + self.denied;
        Resource::any(|resource| pressure.get(resource) > self.accounted.get(resource))
    }
}

impl Vm {
    fn may_move_at(&self, now: Moment) -> bool {
        let rested = self.moved_at.is_none_or(|at| now.since(at) >= MOVE_PAUSE);
        let heard = self.asked_at.is_some_and(|at| now.since(at) <= SILENT_AFTER);
        self.terms.may_move && self.leaving.is_none() && rested && heard
    }
}
