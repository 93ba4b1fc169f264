//! How often control groups met their quota: all of them below one, whichever version they are of.
//!
//! Groups are kept open and looked for again now and then. One that was not there at the last walk
//! was made since, so all of its throttled periods are new.

use walras_cgroup::{CgroupPath, Group, Layout, WalkLimits, walk};
use walras_core::units::{Moment, Span};

use crate::counters::Throttled;
use crate::reading::{Seen, Unavailable};

/// How far groups are looked for. Kubernetes makes at most eight levels.
const LIMITS: WalkLimits = WalkLimits { depth: 16, groups: 4096 };
/// How often.
const WALK_EVERY: Span = Span::from_ms(5_000);

/// The groups below one, and that one.
#[derive(Debug)]
pub(crate) struct Groups {
    layout: Layout,
    top: CgroupPath,
    /// In the order of their numbers.
    open: Vec<Open>,
    walked_at: Option<Moment>,
    walked: Seen<()>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    group: Group,
    fresh: bool,
}

// === impl Groups ===

impl Groups {
    /// Those at and below `top`.
    pub(crate) const fn new(layout: Layout, top: CgroupPath) -> Self {
        Self { layout, top, open: Vec::new(), walked_at: None, walked: Ok(()) }
    }

    /// Looks at all of them.
    pub(crate) fn look(&mut self, now: Moment, found: &mut Vec<Throttled>) -> Seen<()> {
        if self.walked_at.is_none_or(|at| now.since(at) >= WALK_EVERY) {
            self.walked = self.find();
            self.walked_at = Some(now);
        }
        self.walked?;
        // A group that is gone is let go of; one that cannot be read now may be read later.
        self.open.retain(|open| match open.group.sample(now) {
            Ok(sample) => {
                let (group, periods, fresh) = (open.number, sample.nr_throttled, open.fresh);
                found.push(Throttled { group, periods, fresh });
                true
            }
            Err(error) => !error.is_gone(),
        });
        Ok(())
    }

    /// Opens what was made since the last walk.
    fn find(&mut self) -> Seen<()> {
        let walk = walk(&self.layout, &self.top, LIMITS)
            .map_err(|_| Unavailable::Unreadable { what: "the tree of control groups" })?;
        if walk.cut_short {
            // A sum over some of them would be a figure about nothing.
            return Err(Unavailable::Unreadable { what: "a tree of more than 4096 groups" });
        }
        let fresh = self.walked_at.is_some() && self.walked.is_ok();
        let paths = walk.found.into_iter().map(|found| (Some(found.identity.inode), found.path));
        for (number, path) in paths.chain([(None, self.top.clone())]) {
            let known = |number: u64| self.open.iter().any(|open| open.number == number);
            if number.is_some_and(known) {
                continue;
            }
            // Without the controller there is no quota to meet.
            let Ok(group) = Group::open(&self.layout, &path) else { continue };
            let number = group.identity().inode;
            if !known(number) {
                self.open.push(Open { number, group, fresh });
            }
        }
        self.open.sort_unstable_by_key(|open| open.number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use walras_cgroup::Version;

    fn make(root: &Path, name: &str, throttled: u64) {
        let folder = root.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cgroup.procs"), "").unwrap();
        let stat =
            format!("usage_usec 1\nnr_periods 9\nnr_throttled {throttled}\nthrottled_usec 4\n");
        fs::write(folder.join("cpu.stat"), stat).unwrap();
    }

    /// Periods and whether they are all new, in the order of periods.
    fn look(groups: &mut Groups, ms: u64) -> Seen<Vec<(u64, bool)>> {
        let mut found = Vec::new();
        groups.look(Moment::from_ms(ms), &mut found)?;
        assert!(found.is_sorted_by_key(|it| it.group));
        let mut told: Vec<_> = found.iter().map(|it| (it.periods, it.fresh)).collect();
        told.sort_unstable();
        Ok(told)
    }

    #[test]
    fn all_groups_below_are_found_and_new_ones_are_known_as_new() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().to_path_buf();
        let layout = Layout::at(Version::V2, place.clone(), place.clone());
        for (name, throttled) in [("node", 1), ("node/a", 2), ("node/a/b", 3), ("other", 100)] {
            make(&place, name, throttled);
        }
        let top = CgroupPath::new(b"node").unwrap();
        let mut groups = Groups::new(layout, top);
        assert_eq!(look(&mut groups, 0), Ok(vec![(1, false), (2, false), (3, false)]));
        make(&place, "node/c", 40);
        make(&place, "node/a", 7);
        // It is not looked for at once.
        let before = vec![(1, false), (3, false), (7, false)];
        assert_eq!(look(&mut groups, 4_999), Ok(before));
        let after = vec![(1, false), (3, false), (7, false), (40, true)];
        assert_eq!(look(&mut groups, 5_000), Ok(after));
    }

    #[test]
    fn a_tree_that_is_gone_is_no_tree_without_throttling() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().to_path_buf();
        let layout = Layout::at(Version::V2, place.clone(), place.clone());
        let mut groups = Groups::new(layout, CgroupPath::new(b"node").unwrap());
        let why = Unavailable::Unreadable { what: "the tree of control groups" };
        assert_eq!(look(&mut groups, 0), Err(why));
        make(&place, "node", 5);
        assert_eq!(look(&mut groups, 5_000), Ok(vec![(5, false)]));
    }
}
