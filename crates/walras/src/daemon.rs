//! Asks a node daemon over HTTP: what `walras top` and `walras explain` are told.
//!
//! Only plain HTTP is spoken, since a daemon listens on its own machine unless it is told
//! otherwise. Answers are bounded in size and time, and no proxy is asked.

use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::Uri;
use walras_wire::state::{Explanation, NodeState, Refusal};
use walras_wire::telemetry::NodeTelemetry;

use crate::failure::Failure;

/// Where a daemon listens unless told otherwise.
pub(crate) const DEFAULT_ADDRESS: &str = "http://127.0.0.1:8082";
/// The port of an address that names none.
const DEFAULT_PORT: u16 = 8082;
/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer is no larger: ten times what a thousand workloads take.
const ANSWER_MAX: u64 = 8 << 20;

/// A daemon somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    agent: Agent,
    base: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The address makes no sense.
    BadAddress(String),
    /// There is no answer, or not in time.
    NoAnswer { base: String, why: String },
    /// There is an answer, and it is not from a daemon of ours.
    Strange { base: String, why: String },
    /// The daemon refuses, in its own words.
    Refused(String),
}

// === impl Daemon ===

impl Daemon {
    /// The daemon at `address`, which may leave out `http://` and the port.
    pub(crate) fn at(address: &str) -> Result<Self, AskError> {
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .max_redirects(0)
            .http_status_as_error(false)
            .proxy(None)
            .user_agent("walras");
        Ok(Self { agent: config.build().into(), base: base(address)? })
    }

    /// The whole node.
    pub(crate) fn state(&self) -> Result<NodeState, AskError> {
        self.get("/api/v1/state")
    }

    /// The figures of the machine.
    pub(crate) fn telemetry(&self) -> Result<NodeTelemetry, AskError> {
        self.get("/api/v1/telemetry")
    }

    /// Why a workload has what it has.
    pub(crate) fn explain(&self, workload: &str) -> Result<Explanation, AskError> {
        self.get(&format!("/api/v1/pods/{}", escaped(workload)))
    }

    /// Its address.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AskError> {
        let strange = |why: String| AskError::Strange { base: self.base.clone(), why };
        let mut answer =
            self.agent.get(format!("{}{path}", self.base)).call().map_err(|error| {
                AskError::NoAnswer { base: self.base.clone(), why: plain(&error) }
            })?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec();
        let body = body.map_err(|error| strange(plain(&error)))?;
        if !status.is_success() {
            return Err(match serde_json::from_slice::<Refusal>(&body) {
                Ok(refusal) => AskError::Refused(refusal.error),
                Err(_) => strange(format!("it answers {status}")),
            });
        }
        serde_json::from_slice(&body)
            .map_err(|error| strange(format!("its answer cannot be read: {error}")))
    }
}

/// `address` with a scheme and a port, and nothing after it.
fn base(address: &str) -> Result<String, AskError> {
    let bad = |why: &str| AskError::BadAddress(format!("{address} is not an address: {why}"));
    let trimmed = address.trim_end_matches('/');
    let rest = match trimmed.split_once("://") {
        Some(("http", rest)) => rest,
        Some((scheme, _)) => return Err(bad(&format!("only http is spoken, not {scheme}"))),
        None => trimmed,
    };
    let uri: Uri = format!("http://{rest}").parse().map_err(|_| bad("write it as HOST:PORT"))?;
    let host = uri.host().filter(|host| !host.is_empty());
    let (Some(host), "/", None) = (host, uri.path(), uri.query()) else {
        return Err(bad("write it as HOST:PORT"));
    };
    let has_port = uri.authority().is_some_and(|authority| authority.as_str() != host);
    match uri.port_u16() {
        Some(port) => Ok(format!("http://{host}:{port}")),
        None if has_port => Err(bad("its port is not a number up to 65535")),
        None => Ok(format!("http://{host}:{DEFAULT_PORT}")),
    }
}

/// `text` as one part of a path.
fn escaped(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte));
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// What went wrong, without the library's own prefix.
fn plain(error: &ureq::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("io: ").unwrap_or(&text).to_owned()
}

// === impl AskError ===

impl AskError {
    /// What went wrong, in a sentence.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::BadAddress(message) | Self::Refused(message) => message.clone(),
            Self::NoAnswer { base, why } => {
                format!("no daemon answers at {base} ({why}); is `walras host` running?")
            }
            Self::Strange { base, why } => {
                format!("what answers at {base} is no daemon that this version understands: {why}")
            }
        }
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error {
            AskError::BadAddress(_) | AskError::Refused(_) => Self::Input(error.sentence()),
            AskError::NoAnswer { .. } | AskError::Strange { .. } => Self::Machine(error.sentence()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str) -> String {
        base(address).unwrap_or_else(|error| error.sentence())
    }

    #[test]
    fn an_address_may_leave_out_what_is_usual() {
        assert_eq!(check("http://127.0.0.1:8082"), "http://127.0.0.1:8082");
        assert_eq!(check("127.0.0.1"), "http://127.0.0.1:8082");
        assert_eq!(check("node-7:9000/"), "http://node-7:9000");
        assert_eq!(check("[::1]"), "http://[::1]:8082");
        assert_eq!(check("http://[::1]:80"), "http://[::1]:80");
    }

    #[test]
    fn an_address_that_makes_no_sense_is_refused_with_the_reason() {
        assert!(check("https://node").contains("only http is spoken, not https"));
        assert!(check("").contains("write it as HOST:PORT"));
        assert!(check("node:99999").contains("is not an address"));
        assert!(check("node/api").contains("write it as HOST:PORT"));
        assert!(check("a b").contains("write it as HOST:PORT"));
        assert!(check("user@node").contains("is not an address"));
    }

    #[test]
    fn a_name_becomes_one_part_of_a_path() {
        assert_eq!(escaped("a/b c?#%"), "a%2Fb%20c%3F%23%25");
        assert_eq!(escaped("ä"), "%C3%A4");
    }
}
