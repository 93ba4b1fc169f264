//! What agent and guest tell each other: HTTP on port 10301 of the guest and on a port of the
//! agent's, JSON, at most 1 KiB.
//!
//! To the guest: POST `/register` with an [`AgentDesc`], answered by an [`InformantDesc`]; PUT
//! `/health-check` with an [`AgentIdentification`]; PUT `/downscale` and `/upscale` with
//! [`ResourceMessage`]s, the former answered by a [`DownscaleResult`]; DELETE `/unregister` with
//! the `AgentDesc`, answered by [`UnregisterAgent`]. To the agent: GET `/id`; POST `/suspend` and
//! `/resume` with [`ExpectedId`]; POST `/try-upscale` with [`MoreResources`]. What an agent sends
//! or answers beside descriptions is wrapped in an [`AgentMessage`] with a number that grows.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use walras_core::informant::Refusal;
use walras_core::units::Resources;

use crate::field::Problems;
use crate::json::{self, ReadError};

use super::amount::{AgentId, Cpu, Memory, ServeAddr, resources};

/// A message of more bytes than this is refused.
pub const BODY_MAX: usize = 1024;
/// The version that our informant speaks: 2.0.
pub const INFORMANT_VERSION: u32 = 4;
/// The versions that our agent speaks.
pub const AGENT_VERSIONS: VersionRange = VersionRange { min: 4, max: 4 };

/// The first and the last of some versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The first.
    pub min: u32,
    /// The last.
    pub max: u32,
}

/// Who an agent is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentDesc {
    /// Its id.
    #[serde(rename = "agentID")]
    pub agent_id: AgentId,
    /// Where it listens.
    #[serde(rename = "agentServeAddr")]
    pub serve_addr: ServeAddr,
    /// The first version that it speaks.
    #[serde(rename = "minProtoVersion")]
    pub min_version: u32,
    /// The last.
    #[serde(rename = "maxProtoVersion")]
    pub max_version: u32,
}

/// What a guest can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InformantDesc {
    /// The version that is spoken from now on.
    pub proto_version: u32,
    /// Where metrics are.
    pub metrics_method: MetricsMethod,
}

/// Where metrics are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsMethod {
    /// As Prometheus reads them.
    pub prometheus: PrometheusMethod,
}

/// Metrics as Prometheus reads them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrometheusMethod {
    /// On that port of the guest.
    pub port: u16,
}

/// What an agent sends, with a number that grows from one on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentMessage<T> {
    /// What it is about.
    pub data: T,
    /// Its number.
    pub sequence_number: u64,
}

/// Which agent it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentIdentification {
    /// Its id.
    #[serde(rename = "agentID")]
    pub agent_id: AgentId,
}

/// How much the guest has, or is asked to make do with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceMessage {
    /// CPU.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// Who says so.
    pub id: AgentIdentification,
}

/// Whether a guest can make do with less, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DownscaleResult {
    /// Whether it can.
    #[serde(rename = "Ok")]
    pub ok: bool,
    /// Why, for people.
    #[serde(rename = "Status")]
    pub status: String,
}

/// The end of a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct UnregisterAgent {
    /// Whether that agent was the one that the guest listened to.
    pub was_active: bool,
}

/// Which agent is meant, for `/suspend` and `/resume`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedId {
    /// Its id.
    #[serde(rename = "expectedID")]
    pub expected_id: AgentId,
}

/// What a guest needs more of, at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoreResources {
    /// More CPU.
    pub cpu: bool,
    /// More memory.
    pub memory: bool,
    /// Which agent is meant.
    #[serde(rename = "expectedID")]
    pub expected_id: AgentId,
}

/// Reads a message that is not numbered.
///
/// # Errors
/// It is too long, no JSON, or not such a message.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ReadError> {
    json::message(bytes, BODY_MAX)
}

/// Reads a description of an agent.
///
/// # Errors
/// As [`read`], or its versions are the wrong way round.
pub fn read_agent(bytes: &[u8]) -> Result<AgentDesc, ReadError> {
    let agent: AgentDesc = read(bytes)?;
    if agent.min_version > agent.max_version {
        let problem = format!("is more than maxProtoVersion, which is {}", agent.max_version);
        return Err(invalid("minProtoVersion", agent.min_version.to_string(), problem));
    }
    Ok(agent)
}

/// Reads a numbered message of an agent.
///
/// # Errors
/// As [`read`], or its number is zero.
pub fn read_numbered<T: DeserializeOwned>(bytes: &[u8]) -> Result<AgentMessage<T>, ReadError> {
    let message: AgentMessage<T> = read(bytes)?;
    if message.sequence_number == 0 {
        let problem = "is not a number from 1 on".to_owned();
        return Err(invalid("sequenceNumber", "0".to_owned(), problem));
    }
    Ok(message)
}

/// The status of an answer that is a refusal.
#[must_use]
pub const fn refusal_status(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::Unknown => 404,
        Refusal::AlreadyRegistered => 409,
        Refusal::Version { .. }
        | Refusal::Unreachable
        | Refusal::AnotherId { .. }
        | Refusal::AnotherAddress { .. }
        | Refusal::Suspended
        | Refusal::Old { .. } => 400,
        Refusal::TooMany => 503,
    }
}

fn invalid(path: &str, value: String, problem: String) -> ReadError {
    ReadError::Invalid(Problems::one(path.to_owned(), Some(value), problem))
}

// === impl VersionRange ===

impl VersionRange {
    /// The newest version that both speak.
    #[must_use]
    pub fn newest_common(self, other: Self) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

// === impl AgentDesc ===

impl AgentDesc {
    /// The versions that it speaks.
    #[must_use]
    pub const fn versions(&self) -> VersionRange {
        VersionRange { min: self.min_version, max: self.max_version }
    }
}

// === impl ResourceMessage ===

impl ResourceMessage {
    /// So much, said by that agent.
    #[must_use]
    pub const fn new(amount: Resources, agent_id: AgentId) -> Self {
        let (cpu, memory) = (Cpu(amount.cpu), Memory(amount.memory));
        Self { cpu, memory, id: AgentIdentification { agent_id } }
    }

    /// How much that is.
    #[must_use]
    pub const fn amount(&self) -> Resources {
        resources(self.cpu, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;
    use walras_core::units::{Bytes, Millicores};

    const ID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

    fn id() -> AgentId {
        AgentId::parse(ID).unwrap()
    }

    /// Checks that `value` is written as `json`, and read from it.
    fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, json: &str) {
        let json = json.replace("ID", ID).replace(&format!("agent{ID}"), "agentID");
        let json = json.replace(&format!("expected{ID}"), "expectedID");
        assert_eq!(serde_json::to_string(value).unwrap(), json);
        assert_eq!(read::<T>(json.as_bytes()).unwrap(), *value);
        // One field more is one too many.
        let more = json.replacen('{', "{\"colour\":1,", 1);
        let told = read::<T>(more.as_bytes()).unwrap_err().to_string();
        assert!(told.contains("unknown field `colour`"), "{told}");
    }

    #[test]
    fn every_message_is_written_as_it_is_documented() {
        let serve_addr = ServeAddr("10.0.0.7:8080".parse().unwrap());
        let agent = AgentDesc { agent_id: id(), serve_addr, min_version: 4, max_version: 4 };
        golden(
            &agent,
            concat!(
                r#"{"agentID":"ID","agentServeAddr":"10.0.0.7:8080","minProtoVersion":4,"#,
                r#""maxProtoVersion":4}"#,
            ),
        );
        let metrics_method = MetricsMethod { prometheus: PrometheusMethod { port: 9100 } };
        let informant = InformantDesc { proto_version: INFORMANT_VERSION, metrics_method };
        golden(&informant, r#"{"protoVersion":4,"metricsMethod":{"prometheus":{"port":9100}}}"#);
        let amount = Resources::new(Millicores::new(1500), Bytes::new(3 << 29));
        let message = ResourceMessage::new(amount, id());
        assert_eq!(message.amount(), amount);
        golden(
            &AgentMessage { data: message, sequence_number: 17 },
            concat!(
                r#"{"data":{"cpu":"1500m","memory":"1536Mi","id":{"agentID":"ID"}},"#,
                r#""sequenceNumber":17}"#,
            ),
        );
        golden(&AgentIdentification { agent_id: id() }, r#"{"agentID":"ID"}"#);
        let refused = DownscaleResult { ok: false, status: "1100 MiB are in use".to_owned() };
        golden(&refused, r#"{"Ok":false,"Status":"1100 MiB are in use"}"#);
        golden(&UnregisterAgent { was_active: true }, r#"{"wasActive":true}"#);
        golden(&ExpectedId { expected_id: id() }, r#"{"expectedID":"ID"}"#);
        let more = MoreResources { cpu: false, memory: true, expected_id: id() };
        golden(&more, r#"{"cpu":false,"memory":true,"expectedID":"ID"}"#);
    }

    #[test]
    fn a_number_is_never_zero() {
        let json = format!("{{\"data\":{{\"agentID\":\"{ID}\"}},\"sequenceNumber\":0}}");
        let told = read_numbered::<AgentIdentification>(json.as_bytes()).unwrap_err().to_string();
        assert_eq!(told, "sequenceNumber: 0 is not a number from 1 on");
        assert!(read_numbered::<AgentIdentification>(json.replace(":0", ":1").as_bytes()).is_ok());
    }

    #[test]
    fn versions_the_wrong_way_round_are_refused() {
        let json = format!(
            "{{\"agentID\":\"{ID}\",\"agentServeAddr\":\"10.0.0.7:1\",\"minProtoVersion\":5,\
             \"maxProtoVersion\":4}}"
        );
        let told = read_agent(json.as_bytes()).unwrap_err().to_string();
        assert_eq!(told, "minProtoVersion: 5 is more than maxProtoVersion, which is 4");
    }

    #[test]
    fn the_newest_version_that_both_speak_is_spoken() {
        let range = |min, max| VersionRange { min, max };
        assert_eq!(range(1, 4).newest_common(range(4, 9)), Some(4));
        assert_eq!(range(1, 6).newest_common(range(2, 5)), Some(5));
        assert_eq!(range(1, 3).newest_common(range(4, 4)), None);
    }

    #[test]
    fn a_message_that_is_too_long_is_not_looked_at() {
        let long = format!("{{\"Ok\":true,\"Status\":\"{}\"}}", "x".repeat(BODY_MAX));
        let told = read::<DownscaleResult>(long.as_bytes()).unwrap_err().to_string();
        assert_eq!(told, "a message of more than 1024 bytes");
    }
}
