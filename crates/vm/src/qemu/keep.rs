//! Looks after one live machine: takes note of its end, tells of changes, and keeps its console
//! short.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time;

use crate::folder::Ending;
use crate::port::RunState;

use super::{Qemu, QemuMachine};

/// How often the console is looked at, and the process.
const EVERY: Duration = Duration::from_secs(1);
/// What QEMU says when something happened that others want to know.
const TELLING: [&str; 6] =
    ["SHUTDOWN", "STOP", "RESUME", "GUEST_PANICKED", "MIGRATION", "BLOCK_IO_ERROR"];

/// Looks after `machine` until it is gone, or nobody is left who wants to know.
pub(super) fn keep(all: Weak<Qemu>, machine: Arc<QemuMachine>) {
    tokio::spawn(async move {
        while machine.process().lives() {
            match look_after(&all, &machine).await {
                Next::Again => {}
                Next::Enough => return,
            }
        }
        if let Some(all) = all.upgrade() {
            all.forget(&machine);
            all.tell(&machine.spec().name);
        }
    });
}

/// Whether to go on.
enum Next {
    Again,
    Enough,
}

/// One look, and then a while of listening.
async fn look_after(all: &Weak<Qemu>, machine: &QemuMachine) -> Next {
    let name = &machine.spec().name;
    if let Err(error) = machine.folder().trim_console() {
        tracing::debug!("{name}: its console is not cut: {error}");
    }
    let Ok(qmp) = machine.qmp().await else {
        time::sleep(EVERY).await;
        return Next::Again;
    };
    let mut events = qmp.events();
    // Looked at after somebody listens, so that no end is missed.
    let over = machine.state().await.is_ok_and(|state| state == RunState::Ended);
    let heard = if over { None } else { time::timeout(EVERY, events.recv()).await.ok() };
    let Some(all) = all.upgrade() else { return Next::Enough };
    if over {
        if let Err(error) = all.ended(machine, &Ending::by_guest()).await {
            tracing::warn!("{error}");
        }
    } else if let Some(Ok(event)) = heard
        && TELLING.contains(&event.name.as_str())
    {
        all.tell(name);
    }
    Next::Again
}
