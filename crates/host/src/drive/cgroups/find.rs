//! Looks for workloads: which cgroups there are, what was decided about each, and who went.

use tracing::warn;
use walras_cgroup::{CgroupError, CgroupPath, Group, WalkLimits, walk};
use walras_core::units::PodUid;

use super::{Cgroups, Fresh, Standing};
use crate::adopt::{Adoption, Judged, judge, read_marks, recognise};
use crate::drive::handle::{Batch, Handle};
use crate::drive::outside::Change;

/// No tree of cgroups that people make is larger.
const LIMITS: WalkLimits = WalkLimits { depth: 10, groups: 20_000 };

impl Cgroups {
    /// What is to become of a cgroup that was not seen before.
    pub(super) fn judge(&self, path: &CgroupPath) -> Judged {
        if self.is_ours(path) {
            return Judged::LookBelow;
        }
        let shown = path.to_string();
        let shown = shown.trim_start_matches('/');
        match recognise(&self.terms.adopt, shown) {
            Some(seen) => judge(&self.terms.adopt, &seen, &read_marks(&self.terms.adopt, &seen)),
            None => Judged::LookBelow,
        }
    }

    /// Whether this daemon itself runs in it.
    pub(super) fn is_ours(&self, path: &CgroupPath) -> bool {
        self.layout.own().is_some_and(|own| own == path || own.is_below(path))
    }

    /// Opens a workload and reads what it has. Nothing is written.
    pub(super) fn take(
        &mut self,
        path: &CgroupPath,
        adoption: Box<Adoption>,
        batch: &mut Batch,
    ) -> Result<Fresh, CgroupError> {
        let group = Group::open(&self.layout, path)?;
        let settings = group.settings()?;
        let handle = if !self.terms.act {
            Handle::Watched(Box::new(group))
        } else if let Some(original) = self.originals.remove(&group.identity()) {
            Handle::Adopted(Box::new(group.adopt_again(original)?))
        } else {
            Handle::Adopted(Box::new(group.adopt(batch)?))
        };
        Ok(Fresh { handle, adoption, settings })
    }

    /// Finds what is new, and marks what is still there.
    pub(super) fn find(&mut self, batch: &mut Batch) -> Vec<Fresh> {
        let mut fresh = Vec::new();
        let found = match walk(&self.layout, &CgroupPath::ROOT, LIMITS) {
            Ok(walk) => {
                self.walk_problem = walk.cut_short.then(|| {
                    format!("there are more than {} cgroups, so some were not seen", LIMITS.groups)
                });
                walk.found
            }
            Err(error) => {
                self.walk_problem = Some(format!("the cgroups cannot be listed: {error}"));
                return fresh;
            }
        };
        // Whoever is in the tree twice by its path was made anew in between.
        let mut covering: Vec<CgroupPath> = Vec::new();
        for one in found {
            if let Some((standing, look)) = self.judged.get_mut(&one.identity) {
                *look = self.looks;
                if !matches!(standing, Standing::LookBelow) {
                    covering.push(one.path);
                }
                continue;
            }
            let standing = if is_covered(&one.path, &covering) {
                Standing::Covered
            } else {
                match self.judge(&one.path) {
                    Judged::LookBelow => Standing::LookBelow,
                    Judged::Leave => {
                        covering.push(one.path);
                        Standing::Covered
                    }
                    Judged::Adopt(adoption) => {
                        let uid = PodUid::new(&adoption.uid);
                        match self.take(&one.path, adoption, batch) {
                            Ok(taken) => fresh.push(taken),
                            Err(error) if error.is_gone() => continue,
                            Err(error) => {
                                warn!("a workload cannot be sized: {error}");
                                self.problems.insert(one.path.clone(), error.to_string());
                            }
                        }
                        covering.push(one.path);
                        Standing::Workload(uid)
                    }
                }
            };
            self.judged.insert(one.identity, (standing, self.looks));
        }
        fresh
    }

    /// Lets go of what was not seen at this look.
    pub(super) fn let_go(&mut self, changes: &mut Vec<Change>) {
        let mut gone = Vec::new();
        let looks = self.looks;
        let held = &mut self.held;
        self.judged.retain(|identity, (standing, seen)| {
            let there = *seen == looks;
            if let (false, Standing::Workload(uid)) = (there, standing)
                && held.get(uid).is_some_and(|held| held.identity == *identity)
            {
                held.remove(uid);
                gone.push(*identity);
                changes.push(Change::Went(uid.clone()));
            }
            there
        });
        if let Err(error) = self.store.forget_originals(&gone) {
            warn!("{error}");
        }
    }
}

fn is_covered(path: &CgroupPath, covering: &[CgroupPath]) -> bool {
    covering.iter().any(|above| path.is_below(above))
}
