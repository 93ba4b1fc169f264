//! A group that is sized or only watched, and what new ones came with, until that is kept.

use std::error::Error;

use walras_cgroup::{Adopted, Group, Original, Originals, Settings};

/// A group.
#[derive(Debug)]
pub(super) enum Handle {
    /// It is never written to.
    Watched(Box<Group>),
    /// It is sized, and what it came with is on record.
    Adopted(Box<Adopted>),
}

/// What is kept at the end of a look, all at once: a disk has only so many writes a second.
#[derive(Default)]
pub(super) struct Batch(pub(super) Vec<Original>);

impl Handle {
    /// The group itself.
    pub(super) const fn group(&self) -> &Group {
        match self {
            Self::Watched(group) => group,
            Self::Adopted(adopted) => adopted.group(),
        }
    }

    /// What it came with: what was kept, or else what is in force.
    pub(super) const fn original(&self, in_force: &Settings) -> Settings {
        match self {
            Self::Watched(_) => *in_force,
            Self::Adopted(adopted) => adopted.original().settings,
        }
    }
}

impl Originals for Batch {
    fn keep(&mut self, original: &Original) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.push(original.clone());
        Ok(())
    }
}
