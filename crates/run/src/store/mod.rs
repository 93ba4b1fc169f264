//! What must outlive a crash: one record for each workload, and whether the host is drained.
//!
//! What was saved is on the disk when the call returns. A record that cannot be read is put aside
//! under its name, told of, and keeps nobody from starting; so is a whole file that is no store.

#[cfg(test)]
mod disks;
mod memory;
mod redb;

use std::io;
use std::path::PathBuf;

use walras_core::run::{Workload, WorkloadId};

pub use memory::MemoryStore;
pub use redb::RedbStore;

/// Where records are kept.
pub trait Store: Send + Sync {
    /// Everything that was saved. What cannot be read is put aside first.
    ///
    /// # Errors
    /// Nothing can be read at all.
    fn load(&self) -> Result<Loaded, StoreError>;
    /// Saves a record in the place of the one before it.
    ///
    /// # Errors
    /// Nothing was saved, and the one before it is still there.
    fn save(&self, id: &WorkloadId, record: &str) -> Result<(), StoreError>;
    /// Erases a record.
    ///
    /// # Errors
    /// It is still there.
    fn erase(&self, id: &WorkloadId) -> Result<(), StoreError>;
    /// Saves whether the host is drained.
    ///
    /// # Errors
    /// Nothing was saved.
    fn save_drained(&self, drained: bool) -> Result<(), StoreError>;
}

/// What a store held.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The workloads, in the order of their ids.
    pub workloads: Vec<Workload>,
    /// Whether the host is drained.
    pub drained: bool,
    /// What was put aside, now or earlier.
    pub quarantined: Vec<Quarantined>,
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The name it was saved under.
    pub name: String,
    /// What is wrong with it.
    pub what: String,
}

/// Why something could not be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or the file cannot be used.
    #[error("{}: the store cannot be used: {source}", file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Somebody else has it open.
    #[error("{}: another process uses this store", file.display())]
    InUse {
        /// The file.
        file: PathBuf,
    },
    /// A newer version of this program wrote it.
    #[error(
        "{}: the store has version {found}, and this program reads up to {reads}; use the program \
         that wrote it",
        file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u64,
        /// The newest that is read.
        reads: u64,
    },
    /// It could not be read or written.
    #[error("{}: nothing could be read or saved: {what}", file.display())]
    Failed {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        what: String,
    },
}

/// A record as it is kept: with a last line that tells whether it is still what was saved. A bit
/// that flips in the name of an image must not start another one.
fn seal(name: &str, record: &str) -> Vec<u8> {
    format!("{record}\n{:016x}", sum(name, record)).into_bytes()
}

/// Whether a record has a seal at all. Those of the first version have none.
fn is_sealed(record: &[u8]) -> bool {
    record.contains(&b'\n')
}

fn sum(name: &str, record: &str) -> u64 {
    let mut sum = 0xCBF2_9CE4_8422_2325_u64;
    for byte in name.bytes().chain([0]).chain(record.bytes()) {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    sum
}

/// The workload of a record that was saved under `name`.
fn read(name: &str, record: &[u8]) -> Result<Workload, Quarantined> {
    let aside = |what: String| Quarantined { name: name.to_owned(), what };
    let text = std::str::from_utf8(record).map_err(|error| aside(error.to_string()))?;
    let text = match text.split_once('\n') {
        None => text,
        Some((text, told)) if told == format!("{:016x}", sum(name, text)) => text,
        Some(_) => return Err(aside("it is not what was saved any more".to_owned())),
    };
    let workload = Workload::load(text).map_err(|error| aside(error.to_string()))?;
    if workload.id().as_str() == name {
        Ok(workload)
    } else {
        Err(aside(format!("it is the record of {}", workload.id())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::testing::{id, spec};
    use walras_core::run::Desired;
    use walras_core::units::Moment;

    fn workload(name: &str) -> Workload {
        Workload::new(id(name), spec("1"), Desired::Running, Moment::ORIGIN)
    }

    /// What every store does. `raw` puts bytes into it, `again` opens it anew.
    fn suite(store: &dyn Store, raw: &dyn Fn(&str, &[u8])) {
        assert!(store.load().unwrap().workloads.is_empty());
        for name in ["b", "a", "c"] {
            store.save(&id(name), &workload(name).save()).unwrap();
        }
        let names = |store: &dyn Store| -> Vec<String> {
            let loaded = store.load().unwrap();
            loaded.workloads.iter().map(|workload| workload.id().to_string()).collect()
        };
        assert_eq!(names(store), ["a", "b", "c"]);
        let mut deleted = workload("b");
        deleted.deleted(Moment::ORIGIN);
        store.save(&id("b"), &deleted.save()).unwrap();
        assert!(store.load().unwrap().workloads[1].is_deleting(), "the last one counts");
        store.erase(&id("b")).unwrap();
        store.erase(&id("b")).unwrap();
        assert_eq!(names(store), ["a", "c"]);
        store.save_drained(true).unwrap();
        assert!(store.load().unwrap().drained);
        // One that cannot be read is put aside alone, once, and is told of for ever.
        raw("broken", b"\xff\xfe");
        raw("half", b"{\"version\":1,");
        raw("newer", b"{\"version\":99}");
        raw("other", workload("a").save().as_bytes());
        for _ in 0..2 {
            let loaded = store.load().unwrap();
            assert_eq!(loaded.workloads.len(), 2);
            let aside: Vec<&str> = loaded.quarantined.iter().map(|one| &*one.name).collect();
            assert_eq!(aside, ["broken", "half", "newer", "other"]);
            assert!(loaded.quarantined[2].what.contains("version 99"));
            assert_eq!(loaded.quarantined[3].what, "it is the record of a");
        }
        // The name can be used again.
        store.save(&id("half"), &workload("half").save()).unwrap();
        assert_eq!(names(store), ["a", "c", "half"]);
    }

    #[test]
    fn memory_keeps_what_a_store_keeps() {
        let store = MemoryStore::default();
        suite(&store, &|name, bytes| store.put(name, bytes));
    }

    #[test]
    fn a_file_keeps_what_a_store_keeps() {
        let dir = tempfile::tempdir().unwrap();
        let store = RedbStore::open(dir.path()).unwrap();
        suite(&store, &|name, bytes| store.put(name, bytes).unwrap());
        assert!(matches!(RedbStore::open(dir.path()), Err(StoreError::InUse { .. })));
        drop(store);
        let loaded = RedbStore::open(dir.path()).unwrap().load().unwrap();
        assert_eq!(
            (loaded.workloads.len(), loaded.quarantined.len(), loaded.drained),
            (3, 4, true)
        );
    }

    #[test]
    fn a_file_that_is_no_store_is_put_aside_and_nobody_is_kept_from_starting() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("run.redb"), "this is no store").unwrap();
        let store = RedbStore::open(dir.path()).unwrap();
        store.save(&id("a"), &workload("a").save()).unwrap();
        let loaded = store.load().unwrap();
        assert_eq!(loaded.workloads.len(), 1);
        assert!(loaded.quarantined[0].name.starts_with("run.redb.damaged-"), "{loaded:?}");
        let aside = dir.path().join(&loaded.quarantined[0].name);
        assert_eq!(std::fs::read_to_string(aside).unwrap(), "this is no store");
    }

    #[test]
    fn a_newer_store_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        RedbStore::open(dir.path()).unwrap().set_version(7).unwrap();
        let refused = RedbStore::open(dir.path()).unwrap_err();
        assert!(matches!(refused, StoreError::Newer { found: 7, reads: 2, .. }), "{refused}");
    }
}
