//! Ends a testbed and everything that it brought into the machine.
//!
//! Called by `down`, by the keeper, and by whoever finds a testbed that nobody keeps. It relies on
//! nothing but what the kernel shows, so it can be called at any moment, also half-way through a
//! start and twice. Mounts and network namespaces are seen by the testbed's processes alone and end
//! with the last of them; processes, cgroups, the bridge and the folder are ended here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cgroup;
use crate::plan::Part;
use crate::process;
use crate::progress::{say, wait_for};
use crate::settings::Settings;
use crate::state::{self, State};

/// Ends the testbed in `dir`. Does nothing where there is none.
///
/// # Errors
///
/// If something of it remains; the message says what.
pub fn end(dir: &Path) -> Result<()> {
    let base = dir.parent().context("a testbed's folder is in another")?;
    if !base.exists() {
        return Ok(());
    }
    let _lock = state::lock(base)?;
    end_locked(dir)
}

/// Ends the testbed in `dir` unless somebody uses it, and says whether it did.
///
/// # Errors
///
/// If something of it remains; the message says what.
pub(crate) fn end_unless_used(dir: &Path) -> Result<bool> {
    let base = dir.parent().context("a testbed's folder is in another")?;
    // Nobody can begin to use it while we hold the lock.
    let _lock = state::lock(base)?;
    let used = State::load(dir).is_ok_and(|state| state.in_use());
    if !used {
        end_locked(dir)?;
    }
    Ok(!used)
}

fn end_locked(dir: &Path) -> Result<()> {
    let state = State::load(dir).ok();
    // What could start something goes first, and the keeper not at all if it is us.
    let first =
        [Part::Kubelet, Part::SecondKubelet, Part::Kwok, Part::ControllerManager, Part::Scheduler];
    for part in first {
        if let Some(process) = process::find(dir, part) {
            process.kill()?;
        }
    }
    end_processes(dir, state.as_ref())?;
    if let Some(state) = &state {
        cgroup::remove(&state.cgroup())?;
        remove_bridge(&state.bridge())?;
    }
    remove_folder(dir)
}

/// Ends every testbed that nobody keeps, and says so.
///
/// # Errors
///
/// If something of one of them remains.
pub fn end_stale(settings: &Settings) -> Result<Vec<PathBuf>> {
    let mut ended = Vec::new();
    for (dir, state) in state::list(settings)? {
        if is_stale(&dir, state.as_ref()) {
            say(&format!("ending the testbed in {}, which nobody keeps", dir.display()));
            // Somebody who was just creating it has the lease by the time we have the lock.
            if end_unless_used(&dir)? {
                ended.push(dir);
            }
        }
    }
    Ok(ended)
}

/// Whether nobody keeps the testbed in `dir` any more, and nobody is just about to start it.
pub(crate) fn is_stale(dir: &Path, state: Option<&State>) -> bool {
    let kept = process::find(dir, Part::Keeper).is_some();
    !kept && !state.is_some_and(State::in_use)
}

fn end_processes(dir: &Path, state: Option<&State>) -> Result<()> {
    let us = rustix::process::getpid();
    // Looked at twice, in case one was just being started by another that was just being ended.
    let mut quiet = 0_u32;
    wait_for("the end of every process of the testbed", Duration::from_secs(60), || {
        let others: Vec<_> = process::all(dir).into_iter().filter(|p| p.pid != us).collect();
        for process in &others {
            process.kill()?;
        }
        if let Some(state) = state {
            cgroup::empty(&state.cgroup())?;
        }
        quiet = if others.is_empty() { quiet + 1 } else { 0 };
        Ok((quiet == 2).then_some(()))
    })
}

fn remove_bridge(name: &str) -> Result<()> {
    let device = Path::new("/sys/class/net").join(name);
    if !device.exists() {
        return Ok(());
    }
    let output = Command::new("ip").args(["link", "delete", name]).output();
    let output = output.context("ip is missing; install the package iproute2")?;
    if device.exists() {
        bail!("the bridge {name} remains: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn remove_folder(dir: &Path) -> Result<()> {
    // The last mounts go a moment after the last process that saw them.
    wait_for("the end of the testbed's folder", Duration::from_secs(30), || {
        if dir.exists() && fs::remove_dir_all(dir).is_err() {
            return Ok(None);
        }
        Ok(Some(()))
    })
}
