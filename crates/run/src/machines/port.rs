//! A machine on QEMU, as its agent sees it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use walras_core::units::Resources;
use walras_core::vm::Seen;
use walras_scale::agent::Machine;
use walras_vm::{Machine as _, QemuMachine};

/// One machine.
#[derive(Debug)]
pub(super) struct Port(pub(super) Arc<QemuMachine>);

impl Machine for Port {
    fn observe(&self) -> BoxFuture<'_, Result<Seen, String>> {
        Box::pin(async {
            let observed = self.0.observe().await.map_err(|error| error.to_string())?;
            Ok(observed.seen())
        })
    }

    fn resize(&self, to: Resources, version: u64) -> BoxFuture<'_, Result<Seen, String>> {
        Box::pin(async move {
            let observed = self.0.resize(to, version).await.map_err(|error| error.to_string())?;
            Ok(observed.seen())
        })
    }
}
