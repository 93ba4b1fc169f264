//! The agent of a machine at work: `core::vm` with a real clock, a machine, a scheduler and a
//! guest.
//!
//! [`start`] runs one machine's agent as a task. It steps, carries out what the step asked for, and
//! tells what came of it; it waits until something happens or the time that the step named. What it
//! changes and asks is behind two small ports, [`Machine`] and [`Scheduler`]; the guest is spoken
//! to by [`guest`]. Requests run beside it, so that nothing is late because something else is.

pub mod dump;
pub mod guest;
mod link;
pub mod remote;
mod scrape;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio::time::{self, Instant};
use walras_core::permit::{Answer, Ask};
use walras_core::units::{ComputeUnit, Moment, Resources, Span, VmName};
use walras_core::vm::{Action, Agent, Metrics, Note, Outcome, RequestId, Seen, Settings, VmBounds};

use self::guest::{Command, GuestSpec, Guests};

/// A machine, as far as its agent is concerned.
pub trait Machine: Send + Sync + 'static {
    /// What it is now.
    fn observe(&self) -> BoxFuture<'_, Result<Seen, String>>;

    /// Gives it so much, if it still has that version, and says what it then is. See
    /// [`Action::PatchVm`].
    fn resize(&self, to: Resources, version: u64) -> BoxFuture<'_, Result<Seen, String>>;
}

/// Whoever keeps the ledger.
pub trait Scheduler: Send + Sync + 'static {
    /// Asks for a permit.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, NotPermitted>>;
}

/// Why there is no permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotPermitted {
    /// The number of a later question, if that came before.
    pub newest: Option<u64>,
    /// For people.
    pub why: String,
}

/// What an agent is for.
#[derive(Clone, Debug)]
pub struct AgentSpec {
    /// Its machine.
    pub vm: VmName,
    /// What it is sized in.
    pub unit: ComputeUnit,
    /// The least and the most.
    pub bounds: VmBounds,
    /// How long it waits for whom.
    pub settings: Settings,
    /// More than any earlier agent of the machine used as the number of a question.
    pub first_question: u64,
    /// The program in the guest, where there is one.
    pub guest: Option<GuestSpec>,
}

/// An agent at work. It stops when this is dropped; its machine stays as it is.
#[derive(Debug)]
pub struct Running {
    events: mpsc::Sender<Event>,
    shown: Arc<Mutex<Shown>>,
    /// Dropped to stop it.
    _running: watch::Sender<()>,
}

/// How an agent stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// What the machine was last seen to have.
    pub using: Option<Resources>,
    /// What it may use.
    pub permit: Option<Resources>,
    /// What it should have.
    pub goal: Option<Resources>,
    /// What decided that.
    pub why: Option<String>,
    /// What the guest agreed to make do with.
    pub agreed: Option<Resources>,
    /// Whether it moves to another node.
    pub moving: bool,
    /// What was noticed last, the newest first.
    pub notes: VecDeque<String>,
    /// What it did, in numbers.
    pub tally: Tally,
}

/// What an agent did, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Questions to the scheduler, and how many failed.
    pub asked: [u64; 2],
    /// Changes of the machine, and how many failed.
    pub patched: [u64; 2],
    /// Messages to the guest, and how many failed.
    pub told: [u64; 2],
    /// How often the guest asked for more.
    pub wished: u64,
    /// How often it refused to shrink.
    pub refused: u64,
}

/// Something that an agent has to know.
#[derive(Debug)]
pub(crate) enum Event {
    Read(RequestId, Result<Seen, String>),
    Patched(RequestId, Result<Seen, String>),
    Permit(RequestId, Result<Answer, NotPermitted>),
    Agreed(RequestId, Result<bool, String>),
    Heard(RequestId, Result<(), String>),
    Metrics(Box<Metrics>),
    Guest(Presence),
    Wishes { cpu: bool, memory: bool },
    Bounds(VmBounds),
    MoveFailed,
    Seen(Seen),
}

/// Whether the guest listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Resumed,
    Suspended,
    Gone,
}

/// What waits to be taken note of is bounded: a guest that floods its agent is not heard.
pub(crate) const EVENTS_MAX: usize = 64;
/// So many notes are kept.
const NOTES_MAX: usize = 16;
/// Where nothing is to be done, it looks round after this.
const IDLE: Span = Span::from_s(60);
/// Nothing is waited for longer, whatever becomes of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts an agent in the runtime this is called in.
///
/// # Errors
/// There is no port to listen to the guest on.
pub async fn start(
    spec: AgentSpec,
    machine: Arc<dyn Machine>,
    scheduler: Arc<dyn Scheduler>,
) -> std::io::Result<Running> {
    let (events, coming) = mpsc::channel(EVENTS_MAX);
    let shown = Arc::new(Mutex::new(Shown::default()));
    let (running, stopped) = watch::channel(());
    let guest = match spec.guest.clone() {
        Some(guest) => Some(guest::start(guest, &spec.vm, events.clone(), stopped.clone()).await?),
        None => None,
    };
    let mut agent = Agent::new(spec.settings, spec.unit, spec.bounds, spec.first_question);
    agent.scheduler_came();
    let work = Work {
        vm: spec.vm,
        agent,
        origin: Instant::now(),
        machine,
        scheduler,
        guest,
        events: events.clone(),
        shown: Arc::clone(&shown),
    };
    tokio::spawn(work.run(coming, stopped));
    Ok(Running { events, shown, _running: running })
}

struct Work {
    vm: VmName,
    agent: Agent,
    origin: Instant,
    machine: Arc<dyn Machine>,
    scheduler: Arc<dyn Scheduler>,
    guest: Option<Guests>,
    events: mpsc::Sender<Event>,
    shown: Arc<Mutex<Shown>>,
}

impl Work {
    async fn run(mut self, mut coming: mpsc::Receiver<Event>, mut stopped: watch::Receiver<()>) {
        loop {
            let now = self.now();
            let outcome = self.agent.step(now);
            self.note(&outcome, now);
            let wake_at = outcome.wake_at;
            for action in outcome.actions {
                self.carry_out(action);
            }
            let wake_at = wake_at.unwrap_or(now + IDLE);
            let event = tokio::select! {
                // Whoever held the agent has let it go.
                _ = stopped.changed() => return,
                event = coming.recv() => event,
                () = time::sleep_until(self.instant(wake_at)) => continue,
            };
            let Some(event) = event else { return };
            self.take(event);
            while let Ok(event) = coming.try_recv() {
                self.take(event);
            }
        }
    }

    fn take(&mut self, event: Event) {
        let now = self.now();
        self.count(&event);
        let agent = &mut self.agent;
        match event {
            Event::Read(id, Ok(seen)) => agent.vm_read(id, seen),
            Event::Patched(id, Ok(seen)) => agent.vm_patched(id, seen),
            Event::Read(id, Err(why)) | Event::Patched(id, Err(why)) => {
                tracing::warn!(vm = %self.vm, "the machine: {why}");
                agent.vm_failed(id, now);
            }
            Event::Permit(id, Ok(answer)) => agent.permit_answered(id, &answer, now),
            Event::Permit(id, Err(NotPermitted { newest, why })) => {
                tracing::warn!(vm = %self.vm, "the scheduler: {why}");
                agent.permit_failed(id, newest, now);
            }
            Event::Agreed(id, Ok(agrees)) => agent.downscale_answered(id, agrees, now),
            Event::Heard(id, Ok(())) => agent.upscale_confirmed(id),
            Event::Agreed(id, Err(why)) | Event::Heard(id, Err(why)) => {
                tracing::debug!(vm = %self.vm, "the guest: {why}");
                agent.informant_failed(id, now);
            }
            Event::Metrics(metrics) => agent.metrics_read(*metrics, now),
            Event::Guest(Presence::Resumed) => agent.informant_resumed(),
            Event::Guest(Presence::Suspended) => agent.informant_suspended(),
            Event::Guest(Presence::Gone) => agent.informant_gone(),
            Event::Wishes { cpu, memory } => agent.guest_asked(cpu, memory, now),
            Event::Bounds(bounds) => agent.bounds_changed(bounds),
            Event::MoveFailed => agent.move_failed(),
            Event::Seen(seen) => agent.vm_seen(seen),
        }
    }

    fn count(&self, event: &Event) {
        let tally = &mut lock(&self.shown).tally;
        let count = |of: &mut [u64; 2], failed: bool| {
            of[0] += 1;
            of[1] += u64::from(failed);
        };
        match event {
            Event::Read(_, seen) | Event::Patched(_, seen) => {
                count(&mut tally.patched, seen.is_err());
            }
            Event::Permit(_, answer) => count(&mut tally.asked, answer.is_err()),
            Event::Agreed(_, agreed) => {
                count(&mut tally.told, agreed.is_err());
                tally.refused += u64::from(*agreed == Ok(false));
            }
            Event::Heard(_, heard) => count(&mut tally.told, heard.is_err()),
            Event::Wishes { .. } => tally.wished += 1,
            Event::Metrics(_)
            | Event::Guest(_)
            | Event::Bounds(_)
            | Event::MoveFailed
            | Event::Seen(_) => {}
        }
    }

    fn carry_out(&self, action: Action) {
        match action {
            Action::ReadVm { id } => {
                let machine = Arc::clone(&self.machine);
                self.spawn(async move { machine.observe().await }, move |end| {
                    Event::Read(id, end.unwrap_or_else(Err))
                });
            }
            Action::PatchVm { id, to, version } => {
                let machine = Arc::clone(&self.machine);
                self.spawn(async move { machine.resize(to, version).await }, move |end| {
                    Event::Patched(id, end.unwrap_or_else(Err))
                });
            }
            Action::AskPermit { id, wanted, last_permit, load, sequence } => {
                let (vm, sequence) = (self.vm.clone(), Some(sequence));
                let ask = Ask { vm, wanted, last_permit, load, sequence };
                let scheduler = Arc::clone(&self.scheduler);
                self.spawn(async move { scheduler.ask(ask).await }, move |end| {
                    let late = |why| Err(NotPermitted { newest: None, why });
                    Event::Permit(id, end.unwrap_or_else(late))
                });
            }
            Action::AskDownscale { id, to } => self.tell(Command::Downscale { id, to }),
            Action::TellUpscale { id, to } => self.tell(Command::Upscale { id, to }),
        }
    }

    fn tell(&self, command: Command) {
        // Where it is not taken, the agent gives up by itself.
        if let Some(guest) = &self.guest {
            guest.tell(command);
        }
    }

    /// Lets something run beside the agent, and tells it what came of it.
    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        event: impl FnOnce(Result<T, String>) -> Event + Send + 'static,
    ) {
        let events = self.events.clone();
        tokio::spawn(async move {
            let end = time::timeout(PATIENCE, work).await;
            let end = end.map_err(|_| format!("no answer within {PATIENCE:?}"));
            // The agent may have ended meanwhile.
            drop(events.send(event(end)).await);
        });
    }

    /// Tells people how it stands.
    fn note(&self, outcome: &Outcome, now: Moment) {
        let goal = self.agent.goal(now);
        let mut shown = lock(&self.shown);
        for note in &outcome.notes {
            log(&self.vm, note);
            shown.notes.push_front(note.to_string());
        }
        shown.notes.truncate(NOTES_MAX);
        shown.using = self.agent.seen().map(|seen| seen.using);
        shown.permit = self.agent.permit();
        shown.goal = goal.map(|goal| goal.amount);
        shown.why = goal.map(|goal| goal.from.code().to_owned());
        shown.agreed = self.agent.agreed();
        shown.moving = self.agent.is_moving();
    }

    fn now(&self) -> Moment {
        let micros = self.origin.elapsed().as_micros();
        Moment::from_us(u64::try_from(micros).unwrap_or(u64::MAX).saturating_add(1))
    }

    fn instant(&self, at: Moment) -> Instant {
        self.origin + Duration::from_micros(at.since(Moment::ORIGIN).as_us())
    }
}

fn log(vm: &VmName, note: &Note) {
    match note {
        Note::PermitRefused { .. } | Note::AbovePermit { .. } => tracing::warn!(%vm, "{note}"),
        Note::NoMetrics
        | Note::NoInformant { .. }
        | Note::Failed { .. }
        | Note::GrantedLess { .. }
        | Note::DownscaleDenied { .. }
        | Note::Moving => tracing::info!(%vm, "{note}"),
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Running ===

impl Running {
    /// How it stands.
    #[must_use]
    pub fn shown(&self) -> Shown {
        lock(&self.shown).clone()
    }

    /// The way to tell it something.
    fn events(&self) -> mpsc::Sender<Event> {
        self.events.clone()
    }

    /// Other bounds hold.
    pub async fn bounds_changed(&self, bounds: VmBounds) {
        self.tell(Event::Bounds(bounds)).await;
    }

    /// The machine was to move to another node, and stays.
    pub async fn move_failed(&self) {
        self.tell(Event::MoveFailed).await;
    }

    /// The machine was seen, by somebody who watches it.
    pub async fn vm_seen(&self, seen: Seen) {
        self.tell(Event::Seen(seen)).await;
    }

    async fn tell(&self, event: Event) {
        if self.events.send(event).await.is_err() {
            tracing::error!("the agent of a machine has ended");
        }
    }
}

// === impl NotPermitted ===

impl fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
