//! The workers, and those who put workloads into their queue: the clock and the runtime's events.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::task::JoinSet;
use tokio::time;
use tracing::{error, info, warn};
use walras_core::run::{Fault, Op, Spec, Step, Ticket, Why, Workload, WorkloadId};
use walras_core::units::{Moment, Span};

use crate::clock::now;
use crate::runtime::{Job, Runtime};

use super::entry::Secrets;
use super::{ActionState, FaultPoint, Manager, RECONCILE_EVERY, State, WORKERS};

/// How often it is looked whether somebody waits no longer.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// When to try again after something could not be saved.
const SAVE_AGAIN: Span = Span::from_s(5);
/// A runtime that is gone is looked for this often.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// What a worker has to do next, with everything it needs.
enum Task {
    Look(Ticket),
    Do {
        op: Op,
        number: u64,
        workload: Box<Workload>,
        secrets: Secrets,
    },
    /// It was deleted and is gone: what was kept for it can go.
    Forget(Box<Spec>),
    Rest,
}

impl Manager {
    /// Works until it is dropped: workers, the clock and the runtimes' events.
    pub async fn serve(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        for _ in 0..WORKERS {
            tasks.spawn(Arc::clone(&self).work());
        }
        tasks.spawn(Arc::clone(&self).watch_clock());
        tasks.spawn(Arc::clone(&self).watch_time());
        for runtime in self.runtimes.all() {
            tasks.spawn(Arc::clone(&self).watch_runtime(Arc::clone(runtime)));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(failed) = ended {
                error!("a worker is gone: {failed}");
            }
        }
    }

    async fn work(self: Arc<Self>) {
        loop {
            let next = self.take();
            match next {
                Some(id) => {
                    self.process(&id).await;
                    self.give_back(&id);
                }
                None => self.wake.notified().await,
            }
        }
    }

    fn take(&self) -> Option<WorkloadId> {
        let mut state = self.lock();
        let id = state.queue.pop_front()?;
        if let Some(entry) = state.entries.get_mut(&id) {
            entry.queued = false;
            entry.busy = true;
            entry.again = false;
            entry.wake_at = None;
        }
        // There may be more for others.
        if !state.queue.is_empty() {
            self.wake.notify_one();
        }
        Some(id)
    }

    pub(super) fn give_back(&self, id: &WorkloadId) {
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(id) else { return };
        entry.busy = false;
        if std::mem::take(&mut entry.again) {
            self.enqueue(&mut state, id);
        }
    }

    /// The runtime of a workload. There is none if it was another host's, or another program's.
    pub(super) fn runtime_of(&self, workload: &Workload) -> Option<Arc<dyn Runtime>> {
        self.runtimes.of(&workload.spec().work).map(Arc::clone)
    }

    /// Does what is due about one workload until there is nothing to do.
    async fn process(&self, id: &WorkloadId) {
        let runtime = self.lock().entries.get(id).and_then(|it| self.runtime_of(&it.workload));
        let Some(runtime) = runtime else {
            // What nobody here can run is unknown, and stays.
            let now = now();
            return self.note(&mut self.lock(), id, |workload| workload.runtime_silent(now));
        };
        loop {
            match self.next_task(id) {
                Task::Rest => return,
                Task::Look(ticket) => {
                    let looked = runtime.look(id).await;
                    let now = now();
                    let mut state = self.lock();
                    match looked {
                        Ok(instances) => self.note(&mut state, id, |workload| {
                            workload.seen(ticket, instances, now);
                        }),
                        Err(_) => {
                            self.note(&mut state, id, |workload| workload.runtime_silent(now));
                            return;
                        }
                    }
                }
                Task::Do { op, number, workload, secrets } => {
                    self.crash_at(op, false);
                    let progress = |words: &str| self.progressed(id, words);
                    let job = Job {
                        op,
                        id,
                        spec: workload.target(),
                        secrets: &secrets,
                        instances: workload.instances(),
                        progress: &progress,
                    };
                    let done = runtime.act(job).await;
                    self.crash_at(op, true);
                    self.finished(id, op, number, done);
                }
                Task::Forget(spec) => {
                    let forgotten = runtime.forget(id, &spec).await;
                    return self.forget(id, forgotten);
                }
            }
        }
    }

    /// A long operation is so far.
    fn progressed(&self, id: &WorkloadId, words: &str) {
        if let Some(entry) = self.lock().entries.get_mut(id)
            && entry.progress.as_deref() != Some(words)
        {
            entry.progress = Some(words.to_owned());
        }
    }

    /// Erases what is gone. What was kept for it must be gone first.
    fn forget(&self, id: &WorkloadId, forgotten: Result<(), Fault>) {
        let mut state = self.lock();
        let erased = forgotten
            .map_err(|fault| fault.to_string())
            .and_then(|()| self.store.erase(id).map_err(|error| error.to_string()));
        match erased {
            Ok(()) => {
                state.entries.remove(id);
                info!(workload = %id, "gone");
            }
            Err(error) => {
                error!(workload = %id, "it cannot be forgotten yet: {error}");
                if let Some(entry) = state.entries.get_mut(id) {
                    entry.wake_at = Some(now() + SAVE_AGAIN);
                }
            }
        }
    }

    /// What is due. An operation is begun and saved here, before its effect.
    fn next_task(&self, id: &WorkloadId) -> Task {
        let now = now();
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(entry) = state.entries.get_mut(id) else { return Task::Rest };
        entry.tell_secrets();
        match entry.workload.next(now) {
            Step::Look => Task::Look(entry.workload.ticket()),
            Step::Do { op, why } => {
                let mut after = entry.workload.clone();
                after.begun(op, now);
                if let Err(error) = self.store.save(id, &after.save()) {
                    error!(workload = %id, "{op} is put off: {error}");
                    entry.wake_at = Some(now + SAVE_AGAIN);
                    return Task::Rest;
                }
                entry.workload = after;
                let (workload, secrets) = (Box::new(entry.workload.clone()), entry.secrets());
                let number = state.actions.begin(Some(id), op.name(), why.to_string(), now);
                tell(id, op, why);
                Task::Do { op, number, workload, secrets }
            }
            Step::Wait { until } => {
                entry.wake_at = Some(until);
                Task::Rest
            }
            Step::Forget => Task::Forget(Box::new(entry.workload.spec().clone())),
            Step::Busy { .. } | Step::NeedsSecrets | Step::Silent | Step::Rest => Task::Rest,
        }
    }

    fn finished(&self, id: &WorkloadId, op: Op, number: u64, done: Result<(), Fault>) {
        let now = now();
        let mut state = self.lock();
        let outcome = match &done {
            Ok(()) => ActionState::Completed,
            Err(fault) => {
                warn!(workload = %id, "{op} failed: {fault}");
                ActionState::Failed(fault.to_string())
            }
        };
        state.tally.ended(op, done.as_ref().err());
        state.actions.end(number, outcome, now);
        if let Some(entry) = state.entries.get_mut(id) {
            entry.progress = None;
        }
        self.note(&mut state, id, |workload| match done {
            Ok(()) => workload.done(now),
            Err(fault) => workload.failed(fault, now),
        });
    }

    /// Tells a workload something, and saves it if that has to outlive a crash. What cannot be
    /// saved now is found out again by looking.
    pub(super) fn note(
        &self,
        state: &mut State,
        id: &WorkloadId,
        tell: impl FnOnce(&mut Workload),
    ) {
        let Some(entry) = state.entries.get_mut(id) else { return };
        let before = entry.workload.save();
        tell(&mut entry.workload);
        let record = entry.workload.save();
        if record != before
            && let Err(error) = self.store.save(id, &record)
        {
            error!(workload = %id, "{error}");
        }
    }

    /// Puts a workload into the queue if something is due.
    pub(super) fn follow_up(&self, state: &mut State, id: &WorkloadId, now: Moment) {
        let Some(entry) = state.entries.get_mut(id) else { return };
        entry.tell_secrets();
        match entry.workload.next(now) {
            Step::Look | Step::Do { .. } | Step::Forget => self.enqueue(state, id),
            Step::Wait { until } => entry.wake_at = Some(until),
            Step::Busy { .. } | Step::NeedsSecrets | Step::Silent | Step::Rest => {}
        }
    }

    /// Looks at everything that is there, with one question to each runtime.
    pub async fn reconcile(&self) {
        let all = self.runtimes.all().map(|runtime| self.reconcile_with(runtime));
        futures_util::future::join_all(all).await;
    }

    async fn reconcile_with(&self, runtime: &Arc<dyn Runtime>) {
        let tickets: Vec<(WorkloadId, Ticket)> = {
            let state = self.lock();
            let own = |workload: &Workload| {
                self.runtimes.of(&workload.spec().work).is_some_and(|it| Arc::ptr_eq(it, runtime))
            };
            let all = state.entries.iter().filter(|(_, entry)| own(&entry.workload));
            all.map(|(id, entry)| (id.clone(), entry.workload.ticket())).collect()
        };
        let listed = runtime.list().await;
        let (now, name) = (now(), runtime.name());
        let mut state = self.lock();
        state.tally.reconciled += 1;
        match listed {
            Ok(mut there) => {
                if let Some(silent) = state.silent.remove(name) {
                    info!("{name} answers again; it was silent: {silent}");
                }
                for (id, ticket) in tickets {
                    let instances = there.remove(&id).unwrap_or_default();
                    self.note(&mut state, &id, |workload| {
                        workload.seen(ticket, instances, now);
                    });
                    self.follow_up(&mut state, &id, now);
                }
            }
            Err(fault) => {
                if !state.silent.contains_key(name) {
                    warn!("{name} is silent, so its workloads are unknown: {fault}");
                }
                state.silent.insert(name, fault.to_string());
                for (id, _) in tickets {
                    self.note(&mut state, &id, |workload| workload.runtime_silent(now));
                }
            }
        }
    }

    async fn watch_clock(self: Arc<Self>) {
        let mut ticks = time::interval(RECONCILE_EVERY);
        ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.reconcile().await;
        }
    }

    async fn watch_time(self: Arc<Self>) {
        let mut ticks = time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = now();
            let mut state = self.lock();
            let due = |at: Option<Moment>| at.is_some_and(|at| at <= now);
            let waiting = state.entries.iter().filter(|(_, entry)| due(entry.wake_at));
            let ids: Vec<WorkloadId> = waiting.map(|(id, _)| id.clone()).collect();
            for id in ids {
                self.enqueue(&mut state, &id);
            }
        }
    }

    /// Hears of what happens in a runtime, and looks at everything whenever it comes or goes.
    async fn watch_runtime(self: Arc<Self>, runtime: Arc<dyn Runtime>) {
        loop {
            if runtime.ping().await.is_ok() {
                self.reconcile_with(&runtime).await;
                let mut events = runtime.events();
                while let Some(Ok(id)) = events.next().await {
                    let mut state = self.lock();
                    if let Some(entry) = state.entries.get_mut(&id) {
                        entry.workload.stirred();
                        self.enqueue(&mut state, &id);
                    }
                }
                drop(events);
                self.reconcile_with(&runtime).await;
            }
            time::sleep(LISTEN_AGAIN).await;
        }
    }

    /// Ends the process here, if that was asked for.
    fn crash_at(&self, op: Op, after: bool) {
        if self.options.fault == Some(FaultPoint { op, after }) {
            std::process::abort();
        }
    }
}

fn tell(id: &WorkloadId, op: Op, why: Why) {
    info!(workload = %id, "{op}, because {why}");
}
