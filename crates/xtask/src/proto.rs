//! `cargo xtask proto`: makes the code of our gRPC services from the protocols in `proto`.
//!
//! What makes it is a workspace of its own, in `proto/gen`, so that its dependencies are in nobody
//! else's lock file. With `--check` nothing is written, and a difference is an error.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools::{Places, make_folder};

/// What is made, and committed.
const MADE: [&str; 12] = [
    "agent.rs.in",
    "agent.bin",
    "agent.from",
    "control.rs.in",
    "control.bin",
    "control.from",
    "scheduler.rs.in",
    "scheduler.bin",
    "scheduler.from",
    "telemetry.rs.in",
    "telemetry.bin",
    "telemetry.from",
];

/// Makes the code, or compares it with what is there.
pub(crate) fn make(check: bool) -> Result<()> {
    let places = Places::find()?;
    let committed = places.root.join("crates/rpc/src/generated");
    let fresh = places.target.join("xtask/proto");
    make_folder(&fresh)?;
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--locked", "--manifest-path"])
        .arg(places.root.join("proto/gen/Cargo.toml"))
        .arg("--")
        .arg(places.root.join("proto"))
        .arg(&fresh)
        .env("CARGO_TARGET_DIR", places.target.join("proto-gen"))
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the code could not be made: cargo ended with {status}");
    for file in MADE {
        let made = read(&fresh.join(file))?;
        let there = committed.join(file);
        if check {
            let same = read(&there)? == made;
            ensure!(same, "{} is not what is made now; run `cargo xtask proto`", there.display());
        } else {
            fs::write(&there, made).with_context(|| format!("cannot write {}", there.display()))?;
        }
    }
    println!("{} is {}", committed.display(), if check { "up to date" } else { "made" });
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
