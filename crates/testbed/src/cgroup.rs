//! A testbed's cgroups: made for the kubelet, read by tests, emptied and removed at the end.
//!
//! Knows both layouts, a tree for each controller and one tree for all. Everything that runs in a
//! pod is in the testbed's cgroup, so whatever is in there at the end is what has to go.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Pid;

use crate::progress::wait_for;
use crate::{node, process};

const MOUNT: &str = "/sys/fs/cgroup";
/// How long the kernel may take to let go of a cgroup.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much CPU a cgroup may use: so much time in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMax {
    /// The time, in microseconds; none where there is no limit.
    pub quota_us: Option<u64>,
    /// The period, in microseconds.
    pub period_us: u64,
}

/// Makes the cgroup `name` in every tree, with everything that its children need.
pub(crate) fn make(name: &str) -> Result<()> {
    for root in trees().into_iter().filter(|root| has_controllers(root)) {
        let mut group = root.clone();
        for part in name.split('/') {
            group.push(part);
            make_in(&root, &group)?;
        }
    }
    Ok(())
}

/// Makes `group` in the tree of `root`, below groups that were made like this.
fn make_in(root: &Path, group: &Path) -> Result<()> {
    fs::create_dir_all(group)
        .with_context(|| format!("cannot make {}; a real node needs root", group.display()))?;
    // An empty list of CPUs, which is what a new group has, lets no process in.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if !is_unified(root) && group.join(file).exists() {
            fs::write(group.join(file), fs::read(root.join(file))?)?;
        }
    }
    if is_unified(root) {
        let controllers = fs::read_to_string(root.join("cgroup.controllers"))?;
        for controller in controllers.split_whitespace() {
            for level in [root, group] {
                // A controller that cannot be handed down is one that the kubelet asks for
                // itself, and complains about with better knowledge.
                fs::write(level.join("cgroup.subtree_control"), format!("+{controller}")).ok();
            }
        }
    }
    Ok(())
}

/// Lets what is in the cgroup `name` go before the machine's other work.
pub(crate) fn favour(name: &str) {
    for root in trees() {
        for (file, most) in [("cpu.weight", "10000"), ("cpu.shares", "262144")] {
            let path = root.join(name).join(file);
            if path.exists() {
                // Where this is refused, nodes are as busy as the machine lets them be.
                fs::write(path, most).ok();
            }
        }
    }
}

/// Ends every process in the cgroup `name` and below, in every tree.
pub(crate) fn empty(name: &str) -> Result<()> {
    wait_for("the end of every process in pods", PATIENCE, || {
        let pids = pids(name);
        for pid in &pids {
            process::kill_number(*pid)?;
        }
        Ok(pids.is_empty().then_some(()))
    })
}

/// Removes the cgroup `name` and those below it, in every tree.
pub(crate) fn remove(name: &str) -> Result<()> {
    wait_for("the end of the testbed's cgroups", PATIENCE, || {
        let groups = groups(name);
        // From the leaves up: a path is longer than those above it.
        for group in groups.iter().rev() {
            // Refused as long as the kernel is not done with it; then it is tried again.
            fs::remove_dir(group).ok();
        }
        Ok(groups.is_empty().then_some(()))
    })
}

/// Every folder of the cgroup `name` in every tree, those above before those below.
#[must_use]
pub fn groups(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = trees().iter().map(|root| root.join(name)).collect();
    while let Some(group) = open.pop() {
        if group.is_dir() {
            let entries = fs::read_dir(&group).into_iter().flatten().flatten();
            open.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
            found.push(group);
        }
    }
    found.sort();
    found
}

/// The CPUs that the cgroup in `folder` may use.
pub(crate) fn cpus(folder: &Path) -> Result<Vec<u32>> {
    // The one is what holds, where there are both.
    let files = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
    let text = files.iter().find_map(|file| fs::read_to_string(folder.join(file)).ok());
    node::parse(&text.with_context(|| format!("{} has no set of CPUs", folder.display()))?)
}

/// How much CPU the cgroup in `folder` may use.
///
/// # Errors
///
/// If the folder is no cgroup with a CPU controller.
pub fn cpu_max(folder: &Path) -> Result<CpuMax> {
    let read = |file: &str| {
        let path = folder.join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    if folder.join("cpu.max").exists() {
        return parse(&read("cpu.max")?);
    }
    parse(&format!("{} {}", read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?))
}

/// Quota and period; no limit is `max` in one layout and -1 in the other.
fn parse(text: &str) -> Result<CpuMax> {
    let mut words = text.split_whitespace();
    let quota_us = match words.next().context("no quota")? {
        "max" | "-1" => None,
        number => Some(number.parse().with_context(|| format!("bad quota {number}"))?),
    };
    let period_us = words.next().context("no period")?.parse().context("bad period")?;
    Ok(CpuMax { quota_us, period_us })
}

fn pids(name: &str) -> Vec<Pid> {
    let files = groups(name).into_iter().map(|group| group.join("cgroup.procs"));
    let texts: Vec<String> = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    // A process is in one cgroup of each tree.
    let numbers: BTreeSet<i32> = lines.filter_map(|line| line.parse().ok()).collect();
    numbers.into_iter().filter_map(Pid::from_raw).collect()
}

/// The roots of all trees.
fn trees() -> Vec<PathBuf> {
    let mount = Path::new(MOUNT);
    if is_unified(mount) {
        return vec![mount.to_path_buf()];
    }
    let entries = fs::read_dir(mount).into_iter().flatten().flatten();
    // Several names may lead to one tree.
    let trees = entries.filter_map(|entry| entry.path().canonicalize().ok());
    let trees: BTreeSet<PathBuf> =
        trees.filter(|tree| tree.join("cgroup.procs").exists()).collect();
    trees.into_iter().collect()
}

/// Beside trees for each controller there may be one for all that has none. A container runtime
/// uses it nevertheless, and nobody else has to.
fn has_controllers(tree: &Path) -> bool {
    let controllers = fs::read_to_string(tree.join("cgroup.controllers"));
    controllers.map_or(true, |controllers| !controllers.trim().is_empty())
}

fn is_unified(tree: &Path) -> bool {
    tree.join("cgroup.controllers").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_both_layouts_are_read() {
        let max = |quota_us, period_us| CpuMax { quota_us, period_us };
        assert_eq!(parse("20000 100000\n").unwrap(), max(Some(20_000), 100_000));
        assert_eq!(parse("max 100000\n").unwrap(), max(None, 100_000));
        assert_eq!(parse("-1\n 50000\n").unwrap(), max(None, 50_000));
        for bad in ["", "20000", "x 100000", "20000 x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cgroup_that_does_not_exist_is_empty_and_gone() {
        let name = "walras-testbed-that-is-not-there";
        assert!(groups(name).is_empty());
        empty(name).unwrap();
        remove(name).unwrap();
    }
}
