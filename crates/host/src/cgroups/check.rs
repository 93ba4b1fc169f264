//! Says what would be sized and why the rest would not be, for `walras host --check`.
//!
//! It looks as the daemon does, with the daemon's own rules, and writes nothing.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use walras_cgroup::{CgroupPath, Layout, walk_trusted};
use walras_core::units::{Millicores, Moment};
use walras_node::drive::Outside as _;
use walras_node::store::{Store, StoreError};

use super::find::LIMITS;
use super::{Cgroups, Standing, Terms};
use crate::adopt::{Source, recognise};

/// Container engines have this long to say what they know.
const PATIENCE: Duration = Duration::from_secs(5);
/// They are asked in the background; this long passes between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// What a look at the machine found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The groups that are workloads, or could be taken for one, by path.
    pub groups: Vec<Checked>,
    /// How many others there are, which are no workloads by their place and name.
    pub others: usize,
    /// What a person should know.
    pub problems: Vec<String>,
}

/// A group that could be a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Where it is.
    pub path: String,
    /// What it looks like by its place and name.
    pub source: Source,
    /// What would become of it.
    pub verdict: Verdict,
}

/// What would become of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would be sized.
    Sized {
        /// What a person calls it.
        name: String,
        /// The limit that is in force now; nothing where there is none.
        limit: Option<Millicores>,
    },
    /// It would be left alone, for this reason.
    Left(String),
}

/// Looks at the machine on these terms, and changes nothing.
///
/// # Errors
/// There is no memory for a store.
pub fn check(layout: Layout, terms: Terms) -> Result<Check, StoreError> {
    let terms = Terms { act: false, ..terms };
    let mut cgroups = Cgroups::new(layout, terms, Store::in_memory()?, Vec::new(), Moment::ORIGIN);
    let until = Instant::now() + PATIENCE;
    // The channel never speaks: this is a pause that needs no clock of its own.
    let (_silent, nobody) = mpsc::channel::<()>();
    cgroups.look();
    while cgroups.is_asking() && Instant::now() < until {
        let _elapsed = nobody.recv_timeout(PAUSE);
        cgroups.look();
    }
    Ok(cgroups.report())
}

impl Cgroups {
    fn is_asking(&self) -> bool {
        self.judged.values().any(|(standing, _)| matches!(standing, Standing::Asked))
    }

    fn report(&self) -> Check {
        let found = walk_trusted(&self.layout, &CgroupPath::ROOT, LIMITS);
        let found = found.map(|walk| walk.found).unwrap_or_default();
        let mut check = Check { groups: Vec::new(), others: 0, problems: self.problems() };
        for one in &found {
            let path = one.path.to_string();
            let Some(seen) = recognise(&self.terms.adopt, path.trim_start_matches('/')) else {
                check.others += 1;
                continue;
            };
            let verdict = self.verdict(&one.path, one.identity);
            check.groups.push(Checked { path, source: seen.source, verdict });
        }
        check
    }

    fn verdict(&self, path: &CgroupPath, identity: walras_cgroup::Identity) -> Verdict {
        let left = |why: &str| Verdict::Left(why.to_owned());
        match self.judged.get(&identity).map(|(standing, _)| standing) {
            Some(Standing::Workload(uid)) => self.held.get(uid).map_or_else(
                || left("it ended while it was looked at"),
                |held| Verdict::Sized {
                    name: held.adoption.name.clone(),
                    limit: (held.limit != Millicores::UNLIMITED).then_some(held.limit),
                },
            ),
            Some(Standing::Waits) => {
                let waiting = self.waiting.get(&identity);
                left(waiting.map_or("it cannot be sized yet", |waiting| &waiting.because))
            }
            Some(Standing::Empty) => left("there are no processes in it"),
            Some(Standing::Asked) => left("its engine has not said yet whether it may be sized"),
            Some(Standing::LookBelow) if self.is_ours(path) => left("walras itself runs in it"),
            Some(Standing::LookBelow) => left("this kind is sized only where it asks for it"),
            Some(Standing::Covered) if self.is_inside(path) => {
                left("it is inside of a workload, and sized with it")
            }
            Some(Standing::Covered) => left("it asks to be left alone, or a rule says so"),
            None => left("it came while the machine was looked at"),
        }
    }

    /// Whether a workload is above it.
    fn is_inside(&self, path: &CgroupPath) -> bool {
        self.held.values().any(|held| path.is_below(held.handle.group().path()))
    }
}
