//! Our services over gRPC, the workload API, the Brain and the telemetry of nodes: their messages,
//! servers, clients, and the certificates of both sides.
//!
//! This is the one crate that knows the gRPC library. A server implements [`Agent`], [`Brain`] or
//! [`telemetry::Collector`], in plain functions and with [`Refused`] as its error; a client has a
//! [`Client`] or a [`BrainClient`]. The messages are made from the protocols in `proto` by
//! `cargo xtask proto`, and committed.
#![forbid(unsafe_code)]

mod adapter;
mod brain;
pub mod certs;
mod client;
pub mod control;
mod json;
mod listen;
mod rights;
mod serve;
pub mod telemetry;
mod tls;

pub use brain::{
    BRAIN_LIMITS, Brain, BrainClient, PORT as BRAIN_PORT, SERVICE as BRAIN_SERVICE, serve_brain,
};
pub use client::{CallError, Client, Pieces, Target};
pub use json::{from_json, to_json};
pub use listen::{Listen, Peer};
pub use rights::{Rights, Verb};
pub use serve::{Agent, Answers, Code, Limits, Refused, ServeError, Server};
pub use tls::{Secured, ServerTls, TlsError, TlsFolder};

/// The messages, as `proto/agent.proto` has them.
pub mod agent {
    #![expect(
        missing_docs,
        clippy::all,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        clippy::too_many_lines,
        reason = "made by a program"
    )]
    include!("generated/agent.rs.in");
}

/// What a host tells a control plane, as `proto/control.proto` has it.
pub mod control_plane {
    #![expect(
        missing_docs,
        clippy::all,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        clippy::too_many_lines,
        reason = "made by a program"
    )]
    include!("generated/control.rs.in");
}

/// The messages of the Brain, as `proto/scheduler.proto` has them.
pub mod scheduler {
    #![expect(
        missing_docs,
        clippy::all,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        clippy::too_many_lines,
        reason = "made by a program"
    )]
    include!("generated/scheduler.rs.in");
}

/// What nodes tell of themselves, as `proto/telemetry.proto` has it.
pub mod reports {
    #![expect(
        missing_docs,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "made by a program"
    )]
    include!("generated/telemetry.rs.in");
}

/// The description of the messages that reflection hands out.
const DESCRIPTION: &[u8] = include_bytes!("generated/agent.bin");
/// The name of the service, as health checks ask for it.
pub const SERVICE: &str = "persys.agent.v1.AgentService";
/// The port that agents listen on.
pub const PORT: u16 = 50051;

#[cfg(test)]
mod tests {
    /// What code was made from, and what is there now.
    const MADE_FROM: [(&str, &str); 4] = [
        (include_str!("generated/agent.from"), include_str!("../../../proto/agent.proto")),
        (include_str!("generated/control.from"), include_str!("../../../proto/control.proto")),
        (include_str!("generated/scheduler.from"), include_str!("../../../proto/scheduler.proto")),
        (include_str!("generated/telemetry.from"), include_str!("../../../proto/telemetry.proto")),
    ];

    #[test]
    fn the_committed_code_was_made_from_the_protocols_as_they_are() {
        for (made_from, protocol) in MADE_FROM {
            assert!(made_from == protocol, "a protocol changed; run `cargo xtask proto`");
        }
    }
}
