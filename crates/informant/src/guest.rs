//! Looks at the guest: what its kernel tells in `proc` and `sys`.
//!
//! A file that is not there, as of a kernel without pressure stall information, is a figure that is
//! not known, and never a zero.

use std::fs;
use std::path::{Path, PathBuf};

use walras_core::informant::{Look, MemoryUse};
use walras_core::parse;
use walras_core::units::Bytes;

/// How long a tick of the kernel's counters is for programs: a hundredth of a second.
const TICK_US: u64 = 10_000;

/// Where the kernel tells.
#[derive(Clone, Debug)]
pub struct Guest {
    root: PathBuf,
}

/// What Prometheus is told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Load averages of 1, 5 and 15 minutes.
    pub loads: Option<[f64; 3]>,
    /// Tasks that run or want to.
    pub runnable: Option<u32>,
    /// CPUs online.
    pub cpus: Option<u32>,
    /// Memory.
    pub memory: Option<Memory>,
}

/// What the kernel says of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// What could be had without swapping.
    pub available: u64,
    /// What nothing is in.
    pub free: u64,
    /// The page cache.
    pub cached: u64,
    /// Of files on disks, beside the page cache.
    pub buffers: u64,
    /// All of swap.
    pub swap_total: u64,
    /// What of it nothing is in.
    pub swap_free: u64,
}

impl Guest {
    /// A guest whose `proc` and `sys` are under `root`.
    #[must_use]
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Looks once. `held_back` is what the group of workloads tells.
    #[must_use]
    pub fn look(&self, held_back: Option<u64>) -> Look {
        let memory = self.memory().map(|memory| MemoryUse {
            total: Bytes::new(memory.total),
            available: Bytes::new(memory.available),
        });
        Look {
            cpus: self.cpus().unwrap_or(1),
            // Without the one that is looking.
            runnable: self.runnable().unwrap_or(1).saturating_sub(1),
            cpu_stalled_us: self.stalled("proc/pressure/cpu"),
            memory_stalled_us: self.stalled("proc/pressure/memory"),
            idle_us: self.idle_us(),
            memory,
            held_back,
        }
    }

    /// What Prometheus is told.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            loads: self.loads(),
            runnable: self.runnable(),
            cpus: self.cpus(),
            memory: self.memory(),
        }
    }

    /// What memory there is.
    #[must_use]
    pub fn memory(&self) -> Option<Memory> {
        let text = self.read("proc/meminfo")?;
        let find = |key: &str| {
            let mut lines = text.lines();
            let line = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(Memory {
            total: find("MemTotal")?,
            available: find("MemAvailable")?,
            free: find("MemFree")?,
            cached: find("Cached").unwrap_or(0),
            buffers: find("Buffers").unwrap_or(0),
            swap_total: find("SwapTotal").unwrap_or(0),
            swap_free: find("SwapFree").unwrap_or(0),
        })
    }

    fn loads(&self) -> Option<[f64; 3]> {
        let text = self.read("proc/loadavg")?;
        let mut words = text.split_whitespace().map(str::parse);
        let mut load = || words.next()?.ok().filter(|load: &f64| load.is_finite());
        Some([load()?, load()?, load()?])
    }

    fn runnable(&self) -> Option<u32> {
        let text = self.read("proc/loadavg")?;
        let (runnable, _) = text.split_whitespace().nth(3)?.split_once('/')?;
        runnable.parse().ok()
    }

    fn cpus(&self) -> Option<u32> {
        let list = self.read("sys/devices/system/cpu/online")?;
        u32::try_from(numbers(&list).len()).ok()
    }

    fn idle_us(&self) -> Option<u64> {
        let text = self.read("proc/stat")?;
        let words = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = words.split_whitespace().flat_map(str::parse).collect();
        let (idle, waiting) = (ticks.get(3)?, ticks.get(4)?);
        idle.checked_add(*waiting)?.checked_mul(TICK_US)
    }

    fn stalled(&self, file: &str) -> Option<u64> {
        let text = self.read(file)?;
        parse::cpu_pressure(text.as_bytes()).ok().map(|pressure| pressure.some.total.as_us())
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.root.join(file)).ok()
    }
}

/// The numbers in a list such as `0-2,5`. What is no list has none, and nobody has so many CPUs.
#[must_use]
pub fn numbers(list: &str) -> Vec<u32> {
    const MOST: u32 = 8192;
    let mut all = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            all.extend(first..=last.min(MOST));
        }
    }
    all
}

/// The folder of the kernel's devices under `root`.
#[must_use]
pub fn devices(root: &Path) -> PathBuf {
    root.join("sys/devices/system")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_look_is_what_the_kernel_tells() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/loadavg", "0.50 0.25 0.10 3/80 4711\n");
        write(root, "proc/stat", "cpu  1 2 3 400 50 6 7 8 0 0\ncpu0 1 2 3\n");
        write(
            root,
            "proc/meminfo",
            "MemTotal:        1000 kB\nMemFree:  100 kB\nMemAvailable:     600 kB\n\
             Buffers: 1 kB\nCached:          300 kB\nSwapTotal: 64 kB\nSwapFree: 32 kB\n",
        );
        let some = "some avg10=0.00 avg60=0.00 avg300=0.00 total=";
        write(root, "proc/pressure/cpu", &format!("{some}77\n"));
        write(root, "sys/devices/system/cpu/online", "0-1,3\n");
        let guest = Guest::new(root.to_owned());
        let memory = MemoryUse { total: Bytes::new(1_024_000), available: Bytes::new(614_400) };
        let expected = Look {
            cpus: 3,
            runnable: 2,
            cpu_stalled_us: Some(77),
            memory_stalled_us: None,
            idle_us: Some(4_500_000),
            memory: Some(memory),
            held_back: Some(5),
        };
        assert_eq!(guest.look(Some(5)), expected);
        let figures = guest.figures();
        assert_eq!(figures.loads, Some([0.5, 0.25, 0.1]));
        assert_eq!(figures.memory.map(|memory| memory.cached), Some(307_200));
    }

    #[test]
    fn what_is_not_there_or_nonsense_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let guest = Guest::new(folder.path().to_owned());
        assert_eq!(guest.figures(), Figures::default());
        write(folder.path(), "proc/loadavg", "x y z\n");
        write(folder.path(), "proc/meminfo", "MemTotal: many kB\n");
        assert_eq!(guest.figures(), Figures::default());
        assert_eq!(guest.look(None).cpus, 1);
    }

    #[test]
    fn lists_of_numbers_are_read_and_bounded() {
        assert_eq!(numbers("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(numbers(""), [0_u32; 0]);
        assert!(numbers("0-4000000000").len() < 10_000);
    }
}
