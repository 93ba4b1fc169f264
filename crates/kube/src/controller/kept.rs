//! What the store keeps of each allocation: the object, packed, how it stands, and what is
//! remembered of it.

use super::decide::Memory;
use super::facts::AllocationFacts;
use super::packed::Packed;
use crate::crd::Phase;

/// What is kept of an allocation.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) facts: Packed<AllocationFacts>,
    pub(super) stands: Stands,
    /// What is remembered of it between two looks.
    pub(super) memory: Option<Box<Memory>>,
}

/// How an allocation stands, for what is told of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// Its pod has what it asks for.
    Settled,
    Infeasible,
    Deferred,
    Otherwise,
}

// === impl Kept ===

impl Kept {
    pub(super) fn new(allocation: &AllocationFacts) -> Self {
        let (facts, stands) = (Packed::new(allocation), Stands::of(allocation));
        Self { facts, stands, memory: None }
    }

    /// It is this now. What is remembered of it stays.
    pub(super) fn has(&mut self, allocation: &AllocationFacts) {
        (self.facts, self.stands) = (Packed::new(allocation), Stands::of(allocation));
    }
}

// === impl Stands ===

impl Stands {
    fn of(allocation: &AllocationFacts) -> Self {
        let status = &allocation.status;
        let answered = status.observed_generation == Some(allocation.generation);
        match status.reason.as_deref() {
            Some("Infeasible") => Self::Infeasible,
            Some("Deferred") => Self::Deferred,
            Some(_) if answered && status.phase == Some(Phase::Applied) => Self::Settled,
            Some(_) | None => Self::Otherwise,
        }
    }
}
