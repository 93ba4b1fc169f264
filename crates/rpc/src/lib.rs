//! The workload API over gRPC: its messages, a server, a client, and the certificates of both.
//!
//! This is the one crate that knows the gRPC library. Whoever serves implements [`Agent`], in plain
//! functions and with [`Refused`] as its error; whoever asks has a [`Client`]. The messages are
//! made from `proto/agent.proto` by `cargo xtask proto`, and committed.
#![forbid(unsafe_code)]

pub mod certs;
mod client;
mod listen;
mod serve;
mod tls;

pub use client::{CallError, Client, Target};
pub use listen::{Listen, Peer};
pub use serve::{Agent, Code, Limits, Refused, ServeError, Server};
pub use tls::{TlsError, TlsFolder};

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

/// The description of the messages that reflection hands out.
const DESCRIPTION: &[u8] = include_bytes!("generated/agent.bin");
/// The name of the service, as health checks ask for it.
pub const SERVICE: &str = "persys.agent.v1.AgentService";
/// The port that agents listen on.
pub const PORT: u16 = 50051;

#[cfg(test)]
mod tests {
    /// Made by `cargo xtask proto` from the file that it was made from.
    const MADE_FROM: &str = include_str!("generated/agent.from");

    #[test]
    fn the_committed_code_was_made_from_the_protocol_as_it_is() {
        let protocol = include_str!("../../../proto/agent.proto");
        assert!(MADE_FROM == protocol, "agent.proto changed; run `cargo xtask proto`");
    }
}
