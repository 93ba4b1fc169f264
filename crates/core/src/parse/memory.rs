//! The memory files of both cgroup versions.
//!
//! Walras divides CPU, and reads memory only to notice workloads that are short of it. "No limit"
//! is the word `max` in the second version and a number close to 2^63 in the first; both come out
//! as nothing.

use super::error::ParseError;
use super::field::{find, lines, only_value};
use crate::units::Bytes;

/// What the memory of a cgroup is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStat {
    /// Memory that no file backs.
    pub anon: Bytes,
    /// Cached parts of files.
    pub file: Bytes,
    /// The part of `file` that the kernel would give up first.
    pub inactive_file: Option<Bytes>,
    /// The kernel's own data structures.
    pub slab: Option<Bytes>,
}

/// How often a cgroup met the edges of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Times its memory was reclaimed although it was within its protection.
    pub low: Option<u64>,
    /// Times it was above `memory.high` and slowed down.
    pub high: Option<u64>,
    /// Times it was about to exceed `memory.max`.
    pub max: Option<u64>,
    /// Times an allocation was about to fail because of its limit.
    pub oom: u64,
    /// Processes killed for want of memory.
    pub oom_kill: u64,
}

/// The first version writes "no limit" as the largest number that is a multiple of the page size
/// and below 2^63. This is that number for pages of 64 KiB; smaller pages give a larger one.
const V1_UNLIMITED_FROM: u64 = 0x7FFF_FFFF_FFFF_0000;

/// `memory.current`.
///
/// # Errors
///
/// Where the number is missing or none.
pub fn memory_current(text: &[u8]) -> Result<Bytes, ParseError> {
    only_value("memory.current", text).number().map(Bytes::new)
}

/// `memory.max`; nothing where it is not limited.
///
/// # Errors
///
/// Where the number is missing, or neither a number nor `max`.
pub fn memory_max(text: &[u8]) -> Result<Option<Bytes>, ParseError> {
    bytes_or_max("memory.max", text)
}

/// `memory.high`; nothing where it is not limited.
///
/// # Errors
///
/// Where the number is missing, or neither a number nor `max`.
pub fn memory_high(text: &[u8]) -> Result<Option<Bytes>, ParseError> {
    bytes_or_max("memory.high", text)
}

/// `memory.stat` of the second version.
///
/// # Errors
///
/// Where `anon` or `file` is missing, or one of the values is no number.
pub fn memory_stat(text: &[u8]) -> Result<MemoryStat, ParseError> {
    let keys = ["anon", "file", "inactive_file", "slab"];
    let [anon, file, inactive_file, slab] = find("memory.stat", keys, lines(text));
    Ok(MemoryStat {
        anon: Bytes::new(anon.number()?),
        file: Bytes::new(file.number()?),
        inactive_file: inactive_file.number_if_there()?.map(Bytes::new),
        slab: slab.number_if_there()?.map(Bytes::new),
    })
}

/// `memory.events`.
///
/// # Errors
///
/// Where `oom` or `oom_kill` is missing, or one of the values is no number.
pub fn memory_events(text: &[u8]) -> Result<MemoryEvents, ParseError> {
    let keys = ["low", "high", "max", "oom", "oom_kill"];
    let [low, high, max, oom, oom_kill] = find("memory.events", keys, lines(text));
    Ok(MemoryEvents {
        low: low.number_if_there()?,
        high: high.number_if_there()?,
        max: max.number_if_there()?,
        oom: oom.number()?,
        oom_kill: oom_kill.number()?,
    })
}

/// `memory.usage_in_bytes` of the first version.
///
/// # Errors
///
/// Where the number is missing or none.
pub fn memory_usage_v1(text: &[u8]) -> Result<Bytes, ParseError> {
    only_value("memory.usage_in_bytes", text).number().map(Bytes::new)
}

/// `memory.limit_in_bytes` of the first version; nothing where it is not limited.
///
/// # Errors
///
/// Where the number is missing or none.
pub fn memory_limit_v1(text: &[u8]) -> Result<Option<Bytes>, ParseError> {
    let limit = only_value("memory.limit_in_bytes", text).number()?;
    Ok((limit < V1_UNLIMITED_FROM).then_some(Bytes::new(limit)))
}

fn bytes_or_max(file: &'static str, text: &[u8]) -> Result<Option<Bytes>, ParseError> {
    Ok(only_value(file, text).number_unless("max")?.map(Bytes::new))
}
