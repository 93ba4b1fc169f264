//! What a guest says to the agent of its machine: `/id`, `/suspend`, `/resume` and `/try-upscale`.
//!
//! Everything has to be signed with the machine's key. Beside `/id`, it has to be of the session of
//! the registration, with a number that grows, and meant for this agent. A guest may resume its
//! agent before the answer to the registration has arrived; that counts once the answer names
//! the same session. A guest that resumes or suspends twice, or asks for more while the agent is
//! suspended, gets a 400, and is registered with anew.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use walras_wire::vm::amount::AgentId;
use walras_wire::vm::auth::Token;
use walras_wire::vm::informant::{
    AgentIdentification, AgentMessage, ExpectedId, MoreResources, read,
};

use crate::http::{Asked, Handler, Told};
use crate::seal::{Checked, NoRandom, Seal};

use super::{Event, Presence};

/// Of requests for more that come faster than this, one is passed on.
const WISH_EVERY: Duration = Duration::from_millis(50);

/// The agent's end of the talk.
#[derive(Debug)]
pub(super) struct Link {
    seal: Seal,
    events: mpsc::Sender<Event>,
    state: Mutex<State>,
    broken: Notify,
}

/// A registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) agent_id: AgentId,
    pub(super) session: Token,
}

#[derive(Debug)]
struct State {
    agent_id: AgentId,
    /// The number of the last message of ours.
    number: u64,
    standing: Standing,
    wished_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Standing {
    /// Nothing is under way.
    Alone,
    /// The answer is not there yet, but perhaps the guest was faster.
    Registering(Option<Session>),
    Registered(Session),
}

#[derive(Clone, Copy, Debug)]
struct Session {
    token: Token,
    heard: u64,
    active: bool,
}

impl Link {
    pub(super) fn new(seal: Seal, events: mpsc::Sender<Event>) -> Self {
        let agent_id = AgentId::new([0; 16]);
        let state = State { agent_id, number: 0, standing: Standing::Alone, wished_at: None };
        Self { seal, events, state: Mutex::new(state), broken: Notify::new() }
    }

    /// A registration begins, under a new id.
    pub(super) fn begin(&self) -> Result<AgentId, NoRandom> {
        let agent_id = AgentId::new(self.seal.token()?.bytes());
        let mut state = self.state();
        state.agent_id = agent_id;
        state.number = 0;
        state.standing = Standing::Registering(None);
        Ok(agent_id)
    }

    /// The registration was answered. Says whether the guest has resumed the agent already.
    pub(super) fn registered(&self, token: Token) -> Presence {
        let mut state = self.state();
        let session = match state.standing {
            Standing::Registering(Some(session)) if session.token == token => session,
            Standing::Registering(_) | Standing::Alone | Standing::Registered(_) => {
                Session { token, heard: 0, active: false }
            }
        };
        state.standing = Standing::Registered(session);
        if session.active { Presence::Resumed } else { Presence::Suspended }
    }

    /// The registration is over. Says which it was.
    pub(super) fn forget(&self) -> Option<Registered> {
        let mut state = self.state();
        let standing = std::mem::replace(&mut state.standing, Standing::Alone);
        match standing {
            Standing::Registered(session) => {
                Some(Registered { agent_id: state.agent_id, session: session.token })
            }
            Standing::Alone | Standing::Registering(_) => None,
        }
    }

    /// The number of the next message of ours.
    pub(super) fn next_number(&self) -> u64 {
        let mut state = self.state();
        state.number += 1;
        state.number
    }

    /// Resolves when the guest breaks the protocol.
    pub(super) async fn broken(&self) {
        self.broken.notified().await;
    }

    fn follow(&self, asked: &Asked, checked: &Checked) -> Told {
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/id") => self.identification(),
            ("POST", "/suspend") => self.switch(asked, checked, false),
            ("POST", "/resume") => self.switch(asked, checked, true),
            ("POST", "/try-upscale") => self.wish(asked, checked),
            _ => Told::words(404, "no such path, or not with that method"),
        }
    }

    fn switch(&self, asked: &Asked, checked: &Checked, active: bool) -> Told {
        let said: ExpectedId = match message(asked) {
            Ok(said) => said,
            Err(refused) => return refused,
        };
        let is_registered = {
            let mut state = self.state();
            let is_registered = matches!(state.standing, Standing::Registered(_));
            let session = match state.heard(checked, said.expected_id) {
                Ok(session) => session,
                Err(refused) => return refused,
            };
            if session.active == active {
                return self.broke(if active { "resumed twice" } else { "suspended twice" });
            }
            session.active = active;
            is_registered
        };
        let presence = if active { Presence::Resumed } else { Presence::Suspended };
        // Before the registration was answered, the answer says it.
        if is_registered && self.events.try_send(Event::Guest(presence)).is_err() {
            return Told::words(503, "the agent has too much to do");
        }
        self.identification()
    }

    fn wish(&self, asked: &Asked, checked: &Checked) -> Told {
        let said: MoreResources = match message(asked) {
            Ok(said) => said,
            Err(refused) => return refused,
        };
        let is_new = {
            let mut state = self.state();
            match state.heard(checked, said.expected_id) {
                Ok(session) if session.active => {}
                Ok(_) => return self.broke("asked for more while the agent is suspended"),
                Err(refused) => return refused,
            }
            let now = Instant::now();
            let is_new = state.wished_at.is_none_or(|at| now.duration_since(at) >= WISH_EVERY);
            state.wished_at = if is_new { Some(now) } else { state.wished_at };
            is_new
        };
        let (cpu, memory) = (said.cpu, said.memory);
        if is_new && self.events.try_send(Event::Wishes { cpu, memory }).is_err() {
            tracing::debug!("a guest asks for more, and its agent has too much to do");
        }
        self.identification()
    }

    fn identification(&self) -> Told {
        let sequence_number = self.next_number();
        let data = AgentIdentification { agent_id: self.state().agent_id };
        let message = AgentMessage { data, sequence_number };
        Told::json(serde_json::to_vec(&message).unwrap_or_default())
    }

    fn broke(&self, what: &str) -> Told {
        self.broken.notify_one();
        Told::words(400, what)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Link {
    fn answer(&self, asked: &Asked) -> Told {
        match self.seal.check(asked) {
            Some(checked) => self.seal.sign_answer(&checked, self.follow(asked, &checked), None),
            None => Told::words(401, "the request is not signed with the key of this machine"),
        }
    }
}

fn message<T: DeserializeOwned>(asked: &Asked) -> Result<T, Told> {
    read(&asked.body).map_err(|error| Told::words(400, &error.to_string()))
}

// === impl State ===

impl State {
    /// Takes note of a message of the guest: it has to be of the session, new, and for this agent.
    fn heard(&mut self, checked: &Checked, expected: AgentId) -> Result<&mut Session, Told> {
        let other = || Told::words(404, "the message is of another session");
        let token = checked.session.ok_or_else(other)?;
        if expected != self.agent_id {
            return Err(Told::words(404, "the message is for another agent"));
        }
        let session = match &mut self.standing {
            Standing::Registered(session) if session.token == token => session,
            Standing::Registering(known) => {
                if known.is_none_or(|known| known.token != token) {
                    *known = Some(Session { token, heard: 0, active: false });
                }
                known.as_mut().ok_or_else(other)?
            }
            Standing::Registered(_) | Standing::Alone => return Err(other()),
        };
        if checked.sequence <= session.heard {
            let (number, newest) = (checked.sequence, session.heard);
            return Err(Told::words(400, &format!("{number} is not larger than {newest}")));
        }
        session.heard = checked.sequence;
        Ok(session)
    }
}
