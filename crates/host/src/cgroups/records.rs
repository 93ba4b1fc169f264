//! What container engines should have on record about the limits of their containers.
//!
//! The loop says which limit it sets, before it sets it; somebody who may wait tells engines
//! ([`Records::due`]). An engine writes its record and the control group together, so it may undo
//! what the loop set a moment before. Therefore [`Records::told`] compares afterwards, and sets
//! what the loop wanted last: the market's value wins. What an engine writes for us is not a change
//! of the owner's ([`Records::is_ours`]). A container that is gone is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;
use walras_cgroup::{CgroupError, CgroupPath, Group, Layout, Original, Originals, Target};
use walras_core::parse::CpuMax;
use walras_core::run::record_is_due;
use walras_core::units::{Millicores, Moment, WorkloadUid};

/// So long after an engine was told, what it wrote may still come into force.
const ECHO: Duration = Duration::from_secs(2);

/// Limits by the path of a group, without a slash at its start.
#[derive(Debug)]
pub struct Records {
    layout: Layout,
    entries: Mutex<BTreeMap<String, Entry>>,
    origin: Instant,
}

#[derive(Debug)]
struct Entry {
    container: String,
    path: CgroupPath,
    /// What the loop set last, and since when.
    wanted: Millicores,
    since: Moment,
    /// What the engine was told last, and when.
    recorded: Option<(Millicores, Moment)>,
    /// What it was told, exactly, and until when that may come into force.
    echo: Option<(CpuMax, Option<Instant>)>,
}

/// A container whose record is to be brought in step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The path of its group.
    pub uid: String,
    /// What its engine knows it by.
    pub container: String,
    /// The quota that is in force, in microseconds; nothing where there is none.
    pub quota_us: Option<u64>,
    /// And its period.
    pub period_us: u64,
}

/// Nothing is to be given back: what is written is what the loop wrote before.
struct Ours;

impl Originals for Ours {
    fn keep(&mut self, _: &Original) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

impl Records {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, entries: Mutex::default(), origin: Instant::now() }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        let since = self.origin.elapsed().as_micros();
        Moment::from_us(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// The loop is about to set this limit on a container of an engine.
    pub(super) fn sets(
        &self,
        uid: &WorkloadUid,
        container: &str,
        path: &CgroupPath,
        limit: Millicores,
    ) {
        let now = self.now();
        let mut entries = self.entries();
        let entry = entries.entry(uid.as_str().to_owned()).or_insert_with(|| Entry {
            container: container.to_owned(),
            path: path.clone(),
            wanted: limit,
            since: now,
            recorded: None,
            echo: None,
        });
        if entry.wanted != limit {
            (entry.wanted, entry.since) = (limit, now);
        }
    }

    /// Only these are still there.
    pub(super) fn keep_only(&self, there: &BTreeSet<&str>) {
        self.entries().retain(|uid, _| there.contains(uid.as_str()));
    }

    /// Whether what is in force is what an engine was told on our behalf.
    pub(super) fn is_ours(&self, uid: &WorkloadUid, in_force: &CpuMax) -> bool {
        let entries = self.entries();
        let echo = entries.get(uid.as_str()).and_then(|entry| entry.echo.as_ref());
        echo.is_some_and(|(told, until)| {
            told == in_force && until.is_none_or(|until| Instant::now() < until)
        })
    }

    /// The containers whose engines are to be told now, at most `most`, with what is in force at
    /// this moment. Each of them is followed by [`Records::told`].
    #[must_use]
    pub fn due(&self, most: usize) -> Vec<Due> {
        let now = self.now();
        let mut due = Vec::new();
        for (uid, entry) in &mut *self.entries() {
            if due.len() == most {
                break;
            }
            if !record_is_due(entry.wanted, entry.since, entry.recorded, now) {
                continue;
            }
            let Ok(max) = Group::open(&self.layout, &entry.path).and_then(|it| it.max()) else {
                continue;
            };
            entry.echo = Some((max, None));
            entry.recorded = Some((entry.wanted, now));
            due.push(Due {
                uid: uid.clone(),
                container: entry.container.clone(),
                quota_us: max.quota.map(|quota| quota.as_us()),
                period_us: max.period.as_us(),
            });
        }
        due
    }

    /// An engine was told, or could not be. Whatever it wrote, what the loop wanted last holds.
    pub fn told(&self, uid: &str, done: bool) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(uid) else { return };
        let Some((told, until)) = &mut entry.echo else { return };
        let told = *told;
        *until = Some(Instant::now() + ECHO);
        if !done {
            // Tried again, as if it had not been told, but not at once.
            entry.recorded = entry.recorded.map(|(_, at)| (Millicores::UNLIMITED, at));
        }
        // Under the lock: whoever sets another limit meanwhile says so first, and sets it after us.
        match self.settle(entry, &told) {
            Ok(()) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => warn!("the market's limit may not be in force: {error}"),
        }
    }

    fn settle(&self, entry: &Entry, told: &CpuMax) -> Result<(), CgroupError> {
        let group = Group::open(&self.layout, &entry.path)?;
        let in_force = group.max()?;
        let limit = in_force.limit_floor().unwrap_or(Millicores::UNLIMITED);
        if in_force != *told || limit == entry.wanted {
            return Ok(());
        }
        let target = Target { limit: Some(entry.wanted), weight: None, burst: None };
        group.adopt(&mut Ours)?.apply(&target).map(|_| ())
    }

    /// The containers whose engines were told something, to be told at the end that there is no
    /// limit of ours any more.
    #[must_use]
    pub fn on_record(&self) -> Vec<String> {
        let entries = self.entries();
        let told = entries.values().filter(|entry| entry.recorded.is_some());
        told.map(|entry| entry.container.clone()).collect()
    }
}
