//! Answers agents on port 10301, and whoever wants metrics on 9100.
//!
//! A request of an agent is looked at in this order: whether it is HTTP and short enough (400,
//! 413), a path of ours (404, 405), signed with the key (401), a message (400), in the session of
//! its agent (404), and then by `core::informant`. Metrics are told to everybody, and signed for
//! those who sign.

use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use walras_core::informant::{AgentId, Refusal, Versions};
use walras_wire::json::ReadError;
use walras_wire::vm::auth::Token;
use walras_wire::vm::informant::{
    AgentIdentification, AgentMessage, DownscaleResult, InformantDesc, MetricsMethod,
    PrometheusMethod, ResourceMessage, UnregisterAgent, read_agent, read_numbered, refusal_status,
};

use crate::daemon::Shared;
use crate::http::{self, Answer, HttpError, Message};
use crate::session::Signed;
use crate::{calls, metrics};

/// A request has to be there, and its answer taken, within this.
const PATIENCE: Duration = Duration::from_secs(5);
/// An agent that registers has to say who it is within this.
const IDENTIFY_WITHIN: Duration = Duration::from_secs(1);

/// An answer, and the session that it names.
struct Named {
    answer: Answer,
    session: Option<Token>,
}

/// What an agent may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Register,
    HealthCheck,
    Downscale,
    Upscale,
    Unregister,
}

/// Answers one connection of an agent.
pub fn agent(stream: &TcpStream, shared: &Shared) {
    answer(stream, shared, |message| match Route::of(message) {
        Ok(route) => match shared.sessions.check(message) {
            Some(signed) => {
                let Named { answer, session } = follow(route, message, &signed, shared);
                shared.sessions.sign_answer(&signed, answer, session)
            }
            None => Answer::words(401, "the request is not signed with this guest's key"),
        },
        Err(refused) => refused,
    });
}

/// Answers one connection of somebody who wants metrics.
pub fn figures(stream: &TcpStream, shared: &Shared) {
    answer(stream, shared, |message| {
        if message.path != "/metrics" {
            return Answer::words(404, "only /metrics is here");
        }
        if message.method != "GET" {
            return Answer::words(405, "metrics are read with GET");
        }
        let body = metrics::text(&shared.guest.figures(), &shared.own()).into_bytes();
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        let told = Answer { kind, ..Answer::json(body) };
        match shared.sessions.check(message) {
            Some(signed) => shared.sessions.sign_answer(&signed, told, None),
            None => told,
        }
    });
}

fn answer(stream: &TcpStream, shared: &Shared, decide: impl FnOnce(&Message) -> Answer) {
    let answer = match http::read_request(stream, PATIENCE) {
        Ok(message) => decide(&message),
        Err(HttpError::TooLong { what, most }) => {
            Answer::words(413, &format!("a {what} of more than {most} bytes"))
        }
        Err(HttpError::Malformed(error)) => Answer::words(400, &format!("not HTTP: {error}")),
        Err(HttpError::Cut) => Answer::words(400, "the request ends before it is complete"),
        // Nobody is there to be told.
        Err(HttpError::Io(_)) => return shared.refused(),
    };
    if answer.status != 200 {
        shared.refused();
    }
    if http::write_answer(stream, &answer, PATIENCE).is_err() {
        shared.refused();
    }
}

fn follow(route: Route, message: &Message, signed: &Signed, shared: &Shared) -> Named {
    let followed = match route {
        Route::Register => return register(&message.body, shared),
        Route::HealthCheck => health_check(message, signed, shared),
        Route::Downscale => downscale(message, signed, shared),
        Route::Upscale => upscale(message, signed, shared),
        Route::Unregister => unregister(message, signed, shared),
    };
    shared.wake();
    Named { answer: followed.unwrap_or_else(|refused| refused), session: None }
}

fn register(body: &[u8], shared: &Shared) -> Named {
    let registered = begin_registration(body, shared);
    shared.wake();
    match registered {
        Ok((description, session)) => Named { answer: ok(&description), session: Some(session) },
        Err(answer) => Named { answer, session: None },
    }
}

fn begin_registration(body: &[u8], shared: &Shared) -> Result<(InformantDesc, Token), Answer> {
    let asked = read_agent(body).map_err(|error| bad(&error))?;
    let (agent, address) = (AgentId(asked.agent_id.bytes()), asked.serve_addr.0);
    let versions = Versions { min: asked.min_version, max: asked.max_version };
    let proto_version = shared
        .core()
        .register(agent, &address.to_string(), versions)
        .map_err(|refusal| refused(&refusal))?;
    // Nothing is held while the agent is asked: others are answered meanwhile.
    let said = calls::identify(&shared.sessions, agent, address, IDENTIFY_WITHIN);
    let now = shared.now();
    let mut core = shared.core();
    core.identified(agent, said, now).map_err(|refusal| refused(&refusal))?;
    let session = shared.sessions.begin(agent);
    shared.sessions.keep(|agent| core.knows(agent));
    drop(core);
    let session = session.ok_or_else(|| Answer::words(503, "the guest has no randomness yet"))?;
    let prometheus = PrometheusMethod { port: shared.metrics_port.load(Ordering::Relaxed) };
    Ok((InformantDesc { proto_version, metrics_method: MetricsMethod { prometheus } }, session))
}

fn health_check(message: &Message, signed: &Signed, shared: &Shared) -> Result<Answer, Answer> {
    let said: AgentMessage<AgentIdentification> = numbered(message)?;
    let agent = AgentId(said.data.agent_id.bytes());
    in_session(agent, signed, shared)?;
    let checked = shared.core().health_checked(agent, said.sequence_number);
    checked.map(|()| nothing()).map_err(|refusal| refused(&refusal))
}

fn downscale(message: &Message, signed: &Signed, shared: &Shared) -> Result<Answer, Answer> {
    let said: AgentMessage<ResourceMessage> = numbered(message)?;
    let agent = AgentId(said.data.id.agent_id.bytes());
    in_session(agent, signed, shared)?;
    let (to, now) = (said.data.amount(), shared.now());
    let verdict = shared.core().downscale_asked(agent, said.sequence_number, to, now);
    let verdict = verdict.map_err(|refusal| refused(&refusal))?;
    Ok(ok(&DownscaleResult { ok: verdict.agrees, status: verdict.why }))
}

fn upscale(message: &Message, signed: &Signed, shared: &Shared) -> Result<Answer, Answer> {
    let said: AgentMessage<ResourceMessage> = numbered(message)?;
    let agent = AgentId(said.data.id.agent_id.bytes());
    in_session(agent, signed, shared)?;
    let told = shared.core().upscaled(agent, said.sequence_number, said.data.amount());
    told.map(|()| nothing()).map_err(|refusal| refused(&refusal))
}

fn unregister(message: &Message, signed: &Signed, shared: &Shared) -> Result<Answer, Answer> {
    let said = read_agent(&message.body).map_err(|error| bad(&error))?;
    let agent = AgentId(said.agent_id.bytes());
    in_session(agent, signed, shared)?;
    let left = shared.core().unregister(agent, &said.serve_addr.0.to_string());
    let was_active = left.map_err(|refusal| refused(&refusal))?;
    Ok(ok(&UnregisterAgent { was_active }))
}

/// An agent that was registered before this program started is not known any more.
fn in_session(agent: AgentId, signed: &Signed, shared: &Shared) -> Result<(), Answer> {
    if shared.sessions.is_open(agent, signed.session) {
        Ok(())
    } else {
        Err(refused(&Refusal::Unknown))
    }
}

fn numbered<T: DeserializeOwned>(message: &Message) -> Result<AgentMessage<T>, Answer> {
    read_numbered(&message.body).map_err(|error| bad(&error))
}

fn ok(body: &impl Serialize) -> Answer {
    Answer::json(serde_json::to_vec(body).unwrap_or_default())
}

fn nothing() -> Answer {
    Answer::json(b"{}".to_vec())
}

fn bad(error: &ReadError) -> Answer {
    Answer::words(400, &error.to_string())
}

fn refused(refusal: &Refusal) -> Answer {
    Answer::words(refusal_status(refusal), &refusal.to_string())
}

// === impl Route ===

impl Route {
    fn of(message: &Message) -> Result<Self, Answer> {
        let (route, method) = match message.path.as_str() {
            "/register" => (Self::Register, "POST"),
            "/health-check" => (Self::HealthCheck, "PUT"),
            "/downscale" => (Self::Downscale, "PUT"),
            "/upscale" => (Self::Upscale, "PUT"),
            "/unregister" => (Self::Unregister, "DELETE"),
            _ => return Err(Answer::words(404, "no such path")),
        };
        if message.method == method {
            Ok(route)
        } else {
            Err(Answer::words(405, &format!("{} is asked for with {method}", message.path)))
        }
    }
}
