//! Where this machine keeps control groups, and which version of them has the cpu controller.
//!
//! [`Layout::find`] decides from the text of two files; [`Layout::of_this_machine`] reads them. The
//! second version, the first one and a mix of both are known, with `cpu` and `cpuacct` mounted
//! together or apart. Where a hierarchy is mounted more than once, the place below `/sys/fs/cgroup`
//! counts, else the first one. What another mount covers is not seen.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::path::CgroupPath;

/// A version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// A hierarchy for each controller: `cpu.cfs_quota_us`, `cpu.shares`.
    V1,
    /// One hierarchy for all: `cpu.max`, `cpu.weight`.
    V2,
}

/// One boot of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(pub u128);

/// Where control groups are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    version: Version,
    cpu: PathBuf,
    cpuacct: PathBuf,
    own: Option<CgroupPath>,
    boot: BootId,
}

/// Why no cpu controller was found.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A file could not be read.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// The file.
        file: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The kernel has the controller, but its hierarchy is not mounted.
    #[error("the {controller} controller of control groups is not mounted")]
    NotMounted {
        /// The controller.
        controller: &'static str,
    },
}

/// A mount as `/proc/mounts` tells it.
#[derive(Clone, Debug)]
struct Mount<'a> {
    place: PathBuf,
    kind: &'a str,
    options: &'a str,
}

// === impl Layout ===

impl Layout {
    /// The layout of the machine that this process runs on.
    ///
    /// # Errors
    ///
    /// Where a file of `/proc` cannot be read, or the cpu controller is not mounted.
    pub fn of_this_machine() -> Result<Self, LayoutError> {
        let read = |file| {
            let text = std::fs::read(file);
            let text = text.map_err(|source| LayoutError::Unreadable { file, source })?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        let mounts = read("/proc/mounts")?;
        let mut layout = Self::find(&mounts, &read("/proc/self/cgroup")?)?;
        layout.boot = BootId::from_text(&read("/proc/sys/kernel/random/boot_id")?);
        Ok(layout)
    }

    /// The layout that the texts of `/proc/mounts` and `/proc/self/cgroup` tell.
    ///
    /// # Errors
    ///
    /// Where the cpu controller is not mounted, or `cpuacct` is not and has to be.
    pub fn find(mounts: &str, self_cgroup: &str) -> Result<Self, LayoutError> {
        let mounts = visible(mounts);
        let mounted = |controller: &'static str| {
            let has = |mount: &&Mount<'_>| {
                mount.kind == "cgroup" && mount.options.split(',').any(|word| word == controller)
            };
            preferred(mounts.iter().filter(has)).ok_or(LayoutError::NotMounted { controller })
        };
        let boot = BootId::default();
        // A controller belongs to one version at a time, and this file says to which.
        if let Some(own) = own_path(self_cgroup, "cpu") {
            let own = CgroupPath::new(own.as_bytes());
            let (cpu, cpuacct) = (mounted("cpu")?, mounted("cpuacct")?);
            return Ok(Self { version: Version::V1, cpu, cpuacct, own, boot });
        }
        let unified = preferred(mounts.iter().filter(|mount| mount.kind == "cgroup2"));
        let root = unified.ok_or(LayoutError::NotMounted { controller: "cpu" })?;
        let own = own_path(self_cgroup, "").and_then(|own| CgroupPath::new(own.as_bytes()));
        Ok(Self { version: Version::V2, cpu: root.clone(), cpuacct: root, own, boot })
    }

    /// A layout at given places, for hierarchies that are mounted elsewhere and for tests on plain
    /// folders. The second version has one place; the first may have two.
    #[must_use]
    pub const fn at(version: Version, cpu: PathBuf, cpuacct: PathBuf) -> Self {
        Self { version, cpu, cpuacct, own: None, boot: BootId(0) }
    }

    /// The version that has the cpu controller.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The root of the hierarchy with the cpu controller.
    #[must_use]
    pub fn cpu_root(&self) -> &Path {
        &self.cpu
    }

    /// The group of this process; nothing if it is outside of what is mounted.
    #[must_use]
    pub const fn own(&self) -> Option<&CgroupPath> {
        self.own.as_ref()
    }

    /// Where the process is that `self_cgroup` tells of, as the roots of [`Layout::roots`] and the
    /// groups below them; nothing if it is outside of what is mounted.
    pub(crate) fn homes(&self, self_cgroup: &str) -> Option<Vec<(PathBuf, CgroupPath)>> {
        let controllers: &[&str] = match self.version {
            Version::V1 => &["cpu", "cpuacct"],
            Version::V2 => &[""],
        };
        let home =
            |controller: &&str| CgroupPath::new(own_path(self_cgroup, controller)?.as_bytes());
        let paths = controllers.iter().map(home).collect::<Option<Vec<_>>>()?;
        Some(self.roots().map(Path::to_path_buf).zip(paths).collect())
    }

    /// The boot that the groups are of: after the next one, others may have their numbers.
    #[must_use]
    pub const fn boot(&self) -> BootId {
        self.boot
    }

    /// The roots of all hierarchies that a group has to be made in.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        let second = (self.cpu != self.cpuacct).then_some(&*self.cpuacct);
        std::iter::once(&*self.cpu).chain(second)
    }

    /// The root of the hierarchy that counts CPU time.
    pub(crate) fn usage_root(&self) -> &Path {
        &self.cpuacct
    }
}

// === impl BootId ===

impl BootId {
    /// The number that the kernel's hexadecimal digits and dashes mean; zero if it is none.
    fn from_text(text: &str) -> Self {
        let digits = text.trim().replace('-', "");
        Self(u128::from_str_radix(&digits, 16).unwrap_or_default())
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The mounts that no later one covers, in the order of their making.
fn visible(mounts: &str) -> Vec<Mount<'_>> {
    let mut seen: Vec<Mount<'_>> = Vec::new();
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(_), Some(place), Some(kind), Some(options)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let place = unescaped(place);
        seen.retain(|earlier| !earlier.place.starts_with(&place));
        seen.push(Mount { place, kind, options });
    }
    seen
}

/// The place that everybody uses, where there are several; the whole of it, where a part is mounted
/// inside once more.
fn preferred<'a>(places: impl Iterator<Item = &'a Mount<'a>> + Clone) -> Option<PathBuf> {
    let usual = places.clone().filter(|mount| mount.place.starts_with("/sys/fs/cgroup"));
    let usual = usual.min_by_key(|mount| mount.place.components().count());
    usual.or_else(|| places.clone().next()).map(|mount| mount.place.clone())
}

/// The path behind `controller` in `/proc/self/cgroup`; the second version has the empty name.
fn own_path<'a>(self_cgroup: &'a str, controller: &str) -> Option<&'a str> {
    self_cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        names.split(',').any(|name| name == controller).then_some(path)
    })
}

/// A path with the kernel's escapes (a backslash and three octal digits) undone.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\').then(|| tail.first_chunk::<3>()).flatten();
        let value =
            octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match value {
            Some(value) => {
                bytes.push(value);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../testdata/layout.txt");

    fn told(mounts: &str, self_cgroup: &str) -> String {
        match Layout::find(mounts, self_cgroup) {
            Ok(layout) => {
                let own = layout.own.as_ref().map_or("outside".to_owned(), CgroupPath::to_string);
                let (cpu, cpuacct) = (layout.cpu.display(), layout.cpuacct.display());
                format!("{:?} cpu={cpu} cpuacct={cpuacct} own={own}", layout.version)
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_cpu_controller_is_found_wherever_it_is_mounted() {
        let mut cases = 0;
        for case in FIXTURE.split("\ncase ").skip(1) {
            let (name, rest) = case.split_once('\n').unwrap();
            let (texts, rest) = rest.split_once("----\n").unwrap();
            let (mounts, self_cgroup) = texts.split_once("--\n").unwrap();
            let expected = rest.lines().next().unwrap();
            assert_eq!(told(mounts, self_cgroup), expected, "{name}");
            cases += 1;
        }
        assert_eq!(cases, FIXTURE.matches("\ncase ").count());
        assert!(cases >= 10, "{cases}");
    }

    #[test]
    fn a_boot_is_known_by_its_number() {
        let boot = BootId::from_text("0f1e2d3c-0000-4000-8000-00000000000a\n");
        assert_eq!(boot.to_string(), "0f1e2d3c000040008000".to_owned() + "00000000000a");
        assert_eq!(BootId::from_text("none"), BootId(0));
    }
}
