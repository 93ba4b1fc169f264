//! When what was learned is saved: every so often, if something was learned since.

use walras_core::node::Node;
use walras_core::units::{FamilyKey, Moment, Span};

use crate::store::{Store, StoreError};

/// The least time between two saves.
const BETWEEN: Span = Span::from_s(30);

/// Remembers what was saved last.
#[derive(Debug, Default)]
pub struct Keeper {
    updates: u64,
    last: Option<Moment>,
}

impl Keeper {
    /// Saves the tables of `node` if that is due. A failed save is tried again at the next turn.
    ///
    /// # Errors
    /// Nothing was saved.
    pub fn save_if_due(
        &mut self,
        node: &Node,
        store: &mut Store,
        now: Moment,
    ) -> Result<(), StoreError> {
        if self.last.is_some_and(|last| now.since(last) < BETWEEN) {
            return Ok(());
        }
        self.last = Some(now);
        self.save(node, store)
    }

    /// Saves the tables of `node` if something was learned since the last time.
    ///
    /// # Errors
    /// Nothing was saved.
    pub fn save(&mut self, node: &Node, store: &mut Store) -> Result<(), StoreError> {
        let updates = node.tables().map(|(_, table)| table.updates()).sum();
        if updates == self.updates {
            return Ok(());
        }
        let tables: Vec<(FamilyKey, String)> =
            node.tables().map(|(family, table)| (family.clone(), table.save())).collect();
        store.save_tables(&tables)?;
        self.updates = updates;
        Ok(())
    }
}
