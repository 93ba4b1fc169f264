//! One node's market as a state machine: what the host daemon, the Kubernetes agent and the
//! simulator drive.
//!
//! Facts come in by methods named after what happened. The two ticks yield actions, notes and the
//! time of the next tick, as plain data. The fast tick raises the limits of workloads that are held
//! back; the slow tick clears the market and moves requests, weights and limits.
//!
//! After every slow tick: requests add up to at most capacity, and limits to at most capacity
//! times the over-commit. A workload that arrives with more is brought back by the next slow tick,
//! or, if that takes a larger step than the controller accepts, by as many as it takes. A fast tick
//! only raises, and only within the room the limits leave. There is never an action for a workload
//! that is gone, and there is always a wake-up time.

mod bidding;
mod contain;
mod elastic;
mod fact;
mod fast;
mod idle;
mod note;
mod request;
mod serve;
mod slow;
mod why;
mod workload;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::claim::{CameWith, Nature};
use crate::demand::Sample;
use crate::learn::QTable;
use crate::market::Mode;
use crate::need::Bounds;
use crate::profile::{CapRule, Profile, WeightSource};
use crate::request::{RequestRule, UseRecord};
use crate::smooth::weight::KernelWeight;
use crate::units::{FamilyKey, Millicores, Moment, Ratio, Weight, WorkloadUid};

pub use fact::Fact;
use idle::Machine;
pub use idle::{MachineSample, MachineUse};
pub use note::Note;
use request::Uses;
pub use why::{RestsOn, Why};
use workload::Workload;
pub use workload::{Containment, InForce, RequestReport, WorkloadReport};

/// More notes than this between two ticks are counted, not kept.
const NOTES_MAX: usize = 1024;
/// With more learned tables than this, those of families without a workload are forgotten, and no
/// more are restored.
const TABLES_MAX: usize = 4096;

/// One node's market.
#[derive(Clone, Debug)]
pub struct Node {
    profile: Profile,
    capacity: Millicores,
    /// In uid order, which is the order the market wants its bids in. Boxed, since workloads come
    /// in any order and what is large is slow to make room for.
    #[expect(clippy::vec_box, reason = "see above")]
    workloads: Vec<Box<Workload>>,
    tables: BTreeMap<FamilyKey, QTable>,
    uses: Uses,
    allocatable: Option<Allocatable>,
    machine: Machine,
    mode: Mode,
    price: Ratio,
    multiplier: Ratio,
    cleared: bool,
    /// The latest moment seen. Time never runs backwards in here, whatever the clock does.
    now: Moment,
    last_fast: Moment,
    last_slow: Moment,
    /// A raise found no room: the market should be cleared without waiting for the slow loop.
    clear_wanted: bool,
    /// A workload arrived and has no standing weight yet, which makes it next to nothing beside
    /// those that have one: the market is to be cleared at once.
    joined: bool,
    notes: Vec<Note>,
    notes_dropped: u64,
}

/// What is known of a workload when it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadFacts {
    /// Its name for as long as it lives.
    pub uid: WorkloadUid,
    /// What its learned table is kept under; its uid where there is nothing better.
    pub family: Option<FamilyKey>,
    /// The least and the most it may be granted.
    pub bounds: Bounds,
    /// What its claim counts for.
    pub weight: Weight,
    /// The limit in force when it arrives; `Millicores::UNLIMITED` where there is none.
    pub limit: Millicores,
    /// The request in force; its min where that is not known.
    pub request: Option<Millicores>,
    /// What it came with before anybody sized it.
    pub came_with: CameWith,
    /// What kind of work it does, as far as its owner said so.
    pub nature: Nature,
    /// What becomes of its request where caps are loose.
    pub request_rule: RequestRule,
}

/// What requests of a node may add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocatable {
    /// What the node has for workloads, whatever is kept back of it.
    pub size: Millicores,
    /// What those request that are not sized.
    pub set_aside: Millicores,
}

/// Which of the two loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loop {
    /// Looks at hot workloads and only raises limits.
    Fast,
    /// Clears the market.
    Slow,
}

/// What is to be done to one workload, all of it at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The workload.
    pub uid: WorkloadUid,
    /// The cap to set.
    pub limit: Millicores,
    /// The guarantee to set.
    pub request: Millicores,
    /// The kernel's weight to set.
    pub weight: KernelWeight,
    /// The burst buffer to set; never above the limit.
    pub burst: Millicores,
    /// Why.
    pub why: Why,
}

/// What a tick decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Which loop ticked.
    pub tick: Loop,
    /// How the market stands.
    pub mode: Mode,
    /// The published price.
    pub price: Ratio,
    /// What to do, in uid order.
    pub actions: Vec<Action>,
    /// What was noticed, and what was wanted but not done.
    pub notes: Vec<Note>,
    /// When the next tick is due.
    pub wake_at: Moment,
    /// Which loop is due then.
    pub wake_for: Loop,
}

// === impl Node: facts ===

impl Node {
    /// A node without workloads.
    #[must_use]
    pub fn new(capacity: Millicores, profile: Profile) -> Self {
        Self {
            profile,
            capacity,
            workloads: Vec::new(),
            tables: BTreeMap::new(),
            uses: Uses::default(),
            allocatable: None,
            machine: Machine::default(),
            mode: Mode::Uncongested,
            price: Ratio::ZERO,
            multiplier: Ratio::ZERO,
            cleared: false,
            now: Moment::ORIGIN,
            last_fast: Moment::ORIGIN,
            last_slow: Moment::ORIGIN,
            clear_wanted: false,
            joined: false,
            notes: Vec::new(),
            notes_dropped: 0,
        }
    }

    /// The node has another capacity from now on.
    pub fn capacity_changed(&mut self, capacity: Millicores) {
        self.capacity = capacity;
        self.clear_wanted = true;
    }

    /// What requests may add up to is another from now on. Before this is told, it is the capacity.
    pub const fn allocatable_changed(&mut self, allocatable: Allocatable) {
        self.allocatable = Some(allocatable);
    }

    /// A workload arrived, or came back with other facts.
    pub fn workload_added(&mut self, facts: WorkloadFacts, now: Moment) {
        let now = self.time_passed(now);
        self.joined = true;
        match self.find(&facts.uid) {
            Ok(place) => {
                self.note(Note::WorkloadReplaced { uid: facts.uid.clone() });
                *self.workloads[place] = Workload::new(facts, &self.profile, now);
            }
            Err(place) => {
                self.workloads.insert(place, Box::new(Workload::new(facts, &self.profile, now)));
            }
        }
    }

    /// A workload is gone.
    pub fn workload_removed(&mut self, uid: &WorkloadUid) {
        match self.find(uid) {
            Ok(place) => {
                self.workloads.remove(place);
            }
            Err(_) => self.note(Note::UnknownWorkload { uid: uid.clone() }),
        }
    }

    /// A workload's counters were read.
    pub fn sampled(&mut self, uid: &WorkloadUid, sample: Sample) {
        let noted = match self.find(uid) {
            Ok(place) => self.workloads[place].sampled(sample, &self.profile),
            Err(_) => Some(Note::UnknownWorkload { uid: uid.clone() }),
        };
        if let Some(note) = noted {
            self.note(note);
        }
    }

    /// A workload was found to miss its latency target, or to meet it again.
    pub fn latency_judged(&mut self, uid: &WorkloadUid, missed: bool) {
        match self.find(uid) {
            Ok(place) => self.workloads[place].latency_missed = missed,
            Err(_) => self.note(Note::UnknownWorkload { uid: uid.clone() }),
        }
    }

    /// The limit last decided for a workload was seen to be in force.
    pub fn limit_took_effect(&mut self, uid: &WorkloadUid, at: Moment) {
        match self.find(uid) {
            Ok(place) => self.workloads[place].limit_took_effect(at),
            Err(_) => self.note(Note::UnknownWorkload { uid: uid.clone() }),
        }
    }

    /// A workload was found to have another limit than the one last decided: a change failed,
    /// changes are not carried out, or another process made one. What else is set on it is not
    /// known then, and the next clearing sets it again.
    pub fn limit_found(&mut self, uid: &WorkloadUid, limit: Millicores) {
        match self.find(uid) {
            Ok(place) => self.workloads[place].limit_found(limit),
            Err(_) => self.note(Note::UnknownWorkload { uid: uid.clone() }),
        }
    }

    /// A learned table was brought back from where it was saved.
    pub fn table_restored(&mut self, family: FamilyKey, saved: &[u8]) {
        if self.tables.len() >= TABLES_MAX && !self.tables.contains_key(&family) {
            self.note(Note::TooManyTables { family });
            return;
        }
        let seed = self.table_seed(&family);
        let (table, refused) = QTable::load(saved, seed, &self.learn_config());
        if let Some(because) = refused {
            self.note(Note::TableRefused { family: family.clone(), because });
        }
        self.tables.insert(family, table);
    }

    /// What a family used was brought back from where it was saved.
    pub fn use_restored(&mut self, family: FamilyKey, saved: &[u8]) {
        let records = &mut self.uses.records;
        if records.len() >= TABLES_MAX && !records.contains_key(&family) {
            self.note(Note::TooManyTables { family });
            return;
        }
        match UseRecord::load(saved) {
            Ok(record) => {
                records.insert(family, record);
            }
            Err(because) => self.note(Note::RecordRefused { family, because }),
        }
    }
}

// === impl Node: queries ===

impl Node {
    /// What the market runs with.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// What there is to divide.
    #[must_use]
    pub const fn capacity(&self) -> Millicores {
        self.capacity
    }

    /// What all limits together may reach.
    #[must_use]
    pub fn limit_budget(&self) -> Millicores {
        self.capacity.scale_floor(self.profile.overcommit)
    }

    /// How the market stood at the last clearing.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// The published price of the last clearing.
    #[must_use]
    pub const fn price(&self) -> Ratio {
        self.price
    }

    /// The solver's multiplier of the last clearing.
    #[must_use]
    pub const fn multiplier(&self) -> Ratio {
        self.multiplier
    }

    /// What is known of every workload, in uid order.
    pub fn workloads(&self) -> impl Iterator<Item = WorkloadReport<'_>> {
        self.workloads
            .iter()
            .map(|workload| workload.report(self.uses.records.get(&workload.family)))
    }

    /// The workloads to look at now: hot ones at every fast tick, quiet ones once per sampling
    /// interval.
    pub fn due_for_sample(&self, now: Moment) -> impl Iterator<Item = &WorkloadUid> {
        let quiet_interval = self.profile.sampling_interval_ms;
        let workloads = self.workloads.iter().map(Box::as_ref);
        workloads
            .filter(move |workload| workload.is_sample_due(quiet_interval, now))
            .map(Workload::uid)
    }

    /// The learned tables, by family.
    pub fn tables(&self) -> impl Iterator<Item = (&FamilyKey, &QTable)> {
        self.tables.iter()
    }

    /// What families used, by family.
    pub fn records(&self) -> impl Iterator<Item = (&FamilyKey, &UseRecord)> {
        self.uses.records.iter()
    }

    /// What requests may add up to, if that was told.
    #[must_use]
    pub const fn allocatable(&self) -> Option<Allocatable> {
        self.allocatable
    }

    /// When the next tick is due, and of which loop. What is overdue is due now.
    #[must_use]
    pub fn next_wake(&self) -> (Moment, Loop) {
        let profile = &self.profile;
        let stands =
            profile.cap_rule == CapRule::Loose && profile.weight_source == WeightSource::Standing;
        let slow_gap = if self.joined && stands {
            profile.fast_loop_interval_ms
        } else if self.clear_wanted {
            profile.clear_gap_ms.min(profile.slow_loop_interval_ms)
        } else {
            profile.slow_loop_interval_ms
        };
        let slow_at = self.last_slow + slow_gap;
        let fast_at = self.last_fast + self.profile.fast_loop_interval_ms;
        let (due_at, due) =
            if slow_at <= fast_at { (slow_at, Loop::Slow) } else { (fast_at, Loop::Fast) };
        (due_at.max(self.now), due)
    }
}

// === impl Node: shared by the ticks ===

impl Node {
    fn find(&self, uid: &WorkloadUid) -> Result<usize, usize> {
        self.workloads.binary_search_by(|workload| workload.uid().cmp(uid))
    }

    /// Takes note of the time. A clock that stepped back is held where it was.
    fn time_passed(&mut self, now: Moment) -> Moment {
        if now < self.now {
            self.note(Note::ClockWentBack { by: self.now.since(now) });
        }
        self.now = self.now.max(now);
        self.now
    }

    fn note(&mut self, note: Note) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        } else {
            self.notes_dropped += 1;
        }
    }

    fn outcome(&mut self, tick: Loop, actions: Vec<Action>) -> Outcome {
        let mut notes = core::mem::take(&mut self.notes);
        if self.notes_dropped > 0 {
            notes.push(Note::NotesDropped { count: core::mem::take(&mut self.notes_dropped) });
        }
        let (wake_at, wake_for) = self.next_wake();
        Outcome { tick, mode: self.mode, price: self.price, actions, notes, wake_at, wake_for }
    }

    fn limits_in_force(&self) -> Millicores {
        self.workloads.iter().map(|workload| workload.in_force.limit).sum()
    }
}

// === impl Loop ===

impl Loop {
    /// The name a user reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Slow => "slow",
        }
    }
}
