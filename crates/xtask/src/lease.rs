//! One checkout at a time uses the shared target folder.
//!
//! Cargo names the output of a workspace's own crates by their path inside the workspace, and asks
//! only file times whether it is up to date. Two checkouts that share a target folder would thus
//! run each other's binaries. So whoever takes the lease waits for the previous holder to finish,
//! and if that was another checkout, throws away the output of our own crates and keeps that of
//! the dependencies. Called by `run` and `man` before the first cargo call.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools::{self, Places};

/// Held until dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Lease {
    _lock: Option<File>,
}

/// Waits until the target folder is ours. Needs nothing where the user chose the folder.
pub(crate) fn take(places: &Places) -> Result<Lease> {
    if !places.shared {
        return Ok(Lease { _lock: None });
    }
    tools::make_folder(&places.cache)?;
    let path = places.cache.join("target.lock");
    let lock = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            println!("waiting for another run that uses {}", places.target.display());
            lock.lock()?;
        }
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let owner = places.cache.join("target.owner");
    let us = places.root.display().to_string();
    if fs::read_to_string(&owner).ok().as_deref() != Some(us.as_str()) {
        // Forgotten first, so that an interruption leaves the folder to nobody.
        if owner.exists() {
            fs::remove_file(&owner)?;
        }
        forget_our_crates(places)?;
        fs::write(&owner, us)?;
    }
    Ok(Lease { _lock: Some(lock) })
}

fn forget_our_crates(places: &Places) -> Result<()> {
    for folder in [&places.target, &places.fuzz_target] {
        for selection in built(folder) {
            let status = Command::new("cargo")
                .args(["clean", "--quiet", "--workspace", "--target-dir"])
                .arg(folder)
                .args(&selection)
                .current_dir(&places.root)
                .status()?;
            if !status.success() {
                bail!("cannot clean {}; remove it by hand", folder.display());
            }
        }
    }
    Ok(())
}

/// The options of `cargo clean` that select each profile and target built in `folder`.
fn built(folder: &Path) -> Vec<Vec<String>> {
    let mut selections = Vec::new();
    for (profile, option) in [("debug", "--profile=dev"), ("release", "--profile=release")] {
        if folder.join(profile).is_dir() {
            selections.push(vec![option.to_owned()]);
        }
        for triple in subfolders(folder) {
            if triple.join(profile).is_dir()
                && let Some(name) = triple.file_name()
            {
                let target = format!("--target={}", name.to_string_lossy());
                selections.push(vec![option.to_owned(), target]);
            }
        }
    }
    selections
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::{Duration, Instant};

    /// A folder of the test's own, empty at first and removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the test can remove what it created");
        }
    }

    fn places(cache: &Path, root: &str) -> Places {
        Places {
            root: root.into(),
            cache: cache.into(),
            target: cache.join("target"),
            fuzz_target: cache.join("target-fuzz"),
            shared: true,
        }
    }

    #[test]
    fn every_profile_and_target_that_was_built_is_cleaned() {
        let scratch = Scratch::new("walras-lease-built");
        for folder in ["debug/deps", "x86_64-unknown-none/debug", "doc", "x/release"] {
            fs::create_dir_all(scratch.0.join(folder)).unwrap();
        }
        let found: Vec<_> = built(&scratch.0).iter().map(|options| options.join(" ")).collect();
        assert_eq!(
            found,
            [
                "--profile=dev",
                "--profile=dev --target=x86_64-unknown-none",
                "--profile=release --target=x"
            ]
        );
    }

    #[test]
    fn the_folder_belongs_to_the_checkout_that_took_it_last() {
        let scratch = Scratch::new("walras-lease-owner");
        let owner = || fs::read_to_string(scratch.0.join("target.owner")).unwrap();
        for root in ["/a", "/a", "/b"] {
            drop(take(&places(&scratch.0, root)).unwrap());
            assert_eq!(owner(), root);
        }
    }

    #[test]
    fn only_one_run_holds_the_lease() {
        let scratch = Scratch::new("walras-lease-lock");
        let lease = take(&places(&scratch.0, "/a")).unwrap();
        let other = File::open(scratch.0.join("target.lock")).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        drop(lease);
        // A child that another test is about to start holds a copy of it for a moment.
        let deadline = Instant::now() + Duration::from_secs(60);
        while other.try_lock().is_err() {
            assert!(Instant::now() < deadline, "the lease is still held");
            thread::yield_now();
        }
    }

    #[test]
    fn a_folder_of_the_users_own_needs_no_lease() {
        let scratch = Scratch::new("walras-lease-none");
        let own = Places { shared: false, ..places(&scratch.0, "/a") };
        take(&own).unwrap();
        assert!(fs::read_dir(&scratch.0).unwrap().next().is_none());
    }
}
