//! Why a pod has what it has, in sentences.

use walras_core::node::Note;

use super::Inner;
use super::entry::Entry;

/// The story of one pod.
pub(super) fn sentences(_inner: &Inner, _entry: &Entry) -> Vec<String> {
    Vec::new()
}

/// A note as one reads it beside the pod it is about.
pub(super) fn noted(note: &Note, _times: u32) -> String {
    note.to_string()
}
