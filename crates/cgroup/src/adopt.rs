//! An adopted group: one that may be written, because what it had before was kept.
//!
//! The only way to an [`Adopted`] is to have its original settings kept, so
//! nothing is ever written that could not be given back. A group may have limited groups in it (a
//! pod with containers): those are adopted with it, and keep their part of its limit as they were
//! found. Limited groups that are made inside later are not known.
//!
//! What was left in a group is remembered, so that a change by others can be told from our
//! own. It is the owner's, and belongs to what is given back.

use std::error::Error;

use crate::ceiling::Ceiling;
use crate::error::CgroupError;
use crate::group::{Group, Identity};
use crate::path::CgroupPath;
use crate::settings::{Settings, Target, Written};
use crate::tree::{Done, Tree, TreeSettings};
use crate::walk::{WalkLimits, walk};

/// Limited groups inside of an adopted one are looked for this far.
const INSIDE: WalkLimits = WalkLimits { depth: 4, groups: 256 };

/// What a group had before it was adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Where it was.
    pub path: CgroupPath,
    /// Who it was.
    pub identity: Identity,
    /// Its settings.
    pub settings: Settings,
    /// The limited groups in it, from the outermost to the innermost; those have none themselves.
    pub inner: Vec<Original>,
}

/// Where original settings are kept, so that they survive this process.
pub trait Originals {
    /// Keeps `original`. When this returns without an error, it can be found again after a crash.
    ///
    /// # Errors
    ///
    /// Where it cannot be kept; the group is not adopted then.
    fn keep(&mut self, original: &Original) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// A group that may be written.
#[derive(Debug)]
pub struct Adopted {
    tree: Tree,
    original: Original,
    /// What was in force when we last looked or wrote, in the group and in those inside; nothing of
    /// those of which it is not known.
    left: TreeSettings,
}

/// What the owner of a group changed in it, since it was adopted or last looked at. Where what it
/// is given back is the same, that of a group inside is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnersChange {
    /// What it would have been given back before.
    pub from: Settings,
    /// What it is given back now.
    pub to: Settings,
    /// What is in force.
    pub in_force: Settings,
}

/// What came of setting a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What was in force.
    pub before: Settings,
    /// What is in force now.
    pub now: Settings,
    /// What of it was written.
    pub written: Written,
    /// The group above that allows no more, if the limit was cut because of it.
    pub held_by: Option<Ceiling>,
    /// Whether another process had changed the settings since the last time.
    pub changed_by_others: bool,
    /// How many groups inside were written.
    pub inner_written: usize,
}

// === impl Group ===

impl Group {
    /// Adopts the group, after `originals` has kept what it has.
    ///
    /// # Errors
    ///
    /// Where the settings cannot be read, where the cpu controller is not switched on for it, or
    /// where they cannot be kept.
    pub fn adopt(self, originals: &mut dyn Originals) -> Result<Adopted, CgroupError> {
        let settings = self.settings()?;
        let mut inner = Vec::new();
        for found in walk(self.layout(), self.path(), INSIDE)?.found {
            // Whatever cannot be read is none of ours.
            if let Ok(limited) = limited(self.layout(), &found.path) {
                inner.extend(limited);
            }
        }
        inner.sort_by_key(|(group, _)| group.path().depth());
        let (inner, inner_originals): (_, Vec<Original>) = inner.into_iter().unzip();
        let original = Original { inner: inner_originals, ..original_of(&self, settings) };
        originals
            .keep(&original)
            .map_err(|source| CgroupError::NotKept { path: self.path().clone(), source })?;
        let left = original.tree();
        Ok(Adopted { tree: Tree::new(self, inner), original, left })
    }

    /// Adopts the group once more, after a restart, with what was kept the first time.
    ///
    /// # Errors
    ///
    /// Where it is another group than the one that was adopted, even if it has the same path, and
    /// where it or one inside of it cannot be read.
    pub fn adopt_again(self, original: Original) -> Result<Adopted, CgroupError> {
        if self.identity() != original.identity || *self.path() != original.path {
            return Err(CgroupError::Gone { path: original.path });
        }
        let mut inner = Vec::new();
        for kept in &original.inner {
            match Group::open(self.layout(), &kept.path) {
                Ok(group) if group.identity() == kept.identity => inner.push(group),
                Ok(_) => {}
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        let tree = Tree::new(self, inner);
        let left = tree.in_force()?;
        Ok(Adopted { tree, original, left })
    }
}

// === impl Adopted ===

impl Adopted {
    /// The group, for reading.
    #[must_use]
    pub const fn group(&self) -> &Group {
        self.tree.group()
    }

    /// What it had before.
    #[must_use]
    pub const fn original(&self) -> &Original {
        &self.original
    }

    /// What limits it is not what it came with, which was none, after `originals` has kept that.
    /// The groups inside are as they were found.
    ///
    /// # Errors
    ///
    /// Where that cannot be kept.
    pub fn came_without_limit(&mut self, originals: &mut dyn Originals) -> Result<(), CgroupError> {
        if self.original.settings.max.quota.is_none() {
            return Ok(());
        }
        let mut changed = self.original.clone();
        changed.settings.max.quota = None;
        originals
            .keep(&changed)
            .map_err(|source| CgroupError::NotKept { path: changed.path.clone(), source })?;
        self.original = changed;
        Ok(())
    }

    /// Takes what the owner of the group changed in it for what it came with, after `originals` has
    /// kept that. Nothing if no other process changed anything, or only back to what it came with.
    ///
    /// # Errors
    ///
    /// Where the settings cannot be read or kept. Nothing has changed then, and the next call finds
    /// the same.
    pub fn take_owners_change(
        &mut self,
        originals: &mut dyn Originals,
    ) -> Result<Option<OwnersChange>, CgroupError> {
        let now = self.tree.in_force()?;
        let mut changed = self.original.clone();
        changed.settings = self.owners(&self.original, &now);
        for (kept, original) in changed.inner.iter_mut().zip(&self.original.inner) {
            kept.settings = self.owners(original, &now);
        }
        let in_force = now.get(&changed.identity).copied().unwrap_or(changed.settings);
        let change = OwnersChange { from: self.original.settings, to: changed.settings, in_force };
        let is_changed = changed != self.original;
        if is_changed {
            originals
                .keep(&changed)
                .map_err(|source| CgroupError::NotKept { path: changed.path.clone(), source })?;
            self.original = changed;
        }
        self.left = now;
        Ok(is_changed.then_some(change))
    }

    /// Sets the group to `target`, as far as the groups above allow. What has its value already is
    /// not written.
    ///
    /// # Errors
    ///
    /// Where the group is gone, where it may not be written, or where the kernel refuses a value.
    /// Some of the settings may have been written by then; [`Group::settings`] says which.
    pub fn apply(&mut self, target: &Target) -> Result<Applied, CgroupError> {
        let done = self.tree.apply(target, &self.original.tree());
        self.applied(done)
    }

    /// Gives back what the group had before it was adopted.
    ///
    /// # Errors
    ///
    /// As [`Adopted::apply`].
    pub fn restore(&mut self) -> Result<Applied, CgroupError> {
        let done = self.tree.set(&self.original.tree());
        self.applied(done)
    }

    /// What a group of the tree is given back, when this is in force `now`.
    fn owners(&self, original: &Original, now: &TreeSettings) -> Settings {
        match (self.left.get(&original.identity), now.get(&original.identity)) {
            (Some(left), Some(now)) => original.settings.with_changes(left, now),
            (None, _) | (_, None) => original.settings,
        }
    }

    /// Takes note of what a write left in the groups, and tells what came of it.
    fn applied(&mut self, done: Result<Done, CgroupError>) -> Result<Applied, CgroupError> {
        match done {
            Ok(Done { before, now, written, held_by, inner_written, left }) => {
                let expected = self.left.get(&self.group().identity()).copied();
                let changed_by_others = expected.unwrap_or(before) != before;
                self.left = left;
                Ok(Applied { before, now, written, held_by, changed_by_others, inner_written })
            }
            Err(error) => {
                // What was written until then is ours, and not a change of the owner's.
                self.left = self.tree.in_force().unwrap_or_default();
                Err(error)
            }
        }
    }
}

// === impl Original ===

impl Original {
    /// The settings of the group and of those inside.
    fn tree(&self) -> TreeSettings {
        let all = std::iter::once(self).chain(&self.inner);
        all.map(|one| (one.identity, one.settings)).collect()
    }
}

fn original_of(group: &Group, settings: Settings) -> Original {
    let (path, identity) = (group.path().clone(), group.identity());
    Original { path, identity, settings, inner: Vec::new() }
}

/// The group at `path` with what it has, if it is limited.
fn limited(
    layout: &crate::layout::Layout,
    path: &CgroupPath,
) -> Result<Option<(Group, Original)>, CgroupError> {
    let group = Group::open(layout, path)?;
    let settings = group.settings()?;
    let original = original_of(&group, settings);
    Ok(settings.max.quota.map(|_| (group, original)))
}
