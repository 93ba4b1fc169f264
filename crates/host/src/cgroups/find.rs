//! Looks for workloads: which cgroups there are, what was decided about each, and who went.
//!
//! Only what root made is looked at: a user who may make groups somewhere decides what they are
//! called and how many there are. A group without processes is no workload. What should be one and
//! cannot be yet is tried again, ever more rarely, and its reason is told until then.

use tracing::{debug, warn};
use walras_cgroup::{CgroupError, CgroupPath, Found, Group, Settings, WalkLimits, walk_trusted};
use walras_core::units::WorkloadUid;

use super::handle::{Batch, Handle};
use super::waiting::Waiting;
use super::{Cgroups, Fresh, Standing};
use crate::adopt::{
    Engines, Judged, Marks, Seen, Source, Told, judge, matters, read_marks, recognise, user_of,
};
use walras_node::drive::Change;

/// No tree of cgroups that people make is larger.
pub(super) const LIMITS: WalkLimits = WalkLimits { depth: 10, groups: 20_000 };
/// So many workloads are sized for one user who is not root.
const PER_USER_MAX: usize = 32;

impl Cgroups {
    /// Finds what is new, and marks what is still there.
    pub(super) fn find(&mut self, batch: &mut Batch) -> Vec<Fresh> {
        let mut fresh = Vec::new();
        let found = match walk_trusted(&self.layout, &CgroupPath::ROOT, LIMITS) {
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
        self.closed = self.closed_to_us(&found);
        // A path that is in the tree twice was made anew in between.
        let mut covering: Vec<CgroupPath> = Vec::new();
        for one in found {
            if let Some(covers) = self.stands(&one) {
                if covers {
                    covering.push(one.path);
                }
                continue;
            }
            let standing = if is_covered(&one.path, &covering) {
                Some(Standing::Covered)
            } else {
                self.decide(&one, batch, &mut fresh)
            };
            // Without one it went while it was looked at.
            if let Some(standing) = standing {
                self.tell_left_alone(&one, &standing);
                // Who is asked about once more waits as before.
                if !matches!(standing, Standing::Waits | Standing::Asked) {
                    self.waiting.remove(&one.identity);
                }
                if !matches!(standing, Standing::LookBelow) {
                    covering.push(one.path);
                }
                self.judged.insert(one.identity, (standing, self.looks));
            }
        }
        fresh
    }

    /// Says once, to who asks for it, that a group is no workload.
    fn tell_left_alone(&self, one: &Found, standing: &Standing) {
        let why = match standing {
            Standing::LookBelow => "it is no workload by its place and name",
            Standing::Empty => "there are no processes in it",
            Standing::Covered => "it asks for that, a rule says so, or it is inside of another",
            // The log says elsewhere what becomes of these.
            Standing::Workload(_) | Standing::Asked | Standing::Waits => return,
        };
        if !self.judged.contains_key(&one.identity) {
            debug!(group = %one.path, "left alone: {why}");
        }
    }

    /// Whether a cgroup about which there is nothing to decide now has everything below it to
    /// itself. Nothing if there is something to decide.
    fn stands(&mut self, one: &Found) -> Option<bool> {
        let (standing, look) = self.judged.get_mut(&one.identity)?;
        *look = self.looks;
        match standing {
            Standing::LookBelow => Some(false),
            Standing::Workload(_) | Standing::Covered => Some(true),
            Standing::Empty | Standing::Asked => None,
            Standing::Waits => {
                let due = self.waiting.get(&one.identity).is_none_or(|it| it.is_due(self.looks));
                (!due).then_some(true)
            }
        }
    }

    /// What is to become of a cgroup that was not seen before, or may be a workload by now. Nothing
    /// if it went.
    fn decide(
        &mut self,
        one: &Found,
        batch: &mut Batch,
        fresh: &mut Vec<Fresh>,
    ) -> Option<Standing> {
        let shown = one.path.to_string();
        let seen = recognise(&self.terms.adopt, shown.trim_start_matches('/'));
        let Some(seen) = seen.filter(|_| !self.is_ours(&one.path)) else {
            return Some(Standing::LookBelow);
        };
        let Some(told) = self.told(&seen) else {
            return Some(Standing::Asked);
        };
        let adoption = match judge(&self.terms.adopt, &seen, &told) {
            Judged::LookBelow => return Some(Standing::LookBelow),
            Judged::Leave => return Some(Standing::Covered),
            Judged::Unknown(because) => return Some(self.waits(one, because)),
            Judged::Adopt(adoption) => adoption,
        };
        let uid = WorkloadUid::new(&adoption.uid);
        let user = user_of(&adoption.uid, one.owner.uid);
        if user != 0 && self.count_of(user, fresh) >= PER_USER_MAX {
            let words = "workloads of this user are sized, and that is the most";
            let because =
                format!("{} of user {user} is left alone: {PER_USER_MAX} {words}", one.path);
            return Some(self.waits(one, because));
        }
        let made_here = matches!(&told, Told::Marks(marks) if marks.made_here);
        match self.open(&one.path, made_here, batch) {
            Ok(Some((handle, settings))) => {
                let told = told_by_an_engine(seen, told);
                fresh.push(Fresh { handle, adoption, told, user, settings });
                Some(Standing::Workload(uid))
            }
            Ok(None) => Some(Standing::Empty),
            Err(error) if error.is_gone() => None,
            Err(error) => Some(self.waits(one, error.to_string())),
        }
    }

    /// What it says about itself; nothing while that is being found out.
    fn told(&mut self, seen: &Seen) -> Option<Told> {
        if let Some(marks) = read_marks(seen) {
            return Some(Told::Marks(marks));
        }
        if !matters(&self.terms.adopt, seen) {
            return Some(Told::Unknown("no engine was asked".to_owned()));
        }
        if self.engines.is_none() {
            match Engines::start() {
                Ok(engines) => self.engines = Some(engines),
                Err(error) => {
                    return Some(Told::Unknown(format!("there is no thread to ask with: {error}")));
                }
            }
        }
        self.engines.as_ref().and_then(|engines| engines.told(&self.terms.adopt, seen))
    }

    /// Whether this daemon itself runs in it.
    pub(super) fn is_ours(&self, path: &CgroupPath) -> bool {
        self.layout.own().is_some_and(|own| own == path || own.is_below(path))
    }

    /// Opens a workload and reads what it has; nothing if there are no processes in it. Nothing is
    /// written, except that what was sized inside of it gets back what it came with.
    fn open(
        &mut self,
        path: &CgroupPath,
        made_here: bool,
        batch: &mut Batch,
    ) -> Result<Option<(Handle, Settings)>, CgroupError> {
        let group = Group::open(&self.layout, path)?;
        if !group.is_populated()? {
            return Ok(None);
        }
        // What it has inside is kept with it, and that must not be what was made of it.
        self.give_back_inside(path);
        let settings = group.settings()?;
        let handle = if !self.terms.act {
            Handle::Watched(Box::new(group))
        } else if let Some(original) = self.originals.get(&group.identity()) {
            let adopted = group.adopt_again(original.clone())?;
            self.originals.remove(&adopted.original().identity);
            Handle::Adopted(Box::new(adopted))
        } else {
            let mut adopted = group.adopt(batch)?;
            if made_here {
                // It is made without a limit; one that it comes with was put on record for us.
                adopted.came_without_limit(batch)?;
            }
            Handle::Adopted(Box::new(adopted))
        };
        Ok(Some((handle, settings)))
    }

    fn count_of(&self, user: u32, fresh: &[Fresh]) -> usize {
        let held = self.held.values().filter(|held| held.user == user).count();
        held + fresh.iter().filter(|fresh| fresh.user == user).count()
    }

    /// It is not a workload yet, for this reason.
    fn waits(&mut self, one: &Found, because: String) -> Standing {
        let before = self.waiting.get(&one.identity);
        if before.is_none_or(|before| before.because != because) {
            warn!("a workload cannot be sized: {because}");
        }
        let waiting = Waiting::since(before, self.looks, because);
        self.waiting.insert(one.identity, waiting);
        Standing::Waits
    }

    /// What the configuration names and is not looked at, in sentences.
    fn closed_to_us(&self, found: &[Found]) -> Vec<String> {
        let closed = found.iter().filter(|one| !one.owner.is_trusted());
        let paths = closed.map(|one| one.path.to_string());
        let named = paths.filter(|path| self.terms.adopt.names_below(path.trim_start_matches('/')));
        named
            .map(|path| {
                format!(
                    "nothing in {path} is sized, although the configuration names paths in it: \
                     others than root may make groups there"
                )
            })
            .collect()
    }

    /// Lets go of what was not seen at this look.
    pub(super) fn let_go(&mut self, changes: &mut Vec<Change>) {
        let mut gone = Vec::new();
        let Self { looks, held, waiting, .. } = self;
        self.judged.retain(|identity, (standing, seen)| {
            let there = *seen == *looks;
            if !there {
                waiting.remove(identity);
            }
            if let (false, Standing::Workload(uid)) = (there, standing) {
                // Also if that was noticed before, by reading or setting it.
                gone.push(*identity);
                if held.get(uid).is_some_and(|held| held.identity == *identity) {
                    held.remove(uid);
                    changes.push(Change::Went(uid.clone()));
                }
            }
            there
        });
        if let Err(error) = self.store.forget_originals(&gone) {
            warn!("{error}");
        }
    }
}

/// What an engine told of a container, to be remembered.
fn told_by_an_engine(seen: Seen, told: Told) -> Option<(Seen, Marks)> {
    match (seen.source, told) {
        (Source::Docker | Source::Podman, Told::Marks(marks)) => Some((seen, marks)),
        (Source::Docker | Source::Podman, Told::Unknown(_))
        | (Source::Walras | Source::Systemd | Source::Path, _) => None,
    }
}

fn is_covered(path: &CgroupPath, covering: &[CgroupPath]) -> bool {
    covering.iter().any(|above| path.is_below(above))
}
