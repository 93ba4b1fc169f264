//! Keeps a second daemon off the same machine, whatever its store is.
//!
//! A lock on a file, which the kernel takes back when its holder ends, however it ends. The file
//! also names the holder, for a person to read.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The right to be the only daemon here. Given back when dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why the right was not granted.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon has it.
    #[error(
        "another daemon of Walras is running on this machine already{}; two would undo each \
         other's work (lock {})",
        pid.as_ref().map(|pid| format!(" (process {pid})")).unwrap_or_default(),
        file.display()
    )]
    Taken {
        /// Whose process, if that is known.
        pid: Option<String>,
        /// The file.
        file: PathBuf,
    },
    /// The file cannot be made or locked.
    #[error("{}: the lock against a second daemon cannot be taken: {source}", file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

impl Lock {
    /// Takes the lock in the folder `run_dir`, which is made where it is missing.
    ///
    /// # Errors
    /// Another daemon has it, or the file cannot be made.
    pub fn take(run_dir: &Path) -> Result<Self, LockError> {
        let path = run_dir.join("host.lock");
        let unusable = |source| LockError::Unusable { file: path.clone(), source };
        fs::create_dir_all(run_dir).map_err(unusable)?;
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Its holder may not have written its number yet.
                file.take(32).read_to_string(&mut pid).ok();
                let pid = Some(pid.trim().to_owned()).filter(|pid| !pid.is_empty());
                return Err(LockError::Taken { pid, file: path });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        file.set_len(0).map_err(unusable)?;
        writeln!(file, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_daemon_is_refused_and_told_who_is_first() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = folder.path().join("run");
        let first = Lock::take(&run_dir).unwrap();
        let told = Lock::take(&run_dir).unwrap_err().to_string();
        let expected = format!("already (process {})", std::process::id());
        assert!(told.contains(&expected), "{told}");
        drop(first);
        Lock::take(&run_dir).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        let told = Lock::take(&file.join("run")).unwrap_err().to_string();
        assert!(told.contains("the lock against a second daemon cannot be taken"), "{told}");
    }
}
