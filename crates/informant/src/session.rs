//! Signing and checking: who speaks with the key, in which session.
//!
//! A registration gets a random session. What an agent sends later is signed for it, and so is what
//! it is told, with a number that grows; nothing of another session counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};
use walras_core::informant::AgentId;
use walras_wire::vm::auth::{
    Key, NONCE_HEADER, Reply, Request, SEQUENCE_HEADER, SESSION_HEADER, SIGNATURE_HEADER,
    Signature, Token,
};

use crate::http::{Answer, Message};

/// The key, and the sessions of the agents that are known.
#[derive(Debug)]
pub struct Sessions {
    key: Key,
    random: SystemRandom,
    open: Mutex<BTreeMap<AgentId, Session>>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    token: Token,
    /// The number of the last call to the agent.
    called: u64,
}

/// A request that was signed with the key.
#[derive(Clone, Copy, Debug)]
pub struct Signed {
    /// The session it was made in.
    pub session: Option<Token>,
    signature: Signature,
}

impl Sessions {
    /// Nobody is known.
    #[must_use]
    pub fn new(key: Key) -> Self {
        Self { key, random: SystemRandom::new(), open: Mutex::default() }
    }

    /// Checks the signature of a request; nothing where it is not signed with the key.
    #[must_use]
    pub fn check(&self, message: &Message) -> Option<Signed> {
        let token = |name: &str| message.field(&name.to_ascii_lowercase());
        let nonce = Token::parse(token(NONCE_HEADER)?)?;
        let session = match token(SESSION_HEADER) {
            Some(text) => Some(Token::parse(text)?),
            None => None,
        };
        let sequence = token(SEQUENCE_HEADER).map_or(Some(0), |text| text.parse().ok())?;
        let signature = Signature::parse(token(SIGNATURE_HEADER)?)?;
        let (method, path, body) = (message.method.as_str(), message.path.as_str(), &message.body);
        let request = Request { method, path, nonce, session, sequence, body };
        self.key.signed(&request, signature).then_some(Signed { session, signature })
    }

    /// Signs an answer to a request.
    #[must_use]
    pub fn sign_answer(&self, to: &Signed, mut answer: Answer, session: Option<Token>) -> Answer {
        let (status, body) = (answer.status, answer.body.as_slice());
        let reply = Reply { to: to.signature, status, session, body };
        let signature = self.key.sign_reply(&reply).to_string();
        if let Some(session) = session {
            answer.fields.push((SESSION_HEADER, session.to_string()));
        }
        answer.fields.push((SIGNATURE_HEADER, signature));
        answer
    }

    /// Whether that is the session of the agent.
    #[must_use]
    pub fn is_open(&self, agent: AgentId, session: Option<Token>) -> bool {
        let open = self.open();
        session.is_some() && open.get(&agent).map(|open| open.token) == session
    }

    /// An agent was registered; nothing where there is no randomness.
    #[must_use]
    pub fn begin(&self, agent: AgentId) -> Option<Token> {
        let token = self.token()?;
        self.open().insert(agent, Session { token, called: 0 });
        Some(token)
    }

    /// Only those are still known.
    pub fn keep(&self, known: impl Fn(AgentId) -> bool) {
        self.open().retain(|agent, _| known(*agent));
    }

    /// Signs a call to an agent, in its session where it has one. Returns what its answer has to be
    /// signed for.
    #[must_use]
    pub fn sign_call(&self, agent: AgentId, request: &mut Message) -> Option<Signature> {
        let nonce = self.token()?;
        let mut open = self.open();
        let session = open.get_mut(&agent).map(|open| {
            open.called += 1;
            *open
        });
        drop(open);
        let sequence = session.map_or(0, |session| session.called);
        let token = session.map(|session| session.token);
        let (method, path, body) = (request.method.as_str(), request.path.as_str(), &request.body);
        let signature =
            self.key.sign(&Request { method, path, nonce, session: token, sequence, body });
        let mut field = |name: &str, value: String| request.fields.push((name.to_owned(), value));
        field(NONCE_HEADER, nonce.to_string());
        if let Some(token) = token {
            field(SESSION_HEADER, token.to_string());
            field(SEQUENCE_HEADER, sequence.to_string());
        }
        field(SIGNATURE_HEADER, signature.to_string());
        Some(signature)
    }

    /// Whether an answer was signed with the key, for that request.
    #[must_use]
    pub fn check_answer(&self, to: Signature, answer: &Message) -> bool {
        let signature = answer.field("walras-signature").and_then(Signature::parse);
        let reply = Reply { to, status: answer.status, session: None, body: &answer.body };
        signature.is_some_and(|signature| self.key.signed_reply(&reply, signature))
    }

    fn token(&self) -> Option<Token> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).ok()?;
        Some(Token::new(bytes))
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<AgentId, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
