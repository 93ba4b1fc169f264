//! Stores on disks that fail: that lose what was not synced, that are full, and that forget bits.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use walras_core::rng::Rng;
use walras_core::run::{Desired, Workload};
use walras_core::units::Moment;

use super::{RedbStore, Store, StoreError};
use crate::manager::testing::{id, spec};

/// What a disk writes at once.
const SECTOR: usize = 512;

/// A disk that keeps for certain only what was synced.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    current: Vec<u8>,
    synced: Vec<u8>,
    waiting: Vec<Write>,
    /// So many more writes, and then none.
    writes_left: Option<u64>,
}

#[derive(Clone, Debug)]
enum Write {
    Bytes(usize, Vec<u8>),
    Length(usize),
}

impl Disk {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power fails: of what waits, any sectors are there, and the others are not.
    fn loses_power(&self, rng: &mut Rng) {
        let mut inner = self.inner();
        let mut bytes = std::mem::take(&mut inner.synced);
        for write in std::mem::take(&mut inner.waiting) {
            match write {
                Write::Length(length) if rng.below(2) == 0 => bytes.resize(length, 0),
                Write::Length(_) => {}
                Write::Bytes(offset, data) => {
                    for (number, sector) in data.chunks(SECTOR).enumerate() {
                        let at = offset + number * SECTOR;
                        if rng.below(2) == 0 && at + sector.len() <= bytes.len() {
                            bytes[at..at + sector.len()].copy_from_slice(sector);
                        }
                    }
                }
            }
        }
        (inner.current, inner.synced) = (bytes.clone(), bytes);
        inner.writes_left = None;
    }
}

impl Inner {
    fn begin(&mut self, write: Write) -> io::Result<()> {
        if self.writes_left == Some(0) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.writes_left = self.writes_left.map(|left| left - 1);
        self.waiting.push(write);
        Ok(())
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.inner().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let inner = self.inner();
        let found = inner.current.get(offset..offset + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut inner = self.inner();
        inner.begin(Write::Length(length))?;
        inner.current.resize(length, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.inner();
        if inner.writes_left == Some(0) {
            return Err(io::Error::other("the disk is gone"));
        }
        inner.synced = inner.current.clone();
        inner.waiting.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let mut inner = self.inner();
        inner.begin(Write::Bytes(offset, data.to_vec()))?;
        inner.current[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn record(name: &str, revision: u64) -> String {
    let revision = format!("{revision} {}", "x".repeat(200));
    Workload::new(id(name), spec(&revision), Desired::Running, Moment::ORIGIN).save()
}

fn loaded(store: &RedbStore) -> BTreeMap<String, String> {
    let loaded = store.load().unwrap();
    assert!(loaded.quarantined.is_empty(), "{:?}", loaded.quarantined);
    loaded.workloads.iter().map(|it| (it.id().to_string(), it.save())).collect()
}

/// What was answered is there after a power failure, and what was not is there whole or not at all.
#[test]
fn nothing_that_was_saved_is_lost_when_the_power_fails() {
    for seed in 0..150 {
        let mut rng = Rng::from_seed(seed);
        let disk = Disk::default();
        let mut saved: BTreeMap<String, String> = BTreeMap::new();
        for round in 0..4_u64 {
            let store =
                RedbStore::on(disk.clone()).unwrap_or_else(|it| panic!("seed {seed}: {it}"));
            assert_eq!(loaded(&store), saved, "seed {seed}, round {round}");
            disk.inner().writes_left = Some(5 + rng.below(120));
            let in_doubt = loop {
                let name = format!("w{}", rng.below(6));
                let erases = rng.below(4) == 0;
                let wanted = (!erases).then(|| record(&name, rng.below(1000)));
                let done = match &wanted {
                    Some(record) => store.save(&id(&name), record),
                    None => store.erase(&id(&name)),
                };
                let before = saved.get(&name).cloned();
                if done.is_err() {
                    break (name, before, wanted);
                }
                match wanted {
                    Some(record) => saved.insert(name, record),
                    None => saved.remove(&name),
                };
            };
            drop(store);
            disk.loses_power(&mut rng);
            let store =
                RedbStore::on(disk.clone()).unwrap_or_else(|it| panic!("seed {seed}: {it}"));
            let there = loaded(&store);
            let (name, before, wanted) = in_doubt;
            let found = there.get(&name).cloned();
            assert!(found == before || found == wanted, "seed {seed}: {name} is {found:?}");
            match found {
                Some(record) => saved.insert(name, record),
                None => saved.remove(&name),
            };
            assert_eq!(there, saved, "seed {seed}, round {round}");
        }
    }
}

/// Bits that flip keep nobody from starting, and no workload is ever another than was saved.
#[test]
fn flipped_bits_cost_records_and_never_change_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = RedbStore::open(dir.path()).unwrap();
    let mut saved = BTreeMap::new();
    for number in 0..60 {
        let name = format!("w{number:02}");
        store.save(&id(&name), &record(&name, number)).unwrap();
        saved.insert(name.clone(), record(&name, number));
    }
    drop(store);
    let whole = fs::read(dir.path().join("run.redb")).unwrap();
    let (mut kept, mut damaged) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::from_seed(seed);
        let other = tempfile::tempdir().unwrap();
        let mut bytes = whole.clone();
        for _ in 0..1 + rng.below(4) {
            let place = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[place] ^= 1 << rng.below(8);
        }
        fs::write(other.path().join("run.redb"), &bytes).unwrap();
        let store = RedbStore::open(other.path()).unwrap_or_else(|it| panic!("seed {seed}: {it}"));
        let loaded = store.load().unwrap_or_else(|it| panic!("seed {seed}: {it}"));
        for workload in &loaded.workloads {
            let name = workload.id().to_string();
            assert_eq!(Some(&workload.save()), saved.get(&name), "seed {seed}: {name}");
        }
        kept += loaded.workloads.len();
        damaged += usize::from(!loaded.quarantined.is_empty());
        store.save(&id("new"), &record("new", 1)).unwrap();
    }
    assert!(damaged > 0, "no seed did any damage");
    assert!(kept > 60 * 60 / 4, "only {kept} of {} were saved", 60 * 60);
}

#[test]
fn a_full_disk_refuses_and_keeps_what_was_there() {
    let disk = Disk::default();
    let store = RedbStore::on(disk.clone()).unwrap();
    store.save(&id("aa"), &record("aa", 1)).unwrap();
    disk.inner().writes_left = Some(0);
    let refused = store.save(&id("bb"), &record("bb", 1)).unwrap_err();
    assert!(matches!(refused, StoreError::Failed { .. }), "{refused}");
    drop(store);
    disk.inner().writes_left = None;
    let store = RedbStore::on(disk).unwrap();
    assert_eq!(loaded(&store).into_keys().collect::<Vec<_>>(), ["aa"]);
    store.save(&id("bb"), &record("bb", 1)).unwrap();
}

#[test]
fn a_disk_that_was_full_is_used_again_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open(folder.path()).unwrap();
    let record = |name| Workload::new(id(name), spec("1"), Desired::Running, Moment::ORIGIN).save();
    store.save(&id("a"), &record("a")).unwrap();
    let full = Disk::default();
    store.moves_to(full.clone());
    full.inner().writes_left = Some(0);
    let refused = store.save(&id("b"), &record("b")).unwrap_err();
    assert!(matches!(refused, StoreError::Failed { .. }), "{refused}");
    // There is room now: nobody has to start the daemon anew for that.
    store.save(&id("b"), &record("b")).unwrap();
    let loaded = store.load().unwrap();
    let names: Vec<String> = loaded.workloads.iter().map(|it| it.id().to_string()).collect();
    assert_eq!(names, ["a", "b"], "what was saved before is there");
}
