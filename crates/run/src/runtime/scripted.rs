//! A runtime that does what a test says: it keeps instances in memory, counts what it is asked, and
//! fails or falls silent when told to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::sync::broadcast;
use walras_core::run::{Fault, FaultKind, Instance, InstanceState, Op, Work, WorkloadId};

use super::{Job, Part, Runtime, RuntimeEvents, RuntimeLogs};

#[derive(Default)]
struct Inner {
    instances: BTreeMap<WorkloadId, Vec<Instance>>,
    calls: Vec<String>,
    faults: VecDeque<Fault>,
    silent: bool,
    made: u64,
    started: u64,
    /// What instances were given as environment.
    secrets: BTreeMap<String, BTreeMap<String, String>>,
}

pub(crate) struct Scripted {
    inner: Mutex<Inner>,
    events: broadcast::Sender<Option<WorkloadId>>,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        let (events, _) = broadcast::channel(1000);
        Self { inner: Mutex::default(), events }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often something was asked, such as `create web`.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.inner().calls.iter().filter(|made| *made == call).count()
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.inner().calls.clone()
    }

    /// What is there of a workload.
    pub(crate) fn there(&self, id: &WorkloadId) -> Vec<Instance> {
        self.inner().instances.get(id).cloned().unwrap_or_default()
    }

    pub(crate) fn runs(&self, id: &WorkloadId, revision: &str) -> bool {
        let there = self.there(id);
        matches!(&*there, [one] if one.state == InstanceState::Running && one.revision == revision)
    }

    pub(crate) fn fail_next(&self, kind: FaultKind) {
        self.inner().faults.push_back(Fault::new(kind, "as the script says"));
    }

    /// Falls silent, or answers again.
    pub(crate) fn silence(&self, silent: bool) {
        self.inner().silent = silent;
        // Whoever listens hears that it is gone. There may be nobody.
        self.events.send(None).ok();
    }

    /// What runs ends, and whoever listens hears of it.
    pub(crate) fn end(&self, id: &WorkloadId, code: i64) {
        for instance in self.inner().instances.entry(id.clone()).or_default() {
            instance.state = InstanceState::Exited { code };
        }
        self.events.send(Some(id.clone())).ok();
    }

    /// Somebody removes it, and nobody hears of it.
    pub(crate) fn vanish(&self, id: &WorkloadId) {
        self.inner().instances.remove(id);
    }

    /// The secrets that the instances of a workload were made with.
    pub(crate) fn secrets_of(&self, id: &WorkloadId) -> BTreeMap<String, String> {
        self.inner().secrets.get(id.as_str()).cloned().unwrap_or_default()
    }

    fn heard(&self, call: String) -> Result<MutexGuard<'_, Inner>, Fault> {
        let mut inner = self.inner();
        if inner.silent {
            return Err(Fault::new(FaultKind::Silent, "nobody answers"));
        }
        inner.calls.push(call);
        Ok(inner)
    }

    fn carry_out(&self, job: Job<'_>) -> Result<(), Fault> {
        let mut guard = self.heard(format!("{} {}", job.op, job.id))?;
        let inner = &mut *guard;
        if let Some(fault) = inner.faults.pop_front() {
            return Err(fault);
        }
        let there = inner.instances.entry(job.id.clone()).or_default();
        match job.op {
            Op::Prepare => {}
            Op::Create => {
                if !there.is_empty() {
                    return Err(Fault::new(FaultKind::NameInUse, "there is one"));
                }
                inner.made += 1;
                inner.secrets.insert(job.id.to_string(), job.secrets.clone());
                there.push(Instance {
                    handle: format!("c{}", inner.made),
                    revision: job.spec.revision.to_string(),
                    started: String::new(),
                    state: InstanceState::Created,
                    health: None,
                });
            }
            Op::Start => {
                for instance in there {
                    inner.started += 1;
                    instance.started = format!("t{}", inner.started);
                    instance.state = InstanceState::Running;
                }
            }
            Op::Stop => {
                for instance in there {
                    instance.state = InstanceState::Exited { code: 143 };
                }
            }
            Op::Remove => there.clear(),
        }
        Ok(())
    }
}

impl Runtime for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn takes(&self, _: &Work) -> bool {
        true
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { self.heard("ping".to_owned()).map(|_| ()) })
    }

    fn act<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            // Others get their turn in the middle of it.
            tokio::task::yield_now().await;
            self.carry_out(job)
        })
    }

    fn look<'a>(&'a self, id: &'a WorkloadId) -> BoxFuture<'a, Result<Vec<Instance>, Fault>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let inner = self.heard(format!("look {id}"))?;
            Ok(inner.instances.get(id).cloned().unwrap_or_default())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<WorkloadId, Vec<Instance>>, Fault>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(self.heard("list".to_owned())?.instances.clone())
        })
    }

    fn events(&self) -> RuntimeEvents<'_> {
        let heard = stream::unfold(self.events.subscribe(), |mut events| async move {
            let event = events.recv().await.ok()?;
            let gone = || Fault::new(FaultKind::Silent, "gone");
            Some((event.ok_or_else(gone), events))
        });
        heard.boxed()
    }

    fn logs<'a>(&'a self, part: Part<'a>, tail: u32, _: bool) -> RuntimeLogs<'a> {
        let line = format!("{} wrote {tail} lines\n", part.id);
        stream::once(async { Ok(line.into_bytes()) }).boxed()
    }
}
