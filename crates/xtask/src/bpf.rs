//! Compiles the eBPF programs of `crates/telemetry`, so that nobody else needs a compiler for them.
//!
//! The object is committed with its sum and the sums of its sources. The compiler's version is
//! fixed and no path gets into the object, so every machine makes the same bytes; `--check` makes
//! them anew and compares.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{self, Places};

/// Where sources, object and sums are, below the root.
const FOLDER: &str = "crates/telemetry/ebpf";
const OBJECT: &str = "telemetry.bpf.o";
const SOURCE: &str = "telemetry.bpf.c";
const SUMS: &str = "telemetry.sha256";
/// What has a sum, in the order of its file.
const SUMMED: [&str; 3] = ["kernel.h", SOURCE, OBJECT];
/// The programs, which are of one version on purpose: another one makes other bytes.
const COMPILER: &str = "clang-14";
const STRIP: &str = "llvm-strip-14";
const SUM: &str = "sha256sum";

/// Compiles; writes object and sums, or with `check` compares them with what is committed.
pub(crate) fn compile(check: bool) -> Result<ExitCode> {
    let places = Places::find()?;
    let folder = places.root.join(FOLDER);
    let made = places.target.join("bpf");
    tools::make_folder(&made)?;
    let object = made.join(OBJECT);
    // Run in the folder and without its name, so that the object does not depend on where it is.
    run(Command::new(COMPILER).current_dir(&folder).args(arguments(&folder)).arg(&object))?;
    run(Command::new(STRIP).arg("-g").arg(&object))?;
    let bytes = fs::read(&object).with_context(|| format!("{COMPILER} wrote nothing"))?;
    if check {
        let committed = fs::read(folder.join(OBJECT)).context("no object is committed")?;
        ensure!(bytes == committed, "{OBJECT} is not what its sources make; run `cargo xtask bpf`");
        println!("{OBJECT} is what its sources make");
        return Ok(ExitCode::SUCCESS);
    }
    fs::write(folder.join(OBJECT), &bytes).context("the object cannot be written")?;
    let sums = run(Command::new(SUM).current_dir(&folder).args(SUMMED))?;
    fs::write(folder.join(SUMS), &sums).context("the sums cannot be written")?;
    print!("{} bytes\n{sums}", bytes.len());
    Ok(ExitCode::SUCCESS)
}

/// What the compiler is told; the name of the object follows.
fn arguments(folder: &Path) -> Vec<String> {
    let mut arguments: Vec<String> =
        "-g -O2 -target bpf -mcpu=v2 -Wall -Wextra -Werror -fdebug-compilation-dir=."
            .split(' ')
            .map(str::to_owned)
            .collect();
    arguments.push(format!("-ffile-prefix-map={}=.", folder.display()));
    arguments.extend(["-c", SOURCE, "-o"].map(str::to_owned));
    arguments
}

/// Runs a program, and gives what it printed.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| {
        format!("{program} cannot be started; on Debian 12: apt-get install clang-14 llvm-14")
    })?;
    if !output.status.success() {
        bail!("{program}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_of_this_machine_gets_into_the_object() {
        let arguments = arguments(Path::new("/some/where"));
        assert!(arguments.contains(&"-ffile-prefix-map=/some/where=.".to_owned()));
        assert!(arguments.contains(&"-fdebug-compilation-dir=.".to_owned()));
        assert_eq!(arguments.last().map(String::as_str), Some("-o"));
    }

    #[test]
    fn a_program_that_is_missing_or_fails_is_named() {
        let missing = run(&mut Command::new("no-such-compiler")).unwrap_err();
        assert!(format!("{missing:#}").starts_with("no-such-compiler cannot be started"));
        let failing = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(format!("{failing:#}").contains("exit status: 3\nwhy"));
    }
}
