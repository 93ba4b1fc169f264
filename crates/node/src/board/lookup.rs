//! Finds a workload by what a person calls it: its uid, or its name where no other workload has it.

use std::fmt;

use walras_core::units::WorkloadUid;

use super::entry::Entry;

/// Why a workload cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// There is no such workload.
    #[error("there is no workload {asked}{}", Hint(.close))]
    Unknown {
        /// What was asked for.
        asked: String,
        /// Names that look like it, the closest first.
        close: Vec<String>,
    },
    /// Several workloads have that name.
    #[error("{} workloads are called {asked}; ask by uid: {}", .uids.len(), .uids.join(", "))]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// The uids of the workloads that have this name.
        uids: Vec<String>,
    },
}

/// The workload that `asked` means, among `entries` in uid order.
pub(super) fn look_up<'a>(entries: &'a [Entry], asked: &str) -> Result<&'a Entry, LookupError> {
    let uid = WorkloadUid::new(asked);
    if let Ok(place) = entries.binary_search_by(|entry| entry.uid.cmp(&uid)) {
        return Ok(&entries[place]);
    }
    let mut named = entries.iter().filter(|entry| entry.label.name == asked);
    match (named.next(), named.next()) {
        (Some(entry), None) => Ok(entry),
        (Some(first), Some(second)) => {
            let uids = [first, second].into_iter().chain(named);
            let uids = uids.map(|entry| entry.uid.to_string()).collect();
            Err(LookupError::Ambiguous { asked: asked.to_owned(), uids })
        }
        (None, _) => {
            Err(LookupError::Unknown { asked: asked.to_owned(), close: close_to(asked, entries) })
        }
    }
}

/// More suggestions than this are no help.
const HINTS_MAX: usize = 3;

/// Names that contain what was asked for, or are spelled much like it.
fn close_to(asked: &str, entries: &[Entry]) -> Vec<String> {
    let likeness = |entry: &Entry| {
        let name = entry.label.name.as_str();
        let contained = !asked.is_empty() && (name.contains(asked) || asked.contains(name));
        if contained { 1.0 } else { strsim::jaro_winkler(asked, name) }
    };
    let mut close: Vec<(f64, &str)> = entries
        .iter()
        .map(|entry| (likeness(entry), entry.label.name.as_str()))
        .filter(|(likeness, _)| *likeness > 0.8)
        .collect();
    close.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    close.dedup_by(|a, b| a.1 == b.1);
    close.into_iter().take(HINTS_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// Writes suggestions, where there are any.
struct Hint<'a>(&'a [String]);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            names => write!(f, "; did you mean {}?", names.join(" or ")),
        }
    }
}
