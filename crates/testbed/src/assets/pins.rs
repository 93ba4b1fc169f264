//! The pinned versions and sums, as `assets.toml` and the files of the Go modules have them.
//!
//! Compiled in, so that a built testbed needs no checkout to know what it is made of. A test holds
//! the sums and the files together.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Everything that is pinned.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pins {
    /// What is built from Go modules.
    pub module: Vec<Module>,
    /// What is taken from Debian packages.
    pub package: Vec<Package>,
}

/// A Go module whose programs are built.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Our short name for it, and that of its folder.
    pub name: String,
    /// Go's name for it.
    pub path: String,
    /// The version, with its `v`.
    pub version: String,
    /// The sum of the module, as Go's checksum database has it.
    pub sum: String,
    /// The SHA-256 of the `go.sum` that pins everything below it.
    pub go_sum: String,
    /// The programs that are built, and Go's names for their packages.
    pub programs: BTreeMap<String, String>,
    /// Variables that the linker sets, so that the programs know their version.
    pub stamps: Vec<String>,
    /// Build tags.
    pub tags: String,
}

/// A Debian package whose programs are unpacked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Debian's name for it.
    pub name: String,
    /// The least version that is known to do.
    pub at_least: String,
    /// The programs and where the package has them.
    pub programs: BTreeMap<String, String>,
}

/// The pins that were compiled in.
///
/// # Errors
///
/// If `assets.toml` is not what this file expects; a test makes sure that it is.
pub fn read() -> Result<Pins> {
    toml::from_str(include_str!("../../assets.toml")).context("assets.toml cannot be read")
}

// === impl Module ===

impl Module {
    /// The files that pin the module: `go.mod` and `go.sum`.
    pub(crate) fn files(&self) -> Option<(&'static str, &'static str)> {
        match self.name.as_str() {
            "etcd" => {
                Some((include_str!("../../go/etcd/go.mod"), include_str!("../../go/etcd/go.sum")))
            }
            "kubernetes" => Some((
                include_str!("../../go/kubernetes/go.mod"),
                include_str!("../../go/kubernetes/go.sum"),
            )),
            "containerd" => Some((
                include_str!("../../go/containerd/go.mod"),
                include_str!("../../go/containerd/go.sum"),
            )),
            "kwok" => {
                Some((include_str!("../../go/kwok/go.mod"), include_str!("../../go/kwok/go.sum")))
            }
            "helm" => {
                Some((include_str!("../../go/helm/go.mod"), include_str!("../../go/helm/go.sum")))
            }
            _ => None,
        }
    }

    /// The folder in the cache, with the version in its name.
    pub(crate) fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// What the linker is told.
    pub(crate) fn linker_flags(&self) -> String {
        let stamps = self.stamps.iter().map(|stamp| stamp.replace("{version}", &self.version));
        stamps.fold("-s -w".to_owned(), |flags, stamp| format!("{flags} -X {stamp}"))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn sha256(text: &str) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        })
    }

    #[test]
    fn versions_and_sums_agree_with_the_files_of_the_modules() {
        for module in read().unwrap().module {
            let (go_mod, go_sum) = module.files().expect("every module has its files");
            let Module { name, path, version, sum, .. } = &module;
            assert_eq!(sha256(go_sum), module.go_sum, "{name}: the sum of go.sum");
            assert!(go_sum.contains(&format!("{path} {version} {sum}\n")), "{name}: the sum");
            assert!(go_mod.contains(&format!("\t{path} {version}")), "{name}: the version");
            for package in module.programs.values() {
                assert!(go_mod.contains(&format!("{package}\n")), "{name}: the tool {package}");
            }
        }
    }

    #[test]
    fn the_linker_stamps_the_version() {
        let pins = read().unwrap();
        let kwok = pins.module.iter().find(|module| module.name == "kwok").unwrap();
        let version = &kwok.version;
        let expected = format!("-s -w -X sigs.k8s.io/kwok/pkg/consts.Version={version}");
        assert_eq!(kwok.linker_flags(), expected);
        assert_eq!(kwok.folder(), format!("kwok-{version}"));
    }
}
