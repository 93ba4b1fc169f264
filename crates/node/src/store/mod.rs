//! What a host daemon must not forget: what workloads came with, and what was learned.
//!
//! An embedded database in one file, safe against crashes at any point: what was kept is on the
//! disk before the call returns. A file that cannot be understood is left alone and the daemon does
//! not start, since the settings of workloads may be in it.

mod lock;
mod saved;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

use redb::backends::InMemoryBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
};
use walras_cgroup::{BootId, Identity, Original, Originals};
use walras_core::units::FamilyKey;

use self::saved::SavedOriginal;

pub use self::lock::{Lock, LockError};

/// The version of the file that is written and read.
const VERSION: u64 = 1;
/// No memory is worth more than this to a store of a few kilobytes.
const CACHE_BYTES: usize = 1024 * 1024;

/// Numbers about the file itself.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// What each cgroup came with, by its boot and number.
const ORIGINALS: TableDefinition<'_, (u128, u64), &[u8]> = TableDefinition::new("originals");
/// What was learned, by family.
const TABLES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("tables");

/// The store.
#[derive(Debug)]
pub struct Store {
    database: Database,
    file: PathBuf,
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
    /// It is not what this program wrote.
    #[error(
        "{}: the store is damaged or no store at all ({what}). It was left as it is, because it \
         may hold the settings that workloads came with; move it away to start without it",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Another version of this program wrote it.
    #[error(
        "{}: the store has version {found}, and this program reads version {VERSION}; use the \
         program that wrote it, or move it away to start without it",
        file.display()
    )]
    Foreign {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u64,
    },
    /// It could not be written.
    #[error("{}: nothing could be saved: {what}", file.display())]
    NotSaved {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        what: String,
    },
}

/// How the daemon before this one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastEnd {
    /// There was none, or it stopped as it should.
    Clean,
    /// It was killed, or the machine was.
    Crashed,
}

impl Store {
    /// Opens the store in the folder `state_dir`; both are made where they are missing.
    ///
    /// # Errors
    /// The file cannot be used, is damaged, or of another version.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        let file = state_dir.join("host.redb");
        let unusable = |source| StoreError::Unusable { file: file.clone(), source };
        fs::create_dir_all(state_dir).map_err(unusable)?;
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create(&file);
        let database = opened.map_err(|error| refused(&file, error))?;
        let store = Self { database, file };
        store.check_version()?;
        Ok(store)
    }

    /// A store that is gone with this value, for workloads that are, too.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn in_memory() -> Result<Self, StoreError> {
        let file = PathBuf::from("memory");
        let memory = InMemoryBackend::new();
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(memory);
        let database = opened.map_err(|error| refused(&file, error))?;
        let store = Self { database, file };
        store.check_version()?;
        Ok(store)
    }

    /// A daemon starts. Says how the one before it ended.
    ///
    /// # Errors
    /// Nothing can be written.
    pub fn started(&mut self) -> Result<LastEnd, StoreError> {
        self.mark_running(1)
    }

    /// A daemon stops as it should.
    ///
    /// # Errors
    /// Nothing can be written.
    pub fn stopped(&mut self) -> Result<(), StoreError> {
        self.mark_running(0).map(|_| ())
    }

    /// What each cgroup of this boot came with. Those of earlier boots are gone, and forgotten.
    ///
    /// # Errors
    /// The store is damaged.
    pub fn originals(&mut self, boot: BootId) -> Result<Vec<Original>, StoreError> {
        let mut found = Vec::new();
        let read = || -> Result<Vec<Vec<u8>>, redb::Error> {
            let table = self.database.begin_read()?.open_table(ORIGINALS)?;
            let of_boot = table.range((boot.0, 0)..=(boot.0, u64::MAX))?;
            of_boot.map(|entry| Ok(entry?.1.value().to_vec())).collect()
        };
        for bytes in read().map_err(|error| self.damaged(&error))? {
            let saved: Result<SavedOriginal, _> = serde_json::from_slice(&bytes);
            let saved = saved.map_err(|error| self.damaged(&error))?;
            let unfit = || self.damaged(&"settings that no kernel has");
            found.push(saved.original().ok_or_else(unfit)?);
        }
        self.write(|transaction| {
            let mut table = transaction.open_table(ORIGINALS)?;
            table.retain(|(of_boot, _), _| of_boot == boot.0)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Keeps what some cgroups came with, all of them or none.
    ///
    /// # Errors
    /// Nothing was kept.
    pub fn keep_originals(&mut self, originals: &[Original]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut table = transaction.open_table(ORIGINALS)?;
            for original in originals {
                let Identity { boot, inode } = original.identity;
                let bytes = serde_json::to_vec(&SavedOriginal::from(original))
                    .map_err(|error| redb::Error::Io(io::Error::other(error)))?;
                table.insert((boot.0, inode), bytes.as_slice())?;
            }
            Ok(())
        })
    }

    /// Forgets what some cgroups came with: they are gone, or have it back.
    ///
    /// # Errors
    /// Nothing was forgotten.
    pub fn forget_originals(&mut self, identities: &[Identity]) -> Result<(), StoreError> {
        if identities.is_empty() {
            return Ok(());
        }
        self.write(|transaction| {
            let mut table = transaction.open_table(ORIGINALS)?;
            for Identity { boot, inode } in identities {
                table.remove((boot.0, *inode))?;
            }
            Ok(())
        })
    }

    /// What was learned, by family.
    ///
    /// # Errors
    /// The store is damaged.
    pub fn tables(&self) -> Result<Vec<(FamilyKey, Vec<u8>)>, StoreError> {
        let read = || -> Result<Vec<(FamilyKey, Vec<u8>)>, redb::Error> {
            let table = self.database.begin_read()?.open_table(TABLES)?;
            let all = table.iter()?.map(|entry| {
                let (family, bytes) = entry?;
                Ok((FamilyKey::new(family.value()), bytes.value().to_vec()))
            });
            all.collect()
        };
        read().map_err(|error| self.damaged(&error))
    }

    /// Saves what was learned, in place of what was saved before.
    ///
    /// # Errors
    /// Nothing was saved, and what was saved before is still there.
    pub fn save_tables(&mut self, tables: &[(FamilyKey, String)]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut table = transaction.open_table(TABLES)?;
            table.retain(|_, _| false)?;
            for (family, saved) in tables {
                table.insert(family.as_str(), saved.as_bytes())?;
            }
            Ok(())
        })
    }

    fn check_version(&self) -> Result<(), StoreError> {
        let mut found = VERSION;
        self.write(|transaction| {
            let mut meta = transaction.open_table(META)?;
            let version = meta.get("version")?.map(|version| version.value());
            found = version.unwrap_or(VERSION);
            if version.is_none() {
                meta.insert("version", VERSION)?;
            }
            transaction.open_table(ORIGINALS)?;
            transaction.open_table(TABLES)?;
            Ok(())
        })?;
        if found == VERSION {
            return Ok(());
        }
        Err(StoreError::Foreign { file: self.file.clone(), found })
    }

    fn mark_running(&mut self, running: u64) -> Result<LastEnd, StoreError> {
        let mut before = 0;
        self.write(|transaction| {
            let mut meta = transaction.open_table(META)?;
            before = meta.insert("running", running)?.map_or(0, |before| before.value());
            Ok(())
        })?;
        Ok(if before == 0 { LastEnd::Clean } else { LastEnd::Crashed })
    }

    /// Writes all of something or nothing of it.
    fn write(
        &self,
        work: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            work(&transaction)?;
            Ok(transaction.commit()?)
        };
        let not_saved = |error: redb::Error| StoreError::NotSaved {
            file: self.file.clone(),
            what: error.to_string(),
        };
        write().map_err(not_saved)
    }

    fn damaged(&self, what: &dyn std::fmt::Display) -> StoreError {
        StoreError::Damaged { file: self.file.clone(), what: what.to_string() }
    }
}

impl Originals for Store {
    fn keep(&mut self, original: &Original) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.keep_originals(std::slice::from_ref(original))?)
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "not our enum, and the others mean the same")]
fn refused(file: &Path, error: DatabaseError) -> StoreError {
    let file = file.to_owned();
    let unreadable = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof];
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse { file },
        DatabaseError::Storage(StorageError::Io(source))
            if !unreadable.contains(&source.kind()) =>
        {
            StoreError::Unusable { file, source }
        }
        other => StoreError::Damaged { file, what: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_cgroup::{CgroupPath, Settings, WeightInForce};
    use walras_core::parse::{CpuMax, CpuShares};
    use walras_core::units::Span;

    fn original(boot: u128, inode: u64, path: &[u8]) -> Original {
        Original {
            path: CgroupPath::new(path).unwrap(),
            identity: Identity { boot: BootId(boot), inode },
            settings: Settings {
                max: CpuMax { quota: Some(Span::from_ms(7)), period: Span::from_ms(100) },
                weight: WeightInForce::V1(CpuShares::new(512).unwrap()),
                burst: Some(Span::ZERO),
            },
            inner: Vec::new(),
        }
    }

    /// What is wrong with a store whose file holds these bytes.
    fn check(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host.redb");
        fs::write(&file, bytes).unwrap();
        let told = Store::open(folder.path()).map(|_| "opened").unwrap_err().to_string();
        assert_eq!(fs::read(&file).unwrap(), bytes, "the file was touched");
        told.replace(&file.display().to_string(), "FILE")
    }

    #[test]
    fn what_was_kept_is_found_again_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut inside = original(1, 3, b"a/b/c");
        inside.settings.max.quota = None;
        let nested = Original { inner: vec![inside], ..original(1, 2, b"a/b\xff\n") };
        let kept = vec![original(1, 1, b"a"), nested];
        let mut store = Store::open(folder.path()).unwrap();
        store.keep_originals(&kept).unwrap();
        store.keep_originals(&[original(2, 1, b"of another boot")]).unwrap();
        drop(store);
        let mut store = Store::open(folder.path()).unwrap();
        assert_eq!(store.originals(BootId(1)).unwrap(), kept);
        assert_eq!(store.originals(BootId(2)).unwrap(), vec![], "another boot is gone for good");
        store.forget_originals(&[kept[0].identity]).unwrap();
        assert_eq!(store.originals(BootId(1)).unwrap(), vec![]);
    }

    #[test]
    fn tables_are_saved_in_place_of_those_before() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let table = |name: &str| (FamilyKey::new(name), format!("of {name}"));
        store.save_tables(&[table("a"), table("b")]).unwrap();
        store.save_tables(&[table("b"), table("c")]).unwrap();
        let names: Vec<String> =
            store.tables().unwrap().iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["b", "c"]);
    }

    #[test]
    fn a_daemon_that_did_not_stop_has_crashed() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        assert_eq!(store.started().unwrap(), LastEnd::Clean);
        drop(store);
        let mut store = Store::open(folder.path()).unwrap();
        assert_eq!(store.started().unwrap(), LastEnd::Crashed);
        store.stopped().unwrap();
        assert_eq!(store.started().unwrap(), LastEnd::Clean);
    }

    #[test]
    fn a_file_that_is_no_store_is_left_alone() {
        for bytes in [&b"hello"[..], &[0; 4096], &[0xff; 100_000]] {
            let told = check(bytes);
            assert!(told.starts_with("FILE: the store is damaged or no store at all ("), "{told}");
        }
    }

    #[test]
    fn a_store_that_was_cut_off_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.keep_originals(&[original(1, 1, b"a")]).unwrap();
        drop(store);
        let bytes = fs::read(folder.path().join("host.redb")).unwrap();
        let told = check(&bytes[..bytes.len() / 3]);
        assert!(told.contains("damaged"), "{told}");
    }

    #[test]
    fn a_store_of_another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let newer = |transaction: &redb::WriteTransaction| {
            transaction.open_table(META)?.insert("version", 7)?;
            Ok(())
        };
        store.write(newer).unwrap();
        drop(store);
        let told = Store::open(folder.path()).unwrap_err().to_string();
        assert!(told.contains("has version 7, and this program reads version 1"), "{told}");
    }

    #[test]
    fn a_store_in_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let _first = Store::open(folder.path()).unwrap();
        let told = Store::open(folder.path()).unwrap_err().to_string();
        assert!(told.ends_with("another process uses this store"), "{told}");
    }
}
