//! Records what a node was told, in the format that `walras replay` reads.
//!
//! The loop hands over every fact in the order in which it tells the node. The file is bounded: at
//! its end the recording stops and says so, since a later part could not be replayed without the
//! part before it. A recording that cannot be written stops as well; the loop goes on.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use walras_core::profile::Profile;
use walras_core::units::{Millicores, Moment};
use walras_wire::replay::{Config, Event, Fact, write_line};

/// A recording to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordTo {
    /// The file.
    pub file: PathBuf,
    /// It becomes no larger than this.
    pub max_mib: u64,
}

/// A recording in progress, or one that has stopped.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: Option<File>,
    /// What is not in the file yet.
    pending: String,
    written: u64,
    most: u64,
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be made.
    #[error("{}: the recording cannot be written: {source}", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

/// Why a recording stopped.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// It is as large as it may become.
    #[error("{}: the recording has reached {most_mib} MiB and stops here", file.display())]
    Full {
        /// The file.
        file: PathBuf,
        /// How large it may become.
        most_mib: u64,
    },
    /// It could not be written.
    #[error("{}: the recording stops, because it cannot be written: {source}", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

impl RecordTo {
    /// How large a recording may become where nothing is said.
    pub const DEFAULT_MAX_MIB: u64 = 64;
}

impl Recorder {
    /// Starts a recording of a node without workloads. What was in the file before is kept beside
    /// it, under the same name with `.1` at its end.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn start(
        to: &RecordTo,
        capacity: Millicores,
        profile: &Profile,
        now: Moment,
    ) -> Result<Self, RecordError> {
        let unwritable = |source| RecordError::Unwritable { file: to.file.clone(), source };
        set_aside(&to.file).map_err(unwritable)?;
        let file = File::create(&to.file).map_err(unwritable)?;
        let most = to.max_mib.saturating_mul(1024 * 1024);
        let (path, pending) = (to.file.clone(), String::new());
        let mut recorder = Self { path, file: Some(file), pending, written: 0, most };
        let config = Config { capacity_milli: capacity, profile: profile.clone() };
        recorder.fact(now, Event::Config(Box::new(config)));
        Ok(recorder)
    }

    /// The node was told this.
    pub fn fact(&mut self, at: Moment, event: Event) {
        if self.file.is_some() {
            write_line(&Fact { at, event }, &mut self.pending);
        }
    }

    /// Writes what is pending; the loop calls it after every tick. Says so once if the recording
    /// stops.
    pub fn flush(&mut self) -> Option<Stopped> {
        let file = self.file.as_mut()?;
        let length = u64::try_from(self.pending.len()).unwrap_or(u64::MAX);
        let path = self.path.clone();
        let stopped = if self.written.saturating_add(length) > self.most {
            Stopped::Full { file: path, most_mib: self.most / (1024 * 1024) }
        } else {
            match file.write_all(self.pending.as_bytes()) {
                Ok(()) => {
                    self.written += length;
                    self.pending.clear();
                    return None;
                }
                Err(source) => Stopped::Unwritable { file: path, source },
            }
        };
        self.file = None;
        self.pending = String::new();
        Some(stopped)
    }
}

/// Makes room for a new file without losing the old one.
fn set_aside(file: &Path) -> io::Result<()> {
    let mut kept = file.as_os_str().to_owned();
    kept.push(".1");
    match fs::rename(file, Path::new(&kept)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
