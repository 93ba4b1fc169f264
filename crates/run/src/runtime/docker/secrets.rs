//! Secrets as files: in memory, on the host's side of a mount, as long as the workload is there.
//!
//! Nothing is written where the file system is not in memory.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use walras_core::run::{Fault, FaultKind, WorkloadId};

/// The numbers of file systems that are in memory: tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The folder of all secrets.
#[derive(Clone, Debug)]
pub(super) struct SecretFiles(PathBuf);

impl SecretFiles {
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The folder of a workload's secrets. An id is no path.
    pub(super) fn folder(&self, id: &WorkloadId) -> PathBuf {
        self.0.join(id.as_str())
    }

    /// Writes a workload's secrets in the place of what was there.
    pub(super) fn write(
        &self,
        id: &WorkloadId,
        secrets: &BTreeMap<String, String>,
    ) -> Result<(), Fault> {
        self.try_write(id, secrets).map_err(|error| {
            let words = format!("{}: no secret can be written: {error}", self.0.display());
            Fault::new(FaultKind::Storage, words)
        })
    }

    fn try_write(&self, id: &WorkloadId, secrets: &BTreeMap<String, String>) -> io::Result<()> {
        // Others of the host cannot pass; who is in the container sees the inner folder only.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let kind = u64::try_from(rustix::fs::statfs(&self.0)?.f_type).unwrap_or(0);
        if !IN_MEMORY.contains(&kind) {
            let words = "it is on a disk; name a folder on a tmpfs with --run-secrets-dir";
            return Err(io::Error::new(io::ErrorKind::Unsupported, words));
        }
        let folder = self.folder(id);
        DirBuilder::new().recursive(true).mode(0o755).create(&folder)?;
        for (name, value) in secrets {
            let path = folder.join(name);
            remove(&path)?;
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
            file.write_all(value.as_bytes())?;
        }
        Ok(())
    }

    /// Whether all of a workload's secrets are there.
    pub(super) fn has(&self, id: &WorkloadId, names: &[String]) -> bool {
        let folder = self.folder(id);
        names.iter().all(|name| folder.join(name).is_file())
    }

    /// Removes a workload's secrets.
    pub(super) fn remove(&self, id: &WorkloadId) -> Result<(), Fault> {
        match fs::remove_dir_all(self.folder(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let words = format!("{}: {error}", self.folder(id).display());
                Err(Fault::new(FaultKind::Storage, words))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_written_into_memory_only_and_go_with_their_workload() {
        let id = WorkloadId::new("web").unwrap();
        let secrets: BTreeMap<String, String> =
            [("TOKEN".to_owned(), "hush".to_owned())].into_iter().collect();
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let files = SecretFiles::new(&memory.path().join("secrets"));
        let names = ["TOKEN".to_owned()];
        assert!(!files.has(&id, &names));
        files.write(&id, &secrets).unwrap();
        files.write(&id, &secrets).unwrap();
        assert!(files.has(&id, &names));
        assert_eq!(fs::read_to_string(files.folder(&id).join("TOKEN")).unwrap(), "hush");
        files.remove(&id).unwrap();
        files.remove(&id).unwrap();
        assert!(!files.folder(&id).exists());
        // The repository is on a disk.
        let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let files = SecretFiles::new(disk.path());
        let refused = files.write(&id, &secrets).unwrap_err();
        assert!(refused.words.contains("--run-secrets-dir"), "{refused}");
        assert!(!files.folder(&id).exists());
    }
}
