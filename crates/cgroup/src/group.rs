//! One control group, open for reading: its counters, its settings, and who it is.
//!
//! The files with counters are kept open, because opening one costs more than reading it. A sample
//! takes one call to the kernel per file and allocates nothing. A group that was removed is gone,
//! even if one with the same name was made since: what is open stays what it was.

use std::fmt;

use rustix::io::Errno;
use walras_core::demand::Sample;
use walras_core::parse::{CpuStat, cpu_pressure, cpu_stat_v1, cpu_stat_v2};
use walras_core::units::{Moment, Span};

use crate::error::CgroupError;
use crate::file::{BUFFER_BYTES, Fault, Folder, Kept, ReadFault};
use crate::layout::{BootId, Layout, Version};
use crate::path::CgroupPath;
use crate::retry::{Failed, retry};
use crate::settings::{self, Settings};

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
    V1 { stat: Kept, usage: Kept },
    V2 { stat: Kept, pressure: Option<Kept> },
}

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
                let usage = Folder::open(layout.usage_root(), path)?;
                Counters::V1 {
                    stat: required(&folder, "cpu.stat")?,
                    usage: required(&usage, "cpuacct.usage")?,
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

    pub(crate) const fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) const fn folder(&self) -> &Folder {
        &self.folder
    }
}

// === impl Counters ===

impl Counters {
    fn read(&self) -> Result<(CpuStat, Option<Span>), Failed<ReadFault>> {
        match self {
            Self::V1 { stat, usage } => {
                let (mut stat_text, mut usage_text) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
                let usage = usage.read_into(&mut usage_text)?;
                let stat = cpu_stat_v1(usage, stat.read_into(&mut stat_text)?);
                Ok((stat.map_err(|error| Failed::Passing(ReadFault::Text(error)))?, None))
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

fn required(folder: &Folder, file: &'static str) -> Result<Kept, CgroupError> {
    let kept = folder.keep_open(file)?;
    kept.ok_or_else(|| CgroupError::NoController { path: folder.path().clone(), file })
}
