//! The occupancy of caches and the bandwidth of memory, as `/sys/fs/resctrl` tells them.
//!
//! There is a domain for each last cache, and a folder with counters for each domain in each
//! control group of resctrl; all groups together are the machine. A domain belongs to the node if
//! all CPUs behind the cache do. Where only some do, nobody can tell whose the counters are.

use std::fs;
use std::path::Path;

use crate::cpu_set::CpuSet;
use crate::parse::number;
use crate::reading::{Seen, Unavailable};
use crate::sampler::{KeptFile, text_of};

const WHAT: &str = "resctrl with monitoring";
/// Folders of resctrl that are no group.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// The counters of the node's caches.
#[derive(Debug)]
pub(super) struct Resctrl {
    occupancy: Vec<KeptFile>,
    moved: Vec<KeptFile>,
    buffer: Vec<u8>,
}

/// A last cache and the CPUs behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cache {
    id: u32,
    cpus: CpuSet,
}

/// The caches that belong to `cpus` alone.
fn ours(caches: &[Cache], cpus: Option<&CpuSet>) -> Seen<Vec<u32>> {
    let Some(cpus) = cpus else { return Ok(caches.iter().map(|cache| cache.id).collect()) };
    let touched = caches.iter().filter(|cache| cache.cpus.meets(cpus));
    touched
        .map(|cache| {
            let alone = cache.cpus.is_within(cpus);
            alone.then_some(cache.id).ok_or(Unavailable::NotOurs { what: "a shared last cache" })
        })
        .collect()
}

/// The last caches of the machine.
fn caches(sys: &Path) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    let cpus = fs::read_dir(sys.join("devices/system/cpu")).into_iter().flatten().flatten();
    for cpu in cpus {
        let folder = cpu.path().join("cache/index3");
        let text = |name: &str| text_of(&folder.join(name), WHAT).ok();
        let id = text("id").and_then(|text| text.trim().parse().ok());
        let cpus = text("shared_cpu_list").and_then(|text| CpuSet::parse(&text).ok());
        if let (Some(id), Some(cpus)) = (id, cpus) {
            caches.push(Cache { id, cpus });
        }
    }
    caches.sort_unstable_by_key(|cache| cache.id);
    caches.dedup_by_key(|cache| cache.id);
    caches
}

// === impl Resctrl ===

impl Resctrl {
    /// The counters for `cpus`, or for all.
    pub(super) fn open(sys: &Path, cpus: Option<&CpuSet>) -> Seen<Self> {
        let root = sys.join("fs/resctrl");
        let features = text_of(&root.join("info/L3_MON/mon_features"), WHAT).map_err(|why| {
            if matches!(why, Unavailable::Absent { .. }) {
                Unavailable::NoHardware { what: WHAT }
            } else {
                why
            }
        })?;
        let domains = ours(&caches(sys), cpus)?;
        if domains.is_empty() {
            return Err(Unavailable::NoHardware { what: WHAT });
        }
        let has = |name: &str| features.lines().any(|line| line.trim() == name);
        let groups = fs::read_dir(&root).into_iter().flatten().flatten().filter(|entry| {
            let name = entry.file_name();
            !NO_GROUPS.iter().any(|no| name == *no) && entry.path().join("mon_data").is_dir()
        });
        let groups: Vec<_> = groups.map(|entry| entry.path()).chain([root]).collect();
        let files = |name: &'static str| -> Vec<KeptFile> {
            let of_group = |group: &std::path::PathBuf| {
                let data = group.join("mon_data");
                let place = move |domain: &u32| data.join(format!("mon_L3_{domain:02}")).join(name);
                domains.iter().map(place).collect::<Vec<_>>()
            };
            let places = groups.iter().filter(|_| has(name)).flat_map(of_group);
            places.map(|place| KeptFile::new(place, name)).collect()
        };
        let (occupancy, moved) = (files("llc_occupancy"), files("mbm_total_bytes"));
        Ok(Self { occupancy, moved, buffer: Vec::new() })
    }

    /// Whether it counts bandwidth, which not every CPU does.
    pub(super) const fn counts_bandwidth(&self) -> bool {
        !self.moved.is_empty()
    }

    /// What moved between memory and CPUs.
    pub(super) fn memory_moved_bytes(&mut self) -> Seen<u64> {
        sum(&mut self.moved, &mut self.buffer)
    }

    /// The part of the caches in use.
    pub(super) fn cache_occupied_bytes(&mut self) -> Seen<u64> {
        sum(&mut self.occupancy, &mut self.buffer)
    }
}

/// All of them together. Resctrl writes a word in the place of a number that it does not have.
fn sum(files: &mut [KeptFile], buffer: &mut Vec<u8>) -> Seen<u64> {
    if files.is_empty() {
        return Err(Unavailable::NoHardware { what: WHAT });
    }
    files.iter_mut().try_fold(0, |sum: u64, file| {
        let value = file.parsed(buffer, |text| number(text.trim_ascii()))?;
        Ok(sum.saturating_add(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with two caches of two CPUs each, and a group of resctrl besides the first.
    fn machine(features: &str) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = sys.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (cpu, id, list) in [(0, 0, "0-1"), (1, 0, "0-1"), (2, 1, "2-3"), (3, 1, "2-3")] {
            let folder = format!("devices/system/cpu/cpu{cpu}/cache/index3");
            write(&format!("{folder}/id"), &format!("{id}\n"));
            write(&format!("{folder}/shared_cpu_list"), &format!("{list}\n"));
        }
        write("fs/resctrl/info/L3_MON/mon_features", features);
        write("fs/resctrl/mon_groups/x/mon_data/mon_L3_00/llc_occupancy", "999\n");
        for (group, domain, occupied, moved) in [
            ("", 0, "100\n", "1000\n"),
            ("", 1, "20\n", "2000\n"),
            ("p1/", 0, "3\n", "4000\n"),
            ("p1/", 1, "4\n", "Unavailable\n"),
        ] {
            let folder = format!("fs/resctrl/{group}mon_data/mon_L3_0{domain}");
            write(&format!("{folder}/llc_occupancy"), occupied);
            write(&format!("{folder}/mbm_total_bytes"), moved);
        }
        sys
    }

    const ALL: &str = "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n";

    fn told(sys: &tempfile::TempDir, cpus: Option<&str>) -> String {
        let cpus = cpus.map(|text| CpuSet::parse(text).unwrap());
        match Resctrl::open(sys.path(), cpus.as_ref()) {
            Ok(mut open) => {
                let word = |seen: Seen<u64>| match seen {
                    Ok(value) => value.to_string(),
                    Err(why) => why.to_string(),
                };
                let moved = word(open.memory_moved_bytes());
                format!("{}, {moved}", word(open.cache_occupied_bytes()))
            }
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn all_groups_together_are_the_machine_and_a_word_is_no_number() {
        let sys = machine(ALL);
        assert_eq!(told(&sys, None), "127, mbm_total_bytes cannot be read");
        assert_eq!(told(&sys, Some("0-1")), "103, 5000");
    }

    #[test]
    fn a_cache_that_others_use_too_says_nothing_about_us() {
        let sys = machine(ALL);
        assert_eq!(told(&sys, Some("0")), "a shared last cache counts more than this node");
        let words = "a shared last cache counts more than this node";
        assert_eq!(told(&sys, Some("0-2")), words);
    }

    #[test]
    fn what_the_hardware_does_not_count_is_not_zero() {
        let none = "this hardware shows no resctrl with monitoring";
        assert_eq!(told(&machine("llc_occupancy\n"), Some("0-1")), format!("103, {none}"));
        assert_eq!(told(&tempfile::tempdir().unwrap(), None), none);
        assert_eq!(told(&machine(ALL), Some("9")), none);
    }
}
