//! What a node daemon tells: the loop writes here after every tick, the server reads.
//!
//! The loop only copies numbers; text and messages are made on request, so that a daemon
//! without readers pays next to nothing for being able to answer. Everything kept is bounded: an
//! hour of points, the last changes and the last notes of each workload.
//!
//! `Board` is shared by reference. Its lock is held for as long as it takes to copy, never while
//! anything is written to a file or a socket.

mod entry;
mod health;
mod history;
mod lookup;
mod story;
mod tally;
mod telemetry;
mod view;
mod wishes;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use walras_core::market::{Fairness, Mode};
use walras_core::node::{Loop, MachineUse, Node, Outcome, WorkloadFacts};
use walras_core::units::{Millicores, Ratio, Span, WorkloadUid};
use walras_wire::state::{ChangeResult, Explanation, History, NodeState};
use walras_wire::telemetry::NodeTelemetry;

use crate::beside::Beside;
use entry::Entry;
pub use health::Health;
use history::Hour;
pub use lookup::LookupError;
pub use tally::{BUCKETS_US, Duration, Tally};
pub use telemetry::MarketNow;

/// Who is telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The daemon's version.
    pub version: String,
    /// The machine's name.
    pub host: String,
    /// The profile its constants started from.
    pub profile: String,
    /// Whether it changes anything, or only watches.
    pub acting: bool,
}

/// What a person knows a workload by, and what it came with.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadLabel {
    /// What a person calls it.
    pub name: String,
    /// Where it comes from.
    pub kind: WorkloadKind,
    /// The limit it came with; nothing where it came without.
    pub original_limit: Option<Millicores>,
    /// The latency target, if it has one.
    pub target_latency_ms: Option<f64>,
}

/// What a workload's owner set on it while it was sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerSet {
    /// When that was noticed, in milliseconds since 1970.
    pub at_ms: u64,
    /// The limit it would have got back before; nothing for none.
    pub from: Option<Millicores>,
    /// The limit it gets back from now on. Where that is the same, something else was set.
    pub to: Option<Millicores>,
}

/// Where a workload comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadKind {
    /// Made by Walras itself.
    Walras,
    /// A container of Docker.
    Docker,
    /// A container of Podman.
    Podman,
    /// A service or scope of systemd.
    Systemd,
    /// A cgroup that the configuration names by its path.
    Path,
    /// A pod of Kubernetes.
    Kubernetes,
}

/// How long the parts of one tick took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Reading counters.
    pub sampling: Span,
    /// Deciding.
    pub deciding: Span,
    /// Carrying out what was decided.
    pub acting: Span,
}

/// What a node daemon tells.
#[derive(Debug)]
pub struct Board {
    inner: Mutex<Inner>,
    started: Instant,
    beside: OnceLock<Arc<dyn Beside>>,
}

/// What is known, behind the lock.
#[derive(Debug)]
struct Inner {
    identity: Identity,
    problems: Vec<String>,
    notes: Vec<String>,
    /// What has to happen before what is told means something.
    waits_for: Option<&'static str>,
    /// In uid order, as the node has them.
    entries: Vec<Entry>,
    hour: Hour,
    tally: Tally,
    market: Market,
    /// What was last seen of the whole machine, where somebody looks.
    telemetry: Option<NodeTelemetry>,
    at_ms: u64,
    last_tick: Option<Instant>,
}

/// How the market stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Market {
    capacity: Millicores,
    limit_budget: Millicores,
    fairness: Fairness,
    mode: Mode,
    price: Ratio,
    multiplier: Ratio,
    /// What the machine did in its last second, where that is known.
    machine: Option<MachineUse>,
    /// What others use that are not sized.
    unmanaged: Option<Millicores>,
    /// With less idle CPU than this, it is scarce.
    guard: Millicores,
    /// How often the loop ticks.
    interval: Span,
}

// === impl Board: facts ===

impl Board {
    /// A board on which nothing stands yet.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        let (inner, started) = (Mutex::new(Inner::new(identity)), Instant::now());
        Self { inner, started, beside: OnceLock::new() }
    }

    /// Something runs beside the daemon, and is told of from now on. Said once.
    pub fn set_beside(&self, beside: Arc<dyn Beside>) {
        // The second time changes nothing.
        self.beside.set(beside).ok();
    }

    /// What runs beside the daemon, if anything does.
    #[must_use]
    pub fn beside(&self) -> Option<&Arc<dyn Beside>> {
        self.beside.get()
    }

    /// The daemon was configured anew.
    pub fn set_identity(&self, identity: Identity) {
        self.lock().identity = identity;
    }

    /// What a person should know, in sentences, the most urgent first; replaces what was there.
    pub fn set_problems(&self, problems: Vec<String>) {
        self.lock().problems = problems;
    }

    /// What the settings say without effect, in sentences; replaces what was there. That is no
    /// problem: no one has to be woken up for it.
    pub fn set_notes(&self, notes: Vec<String>) {
        self.lock().notes = notes;
    }

    /// What has to happen before the daemon is ready; nothing once it has happened.
    pub fn set_waits_for(&self, what: Option<&'static str>) {
        self.lock().waits_for = what;
    }

    /// A workload was adopted, or came back with other facts.
    pub fn workload_added(&self, facts: &WorkloadFacts, label: WorkloadLabel) {
        let mut inner = self.lock();
        let entry = Entry::new(facts, label);
        match inner.find(&facts.uid) {
            Ok(place) => inner.entries[place].replace_by(entry),
            Err(place) => inner.entries.insert(place, entry),
        }
    }

    /// The owner of a workload set something on it.
    pub fn owner_set(&self, uid: &WorkloadUid, set: OwnerSet) {
        let mut inner = self.lock();
        if let Ok(place) = inner.find(uid) {
            inner.entries[place].owner_set = Some(set);
        }
    }

    /// A workload is gone.
    pub fn workload_removed(&self, uid: &WorkloadUid) {
        let mut inner = self.lock();
        if let Ok(place) = inner.find(uid) {
            inner.entries.remove(place);
        }
    }

    /// The counters of a workload could not be read.
    pub fn read_failed(&self, _uid: &WorkloadUid) {
        self.lock().tally.read_errors += 1;
    }

    /// A change could not be made at once, and was asked for instead.
    pub fn asked_instead(&self) {
        self.lock().tally.asked_instead += 1;
    }

    /// What was asked for and is not in force yet was seen to be in force.
    pub fn took_effect(&self, uid: &WorkloadUid) {
        let mut inner = self.lock();
        inner.tally.changes += 1;
        if let Ok(place) = inner.find(uid) {
            inner.entries[place].took_effect();
        }
    }

    /// A tick took so long.
    pub fn tick_took(&self, tick: Loop, took: Took) {
        self.lock().tally.took(tick, took);
    }

    /// A tick was made and carried out. `results` says what became of each action of `outcome`, in
    /// the same order; `at_unix_ms` is the time of day.
    pub fn ticked(
        &self,
        node: &Node,
        outcome: &Outcome,
        results: &[(WorkloadUid, ChangeResult)],
        at_unix_ms: u64,
    ) {
        let mut inner = self.lock();
        inner.last_tick = Some(Instant::now());
        inner.ticked(node, outcome, results, at_unix_ms);
    }
}

// === impl Board: queries ===

impl Board {
    /// The whole node.
    #[must_use]
    pub fn state(&self) -> NodeState {
        let uptime_s = self.started.elapsed().as_secs();
        let inner = self.lock();
        let mut state = view::node(&inner, uptime_s);
        match self.health_of(&inner) {
            Health::Fine => {}
            sick @ (Health::NeverTicked | Health::Late(_)) => {
                state.problems.insert(0, format!("Nothing is decided any more: {sick}."));
            }
        }
        state
    }

    /// Why a workload has what it has. It goes by its uid, or by its name if no other workload has
    /// it.
    pub fn explain(&self, asked: &str) -> Result<Explanation, LookupError> {
        let inner = self.lock();
        let entry = lookup::look_up(&inner.entries, asked)?;
        Ok(view::explanation(&inner, entry))
    }

    /// The last hour of a workload, or of the whole node.
    pub fn history(&self, asked: Option<&str>) -> Result<History, LookupError> {
        let inner = self.lock();
        Ok(match asked {
            Some(asked) => inner.hour.of_workload(&lookup::look_up(&inner.entries, asked)?.points),
            None => inner.hour.of_node(),
        })
    }

    /// How long ago the loop last ticked; nothing if it never did.
    #[must_use]
    pub fn last_tick_age(&self) -> Option<Span> {
        let last = self.lock().last_tick?;
        Some(Span::from_us(u64::try_from(last.elapsed().as_micros()).unwrap_or(u64::MAX)))
    }

    /// Whether the loop still ticks.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health_of(&self.lock())
    }

    /// What the daemon waits for before it is ready.
    #[must_use]
    pub fn waits_for(&self) -> Option<&'static str> {
        let inner = self.lock();
        let cleared = inner.tally.slow_ticks > 0;
        inner.waits_for.or((!cleared).then_some("the market was not cleared yet"))
    }

    /// The machine's name.
    #[must_use]
    pub fn host(&self) -> String {
        self.lock().identity.host.clone()
    }

    /// Everything that is counted.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.lock().tally.clone()
    }

    fn health_of(&self, inner: &Inner) -> Health {
        let last_tick = inner.last_tick.map(|last| last.elapsed());
        health::judge(last_tick, self.started.elapsed(), inner.market.interval)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked while holding the lock left numbers that are at worst a tick old.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    fn new(identity: Identity) -> Self {
        Self {
            identity,
            problems: Vec::new(),
            notes: Vec::new(),
            waits_for: None,
            entries: Vec::new(),
            hour: Hour::default(),
            tally: Tally::default(),
            market: Market::default(),
            telemetry: None,
            at_ms: 0,
            last_tick: None,
        }
    }

    fn find(&self, uid: &WorkloadUid) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.uid.cmp(uid))
    }

    fn ticked(
        &mut self,
        node: &Node,
        outcome: &Outcome,
        results: &[(WorkloadUid, ChangeResult)],
        at_ms: u64,
    ) {
        self.at_ms = at_ms;
        self.market = Market::of(node);
        self.tally.ticked(outcome);
        for (place, action) in outcome.actions.iter().enumerate() {
            let result = result_of(results, place, &action.uid);
            self.tally.changed(&result);
            if let Ok(place) = self.find(&action.uid) {
                self.entries[place].changed(action, outcome.tick, result, at_ms);
            }
        }
        for note in &outcome.notes {
            let about = note.about().and_then(|uid| self.find(uid).ok());
            if let Some(place) = about {
                self.entries[place].noticed(note, at_ms);
            }
        }
        self.look_at(node, outcome.tick);
        let Self { entries, hour, market, .. } = self;
        hour.passed(at_ms, market.price, entries);
    }

    /// Copies what is known of each workload. Both sides are in uid order, so one pass does.
    fn look_at(&mut self, node: &Node, tick: Loop) {
        let mut entries = self.entries.iter_mut().peekable();
        for report in node.workloads() {
            // Names are shared with the node, so that to find them equal takes no reading of them.
            if entries.peek().is_none_or(|entry| entry.uid != *report.uid) {
                while entries.next_if(|entry| entry.uid < *report.uid).is_some() {}
            }
            if let Some(entry) = entries.next_if(|entry| entry.uid == *report.uid) {
                entry.look_at(&report, tick);
            }
        }
    }
}

/// What became of the action at `place`. A driver that says nothing about it did nothing.
fn result_of(
    results: &[(WorkloadUid, ChangeResult)],
    place: usize,
    uid: &WorkloadUid,
) -> ChangeResult {
    let told = results
        .get(place)
        .filter(|(told, _)| told == uid)
        .or_else(|| results.iter().find(|(told, _)| told == uid));
    match told {
        Some((_, result)) => result.clone(),
        None => ChangeResult::Failed("it was not carried out".to_owned()),
    }
}

// === impl Market ===

impl Market {
    fn of(node: &Node) -> Self {
        Self {
            capacity: node.capacity(),
            limit_budget: node.limit_budget(),
            fairness: node.profile().fairness,
            mode: node.mode(),
            price: node.price(),
            multiplier: node.multiplier(),
            machine: node.machine_use(),
            unmanaged: node.unmanaged(),
            guard: node.guard(),
            interval: node.profile().fast_loop_interval_ms,
        }
    }
}

impl Default for Market {
    fn default() -> Self {
        Self {
            capacity: Millicores::ZERO,
            limit_budget: Millicores::ZERO,
            fairness: Fairness::Nash,
            mode: Mode::Uncongested,
            price: Ratio::ZERO,
            multiplier: Ratio::ZERO,
            machine: None,
            unmanaged: None,
            guard: Millicores::ZERO,
            interval: Span::ZERO,
        }
    }
}

// === impl WorkloadKind ===

impl WorkloadKind {
    /// The name a user reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Walras => "walras",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Systemd => "systemd",
            Self::Path => "path",
            Self::Kubernetes => "kubernetes",
        }
    }
}
