//! The program in a guest, as the agent of its machine sees it.
//!
//! A task registers with it, keeps asking whether it is there, reads its metrics, and carries the
//! agent's messages, one request at a time. Whatever fails for too long, or is answered with 404,
//! ends the registration, and a new one is made under a new id. What the guest says by itself comes
//! to a server of the agent's, which is in `link`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::time::{self, Instant, Interval, MissedTickBehavior};
use walras_core::units::{Resources, VmName};
use walras_core::vm::RequestId;
use walras_wire::vm::amount::{AgentId, ServeAddr};
use walras_wire::vm::informant::{
    AGENT_VERSIONS, AgentDesc, AgentIdentification, AgentMessage, DownscaleResult, InformantDesc,
    ResourceMessage, read,
};

use crate::http::{self, Answered, Client, Limits, Question, Server};
use crate::seal::{Seal, Within};

use super::link::{Link, Registered};
use super::{Event, Presence, scrape};

/// Where a guest is, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// Where its program answers: port 10301 of the guest, or what leads there.
    pub informant: SocketAddr,
    /// Where its metrics are, if that is not the port that it names.
    pub metrics: Option<SocketAddr>,
    /// Where the agent listens to it; a port of 0 is any.
    pub listen: SocketAddr,
    /// By which address the guest reaches that, if it is another.
    pub reached_by: Option<IpAddr>,
    /// The key of the machine.
    pub seal: Seal,
    /// How often what is done.
    pub pace: Pace,
}

/// How often what is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Metrics are read.
    pub metrics_every: Duration,
    /// The guest is asked whether it knows the agent.
    pub health_every: Duration,
    /// A registration that failed is tried again after this.
    pub register_again: Duration,
    /// A guest that was silent for so long is registered with anew.
    pub silent: Duration,
}

/// A message for the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Downscale { id: RequestId, to: Resources },
    Upscale { id: RequestId, to: Resources },
}

/// The way to the guest.
#[derive(Debug)]
pub(super) struct Guests {
    commands: mpsc::Sender<Command>,
}

const REGISTER_WITHIN: Duration = Duration::from_secs(4);
const REQUEST_WITHIN: Duration = Duration::from_secs(2);
const DOWNSCALE_WITHIN: Duration = Duration::from_secs(4);
const METRICS_WITHIN: Duration = Duration::from_secs(2);

/// Why a request was not answered.
enum Failed {
    /// The guest does not know the agent, or cannot be trusted to be the guest.
    Unknown(String),
    /// It may know.
    Otherwise(String),
}

/// Starts to listen to a guest and to look for it.
pub(super) async fn start(
    spec: GuestSpec,
    vm: &VmName,
    events: mpsc::Sender<Event>,
    stopped: watch::Receiver<()>,
) -> std::io::Result<Guests> {
    let link = Arc::new(Link::new(spec.seal.clone(), events.clone()));
    let handler = Arc::clone(&link);
    let server = http::start(spec.listen, Limits::GUEST, handler).await?;
    let (commands, coming) = mpsc::channel(4);
    let work = Talk {
        informant: Client::new(spec.informant),
        metrics: Client::new(spec.metrics.unwrap_or(spec.informant)),
        vm: vm.clone(),
        spec,
        link,
        server,
        events,
        commands: coming,
    };
    tokio::spawn(work.run(stopped));
    Ok(Guests { commands })
}

struct Talk {
    spec: GuestSpec,
    vm: VmName,
    link: Arc<Link>,
    server: Server,
    informant: Client,
    metrics: Client,
    events: mpsc::Sender<Event>,
    commands: mpsc::Receiver<Command>,
}

impl Talk {
    async fn run(mut self, mut stopped: watch::Receiver<()>) {
        tokio::select! {
            _ = stopped.changed() => {}
            () = self.forever() => {}
        }
        self.leave().await;
    }

    async fn forever(&mut self) {
        loop {
            match self.register().await {
                Ok(registered) => {
                    let why = self.talk(registered).await;
                    tracing::info!(vm = %self.vm, "the guest is registered with anew: {why}");
                    self.link.forget();
                    self.say(Event::Guest(Presence::Gone)).await;
                }
                Err(Failed::Unknown(why) | Failed::Otherwise(why)) => {
                    tracing::debug!(vm = %self.vm, "the guest: {why}");
                    self.link.forget();
                }
            }
            time::sleep(self.spec.pace.register_again).await;
        }
    }

    /// Until it ends; says why.
    async fn talk(&mut self, registered: Registered) -> String {
        let pace = self.spec.pace;
        let mut metrics = every(pace.metrics_every, Duration::ZERO);
        let mut health = every(pace.health_every, pace.health_every);
        let mut heard_at = Instant::now();
        loop {
            let done = tokio::select! {
                () = self.link.broken() => return "it broke the protocol".to_owned(),
                command = self.commands.recv() => match command {
                    Some(command) => self.command(command, &registered).await,
                    None => return "the agent ended".to_owned(),
                },
                _ = health.tick() => self.health(&registered).await,
                _ = metrics.tick() => {
                    self.read_metrics(&registered).await;
                    continue;
                }
            };
            match done {
                Ok(()) => heard_at = Instant::now(),
                Err(Failed::Unknown(why)) => return why,
                Err(Failed::Otherwise(why)) if heard_at.elapsed() >= pace.silent => return why,
                Err(Failed::Otherwise(why)) => tracing::debug!(vm = %self.vm, "the guest: {why}"),
            }
        }
    }

    async fn register(&mut self) -> Result<Registered, Failed> {
        let agent_id = self.link.begin().map_err(|error| Failed::Otherwise(error.to_string()))?;
        let description = self.description(agent_id);
        let mut question = Question::json("POST", "/register", &description);
        let seal = &self.spec.seal;
        let signature = seal
            .sign(&mut question, Within { session: None, sequence: 0 })
            .map_err(|error| Failed::Otherwise(error.to_string()))?;
        let answered = self.informant.ask(&question, REGISTER_WITHIN).await;
        let answered = answered.map_err(|error| Failed::Otherwise(error.to_string()))?;
        let session = seal.check_answer(signature, &answered).ok_or_else(|| unsigned(&answered))?;
        if answered.status != 200 {
            return Err(refused(&answered));
        }
        let said: InformantDesc = read(&answered.body).map_err(|error| garbled(&error))?;
        let version = said.proto_version;
        if !(AGENT_VERSIONS.min..=AGENT_VERSIONS.max).contains(&version) {
            return Err(Failed::Otherwise(format!("it speaks version {version}")));
        }
        let session = session.ok_or_else(|| Failed::Otherwise("it names no session".to_owned()))?;
        let port = said.metrics_method.prometheus.port;
        let there = SocketAddr::new(self.spec.informant.ip(), port);
        self.metrics = Client::new(self.spec.metrics.unwrap_or(there));
        let presence = self.link.registered(session);
        self.say(Event::Guest(presence)).await;
        Ok(Registered { agent_id, session })
    }

    async fn health(&mut self, registered: &Registered) -> Result<(), Failed> {
        let said = AgentIdentification { agent_id: registered.agent_id };
        self.put("/health-check", said, registered, REQUEST_WITHIN).await.map(|_| ())
    }

    async fn command(&mut self, command: Command, to: &Registered) -> Result<(), Failed> {
        let agent_id = to.agent_id;
        let (event, failed) = match command {
            Command::Downscale { id, to: amount } => {
                let message = ResourceMessage::new(amount, agent_id);
                let answered = self.put("/downscale", message, to, DOWNSCALE_WITHIN).await;
                let said = answered.and_then(|answered| {
                    read::<DownscaleResult>(&answered.body).map_err(|error| garbled(&error))
                });
                match said {
                    Ok(said) => {
                        tracing::debug!(vm = %self.vm, agrees = said.ok, "{}", said.status);
                        (Event::Agreed(id, Ok(said.ok)), None)
                    }
                    Err(failed) => (Event::Agreed(id, Err(failed.words())), Some(failed)),
                }
            }
            Command::Upscale { id, to: amount } => {
                let message = ResourceMessage::new(amount, agent_id);
                match self.put("/upscale", message, to, REQUEST_WITHIN).await {
                    Ok(_) => (Event::Heard(id, Ok(())), None),
                    Err(failed) => (Event::Heard(id, Err(failed.words())), Some(failed)),
                }
            }
        };
        self.say(event).await;
        failed.map_or(Ok(()), Err)
    }

    /// Sends a numbered message in the session.
    async fn put<T: Serialize>(
        &mut self,
        path: &str,
        data: T,
        to: &Registered,
        within: Duration,
    ) -> Result<Answered, Failed> {
        let message = AgentMessage { data, sequence_number: self.link.next_number() };
        let mut question = Question::json("PUT", path, &message);
        let session = Within { session: Some(to.session), sequence: 0 };
        let signature = self.spec.seal.sign(&mut question, session);
        let signature = signature.map_err(|error| Failed::Otherwise(error.to_string()))?;
        let answered = self.informant.ask(&question, within).await;
        let answered = answered.map_err(|error| Failed::Otherwise(error.to_string()))?;
        if self.spec.seal.check_answer(signature, &answered).is_none() {
            return Err(unsigned(&answered));
        }
        if answered.status == 200 { Ok(answered) } else { Err(refused(&answered)) }
    }

    async fn read_metrics(&mut self, registered: &Registered) {
        let mut question = Question::get("/metrics");
        let within = Within { session: Some(registered.session), sequence: 0 };
        let Ok(signature) = self.spec.seal.sign(&mut question, within) else { return };
        match self.metrics.ask(&question, METRICS_WITHIN).await {
            Ok(answered) if self.spec.seal.check_answer(signature, &answered).is_some() => {
                let text = String::from_utf8_lossy(&answered.body);
                if let Some(metrics) = scrape::metrics(&text) {
                    self.say(Event::Metrics(Box::new(metrics))).await;
                }
            }
            Ok(_) => tracing::warn!(vm = %self.vm, "metrics that are not signed with the key"),
            Err(error) => tracing::debug!(vm = %self.vm, "metrics: {error}"),
        }
    }

    /// Takes its leave, so that an older agent can take over at once.
    async fn leave(&mut self) {
        let Some(Registered { agent_id, session }) = self.link.forget() else { return };
        let mut question = Question::json("DELETE", "/unregister", &self.description(agent_id));
        let within = Within { session: Some(session), sequence: 0 };
        if self.spec.seal.sign(&mut question, within).is_ok() {
            // A guest that does not hear it finds out by itself.
            drop(self.informant.ask(&question, REQUEST_WITHIN).await);
        }
    }

    fn description(&self, agent_id: AgentId) -> AgentDesc {
        let at = self.server.address();
        let at = SocketAddr::new(self.spec.reached_by.unwrap_or(at.ip()), at.port());
        let (min_version, max_version) = (AGENT_VERSIONS.min, AGENT_VERSIONS.max);
        AgentDesc { agent_id, serve_addr: ServeAddr(at), min_version, max_version }
    }

    async fn say(&self, event: Event) {
        // The agent may have ended meanwhile.
        drop(self.events.send(event).await);
    }
}

fn every(period: Duration, after: Duration) -> Interval {
    let mut interval = time::interval_at(Instant::now() + after, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

fn unsigned(answered: &Answered) -> Failed {
    let (status, words) = (answered.status, answered.words());
    Failed::Otherwise(format!("an answer that is not signed with the key: {status} {words}"))
}

fn refused(answered: &Answered) -> Failed {
    let why = format!("{} {}", answered.status, answered.words());
    if answered.status == 404 { Failed::Unknown(why) } else { Failed::Otherwise(why) }
}

fn garbled(error: &impl ToString) -> Failed {
    Failed::Otherwise(error.to_string())
}

// === impl Failed ===

impl Failed {
    fn words(&self) -> String {
        match self {
            Self::Unknown(why) | Self::Otherwise(why) => why.clone(),
        }
    }
}

// === impl Guests ===

impl Guests {
    /// Hands over a message. Where too much waits already, the agent gives up by itself.
    pub(super) fn tell(&self, command: Command) {
        if let Err(error) = self.commands.try_send(command) {
            tracing::debug!("a message to the guest is left out: {error}");
        }
    }
}

// === impl Pace ===

impl Pace {
    /// Those of the predecessor.
    pub const USUAL: Self = Self {
        metrics_every: Duration::from_secs(5),
        health_every: Duration::from_secs(5),
        register_again: Duration::from_secs(5),
        silent: Duration::from_secs(20),
    };
}
