//! Between what and in which steps a machine is sized, and how the program in its guest is reached.
//!
//! It is part of what a machine is, so that whoever finds or receives it sizes it alike. How large
//! it should be is decided elsewhere.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use walras_core::units::{Bytes, ComputeUnit, Millicores, Resources};
use walras_core::vm::VmBounds;

use crate::spec::{MachineSpec, Network, SpecError};

/// Where the program in a guest answers, and where its metrics are.
pub(crate) const INFORMANT_PORT: u16 = 10301;
pub(crate) const METRICS_PORT: u16 = 9100;
/// The name of the secret that the program in a guest proves itself with.
pub(crate) const KEY: &str = "key";

/// How a machine is sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// The CPU of one unit.
    pub unit_cpu: Millicores,
    /// The memory of one unit.
    pub unit_memory: Bytes,
    /// The least CPU that it has.
    pub cpu_min: Millicores,
    /// Whether it may be moved to another host.
    #[serde(default)]
    pub may_move: bool,
    /// The guest's own address, where it is not on QEMU's own network.
    #[serde(default)]
    pub guest: Option<IpAddr>,
}

impl Scaling {
    /// What it is sized in; nothing where a unit is nothing, which [`MachineSpec::check`] refuses.
    #[must_use]
    pub fn unit(&self) -> Option<ComputeUnit> {
        ComputeUnit::new(Resources::new(self.unit_cpu, self.unit_memory))
    }

    pub(crate) fn check(&self, spec: &MachineSpec, faults: &mut Vec<SpecError>) {
        let most = Millicores::from_cores(spec.cpus.max);
        if self.unit_cpu < Millicores::new(10) || most < self.unit_cpu {
            let because = format!("is not between 10m and cpus.max ({most})");
            faults.push(SpecError::new("scaling.unit_cpu", self.unit_cpu, &because));
        }
        let step = 2 << 20;
        let memory = self.unit_memory.get();
        if memory == 0 || !memory.is_multiple_of(step) || spec.memory.max < self.unit_memory {
            let because = "is no multiple of 2 MiB up to memory.max";
            faults.push(SpecError::new("scaling.unit_memory", self.unit_memory, because));
        }
        if self.cpu_min < Millicores::new(10) || spec.cpus.start < self.cpu_min {
            let because = format!("is not between 10m and cpus.start ({})", spec.cpus.start);
            faults.push(SpecError::new("scaling.cpu_min", self.cpu_min, &because));
        }
        let user = spec.nics.iter().any(|nic| matches!(nic.network, Network::User { .. }));
        if self.guest.is_none() && !user {
            let because = "is missing; without a network `user` the guest needs an address";
            faults.push(SpecError::new("scaling.guest", "", because));
        }
    }
}

impl MachineSpec {
    /// The least and the most that it may have, where it is sized.
    #[must_use]
    pub fn bounds(&self) -> Option<VmBounds> {
        let scaling = self.scaling.as_ref()?;
        let min = Resources::new(scaling.cpu_min, self.memory.min);
        let max = Resources::new(Millicores::from_cores(self.cpus.max), self.memory.max);
        Some(VmBounds::new(min, max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{CpuRange, MemoryRange, Nic};

    fn spec() -> MachineSpec {
        let (half, one) = (Bytes::new(512 << 20), Bytes::new(1 << 30));
        let memory = MemoryRange { min: half, start: half, max: one };
        let cpus = CpuRange { start: Millicores::new(1000), max: 2 };
        let mut spec = MachineSpec::new("db", cpus, memory);
        spec.nics.push(Nic { network: Network::User { forwards: Vec::new() }, mac: None });
        spec.scaling = Some(Scaling {
            unit_cpu: Millicores::new(500),
            unit_memory: Bytes::new(256 << 20),
            cpu_min: Millicores::new(500),
            may_move: false,
            guest: None,
        });
        spec
    }

    #[test]
    fn bounds_are_what_a_machine_can_have() {
        let bounds = spec().bounds().unwrap();
        assert_eq!(bounds.min(), Resources::new(Millicores::new(500), Bytes::new(512 << 20)));
        assert_eq!(bounds.max(), Resources::new(Millicores::new(2000), Bytes::new(1 << 30)));
        assert_eq!(spec().check(), Ok(()));
        assert_eq!(MachineSpec { scaling: None, ..spec() }.bounds(), None);
    }

    #[test]
    fn every_fault_is_told_with_its_field() {
        type Spoil = fn(&mut MachineSpec, &mut Scaling);
        let cases: [(&str, Spoil); 5] = [
            ("scaling.unit_cpu: `5m` is not between", |_, it| it.unit_cpu = Millicores::new(5)),
            ("scaling.unit_cpu: `3000m` is not", |_, it| it.unit_cpu = Millicores::new(3000)),
            ("scaling.unit_memory: ", |_, it| it.unit_memory = Bytes::new(1 << 20)),
            ("scaling.cpu_min: `1500m` is not", |_, it| it.cpu_min = Millicores::new(1500)),
            ("scaling.guest: `` is missing", |spec, _| spec.nics.clear()),
        ];
        for (expected, spoil) in cases {
            let mut spec = spec();
            let mut scaling = spec.scaling.unwrap();
            spoil(&mut spec, &mut scaling);
            spec.scaling = Some(scaling);
            let told: Vec<String> =
                spec.check().unwrap_err().iter().map(ToString::to_string).collect();
            assert!(told.join("\n").contains(expected), "{expected}: {told:?}");
        }
    }
}
