//! The collector: writes down what becomes of pods, for models to be trained on.
//!
//! It is shown every pod that the controller's watch sees. Which pods are followed and what became
//! of them is decided by `walras_brain::collect`; here are its files, what nodes measure, and the
//! clock. Only the controller that acts collects. What cannot be written is told of and counted,
//! and stops nothing else.

mod files;
mod nodes;
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time;
use walras_brain::collect::{CollectSettings, Collector, Step};
use walras_core::units::{Moment, Span};

use self::files::Files;
use self::nodes::Nodes;
use super::Shared;
use super::facts::Key;
use crate::pod::Pod;

/// How often windows are looked at.
const TICK: Duration = Duration::from_secs(1);

/// Where and how to collect.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    /// The folder of the files.
    pub folder: PathBuf,
    /// How long after its binding a pod's outcome is looked at.
    pub window: Span,
    /// How large all events may be together.
    pub max_bytes: u64,
    /// Who is asked what nodes measure: agents or whoever knows them all, by HTTP.
    pub telemetry: Vec<String>,
}

/// A collector at work.
#[derive(Debug)]
pub(crate) struct Collecting {
    inner: Mutex<Inner>,
    nodes: Arc<Nodes>,
}

#[derive(Debug)]
struct Inner {
    collector: Collector,
    files: Files,
    /// Which uid a pod has, since watches know it by its name.
    uids: BTreeMap<Key, String>,
    counts: Counts,
    /// What was last told about files.
    told: Option<String>,
}

/// What was collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Placements.
    pub(crate) opened: u64,
    /// Events.
    pub(crate) settled: u64,
    /// Lines that could not be written.
    pub(crate) failures: u64,
    /// Pods that are followed.
    pub(crate) open: usize,
    /// Pods passed over for lack of room.
    pub(crate) passed_over: u64,
}

impl Collecting {
    /// Goes on where an earlier collector ended.
    ///
    /// # Errors
    /// The files cannot be used.
    pub(crate) fn start(options: &CollectOptions) -> io::Result<Self> {
        let (mut files, left) = Files::open(&options.folder, options.max_bytes)?;
        if left.cut_bytes > 0 {
            tracing::warn!("{} bytes of a line that was cut off are taken away", left.cut_bytes);
        }
        let window_ms = i64::try_from(options.window.as_us() / 1000).unwrap_or(i64::MAX);
        let settings = CollectSettings { window_ms };
        let collector = Collector::resumed(settings, left.open, left.settled);
        files.rewrite(collector.open())?;
        tracing::info!(
            folder = %options.folder.display(), open = collector.open_count(),
            "what becomes of pods is collected"
        );
        let inner = Inner {
            collector,
            files,
            uids: BTreeMap::new(),
            counts: Counts::default(),
            told: None,
        };
        let nodes = Arc::new(Nodes::new(options.telemetry.clone()));
        Ok(Self { inner: Mutex::new(inner), nodes })
    }

    /// A pod was seen.
    pub(crate) fn seen(&self, key: &Key, pod: &Pod, now: Moment) {
        let mut inner = self.lock();
        let before = inner.uids.insert(key.clone(), pod.uid().to_owned());
        if let Some(before) = before.filter(|before| before != pod.uid()) {
            // Another pod of the same name: the one before is gone, and nobody said so.
            let step = inner.collector.pod_gone(unix_ms(now), &before);
            inner.write(step, now);
        }
        let Some(seen) = pods::seen(pod) else { return };
        let now_ms = unix_ms(now);
        let step = inner.collector.pod_seen(now_ms, &seen, || self.nodes.at(now_ms));
        inner.write(step, now);
    }

    /// A pod is gone.
    pub(crate) fn gone(&self, key: &Key, now: Moment) {
        let mut inner = self.lock();
        if let Some(uid) = inner.uids.remove(key) {
            let step = inner.collector.pod_gone(unix_ms(now), &uid);
            inner.write(step, now);
        }
    }

    /// All pods were listed anew.
    pub(crate) fn listed(&self, present: &BTreeSet<Key>, now: Moment) {
        let mut inner = self.lock();
        inner.uids.retain(|key, _| present.contains(key));
        let mut uids: BTreeSet<String> = inner.uids.values().cloned().collect();
        // Who is there and was not shown, because this controller did not act then, is not gone.
        for record in inner.collector.open() {
            let key = Key::new(&record.placed.namespace, &record.placed.name);
            if present.contains(&key) && !inner.uids.contains_key(&key) {
                uids.insert(record.placed.uid.clone());
            }
        }
        let steps = inner.collector.listed(unix_ms(now), &uids);
        inner.write(steps, now);
    }

    /// What was collected.
    pub(crate) fn counts(&self) -> Counts {
        let inner = self.lock();
        Counts {
            open: inner.collector.open_count(),
            passed_over: inner.collector.passed_over(),
            ..inner.counts
        }
    }

    fn tick(&self, now: Moment) {
        let mut inner = self.lock();
        let steps = inner.collector.tick(unix_ms(now));
        inner.write(steps, now);
        if inner.files.is_open_long() {
            let Inner { files, collector, .. } = &mut *inner;
            let written = files.rewrite(collector.open());
            inner.tell(written);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, steps: impl IntoIterator<Item = Step>, now: Moment) {
        for step in steps {
            let written = match &step {
                Step::Opened(record) => self.files.opened(record),
                Step::Settled(record) => self.files.settled(record, unix_ms(now)),
            };
            match (&written, step) {
                (Err(_), _) => self.counts.failures += 1,
                (Ok(()), Step::Opened(_)) => self.counts.opened += 1,
                (Ok(()), Step::Settled(_)) => self.counts.settled += 1,
            }
            self.tell(written);
        }
    }

    /// Tells what is wrong with the files, the same only once.
    fn tell(&mut self, written: io::Result<()>) {
        let words = written.err().map(|error| error.to_string());
        if words != self.told {
            match &words {
                Some(words) => tracing::error!("what becomes of pods cannot be written: {words}"),
                None => tracing::info!("what becomes of pods can be written again"),
            }
            self.told = words;
        }
    }
}

/// Lets time pass, and asks what nodes measure, for as long as it is polled.
pub(super) async fn run(shared: Arc<Shared>) {
    let Some(collecting) = &shared.collecting else {
        return std::future::pending().await;
    };
    let asking = nodes::keep_asking(Arc::clone(&collecting.nodes));
    let ticking = async {
        let mut interval = time::interval(TICK);
        loop {
            interval.tick().await;
            if shared.acts() {
                collecting.tick(shared.clock.now());
            }
        }
    };
    tokio::join!(asking, ticking);
}

fn unix_ms(moment: Moment) -> i64 {
    i64::try_from(moment.since(Moment::ORIGIN).as_us() / 1000).unwrap_or(i64::MAX)
}
