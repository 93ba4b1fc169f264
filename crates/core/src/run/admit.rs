//! Whether a host takes one more workload, or a larger one.
//!
//! What is promised to workloads that should run must fit the host, whether or not they use it now.

use crate::units::{Bytes, Millicores};

use super::spec::Needs;

/// More workloads than this are not taken, however small they are.
pub const WORKLOADS_MAX: usize = 10_000;

/// What a host has for workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// CPU.
    pub cpu: Millicores,
    /// Memory.
    pub memory: Bytes,
}

/// Why a workload is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The host is drained.
    #[error("the host is drained, and takes nothing new")]
    Drained,
    /// There are too many.
    #[error("the host has {WORKLOADS_MAX} workloads, and takes no more")]
    TooMany,
    /// It needs more CPU than is left.
    #[error(
        "resources.cpu_min_milli: {} is wanted and {} is left of {}",
        wanted.get(), left.get(), of.get()
    )]
    Cpu {
        /// What it needs.
        wanted: Millicores,
        /// What others leave.
        left: Millicores,
        /// What there is.
        of: Millicores,
    },
    /// It needs more memory than is left.
    #[error(
        "resources.memory_bytes: {} is wanted and {} is left of {}",
        wanted.get(), left.get(), of.get()
    )]
    Memory {
        /// What it needs.
        wanted: Bytes,
        /// What others leave.
        left: Bytes,
        /// What there is.
        of: Bytes,
    },
}

/// Whether a workload that needs `wanted` fits beside `others`.
///
/// # Errors
/// It does not, for this reason.
pub fn admit(
    capacity: Capacity,
    others: impl IntoIterator<Item = Needs>,
    wanted: Needs,
) -> Result<(), Refusal> {
    let (mut cpu, mut memory, mut count) = (0_u64, 0_u64, 0_usize);
    for other in others {
        cpu = cpu.saturating_add(other.cpu.get());
        memory = memory.saturating_add(other.memory.get());
        count += 1;
    }
    if count >= WORKLOADS_MAX {
        return Err(Refusal::TooMany);
    }
    let left = Millicores::new(capacity.cpu.get().saturating_sub(cpu));
    if wanted.cpu > left {
        return Err(Refusal::Cpu { wanted: wanted.cpu, left, of: capacity.cpu });
    }
    let left = Bytes::new(capacity.memory.get().saturating_sub(memory));
    if wanted.memory > left {
        return Err(Refusal::Memory { wanted: wanted.memory, left, of: capacity.memory });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const HOST: Capacity = Capacity { cpu: Millicores::new(4000), memory: Bytes::new(1000) };

    fn needs(cpu: u64, memory: u64) -> Needs {
        Needs { cpu: Millicores::new(cpu), memory: Bytes::new(memory) }
    }

    #[test]
    fn what_is_promised_fits_to_the_last_byte_and_no_further() {
        let others = [needs(1000, 400), needs(0, 100)];
        assert_eq!(admit(HOST, others, needs(3000, 500)), Ok(()));
        let refused = admit(HOST, others, needs(3001, 0)).unwrap_err().to_string();
        assert_eq!(refused, "resources.cpu_min_milli: 3001 is wanted and 3000 is left of 4000");
        let refused = admit(HOST, others, needs(0, 501)).unwrap_err().to_string();
        assert_eq!(refused, "resources.memory_bytes: 501 is wanted and 500 is left of 1000");
        let huge = [needs(u64::MAX, u64::MAX), needs(u64::MAX, u64::MAX)];
        assert_eq!(admit(HOST, huge, needs(0, 0)), Ok(()), "who needs nothing always fits");
    }

    #[test]
    fn there_are_not_too_many() {
        let many = core::iter::repeat_n(needs(0, 0), WORKLOADS_MAX);
        assert_eq!(admit(HOST, many, needs(0, 0)), Err(Refusal::TooMany));
    }
}
