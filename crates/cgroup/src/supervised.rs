//! A group that a supervisor looks after, as the kubelet looks after those of a pod: the supervisor
//! says what the group should have, and sets that again whenever it likes.
//!
//! Nothing is kept of what such a group was found with, because that is not what it has to get
//! back: the caller knows from the supervisor what is usual for every group, and sets it to that in
//! the end. A group without a supervisor is [`Adopted`](crate::Adopted) instead.

use crate::ceiling::Ceiling;
use crate::error::CgroupError;
use crate::group::Group;
use crate::layout::Layout;
use crate::path::CgroupPath;
use crate::settings::{Settings, Target};
use crate::tree::{Tree, TreeSettings};

/// A group, and groups inside of it, that somebody else sets as well.
#[derive(Debug)]
pub struct Supervised {
    tree: Tree,
}

/// What came of setting the limit of a supervised group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// What is in force now.
    pub now: Settings,
    /// The group above that allows no more, if the limit was cut because of it.
    pub held_by: Option<Ceiling>,
}

// === impl Supervised ===

impl Supervised {
    /// Opens the group `path` and those of `inside` that are there. Nothing is written.
    ///
    /// # Errors
    ///
    /// Where the group is gone, or where one of them cannot be read.
    pub fn open<'a>(
        layout: &Layout,
        path: &CgroupPath,
        inside: impl IntoIterator<Item = &'a CgroupPath>,
    ) -> Result<Self, CgroupError> {
        let group = Group::open(layout, path)?;
        let mut inner = Vec::new();
        for path in inside {
            match Group::open(layout, path) {
                Ok(group) => inner.push(group),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        let tree = Tree::new(group, inner);
        // What cannot be read now could not be set later.
        tree.in_force()?;
        Ok(Self { tree })
    }

    /// Sets the group to `target`, as far as the groups above allow, and each group inside to the
    /// part of it that it usually has. `usual` is asked about every group, with what it has now.
    ///
    /// # Errors
    ///
    /// Where the group is gone, where it may not be written, or where the kernel refuses a value.
    /// Some of the settings may have been written by then; [`Group::settings`] says which.
    pub fn apply(
        &self,
        target: &Target,
        usual: impl Fn(&CgroupPath, &Settings) -> Settings,
    ) -> Result<Limited, CgroupError> {
        let done = self.tree.apply(target, &self.each(usual)?)?;
        Ok(Limited { now: done.now, held_by: done.held_by })
    }

    /// Sets every group to what `wanted` makes of what it has now.
    ///
    /// # Errors
    ///
    /// As [`Supervised::apply`].
    pub fn set(
        &self,
        wanted: impl Fn(&CgroupPath, &Settings) -> Settings,
    ) -> Result<(), CgroupError> {
        self.tree.set(&self.each(wanted)?).map(drop)
    }

    /// What `says` makes of what is in force in each group that is there.
    fn each(
        &self,
        says: impl Fn(&CgroupPath, &Settings) -> Settings,
    ) -> Result<TreeSettings, CgroupError> {
        let in_force = self.tree.in_force()?;
        let groups = self.tree.groups().filter_map(|group| {
            let now = in_force.get(&group.identity())?;
            Some((group.identity(), says(group.path(), now)))
        });
        Ok(groups.collect())
    }
}
