//! What an agent asks a scheduler, and what it is told: POST on port 10299, JSON, at most 1 KiB.
//!
//! A server reads with [`read_request`], which accepts v2.0 and v2.1, asks the ledger, and writes a
//! [`PermitResponse`] or a status of [`status`]. An agent writes a [`PermitRequest`] and reads with
//! [`read_response`]. Memory is counted in slots, whose size both sides know. The number of a
//! question travels in the header [`SEQUENCE_HEADER`], which servers of others ignore.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use walras_core::permit::{Answer, Ask, Refusal};
use walras_core::units::{Bytes, ComputeUnit, Resources, VmName};

use crate::field::Problems;
use crate::json::{self, ReadError};

use super::amount::{Cpu, Load, NamePart};

/// A message of more bytes than this is refused.
pub const BODY_MAX: usize = 1024;
/// The header with the number of a question.
pub const SEQUENCE_HEADER: &str = "Walras-Sequence";

/// How agents and schedulers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// v2.0: CPUs may be parts of one.
    V2_0,
    /// v2.1: the agent tells what it was permitted last.
    V2_1,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PermitRequest {
    /// The number of the version: 3 is v2.0, 4 is v2.1.
    proto_version: u32,
    /// Whose machine.
    pub pod: PodName,
    /// What should be permitted.
    pub resources: Slots,
    /// What was permitted last; from v2.1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_permit: Option<Slots>,
    /// What the machine tells.
    #[serde(default)]
    pub metrics: Option<Loads>,
}

/// The name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodName {
    /// Its namespace.
    pub namespace: NamePart,
    /// Its name there.
    pub name: NamePart,
}

/// CPUs, and memory in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    /// CPU.
    #[serde(rename = "vCPUs")]
    pub cpus: Cpu,
    /// Memory, in slots.
    #[serde(rename = "mem")]
    pub memory: u16,
}

/// The load averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loads {
    /// Of one minute.
    #[serde(rename = "loadAvg1M")]
    pub one_minute: Load,
    /// Of five minutes.
    #[serde(rename = "loadAvg5M", default, skip_serializing_if = "Option::is_none")]
    pub five_minutes: Option<Load>,
    /// What some agents add, and nobody reads.
    #[serde(rename = "memoryUsageBytes", default, skip_serializing)]
    memory: Unread,
}

/// Whatever is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unread;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PermitResponse {
    /// What may be used.
    pub permit: Slots,
    /// `{}` where the machine moves away, else `null`.
    migrate: Option<Map<String, Value>>,
    /// What machines are sized in.
    pub resource_unit: Slots,
}

/// Only the version of a question, which is looked at before anything else is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned {
    proto_version: u32,
}

/// Reads a question.
///
/// # Errors
/// It is too long, no JSON, of another version, or not what a question of its version is.
pub fn read_request(bytes: &[u8]) -> Result<PermitRequest, ReadError> {
    let Versioned { proto_version } = json::message(bytes, BODY_MAX)?;
    let Some(version) = Version::of(proto_version) else {
        let what = "is not a version that is spoken here, which are 3 (v2.0) and 4 (v2.1)";
        return Err(invalid("protoVersion", &proto_version.to_string(), what));
    };
    let request: PermitRequest = json::message(bytes, BODY_MAX)?;
    if version < Version::V2_1 && request.last_permit.is_some() {
        return Err(invalid("lastPermit", "it", "is known from v2.1 (4) on"));
    }
    Ok(request)
}

/// Reads an answer.
///
/// # Errors
/// It is too long, no JSON, or not an answer.
pub fn read_response(bytes: &[u8]) -> Result<PermitResponse, ReadError> {
    let response: PermitResponse = json::message(bytes, BODY_MAX)?;
    if response.migrate.as_ref().is_some_and(|fields| !fields.is_empty()) {
        return Err(invalid("migrate", "it", "has fields; it must be null or {}"));
    }
    Ok(response)
}

/// The number of a question, as the header has it.
#[must_use]
pub fn read_sequence(header: &str) -> Option<u64> {
    let digits = header.bytes().all(|byte| byte.is_ascii_digit());
    if digits { header.parse().ok() } else { None }
}

/// The status of an answer that is a refusal.
#[must_use]
pub const fn status(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::UnknownVm { .. } => 404,
        Refusal::NotScaled { .. }
        | Refusal::Nothing { .. }
        | Refusal::AboveMax { .. }
        | Refusal::Impossible { .. } => 400,
        // Only who sends numbers can be told of them.
        Refusal::Overtaken { .. } => 409,
        Refusal::Unsettled { .. } => 500,
    }
}

fn invalid(path: &str, value: &str, problem: &str) -> ReadError {
    let problems = Problems::one(path.to_owned(), Some(value.to_owned()), problem.to_owned());
    ReadError::Invalid(problems)
}

// === impl Version ===

impl Version {
    /// Its number in messages.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V2_0 => 3,
            Self::V2_1 => 4,
        }
    }

    /// The version of that number, if it is spoken here.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        [Self::V2_0, Self::V2_1].into_iter().find(|version| version.number() == number)
    }
}

// === impl PermitRequest ===

impl PermitRequest {
    /// The question that `ask` is, in the newest version. Memory is rounded down to slots, of
    /// which bounds and units are multiples.
    #[must_use]
    pub fn new(pod: PodName, ask: &Ask, slot: Bytes, five_minutes: Option<Load>) -> Self {
        let metrics = |load| Loads { one_minute: Load(load), five_minutes, memory: Unread };
        Self {
            proto_version: Version::V2_1.number(),
            pod,
            resources: Slots::floor(ask.wanted, slot),
            last_permit: ask.last_permit.map(|last| Slots::floor(last, slot)),
            metrics: ask.load.map(metrics),
        }
    }

    /// In which version it was asked.
    #[must_use]
    pub fn version(&self) -> Version {
        Version::of(self.proto_version).unwrap_or(Version::V2_0)
    }

    /// What the ledger is asked.
    #[must_use]
    pub fn ask(&self, slot: Bytes, sequence: Option<u64>) -> Ask {
        let PodName { namespace, name } = &self.pod;
        Ask {
            vm: VmName::new(&format!("{}/{}", namespace.as_str(), name.as_str())),
            wanted: self.resources.times(slot),
            last_permit: self.last_permit.map(|last| last.times(slot)),
            load: self.metrics.map(|loads| loads.one_minute.0),
            sequence,
        }
    }
}

// === impl PermitResponse ===

impl PermitResponse {
    /// What is told. A permit is rounded down to slots, never up.
    #[must_use]
    pub fn new(answer: &Answer, slot: Bytes) -> Self {
        Self {
            permit: Slots::floor(answer.permit, slot),
            migrate: answer.migrate.then(Map::new),
            resource_unit: Slots::floor(answer.unit.one(), slot),
        }
    }

    /// What that means, unless its unit is none.
    #[must_use]
    pub fn answer(&self, slot: Bytes) -> Option<Answer> {
        let unit = ComputeUnit::new(self.resource_unit.times(slot))?;
        let migrate = self.migrate.is_some();
        Some(Answer { permit: self.permit.times(slot), migrate, unit })
    }
}

// === impl Unread ===

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

// === impl Slots ===

impl Slots {
    /// So much, with memory rounded down to slots; the most that can be written where it is more.
    #[must_use]
    pub fn floor(amount: Resources, slot: Bytes) -> Self {
        let slots = amount.memory.get() / slot.get().max(1);
        Self { cpus: Cpu(amount.cpu), memory: u16::try_from(slots).unwrap_or(u16::MAX) }
    }

    /// How much that is.
    #[must_use]
    pub fn times(self, slot: Bytes) -> Resources {
        let memory = slot.get().saturating_mul(u64::from(self.memory));
        Resources::new(self.cpus.0, Bytes::new(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::units::{Millicores, Ratio};

    const GIB: Bytes = Bytes::new(1 << 30);

    const V2_0: &str = concat!(
        r#"{"protoVersion":3,"pod":{"namespace":"prod","name":"db-0"},"#,
        r#""resources":{"vCPUs":"250m","mem":1},"metrics":null}"#,
    );
    const V2_1: &str = concat!(
        r#"{"protoVersion":4,"pod":{"namespace":"prod","name":"db-0"},"#,
        r#""resources":{"vCPUs":2,"mem":8},"lastPermit":{"vCPUs":"1750m","mem":7},"#,
        r#""metrics":{"loadAvg1M":1.75,"loadAvg5M":1.5}}"#,
    );

    fn told(json: &str) -> String {
        read_request(json.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn both_versions_are_read_and_written_as_they_came() {
        for (json, version) in [(V2_0, Version::V2_0), (V2_1, Version::V2_1)] {
            let request = read_request(json.as_bytes()).unwrap();
            assert_eq!(request.version(), version);
            assert_eq!(serde_json::to_string(&request).unwrap(), json);
        }
    }

    #[test]
    fn a_question_becomes_one_to_the_ledger_and_back() {
        let request = read_request(V2_1.as_bytes()).unwrap();
        let ask = request.ask(GIB, Some(7));
        let both = |cpu, gib: u64| Resources::new(Millicores::new(cpu), Bytes::new(gib << 30));
        assert_eq!(ask.vm.as_str(), "prod/db-0");
        assert_eq!((ask.wanted, ask.last_permit), (both(2000, 8), Some(both(1750, 7))));
        assert_eq!((ask.load, ask.sequence), (Some(Ratio::from_millionths(1_750_000)), Some(7)));
        let five = Some(Load(Ratio::from_millionths(1_500_000)));
        assert_eq!(PermitRequest::new(request.pod.clone(), &ask, GIB, five), request);
    }

    #[test]
    fn an_answer_is_written_as_it_is_read() {
        let unit = ComputeUnit::new(Resources::new(Millicores::new(250), GIB)).unwrap();
        for (migrate, json) in [
            (
                false,
                concat!(
                    r#"{"permit":{"vCPUs":1,"mem":4},"migrate":null,"#,
                    r#""resourceUnit":{"vCPUs":"250m","#,
                    r#""mem":1}}"#,
                ),
            ),
            (
                true,
                concat!(
                    r#"{"permit":{"vCPUs":1,"mem":4},"migrate":{},"resourceUnit":{"vCPUs":"250m","#,
                    r#""mem":1}}"#,
                ),
            ),
        ] {
            let answer = Answer { permit: unit.times(4), migrate, unit };
            let response = PermitResponse::new(&answer, GIB);
            assert_eq!(serde_json::to_string(&response).unwrap(), json);
            assert_eq!(read_response(json.as_bytes()).unwrap().answer(GIB), Some(answer));
        }
    }

    #[test]
    fn another_version_is_refused_before_its_fields_are_looked_at() {
        for version in [0, 1, 2, 5, 6, 4_000_000_000_u32] {
            let told = told(&format!("{{\"protoVersion\":{version},\"computeUnit\":{{}}}}"));
            assert!(told.contains("is not a version that is spoken here"), "{told}");
        }
        assert!(told(&V2_1.replace(":4,", ":3,")).contains("lastPermit: it is known from v2.1"));
        assert!(told("{}").contains("protoVersion"));
    }

    #[test]
    fn what_is_unknown_twice_of_another_kind_or_too_long_is_refused() {
        for (json, words) in [
            (V2_0.replace("\"metrics\":null", "\"colour\":1"), "unknown field `colour`"),
            (V2_0.replace("\"metrics\":null", "\"protoVersion\":3"), "duplicate field"),
            (V2_0.replace("\"250m\"", "-1"), "resources.vCPUs: -1 is not a number of CPUs"),
            (V2_0.replace("\"mem\":1", "\"mem\":65536"), "resources.mem: "),
            (V2_0.replace("db-0", "a/b"), "pod.name: \"a/b\" is not a name"),
            (V2_0.to_owned() + "{}", "trailing characters"),
            (V2_0.to_owned() + &" ".repeat(BODY_MAX), "a message of more than 1024 bytes"),
        ] {
            let told = told(&json);
            assert!(told.contains(words), "{json}: {told}");
        }
        let moved = concat!(
            r#"{"permit":{"vCPUs":1,"mem":4},"migrate":{"a":1},"resourceUnit":{"vCPUs":1,"#,
            r#""mem":1}}"#,
        );
        assert!(read_response(moved.as_bytes()).is_err());
    }

    #[test]
    fn a_permit_is_never_rounded_up() {
        let odd = Resources::new(Millicores::new(333), Bytes::new((3 << 30) - 1));
        assert_eq!(Slots::floor(odd, GIB).memory, 2);
        assert_eq!(Slots::floor(odd, Bytes::ZERO).memory, u16::MAX);
    }

    #[test]
    fn a_number_of_a_question_is_digits_and_nothing_else() {
        assert_eq!(read_sequence("18446744073709551615"), Some(u64::MAX));
        for header in ["", "+1", " 1", "1.0", "18446744073709551616"] {
            assert_eq!(read_sequence(header), None, "{header:?}");
        }
    }

    #[test]
    fn refusals_have_the_documented_status() {
        let vm = VmName::new("a");
        assert_eq!(status(&Refusal::UnknownVm { vm: vm.clone() }), 404);
        assert_eq!(status(&Refusal::Nothing { vm: vm.clone(), wanted: Resources::ZERO }), 400);
        let (wanted, using) = (Resources::ZERO, Resources::ZERO);
        assert_eq!(status(&Refusal::Unsettled { vm: vm.clone(), wanted, using }), 500);
        assert_eq!(status(&Refusal::Overtaken { vm, sequence: 1, newest: 2 }), 409);
    }
}
