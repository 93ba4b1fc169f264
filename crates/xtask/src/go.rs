//! Programs that others wrote in Go, built once from their modules into the cache.
//!
//! The tests on a real Docker use them: the compose plugin, and a client of gRPC that was not
//! written here. `toolchain` fetches Go itself where a machine has none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::toolchain;
use crate::tools::{Places, make_folder};

/// A program of a module, in one version.
pub(crate) struct Program {
    /// The module, as Go names it.
    pub(crate) module: &'static str,
    /// Its version.
    pub(crate) version: &'static str,
    /// The folder of the program in the module.
    pub(crate) package: &'static str,
    /// What the program is called.
    pub(crate) name: &'static str,
}

/// Docker's compose plugin.
pub(crate) const COMPOSE: Program = Program {
    module: "github.com/docker/compose/v2",
    version: "v2.29.7",
    package: "./cmd",
    name: "docker-compose",
};

/// A client of gRPC that asks servers for their own description.
pub(crate) const GRPCURL: Program = Program {
    module: "github.com/fullstorydev/grpcurl",
    version: "v1.9.2",
    package: "./cmd/grpcurl",
    name: "grpcurl",
};

impl Program {
    /// Where it is in the cache.
    fn place(&self, places: &Places) -> PathBuf {
        places.cache.join(format!("{}-{}", self.name, self.version)).join(self.name)
    }

    /// Builds it, unless it is there.
    pub(crate) fn prepare(&self, places: &Places) -> Result<()> {
        let place = self.place(places);
        if !place.is_file() {
            let work =
                places.cache.join(format!("{}.{}.unfinished", self.name, std::process::id()));
            make_folder(&work)?;
            let built = self.build(&work, places);
            let moved = built.and_then(|program| {
                make_folder(place.parent().unwrap_or(Path::new(".")))?;
                fs::rename(&program, &place).context("the program cannot be moved")
            });
            fs::remove_dir_all(&work)?;
            moved?;
        }
        println!("{} is in {}", self.name, place.display());
        Ok(())
    }

    /// A module in a folder that may be written, and the program of it.
    fn build(&self, work: &Path, places: &Places) -> Result<PathBuf> {
        let module = format!("{}@{}", self.module, self.version);
        println!("    go build {module}");
        let go = |folder: &Path, args: &[&str]| go(folder, args, places);
        let told = go(work, &["mod", "download", "-json", &module])?;
        let told: Value = serde_json::from_slice(&told).context("go tells no JSON")?;
        let Some(source) = told["Dir"].as_str() else { bail!("{module} was not downloaded") };
        let copy = work.join("source");
        let copied =
            Command::new("cp").args(["-r", "--no-preserve=mode", source]).arg(&copy).status();
        ensure!(copied.is_ok_and(|status| status.success()), "{source} cannot be copied");
        let program = work.join(self.name);
        let to = program.display().to_string();
        go(&copy, &["build", "-trimpath", "-ldflags", "-s -w", "-o", &to, self.package])?;
        Ok(program)
    }
}

fn go(folder: &Path, args: &[&str], places: &Places) -> Result<Vec<u8>> {
    let mut command = Command::new(toolchain::program(places));
    command.args(args).current_dir(folder).env("CGO_ENABLED", "0");
    printed(&mut command)
}

/// What a program prints if it succeeds.
pub(crate) fn printed(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", stderr.trim());
    Ok(output.stdout)
}
