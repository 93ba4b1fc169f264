//! The outside of a plain host: workloads are cgroups, and acting is writing to them.
//!
//! What a workload came with is in the store, on the disk, before anything is written to it. A
//! workload that only is watched is never written to. What is adopted is remembered by the kernel's
//! own identity of the group, so one that is made anew under the same path is a new workload.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::warn;
use walras_cgroup::{
    Adopted, CgroupError, CgroupPath, Group, Identity, Layout, Original, Settings, Target,
    WalkLimits, ceiling, walk,
};
use walras_core::claim::{Ground, claim};
use walras_core::demand::Sample;
use walras_core::node::{Action, MachineSample, PodFacts};
use walras_core::profile::CapRule;
use walras_core::request::RequestRule;
use walras_core::units::{Millicores, Moment, PodUid, WorkloadKey};

use super::clock::Clock;
use super::cpus::cpus_online;
use super::handle::{Batch, Handle};
use super::known::known;
use super::machine::Machine;
use super::outside::{Arrival, Carried, Change, Outside, Trouble};
use crate::adopt::{AdoptRules, Adoption, Judged, judge, read_marks, recognise};
use crate::board::PodLabel;
use crate::latency::{self, LatencyTerms, Questions};
use crate::store::Store;

/// No tree of cgroups that people make is larger.
const LIMITS: WalkLimits = WalkLimits { depth: 10, groups: 20_000 };
/// Every workload's settings are compared with what was set this often, a few at each look.
const LOOKS_PER_ROUND: usize = 60;
/// What a workload may have at least in the documents' market.
const BASELINE: Millicores = Millicores::new(100);
/// More problems than this are not listed.
const PROBLEMS_MAX: usize = 20;

/// On which terms workloads are sized.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Whether anything is changed.
    pub act: bool,
    /// What there is to divide; the machine's CPUs where nothing is said.
    pub capacity: Option<Millicores>,
    /// Which cgroups are workloads.
    pub adopt: AdoptRules,
    /// What becomes of a grant.
    pub cap_rule: CapRule,
    /// How latency targets are judged.
    pub latency: LatencyTerms,
}

/// The workloads of this machine.
#[derive(Debug)]
pub struct Cgroups {
    layout: Layout,
    terms: Terms,
    store: Store,
    held: BTreeMap<PodUid, Held>,
    /// What was decided about each cgroup, and at which look it was last there.
    judged: BTreeMap<Identity, (Standing, u64)>,
    looks: u64,
    /// What cgroups came with, from before this daemon started.
    originals: BTreeMap<Identity, Original>,
    clock: Clock,
    machine: Machine,
    problems: BTreeMap<CgroupPath, String>,
    walk_problem: Option<String>,
    capacity: Millicores,
    /// Whose settings are compared next.
    next_compared: Option<PodUid>,
    /// What Prometheus is asked, and what is wrong with its answers.
    questions: Arc<Questions>,
}

/// How a cgroup stands.
#[derive(Clone, Debug)]
enum Standing {
    Workload(PodUid),
    LookBelow,
    Covered,
}

/// A workload.
#[derive(Debug)]
struct Held {
    handle: Handle,
    identity: Identity,
    /// The limit that is in force, as far as is known.
    limit: Millicores,
    /// Its latency target, if it has one.
    judged: Option<latency::Judged>,
}

/// A workload that was found and is not held yet.
struct Fresh {
    handle: Handle,
    adoption: Box<Adoption>,
    settings: Settings,
}

// === impl Cgroups ===

impl Cgroups {
    /// The machine with this layout. `origin` is what the clock shows now; `originals` is what
    /// cgroups came with, from before.
    #[must_use]
    pub fn new(
        layout: Layout,
        terms: Terms,
        store: Store,
        originals: Vec<Original>,
        origin: Moment,
    ) -> Self {
        let originals = originals.into_iter().map(|it| (it.identity, it)).collect();
        let capacity = terms.capacity.unwrap_or_else(cpus_online);
        let machine = Machine::of(&layout);
        Self {
            layout,
            terms,
            store,
            held: BTreeMap::new(),
            judged: BTreeMap::new(),
            looks: 0,
            originals,
            clock: Clock::start(origin),
            machine,
            problems: BTreeMap::new(),
            walk_problem: None,
            capacity,
            next_compared: None,
            questions: Arc::new(Questions::new(LatencyTerms::SETTINGS)),
        }
    }

    /// What Prometheus is to be asked, for whoever asks it.
    #[must_use]
    pub fn questions(&self) -> Arc<Questions> {
        Arc::clone(&self.questions)
    }

    /// The store.
    pub const fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Other terms from now on. Every workload is let go of, and found again by the next look;
    /// those that are not sized any more get back what they came with.
    pub fn set_terms(&mut self, terms: Terms) {
        self.capacity = terms.capacity.unwrap_or_else(cpus_online);
        self.terms = terms;
        self.judged.clear();
        self.problems.clear();
        for (uid, held) in std::mem::take(&mut self.held) {
            let Handle::Adopted(mut adopted) = held.handle else {
                continue;
            };
            if self.terms.act && self.is_still_wanted(uid.as_str()) {
                self.originals.insert(held.identity, adopted.original().clone());
            } else {
                self.give_back(&mut adopted);
            }
        }
    }

    /// Gives every workload back what it came with. Says how many have it back.
    pub fn restore_all(&mut self) -> usize {
        let mut count = 0;
        for held in std::mem::take(&mut self.held).into_values() {
            if let Handle::Adopted(mut adopted) = held.handle
                && self.give_back(&mut adopted)
            {
                count += 1;
            }
        }
        self.judged.clear();
        count
    }

    fn is_still_wanted(&self, path: &str) -> bool {
        let rules = &self.terms.adopt;
        recognise(rules, path).is_some_and(|seen| {
            matches!(judge(rules, &seen, &read_marks(rules, &seen)), Judged::Adopt(_))
        })
    }

    fn give_back(&mut self, adopted: &mut Adopted) -> bool {
        let identity = adopted.original().identity;
        match adopted.restore() {
            Ok(_) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => {
                warn!("{}: not given back: {error}", adopted.original().path);
                return false;
            }
        }
        if let Err(error) = self.store.forget_originals(&[identity]) {
            warn!("{error}");
        }
        true
    }

    /// What is to become of a cgroup that was not seen before.
    fn judge(&self, path: &CgroupPath) -> Judged {
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
    fn is_ours(&self, path: &CgroupPath) -> bool {
        self.layout.own().is_some_and(|own| own == path || own.is_below(path))
    }

    /// Opens a workload and reads what it has. Nothing is written.
    fn take(
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

    fn arrival(&mut self, fresh: Fresh) -> Arrival {
        let Fresh { handle, adoption, settings } = fresh;
        for complaint in &adoption.complaints {
            warn!(pod = adoption.uid, "{complaint}");
        }
        let group = handle.group();
        let above = ceiling(&self.layout, group.path()).ok().flatten();
        let limit = settings.max.limit_floor().unwrap_or(Millicores::UNLIMITED);
        let ground = Ground {
            cap_rule: self.terms.cap_rule,
            baseline: BASELINE,
            node: self.capacity,
            respect_limits: false,
        };
        let known = known(&adoption, &handle.original(&settings), above.map(|it| it.limit));
        let (came_with, claim) = (known.came_with, claim(&known, &ground));
        let uid = PodUid::new(&adoption.uid);
        let identity = group.identity();
        let judged = adoption.target_latency_ms.map(|target_ms| latency::Judged {
            uid: uid.clone(),
            name: adoption.name.clone(),
            source: adoption.source,
            target_ms,
        });
        self.held.insert(uid.clone(), Held { handle, identity, limit, judged });
        Arrival {
            facts: PodFacts {
                uid,
                workload: Some(WorkloadKey::new(&adoption.workload)),
                bounds: claim.bounds,
                weight: claim.weight,
                limit,
                request: None,
                came_with,
                nature: adoption.nature,
                request_rule: RequestRule::Kept,
            },
            label: PodLabel {
                name: adoption.name,
                kind: adoption.source.into(),
                original_limit: came_with.limit,
                target_latency_ms: adoption.target_latency_ms,
            },
        }
    }

    /// Finds what is new, and marks what is still there.
    fn find(&mut self, batch: &mut Batch) -> Vec<Fresh> {
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
    fn let_go(&mut self, changes: &mut Vec<Change>) {
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

    /// Tells the background who has a latency target.
    fn ask_prometheus(&self) {
        let judged = self.held.values().filter_map(|held| held.judged.clone());
        self.questions.set(self.terms.latency.question(judged));
    }

    /// Compares a few workloads' settings with what was set, each of them once in a while.
    fn compare(&mut self, changes: &mut Vec<Change>) {
        let count = self.held.len().div_ceil(LOOKS_PER_ROUND);
        let from = self.next_compared.take();
        let start = |uid: &PodUid| from.as_ref().is_some_and(|from| uid < from);
        let mut rest = self.held.iter_mut().skip_while(|(uid, _)| start(uid));
        for (uid, held) in rest.by_ref().take(count) {
            let Ok(settings) = held.handle.group().settings() else {
                continue;
            };
            let limit = settings.max.limit_floor().unwrap_or(Millicores::UNLIMITED);
            if limit != held.limit {
                held.limit = limit;
                changes.push(Change::Limited(uid.clone(), limit));
            }
        }
        self.next_compared = rest.next().map(|(uid, _)| uid.clone());
    }
}

impl Outside for Cgroups {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn unix_ms(&self) -> u64 {
        Clock::unix_ms()
    }

    fn capacity(&mut self) -> Millicores {
        self.capacity = self.terms.capacity.unwrap_or_else(cpus_online);
        self.capacity
    }

    fn look(&mut self) -> Vec<Change> {
        self.looks += 1;
        let mut batch = Batch::default();
        let mut fresh = self.find(&mut batch);
        let mut changes = Vec::new();
        if self.walk_problem.is_none() {
            self.let_go(&mut changes);
        }
        if !batch.0.is_empty()
            && let Err(error) = self.store.keep_originals(&batch.0)
        {
            // Without a way back nothing is touched. The next look tries again.
            warn!("{} workloads are left alone: {error}", batch.0.len());
            self.walk_problem = Some(format!("workloads are left alone: {error}"));
            let kept = |one: &Fresh| !batch.0.iter().any(|it| it.identity == one.identity());
            for left in fresh.iter().filter(|one| !kept(one)) {
                self.judged.remove(&left.identity());
            }
            fresh.retain(kept);
        }
        self.compare(&mut changes);
        changes.extend(fresh.into_iter().map(|it| Change::Came(Box::new(self.arrival(it)))));
        self.ask_prometheus();
        changes
    }

    fn sample(&mut self, uid: &PodUid, now: Moment) -> Result<Sample, Trouble> {
        let Some(held) = self.held.get(uid) else {
            return Err(Trouble::Gone);
        };
        match held.handle.group().sample(now) {
            Ok(sample) => Ok(sample),
            Err(error) if error.is_gone() => {
                self.held.remove(uid);
                Err(Trouble::Gone)
            }
            Err(error) => Err(Trouble::Unreadable(error.to_string())),
        }
    }

    fn machine(&mut self, now: Moment) -> Option<MachineSample> {
        self.machine.sample(now)
    }

    fn carry_out(&mut self, action: &Action) -> Carried {
        let Some(held) = self.held.get_mut(&action.uid) else {
            return Carried::Gone;
        };
        let adopted = match &mut held.handle {
            Handle::Watched(_) => return Carried::OnlyWatching(held.limit),
            Handle::Adopted(adopted) => adopted,
        };
        match adopted.apply(&Target::from(action)) {
            Ok(applied) => {
                held.limit = applied.now.max.limit_floor().unwrap_or(Millicores::UNLIMITED);
                match applied.held_by {
                    Some(above) => Carried::HeldAt(above.limit),
                    None => Carried::Done,
                }
            }
            Err(error) if error.is_gone() => {
                self.held.remove(&action.uid);
                Carried::Gone
            }
            Err(error) => {
                let settings = adopted.group().settings();
                let in_force =
                    settings.ok().map(|it| it.max.limit_floor().unwrap_or(Millicores::UNLIMITED));
                if let Some(limit) = in_force {
                    held.limit = limit;
                }
                Carried::Failed { because: error.to_string(), in_force }
            }
        }
    }

    fn problems(&self) -> Vec<String> {
        let each = self.problems.values().take(PROBLEMS_MAX).cloned();
        let unjudged = self.terms.latency.problem(&self.questions.get());
        let latency = unjudged.into_iter().chain(self.questions.problems());
        self.walk_problem.iter().cloned().chain(each).chain(latency).collect()
    }
}

fn is_covered(path: &CgroupPath, covering: &[CgroupPath]) -> bool {
    covering.iter().any(|above| path.is_below(above))
}

// === impl Fresh ===

impl Fresh {
    const fn identity(&self) -> Identity {
        self.handle.group().identity()
    }
}
