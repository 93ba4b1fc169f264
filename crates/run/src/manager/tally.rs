//! What is counted since the daemon started, for `/metrics`.

use std::collections::BTreeMap;

use walras_core::run::{Fault, Op};

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Requests that changed what is wanted.
    pub(crate) applied: u64,
    pub(crate) deleted: u64,
    /// Times that a runtime was asked for everything.
    pub(crate) reconciled: u64,
    /// Operations that ended, by their name: well, and badly.
    pub(crate) operations: BTreeMap<&'static str, (u64, u64)>,
    /// What went wrong, by its code.
    pub(crate) faults: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// An operation ended.
    pub(super) fn ended(&mut self, op: Op, fault: Option<&Fault>) {
        let (well, badly) = self.operations.entry(op.name()).or_default();
        match fault {
            None => *well += 1,
            Some(fault) => {
                *badly += 1;
                *self.faults.entry(fault.kind.code()).or_default() += 1;
            }
        }
    }
}
