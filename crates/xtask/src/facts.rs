//! What is true of this checkout and this machine, gathered once before the first tier.
//!
//! `tiers` turns these facts into commands without looking at anything else, so that every plan
//! can be tested with facts made up for the purpose.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::guest;
use crate::tools::{self, Places};

/// The package that holds the fuzz targets.
pub(crate) const FUZZ_PACKAGE: &str = "walras-fuzz";

/// The name of tests that need root and control groups, all behind the feature `real-kernel`.
pub(crate) const KERNEL_TEST: &str = "kernel";

/// The name of tests of pages, all behind the feature `browser`.
pub(crate) const BROWSER_TEST: &str = "browser";

/// How the command that the README shows first begins.
pub(crate) const README_COMMAND: &str = "cargo run --release ";

/// Everything that the tiers' commands depend on.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Where things are kept.
    pub(crate) places: Places,
    /// The packages of the workspace and their targets.
    pub(crate) workspace: Workspace,
    /// The nightly toolchain's name, where one is installed.
    pub(crate) nightly: Option<String>,
    /// Whether a virtual machine can be had.
    pub(crate) guest: bool,
    /// Whether a browser can be had.
    pub(crate) browser: bool,
    /// The first command of the README, if it has one.
    pub(crate) readme_command: Option<String>,
    /// Whether the user asked for the check that needs the network.
    pub(crate) advisories: bool,
    /// Whether the user asked to leave out the tests that start clusters.
    pub(crate) without_kubernetes: bool,
    /// How long to fuzz each target.
    pub(crate) fuzz_seconds: u32,
}

/// The part of cargo's metadata that matters here, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// The names of all packages.
    pub(crate) packages: Vec<String>,
    /// The names of integration tests, without those of the fuzz package and of xtask.
    pub(crate) tests: Vec<String>,
    /// The names of packages with a test called [`KERNEL_TEST`].
    pub(crate) kernel_packages: Vec<String>,
    /// The names of packages with a test called [`BROWSER_TEST`].
    pub(crate) browser_packages: Vec<String>,
    /// The names of fuzz targets: the fuzz package's binaries.
    pub(crate) fuzz_targets: Vec<String>,
}

/// Looks at the checkout and the machine.
pub(crate) fn gather(places: Places, fuzz_seconds: u32) -> Result<Facts> {
    let metadata = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(&places.root)
        .output()
        .context("cargo is missing; install Rust with rustup")?;
    if !metadata.status.success() {
        bail!("cargo cannot read the workspace\n{}", String::from_utf8_lossy(&metadata.stderr));
    }
    let workspace = Workspace::from_metadata(&String::from_utf8_lossy(&metadata.stdout))?;
    // A machine without rustup has no nightly toolchain, as far as anyone can tell.
    let toolchains = Command::new("rustup").args(["toolchain", "list"]).output();
    let toolchains = toolchains.map(|output| output.stdout).unwrap_or_default();
    let readme = fs::read_to_string(places.root.join("README.md")).unwrap_or_default();
    Ok(Facts {
        workspace,
        guest: guest::is_possible(),
        browser: tools::browser_is_possible(),
        nightly: nightly(&String::from_utf8_lossy(&toolchains)),
        readme_command: first_command(&readme),
        advisories: tools::variable("WALRAS_ADVISORIES").as_deref() == Some("1"),
        without_kubernetes: tools::variable("WALRAS_WITHOUT_KUBERNETES").as_deref() == Some("1"),
        fuzz_seconds,
        places,
    })
}

/// The first nightly of rustup's list: the undated one where there is one.
fn nightly(toolchains: &str) -> Option<String> {
    let names = toolchains.lines().filter_map(|line| line.split_whitespace().next());
    let dated = |name: &str| name.strip_prefix("nightly-").is_some_and(starts_with_digit);
    names
        .filter(|name| name.starts_with("nightly"))
        .min_by_key(|name| dated(name))
        .map(str::to_owned)
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

/// The first line of the first code block that begins with [`README_COMMAND`], with the lines it
/// continues on.
fn first_command(readme: &str) -> Option<String> {
    let mut inside = false;
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let opens = line.starts_with("```") && !inside;
        inside = if line.starts_with("```") { !inside } else { inside };
        if !opens {
            continue;
        }
        let mut block = lines.clone();
        let first = block.next()?;
        let mut command = first.strip_prefix("$ ").unwrap_or(first).to_owned();
        if !command.starts_with(README_COMMAND) {
            continue;
        }
        while command.ends_with('\\') {
            command.pop();
            command.push_str(block.next()?.trim_start());
        }
        return Some(command);
    }
    None
}

// === impl Workspace ===

impl Workspace {
    fn from_metadata(json: &str) -> Result<Self> {
        let metadata: Value =
            serde_json::from_str(json).context("cargo's metadata is not valid JSON")?;
        let packages =
            metadata["packages"].as_array().context("cargo's metadata names no packages")?;
        let mut workspace = Self::default();
        for package in packages {
            let name = package["name"].as_str().context("a package without a name")?;
            workspace.packages.push(name.to_owned());
            for target in package["targets"].as_array().into_iter().flatten() {
                let target_name = target["name"].as_str().context("a target without a name")?;
                let is =
                    |kind| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&kind));
                if name == FUZZ_PACKAGE && is(Value::from("bin")) {
                    workspace.fuzz_targets.push(target_name.to_owned());
                } else if ![FUZZ_PACKAGE, "xtask"].contains(&name) && is(Value::from("test")) {
                    workspace.tests.push(target_name.to_owned());
                    match target_name {
                        KERNEL_TEST => workspace.kernel_packages.push(name.to_owned()),
                        BROWSER_TEST => workspace.browser_packages.push(name.to_owned()),
                        _ => {}
                    }
                }
            }
        }
        let Self { packages, tests, kernel_packages, browser_packages, fuzz_targets } =
            &mut workspace;
        for names in [packages, tests, kernel_packages, browser_packages, fuzz_targets] {
            names.sort();
            names.dedup();
        }
        Ok(workspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_sorted_by_what_they_are_for() {
        let json = r#"{ "packages": [
            { "name": "xtask", "targets": [{ "name": "tidy", "kind": ["test"] }] },
            { "name": "walras-sim", "targets": [
                { "name": "walras_sim", "kind": ["lib"] },
                { "name": "prop_market", "kind": ["test"] },
                { "name": "kernel", "kind": ["test"] },
                { "name": "browser", "kind": ["test"] },
                { "name": "golden", "kind": ["test"] } ] },
            { "name": "walras-fuzz", "targets": [
                { "name": "corpus", "kind": ["test"] },
                { "name": "parse", "kind": ["bin"] } ] } ] }"#;
        let workspace = Workspace::from_metadata(json).unwrap();
        assert_eq!(workspace.packages, ["walras-fuzz", "walras-sim", "xtask"]);
        assert_eq!(workspace.tests, ["browser", "golden", "kernel", "prop_market"]);
        assert_eq!(workspace.kernel_packages, ["walras-sim"]);
        assert_eq!(workspace.browser_packages, ["walras-sim"]);
        assert_eq!(workspace.fuzz_targets, ["parse"]);
    }

    #[test]
    fn an_undated_nightly_is_preferred_and_no_nightly_is_none() {
        let both = "stable-x (default)\nnightly-2026-01-01-x\nnightly-x\n1.95.0-x (active)\n";
        assert_eq!(nightly(both).as_deref(), Some("nightly-x"));
        assert_eq!(nightly("nightly-2026-01-01-x\n").as_deref(), Some("nightly-2026-01-01-x"));
        assert_eq!(nightly("stable-x (default)\n"), None);
    }

    #[test]
    fn the_readme_command_is_the_first_of_its_kind_with_its_continuation() {
        let readme = "# Walras\n\n```toml\nx = 1\n```\n\ncargo run --release -- not this\n\n\
                      ```console\n$ cargo run --release -- sim \\\n    --nodes 2\nmore\n```\n";
        let expected = "cargo run --release -- sim --nodes 2";
        assert_eq!(first_command(readme).as_deref(), Some(expected));
        assert_eq!(first_command("```\ncargo build\n```\n"), None);
        assert_eq!(first_command(""), None);
    }
}
