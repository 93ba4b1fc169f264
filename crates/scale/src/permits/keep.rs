//! What a server of permits must not forget: the largest maximum by which a machine may still hold
//! something, where its maximum was lowered since. Everything else comes back from agents.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use walras_core::units::{Bytes, Millicores, Resources, VmName};

/// What is kept, by machine.
pub type Kept = BTreeMap<VmName, Resources>;

/// Where it is kept.
pub trait Keep: std::fmt::Debug + Send {
    /// What was kept last.
    ///
    /// # Errors
    /// It is there, and cannot be read.
    fn load(&mut self) -> Result<Kept, KeepError>;

    /// Keeps this instead. When it returns, it is there after any crash.
    ///
    /// # Errors
    /// It cannot be kept; what was kept before still is.
    fn save(&mut self, kept: &Kept) -> Result<(), KeepError>;
}

/// Why nothing is kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The file cannot be used.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What is in it is not what we wrote.
    #[error("{path}: {source}; it holds maxima that were lowered: move it away to start without")]
    Broken {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

/// In a file of its own, which is replaced as a whole.
#[derive(Debug)]
pub struct InFile {
    path: PathBuf,
}

/// Nowhere: for a scheduler that finds the same in its cluster, and for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: Version,
    most: BTreeMap<String, Amount>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
struct Version;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Amount {
    cpu_milli: u64,
    memory_bytes: u64,
}

// === impl InFile ===

impl InFile {
    /// The file `permits.json` in a folder.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { path: folder.join("permits.json") }
    }

    fn failed(&self, source: io::Error) -> KeepError {
        KeepError::Io { path: self.path.clone(), source }
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file = File::create(&fresh)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        // The name is in the folder, which has to be on disk too.
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        File::open(folder)?.sync_all()
    }
}

impl Keep for InFile {
    fn load(&mut self) -> Result<Kept, KeepError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::new()),
            Err(error) => return Err(self.failed(error)),
        };
        let broken = |source| KeepError::Broken { path: self.path.clone(), source };
        let written: Written = serde_json::from_slice(&text).map_err(broken)?;
        let amount = |amount: Amount| {
            Resources::new(Millicores::new(amount.cpu_milli), Bytes::new(amount.memory_bytes))
        };
        let most = written.most.into_iter();
        Ok(most.map(|(vm, most)| (VmName::new(&vm), amount(most))).collect())
    }

    fn save(&mut self, kept: &Kept) -> Result<(), KeepError> {
        let amount = |most: &Resources| Amount {
            cpu_milli: most.cpu.get(),
            memory_bytes: most.memory.get(),
        };
        let most = kept.iter().map(|(vm, most)| (vm.as_str().to_owned(), amount(most))).collect();
        let broken = |source| KeepError::Broken { path: self.path.clone(), source };
        let text = serde_json::to_vec(&Written { version: Version, most }).map_err(broken)?;
        self.replace(&text).map_err(|error| self.failed(error))
    }
}

impl Keep for Nowhere {
    fn load(&mut self) -> Result<Kept, KeepError> {
        Ok(Kept::new())
    }

    fn save(&mut self, _kept: &Kept) -> Result<(), KeepError> {
        Ok(())
    }
}

// === impl Version ===

impl TryFrom<u32> for Version {
    type Error = String;
    fn try_from(number: u32) -> Result<Self, Self::Error> {
        if number == 1 { Ok(Self) } else { Err(format!("version {number} is not known; 1 is")) }
    }
}

impl From<Version> for u32 {
    fn from(_: Version) -> Self {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Kept {
        let most = Resources::new(Millicores::new(2000), Bytes::new(8 << 30));
        [(VmName::new("default/web"), most)].into()
    }

    #[test]
    fn what_is_kept_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut keep = InFile::new(folder.path());
        assert_eq!(keep.load().unwrap(), Kept::new());
        keep.save(&one()).unwrap();
        assert_eq!(InFile::new(folder.path()).load().unwrap(), one());
    }

    #[test]
    fn what_is_broken_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{", "{\"version\":2,\"most\":{}}", "{\"version\":1,\"most\":{},\"a\":1}"]
        {
            fs::write(folder.path().join("permits.json"), text).unwrap();
            let told = InFile::new(folder.path()).load().unwrap_err().to_string();
            assert!(told.contains("permits.json"), "{told}");
            assert_eq!(fs::read_to_string(folder.path().join("permits.json")).unwrap(), text);
        }
    }

    #[test]
    fn where_nothing_can_be_written_it_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let mut keep = InFile::new(&folder.path().join("missing"));
        assert!(keep.save(&one()).is_err());
    }
}
