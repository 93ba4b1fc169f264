//! A store in one file, safe against crashes at any point.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    WriteTransaction,
};
use tracing::error;
use walras_core::run::WorkloadId;

use super::{Loaded, Quarantined, Store, StoreError, is_sealed, read, seal};

/// The version of the file that is written.
///
/// In version 2 every record has a seal; records without one are read as before.
const VERSION: u64 = 2;
/// No memory is worth more than this to a store of a few megabytes.
const CACHE_BYTES: usize = 4 << 20;
const FILE: &str = "run.redb";

/// Numbers about the file and the host.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Records by the id of their workload.
const WORKLOADS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("workloads");
/// Records that cannot be read, by the name they had.
const ASIDE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("quarantine");

/// Records in a file.
#[derive(Debug)]
pub struct RedbStore {
    /// Nothing after the disk failed: it is opened anew by whoever needs it next.
    database: Mutex<Option<Database>>,
    file: PathBuf,
    /// Whether there is a file to open anew.
    is_file: bool,
}

impl RedbStore {
    /// Opens the store in the folder `state_dir`; both are made where they are missing. A file that
    /// is damaged or no store is renamed, and a new one begun with all records that are whole.
    ///
    /// # Errors
    /// The file cannot be used, is in use, or of a newer version.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        let file = state_dir.join(FILE);
        let unusable = |source| StoreError::Unusable { file: file.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(unusable)?;
        let mut saved = Records::new();
        let database = match open_whole(&file) {
            Ok(database) => database,
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::InUse { file }),
            Err(DatabaseError::Storage(StorageError::Io(source)))
                if source.kind() != std::io::ErrorKind::InvalidData =>
            {
                return Err(StoreError::Unusable { file, source });
            }
            Err(damage) => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let aside = state_dir.join(format!("{FILE}.damaged-{}", since.as_millis()));
                saved = salvage(&file);
                fs::rename(&file, &aside).map_err(unusable)?;
                error!(
                    "{}: the store is damaged ({damage}); it is {} now. {} workloads were whole \
                     and go on; all others have to be applied again",
                    file.display(),
                    aside.display(),
                    saved.len()
                );
                open_whole(&file).map_err(|error| failed(&file, error))?
            }
        };
        let store = Self { database: Mutex::new(Some(database)), file, is_file: true };
        store.check_version()?;
        if !saved.is_empty() {
            store.write(|transaction| {
                let mut table = transaction.open_table(WORKLOADS)?;
                for (name, record) in &saved {
                    table.insert(&**name, &**record)?;
                }
                Ok(())
            })?;
        }
        Ok(store)
    }

    /// The store on another kind of disk.
    #[cfg(test)]
    pub(super) fn on(backend: impl redb::StorageBackend) -> Result<Self, StoreError> {
        let file = PathBuf::from("memory");
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend);
        let database = opened.map_err(|error| failed(&file, error))?;
        let store = Self { database: Mutex::new(Some(database)), file, is_file: false };
        store.check_version()?;
        Ok(store)
    }

    /// From now on the file that is open is on another disk.
    #[cfg(test)]
    pub(super) fn moves_to(&self, backend: impl redb::StorageBackend) {
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend);
        *self.database.lock().unwrap() = Some(opened.unwrap());
    }

    fn check_version(&self) -> Result<(), StoreError> {
        let mut found = VERSION;
        self.write(|transaction| {
            let mut meta = transaction.open_table(META)?;
            let version = meta.get("version")?.map(|version| version.value());
            found = version.unwrap_or(VERSION);
            if version.is_none_or(|version| version < VERSION) {
                meta.insert("version", VERSION)?;
            }
            transaction.open_table(WORKLOADS)?;
            transaction.open_table(ASIDE)?;
            Ok(())
        })?;
        if found > VERSION {
            return Err(StoreError::Newer { file: self.file.clone(), found, reads: VERSION });
        }
        Ok(())
    }

    fn write(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        self.with(|database| {
            let transaction = database.begin_write()?;
            change(&transaction)?;
            Ok(transaction.commit()?)
        })
    }

    /// Does something with the file. After a fault of the disk, such as one that is full, the
    /// library does nothing more for whoever had it open; what was not committed is gone, and
    /// nothing else.
    fn with<T>(
        &self,
        what: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let mut held = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let database = match held.take() {
            Some(database) => database,
            None => Database::builder()
                .set_cache_size(CACHE_BYTES)
                .create(&self.file)
                .map_err(|error| failed(&self.file, error))?,
        };
        let done = what(&database);
        let is_lost = matches!(done, Err(redb::Error::Io(_) | redb::Error::PreviousIo));
        if !(is_lost && self.is_file) {
            *held = Some(database);
        }
        done.map_err(|error| failed(&self.file, error))
    }

    fn records(&self, table: TableDefinition<'_, &str, &[u8]>) -> Result<Records, StoreError> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(table)?;
            let all = table.iter()?.map(|entry| {
                let (name, record) = entry?;
                Ok((name.value().to_owned(), record.value().to_vec()))
            });
            all.collect()
        })
    }

    /// Files that were put aside as a whole.
    fn damaged_files(&self) -> Vec<Quarantined> {
        let folder = self.file.parent().and_then(|folder| fs::read_dir(folder).ok());
        let names = folder.into_iter().flatten().filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.starts_with(&format!("{FILE}.damaged-")).then_some(name)
        });
        let what = "the whole file was no store".to_owned();
        let mut found: Vec<Quarantined> =
            names.map(|name| Quarantined { name, what: what.clone() }).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// Puts bytes under a name, whatever they are.
    #[cfg(test)]
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.open_table(WORKLOADS)?.insert(name, bytes)?;
            Ok(())
        })
    }

    /// Says that the file is of another version.
    #[cfg(test)]
    pub(super) fn set_version(&self, version: u64) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.open_table(META)?.insert("version", version)?;
            Ok(())
        })
    }
}

type Records = Vec<(String, Vec<u8>)>;

impl Store for RedbStore {
    fn load(&self) -> Result<Loaded, StoreError> {
        let mut workloads = Vec::new();
        for (name, record) in self.records(WORKLOADS)? {
            match read(&name, &record) {
                Ok(workload) => workloads.push(workload),
                Err(aside) => {
                    error!("{}: put aside, because {}", aside.name, aside.what);
                    self.write(|transaction| {
                        transaction.open_table(ASIDE)?.insert(&*name, &*record)?;
                        transaction.open_table(WORKLOADS)?.remove(&*name)?;
                        Ok(())
                    })?;
                }
            }
        }
        let mut quarantined = Vec::new();
        for (name, record) in self.records(ASIDE)? {
            let what = match read(&name, &record) {
                Err(aside) => aside.what,
                Ok(_) => "an older program could not read it; this one can".to_owned(),
            };
            quarantined.push(Quarantined { name, what });
        }
        quarantined.extend(self.damaged_files());
        let mut drained = 0;
        self.write(|transaction| {
            let meta = transaction.open_table(META)?;
            drained = meta.get("drained")?.map_or(0, |drained| drained.value());
            Ok(())
        })?;
        Ok(Loaded { workloads, drained: drained != 0, quarantined })
    }

    fn save(&self, id: &WorkloadId, record: &str) -> Result<(), StoreError> {
        let sealed = seal(id.as_str(), record);
        self.write(|transaction| {
            transaction.open_table(WORKLOADS)?.insert(id.as_str(), &*sealed)?;
            Ok(())
        })
    }

    fn erase(&self, id: &WorkloadId) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.open_table(WORKLOADS)?.remove(id.as_str())?;
            Ok(())
        })
    }

    fn save_drained(&self, drained: bool) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.open_table(META)?.insert("drained", u64::from(drained))?;
            Ok(())
        })
    }
}

/// Opens a file of which every page is what was written.
fn open_whole(file: &Path) -> Result<Database, DatabaseError> {
    guarded(|| {
        let mut database = Database::builder().set_cache_size(CACHE_BYTES).create(file)?;
        database.check_integrity()?;
        Ok(database)
    })
}

/// The records of a damaged file that are whole, as far as they are found.
fn salvage(file: &Path) -> Records {
    let found = Mutex::new(Records::new());
    let read = guarded(|| {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(file)?;
        let table =
            || -> Result<_, redb::Error> { Ok(database.begin_read()?.open_table(WORKLOADS)?) };
        let corrupted = |error: redb::Error| StorageError::Corrupted(error.to_string());
        for entry in table().map_err(corrupted)?.iter()? {
            let (name, record) = entry?;
            let (name, record) = (name.value().to_owned(), record.value().to_vec());
            if is_sealed(&record) && read(&name, &record).is_ok() {
                found.lock().unwrap_or_else(PoisonError::into_inner).push((name, record));
            }
        }
        Ok(())
    });
    if let Err(error) = read {
        error!("{}: not all of it can be read: {error}", file.display());
    }
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Pages that are not what was written make the library panic here and there.
fn guarded<T>(open: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    let opened = panic::catch_unwind(AssertUnwindSafe(open));
    opened.unwrap_or_else(|_| {
        let words = "its pages make no sense".to_owned();
        Err(DatabaseError::Storage(StorageError::Corrupted(words)))
    })
}

fn failed(file: &Path, error: impl std::fmt::Display) -> StoreError {
    StoreError::Failed { file: file.to_owned(), what: error.to_string() }
}
