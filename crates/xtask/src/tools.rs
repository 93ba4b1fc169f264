//! Where things are kept, and the tools, components and targets that a tier needs.
//!
//! Every path outside the checkout is decided here, and so is the version of every third-party
//! tool. Called by `run` and `man`. Asking twice for the same thing does nothing the second time;
//! whatever is missing and cannot be had is reported in one sentence that says what to install.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::guest;
use crate::toolchain;

/// A third-party program, pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Checks licences, bans and sources of dependencies.
pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
/// Builds and runs the fuzz targets.
pub(crate) const CARGO_FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2" };

/// Where the checkout is, and where everything that is built from it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// The checkout.
    pub(crate) root: PathBuf,
    /// What outlives a checkout: tools, build output, fuzz inputs found so far.
    pub(crate) cache: PathBuf,
    /// The target folder of every cargo call.
    pub(crate) target: PathBuf,
    /// The target folder of fuzz builds, which use another compiler and other flags.
    pub(crate) fuzz_target: PathBuf,
    /// Whether `target` is ours and thus shared between checkouts.
    pub(crate) shared: bool,
}

/// Something that has to be there before a tier can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A component of the toolchain, such as `clippy`, and the cargo command it brings.
    Component { name: &'static str, command: &'static str },
    /// The standard library for a target.
    Target(&'static str),
    /// A pinned program.
    Tool(Tool),
    /// QEMU, and a kernel and a shell to start in it.
    Guest,
    /// Chromium.
    Browser,
    /// A Go compiler, unless the programs of a cluster are there already.
    Go,
    /// A compiler for C that makes static programs.
    StaticCompiler,
    /// The compiler of the programs for the kernel, of the one version that makes their bytes.
    BpfCompiler,
    /// A folder, with whatever is in it.
    Folder(PathBuf),
    /// A folder with nothing in it.
    EmptyFolder(PathBuf),
}

/// The value of an environment variable, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a build tool has no configuration loader")]
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Sees to it that `need` is met, or says in one sentence what to install.
pub(crate) fn meet(need: &Need, places: &Places) -> Result<()> {
    match need {
        Need::Component { name, command } => {
            if !quietly_succeeds("cargo", &[command, "--version"]) {
                bail!("{name} is missing; install it with `rustup component add {name}`");
            }
        }
        Need::Target(triple) => meet_target(triple)?,
        Need::Tool(tool) => meet_tool(*tool, places)?,
        Need::Guest => guest::meet(places)?,
        Need::Browser => meet_package("chromium", "--version", "chromium")?,
        Need::Go => {
            if variable("WALRAS_KUBE_ASSETS").is_none() {
                toolchain::meet(places)?;
            }
        }
        Need::StaticCompiler => meet_package("musl-gcc", "-v", "musl-tools")?,
        Need::BpfCompiler => {
            meet_package("clang-14", "--version", "clang-14")?;
            meet_package("llvm-strip-14", "--version", "llvm-14")?;
        }
        Need::Folder(folder) => make_folder(folder)?,
        Need::EmptyFolder(folder) => {
            if folder.exists() {
                fs::remove_dir_all(folder)
                    .with_context(|| format!("cannot empty {}", folder.display()))?;
            }
            make_folder(folder)?;
        }
    }
    Ok(())
}

/// Whether this machine has a browser, or can get one.
pub(crate) fn browser_is_possible() -> bool {
    quietly_succeeds("chromium", &["--version"]) || quietly_succeeds("apt-get", &["-v"])
}

/// Creates `folder` and those above it, where they do not exist yet.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Sees to it that `program` is there, from a Debian package if need be.
pub(crate) fn meet_package(program: &str, version: &str, package: &str) -> Result<()> {
    if quietly_succeeds(program, &[version]) || install(package) {
        return Ok(());
    }
    bail!("{program} is missing; install it with `apt-get install {package}`");
}

/// Installs a package of Debian's; says whether that worked.
pub(crate) fn install(package: &str) -> bool {
    let apt = |args: &[&str]| {
        println!("apt-get {}", args.join(" "));
        // A new machine may still be installing something of its own.
        let patient = ["-o", "DPkg::Lock::Timeout=300"];
        let mut apt = Command::new("apt-get");
        apt.args(patient).args(args).status().is_ok_and(|status| status.success())
    };
    let install = ["install", "-y", "--no-install-recommends", package];
    // A fresh machine may have an old list of packages, or none.
    apt(&install) || (apt(&["update"]) && apt(&install))
}

fn meet_target(triple: &str) -> Result<()> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let output = output.context("rustc is missing; install Rust with rustup")?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if sysroot.join("lib/rustlib").join(triple).is_dir() {
        return Ok(());
    }
    println!("rustup target add {triple}");
    let added = Command::new("rustup").args(["target", "add", triple]).status();
    if !added.is_ok_and(|status| status.success()) {
        bail!("the target {triple} is missing; install it with `rustup target add {triple}`");
    }
    Ok(())
}

fn meet_tool(tool: Tool, places: &Places) -> Result<()> {
    if tool.program(places).is_file() {
        return Ok(());
    }
    let Tool { name, version } = tool;
    let root = tool.root(places);
    println!("installing {name} {version} into {} (once)", root.display());
    let installed = Command::new("cargo")
        .args(["install", "--locked", name, "--version", version, "--root"])
        .arg(&root)
        .status();
    if !installed.is_ok_and(|status| status.success()) || !tool.program(places).is_file() {
        let root = root.display();
        bail!(
            "{name} {version} is missing; install it with \
             `cargo install --locked {name} --version {version} --root {root}`"
        );
    }
    Ok(())
}

/// Whether a program is there and succeeds; what it prints is not shown.
pub(crate) fn quietly_succeeds(program: &str, args: &[&str]) -> bool {
    let status =
        Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

// === impl Tool ===

impl Tool {
    /// The installed program. Called by its path, so that no other version on the search path is.
    pub(crate) fn program(self, places: &Places) -> PathBuf {
        self.root(places).join("bin").join(self.name)
    }

    fn root(self, places: &Places) -> PathBuf {
        places.cache.join("tools").join(format!("{}-{}", self.name, self.version))
    }
}

// === impl Places ===

impl Places {
    /// The places for the checkout that cargo started this program from.
    pub(crate) fn find() -> Result<Self> {
        // Asked at run time: what the compiler knew may be about another checkout that shares the
        // target folder.
        let manifest = variable("CARGO_MANIFEST_DIR")
            .context("CARGO_MANIFEST_DIR is not set; start this program with `cargo xtask`")?;
        let root = Path::new(&manifest).ancestors().nth(2);
        let root = root.context("the crate is not two folders below the root")?.to_path_buf();
        Self::from(root, variable)
    }

    fn from(root: PathBuf, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let cache = folder("WALRAS_CACHE")
            .or_else(|| folder("XDG_CACHE_HOME").map(|base| base.join("walras")))
            .or_else(|| folder("HOME").map(|home| home.join(".cache/walras")))
            .context("no place for a cache; set WALRAS_CACHE to a folder")?;
        let cache = std::path::absolute(cache)?;
        let (target, fuzz_target, shared) = match folder("CARGO_TARGET_DIR") {
            // Made absolute, because the cargo calls start from the root and not from here.
            Some(chosen) => {
                let chosen = std::path::absolute(chosen)?;
                (chosen.clone(), chosen.join("fuzz"), false)
            }
            None => (cache.join("target"), cache.join("target-fuzz"), true),
        };
        Ok(Self { root, cache, target, fuzz_target, shared })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            settings.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        match Places::from(PathBuf::from("/repo"), variable) {
            Ok(Places { cache, target, fuzz_target, shared, .. }) => {
                let [cache, target, fuzz] =
                    [cache, target, fuzz_target].map(|path| path.display().to_string());
                format!("{cache} {target} {fuzz} shared={shared}")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_most_specific_cache_wins() {
        let all = [("HOME", "/h"), ("XDG_CACHE_HOME", "/x"), ("WALRAS_CACHE", "/w")];
        assert_eq!(check(&all), "/w /w/target /w/target-fuzz shared=true");
        let two = "/x/walras /x/walras/target /x/walras/target-fuzz shared=true";
        assert_eq!(check(&all[..2]), two);
        let one = "/h/.cache/walras /h/.cache/walras/target /h/.cache/walras/target-fuzz \
                   shared=true";
        assert_eq!(check(&all[..1]), one);
        assert_eq!(check(&[]), "no place for a cache; set WALRAS_CACHE to a folder");
    }

    #[test]
    fn a_target_folder_that_the_user_chose_is_respected() {
        let chosen = [("HOME", "/h"), ("CARGO_TARGET_DIR", "/t")];
        assert_eq!(check(&chosen), "/h/.cache/walras /t /t/fuzz shared=false");
    }

    #[test]
    fn a_tool_lives_in_a_folder_named_after_its_version() {
        let variable = |name: &str| (name == "WALRAS_CACHE").then(|| "/w".to_owned());
        let places = Places::from(PathBuf::from("/repo"), variable).unwrap();
        let expected = Path::new("/w/tools/cargo-deny-0.20.2/bin/cargo-deny");
        assert_eq!(CARGO_DENY.program(&places), expected);
    }
}
