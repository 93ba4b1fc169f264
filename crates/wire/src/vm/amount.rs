//! CPU, memory and names as messages about virtual machines write them.
//!
//! CPU is a whole number of CPUs, or a quantity such as `"250m"` where it is a part of one. Memory
//! is a number of slots towards the scheduler, and a quantity towards the guest.

use std::fmt;
use std::net::SocketAddr;

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};
use walras_core::parse;
use walras_core::units::{Bytes, Millicores, Ratio, Resources};

use crate::kind::number;
use crate::name::is_name;
use crate::scalar::Scalar;

/// The largest load average that is believed: a million runnable tasks.
const LOAD_MAX: f64 = 1e6;
/// The longest part of a name: what Kubernetes allows.
const PART_MAX: usize = 253;

/// CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu(pub Millicores);

/// Memory in bytes, as a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(pub Bytes);

/// A load average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load(pub Ratio);

/// The name of a namespace, or a name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePart(String);

/// The number of an agent, which no other one has: 16 bytes as groups of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentId([u8; 16]);

/// Where an agent listens: an address with a port, and no name that would have to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeAddr(pub SocketAddr);

/// Where the groups of digits of an [`AgentId`] end.
const GROUPS: [usize; 4] = [8, 13, 18, 23];

// === impl Cpu ===

impl<'de> Deserialize<'de> for Cpu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Scalar::deserialize(deserializer)?;
        quantity(&written)
            .and_then(parse::Quantity::millicores_exact)
            .filter(|cpu| *cpu <= Millicores::LIMIT)
            .map(Self)
            .ok_or_else(|| refused(&written, "a number of CPUs such as 2 or \"250m\""))
    }
}

impl Serialize for Cpu {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let milli = self.0.get();
        if milli.is_multiple_of(1000) {
            serializer.serialize_u64(milli / 1000)
        } else {
            serializer.collect_str(&format_args!("{milli}m"))
        }
    }
}

// === impl Memory ===

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Scalar::deserialize(deserializer)?;
        quantity(&written)
            .and_then(parse::Quantity::bytes_exact)
            .map(Self)
            .ok_or_else(|| refused(&written, "an amount of memory such as \"512Mi\""))
    }
}

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0.get();
        let units = [(30, "Gi"), (20, "Mi"), (10, "Ki")];
        match units.into_iter().find(|(bits, _)| bytes > 0 && bytes.trailing_zeros() >= *bits) {
            Some((bits, unit)) => serializer.collect_str(&format_args!("{}{unit}", bytes >> bits)),
            None => serializer.collect_str(&bytes),
        }
    }
}

// === impl Load ===

impl<'de> Deserialize<'de> for Load {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Scalar::deserialize(deserializer)?;
        let load = number(&written).filter(|load| (0.0..=LOAD_MAX).contains(load));
        let load = load.ok_or_else(|| refused(&written, "a load average from 0 to 1000000"))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be in range"
        )]
        let millionths = (load * 1e6).round() as u64;
        Ok(Self(Ratio::from_millionths(millionths)))
    }
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.to_f64())
    }
}

// === impl NamePart ===

impl NamePart {
    /// The name, if it can be one.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let fits = name.len() <= PART_MAX && is_name(name) && !name.contains('/');
        fits.then(|| Self(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for NamePart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Scalar::deserialize(deserializer)?;
        let what = "a name of 1 to 253 visible characters without a slash";
        text(&written).and_then(Self::new).ok_or_else(|| refused(&written, what))
    }
}

impl Serialize for NamePart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

// === impl AgentId ===

impl AgentId {
    /// The agent of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Reads 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 36 || GROUPS.iter().any(|place| text.as_bytes()[*place] != b'-') {
            return None;
        }
        let mut digits = text.bytes().enumerate().filter(|(place, _)| !GROUPS.contains(place));
        let mut digit = || {
            let (_, byte) = digits.next()?;
            u8::try_from(char::from(byte).to_digit(16)?).ok()
        };
        let mut bytes = [0; 16];
        for byte in &mut bytes {
            *byte = digit()? << 4 | digit()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&place) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for AgentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Scalar::deserialize(deserializer)?;
        let what = "an id such as \"6ba7b810-9dad-11d1-80b4-00c04fd430c8\"";
        text(&written).and_then(Self::parse).ok_or_else(|| refused(&written, what))
    }
}

impl Serialize for AgentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl ServeAddr ===

impl<'de> Deserialize<'de> for ServeAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Scalar::deserialize(deserializer)?;
        let address = text(&written).and_then(|text| text.parse().ok());
        let what = "an address with a port such as \"10.0.0.7:8080\"";
        address.map(Self).ok_or_else(|| refused(&written, what))
    }
}

impl Serialize for ServeAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

// === What they have in common ===

/// CPU and memory of the core.
#[must_use]
pub const fn resources(cpu: Cpu, memory: Memory) -> Resources {
    Resources::new(cpu.0, memory.0)
}

fn quantity(written: &Scalar) -> Option<parse::Quantity> {
    let text = match written {
        Scalar::Text(text) => text.to_string(),
        Scalar::Whole(number) => number.to_string(),
        Scalar::Decimal(number) => number.to_string(),
        Scalar::Null | Scalar::Flag(_) | Scalar::Negative(_) | Scalar::List | Scalar::Object => {
            return None;
        }
    };
    parse::quantity(text.as_bytes()).ok()
}

fn text(written: &Scalar) -> Option<&str> {
    match written {
        Scalar::Text(text) => Some(text),
        Scalar::Null | Scalar::Flag(_) | Scalar::Whole(_) | Scalar::Negative(_) => None,
        Scalar::Decimal(_) | Scalar::List | Scalar::Object => None,
    }
}

fn refused<E: Error>(written: &Scalar, what: &str) -> E {
    E::custom(format_args!("{written} is not {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read, written again.
    fn check<T: for<'de> Deserialize<'de> + Serialize>(json: &str) -> String {
        match serde_json::from_str::<T>(json) {
            Ok(value) => serde_json::to_string(&value).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn cpu_is_whole_or_a_quantity() {
        for (json, again) in [
            ("2", "2"),
            ("\"2\"", "2"),
            ("\"250m\"", "\"250m\""),
            ("0.25", "\"250m\""),
            ("\"1500m\"", "\"1500m\""),
            ("0", "0"),
        ] {
            assert_eq!(check::<Cpu>(json), again, "{json}");
        }
        for json in ["-1", "0.0001", "\"1u\"", "1e12", "null", "[]", "true", "\"\""] {
            assert!(check::<Cpu>(json).contains("is not a number of CPUs"), "{json}");
        }
    }

    #[test]
    fn memory_is_a_quantity() {
        assert_eq!(check::<Memory>("\"512Mi\""), "\"512Mi\"");
        assert_eq!(check::<Memory>("\"2048Mi\""), "\"2Gi\"");
        assert_eq!(check::<Memory>("1000"), "\"1000\"");
        assert!(check::<Memory>("\"0.5\"").contains("is not an amount of memory"));
        assert!(check::<Memory>("{}").contains("an object is not an amount"));
    }

    #[test]
    fn a_load_is_a_number_within_reason() {
        assert_eq!(check::<Load>("1.25"), "1.25");
        assert_eq!(check::<Load>("3"), "3.0");
        for json in ["-0.5", "1000001", "\"1\"", "null"] {
            assert!(check::<Load>(json).contains("is not a load average"), "{json}");
        }
    }

    #[test]
    fn an_id_is_digits_in_groups() {
        let id = "\"6BA7b810-9dad-11d1-80b4-00c04fd430c8\"";
        assert_eq!(check::<AgentId>(id), id.to_lowercase());
        for json in [
            "\"6ba7b8109dad11d180b400c04fd430c8\"",
            "\"6ba7b810-9dad-11d1-80b4-00c04fd430cg\"",
            "\"6ba7b810-9dad-11d1-80b4-00c04fd430\u{e4}\"",
            "\"ä6ba7b810-9dad-11d1-80b4-00c04fd430\"",
            "7",
        ] {
            assert!(check::<AgentId>(json).contains("is not an id"), "{json}");
        }
    }

    #[test]
    fn an_address_is_never_looked_up() {
        assert_eq!(check::<ServeAddr>("\"10.0.0.7:8080\""), "\"10.0.0.7:8080\"");
        assert_eq!(check::<ServeAddr>("\"[::1]:80\""), "\"[::1]:80\"");
        for json in ["\"agent.example:80\"", "\"10.0.0.7\"", "\"10.0.0.7:99999\"", "80"] {
            assert!(check::<ServeAddr>(json).contains("is not an address"), "{json}");
        }
    }

    #[test]
    fn a_name_is_visible_and_without_a_slash() {
        assert_eq!(check::<NamePart>("\"db-0\""), "\"db-0\"");
        let long = format!("\"{}\"", "a".repeat(254));
        for json in ["\"\"", "\"a/b\"", "\"a\\u202e\"", "\"a\\n\"", &long, "1"] {
            assert!(check::<NamePart>(json).contains("is not a name"), "{json}");
        }
    }
}
