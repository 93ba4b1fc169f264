//! An adopted group: one that may be written, because what it had before was kept.
//!
//! The only way to an [`Adopted`] is to hand the original settings to somebody who keeps them, so
//! nothing is ever written that could not be given back. A group may have limited groups in it (a
//! pod with containers): those are adopted with it, keep their part of its limit as they were
//! found, and move in an order that the kernel accepts at every step: who shrinks goes from the
//! innermost outwards, and then who grows from the outermost inwards. Limited groups that are made
//! inside later are not known, and groups above are only read.
//!
//! What was left in a group is remembered, so that a change by somebody else can be told from our
//! own. It is the owner's, and belongs to what is given back.

use std::collections::BTreeMap;
use std::error::Error;

use walras_core::units::Millicores;

use crate::ceiling::{Ceiling, ceiling};
use crate::error::CgroupError;
use crate::group::{Group, Identity};
use crate::path::CgroupPath;
use crate::settings::{self, Settings, Target, Written};
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

/// Whoever keeps original settings, so that they survive this process.
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
    group: Group,
    inner: Vec<Group>,
    original: Original,
    /// What was in force when we last looked or wrote, in the group and in those inside; nothing of
    /// those of which it is not known.
    left: InForce,
}

/// Settings of the groups of a family.
type InForce = BTreeMap<Identity, Settings>;

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
    /// Whether somebody else had changed the settings since the last time.
    pub changed_by_others: bool,
    /// How many groups inside were written.
    pub inner_written: usize,
}

/// A change of one group of a family.
struct Change<'a> {
    group: &'a Group,
    from: Settings,
    to: Settings,
    depth: usize,
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
        let family = std::iter::once(&original).chain(&original.inner);
        let left = family.map(|one| (one.identity, one.settings)).collect();
        Ok(Adopted { group: self, inner, original, left })
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
        let mut adopted = Adopted { group: self, inner, original, left: InForce::new() };
        adopted.left = adopted.in_force()?;
        Ok(adopted)
    }
}

// === impl Adopted ===

impl Adopted {
    /// The group, for reading.
    #[must_use]
    pub const fn group(&self) -> &Group {
        &self.group
    }

    /// What it had before.
    #[must_use]
    pub const fn original(&self) -> &Original {
        &self.original
    }

    /// Takes what the owner of the group changed in it for what it came with, after `originals` has
    /// kept that. Nothing if nobody else changed anything, or only back to what it came with.
    ///
    /// # Errors
    ///
    /// Where the settings cannot be read or kept. Nothing has changed then, and the next call finds
    /// the same.
    pub fn take_owners_change(
        &mut self,
        originals: &mut dyn Originals,
    ) -> Result<Option<OwnersChange>, CgroupError> {
        let now = self.in_force()?;
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
        let before = self.group.settings()?;
        let mut target = *target;
        let held_by = self.held_by(&before, target.limit)?;
        target.limit = held_by.as_ref().map_or(target.limit, |above| Some(above.limit));
        let mut changes = vec![Change::of(&self.group, before, before.toward(&target))];
        for (group, kept) in self.inner() {
            match group.settings() {
                Ok(from) => {
                    let limit = target.limit.map(|limit| self.original.inner_limit(kept, limit));
                    let inner = Target { limit, weight: None, burst: None };
                    // A buffer that had to shrink with its quota may grow back to what it was.
                    let to = Settings { burst: kept.settings.burst, ..from }.toward(&inner);
                    changes.push(Change::of(group, from, to));
                }
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        self.applied(before, before.toward(&target), carried_out(changes), held_by)
    }

    /// Gives back what the group had before it was adopted.
    ///
    /// # Errors
    ///
    /// As [`Adopted::apply`].
    pub fn restore(&mut self) -> Result<Applied, CgroupError> {
        let before = self.group.settings()?;
        let mut changes = vec![Change::of(&self.group, before, self.original.settings)];
        for (group, kept) in self.inner() {
            match group.settings() {
                Ok(from) => changes.push(Change::of(group, from, kept.settings)),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        self.applied(before, self.original.settings, carried_out(changes), None)
    }

    /// What is in force in the group and in those inside that are still there.
    fn in_force(&self) -> Result<InForce, CgroupError> {
        let mut found = InForce::from([(self.group.identity(), self.group.settings()?)]);
        for group in &self.inner {
            match group.settings() {
                Ok(settings) => {
                    found.insert(group.identity(), settings);
                }
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// What a group of the family is given back, when this is in force `now`.
    fn owners(&self, original: &Original, now: &InForce) -> Settings {
        match (self.left.get(&original.identity), now.get(&original.identity)) {
            (Some(left), Some(now)) => original.settings.with_changes(left, now),
            (None, _) | (_, None) => original.settings,
        }
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

    /// The groups inside with what they had.
    fn inner(&self) -> impl Iterator<Item = (&Group, &Original)> {
        self.inner.iter().filter_map(|group| {
            let kept = self.original.inner.iter().find(|kept| kept.identity == group.identity());
            Some((group, kept?))
        })
    }

    /// What came of changes, and what is left in the groups by them.
    fn applied(
        &mut self,
        before: Settings,
        now: Settings,
        carried: (InForce, Result<(Written, usize), CgroupError>),
        held_by: Option<Ceiling>,
    ) -> Result<Applied, CgroupError> {
        let (wanted, carried) = carried;
        let expected = self.left.get(&self.group.identity()).copied().unwrap_or(before);
        match carried {
            Ok((written, inner_written)) => {
                self.left = wanted;
                let changed_by_others = expected != before;
                Ok(Applied { before, now, written, held_by, changed_by_others, inner_written })
            }
            Err(error) => {
                // What was written until then is ours, and not a change of the owner's.
                self.left = self.in_force().unwrap_or_default();
                Err(error)
            }
        }
    }
}

// === impl Original ===

impl Original {
    /// What a group inside may have while this one has `limit`: the same part of it as in the
    /// beginning. Where this one was not limited then, what the inner one had, but not more.
    fn inner_limit(&self, inner: &Self, limit: Millicores) -> Millicores {
        let had = inner.settings.max.limit_floor().unwrap_or(Millicores::LIMIT);
        match self.settings.max.limit_floor() {
            Some(whole) => limit.share_floor(had.min(whole), whole),
            None => had.min(limit),
        }
    }
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

/// Carries out the changes of a family, and says what they are to leave in it.
fn carried_out(changes: Vec<Change<'_>>) -> (InForce, Result<(Written, usize), CgroupError>) {
    let wanted = changes.iter().map(|change| (change.group.identity(), change.to)).collect();
    (wanted, carry_out(changes))
}

/// Carries out the changes of a family, of which the first is the outermost. Returns what was
/// written of that, and how many others were written.
fn carry_out(mut changes: Vec<Change<'_>>) -> Result<(Written, usize), CgroupError> {
    let outermost = changes.first().map_or(0, |change| change.depth);
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
    Ok((written, inner_written))
}

/// Those that do not grow come first, the deepest in front; then the others, the deepest last.
fn in_order(change: &Change<'_>) -> (bool, usize) {
    let grows = change.grows();
    (grows, if grows { change.depth } else { usize::MAX - change.depth })
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
