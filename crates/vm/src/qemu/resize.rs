//! Carries out the steps from one size to another, each until the guest has confirmed it.

use std::time::Instant;

use serde_json::{Value, json};
use walras_core::units::{Bytes, Resources};

use crate::args::{cpu_device, cpu_id, dimm_id};
use crate::error::VmError;
use crate::port::{Observed, RunState};
use crate::sizing::{self, Step};
use crate::spec::MemoryBy;

use super::start::limits;
use super::{QemuMachine, failed};

/// What a guest said about a device: nothing yet, or the status of ACPI.
const DONE: i64 = 0;
/// It is at it.
const IN_PROGRESS: [i64; 2] = [132, 133];
/// Why the guest says something: a device came, or it is asked to let one go.
const CAME: i64 = 1;
const TO_GO: i64 = 3;

impl QemuMachine {
    /// Gives it so much.
    pub(super) async fn change_size(
        &self,
        to: Resources,
        version: u64,
    ) -> Result<Observed, VmError> {
        let _turn = self.change.lock().await;
        let name = || self.spec().name.clone();
        let limits = limits(self.spec());
        let want = sizing::want(to, &limits).map_err(|_| VmError::OutOfBounds {
            name: name(),
            wanted: to.to_string(),
            bounds: format!(
                "10m to {} CPUs, and {} to {}",
                limits.cpus_max, limits.memory_min, limits.memory_max
            ),
        })?;
        let (observed, mut have) = self.read().await?;
        if observed.version != version {
            return Err(VmError::Stale {
                name: name(),
                found: observed.version,
                expected: version,
            });
        }
        if want.quota.is_some() && self.groups().is_none() {
            let wanted = format!("{} of a CPU without control groups", to.cpu);
            let bounds = "whole CPUs".to_owned();
            return Err(VmError::OutOfBounds { name: name(), wanted, bounds });
        }
        let elsewhere = [RunState::Sent, RunState::Receiving].contains(&observed.state);
        if elsewhere || self.progress().await?.phase.is_under_way() {
            return Err(VmError::Moving { name: name() });
        }
        // Kept first: whoever saw the version before must not think that nothing happens.
        let kept = self.folder().save_version(version + 1);
        kept.map_err(|source| failed(self.name_text(), "keep its version", source))?;
        let deadline = Instant::now() + self.change_within;
        while let Some(step) = sizing::next(&have, want, limits.memory_by) {
            self.take(step, deadline).await?;
            have = self.read().await?.1;
        }
        Ok(self.read().await?.0)
    }

    fn name_text(&self) -> &str {
        &self.spec().name
    }

    async fn take(&self, step: Step, deadline: Instant) -> Result<(), VmError> {
        tracing::debug!("{}: {step:?}", self.spec().name);
        match step {
            Step::PlugCpu(number) => self.plug_cpu(number, deadline).await,
            Step::UnplugCpu(number) => self.unplug(&cpu_id(number), "let a CPU go", deadline).await,
            Step::Quota(quota) => {
                let Some(groups) = self.groups() else { return Ok(()) };
                let name = &self.spec().name;
                let limited = groups.limit(name, quota);
                limited.map_err(|source| VmError::Group { name: name.clone(), source })
            }
            Step::AskMemory(bytes) => {
                let path = "/machine/peripheral/vmem0";
                let property = "requested-size";
                let set = json!({ "path": path, "property": property, "value": bytes.get() });
                self.ask("qom-set", set).await.map(|_| ())
            }
            Step::AwaitMemory(bytes) => self.await_memory(bytes, deadline).await,
            Step::PlugDimm(number) => self.plug_dimm(number).await,
            Step::UnplugDimm(number) => {
                let id = dimm_id(number);
                self.unplug(&id, "let a memory module go", deadline).await?;
                let memory = json!({ "id": format!("mem-{id}") });
                self.ask("object-del", memory).await.map(|_| ())
            }
        }
    }

    async fn plug_cpu(&self, number: u32, deadline: Instant) -> Result<(), VmError> {
        let (id, driver) = (cpu_id(number), cpu_device(self.engine().await?));
        let device = json!({
            "driver": driver, "id": id, "socket-id": 0, "core-id": number, "thread-id": 0,
        });
        self.ask("device_add", device).await?;
        let what = "take a CPU";
        let mut watch = self.watch(deadline, what).await?;
        while !self.agrees(self.guest_says(&id, CAME).await?, what)? {
            watch.pause().await?;
        }
        Ok(())
    }

    async fn unplug(&self, id: &str, what: &'static str, deadline: Instant) -> Result<(), VmError> {
        let before = self.guest_says(id, TO_GO).await?;
        match self.ask("device_del", json!({ "id": id })).await {
            Ok(_) => {}
            // It was asked to before and is not done, or it is done by now.
            Err(VmError::Refused { .. }) if !self.has(id).await? => return Ok(()),
            Err(VmError::Refused { because, .. }) if because.contains("unplug") => {}
            Err(error) => return Err(error),
        }
        let mut watch = self.watch(deadline, what).await?;
        while self.has(id).await? {
            // What it said before was about an earlier request.
            let told = self.guest_says(id, TO_GO).await?.filter(|told| Some(*told) != before);
            self.agrees(told, what)?;
            watch.pause().await?;
        }
        Ok(())
    }

    async fn plug_dimm(&self, number: u32) -> Result<(), VmError> {
        let MemoryBy::Dimms { size } = self.spec().memory_by else { return Ok(()) };
        let id = dimm_id(number);
        let memory = format!("mem-{id}");
        let object = json!({ "qom-type": "memory-backend-ram", "id": memory, "size": size.get() });
        match self.ask("object-add", object).await {
            // It is left from a module that did not come.
            Ok(_) | Err(VmError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        let device = json!({ "driver": "pc-dimm", "id": id, "memdev": memory, "slot": number });
        self.ask("device_add", device).await.map(|_| ())
    }

    async fn await_memory(&self, bytes: Bytes, deadline: Instant) -> Result<(), VmError> {
        let mut watch = self.watch(deadline, "change its memory").await?;
        while self.read().await?.1.extra != bytes {
            watch.pause().await?;
        }
        Ok(())
    }

    /// The status that the guest gave for a device for this reason.
    async fn guest_says(&self, id: &str, source: i64) -> Result<Option<i64>, VmError> {
        let answer = self.ask("query-acpi-ospm-status", Value::Null).await?;
        let told = answer.as_array().into_iter().flatten().find(|slot| {
            slot.get("device").and_then(Value::as_str) == Some(id)
                && slot.get("source").and_then(Value::as_i64) == Some(source)
        });
        Ok(told.and_then(|slot| slot.get("status")?.as_i64()))
    }

    /// Whether the guest is done; a refusal is an error.
    fn agrees(&self, status: Option<i64>, what: &str) -> Result<bool, VmError> {
        match status {
            None => Ok(false),
            Some(DONE) => Ok(true),
            Some(status) if IN_PROGRESS.contains(&status) => Ok(false),
            Some(status) => {
                let (name, what) = (self.spec().name.clone(), what.to_owned());
                Err(VmError::GuestRefused { name, what, status })
            }
        }
    }

    /// Whether a device that was plugged in is there.
    async fn has(&self, id: &str) -> Result<bool, VmError> {
        let answer = self.ask("qom-list", json!({ "path": "/machine/peripheral" })).await?;
        let mut names = answer.as_array().into_iter().flatten();
        Ok(names.any(|entry| entry.get("name").and_then(Value::as_str) == Some(id)))
    }
}
