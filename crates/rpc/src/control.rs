//! The client of a control plane that wants to be told of a host: package `persys.control.v1`.
//!
//! The same certificates as everywhere: the control plane proves its name, and the host its own.

use std::time::{Duration, UNIX_EPOCH};

use tonic::transport::Channel;

use crate::client::{CallError, Target, answer, reach};
use crate::control_plane::agent_control_client::AgentControlClient;
use crate::control_plane::{
    HeartbeatRequest, HeartbeatResponse, RegisterNodeRequest, RegisterNodeResponse,
};
use crate::serve::{Code, Refused};

/// A time, as the protocol has it.
pub use prost_types::Timestamp as Time;

/// How long the control plane may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A client of one control plane.
#[derive(Clone, Debug)]
pub struct ControlClient {
    inner: AgentControlClient<Channel>,
}

impl ControlClient {
    /// Reaches a control plane.
    ///
    /// # Errors
    /// It cannot be reached, or does not prove itself.
    pub async fn connect(target: &Target) -> Result<Self, CallError> {
        Ok(Self { inner: AgentControlClient::new(reach(target).await?) })
    }

    /// Tells that a host is there.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn register(
        &mut self,
        request: RegisterNodeRequest,
    ) -> Result<RegisterNodeResponse, Refused> {
        let asked = tokio::time::timeout(ANSWER, self.inner.register_node(request)).await;
        answer(asked.map_err(|_| late())?)
    }

    /// Tells how a host is.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn heartbeat(
        &mut self,
        request: HeartbeatRequest,
    ) -> Result<HeartbeatResponse, Refused> {
        let asked = tokio::time::timeout(ANSWER, self.inner.heartbeat(request)).await;
        answer(asked.map_err(|_| late())?)
    }
}

/// A time as the protocol has it.
#[must_use]
pub fn timestamp(since_1970: Duration) -> Time {
    Time::from(UNIX_EPOCH + since_1970)
}

/// How long it is from `now` until then, both since 1970; nothing if that is over.
#[must_use]
pub fn remaining(until: &Time, now: Duration) -> Duration {
    let seconds = u64::try_from(until.seconds).unwrap_or(0);
    Duration::from_secs(seconds).saturating_sub(now)
}

fn late() -> Refused {
    let message = format!("no answer within {} s", ANSWER.as_secs());
    Refused { code: Code::Unreachable, message }
}
