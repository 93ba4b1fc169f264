//! A Go compiler for whoever has none: fetched once into the cache, and installed nowhere.
//!
//! Debian's Go is too old for what is built here, and can still fetch a newer one, since compilers
//! are modules too: the one that is pinned here comes from where all modules come from, checked
//! by their sums. Programs that are started by this tool find it before any other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::go::printed;
use crate::guest::debian;
use crate::tools::{Places, make_folder};

/// The Go that is fetched.
const VERSION: &str = "go1.26.8";
/// The oldest one that fetches by itself what a module asks for.
const OLDEST_MINOR: u32 = 21;

/// Sees to it that there is a Go which is new enough.
pub(crate) fn meet(places: &Places) -> Result<()> {
    if is_fetched(places) || of_this_machine() {
        return Ok(());
    }
    println!("fetching {VERSION} into {} (once)", folder(places).display());
    let work = places.cache.join(format!("go.{}.unfinished", std::process::id()));
    make_folder(&work)?;
    let fetched = fetch(&work, &folder(places));
    fs::remove_dir_all(&work)?;
    fetched.context("Go is missing and was not fetched; install Go 1.21 or newer")
}

/// The folder of its programs, if it was fetched.
pub(crate) fn fetched_programs(places: &Places) -> Option<PathBuf> {
    is_fetched(places).then(|| folder(places).join("bin"))
}

/// The program to build with.
pub(crate) fn program(places: &Places) -> PathBuf {
    fetched_programs(places).map_or_else(|| PathBuf::from("go"), |programs| programs.join("go"))
}

fn is_fetched(places: &Places) -> bool {
    folder(places).join("bin/go").is_file()
}

fn folder(places: &Places) -> PathBuf {
    places.cache.join("tools").join(VERSION)
}

fn of_this_machine() -> bool {
    let printed = printed(Command::new("go").arg("version"));
    printed.is_ok_and(|text| is_new_enough(&String::from_utf8_lossy(&text)))
}

/// Whether `go version` printed a version that can fetch others.
fn is_new_enough(printed: &str) -> bool {
    let version = printed.split(' ').nth(2).unwrap_or_default();
    let minor = version.strip_prefix("go1.").map(|rest| rest.split(|c: char| !c.is_ascii_digit()));
    let minor = minor.and_then(|mut numbers| numbers.next()?.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= OLDEST_MINOR)
}

fn fetch(work: &Path, folder: &Path) -> Result<()> {
    let old = debians_go(work)?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("no Go is known for {other}"),
    };
    let module = format!("golang.org/toolchain@v0.0.1-{VERSION}.linux-{architecture}");
    println!("    go mod download {module}");
    let mut download = Command::new(old.join("bin/go"));
    download.args(["mod", "download", "-json", &module]).current_dir(work);
    download.env("GOROOT", &old).env("GOPATH", work.join("path"));
    download.env("GOMODCACHE", work.join("modules")).env("GOFLAGS", "-modcacherw");
    let told: Value = serde_json::from_slice(&printed(&mut download)?)?;
    let fetched = told["Dir"].as_str().with_context(|| format!("no {module}: {told}"))?;
    // Modules do not say which of their files are programs.
    let programs = ["-R", "u+x", "bin", "pkg/tool"];
    printed(Command::new("chmod").args(programs).current_dir(fetched))?;
    make_folder(folder.parent().context("the cache has a folder for tools")?)?;
    // Another run may have been faster; its Go is as good.
    if fs::rename(fetched, folder).is_err() && !folder.is_dir() {
        bail!("{fetched} cannot be moved to {}", folder.display());
    }
    Ok(())
}

/// Debian's own Go, unpacked below `work`.
fn debians_go(work: &Path) -> Result<PathBuf> {
    let depends = || printed(Command::new("apt-cache").args(["depends", "golang-go"]));
    let mut listed = depends();
    if listed.is_err() {
        // The lists of a fresh machine are empty.
        debian("apt-get", &["update", "-qq"], work)?;
        listed = depends();
    }
    let listed = String::from_utf8(listed?).context("apt-cache prints text")?;
    let package = versioned(&listed).context("Debian's golang-go depends on no compiler")?;
    let sources = format!("{}-src", package.trim_end_matches("-go"));
    let download = ["download", "-qq", package, &sources];
    if debian("apt-get", &download, work).is_err() {
        debian("apt-get", &["update", "-qq"], work)?;
        debian("apt-get", &download, work)?;
    }
    for entry in fs::read_dir(work)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            debian("dpkg-deb", &["-x", &path.to_string_lossy(), "debian"], work)?;
        }
    }
    let version = package.trim_start_matches("golang-").trim_end_matches("-go");
    Ok(work.join("debian/usr/lib").join(format!("go-{version}")))
}

/// The compiler's own package among what the one without a version depends on.
fn versioned(depends: &str) -> Option<&str> {
    let mut names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.find(|name| name.starts_with("golang-1.") && name.ends_with("-go"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_go_that_cannot_fetch_a_newer_one_is_too_old() {
        assert!(is_new_enough("go version go1.26.8 linux/amd64"));
        assert!(is_new_enough("go version go1.21rc2 linux/amd64"));
        for old in ["go version go1.19.8 linux/amd64", "go version devel", ""] {
            assert!(!is_new_enough(old), "{old}");
        }
    }

    #[test]
    fn debians_package_is_named_after_its_version() {
        let depends = "golang-go\n  Depends: golang-src\n  Depends: golang-1.19-go\n";
        assert_eq!(versioned(depends), Some("golang-1.19-go"));
        assert_eq!(versioned("golang-go\n  Depends: golang-src\n"), None);
    }
}
