//! The outside of a plain host: workloads are cgroups, and acting is writing to them.
//!
//! What a workload came with is in the store, on the disk, before anything is written to it. A
//! workload that only is watched is never written to. What is adopted is remembered by the kernel's
//! own identity of the group, so one that is made anew under the same path is a new workload.

mod arrival;
mod caps;
mod check;
mod find;
mod give_back;
mod handle;
mod known;
mod owner;
mod records;
mod restore;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::warn;
use walras_cgroup::{Identity, Layout, Original, Settings, Target};
use walras_core::demand::Sample;
use walras_core::node::{Action, MachineSample};
use walras_core::profile::CapRule;
use walras_core::units::{Millicores, Moment, WorkloadUid};

pub use self::caps::Caps;
pub use self::check::{Check, Checked, Verdict, check};
use self::handle::{Batch, Handle};
use self::owner::ByOwner;
pub use self::records::{Due, Records};
pub use self::restore::restore_left_behind;
use self::waiting::Waiting;
use crate::adopt::{AdoptRules, Adoption, Engines, Marks, Seen, Source};
use crate::latency::{self, LatencyTerms};
use walras_node::drive::{Carried, Change, Clock, Machine, Outside, Trouble, cpus_online};
use walras_node::latency::Questions;
use walras_node::store::Store;

/// Every workload's settings are compared with what was set this often, a few at each look.
const LOOKS_PER_ROUND: usize = 60;
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
    held: BTreeMap<WorkloadUid, Held>,
    /// What was decided about each cgroup, and at which look it was last there.
    judged: BTreeMap<Identity, (Standing, u64)>,
    looks: u64,
    /// What cgroups came with that are not sized at the moment: from before this daemon started, or
    /// from before it was configured anew.
    originals: BTreeMap<Identity, Original>,
    /// The same, of an earlier daemon, while this one only watches: it writes nothing, not even
    /// what would give something back.
    earlier: BTreeMap<Identity, Original>,
    /// What could not be given back yet, and why, in sentences.
    owed: BTreeMap<Identity, String>,
    clock: Clock,
    machine: Machine,
    /// Who should be a workload and cannot be yet.
    waiting: BTreeMap<Identity, Waiting>,
    /// What the configuration names and is not looked at, in sentences.
    closed: Vec<String>,
    walk_problem: Option<String>,
    capacity: Millicores,
    /// Whose settings are compared next.
    next_compared: Option<WorkloadUid>,
    /// Whose owners were found to have changed them, and what that means is not told yet.
    overtaken: BTreeMap<WorkloadUid, ByOwner>,
    /// What Prometheus is asked, and what is wrong with its answers.
    questions: Arc<Questions>,
    /// Who asks container engines, once there is a container.
    engines: Option<Engines>,
    /// What some groups are permitted.
    caps: Arc<Caps>,
    /// What engines should have on record.
    records: Arc<Records>,
}

/// How a cgroup stands.
#[derive(Clone, Debug)]
enum Standing {
    Workload(WorkloadUid),
    /// There are no processes in it, and there may be at the next look.
    Empty,
    /// A container engine is being asked about it, and may have answered at the next look.
    Asked,
    /// It should be a workload and cannot be yet; why is among those that wait.
    Waits,
    LookBelow,
    Covered,
}

/// A workload.
#[derive(Debug)]
struct Held {
    handle: Handle,
    identity: Identity,
    adoption: Box<Adoption>,
    /// What its engine told of it, if it is a container.
    told: Option<(Seen, Marks)>,
    /// Whose it is.
    user: u32,
    /// The limit that is in force, as far as is known.
    limit: Millicores,
    /// Its latency target, if it has one.
    judged: Option<latency::Judged>,
    /// What it is permitted, as the market was last told.
    cap: Option<Millicores>,
}

/// A workload that was found and is not held yet.
struct Fresh {
    handle: Handle,
    adoption: Box<Adoption>,
    told: Option<(Seen, Marks)>,
    user: u32,
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
        let on_record = originals.into_iter().map(|it| (it.identity, it)).collect();
        let none = BTreeMap::new();
        let (originals, earlier) = if terms.act { (on_record, none) } else { (none, on_record) };
        let capacity = terms.capacity.unwrap_or_else(cpus_online);
        let machine = Machine::of(&layout);
        let records = Arc::new(Records::new(layout.clone()));
        Self {
            layout,
            terms,
            store,
            held: BTreeMap::new(),
            judged: BTreeMap::new(),
            looks: 0,
            originals,
            earlier,
            clock: Clock::start(origin),
            machine,
            owed: BTreeMap::new(),
            waiting: BTreeMap::new(),
            closed: Vec::new(),
            walk_problem: None,
            capacity,
            next_compared: None,
            overtaken: BTreeMap::new(),
            questions: Arc::new(Questions::new(LatencyTerms::SETTINGS)),
            engines: None,
            caps: Arc::default(),
            records,
        }
    }

    /// Permits of some groups, which may change at any time.
    #[must_use]
    pub fn caps(&self) -> Arc<Caps> {
        Arc::clone(&self.caps)
    }

    /// What engines should have on record about limits, for whoever tells them.
    #[must_use]
    pub fn records(&self) -> Arc<Records> {
        Arc::clone(&self.records)
    }

    /// What Prometheus is to be asked, for the thread that asks it.
    #[must_use]
    pub fn questions(&self) -> Arc<Questions> {
        Arc::clone(&self.questions)
    }

    /// The store.
    pub const fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Other terms from now on. Every workload is let go of, and the next look finds again who is
    /// still one; the others get back what they came with then.
    pub fn set_terms(&mut self, terms: Terms) {
        self.capacity = terms.capacity.unwrap_or_else(cpus_online);
        self.terms = terms;
        if self.terms.act {
            self.originals.append(&mut self.earlier);
        }
        self.judged.clear();
        self.waiting.clear();
        for held in std::mem::take(&mut self.held).into_values() {
            // Labels last as long as a container does, so its engine need not be asked again.
            if let (Some(engines), Some((seen, marks))) = (&self.engines, held.told) {
                engines.remember(&seen, marks);
            }
            if let Handle::Adopted(mut adopted) = held.handle {
                self.settle_with_owner(&mut adopted);
                self.originals.insert(held.identity, adopted.original().clone());
            }
        }
    }

    /// That an earlier daemon's changes are still in force, if they are, and how to undo them.
    fn changed_earlier(&self) -> Option<String> {
        let count = self.earlier.len();
        (count > 0).then(|| {
            format!(
                "{count} workloads still have what an earlier run set, and this one only watches; \
                 `walras host --restore-only` gives back what they came with"
            )
        })
    }

    /// How many workloads keep what was set if nothing is given back.
    pub fn changed_count(&self) -> usize {
        let adopted = self.held.values().filter(|it| matches!(it.handle, Handle::Adopted(_)));
        adopted.count() + self.originals.len() + self.earlier.len()
    }

    /// Tells the background who has a latency target.
    fn ask_prometheus(&self) {
        let judged = self.held.values().filter_map(|held| held.judged.clone());
        self.questions.set(self.terms.latency.question(judged));
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
            self.give_back_left_over();
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
        self.take_caps(&mut changes);
        self.records.keep_only(&self.held.keys().map(WorkloadUid::as_str).collect());
        changes.extend(fresh.into_iter().map(|it| Change::Came(Box::new(self.arrival(it)))));
        self.ask_prometheus();
        changes
    }

    fn sample(&mut self, uid: &WorkloadUid, now: Moment) -> Result<Sample, Trouble> {
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
        if matches!(held.handle, Handle::Watched(_)) {
            return Carried::OnlyWatching(held.limit);
        }
        let ours = held.is_written_for_us(&self.records, &action.uid);
        match if ours { Ok(None) } else { held.owners_change(&mut self.store) } {
            Ok(None) => {}
            Ok(Some(change)) => {
                held.limit = limit_of(&change.in_force);
                self.overtaken.insert(action.uid.clone(), change);
                return Carried::Overtaken(held.limit);
            }
            Err(error) if error.is_gone() => {
                self.held.remove(&action.uid);
                return Carried::Gone;
            }
            Err(error) => {
                return Carried::Failed { because: error.to_string(), in_force: None };
            }
        }
        let Handle::Adopted(adopted) = &mut held.handle else {
            return Carried::OnlyWatching(held.limit);
        };
        if let Some(container) = recorded_as(&held.adoption, held.told.as_ref()) {
            let path = adopted.group().path();
            self.records.sets(&action.uid, container, path, action.limit);
        }
        match adopted.apply(&target_of(action)) {
            Ok(applied) => {
                held.limit = limit_of(&applied.now);
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
                let in_force = settings.ok().map(|settings| limit_of(&settings));
                if let Some(limit) = in_force {
                    held.limit = limit;
                }
                Carried::Failed { because: error.to_string(), in_force }
            }
        }
    }

    fn problems(&self) -> Vec<String> {
        let waiting = self.waiting.values().map(|waiting| &waiting.because);
        let each = self.owed.values().chain(&self.closed).chain(waiting);
        let each = each.take(PROBLEMS_MAX).cloned();
        let unjudged = self.terms.latency.problem(&self.questions.get());
        let latency = unjudged.into_iter().chain(self.questions.problems());
        let first = self.walk_problem.iter().cloned().chain(self.changed_earlier());
        first.chain(each).chain(latency).collect()
    }
}

/// What its engine knows a container by, where that engine keeps a limit on record for us: those
/// that this host made.
fn recorded_as<'a>(adoption: &Adoption, told: Option<&'a (Seen, Marks)>) -> Option<&'a str> {
    let (seen, marks) = told?;
    let kept = adoption.source == Source::Docker && marks.made_here;
    kept.then_some(&*seen.id)
}

/// What an action sets on a group.
const fn target_of(action: &Action) -> Target {
    Target { limit: Some(action.limit), weight: Some(action.weight), burst: Some(action.burst) }
}

/// The limit that these settings are.
fn limit_of(settings: &Settings) -> Millicores {
    settings.max.limit_floor().unwrap_or(Millicores::UNLIMITED)
}

// === impl Fresh ===

impl Fresh {
    const fn identity(&self) -> Identity {
        self.handle.group().identity()
    }
}
