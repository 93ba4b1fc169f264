//! A store that is gone with its value: for tests, and to measure without a disk.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use walras_core::run::WorkloadId;

use super::{Loaded, Quarantined, Store, StoreError, read, seal};

/// Records in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    records: BTreeMap<String, Vec<u8>>,
    aside: BTreeMap<String, Quarantined>,
    drained: bool,
}

impl MemoryStore {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts bytes under a name, whatever they are.
    #[cfg(test)]
    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        self.kept().records.insert(name.to_owned(), bytes.to_owned());
    }
}

impl Store for MemoryStore {
    fn load(&self) -> Result<Loaded, StoreError> {
        let mut kept = self.kept();
        let mut workloads = Vec::new();
        for (name, record) in std::mem::take(&mut kept.records) {
            match read(&name, &record) {
                Ok(workload) => {
                    workloads.push(workload);
                    kept.records.insert(name, record);
                }
                Err(aside) => {
                    kept.aside.insert(name, aside);
                }
            }
        }
        let quarantined = kept.aside.values().cloned().collect();
        Ok(Loaded { workloads, drained: kept.drained, quarantined })
    }

    fn save(&self, id: &WorkloadId, record: &str) -> Result<(), StoreError> {
        self.kept().records.insert(id.to_string(), seal(id.as_str(), record));
        Ok(())
    }

    fn erase(&self, id: &WorkloadId) -> Result<(), StoreError> {
        self.kept().records.remove(id.as_str());
        Ok(())
    }

    fn save_drained(&self, drained: bool) -> Result<(), StoreError> {
        self.kept().drained = drained;
        Ok(())
    }
}
