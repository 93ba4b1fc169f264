//! Finds out which commit is being built, for `walras --version`.
//!
//! Never fails the build: without git, or outside the repository, the commit is "unknown". Runs
//! again only when HEAD has moved.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = commit();
    if commit.is_some() {
        watch_head();
    }
    println!("cargo::rustc-env=WALRAS_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// The commit, unless this is an unpacked archive inside a checkout of something else.
fn commit() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// HEAD names a branch; the branch's own file, or the packed list of them, names the commit.
fn watch_head() {
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        // A file that does not exist would make cargo run this script every time.
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// What git prints, without the line end; nothing if it fails or is not there.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
