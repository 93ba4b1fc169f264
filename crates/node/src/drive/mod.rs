//! The loop of a node daemon: look, sample, tick, carry out, tell.
//!
//! Everything is decided in `core::node`; this loop tells it what happened, in order, and carries
//! out what it says. It runs in one thread and never waits for anybody: the board is told under a
//! lock that is only ever held to copy. A fact that the node is told is recorded first, so that a
//! recording replays to the same decisions.

mod clock;
mod cpus;
mod keep;
mod machine;
mod outside;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tracing::{debug, info, warn};
use walras_core::node::{Action, Fact, Loop, Node, Outcome};
use walras_core::units::{FamilyKey, Millicores, Moment, Span, WorkloadUid};
use walras_wire::replay::Event;
use walras_wire::state::ChangeResult;

use crate::board::{Board, OwnerSet, Took};
use crate::record::Recorder;

use self::tell::{Changes, tell_action, tell_notes};

pub use self::clock::Clock;
pub use self::cpus::cpus_online;
pub use self::keep::Keeper;
pub use self::machine::Machine;
pub use self::outside::{Arrival, Carried, Change, Outside, Owned, Trouble};

/// What is said of a change that was asked for and is not to be seen.
const LATE: &str = "what was asked for did not come into force in time";

/// The loop of one node.
#[derive(Debug)]
pub struct Drive<O> {
    node: Node,
    outside: O,
    board: Arc<Board>,
    recorder: Option<Recorder>,
    look_interval: Span,
    last_look: Option<Moment>,
    /// When counters were last read.
    last_read: Moment,
    /// What was last told of each workload while only watching, so that it is not told again and
    /// again: the limit that the fast and that the slow loop would set.
    told: BTreeMap<WorkloadUid, Wishes>,
    /// Whose counters are due; kept so that a quiet tick need not allocate.
    due: Vec<WorkloadUid>,
    results: Vec<(WorkloadUid, ChangeResult)>,
    /// What the log has not told yet.
    changes: Changes,
    alert: Option<String>,
}

impl<O: Outside> Drive<O> {
    /// A loop around `node`, which has no workloads yet.
    pub fn new(node: Node, outside: O, board: Arc<Board>, look_interval: Span) -> Self {
        Self {
            node,
            outside,
            board,
            recorder: None,
            look_interval,
            last_look: None,
            last_read: Moment::ORIGIN,
            told: BTreeMap::new(),
            due: Vec::new(),
            results: Vec::new(),
            changes: Changes::default(),
            alert: None,
        }
    }

    /// Records from now on. Nothing must have been told to the node before.
    pub fn record_to(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// The market.
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// The outside.
    pub const fn outside(&mut self) -> &mut O {
        &mut self.outside
    }

    /// Puts another node in the place of this one, for instance one with other constants. It starts
    /// with what was learned, and every workload arrives anew, with what is in force on it.
    ///
    /// `node` must be new, and `recorder` have nothing but what it was made with.
    pub fn start_over(&mut self, node: Node, recorder: Option<Recorder>) {
        // What the node was told since its last tick is part of its recording.
        self.flush_recording();
        let before = std::mem::replace(&mut self.node, node);
        self.recorder = recorder;
        self.told.clear();
        for (family, table) in before.tables() {
            self.restore_table(family.clone(), table.save().as_bytes());
        }
        for (family, record) in before.records() {
            self.restore_use(family.clone(), record.save().as_bytes());
        }
        let now = self.outside.now();
        self.last_look = Some(now);
        self.look(now);
        for workload in before.workloads() {
            if self.node.workloads().all(|here| here.uid != workload.uid) {
                info!(workload = %workload.uid, "a workload is not sized any more");
                self.board.workload_removed(workload.uid);
            }
        }
    }

    /// Lets somebody keep what the node learned.
    pub fn keep<T>(&mut self, keep: impl FnOnce(&Node, &mut O) -> T) -> T {
        keep(&self.node, &mut self.outside)
    }

    /// Brings back what was learned of a family, whenever that is found.
    pub fn restore_table(&mut self, family: FamilyKey, saved: &[u8]) {
        let now = self.outside.now();
        self.tell(Fact::TableRestored { family, saved: saved.to_vec() }, now);
    }

    /// Brings back what a family used, whenever that is found.
    pub fn restore_use(&mut self, family: FamilyKey, saved: &[u8]) {
        let now = self.outside.now();
        self.tell(Fact::UseRestored { family, saved: saved.to_vec() }, now);
    }

    /// A workload was found to miss its latency target, or to meet it again. It may be gone by the
    /// time it was judged.
    pub fn judge_latency(&mut self, uid: &WorkloadUid, missed: bool) {
        if self.node.workloads().all(|workload| workload.uid != uid) {
            return;
        }
        let now = self.outside.now();
        self.tell(Fact::LatencyJudged { uid: uid.clone(), missed }, now);
    }

    /// Something that a person should know, until it is taken back.
    pub fn set_alert(&mut self, alert: Option<String>) {
        self.alert = alert;
        self.tell_problems();
    }

    /// Another time between two looks.
    pub const fn set_look_interval(&mut self, interval: Span) {
        self.look_interval = interval;
    }

    /// Looks for workloads if that is due, ticks if that is or else reads counters, and says when
    /// to come back.
    pub fn step(&mut self) -> Moment {
        let now = self.outside.now();
        if self.last_look.is_none_or(|at| now.since(at) >= self.look_interval) {
            self.last_look = Some(now);
            self.look(now);
        }
        let (wake_at, tick) = self.node.next_wake();
        if now >= wake_at {
            self.tick(tick, now);
        } else if now >= self.read_at() {
            self.sample_due(now);
            self.flush_recording();
        }
        let (wake_at, _) = self.node.next_wake();
        let look_at = self.last_look.map_or(now, |at| at + self.look_interval);
        wake_at.min(look_at).min(self.read_at())
    }

    /// When counters are to be read although nothing ticks: ticks may be further apart than reads.
    fn read_at(&self) -> Moment {
        self.last_read + self.node.profile().sampling_interval_ms
    }

    fn look(&mut self, now: Moment) {
        let capacity = self.outside.capacity();
        if capacity != self.node.capacity() {
            info!(before = %self.node.capacity(), now = %capacity, "the capacity changed");
            self.tell(Fact::CapacityChanged(capacity), now);
        }
        if let Some(allocatable) = self.outside.allocatable()
            && self.node.allocatable() != Some(allocatable)
        {
            self.tell(Fact::AllocatableChanged(allocatable), now);
        }
        for change in self.outside.look() {
            match change {
                Change::Came(arrival) => self.came(*arrival, now),
                Change::Went(uid) => self.went(&uid, now),
                Change::Limited(uid, limit) => {
                    info!(workload = %uid, limit = %limit, "another process changed its limit");
                    self.limit_found(&uid, limit, now);
                }
                Change::Owned(owned) => self.owned(*owned, now),
                Change::Permitted(arrival) => self.permitted(*arrival, now),
                Change::Took(uid) => {
                    debug!(workload = %uid, "what was asked for is in force");
                    self.told.remove(&uid);
                    self.took_effect(&uid, now);
                    self.board.took_effect(&uid);
                }
                Change::Late(uid, limit) => {
                    warn!(workload = %uid, limit = %limit, "{LATE}, so this limit counts");
                    self.limit_found(&uid, limit, now);
                }
            }
        }
        self.tell_problems();
    }

    fn tell_problems(&self) {
        let alert = self.alert.iter().cloned();
        self.board.set_problems(alert.chain(self.outside.problems()).collect());
    }

    fn came(&mut self, arrival: Arrival, now: Moment) {
        let Arrival { mut facts, label } = arrival;
        // Where a limit was lowered and the request was not yet, the limit counts: that is what the
        // node makes of it, and a recording has no other.
        facts.request = facts.request.map(|request| request.min(facts.limit));
        info!(workload = %facts.uid, name = %label.name, limit = %facts.limit, "a workload came");
        self.board.workload_added(&facts, label);
        self.tell(Fact::WorkloadAdded(Box::new(facts)), now);
    }

    fn owned(&mut self, owned: Owned, now: Moment) {
        let Owned { arrival: Arrival { facts, label }, from, to } = owned;
        let shown = |limit: Option<Millicores>| limit.unwrap_or(Millicores::UNLIMITED);
        info!(
            workload = %facts.uid, before = %shown(from), limit = %shown(to),
            "its owner changed it, and that is what it gets back from now on"
        );
        let set = OwnerSet { at_ms: self.outside.unix_ms(), from, to };
        self.board.workload_added(&facts, label);
        self.board.owner_set(&facts.uid, set);
        self.tell(Fact::WorkloadAdded(Box::new(facts)), now);
    }

    fn permitted(&mut self, Arrival { facts, label }: Arrival, now: Moment) {
        let permit = facts.bounds.max();
        info!(workload = %facts.uid, permit = %permit, "it is permitted something else");
        self.board.workload_added(&facts, label);
        self.tell(Fact::WorkloadAdded(Box::new(facts)), now);
    }

    fn went(&mut self, uid: &WorkloadUid, now: Moment) {
        info!(workload = %uid, "a workload went");
        self.tell(Fact::WorkloadRemoved(uid.clone()), now);
        self.board.workload_removed(uid);
        self.told.remove(uid);
    }

    fn tick(&mut self, tick: Loop, now: Moment) {
        let began = Instant::now();
        self.sample_due(now);
        self.sample_machine();
        let sampled = Instant::now();
        let now = self.outside.now();
        let Some(mut outcome) = self.tell(Fact::Ticked(tick), now) else {
            return;
        };
        let decided = Instant::now();
        self.outside.set_price(self.node.price());
        self.carry_out(&mut outcome);
        tell_notes(&outcome);
        let at_unix_ms = self.outside.unix_ms();
        self.board.ticked(&self.node, &outcome, &self.results, at_unix_ms);
        self.board.tick_took(
            tick,
            Took {
                sampling: span(sampled - began),
                deciding: span(decided - sampled),
                acting: span(decided.elapsed()),
            },
        );
        self.flush_recording();
    }

    /// What the machine's own counters say, which tells whether CPU is scarce.
    fn sample_machine(&mut self) {
        let now = self.outside.now();
        if let Some(sample) = self.outside.machine(now) {
            self.tell(Fact::MachineSampled(sample), now);
        }
    }

    fn sample_due(&mut self, now: Moment) {
        self.last_read = now;
        self.due.clear();
        self.due.extend(self.node.due_for_sample(now).cloned());
        let due = std::mem::take(&mut self.due);
        for uid in &due {
            let at = self.outside.now();
            match self.outside.sample(uid, at) {
                Ok(sample) => drop(self.tell(Fact::Sampled(uid.clone(), sample), at)),
                Err(Trouble::Gone) => self.went(uid, at),
                Err(Trouble::Unreadable(because)) => {
                    self.board.read_failed(uid);
                    warn!(workload = %uid, "its counters cannot be read: {because}");
                }
            }
        }
        self.due = due;
    }

    /// Carries out every action, and takes those out of the outcome that were told before.
    fn carry_out(&mut self, outcome: &mut Outcome) {
        self.results.clear();
        self.changes.tell_if_due(self.outside.now());
        let tick = outcome.tick;
        for action in std::mem::take(&mut outcome.actions) {
            let carried = self.outside.carry_out(&action);
            let now = self.outside.now();
            let uid = action.uid.clone();
            match carried {
                Carried::Done => {
                    self.took_effect(&uid, now);
                    tell_action(&action, tick);
                    self.changes.add(&action, now);
                    self.results.push((uid, ChangeResult::Done));
                }
                Carried::Asked => {
                    tell_action(&action, tick);
                    self.changes.add(&action, now);
                    self.results.push((uid, ChangeResult::Asked));
                }
                Carried::AskedInstead { because, in_force } => {
                    warn!(
                        workload = %uid, limit = %action.limit,
                        "it could not be set at once and is asked for instead: {because}"
                    );
                    self.limit_found(&uid, in_force, now);
                    self.board.asked_instead();
                    self.results.push((uid, ChangeResult::Asked));
                }
                Carried::Late(limit) => {
                    self.limit_found(&uid, limit, now);
                    let told = self.told.entry(uid.clone()).or_default().of(tick);
                    if told.replace(action.limit) == Some(action.limit) {
                        continue;
                    }
                    self.results.push((uid, ChangeResult::Failed(LATE.to_owned())));
                }
                Carried::HeldAt(limit) => {
                    self.limit_found(&uid, limit, now);
                    let because = format!("a group above it allows no more than {limit}");
                    warn!(workload = %uid, limit = %action.limit, "{because}");
                    self.results.push((uid, ChangeResult::Failed(because)));
                }
                Carried::Overtaken(limit) => {
                    self.limit_found(&uid, limit, now);
                    continue;
                }
                Carried::OnlyWatching(limit) => {
                    self.limit_found(&uid, limit, now);
                    if !self.tell_wish(&action, tick, limit) {
                        continue;
                    }
                    self.results.push((uid, ChangeResult::OnlyWatching));
                }
                Carried::Failed { because, in_force } => {
                    warn!(workload = %uid, limit = %action.limit, "it could not be set: {because}");
                    if let Some(limit) = in_force {
                        self.limit_found(&uid, limit, now);
                    }
                    self.results.push((uid, ChangeResult::Failed(because)));
                }
                Carried::Gone => {
                    self.went(&uid, now);
                    continue;
                }
            }
            outcome.actions.push(action);
        }
    }

    /// Tells what would be done if anything were, unless that was told before.
    fn tell_wish(&mut self, action: &Action, tick: Loop, in_force: Millicores) -> bool {
        let uid = &action.uid;
        let is_first = !self.told.contains_key(uid);
        let told = self.told.entry(uid.clone()).or_default().of(tick);
        if told.replace(action.limit) == Some(action.limit) {
            return false;
        }
        // Once per workload: the board has the rest, and a log of wishes is not read.
        if is_first {
            info!(
                workload = %uid, limit = %action.limit, in_force = %in_force,
                "only watching; would set, among others: {}", action.why
            );
        } else {
            debug!(
                workload = %uid, limit = %action.limit, in_force = %in_force,
                "only watching; would set: {}", action.why
            );
        }
        true
    }

    fn took_effect(&mut self, uid: &WorkloadUid, now: Moment) {
        self.tell(Fact::LimitTookEffect(uid.clone()), now);
    }

    fn limit_found(&mut self, uid: &WorkloadUid, limit: Millicores, now: Moment) {
        self.tell(Fact::LimitFound { uid: uid.clone(), limit }, now);
    }

    fn flush_recording(&mut self) {
        if let Some(stopped) = self.recorder.as_mut().and_then(Recorder::flush) {
            warn!("{stopped}");
        }
    }

    /// Tells the node what happened, after writing it down; a tick answers.
    fn tell(&mut self, fact: Fact, at: Moment) -> Option<Outcome> {
        if let Some(recorder) = &mut self.recorder {
            recorder.fact(at, Event::from(&fact));
        }
        self.node.tell(fact, at)
    }
}

/// The limits that the two loops would set.
#[derive(Debug, Default)]
struct Wishes {
    fast: Option<Millicores>,
    slow: Option<Millicores>,
}

impl Wishes {
    const fn of(&mut self, tick: Loop) -> &mut Option<Millicores> {
        match tick {
            Loop::Fast => &mut self.fast,
            Loop::Slow => &mut self.slow,
        }
    }
}

fn span(duration: std::time::Duration) -> Span {
    Span::from_us(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}
