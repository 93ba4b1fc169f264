//! Builds a pinned Go module's programs into the cache, and says how far it is.
//!
//! Called by `assets` for programs that are not in the cache yet. The programs appear in the cache
//! all at once or not at all, so that an interrupted build is not taken for a finished one.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::pins::Module;
use crate::progress::say;

/// The oldest Go that can fetch a newer one by itself.
const OLDEST: (u32, u32) = (1, 21);
/// How often to say how far the build is.
const NEWS: Duration = Duration::from_secs(10);
/// How many of the last lines are shown of a build that failed.
const LAST_LINES: usize = 30;

/// How to get on without a Go compiler.
pub(crate) const HOW_ELSE: &str = "install Go 1.21 or newer from https://go.dev/dl (it fetches \
     the version it needs by itself), or set WALRAS_KUBE_ASSETS to a folder that holds ready \
     programs";

/// Whether the programs of `module` are in `folder`, built from what is pinned now.
pub(crate) fn is_built(module: &Module, folder: &Path) -> bool {
    let built_from = fs::read_to_string(folder.join("built-from"));
    built_from.is_ok_and(|sum| sum == module.go_sum)
}

/// Builds the programs of `module` into `folder/bin`.
pub(crate) fn build(module: &Module, folder: &Path) -> Result<()> {
    let version = go_version()?;
    let (go_mod, go_sum) = module.files().context("assets.toml has a module without files")?;
    let source = folder.join("module");
    let bin = folder.join("bin");
    let unfinished = folder.join("bin.unfinished");
    for stale in [&source, &unfinished, &bin] {
        if stale.exists() {
            fs::remove_dir_all(stale)?;
        }
    }
    fs::create_dir_all(&source)?;
    fs::write(source.join("go.mod"), go_mod)?;
    fs::write(source.join("go.sum"), go_sum)?;
    let Module { name, version: wanted, .. } = module;
    say(&format!("building {name} {wanted} with {version}, once; this takes minutes"));
    let begun = Instant::now();
    for (program, package) in &module.programs {
        let mut command = go(&source);
        command.args(["build", "-v", "-mod=readonly", "-trimpath"]);
        command.arg("-tags").arg(&module.tags).arg("-ldflags").arg(module.linker_flags());
        command.arg("-o").arg(unfinished.join(program)).arg(package);
        follow(command, &format!("{program} {wanted}"), begun)?;
    }
    fs::rename(&unfinished, &bin)?;
    fs::write(folder.join("built-from"), &module.go_sum)?;
    say(&format!("built {name} {wanted} in {}", minutes(begun.elapsed())));
    Ok(())
}

/// Runs a build and reports: each package that is compiled or fetched is a line of its output.
fn follow(mut command: Command, what: &str, begun: Instant) -> Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start go; {HOW_ELSE}"))?;
    let output = child.stderr.take().context("the build has no output to follow")?;
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        // The receiver outlives this thread, so a line can always be sent.
        BufReader::new(output).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
    });
    let (mut fetched, mut compiled, mut last) = (0_u32, 0_u32, Vec::new());
    let mut told = Instant::now();
    loop {
        match lines.recv_timeout(NEWS) {
            Ok(line) if line.starts_with("go: downloading") => fetched += 1,
            Ok(line) => {
                compiled += 1;
                last.push(line);
                if last.len() > LAST_LINES {
                    last.remove(0);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if told.elapsed() >= NEWS {
            told = Instant::now();
            let time = minutes(begun.elapsed());
            say(&format!("{what}: {fetched} modules fetched, {compiled} packages done, {time}"));
        }
    }
    let status = child.wait()?;
    if reader.join().is_err() || !status.success() {
        bail!("the build of {what} failed with {status}:\n{}", last.join("\n"));
    }
    Ok(())
}

fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(folder).env("CGO_ENABLED", "0").env("GOFLAGS", "").env("GOWORK", "off");
    // Lets a Go that is too old fetch the one that go.mod asks for.
    command.env("GOTOOLCHAIN", "auto");
    command
}

/// What `go version` says, if that is new enough.
fn go_version() -> Result<String> {
    let output = Command::new("go").arg("version").output();
    let output = output.ok().with_context(|| format!("Go is missing; {HOW_ELSE}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split(' ').nth(2).unwrap_or_default();
    if parse(version).is_none_or(|version| version < OLDEST) {
        bail!("Go is too old: {}; {HOW_ELSE}", text.trim());
    }
    Ok(version.to_owned())
}

fn parse(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix("go")?.split('.');
    let mut number = || {
        let part = parts.next()?;
        part.split(|other: char| !other.is_ascii_digit()).next()?.parse().ok()
    };
    Some((number()?, number()?))
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_read() {
        assert_eq!(parse("go1.26.8"), Some((1, 26)));
        assert_eq!(parse("go1.21rc2"), Some((1, 21)));
        assert_eq!(parse("go1.19"), Some((1, 19)));
        assert_eq!(parse("devel"), None);
        assert!(parse("go1.19").unwrap() < OLDEST && parse("go1.21").unwrap() >= OLDEST);
    }

    #[test]
    fn a_failed_build_shows_its_last_lines() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo go: downloading x >&2; echo it broke >&2; exit 3"]);
        let error = follow(command, "thing v1", Instant::now()).unwrap_err().to_string();
        let expected = "the build of thing v1 failed with exit status: 3:\nit broke";
        assert_eq!(error, expected);
    }
}
