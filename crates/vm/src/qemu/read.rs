//! What a machine is, read from QEMU and from the kernel: nothing here is remembered.

use std::collections::BTreeSet;

use serde_json::Value;
use walras_core::units::Bytes;

use crate::args::Engine;
use crate::error::VmError;
use crate::port::Observed;
use crate::sizing::Have;
use crate::spec::MemoryBy;

use super::{QemuMachine, failed};

impl QemuMachine {
    /// What it is, for others and for sizing it.
    pub(super) async fn read(&self) -> Result<(Observed, Have), VmError> {
        let state = self.state().await?;
        let cpus = cpus(&self.ask("query-hotpluggable-cpus", Value::Null).await?);
        let memory = memory(&self.ask("query-memory-devices", Value::Null).await?);
        let spec = self.spec();
        let quota = match self.groups() {
            Some(groups) => groups
                .quota(&spec.name)
                .map_err(|source| VmError::Group { name: spec.name.clone(), source })?,
            None => None,
        };
        let version = self.folder().version();
        let version = version.map_err(|source| failed(&spec.name, "read its version", source))?;
        let extra_wanted = match spec.memory_by {
            MemoryBy::VirtioMem => memory.wanted,
            MemoryBy::Dimms { .. } => memory.extra,
        };
        let have =
            Have { cpus, quota, extra: memory.extra, extra_wanted, dimms: memory.dimms.clone() };
        let observed = Observed {
            state,
            version,
            cpus: 1 + u32::try_from(have.cpus.len()).unwrap_or(u32::MAX - 1),
            cpus_max: spec.cpus.max,
            quota,
            memory: spec.memory.min + have.extra,
            memory_wanted: spec.memory.min + extra_wanted,
            memory_min: spec.memory.min,
            memory_max: spec.memory.max,
        };
        Ok((observed, have))
    }

    /// Who runs its instructions, by the kind of its CPUs.
    pub(super) async fn engine(&self) -> Result<Engine, VmError> {
        let answer = self.ask("query-kvm", Value::Null).await?;
        let kvm = answer.get("enabled").and_then(Value::as_bool).unwrap_or(false);
        Ok(if kvm { Engine::Kvm } else { Engine::Tcg })
    }
}

/// The CPUs that are plugged in beside the first, which QEMU made without a name of ours.
fn cpus(answer: &Value) -> BTreeSet<u32> {
    let slots = answer.as_array().into_iter().flatten();
    let paths = slots.filter_map(|slot| slot.get("qom-path")?.as_str());
    paths.filter_map(|path| path.strip_prefix("/machine/peripheral/cpu-")?.parse().ok()).collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Memory {
    extra: Bytes,
    wanted: Bytes,
    dimms: BTreeSet<u32>,
}

/// The memory beside the least.
fn memory(answer: &Value) -> Memory {
    let mut memory = Memory::default();
    for device in answer.as_array().into_iter().flatten() {
        let Some(data) = device.get("data") else { continue };
        let bytes = |key: &str| Bytes::new(data.get(key).and_then(Value::as_u64).unwrap_or(0));
        memory.extra = memory.extra + bytes("size");
        let id = data.get("id").and_then(Value::as_str).unwrap_or_default();
        match device.get("type").and_then(Value::as_str) {
            Some("virtio-mem") => memory.wanted = bytes("requested-size"),
            Some(_) | None => {
                memory.dimms.extend(id.strip_prefix("dimm-").and_then(|id| id.parse::<u32>().ok()));
            }
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_cpus_that_can_be_taken_out_are_counted_by_number() {
        let answer = json!([
            { "props": { "core-id": 3 }, "type": "qemu64-x86_64-cpu" },
            { "qom-path": "/machine/peripheral/cpu-2", "props": { "core-id": 2 } },
            { "qom-path": "/machine/unattached/device[0]", "props": { "core-id": 0 } },
        ]);
        assert_eq!(cpus(&answer), BTreeSet::from([2]));
        assert_eq!(cpus(&json!({ "what": 1 })), BTreeSet::new());
    }

    #[test]
    fn memory_of_both_kinds_is_read() {
        let answer = json!([
            { "type": "virtio-mem",
              "data": { "id": "vmem0", "size": 100, "requested-size": 300, "max-size": 900 } },
            { "type": "dimm", "data": { "id": "dimm-4", "size": 50, "slot": 4 } },
        ]);
        let (extra, wanted) = (Bytes::new(150), Bytes::new(300));
        assert_eq!(memory(&answer), Memory { extra, wanted, dimms: [4].into() });
    }
}
