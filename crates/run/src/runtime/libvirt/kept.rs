//! What is kept of a machine that libvirt runs: on the disk who it is, and in memory what must rest
//! nowhere.
//!
//! A machine is ours if libvirt has one of its name with the identifier that is kept here, which
//! was drawn before libvirt was asked to make it. So a crash in between loses nothing, and a
//! machine that somebody else made under the same name is never taken for ours.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use walras_core::run::WorkloadId;

/// Who a machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    /// What libvirt knows it by.
    pub(super) uuid: String,
    /// The revision that it was made from.
    pub(super) revision: String,
    /// How often it was started.
    pub(super) starts: u64,
}

/// The folders of all machines.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    /// On the disk.
    pub(super) state: PathBuf,
    /// In memory.
    pub(super) memory: PathBuf,
}

impl Folders {
    pub(super) fn console(&self, id: &WorkloadId) -> PathBuf {
        self.state.join(id.as_str()).join("console.log")
    }

    pub(super) fn seed(&self, id: &WorkloadId) -> PathBuf {
        self.memory.join(id.as_str()).join("seed.iso")
    }

    pub(super) fn secret(&self, id: &WorkloadId, name: &str) -> PathBuf {
        self.memory.join(id.as_str()).join(format!("secret-{name}"))
    }

    /// What is kept of a machine, if anything is.
    pub(super) fn load(&self, id: &WorkloadId) -> io::Result<Option<Kept>> {
        match fs::read(self.file(id)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps it, in the place of what was kept.
    pub(super) fn save(&self, id: &WorkloadId, kept: &Kept) -> io::Result<()> {
        let folder = self.state.join(id.as_str());
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let unfinished = folder.join("machine.unfinished");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(&serde_json::to_vec(kept)?)?;
        file.sync_all()?;
        fs::rename(unfinished, self.file(id))?;
        fs::File::open(&folder)?.sync_all()
    }

    /// The machines of which something is kept.
    pub(super) fn ids(&self) -> io::Result<Vec<WorkloadId>> {
        let entries = match fs::read_dir(&self.state) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter_map(|name| WorkloadId::new(&name).ok()).collect())
    }

    /// Writes something that must not rest anywhere.
    pub(super) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(path)?.write_all(content)
    }

    /// Removes what was written for a start, in memory.
    pub(super) fn wipe(&self, id: &WorkloadId) -> io::Result<()> {
        gone(fs::remove_dir_all(self.memory.join(id.as_str())))
    }

    /// Removes everything that is kept of a machine.
    pub(super) fn remove(&self, id: &WorkloadId) -> io::Result<()> {
        self.wipe(id)?;
        gone(fs::remove_dir_all(self.state.join(id.as_str())))
    }

    fn file(&self, id: &WorkloadId) -> PathBuf {
        self.state.join(id.as_str()).join("machine.json")
    }
}

/// An identifier that nobody else has.
pub(super) fn new_uuid() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex[from..to].concat();
    Ok([part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 16)].join("-"))
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (state, memory) = (folder.path().join("state"), folder.path().join("memory"));
        let folders = Folders { state, memory };
        let id = WorkloadId::new("db").unwrap();
        assert_eq!((folders.load(&id).unwrap(), folders.ids().unwrap()), (None, vec![]));
        let uuid = new_uuid().unwrap();
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
        let kept = Kept { uuid, revision: "7".to_owned(), starts: 2 };
        folders.save(&id, &kept).unwrap();
        folders.save(&id, &kept).unwrap();
        assert_eq!(folders.load(&id).unwrap(), Some(kept));
        assert_eq!(folders.ids().unwrap(), std::slice::from_ref(&id));
        Folders::write_private(&folders.secret(&id, "KEY"), b"hush").unwrap();
        folders.wipe(&id).unwrap();
        assert!(!folders.secret(&id, "KEY").exists());
        folders.remove(&id).unwrap();
        folders.remove(&id).unwrap();
        assert_eq!(folders.load(&id).unwrap(), None);
    }
}
