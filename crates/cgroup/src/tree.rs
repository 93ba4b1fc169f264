//! A group with limited groups inside of it (a pod with containers), whose settings move together.
//!
//! The order is one that the kernel accepts at every step: those that shrink go first, from the
//! innermost outwards, then those that grow, from the outermost inwards. Groups above are only
//! read. [`Adopted`](crate::Adopted) and [`Supervised`](crate::Supervised) say what is written, and
//! on whose authority.

use std::collections::BTreeMap;

use walras_core::units::Millicores;

use crate::ceiling::{Ceiling, ceiling};
use crate::error::CgroupError;
use crate::group::{Group, Identity};
use crate::settings::{self, Settings, Target, Written};

/// Settings of the groups of a tree.
pub(crate) type TreeSettings = BTreeMap<Identity, Settings>;

/// A group and the limited groups in it.
#[derive(Debug)]
pub(crate) struct Tree {
    group: Group,
    inner: Vec<Group>,
}

/// What came of setting a tree.
#[derive(Debug)]
pub(crate) struct Done {
    /// What was in force in the outermost group.
    pub(crate) before: Settings,
    /// What is in force in it now.
    pub(crate) now: Settings,
    /// What of it was written.
    pub(crate) written: Written,
    /// The group above that allows no more, if the limit was cut because of it.
    pub(crate) held_by: Option<Ceiling>,
    /// How many groups inside were written.
    pub(crate) inner_written: usize,
    /// What is in force in every group of the tree now.
    pub(crate) left: TreeSettings,
}

/// A change of one group of a tree.
struct Change<'a> {
    group: &'a Group,
    from: Settings,
    to: Settings,
    depth: usize,
}

// === impl Tree ===

impl Tree {
    pub(crate) const fn new(group: Group, inner: Vec<Group>) -> Self {
        Self { group, inner }
    }

    /// The outermost group.
    pub(crate) const fn group(&self) -> &Group {
        &self.group
    }

    /// All groups, the outermost first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        std::iter::once(&self.group).chain(&self.inner)
    }

    /// What is in force in the outermost group and in those inside that are still there.
    pub(crate) fn in_force(&self) -> Result<TreeSettings, CgroupError> {
        let mut found = TreeSettings::from([(self.group.identity(), self.group.settings()?)]);
        for (group, settings) in self.inner_settings()? {
            found.insert(group.identity(), settings);
        }
        Ok(found)
    }

    /// Sets the outermost group to `target`, as far as the groups above allow, and each one inside
    /// to the part of it that it has where everything is as `usual`. Groups of which nothing usual
    /// is known are left alone.
    pub(crate) fn apply(&self, target: &Target, usual: &TreeSettings) -> Result<Done, CgroupError> {
        let before = self.group.settings()?;
        let whole = usual.get(&self.group.identity()).copied().unwrap_or(before);
        let mut target = *target;
        let held_by = self.held_by(&before, target.limit)?;
        target.limit = held_by.as_ref().map_or(target.limit, |above| Some(above.limit));
        let mut changes = vec![Change::of(&self.group, before, before.toward(&target))];
        for (group, from) in self.inner_settings()? {
            let Some(usual) = usual.get(&group.identity()) else { continue };
            let limit = target.limit.map(|limit| part_of(limit, &whole, usual));
            let inner = Target { limit, weight: None, burst: None };
            // A buffer that had to shrink with its quota may grow back to what it was.
            let to = Settings { burst: usual.burst, ..from }.toward(&inner);
            changes.push(Change::of(group, from, to));
        }
        carry_out(changes, before, held_by)
    }

    /// Sets every group to what `wanted` has for it, and leaves the others alone.
    pub(crate) fn set(&self, wanted: &TreeSettings) -> Result<Done, CgroupError> {
        let before = self.group.settings()?;
        let wanted_of =
            |group: &Group, from| wanted.get(&group.identity()).copied().unwrap_or(from);
        let mut changes = vec![Change::of(&self.group, before, wanted_of(&self.group, before))];
        for (group, from) in self.inner_settings()? {
            changes.push(Change::of(group, from, wanted_of(group, from)));
        }
        carry_out(changes, before, None)
    }

    /// The groups inside that are still there, with what they have.
    fn inner_settings(&self) -> Result<Vec<(&Group, Settings)>, CgroupError> {
        let mut found = Vec::new();
        for group in &self.inner {
            match group.settings() {
                Ok(settings) => found.push((group, settings)),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The group above that does not allow as much as `wanted`, if that is more than there is.
    fn held_by(
        &self,
        before: &Settings,
        wanted: Option<Millicores>,
    ) -> Result<Option<Ceiling>, CgroupError> {
        let now = before.max.limit_floor().unwrap_or(Millicores::ZERO);
        let Some(wanted) = wanted.filter(|&wanted| wanted > now) else { return Ok(None) };
        let above = ceiling(self.group.layout(), self.group.path())?;
        Ok(above.filter(|above| above.limit < wanted))
    }
}

/// What a group inside may have while the outermost one has `limit`: the same part of it as where
/// they have `whole` and `inner`. Where the outermost one is not limited there, what the inner one
/// has, but not more than `limit`.
fn part_of(limit: Millicores, whole: &Settings, inner: &Settings) -> Millicores {
    let had = inner.max.limit_floor().unwrap_or(Millicores::LIMIT);
    match whole.max.limit_floor() {
        Some(whole) => limit.share_floor(had.min(whole), whole),
        None => had.min(limit),
    }
}

/// Carries out the changes of a tree, of which the first is the outermost.
fn carry_out(
    mut changes: Vec<Change<'_>>,
    before: Settings,
    held_by: Option<Ceiling>,
) -> Result<Done, CgroupError> {
    let left: TreeSettings =
        changes.iter().map(|change| (change.group.identity(), change.to)).collect();
    let (outermost, now) = changes.first().map_or((0, before), |change| (change.depth, change.to));
    changes.sort_by_key(in_order);
    let (mut written, mut inner_written) = (Written::default(), 0);
    for change in &changes {
        match change.carry_out() {
            Ok(done) if change.depth == outermost => written = done,
            Ok(done) => inner_written += usize::from(done.any()),
            Err(error) if error.is_gone() && change.depth > outermost => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Done { before, now, written, held_by, inner_written, left })
}

/// Those that do not grow come first, the deepest in front; then the others, the deepest last.
fn in_order(change: &Change<'_>) -> (bool, usize) {
    let grows = change.grows();
    (grows, if grows { change.depth } else { usize::MAX - change.depth })
}

// === impl Change ===

impl<'a> Change<'a> {
    fn of(group: &'a Group, from: Settings, to: Settings) -> Self {
        Self { group, from, to, depth: group.path().depth() }
    }

    fn grows(&self) -> bool {
        let (from, to) = (&self.from.max, &self.to.max);
        match (from.quota, to.quota) {
            (None, _) => false,
            (Some(_), None) => true,
            // Quota over period, compared without dividing.
            (Some(before), Some(after)) => {
                u128::from(after.as_us()) * u128::from(from.period.as_us())
                    > u128::from(before.as_us()) * u128::from(to.period.as_us())
            }
        }
    }

    fn carry_out(&self) -> Result<Written, CgroupError> {
        let mut written = Written::default();
        let version = self.group.layout().version();
        for write in settings::writes(version, &self.from, &self.to) {
            settings::write(self.group.folder(), version, write)?;
            written.note(write);
        }
        Ok(written)
    }
}
