//! Why an agent is not heard. Nothing changed because of it.

use alloc::string::String;

use thiserror::Error;

use super::{AgentId, Versions};

/// Why an agent is not heard.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nobody of that id is registered; it should register.
    #[error("no agent of that id is registered; register first")]
    Unknown,
    /// Somebody of that id is.
    #[error("an agent of that id is registered already")]
    AlreadyRegistered,
    /// They have no version in common.
    #[error("version {ours} is spoken here, and the agent speaks {} to {}", theirs.min, theirs.max)]
    Version {
        /// What is spoken here.
        ours: u32,
        /// What the agent speaks.
        theirs: Versions,
    },
    /// At the address of an agent, nobody said who they are.
    #[error("nobody at the agent's address said who they are")]
    Unreachable,
    /// At the address of an agent, another one listens.
    #[error("at the agent's address listens agent {said}")]
    AnotherId {
        /// Who that is.
        said: AgentId,
    },
    /// It is registered from another address.
    #[error("the agent is registered at {known}")]
    AnotherAddress {
        /// Which that is.
        known: String,
    },
    /// Another agent is listened to.
    #[error("the agent is suspended")]
    Suspended,
    /// A later message came before.
    #[error("sequenceNumber: {sequence} is not larger than {newest}, which was heard before")]
    Old {
        /// The number of this message.
        sequence: u64,
        /// The number of the newest.
        newest: u64,
    },
    /// Too many agents are being registered at once.
    #[error("too many agents are being registered; try again")]
    TooMany,
}
