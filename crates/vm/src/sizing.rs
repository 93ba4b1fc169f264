//! The way from what a machine has to what it should have, one step after another.
//!
//! [`next`] is asked again with what was read from QEMU after every step, so nothing depends on a
//! step having worked. At no moment may the machine use more than it has now or should have: a
//! limit on its process falls before CPUs go, and rises after they came. The CPU that it booted
//! with stays, and so does the memory that it cannot give back.

use std::collections::BTreeSet;

use walras_core::units::{Bytes, Millicores, Resources};

use crate::spec::MemoryBy;

/// What memory is asked for in.
const MEMORY_STEP: u64 = 2 << 20;
/// No quota is below this: the kernel refuses less.
const QUOTA_MIN: Millicores = Millicores::new(10);

/// What a machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Have {
    /// The CPUs beside the first, by their number from 1 on.
    pub cpus: BTreeSet<u32>,
    /// What its process may use; nothing where that is not limited.
    pub quota: Option<Millicores>,
    /// Memory beside the least: what the guest has.
    pub extra: Bytes,
    /// Memory beside the least: what the guest was asked to have.
    pub extra_wanted: Bytes,
    /// Memory modules that are plugged in, by their number from 0 on.
    pub dimms: BTreeSet<u32>,
}

/// What it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most CPUs.
    pub cpus_max: u32,
    /// The least memory.
    pub memory_min: Bytes,
    /// The most.
    pub memory_max: Bytes,
    /// How memory grows.
    pub memory_by: MemoryBy,
}

/// What it should have, in devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// CPUs in all.
    pub cpus: u32,
    /// What its process may use; nothing for all of its CPUs.
    pub quota: Option<Millicores>,
    /// Memory beside the least.
    pub extra: Bytes,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Plug in the CPU with this number.
    PlugCpu(u32),
    /// Take it out.
    UnplugCpu(u32),
    /// Limit what the process may use, or do not.
    Quota(Option<Millicores>),
    /// Ask the guest to have so much beside the least.
    AskMemory(Bytes),
    /// Plug in the memory module with this number.
    PlugDimm(u32),
    /// Take it out.
    UnplugDimm(u32),
    /// Wait until the guest has taken or given back what it was asked to.
    AwaitMemory(Bytes),
}

/// Why something cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds;

/// What `to` is in devices. CPUs are rounded up and limited; memory is rounded down to what can be
/// plugged, so that a machine never has more than it should.
///
/// # Errors
/// It is more or less than the machine can have.
pub fn want(to: Resources, limits: &Limits) -> Result<Want, OutOfBounds> {
    let cpus = to.cpu.get().div_ceil(1000).max(1);
    let cpus = u32::try_from(cpus).map_err(|_| OutOfBounds)?;
    let fits = to.cpu >= QUOTA_MIN && cpus <= limits.cpus_max;
    if !fits || to.memory < limits.memory_min || limits.memory_max < to.memory {
        return Err(OutOfBounds);
    }
    let whole = Millicores::from_cores(cpus);
    let quota = (to.cpu < whole).then_some(to.cpu);
    let step = match limits.memory_by {
        MemoryBy::VirtioMem => MEMORY_STEP,
        MemoryBy::Dimms { size } => size.get(),
    };
    let extra = to.memory.saturating_sub(limits.memory_min).get();
    Ok(Want { cpus, quota, extra: Bytes::new(extra - extra % step) })
}

/// What to do next; nothing if it has what it should.
#[must_use]
pub fn next(have: &Have, want: Want, memory_by: MemoryBy) -> Option<Step> {
    let extra_cpus = want.cpus.saturating_sub(1);
    let has = u32::try_from(have.cpus.len()).unwrap_or(u32::MAX);
    // Memory takes the guest a while, so it is asked for first and waited for last.
    if memory_by == MemoryBy::VirtioMem && have.extra_wanted != want.extra {
        return Some(Step::AskMemory(want.extra));
    }
    if is_less(want.quota, have.quota) {
        return Some(Step::Quota(want.quota));
    }
    if has < extra_cpus {
        return (1..).find(|number| !have.cpus.contains(number)).map(Step::PlugCpu);
    }
    if has > extra_cpus {
        return have.cpus.last().copied().map(Step::UnplugCpu);
    }
    if have.quota != want.quota {
        return Some(Step::Quota(want.quota));
    }
    match memory_by {
        MemoryBy::VirtioMem => (have.extra != want.extra).then_some(Step::AwaitMemory(want.extra)),
        MemoryBy::Dimms { size } => next_dimm(have, want.extra, size),
    }
}

fn next_dimm(have: &Have, extra: Bytes, size: Bytes) -> Option<Step> {
    let wanted = extra.get() / size.get().max(1);
    let has = u64::try_from(have.dimms.len()).unwrap_or(u64::MAX);
    if has < wanted {
        return (0..).find(|number| !have.dimms.contains(number)).map(Step::PlugDimm);
    }
    if has > wanted { have.dimms.last().copied().map(Step::UnplugDimm) } else { None }
}

/// Whether one limit is stricter than another. No limit is the loosest.
fn is_less(one: Option<Millicores>, other: Option<Millicores>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one < other,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits(memory_by: MemoryBy) -> Limits {
        let (memory_min, memory_max) = (Bytes::new(256 * MIB), Bytes::new(1280 * MIB));
        Limits { cpus_max: 4, memory_min, memory_max, memory_by }
    }

    fn to(milli: u64, mib: u64) -> Resources {
        Resources::new(Millicores::new(milli), Bytes::new(mib * MIB))
    }

    fn empty() -> Have {
        let (cpus, dimms) = (BTreeSet::new(), BTreeSet::new());
        Have { cpus, quota: None, extra: Bytes::ZERO, extra_wanted: Bytes::ZERO, dimms }
    }

    /// What the machine may use at most, by what it has.
    fn cpu(have: &Have) -> Millicores {
        let cpus = Millicores::new(1000 * (1 + have.cpus.len() as u64));
        have.quota.map_or(cpus, |quota| quota.min(cpus))
    }

    /// Does what a step says, as a guest that obeys would.
    fn done(have: &mut Have, step: Step) {
        match step {
            Step::PlugCpu(number) => assert!(have.cpus.insert(number)),
            Step::UnplugCpu(number) => assert!(have.cpus.remove(&number)),
            Step::Quota(quota) => have.quota = quota,
            Step::AskMemory(bytes) => have.extra_wanted = bytes,
            Step::AwaitMemory(_) => have.extra = have.extra_wanted,
            Step::PlugDimm(number) => assert!(have.dimms.insert(number)),
            Step::UnplugDimm(number) => assert!(have.dimms.remove(&number)),
        }
    }

    /// All steps to `to`, which never let the machine use more than before or after.
    fn steps(have: &mut Have, target: Resources, memory_by: MemoryBy) -> Vec<Step> {
        let want = want(target, &limits(memory_by)).unwrap();
        let most = cpu(have).max(target.cpu);
        let mut steps = Vec::new();
        while let Some(step) = next(have, want, memory_by) {
            done(have, step);
            assert!(cpu(have) <= most, "{step:?} gives {} of {most}", cpu(have));
            steps.push(step);
            assert!(steps.len() < 50, "{steps:?}");
        }
        assert_eq!(cpu(have), target.cpu);
        steps
    }

    #[test]
    fn a_machine_grows_by_cpus_first_and_is_let_loose_then() {
        let mut have = Have { quota: Some(Millicores::new(500)), ..empty() };
        let memory = Bytes::new(256 * MIB);
        let quota = Some(Millicores::new(2500));
        let expected = [
            Step::AskMemory(memory),
            Step::PlugCpu(1),
            Step::PlugCpu(2),
            Step::Quota(quota),
            Step::AwaitMemory(memory),
        ];
        assert_eq!(steps(&mut have, to(2500, 512), MemoryBy::VirtioMem), expected);
        assert_eq!(steps(&mut have, to(2500, 512), MemoryBy::VirtioMem), []);
        assert_eq!(steps(&mut have, to(3000, 512), MemoryBy::VirtioMem), [Step::Quota(None)]);
    }

    #[test]
    fn a_machine_that_shrinks_is_limited_before_cpus_go() {
        let mut have = Have { cpus: [1, 2, 3].into(), ..empty() };
        let expected =
            [Step::Quota(Some(Millicores::new(1200))), Step::UnplugCpu(3), Step::UnplugCpu(2)];
        assert_eq!(steps(&mut have, to(1200, 256), MemoryBy::VirtioMem), expected);
    }

    #[test]
    fn a_gap_in_the_numbers_is_filled_and_the_last_goes_first() {
        let mut have = Have { cpus: [2].into(), ..empty() };
        assert_eq!(steps(&mut have, to(3000, 256), MemoryBy::VirtioMem), [Step::PlugCpu(1)]);
        assert_eq!(steps(&mut have, to(2000, 256), MemoryBy::VirtioMem), [Step::UnplugCpu(2)]);
    }

    #[test]
    fn modules_are_plugged_one_by_one() {
        let dimms = MemoryBy::Dimms { size: Bytes::new(256 * MIB) };
        let mut have = empty();
        // What is no whole module is left out.
        let expected = [Step::PlugDimm(0), Step::PlugDimm(1)];
        assert_eq!(steps(&mut have, to(1000, 800), dimms), expected);
        assert_eq!(steps(&mut have, to(1000, 512), dimms), [Step::UnplugDimm(1)]);
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let limits = limits(MemoryBy::VirtioMem);
        for (milli, mib) in [(4001, 512), (9, 512), (1000, 255), (1000, 1281), (u64::MAX, 512)] {
            assert_eq!(want(to(milli, mib), &limits), Err(OutOfBounds), "{milli} {mib}");
        }
        let most = Want { cpus: 4, quota: None, extra: Bytes::new(1024 * MIB) };
        assert_eq!(want(to(4000, 1280), &limits), Ok(most));
    }

    #[test]
    fn every_way_between_two_sizes_ends_and_is_safe() {
        let sizes = [100, 999, 1000, 1001, 1500, 2000, 3300, 4000];
        for from in sizes {
            for milli in sizes {
                let mut have = empty();
                steps(&mut have, to(from, 300), MemoryBy::VirtioMem);
                steps(&mut have, to(milli, 1000), MemoryBy::VirtioMem);
            }
        }
    }
}
