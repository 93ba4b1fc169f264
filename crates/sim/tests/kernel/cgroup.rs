//! Control groups of this machine, made for one case and gone after it, also after a failed one.
//!
//! Both layouts are known: the first version, where `cpu` and `cpuacct` may be mounted apart, and
//! the second. Names contain the process and a counter, so runs side by side do not meet; what dead
//! processes left behind is removed when a group is made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use walras_core::parse::{CpuStat, cpu_stat_v1, cpu_stat_v2};
use walras_core::units::Millicores;
use walras_sim::machine::PERIOD_MS;

use crate::clock::{now, wait_until};

/// Where groups are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The first version.
    V1 { cpu: PathBuf, cpuacct: PathBuf },
    /// The second version.
    V2 { root: PathBuf },
}

/// One group, without a limit as long as none is set.
#[derive(Debug)]
pub(crate) struct Group {
    layout: Layout,
    name: String,
}

const PREFIX: &str = "walras-kernel-";
/// A group whose last process has just ended may be busy for a moment.
const REMOVAL: Duration = Duration::from_secs(2);

// === impl Layout ===

impl Layout {
    /// The layout of this machine.
    pub(crate) fn of_this_machine() -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/mounts").map_err(|error| error.to_string())?;
        Self::from_mounts(&mounts).ok_or_else(|| "/proc/mounts has no cpu controller".to_owned())
    }

    /// The layout that `/proc/mounts` tells. Where both versions are mounted, the cpu controller
    /// belongs to the first if that has it.
    pub(crate) fn from_mounts(mounts: &str) -> Option<Self> {
        let mut of_first = [None, None];
        let mut of_second = None;
        for line in mounts.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, place, kind, options, ..] = words[..] else { continue };
            match kind {
                "cgroup" => {
                    for (found, name) in of_first.iter_mut().zip(["cpu", "cpuacct"]) {
                        if found.is_none() && options.split(',').any(|option| option == name) {
                            *found = Some(PathBuf::from(place));
                        }
                    }
                }
                "cgroup2" if of_second.is_none() => of_second = Some(PathBuf::from(place)),
                _ => {}
            }
        }
        match (of_first, of_second) {
            ([Some(cpu), Some(cpuacct)], _) => Some(Self::V1 { cpu, cpuacct }),
            ([None, _], Some(root)) => Some(Self::V2 { root }),
            ([Some(_), None] | [None, _], _) => None,
        }
    }

    fn folders(&self) -> Vec<&Path> {
        match self {
            Self::V1 { cpu, cpuacct } if cpu == cpuacct => vec![cpu],
            Self::V1 { cpu, cpuacct } => vec![cpu, cpuacct],
            Self::V2 { root } => vec![root],
        }
    }

    /// The folder with the files of the cpu controller.
    fn cpu(&self) -> &Path {
        match self {
            Self::V1 { cpu, .. } => cpu,
            Self::V2 { root } => root,
        }
    }

    /// The file that a limit is set in, and what is written to it.
    fn limit(&self, limit: Millicores) -> (&'static str, String) {
        let (quota_us, period_us) = (per_period_us(limit), PERIOD_MS * 1000);
        match self {
            Self::V1 { .. } => ("cpu.cfs_quota_us", quota_us.to_string()),
            Self::V2 { .. } => ("cpu.max", format!("{quota_us} {period_us}")),
        }
    }

    /// The same for a burst buffer.
    fn burst(&self, burst: Millicores) -> (&'static str, String) {
        let burst_us = per_period_us(burst).to_string();
        match self {
            Self::V1 { .. } => ("cpu.cfs_burst_us", burst_us),
            Self::V2 { .. } => ("cpu.max.burst", burst_us),
        }
    }

    /// The same for a weight.
    fn weight(&self, weight: u32) -> (&'static str, String) {
        match self {
            // Shares go up to 262,144, and only their proportions matter.
            Self::V1 { .. } => ("cpu.shares", (weight * 26).to_string()),
            Self::V2 { .. } => ("cpu.weight", weight.to_string()),
        }
    }

    /// Removes what was left behind by processes that do not live any more.
    fn remove_left_behind(&self) -> io::Result<()> {
        for folder in self.folders() {
            for entry in fs::read_dir(folder)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
                if let Some(pid) = pid
                    && !Path::new("/proc").join(pid).exists()
                {
                    // Another run may have been faster, or somebody else may have moved in.
                    drop(fs::remove_dir(folder.join(&name)));
                }
            }
        }
        Ok(())
    }
}

// === impl Group ===

impl Group {
    /// A new group, with the weight that the kernel gives to everybody.
    pub(crate) fn create(layout: &Layout) -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let told = |place: &Path| {
            let place = place.display().to_string();
            move |error: io::Error| format!("{place}: {error}")
        };
        layout.remove_left_behind().map_err(told(layout.cpu()))?;
        if let Layout::V2 { root } = layout {
            let file = root.join("cgroup.subtree_control");
            let enabled = fs::read_to_string(&file).map_err(told(&file))?;
            if !enabled.split_whitespace().any(|controller| controller == "cpu") {
                fs::write(&file, "+cpu").map_err(told(&file))?;
            }
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        // From here on it is removed, however far its making gets.
        let group = Self { layout: layout.clone(), name };
        for folder in layout.folders() {
            let folder = folder.join(&group.name);
            fs::create_dir(&folder).map_err(told(&folder))?;
        }
        Ok(group)
    }

    /// Sets the limit. The burst buffer stays.
    pub(crate) fn set_limit(&self, limit: Millicores) {
        self.write(self.layout.limit(limit));
    }

    /// Sets the burst buffer, which the kernel accepts up to the limit.
    pub(crate) fn set_burst(&self, burst: Millicores) {
        self.write(self.layout.burst(burst));
    }

    /// Sets the weight, where 10,000 is the most.
    pub(crate) fn set_weight(&self, weight: u32) {
        self.write(self.layout.weight(weight));
    }

    /// Moves a process into the group.
    pub(crate) fn adopt(&self, pid: u32) {
        for folder in self.layout.folders() {
            let file = folder.join(&self.name).join("cgroup.procs");
            fs::write(&file, pid.to_string())
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
    }

    /// What the kernel tells about the group.
    pub(crate) fn stat(&self) -> CpuStat {
        let stat = self.read(self.layout.cpu(), "cpu.stat");
        let parsed = match &self.layout {
            Layout::V1 { cpuacct, .. } => cpu_stat_v1(&self.read(cpuacct, "cpuacct.usage"), &stat),
            Layout::V2 { .. } => cpu_stat_v2(&stat),
        };
        parsed.expect("the kernel keeps to its formats")
    }

    fn read(&self, folder: &Path, file: &str) -> Vec<u8> {
        let file = folder.join(&self.name).join(file);
        fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    fn write(&self, (file, value): (&str, String)) {
        let file = self.layout.cpu().join(&self.name).join(file);
        fs::write(&file, &value)
            .unwrap_or_else(|error| panic!("{value} to {}: {error}", file.display()));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let deadline = now() + REMOVAL;
        for folder in self.layout.folders() {
            let folder = folder.join(&self.name);
            while fs::remove_dir(&folder).is_err() && folder.exists() && now() < deadline {
                wait_until(now() + Duration::from_millis(10));
            }
        }
    }
}

/// What a limit means for one period.
fn per_period_us(limit: Millicores) -> u64 {
    limit.get() * u64::from(PERIOD_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(cpu: &str, cpuacct: &str) -> Layout {
        Layout::V1 { cpu: PathBuf::from(cpu), cpuacct: PathBuf::from(cpuacct) }
    }

    #[test]
    fn the_cpu_controller_is_found_wherever_it_is_mounted() {
        let second = "cgroup2 /c/unified cgroup2 rw 0 0\n";
        let apart = "cgroup /c/cpu cgroup rw,cpu 0 0\ncgroup /c/acct cgroup rw,cpuacct 0 0\n";
        let both = format!("{second}{apart}");
        assert_eq!(Layout::from_mounts(&both), Some(v1("/c/cpu", "/c/acct")));
        let together = "cgroup /c/both cgroup rw,cpu,cpuacct 0 0\n";
        assert_eq!(Layout::from_mounts(together), Some(v1("/c/both", "/c/both")));
        let root = PathBuf::from("/c/unified");
        assert_eq!(Layout::from_mounts(second), Some(Layout::V2 { root }));
        let others = "cgroup /c/set cgroup rw,cpuset 0 0\nproc /proc proc rw 0 0\n";
        assert_eq!(Layout::from_mounts(others), None);
    }

    #[test]
    fn settings_are_written_as_each_version_spells_them() {
        let check = |layout: &Layout| {
            let (limit, burst) = (Millicores::new(300), Millicores::new(50));
            [layout.limit(limit), layout.burst(burst), layout.weight(10_000)]
                .map(|(file, value)| format!("{file} {value}"))
                .join("\n")
        };
        assert_eq!(
            check(&v1("/c", "/c")),
            "cpu.cfs_quota_us 30000\ncpu.cfs_burst_us 5000\ncpu.shares 260000"
        );
        assert_eq!(
            check(&Layout::V2 { root: PathBuf::from("/c") }),
            "cpu.max 30000 100000\ncpu.max.burst 5000\ncpu.weight 10000"
        );
    }
}
