//! Control groups of our own: made, filled with processes, and removed.
//!
//! `walras demo` and the tests run their loads in them. A group is removed when its value goes; one
//! whose process was killed is removed by [`remove_left_behind`], which the next one calls. In the
//! first version of control groups the group is made in the hierarchy of every controller we use.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use crate::error::CgroupError;
use crate::file::{Fault, Folder};
use crate::group::Group;
use crate::layout::{Layout, Version};
use crate::path::CgroupPath;
use crate::retry::sleep;
use crate::walk::{WalkLimits, walk};

/// A group whose last process has just ended may be busy for a moment.
const REMOVAL: Duration = Duration::from_secs(2);
/// How often its removal is tried meanwhile.
const BETWEEN: Duration = Duration::from_millis(5);

/// Groups of our own have no more groups in them than this.
const INSIDE: WalkLimits = WalkLimits { depth: 64, groups: 4096 };

/// A group that this process made, removed together with this value.
#[derive(Debug)]
pub struct Created {
    layout: Layout,
    path: CgroupPath,
    /// In how many hierarchies, of those that the layout has.
    made: usize,
}

/// This process in a group of its own; it goes back to where it was together with this value.
#[derive(Debug)]
pub struct Inside {
    /// A root and the group below it, for each hierarchy.
    homes: Vec<(PathBuf, CgroupPath)>,
}

/// Removes the groups directly in `parent` whose names are `prefix`, the number of a process that
/// does not live any more, and perhaps a dash and more, with all groups in them. Returns how many
/// there were. One that still has processes in it stays.
///
/// # Errors
///
/// Where `parent` is gone or cannot be read.
pub fn remove_left_behind(
    layout: &Layout,
    parent: &CgroupPath,
    prefix: &[u8],
) -> Result<usize, CgroupError> {
    remove_orphans(layout, parent, |name| {
        let owner = name.strip_prefix(prefix).and_then(pid_in_front);
        owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    })
}

/// Removes the groups directly in `parent` whose names `is_orphan` knows as those of a process that
/// is gone, with all groups in them. Returns how many there were. One that still has processes in
/// it stays.
///
/// # Errors
///
/// Where `parent` is gone or cannot be read.
pub fn remove_orphans(
    layout: &Layout,
    parent: &CgroupPath,
    is_orphan: impl Fn(&[u8]) -> bool,
) -> Result<usize, CgroupError> {
    let mut removed = 0;
    for root in layout.roots() {
        let folder = Folder::open(root, parent)?;
        let entries = std::fs::read_dir(parent.under(root));
        for entry in entries.map_err(|error| io_fault(parent, error))?.flatten() {
            let name = entry.file_name();
            if is_orphan(name.as_bytes())
                && parent.join(name.as_bytes()).is_some_and(|path| remove_inside(root, &path))
                && remove_in(&folder, name.as_bytes()).is_ok()
                && root == layout.cpu_root()
            {
                removed += 1;
            }
        }
    }
    Ok(removed)
}

// === impl Created ===

impl Created {
    /// Makes the group `path`. Its parent has to be there; in the second version the cpu controller
    /// is switched on along the way where it is not.
    ///
    /// # Errors
    ///
    /// Where there is such a group already, or where none may be made.
    pub fn create(layout: &Layout, path: &CgroupPath) -> Result<Self, CgroupError> {
        let Some(parent) = path.parent() else {
            return Err(Fault { errno: Errno::EXIST, file: "." }.of(path));
        };
        if layout.version() == Version::V2 {
            switch_on(layout, &parent)?;
        }
        // It is removed as far as it was made, also if that is not all the way.
        let mut created = Self { layout: layout.clone(), path: path.clone(), made: 0 };
        for root in layout.roots() {
            let folder = Folder::open(root, &parent)?;
            rustix::fs::mkdirat(folder.as_fd(), path.name(), Mode::from_raw_mode(0o755))
                .map_err(|errno| Fault { errno, file: "." }.of(path))?;
            created.made += 1;
        }
        Ok(created)
    }

    /// The group `path` that an earlier process made and [left](Self::leave), to be used or
    /// removed.
    #[must_use]
    pub fn taken_over(layout: &Layout, path: &CgroupPath) -> Self {
        Self { layout: layout.clone(), path: path.clone(), made: layout.roots().count() }
    }

    /// Leaves the group where it is: it is not removed together with this value.
    pub fn leave(mut self) {
        self.made = 0;
    }

    /// The group's path.
    #[must_use]
    pub const fn path(&self) -> &CgroupPath {
        &self.path
    }

    /// Opens the group.
    ///
    /// # Errors
    ///
    /// As [`Group::open`].
    pub fn open(&self) -> Result<Group, CgroupError> {
        Group::open(&self.layout, &self.path)
    }

    /// Moves a process into the group.
    ///
    /// # Errors
    ///
    /// Where there is no such process, or where it may not be moved.
    pub fn put(&self, pid: u32) -> Result<(), CgroupError> {
        let pid = pid.to_string();
        self.layout
            .roots()
            .try_for_each(|root| Folder::open(root, &self.path)?.write("cgroup.procs", &pid))
    }

    /// Moves this process into the group, until the value that is returned goes. That has to be
    /// before the group does.
    ///
    /// # Errors
    ///
    /// Where it is not known where this process is, or where it may not be moved.
    pub fn enter(&self) -> Result<Inside, CgroupError> {
        let text = std::fs::read_to_string("/proc/self/cgroup");
        let text = text.map_err(|error| io_fault(&self.path, error))?;
        let homes = self.layout.homes(&text).ok_or_else(|| {
            io_fault(&self.path, io::Error::other("it is not known where this process is now"))
        })?;
        let inside = Inside { homes };
        self.put(std::process::id())?;
        Ok(inside)
    }

    /// Removes the group, and says so if that is not possible.
    ///
    /// # Errors
    ///
    /// Where it still has processes or groups in it after a while.
    pub fn remove(self) -> Result<(), CgroupError> {
        self.remove_now()
    }

    fn remove_now(&self) -> Result<(), CgroupError> {
        let Some(parent) = self.path.parent() else { return Ok(()) };
        let deadline = Instant::now() + REMOVAL;
        for root in self.layout.roots().take(self.made) {
            let folder = Folder::open(root, &parent)?;
            loop {
                match remove_in(&folder, self.path.name()) {
                    Ok(()) | Err(Errno::NOENT) => break,
                    Err(Errno::BUSY) if Instant::now() < deadline => sleep(BETWEEN),
                    Err(errno) => return Err(Fault { errno, file: "." }.of(&self.path)),
                }
            }
        }
        Ok(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let pid = std::process::id().to_string();
        for (root, path) in &self.homes {
            // There is no one to report it to; the process ends soon, and leaves the group with
            // that.
            drop(Folder::open(root, path).and_then(|home| home.write("cgroup.procs", &pid)));
        }
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        // There is no one to report it to; the next process removes what stays.
        drop(self.remove_now());
    }
}

/// Switches the cpu controller on for the groups in `parent`, from the root down.
fn switch_on(layout: &Layout, parent: &CgroupPath) -> Result<(), CgroupError> {
    const FILE: &str = "cgroup.subtree_control";
    let mut above: Vec<CgroupPath> =
        std::iter::successors(Some(parent.clone()), CgroupPath::parent).collect();
    above.reverse();
    for path in above {
        let folder = Folder::open(layout.cpu_root(), &path)?;
        let has_cpu = |text: &[u8]| Ok(text.trim_ascii().split(|&byte| byte == b' ').any(is_cpu));
        if folder.read(FILE, has_cpu)? == Some(false) {
            folder.write(FILE, "+cpu")?;
        }
    }
    Ok(())
}

fn is_cpu(controller: &[u8]) -> bool {
    controller == b"cpu"
}

/// Removes all groups in one, the innermost first, and says whether none is left.
fn remove_inside(root: &Path, path: &CgroupPath) -> bool {
    // One hierarchy at a time, since what is left may differ from one to the other.
    let alone = Layout::at(Version::V2, root.to_path_buf(), root.to_path_buf());
    let inside = walk(&alone, path, INSIDE).map(|walk| walk.found).unwrap_or_default();
    // A path comes before those below it.
    inside.iter().rev().all(|found| {
        let parent = found.path.parent().map(|parent| Folder::open(root, &parent));
        parent.and_then(Result::ok).is_some_and(|it| remove_in(&it, found.path.name()).is_ok())
    })
}

fn remove_in(parent: &Folder, name: &[u8]) -> Result<(), Errno> {
    rustix::fs::unlinkat(parent.as_fd(), name, AtFlags::REMOVEDIR)
}

/// The number that a name goes on with, if that ends it or a dash follows.
fn pid_in_front(name: &[u8]) -> Option<u32> {
    let digits = name.split(|&byte| byte == b'-').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn io_fault(path: &CgroupPath, source: io::Error) -> CgroupError {
    CgroupError::Io { path: path.clone(), file: ".", source }
}
