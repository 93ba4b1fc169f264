//! One control group, open for reading: its counters, its settings, and who it is.
//!
//! The files with counters are kept open, because opening one costs more than reading it. A sample
//! takes one call to the kernel per file and allocates nothing. A group that was removed is gone,
//! even if one with the same name was made since: what is open stays what it was.

use std::cell::Cell;
use std::fmt;

use rustix::io::Errno;
use walras_core::demand::Sample;
use walras_core::parse::{CpuMax, CpuStat, cpu_pressure, cpu_stat_v1, cpu_stat_v2};
use walras_core::units::{Moment, Span};

use crate::error::CgroupError;
use crate::file::{BUFFER_BYTES, Fault, Folder, Kept, ReadFault};
use crate::layout::{BootId, Layout, Version};
use crate::path::CgroupPath;
use crate::retry::{Failed, retry};
use crate::settings::{self, Settings};
use crate::walk::{WalkLimits, walk};

/// Processes of a group are looked for this far inside of it.
const INSIDE: WalkLimits = WalkLimits { depth: 10, groups: 4096 };

/// Who a group is. No two groups ever have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The boot it was made in.
    pub boot: BootId,
    /// Its number in that boot, which the kernel does not use again.
    pub inode: u64,
}

/// A control group that may be read.
#[derive(Debug)]
pub struct Group {
    layout: Layout,
    identity: Identity,
    folder: Folder,
    counters: Counters,
}

/// The files that are read for a sample.
#[derive(Debug)]
enum Counters {
    V1 { stat: Kept, usage: Kept, last: Cell<Option<Last>> },
    V2 { stat: Kept, pressure: Option<Kept> },
}

/// What was read last of a group of the first version. A group that did not run since was not
/// throttled either, so its statistics are the same; most groups are idle most of the time, and
/// each read is most of what a look costs.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// The text of the usage, to the nanosecond.
    usage: [u8; USAGE_BYTES],
    stat: CpuStat,
}

/// The longest text of a number of nanoseconds, with the end of its line.
const USAGE_BYTES: usize = 21;

// === impl Group ===

impl Group {
    /// Opens the group `path`.
    ///
    /// # Errors
    ///
    /// Where there is none, where it may not be read, or where it has no counters.
    pub fn open(layout: &Layout, path: &CgroupPath) -> Result<Self, CgroupError> {
        let folder = Folder::open(layout.cpu_root(), path)?;
        let identity = Identity { boot: layout.boot(), inode: folder.inode()? };
        let counters = match layout.version() {
            Version::V1 => {
                let usage = Folder::open(layout.usage_root(), path)
                    .map_err(|error| uncounted(error, &folder))?;
                Counters::V1 {
                    stat: required(&folder, "cpu.stat")?,
                    usage: required(&usage, "cpuacct.usage")?,
                    last: Cell::new(None),
                }
            }
            Version::V2 => {
                let pressure = folder.keep_open("cpu.pressure")?;
                Counters::V2 {
                    stat: required(&folder, "cpu.stat")?,
                    // The file may be there although pressure is not measured.
                    pressure: pressure.filter(|file| retry(|| file.read(cpu_pressure)).is_ok()),
                }
            }
        };
        Ok(Self { layout: layout.clone(), identity, folder, counters })
    }

    /// The group's path.
    #[must_use]
    pub fn path(&self) -> &CgroupPath {
        self.folder.path()
    }

    /// Who it is.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.identity
    }

    /// Its counters, read now.
    ///
    /// # Errors
    ///
    /// Where the group is gone, or where a file could not be read three times in a row.
    pub fn sample(&self, now: Moment) -> Result<Sample, CgroupError> {
        let read = retry(|| self.counters.read()).map_err(|fault| fault.of(self.path()))?;
        let (stat, stalled) = read;
        let (throttled, nr_periods, nr_throttled) = match stat.bandwidth {
            Some(quota) => (quota.throttled, quota.nr_periods, quota.nr_throttled),
            None => (Span::ZERO, 0, 0),
        };
        Ok(Sample { at: now, usage: stat.usage, throttled, nr_periods, nr_throttled, stalled })
    }

    /// The settings in force.
    ///
    /// # Errors
    ///
    /// Where the group is gone, where it has no cpu controller, or where a file could not be read.
    pub fn settings(&self) -> Result<Settings, CgroupError> {
        settings::read(&self.folder, self.layout.version())
    }

    /// The quota and the period in force alone, where nothing else is asked for.
    ///
    /// # Errors
    ///
    /// As [`Group::settings`].
    pub fn max(&self) -> Result<CpuMax, CgroupError> {
        settings::max(&self.folder, self.layout.version())
    }

    /// Whether there is a process in it, or in a group below it.
    ///
    /// # Errors
    ///
    /// Where the group is gone, or where a file could not be read.
    pub fn is_populated(&self) -> Result<bool, CgroupError> {
        match self.layout.version() {
            Version::V2 => {
                let populated = |text: &[u8]| Ok(text.split(|b| *b == b'\n').any(is_populated));
                Ok(self.folder.read("cgroup.events", populated)?.unwrap_or(false))
            }
            Version::V1 => {
                if self.folder.has_content("cgroup.procs")? {
                    return Ok(true);
                }
                for below in walk(&self.layout, self.path(), INSIDE)?.found {
                    match Folder::open(self.layout.cpu_root(), &below.path)
                        .and_then(|folder| folder.has_content("cgroup.procs"))
                    {
                        Ok(true) => return Ok(true),
                        Ok(false) => {}
                        Err(error) if error.is_gone() => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(false)
            }
        }
    }

    pub(crate) const fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) const fn folder(&self) -> &Folder {
        &self.folder
    }
}

// === impl Last ===

impl Last {
    /// A text of usage as it is kept; nothing if it is too long to be one.
    fn text(usage: &[u8]) -> Option<[u8; USAGE_BYTES]> {
        let mut text = [0; USAGE_BYTES];
        text.get_mut(..usage.len())?.copy_from_slice(usage);
        Some(text)
    }
}

// === impl Counters ===

impl Counters {
    fn read(&self) -> Result<(CpuStat, Option<Span>), Failed<ReadFault>> {
        match self {
            Self::V1 { stat, usage, last } => {
                let (mut stat_text, mut usage_text) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
                let usage = usage.read_into(&mut usage_text)?;
                let text = Last::text(usage);
                if let (Some(last), Some(text)) = (last.get(), text)
                    && last.usage == text
                {
                    return Ok((last.stat, None));
                }
                let stat = cpu_stat_v1(usage, stat.read_into(&mut stat_text)?);
                let stat = stat.map_err(|error| Failed::Passing(ReadFault::Text(error)))?;
                last.set(text.map(|usage| Last { usage, stat }));
                Ok((stat, None))
            }
            Self::V2 { stat, pressure } => {
                let stat = stat.read(cpu_stat_v2)?;
                let stalled = pressure.as_ref().map(|file| file.read(cpu_pressure));
                match stalled.transpose() {
                    Ok(pressure) => Ok((stat, pressure.map(|pressure| pressure.some.total))),
                    // Somebody switched the measuring off.
                    Err(Failed::Lasting(ReadFault::Kernel(Fault {
                        errno: Errno::OPNOTSUPP,
                        ..
                    }))) => Ok((stat, None)),
                    Err(failed) => Err(failed),
                }
            }
        }
    }
}

// === impl Identity ===

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.boot, self.inode)
    }
}

/// Whether a line of `cgroup.events` says that there are processes.
fn is_populated(line: &[u8]) -> bool {
    line == b"populated 1"
}

fn required(folder: &Folder, file: &'static str) -> Result<Kept, CgroupError> {
    let kept = folder.keep_open(file)?;
    kept.ok_or_else(|| CgroupError::NoController { path: folder.path().clone(), file })
}

/// A group of the first version may be made for one controller and not for the other. Then it is
/// not gone, and whoever made it should know why nothing is done about it. One without processes
/// may be about to be made there, or be gone from there already.
fn uncounted(error: CgroupError, folder: &Folder) -> CgroupError {
    if error.is_gone() && folder.has_content("cgroup.procs").unwrap_or(false) {
        return CgroupError::NotCounted { path: folder.path().clone() };
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_group_that_is_not_counted_is_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (cpu, cpuacct) = (folder.path().join("cpu"), folder.path().join("cpuacct"));
        for made in [cpu.join("web"), cpuacct.clone()] {
            fs::create_dir_all(made).unwrap();
        }
        let layout = Layout::at(Version::V1, cpu.clone(), cpuacct);
        let path = CgroupPath::new(b"web").unwrap();
        // About to be made, or to be removed.
        fs::write(cpu.join("web/cgroup.procs"), "").unwrap();
        assert!(Group::open(&layout, &path).unwrap_err().is_gone());
        fs::write(cpu.join("web/cgroup.procs"), "17\n").unwrap();
        let error = Group::open(&layout, &path).unwrap_err();
        assert!(matches!(error, CgroupError::NotCounted { .. }), "{error}");
        assert!(!error.is_gone());
    }

    /// A group made of plain files.
    fn group(root: &Path, version: Version, files: &[(&str, &str)]) -> Result<Group, CgroupError> {
        fs::create_dir_all(root.join("a")).unwrap();
        for (name, text) in [("cgroup.procs", "")].iter().chain(files) {
            fs::write(root.join("a").join(name), text).unwrap();
        }
        let layout = Layout::at(version, root.to_path_buf(), root.to_path_buf());
        Group::open(&layout, &CgroupPath::new(b"a").unwrap())
    }

    /// What a sample of such a group says.
    fn check(version: Version, files: &[(&str, &str)]) -> String {
        let root = tempfile::tempdir().unwrap();
        let sampled =
            group(root.path(), version, files).and_then(|group| group.sample(Moment::from_ms(5)));
        match sampled {
            Ok(Sample { at, usage, throttled, nr_periods, nr_throttled, stalled }) => {
                let [at, usage, throttled] = [at.as_ms_floor(), usage.as_us(), throttled.as_us()];
                let stalled = stalled.map(Span::as_us);
                format!("{at} {usage} {throttled} {nr_periods} {nr_throttled} {stalled:?}")
            }
            Err(error) => error.to_string(),
        }
    }

    const STAT: &str = "usage_usec 70\nuser_usec 1\nsystem_usec 2\n\
                        nr_periods 9\nnr_throttled 3\nthrottled_usec 40\n";
    const PRESSURE: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n\
                            full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";

    #[test]
    fn both_versions_give_the_same_sample() {
        let first = [
            ("cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 40999\n"),
            ("cpuacct.usage", "70999\n"),
        ];
        assert_eq!(check(Version::V1, &first), "5 70 40 9 3 None");
        assert_eq!(check(Version::V2, &[("cpu.stat", STAT)]), "5 70 40 9 3 None");
        let both = [("cpu.stat", STAT), ("cpu.pressure", PRESSURE)];
        assert_eq!(check(Version::V2, &both), "5 70 40 9 3 Some(77)");
        // Without the controller there are no periods.
        assert_eq!(check(Version::V2, &[("cpu.stat", "usage_usec 70\n")]), "5 70 0 0 0 None");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let missing = "/a: the cpu controller is not switched on for it (cpu.stat is missing)";
        assert_eq!(check(Version::V2, &[]), missing);
        let cut = [("cpu.stat", "usage_use")];
        assert_eq!(check(Version::V2, &cut), "/a: cpu.stat: usage_usec is missing");
        let long = STAT.repeat(20);
        let words = "/a: cpu.stat is longer than 1024 bytes";
        assert_eq!(check(Version::V2, &[("cpu.stat", &long)]), words);
    }

    #[test]
    fn a_group_is_populated_by_a_process_in_it_or_below_it() {
        let root = tempfile::tempdir().unwrap();
        let events = |text| [("cpu.stat", STAT), ("cgroup.events", text)];
        let populated = |version, files: &[(&str, &str)]| {
            group(root.path(), version, files).unwrap().is_populated().unwrap()
        };
        assert!(populated(Version::V2, &events("populated 1\nfrozen 0\n")));
        assert!(!populated(Version::V2, &events("populated 0\nfrozen 0\n")));
        let first = [("cpu.stat", "nr_periods 9\n"), ("cpuacct.usage", "1\n")];
        assert!(!populated(Version::V1, &first));
        fs::create_dir_all(root.path().join("a/b/c")).unwrap();
        for (inside, pids) in [("a/b", ""), ("a/b/c", "")] {
            fs::write(root.path().join(inside).join("cgroup.procs"), pids).unwrap();
        }
        assert!(!populated(Version::V1, &first));
        fs::write(root.path().join("a/b/c/cgroup.procs"), "7\n").unwrap();
        assert!(populated(Version::V1, &first));
        fs::remove_dir_all(root.path().join("a/b")).unwrap();
        assert!(populated(Version::V1, &[first[0], first[1], ("cgroup.procs", "7\n")]));
    }

    #[test]
    fn a_sample_allocates_nothing() {
        let root = tempfile::tempdir().unwrap();
        let both = [("cpu.stat", STAT), ("cpu.pressure", PRESSURE)];
        let group = group(root.path(), Version::V2, &both).unwrap();
        let counted = allocation_counter::measure(|| {
            for _ in 0..100 {
                group.sample(Moment::ORIGIN).unwrap();
            }
        });
        assert_eq!(counted.count_total, 0);
    }

    #[test]
    fn a_file_that_is_kept_open_tells_what_is_in_it_now() {
        let root = tempfile::tempdir().unwrap();
        let group = group(root.path(), Version::V2, &[("cpu.stat", STAT)]).unwrap();
        assert_eq!(group.sample(Moment::ORIGIN).unwrap().usage, Span::from_us(70));
        fs::write(root.path().join("a/cpu.stat"), "usage_usec 71\n").unwrap();
        assert_eq!(group.sample(Moment::ORIGIN).unwrap().usage, Span::from_us(71));
    }
}
