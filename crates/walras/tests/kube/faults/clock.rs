//! A time of day that can be set for our programs alone, while they run.
//!
//! The machine's clock is everybody's, so it is not touched: `clock.c` is loaded into the programs
//! and adds to what the kernel says. Whether they see it is checked by what the controller tells.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use walras_testbed::wait_for;

use crate::installed::{Installed, PATIENCE};

/// So far may what a controller tells be from the clock, for a reason other than a step.
const NEAR_MS: u64 = 60_000;

/// The clock of programs that are started with [`Clock::environment`].
#[derive(Debug)]
pub(super) struct Clock {
    folder: tempfile::TempDir,
    step_s: File,
}

impl Clock {
    /// One that is right, for now.
    pub(super) fn right() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kube/faults/clock.c");
        let library = folder.path().join("clock.so");
        let how = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"];
        // The same program links our tests, so it is there.
        let built = Command::new("cc").args(how).arg(&library).arg(source).status().unwrap();
        assert!(built.success(), "{source} cannot be compiled");
        let step_s = File::create(folder.path().join("step")).unwrap();
        step_s.write_all_at(&0_i64.to_ne_bytes(), 0).unwrap();
        Self { folder, step_s }
    }

    /// What programs are started with, so that this is their clock.
    pub(super) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let folder = self.folder.path();
        vec![("LD_PRELOAD", folder.join("clock.so")), ("WALRAS_TEST_CLOCK", folder.join("step"))]
    }

    /// Steps to so many seconds from what is right, and makes sure that a program sees that.
    pub(super) fn step_to(&self, installed: &Installed, step_s: i64) {
        self.step_s.write_all_at(&step_s.to_ne_bytes(), 0).unwrap();
        wait_for("a controller whose clock was set", PATIENCE, || {
            let told_ms = installed.controller_state()?["at_ms"].as_u64().unwrap_or_default();
            let right = SystemTime::now().duration_since(UNIX_EPOCH)?;
            let right_ms = u64::try_from(right.as_millis())?;
            let expected_ms = right_ms.saturating_add_signed(1000 * step_s);
            Ok((told_ms.abs_diff(expected_ms) < NEAR_MS).then_some(()))
        })
        .unwrap();
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // The folder goes with this value, and programs may still have the file: right again.
        fs::write(self.folder.path().join("step"), 0_i64.to_ne_bytes()).ok();
    }
}
