//! Fetches a Debian package and unpacks it into the cache, without installing it.
//!
//! Called by `assets`. Nothing of the system changes: no service is started, no path is taken, and
//! no rights are needed. `apt-get` checks the archive's signatures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::pins::Package;
use crate::progress::say;

/// The folder of `package` in `folder`, in whichever version it was unpacked last.
pub(crate) fn unpacked(package: &Package, folder: &Path) -> Option<PathBuf> {
    let prefix = format!("{}_", package.name);
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)))
        .filter(|path| package.programs.values().all(|program| path.join(program).is_file()))
        .collect();
    found.sort();
    found.pop()
}

/// Fetches `package` and unpacks it below `folder`.
pub(crate) fn unpack(package: &Package, folder: &Path) -> Result<PathBuf> {
    let name = &package.name;
    let unfinished = folder.join(format!(".{name}.unfinished"));
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(unfinished.join("root"))?;
    say(&format!("fetching the Debian package {name}, once"));
    let run = |command: &mut Command| command.current_dir(&unfinished).output();
    let download = || run(Command::new("apt-get").args(["download", "-qq", name]));
    let mut output = download().with_context(|| missing(package))?;
    if !output.status.success() {
        // The lists of a fresh machine are empty; only root may fetch them.
        let update = run(Command::new("apt-get").args(["update", "-qq"]))?;
        if update.status.success() {
            output = download()?;
        }
    }
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!("{}; apt-get says: {}", missing(package), reason.trim());
    }
    let archive = archive(&unfinished)?;
    let version = version(&archive).context("a Debian package without a version in its name")?;
    check_version(package, &version)?;
    let extract = run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg("root"))?;
    if !extract.status.success() {
        bail!("{} cannot be unpacked: {}", name, String::from_utf8_lossy(&extract.stderr));
    }
    let place = folder.join(format!("{name}_{version}"));
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::rename(unfinished.join("root"), &place)?;
    fs::remove_dir_all(&unfinished)?;
    unpacked(package, folder).with_context(|| {
        let programs: Vec<_> = package.programs.values().map(String::as_str).collect();
        format!("the package {name} {version} has no {}", programs.join(", "))
    })
}

fn missing(package: &Package) -> String {
    let programs: Vec<_> = package.programs.keys().map(String::as_str).collect();
    format!(
        "{} is missing and the Debian package {} cannot be fetched; use Debian or Ubuntu, or set \
         WALRAS_KUBE_ASSETS to a folder that holds ready programs",
        programs.join(", "),
        package.name
    )
}

fn archive(folder: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let found = entries.find(|path| path.extension().is_some_and(|ending| ending == "deb"));
    found.context("apt-get fetched nothing")
}

/// The version in the name of an archive: `name_version_architecture.deb`, with `:` encoded.
fn version(archive: &Path) -> Option<String> {
    let name = archive.file_name()?.to_str()?;
    Some(name.split('_').nth(1)?.replace("%3a", "+epoch+"))
}

fn check_version(package: &Package, version: &str) -> Result<()> {
    let Package { name, at_least, .. } = package;
    // An epoch is not part of the version that the authors of the program know.
    let plain = version.split("+epoch+").last().unwrap_or(version);
    if numbers(plain) < numbers(at_least) {
        bail!("the Debian package {name} has version {plain}, and {at_least} is needed");
    }
    Ok(())
}

/// The numbers that a version begins with.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split(['.', '+', '-', '~']);
    parts.map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn versions_are_read_from_names_and_compared_as_numbers() {
        let archive = Path::new("/x/runc_1.1.5+ds1-1+deb12u1_amd64.deb");
        assert_eq!(version(archive).as_deref(), Some("1.1.5+ds1-1+deb12u1"));
        let epoch = Path::new("busybox_1%3a1.35.0-4_amd64.deb");
        assert_eq!(version(epoch).as_deref(), Some("1+epoch+1.35.0-4"));
        let package = |at_least: &str| Package {
            name: "p".into(),
            at_least: at_least.into(),
            programs: BTreeMap::new(),
        };
        check_version(&package("1.9"), "1.10.1-2").unwrap();
        check_version(&package("1.30"), "1+epoch+1.35.0-4").unwrap();
        let error = check_version(&package("3.4"), "3.3.25+dfsg-6").unwrap_err().to_string();
        let expected = "the Debian package p has version 3.3.25+dfsg-6, and 3.4 is needed";
        assert_eq!(error, expected);
    }
}
