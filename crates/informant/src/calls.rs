//! Calls to agents: who they are, that they are suspended or resumed, and that more is needed.
//!
//! Only an agent that was authenticated is ever called, and only at the address that it signed.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use walras_core::informant::{AgentId, Needs, Saying};
use walras_wire::vm::amount::AgentId as WireId;
use walras_wire::vm::informant::{
    AgentIdentification, AgentMessage, ExpectedId, MoreResources, read_numbered,
};

use crate::http::{self, Message};
use crate::session::Sessions;

/// Asks who listens at an address. Nothing where nobody with the key answers.
#[must_use]
pub fn identify(
    sessions: &Sessions,
    agent: AgentId,
    address: SocketAddr,
    within: Duration,
) -> Option<AgentId> {
    exchange(sessions, agent, address, Message::request("GET", "/id", Vec::new()), within)
}

/// Makes a call; says whether the agent that was meant took it.
#[must_use]
pub fn tell(
    sessions: &Sessions,
    agent: AgentId,
    address: SocketAddr,
    what: Saying,
    within: Duration,
) -> bool {
    let expected_id = WireId::new(agent.0);
    let request = match what {
        Saying::Check => Message::request("GET", "/id", Vec::new()),
        Saying::Suspend => Message::json("/suspend", &ExpectedId { expected_id }),
        Saying::Resume => Message::json("/resume", &ExpectedId { expected_id }),
        Saying::AskMore(Needs { cpu, memory }) => {
            Message::json("/try-upscale", &MoreResources { cpu, memory, expected_id })
        }
    };
    exchange(sessions, agent, address, request, within) == Some(agent)
}

fn exchange(
    sessions: &Sessions,
    agent: AgentId,
    address: SocketAddr,
    mut request: Message,
    within: Duration,
) -> Option<AgentId> {
    let signature = sessions.sign_call(agent, &mut request)?;
    let answer = http::call(address, &request, within).ok()?;
    if answer.status != 200 || !sessions.check_answer(signature, &answer) {
        return None;
    }
    let said: AgentMessage<AgentIdentification> = read_numbered(&answer.body).ok()?;
    Some(AgentId(said.data.agent_id.bytes()))
}

impl Message {
    fn request(method: &str, path: &str, body: Vec<u8>) -> Self {
        let (method, path) = (method.to_owned(), path.to_owned());
        Self { method, path, body, ..Self::default() }
    }

    fn json(path: &str, body: &impl Serialize) -> Self {
        Self::request("POST", path, serde_json::to_vec(body).unwrap_or_default())
    }
}
