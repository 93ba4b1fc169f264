//! Looks at a node again and again, in a thread of its own, and keeps the latest snapshot.
//!
//! A daemon starts one [`Watch`] beside its loop, which never waits for it. Whoever needs the
//! figures reads [`Latest`]; whoever wants each of them is told. Looking takes at most a fiftieth
//! of one CPU: where a look takes long, the next one comes later, see [`pause`].

use std::fmt;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use walras_core::units::{Moment, Span};

use crate::ebpf::{ProbeOptions, Probes};
use crate::metadata::Metadata;
use crate::reading::Unavailable;
use crate::sampler::{Roots, Sampler, Scope};
use crate::snapshot::{Market, Snapshot};

/// Between two looks passes at least so many times what the last one took.
const PAUSE_PER_LOOK: u64 = 50;
/// However long looks take, snapshots must not become stale in between.
const PAUSE_MAX: Span = Span::from_ms(5_000);

/// What to look at, and how often.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// The node's name.
    pub node: String,
    /// Which part of the machine it is.
    pub scope: Scope,
    /// Where the kernel's files are.
    pub roots: Roots,
    /// How far two looks are apart.
    pub every: Span,
    /// Whether programs are loaded into the kernel, where that is allowed.
    pub ebpf: bool,
}

/// What is asked of the daemon around, and whom to tell. None of it may wait for long.
pub struct Around {
    /// How the node's market stands.
    pub market: Box<dyn Fn() -> Option<Market> + Send>,
    /// What labels and settings say of the node.
    pub metadata: Box<dyn Fn() -> Metadata + Send>,
    /// Is told every snapshot.
    pub told: Box<dyn Fn(&Snapshot) + Send>,
}

/// The latest snapshot, for whoever holds a copy of this.
#[derive(Clone, Debug, Default)]
pub struct Latest(Arc<Mutex<Option<Arc<Snapshot>>>>);

/// A node that is looked at, until this value goes.
#[derive(Debug)]
pub struct Watch {
    latest: Latest,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How long to wait after a look that took so long.
#[must_use]
pub fn pause(every: Span, took: Span) -> Span {
    let at_least = Span::from_us(took.as_us().saturating_mul(PAUSE_PER_LOOK));
    every.max(at_least.min(PAUSE_MAX))
}

/// Now, in milliseconds since 1970.
#[must_use]
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

// === impl Watch ===

impl Watch {
    /// Starts to look. The first snapshot with rates is there after two looks.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(settings: WatchSettings, around: Around) -> io::Result<Self> {
        let latest = Latest::default();
        let (stop, stopped) = mpsc::channel::<()>();
        let kept = latest.clone();
        let work = move || {
            let probes = if settings.ebpf {
                Probes::load_or_tell(ProbeOptions::default())
            } else {
                Err(Unavailable::NotSaid { what: "eBPF" })
            };
            let WatchSettings { node, scope, roots, every, .. } = settings;
            let mut sampler = Sampler::new(scope, roots, probes);
            let start = Instant::now();
            loop {
                let before = Instant::now();
                sampler.look(Moment::from_us(micros(start.elapsed())));
                let mut snapshot = sampler.snapshot(&node, unix_ms(), &(around.metadata)());
                snapshot.market = (around.market)();
                (around.told)(&snapshot);
                kept.set(snapshot);
                let wait = pause(every, Span::from_us(micros(before.elapsed())));
                match stopped.recv_timeout(Duration::from_micros(wait.as_us())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = thread::Builder::new().name("walras-look".into()).spawn(work)?;
        Ok(Self { latest, stop: Some(stop), thread: Some(thread) })
    }

    /// Where the latest snapshot is kept.
    #[must_use]
    pub fn latest(&self) -> Latest {
        self.latest.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has told so already, and there is nothing left to end.
            thread.join().ok();
        }
    }
}

// === impl Latest ===

impl Latest {
    /// The latest snapshot; nothing before the first look.
    #[must_use]
    pub fn get(&self) -> Option<Arc<Snapshot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps this one.
    pub fn set(&self, snapshot: Snapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(snapshot));
    }
}

// === impl Around ===

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Around").finish_non_exhaustive()
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Said;
    use crate::metric::Metric;
    use std::collections::BTreeMap;
    use walras_core::market::Mode;
    use walras_core::units::Millicores;

    #[test]
    fn looking_takes_at_most_a_fiftieth_of_a_cpu_and_never_becomes_stale() {
        let second = Span::from_ms(1000);
        assert_eq!(pause(second, Span::from_us(300)), second);
        assert_eq!(pause(second, Span::from_ms(20)), second);
        assert_eq!(pause(second, Span::from_ms(30)), Span::from_ms(1500));
        assert_eq!(pause(second, Span::from_ms(900)), PAUSE_MAX);
        assert_eq!(pause(second, Span::from_us(u64::MAX)), PAUSE_MAX);
        assert_eq!(pause(Span::from_ms(8000), Span::from_ms(900)), Span::from_ms(8000));
    }

    #[test]
    fn snapshots_are_kept_and_told_with_the_market_until_it_goes() {
        let market = Market { price: 0.5, mode: Mode::Congested, lent: Millicores::new(70) };
        let (tell, told) = mpsc::channel();
        let settings = WatchSettings {
            node: "here".to_owned(),
            scope: Scope::default(),
            roots: Roots { layout: None, ..Roots::of_this_machine() },
            every: Span::from_ms(20),
            ebpf: false,
        };
        let around = Around {
            market: Box::new(move || Some(market)),
            metadata: Box::new(|| {
                let said = Said { spot: Some(true), ..Said::default() };
                Metadata::of(&said, &BTreeMap::new())
            }),
            // The test may have ended meanwhile.
            told: Box::new(move |snapshot| drop(tell.send(snapshot.clone()))),
        };
        let watch = Watch::start(settings, around).unwrap();
        let patience = Duration::from_secs(60);
        let first = told.recv_timeout(patience).unwrap();
        assert_eq!((first.over, first.market), (None, Some(market)));
        let second = told.recv_timeout(patience).unwrap();
        assert!(second.over.is_some());
        let latest = watch.latest();
        let kept = latest.get().expect("one was told");
        assert_eq!((kept.node.as_str(), kept.value(Metric::Spot)), ("here", Some(1.0)));
        drop(watch);
        assert!(told.iter().count() < 10_000, "nobody tells any more once it is gone");
    }
}
