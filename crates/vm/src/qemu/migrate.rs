//! Moves a machine to another QEMU while it runs.
//!
//! The QEMU that receives is started with the same devices and waits; the one that sends goes on
//! until nearly all is there. Until then a failure of any kind leaves the machine running where it
//! was: that is looked at, and seen to, whenever somebody asks how far a move is.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use walras_core::units::Bytes;

use crate::error::VmError;
use crate::folder::Folder;
use crate::port::{Destination, Handover, Migration, MigrationPhase, MigrationTerms, RunState};

use super::{QemuMachine, failed};

/// Who has the key, in the file of keys.
const WHO: &str = "walras";
/// The name of the key among QEMU's objects.
const KEY: &str = "walras-key";
/// How long the receiving QEMU may take to listen.
const LISTEN: Duration = Duration::from_secs(10);

impl QemuMachine {
    /// What another host needs to receive it.
    pub(super) async fn hand_over(&self) -> Result<Handover, VmError> {
        let spec = self.spec();
        for (index, disk) in spec.disks.iter().enumerate() {
            if !disk.shared && !disk.read_only {
                let because = format!(
                    "disks[{index}].path `{}` is on this host only; a machine with a disk can be \
                     moved if the disk is `shared`",
                    disk.path.display()
                );
                return Err(VmError::NotMoved { name: spec.name.clone(), because });
            }
        }
        let (observed, have) = self.read().await?;
        let mut spec = spec.clone();
        spec.machine_type = Some(self.machine_type().await?);
        spec.accel = self.engine().await?.as_wish();
        Ok(Handover {
            spec,
            cpus: have.cpus.into_iter().collect(),
            dimms: have.dimms.into_iter().collect(),
            version: observed.version,
        })
    }

    /// Waits for another QEMU at `host`, at any free port.
    pub(super) async fn await_another(&self, host: &str) -> Result<Destination, VmError> {
        let key = new_key().map_err(|source| failed(&self.spec().name, "make a key", source))?;
        self.use_key(&key, "server").await?;
        // Both ends have to agree on it, and the sender decides.
        self.capabilities(json!([{ "capability": "postcopy-ram", "state": true }])).await.ok();
        let uri = format!("tcp:{}:0", bracketed(host));
        self.ask("migrate-incoming", json!({ "uri": uri })).await?;
        let mut watch = self.watch(Instant::now() + LISTEN, "listen").await?;
        let port = loop {
            let answer = self.ask("query-migrate", Value::Null).await?;
            let sockets = answer.get("socket-address").and_then(Value::as_array);
            match sockets.and_then(|all| all.first()?.get("port")?.as_str()?.parse().ok()) {
                Some(port) => break port,
                None => watch.pause().await?,
            }
        };
        Ok(Destination { host: host.to_owned(), port, key: Some(key) })
    }

    /// Begins to send it.
    pub(super) async fn send(
        &self,
        to: &Destination,
        terms: MigrationTerms,
    ) -> Result<(), VmError> {
        let _turn = self.change.lock().await;
        let name = || self.spec().name.clone();
        self.hand_over().await?;
        if self.progress().await?.phase.is_under_way() {
            return Err(VmError::Moving { name: name() });
        }
        if self.state().await? != RunState::Running {
            return Err(VmError::NotMoved { name: name(), because: "it does not run".to_owned() });
        }
        match &to.key {
            Some(key) => self.use_key(key, "client").await?,
            None => self.parameters(json!({ "tls-creds": "" })).await?,
        }
        self.capabilities(json!([
            { "capability": "auto-converge", "state": terms.auto_converge },
            { "capability": "postcopy-ram", "state": true },
        ]))
        .await?;
        self.parameters(json!({
            "max-bandwidth": terms.bandwidth.unwrap_or(u64::from(u32::MAX)),
            "downtime-limit": terms.downtime_ms,
        }))
        .await?;
        let uri = format!("tcp:{}:{}", bracketed(&to.host), to.port);
        self.ask("migrate", json!({ "uri": uri })).await?;
        if terms.post_copy {
            // It takes effect once the first pass is done.
            self.ask("migrate-start-postcopy", Value::Null).await?;
        }
        Ok(())
    }

    /// How far a move is. A machine that should run here does.
    pub(super) async fn progress(&self) -> Result<Migration, VmError> {
        let migration = parse(&self.ask("query-migrate", Value::Null).await?);
        let over = [MigrationPhase::Failed, MigrationPhase::Cancelled].contains(&migration.phase);
        if over && self.state().await? == RunState::Sent {
            // It stood still for the switch, which did not happen.
            self.let_go().await?;
        }
        Ok(migration)
    }

    async fn capabilities(&self, list: Value) -> Result<(), VmError> {
        let set = json!({ "capabilities": list });
        self.ask("migrate-set-capabilities", set).await.map(|_| ())
    }

    async fn parameters(&self, parameters: Value) -> Result<(), VmError> {
        self.ask("migrate-set-parameters", parameters).await.map(|_| ())
    }

    /// Hands QEMU the key of a move, by a file in memory that is gone afterwards.
    async fn use_key(&self, key: &str, endpoint: &str) -> Result<(), VmError> {
        let folder = self.folder().key();
        let written = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            Folder::write_private(&folder.join("keys.psk"), format!("{WHO}:{key}\n").as_bytes())
        };
        written().map_err(|source| failed(&self.spec().name, "write a key", source))?;
        // A key of an earlier move may be there.
        self.ask("object-del", json!({ "id": KEY })).await.ok();
        let mut object = json!({
            "qom-type": "tls-creds-psk", "id": KEY, "endpoint": endpoint,
            "dir": folder.to_string_lossy(),
        });
        if endpoint == "client" {
            object["username"] = json!(WHO);
        }
        let added = self.ask("object-add", object).await;
        let set = match added {
            Ok(_) => self.parameters(json!({ "tls-creds": KEY })).await,
            Err(error) => Err(error),
        };
        if endpoint == "client" {
            // The one that receives reads it again when somebody comes.
            fs::remove_dir_all(&folder)
                .map_err(|source| failed(&self.spec().name, "remove a key", source))?;
        }
        set
    }
}

/// A key that nobody can guess: 32 bytes, in hexadecimal digits.
pub(super) fn new_key() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// An address of version 6 has colons itself.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn parse(answer: &Value) -> Migration {
    let phase = match answer.get("status").and_then(Value::as_str).unwrap_or("none") {
        "none" => MigrationPhase::None,
        "completed" => MigrationPhase::Completed,
        "failed" => MigrationPhase::Failed,
        "cancelled" => MigrationPhase::Cancelled,
        "postcopy-active" | "postcopy-paused" | "postcopy-recover" => MigrationPhase::PostCopy,
        // Set up, active, about to switch, cancelling: it is not over.
        _ => MigrationPhase::Active,
    };
    let ram = |key: &str| {
        let bytes = answer.get("ram").and_then(|ram| ram.get(key)?.as_u64());
        Bytes::new(bytes.unwrap_or(0))
    };
    let number = |key: &str| answer.get(key).and_then(Value::as_u64);
    Migration {
        phase,
        sent: ram("transferred"),
        remaining: ram("remaining"),
        total: ram("total"),
        downtime_ms: number("downtime").or_else(|| number("expected-downtime")),
        throttle_percent: number("cpu-throttle-percentage").unwrap_or(0),
        error: answer.get("error-desc").and_then(Value::as_str).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_qemu_is_a_phase() {
        let phase = |word: &str| parse(&json!({ "status": word })).phase;
        for word in ["setup", "active", "device", "cancelling", "pre-switchover"] {
            assert!(phase(word).is_under_way(), "{word}");
        }
        assert_eq!(phase("failed"), MigrationPhase::Failed);
        assert_eq!(parse(&json!({})).phase, MigrationPhase::None);
        let ram = json!({ "transferred": 5, "remaining": 7, "total": 12 });
        let done = parse(&json!({ "status": "completed", "downtime": 70, "ram": ram }));
        assert_eq!((done.sent, done.downtime_ms), (Bytes::new(5), Some(70)));
    }

    #[test]
    fn keys_differ_and_addresses_are_bracketed() {
        let (one, other) = (new_key().unwrap(), new_key().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
        assert_eq!(bracketed("::1"), "[::1]");
        assert_eq!(bracketed("10.0.0.1"), "10.0.0.1");
    }
}
