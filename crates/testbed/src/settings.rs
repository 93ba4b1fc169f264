//! What the environment says: where things are kept, and whether ready programs are to be used.
//!
//! Read once by whoever starts a testbed; nothing else in the crate looks at the environment.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Where things are, outside of a testbed's own folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What outlives a checkout: programs, and the folders of testbeds.
    pub cache: PathBuf,
    /// A folder that holds every program, which are then neither built nor fetched.
    pub assets: Option<PathBuf>,
    /// A folder that may hold `etcd`, `kube-apiserver` and `kubectl`.
    pub kubebuilder: Option<PathBuf>,
    /// The program that keeps testbeds, where cargo has just built it for the tests of this crate.
    pub keeper: Option<PathBuf>,
    /// The checkout, from which the programs inside of pods are built.
    pub checkout: PathBuf,
}

impl Settings {
    /// The settings that the environment gives.
    ///
    /// # Errors
    ///
    /// If there is no place for a cache, or if cargo did not start this program.
    pub fn read() -> Result<Self> {
        Self::from(variable)
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let cache = folder("WALRAS_CACHE")
            .or_else(|| folder("XDG_CACHE_HOME").map(|base| base.join("walras")))
            .or_else(|| folder("HOME").map(|home| home.join(".cache/walras")))
            .context("no place for a cache; set WALRAS_CACHE to a folder")?;
        // Asked at run time: what the compiler knew may be about another checkout that shares the
        // target folder.
        let manifest = folder("CARGO_MANIFEST_DIR")
            .context("CARGO_MANIFEST_DIR is not set; start this program with cargo")?;
        let checkout = manifest.ancestors().nth(2);
        let checkout = checkout.context("the crate is not two folders below the root")?;
        let absolute = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
        Ok(Self {
            cache: std::path::absolute(cache)?,
            assets: absolute(folder("WALRAS_KUBE_ASSETS"))?,
            kubebuilder: absolute(folder("KUBEBUILDER_ASSETS"))?,
            keeper: folder("CARGO_BIN_EXE_walras-testbed"),
            checkout: checkout.to_path_buf(),
        })
    }

    /// The folder with a folder for each testbed.
    #[must_use]
    pub fn testbeds(&self) -> PathBuf {
        self.cache.join("testbeds")
    }

    /// The folder with a folder for each version of each program.
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.cache.join("kube")
    }
}

/// The programs of the system that `name` is looked for in.
#[must_use]
pub(crate) fn search_path() -> Vec<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    // Programs of the administrator, which are not on everybody's search path.
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders
}

/// Where the system has the program `name`.
#[must_use]
pub(crate) fn system_program(name: &str) -> Option<PathBuf> {
    search_path().iter().map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Whether `path` is a file that somebody may execute.
#[must_use]
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            settings.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        match Settings::from(variable) {
            Ok(found) => format!("{} {}", found.testbeds().display(), found.checkout.display()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_most_specific_cache_wins() {
        let root = ("CARGO_MANIFEST_DIR", "/repo/crates/testbed");
        assert_eq!(check(&[root, ("HOME", "/h")]), "/h/.cache/walras/testbeds /repo");
        let both = [root, ("HOME", "/h"), ("XDG_CACHE_HOME", "/x")];
        assert_eq!(check(&both), "/x/walras/testbeds /repo");
        let three = [root, ("WALRAS_CACHE", "/w"), ("XDG_CACHE_HOME", "/x")];
        assert_eq!(check(&three), "/w/testbeds /repo");
        assert_eq!(check(&[root]), "no place for a cache; set WALRAS_CACHE to a folder");
    }

    #[test]
    fn a_program_that_cargo_did_not_start_is_told_so() {
        assert!(check(&[("HOME", "/h")]).starts_with("CARGO_MANIFEST_DIR is not set"));
    }
}
