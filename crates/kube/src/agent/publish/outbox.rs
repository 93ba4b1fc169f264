//! The wishes that are not written yet, and whose turn it is: state without I/O.
//!
//! There is one entry for each PodAllocation, so it is bounded by the number of pods. A newer wish
//! replaces an older one. What was written is remembered, so that only changes are written. What
//! is not wished for is deleted only once it is known that its pod is not sized: a pod may be sized
//! long before anything is decided for it. What is there is watched, and what differs from what was
//! written is written again; what is seen from before a write of ours says nothing. Time is an
//! argument.

mod worth;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use walras_core::rng::Rng;
use walras_core::units::{Millicores, Moment, Ratio, Span};

use self::worth::{has_moved, is_worth_it};
use crate::pause::pause;

/// So many writes a second, on average.
const WRITES_PER_S: u64 = 20;
/// So many at once.
const BURST: u64 = 20;
/// The first pause after a failure.
const PAUSE_FIRST: Span = Span::from_ms(500);
/// The longest pause while the API server is away.
const PAUSE_LONGEST: Span = Span::from_s(15);
/// The longest pause of one object that is refused.
const REFUSED_LONGEST: Span = Span::from_s(300);
/// What others change or delete is written again after this, so that two who disagree do not
/// write in turns as fast as they can.
const REWRITE_AFTER: Span = Span::from_s(2);
/// How long to wait where nothing is to be done and only news can change that.
const IDLE: Span = Span::from_s(3600);
/// Which PodAllocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Which pod it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// The pod's name.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
}

/// What a pod should have.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The guarantee.
    pub request: Millicores,
    /// The cap.
    pub limit: Millicores,
    /// What CPU costs on the node.
    pub price: Ratio,
    /// Why, in words.
    pub why: String,
}

/// Whether a wish can wait for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A pod is held back.
    AtOnce,
    /// Not before the interval is over.
    InTime,
}

/// How often one object is written, and what is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The least time between two writes that can wait.
    pub interval: Span,
    /// What changes by less is not written.
    pub band: Ratio,
}

/// A write to be made: the object, or its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Which one.
    pub key: Key,
    /// For whom.
    pub whose: Whose,
    /// What it should say; nothing to delete it.
    pub desired: Option<Desired>,
}

/// A PodAllocation that is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct There {
    /// The pod that it says it is for.
    pub(super) whose: Whose,
    /// What it says; nothing where that makes no sense.
    pub(super) desired: Option<Desired>,
    /// Grows with every change of it.
    pub(super) version: Option<u64>,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    Do(Job),
    /// Nothing before this moment.
    Wait(Moment),
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was done, and this is the object's version since.
    Done(Option<u64>),
    /// This object was refused.
    Refused(String),
    /// The API server is away, or has too much to do.
    Away(String),
}

/// The wishes that are not written yet.
#[derive(Debug)]
pub struct Outbox {
    inner: Mutex<Inner>,
    news: Notify,
}

#[derive(Debug)]
struct Inner {
    entries: BTreeMap<Key, Entry>,
    /// Who is sized, once that is known.
    managed: Option<BTreeSet<Key>>,
    stock_taken: bool,
    pace: Pace,
    /// Writes that may be made now, in thousandths.
    tokens: u64,
    tokens_at: Moment,
    failures: u32,
    not_before: Moment,
    random: Rng,
    problem: Option<String>,
}

#[derive(Debug, Default)]
struct Entry {
    whose: Whose,
    desired: Option<Desired>,
    urgent: bool,
    /// What the API server has, as far as is known.
    written: Option<(Whose, Desired)>,
    written_at: Option<Moment>,
    /// The version of what the API server has, as far as is known.
    version: Option<u64>,
    /// Whether the object may be there.
    exists: bool,
    refusals: u32,
    not_before: Moment,
}

// === impl Outbox: the loop's side ===

impl Outbox {
    /// An empty one. Pauses differ with `seed`.
    #[must_use]
    pub fn new(pace: Pace, seed: u64) -> Self {
        let inner = Inner {
            entries: BTreeMap::new(),
            managed: None,
            stock_taken: false,
            pace,
            tokens: BURST * 1000,
            tokens_at: Moment::ORIGIN,
            failures: 0,
            not_before: Moment::ORIGIN,
            random: Rng::from_seed(seed),
            problem: None,
        };
        Self { inner: Mutex::new(inner), news: Notify::new() }
    }

    /// Another pace from now on.
    pub fn set_pace(&self, pace: Pace) {
        self.lock().pace = pace;
    }

    /// What CPU costs on the node from now on, whatever else is wished for its pods.
    pub fn set_price(&self, price: Ratio) {
        let mut inner = self.lock();
        for entry in inner.entries.values_mut() {
            if let Some(desired) = &mut entry.desired {
                desired.price = price;
            }
        }
        drop(inner);
        self.news.notify_one();
    }

    /// What a pod should have. The newest wish counts.
    pub fn put(&self, key: &Key, whose: (&str, &str), desired: Desired, urgency: Urgency) {
        let mut inner = self.lock();
        let entry = inner.entries.entry(key.clone()).or_default();
        entry.desired = Some(desired);
        entry.urgent |= urgency == Urgency::AtOnce;
        entry.belongs_to(whose);
        drop(inner);
        self.news.notify_one();
    }

    /// What a pod should have if nothing was said of it yet.
    pub fn introduce(&self, key: &Key, whose: (&str, &str), desired: Desired) {
        let known = {
            let inner = self.lock();
            let entry = inner.entries.get(key);
            entry.is_some_and(|it| it.desired.is_some() && it.whose.uid == whose.1)
        };
        if !known {
            self.put(key, whose, desired, Urgency::InTime);
        }
    }

    /// These have an allocation, and no others: what there is of others is deleted. The caller
    /// has read a configuration that holds; before that is so, nothing is deleted.
    pub fn keep_only(&self, managed: BTreeSet<Key>) {
        let mut inner = self.lock();
        for (key, entry) in &mut inner.entries {
            if !managed.contains(key) {
                entry.desired = None;
            }
        }
        inner.entries.retain(|_, entry| entry.desired.is_some() || entry.exists);
        inner.managed = Some(managed);
        drop(inner);
        self.news.notify_one();
    }

    /// What is wrong, in a sentence.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.lock().problem.clone()
    }
}

#[cfg(test)]
impl Outbox {
    /// Whether everything that was wished for is written.
    pub(in crate::agent) fn is_idle(&self) -> bool {
        let inner = self.lock();
        let pace = inner.pace;
        let mut entries = inner.entries.iter();
        !entries.any(|(key, entry)| entry.wants(pace, inner.stays(key)).is_some())
    }

    /// This one is there already, and so is no other.
    pub(in crate::agent) fn found_only(&self, key: Key, uid: &str, limit: Millicores) {
        let desired = Desired { request: limit, limit, price: Ratio::ZERO, why: String::new() };
        let pod = key.name.trim_start_matches(&format!("{}-", key.namespace)).to_owned();
        let whose = Whose { pod, uid: uid.to_owned() };
        let there = There { whose, desired: Some(desired), version: None };
        self.listed(BTreeMap::from([(key, there)]));
    }

    /// Everything that was wished for is written.
    pub(in crate::agent) fn write_all(&self, now: Moment) {
        self.listed(BTreeMap::new());
        while let Next::Do(job) = self.next(now) {
            self.done(&job, &Outcome::Done(None), now);
        }
    }

    /// Everything was deleted.
    pub(in crate::agent) fn forget_all(&self) {
        self.listed(BTreeMap::new());
    }

    /// Whether a write does not wait for its interval.
    pub(in crate::agent) fn is_urgent(&self) -> bool {
        self.lock().entries.values().any(|entry| entry.urgent)
    }

    /// What would be written, a line for each object.
    pub(in crate::agent) fn wanted(&self) -> Vec<String> {
        let inner = self.lock();
        let wanted = inner.entries.iter().filter(|(key, entry)| {
            inner.managed.is_some() && entry.wants(inner.pace, inner.stays(key)).is_some()
        });
        let told = wanted.map(|(key, entry)| match &entry.desired {
            Some(desired) => format!("{} {}/{}", key.name, desired.request, desired.limit),
            None => format!("{} deleted", key.name),
        });
        told.collect()
    }
}

// === impl Outbox: the writer's side ===

impl Outbox {
    /// These are there, and no others.
    pub(super) fn listed(&self, all: BTreeMap<Key, There>) {
        self.lock().listed(all);
        self.news.notify_one();
    }

    /// What is there could not be found out.
    pub(super) fn not_listed(&self, because: &str) {
        self.lock().not_listed(because);
    }

    /// This one is there.
    pub(super) fn seen(&self, key: Key, there: There, now: Moment) {
        self.lock().seen(key, there, now);
        self.news.notify_one();
    }

    /// This one was deleted, at this version.
    pub(super) fn gone(&self, key: &Key, version: Option<u64>, now: Moment) {
        self.lock().gone(key, version, now);
        self.news.notify_one();
    }

    /// Waits until there may be something new.
    pub(super) async fn told(&self) {
        self.news.notified().await;
    }

    /// What to do now.
    pub(super) fn next(&self, now: Moment) -> Next {
        let mut inner = self.lock();
        inner.next(now)
    }

    /// What became of a job.
    pub(super) fn done(&self, job: &Job, outcome: &Outcome, now: Moment) {
        let mut inner = self.lock();
        inner.done(job, outcome, now);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    /// Whether this one is not to be deleted, also if nothing was wished for it yet.
    fn stays(&self, key: &Key) -> bool {
        self.managed.as_ref().is_none_or(|managed| managed.contains(key))
    }

    fn next(&mut self, now: Moment) -> Next {
        // Before it is known who is sized, what is there must not be taken for left behind.
        if !self.stock_taken || self.managed.is_none() {
            return Next::Wait(now + IDLE);
        }
        let mut first: Option<(Moment, bool, &Key)> = None;
        for (key, entry) in &self.entries {
            if let Some(due) = entry.due(self.pace, self.stays(key))
                && first.is_none_or(|(at, urgent, _)| {
                    (due.max(now), !entry.urgent) < (at.max(now), !urgent)
                })
            {
                first = Some((due, entry.urgent, key));
            }
        }
        let Some((due, _, key)) = first else {
            return Next::Wait(now + IDLE);
        };
        let key = key.clone();
        let due = due.max(self.not_before);
        if due > now {
            return Next::Wait(due);
        }
        if let Err(later) = self.take_token(now) {
            return Next::Wait(later);
        }
        let entry = self.entries.get_mut(&key).expect("it was just found");
        entry.urgent = false;
        let (whose, desired) = (entry.whose.clone(), entry.desired.clone());
        Next::Do(Job { key, whose, desired })
    }

    /// What others have changed is not what was written, and what they have deleted is not there.
    fn listed(&mut self, mut all: BTreeMap<Key, There>) {
        for (key, entry) in &mut self.entries {
            entry.has(all.remove(key));
        }
        for (key, there) in all {
            self.entries.entry(key).or_default().has(Some(there));
        }
        self.entries.retain(|_, entry| entry.desired.is_some() || entry.exists);
        if !self.stock_taken {
            self.problem = None;
        }
        self.stock_taken = true;
    }

    fn not_listed(&mut self, because: &str) {
        // After the first time, writes tell soon enough if the API server is away.
        if !self.stock_taken {
            self.problem = Some(format!("PodAllocations cannot be listed: {because}"));
        }
    }

    fn seen(&mut self, key: Key, there: There, now: Moment) {
        let (pace, stays) = (self.pace, self.stays(&key));
        let entry = self.entries.entry(key).or_default();
        if entry.knows_better(there.version) {
            return;
        }
        let was_content = entry.wants(pace, stays).is_none();
        entry.has(Some(there));
        if was_content && entry.wants(pace, stays).is_some() {
            entry.not_before = entry.not_before.max(now + REWRITE_AFTER);
        }
    }

    fn gone(&mut self, key: &Key, version: Option<u64>, now: Moment) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.knows_better(version) {
            return;
        }
        if entry.exists {
            entry.not_before = entry.not_before.max(now + REWRITE_AFTER);
        }
        entry.has(None);
        if entry.desired.is_none() {
            self.entries.remove(key);
        }
    }

    fn done(&mut self, job: &Job, outcome: &Outcome, now: Moment) {
        let entry = self.entries.entry(job.key.clone()).or_default();
        match outcome {
            Outcome::Done(version) => {
                self.failures = 0;
                self.problem = None;
                entry.refusals = 0;
                entry.written_at = Some(now);
                entry.version = entry.version.max(*version);
                entry.exists = job.desired.is_some();
                entry.written = job.desired.clone().map(|desired| (job.whose.clone(), desired));
                if entry.desired.is_none() && !entry.exists {
                    self.entries.remove(&job.key);
                }
            }
            Outcome::Refused(because) => {
                entry.refusals = entry.refusals.saturating_add(1);
                let refusals = entry.refusals;
                let pause = pause(refusals, PAUSE_FIRST, REFUSED_LONGEST, &mut self.random);
                let entry = self.entries.entry(job.key.clone()).or_default();
                entry.not_before = now + pause;
                // Others may go on, and a single refusal can be a pod that is about to end.
                if refusals > 2 {
                    let Key { namespace, name } = &job.key;
                    self.problem =
                        Some(format!("The PodAllocation {namespace}/{name} is refused: {because}"));
                }
            }
            Outcome::Away(because) => {
                self.failures = self.failures.saturating_add(1);
                self.not_before =
                    now + pause(self.failures, PAUSE_FIRST, PAUSE_LONGEST, &mut self.random);
                self.problem = Some(format!("PodAllocations cannot be written: {because}"));
            }
        }
    }

    fn take_token(&mut self, now: Moment) -> Result<(), Moment> {
        let passed = now.since(self.tokens_at).as_ms_floor();
        let more = passed.saturating_mul(WRITES_PER_S);
        if more > 0 {
            self.tokens = self.tokens.saturating_add(more).min(BURST * 1000);
            self.tokens_at = now;
        }
        match self.tokens.checked_sub(1000) {
            Some(left) => {
                self.tokens = left;
                Ok(())
            }
            None => Err(now + Span::from_ms((1000 - self.tokens).div_ceil(WRITES_PER_S))),
        }
    }
}

// === impl There ===

impl There {
    fn said(self) -> Option<(Whose, Desired)> {
        Some((self.whose, self.desired?))
    }
}

// === impl Entry ===

impl Entry {
    /// The API server has this of it.
    fn has(&mut self, there: Option<There>) {
        self.exists = there.is_some();
        self.version = there.as_ref().and_then(|there| there.version);
        self.written = there.and_then(There::said);
    }

    /// Whether something newer is known than what has this version.
    fn knows_better(&self, version: Option<u64>) -> bool {
        version.is_some_and(|version| self.version.is_some_and(|known| version < known))
    }

    fn belongs_to(&mut self, (pod, uid): (&str, &str)) {
        if self.whose.uid != uid {
            self.whose = Whose { pod: pod.to_owned(), uid: uid.to_owned() };
            self.urgent = true;
            self.refusals = 0;
            self.not_before = Moment::ORIGIN;
        }
    }

    /// Whether a write is wanted, and whether it can wait for the interval.
    fn wants(&self, pace: Pace, stays: bool) -> Option<Urgency> {
        let Some(desired) = &self.desired else {
            return (self.exists && !stays).then_some(Urgency::AtOnce);
        };
        let Some((whose, written)) = &self.written else {
            return Some(Urgency::AtOnce);
        };
        // What names another pod is refused by the controller, whatever else it says.
        let differs = *whose != self.whose
            || is_worth_it(written.limit, desired.limit, pace.band)
            || is_worth_it(written.request, desired.request, pace.band);
        let urgency = if self.urgent { Urgency::AtOnce } else { Urgency::InTime };
        // An old price holds no pod back.
        let in_time = has_moved(written.price, desired.price).then_some(Urgency::InTime);
        differs.then_some(urgency).or(in_time)
    }

    fn due(&self, pace: Pace, stays: bool) -> Option<Moment> {
        let at = match (self.wants(pace, stays)?, self.written_at) {
            (Urgency::InTime, Some(written_at)) => written_at + pace.interval,
            (Urgency::AtOnce, _) | (Urgency::InTime, None) => Moment::ORIGIN,
        };
        Some(at.max(self.not_before))
    }
}

#[cfg(test)]
mod tests;
