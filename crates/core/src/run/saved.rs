//! A workload as it is kept on disk: JSON that a person can read, with a version.
//!
//! What is loaded was seen by nobody yet, and has no operation under way: whether the last one had
//! its effect shows at the first look.

use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use super::spec::WorkloadId;
use super::{Kept, Workload};

/// The version that [`Workload::save`] writes, and the newest that [`Workload::load`] reads.
///
/// Version 2 has networks, log bounds and the like, which nobody said in version 1, and compose
/// projects.
pub const SAVED_VERSION: u64 = 2;
/// The oldest that is read.
const OLDEST_VERSION: u64 = 1;

/// Why a record is no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// It is not what this program wrote.
    #[error("the record is damaged: {0}")]
    Damaged(String),
    /// A newer program wrote it.
    #[error("the record has version {found}, and this program reads up to {SAVED_VERSION}")]
    Newer {
        /// Its version.
        found: u64,
    },
}

#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

#[derive(Serialize)]
struct Written<'a> {
    version: u64,
    id: &'a WorkloadId,
    kept: &'a Kept,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "version")]
    _version: u64,
    id: WorkloadId,
    kept: Kept,
}

impl Workload {
    /// The record to keep.
    ///
    /// # Panics
    /// Never: everything in it can be written.
    #[must_use]
    pub fn save(&self) -> String {
        let written = Written { version: SAVED_VERSION, id: &self.id, kept: &self.kept };
        serde_json::to_string(&written).expect("text, numbers and lists can be written")
    }

    /// The workload of a record.
    ///
    /// # Errors
    /// It is damaged, or of a newer version.
    pub fn load(record: &str) -> Result<Self, SavedError> {
        let damaged = |error: serde_json::Error| SavedError::Damaged(error.to_string());
        let Versioned { version } = serde_json::from_str(record).map_err(damaged)?;
        match version {
            OLDEST_VERSION..=SAVED_VERSION => {}
            found if found > SAVED_VERSION => return Err(SavedError::Newer { found }),
            other => {
                let what = alloc::format!("there never was a version {other}");
                return Err(SavedError::Damaged(what));
            }
        }
        let Read { id, kept, .. } = serde_json::from_str(record).map_err(damaged)?;
        Ok(Self::from_kept(id, kept))
    }
}
