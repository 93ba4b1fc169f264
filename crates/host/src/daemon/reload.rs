//! Notices that the configuration's file changed, by looking at it now and then.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use walras_core::units::{Moment, Span};

use crate::config::DEFAULT_FILE;

/// How often to look.
const BETWEEN: Span = Span::from_s(2);

/// A file that is looked at.
#[derive(Debug)]
pub(super) struct Watched {
    file: PathBuf,
    last: Option<(SystemTime, u64)>,
    looked_at: Moment,
}

impl Watched {
    /// Looks at `file`, or where the configuration usually is.
    pub(super) fn new(file: Option<&Path>) -> Self {
        let file = file.unwrap_or(Path::new(DEFAULT_FILE)).to_owned();
        let last = stamp(&file);
        Self { file, last, looked_at: Moment::ORIGIN }
    }

    /// Whether the file is another one than at the last look. One that is missing for a moment is
    /// being replaced.
    pub(super) fn changed(&mut self, now: Moment) -> bool {
        if now.since(self.looked_at) < BETWEEN {
            return false;
        }
        self.looked_at = now;
        let stamp = stamp(&self.file);
        if stamp.is_none() || stamp == self.last {
            return false;
        }
        self.last = stamp;
        true
    }
}

fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
