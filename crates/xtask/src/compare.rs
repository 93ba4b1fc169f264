//! `cargo xtask compare`: the Brain's models beside Python's XGBoost and PyTorch.
//!
//! Sets itself up: an environment of Python in the cache with XGBoost from PyPI, and Debian's
//! PyTorch, which that environment is let see. Then it builds our side and lets
//! `crates/brain/compare/compare.py` ask both. That fails if answers differ; what it prints belongs
//! into `docs/performance.md`. It is no part of the ladder, since it takes packages from PyPI.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::tools::{self, Places};

/// Debian's own Python, since Debian's PyTorch is for no other.
const PYTHON: &str = "/usr/bin/python3";
/// From PyPI. The CPU's build, which is a tenth of the other.
const PACKAGES: [&str; 2] = ["numpy<2", "xgboost-cpu"];
/// From Debian.
const TORCH: [&str; 2] = ["libopenblas0-pthread", "python3-torch"];
const SCRIPT: &str = "crates/brain/compare/compare.py";

/// Compares.
pub(crate) fn run() -> Result<ExitCode> {
    let places = Places::find()?;
    let python = set_up(&places)?;
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--package", "walras-brain", "--example", "compare"]);
    build.arg("--target-dir").arg(&places.target).current_dir(&places.root);
    succeed(&mut build)?;
    let program = places.target.join("release/examples/compare");
    let mut compare = Command::new(&python);
    compare.arg(places.root.join(SCRIPT)).arg(program).current_dir(&places.root);
    succeed(&mut compare)?;
    Ok(ExitCode::SUCCESS)
}

/// Sees to it that there is a Python that knows both. Asking twice does nothing the second time.
fn set_up(places: &Places) -> Result<std::path::PathBuf> {
    let folder = places.cache.join("compare");
    let python = folder.join("bin/python");
    // The reference BLAS that PyTorch comes with is ten times slower, which would flatter us.
    for (module, packages) in [("torch", &TORCH[..]), ("ensurepip", &["python3-venv"])] {
        let wanted = packages.iter().filter(|_| !knows(Path::new(PYTHON), module));
        for package in wanted {
            ensure!(tools::install(package), "{package} of Debian's is missing");
        }
    }
    if !knows(&python, "xgboost") {
        tools::make_folder(&places.cache)?;
        let mut make = Command::new(PYTHON);
        make.args(["-m", "venv", "--clear", "--system-site-packages"]).arg(&folder);
        succeed(&mut make)?;
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        succeed(install.args(PACKAGES))?;
    }
    ensure!(
        knows(&python, "torch") && knows(&python, "xgboost"),
        "Python lacks what was installed"
    );
    Ok(python)
}

/// Whether a Python has a module.
fn knows(python: &Path, module: &str) -> bool {
    let asked = Command::new(python).args(["-c", &format!("import {module}")]).output();
    asked.is_ok_and(|output| output.status.success())
}

fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{program} cannot be started"))?;
    ensure!(status.success(), "{program}: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_is_asked_and_not_believed() {
        assert!(!knows(Path::new("no-such-python"), "sys"));
        let failed = succeed(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(failed.to_string(), "sh: exit status: 3");
    }
}
