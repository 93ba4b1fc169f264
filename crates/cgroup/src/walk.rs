//! Which control groups there are below a place, within bounds.
//!
//! Anybody who may make groups decides about names, depth and number, so none of them is trusted:
//! names are bytes, links are not followed, and both depth and number are bounded. What may not be
//! read is reported and does not stop the walk. A group that vanishes meanwhile is left out.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::CgroupError;
use crate::file::{Fault, Folder};
use crate::group::Identity;
use crate::layout::Layout;
use crate::path::CgroupPath;

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkLimits {
    /// So many names below the place where it starts.
    pub depth: usize,
    /// So many groups in all.
    pub groups: usize,
}

/// A group that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Where.
    pub path: CgroupPath,
    /// Who it is.
    pub identity: Identity,
    /// Whose it is.
    pub owner: Owner,
}

/// Whose a group is, and so who may make groups in it and call them anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// Whether others than this user and root may make groups in it.
    pub shared: bool,
}

/// A group whose inside could not be looked at.
#[derive(Debug)]
pub struct Refusal {
    /// Which one.
    pub path: CgroupPath,
    /// Why not.
    pub error: CgroupError,
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    /// The groups, in the order of their paths' bytes.
    pub found: Vec<Found>,
    /// Those that could not be looked into; they may be among the found ones.
    pub refused: Vec<Refusal>,
    /// Whether groups were left out because there were more than the limits allow.
    pub cut_short: bool,
}

/// Whose groups are looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Into {
    /// Everybody's.
    All,
    /// Those of users who are trusted.
    Trusted,
}

/// A group that is still to be looked into.
struct Pending {
    path: CgroupPath,
    depth: usize,
}

/// Lists the groups below `from`, which is not among them itself.
///
/// # Errors
///
/// Where `from` itself is gone or may not be read.
pub fn walk(layout: &Layout, from: &CgroupPath, limits: WalkLimits) -> Result<Walk, CgroupError> {
    walk_into(layout, from, limits, Into::All)
}

/// The same, without a look into groups that others than root may make groups in. Those are found
/// themselves; what is in them is not, so that one owner cannot use up the limits.
///
/// # Errors
///
/// As [`walk`].
pub fn walk_trusted(
    layout: &Layout,
    from: &CgroupPath,
    limits: WalkLimits,
) -> Result<Walk, CgroupError> {
    walk_into(layout, from, limits, Into::Trusted)
}

fn walk_into(
    layout: &Layout,
    from: &CgroupPath,
    limits: WalkLimits,
    into: Into,
) -> Result<Walk, CgroupError> {
    let (walk, pending) = (Walk::default(), Vec::new());
    let mut walker = Walker { layout, limits, into, walk, pending };
    walker.look_into(&Pending { path: from.clone(), depth: 0 })?;
    while let Some(next) = walker.pending.pop() {
        match walker.look_into(&next) {
            Ok(()) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => walker.walk.refused.push(Refusal { path: next.path, error }),
        }
    }
    let mut walk = walker.walk;
    walk.found.sort_unstable();
    walk.refused.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(walk)
}

/// A walk that is under way.
struct Walker<'a> {
    layout: &'a Layout,
    limits: WalkLimits,
    into: Into,
    walk: Walk,
    pending: Vec<Pending>,
}

impl Walker<'_> {
    /// Adds what is directly in `place` to the walk, and what has to be looked into to what is
    /// pending.
    fn look_into(&mut self, place: &Pending) -> Result<(), CgroupError> {
        let fault = |errno| Fault { errno, file: "." }.of(&place.path);
        let folder = Folder::open(self.layout.cpu_root(), &place.path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(folder.as_fd(), ".", flags, Mode::empty()).map_err(fault)?;
        let entries = Dir::read_from(&fd).map_err(fault)?;
        for entry in entries {
            let entry = entry.map_err(fault)?;
            let Some((path, inode, owner, leaf)) = child(&fd, &place.path, &entry) else {
                continue;
            };
            if place.depth >= self.limits.depth || self.walk.found.len() >= self.limits.groups {
                self.walk.cut_short = true;
                return Ok(());
            }
            let identity = Identity { boot: self.layout.boot(), inode };
            let closed = self.into == Into::Trusted && !owner.is_trusted();
            if !leaf && !closed {
                self.pending.push(Pending { path: path.clone(), depth: place.depth + 1 });
            }
            self.walk.found.push(Found { path, identity, owner });
        }
        Ok(())
    }
}

/// The group that an entry of a folder is, its number, whose it is, and whether it has no groups in
/// it.
fn child(
    fd: &OwnedFd,
    parent: &CgroupPath,
    entry: &rustix::fs::DirEntry,
) -> Option<(CgroupPath, u64, Owner, bool)> {
    if !matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
        return None;
    }
    let path = parent.join(entry.file_name().to_bytes())?;
    match rustix::fs::statat(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            // A folder has a link from its parent, one from itself and one from each folder in it.
            // This spares reading the names of some thirty files per group.
            Some((path, stat.st_ino, Owner::of(&stat), stat.st_nlink == 2))
        }
        // Vanished meanwhile, or something else than a folder.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => None,
        // Looking into it will say what is wrong.
        Err(_) => Some((path, entry.ino(), Owner::UNKNOWN, false)),
    }
}

// === impl Owner ===

impl Owner {
    /// An owner that is not trusted.
    const UNKNOWN: Self = Self { uid: u32::MAX, shared: true };

    /// Whose a folder with this state is.
    fn of(stat: &rustix::fs::Stat) -> Self {
        let mode = Mode::from_raw_mode(stat.st_mode);
        let by_group = mode.contains(Mode::WGRP) && stat.st_gid != 0;
        Self { uid: stat.st_uid, shared: mode.contains(Mode::WOTH) || by_group }
    }

    /// Whether only root, or the user that this program runs as, may make groups in it.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        let ours = self.uid == 0 || self.uid == rustix::process::geteuid().as_raw();
        ours && !self.shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Version;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    /// What is found in plain folders, made with these names.
    fn check(names: &[&[u8]], link: Option<(&str, &str)>, limits: WalkLimits) -> String {
        let root = tempfile::tempdir().unwrap();
        for name in names {
            fs::create_dir_all(root.path().join(OsStr::from_bytes(name))).unwrap();
        }
        fs::write(root.path().join("cpu.stat"), "usage_usec 1\n").unwrap();
        if let Some((to, from)) = link {
            std::os::unix::fs::symlink(to, root.path().join(from)).unwrap();
        }
        let place = root.path().to_path_buf();
        let layout = Layout::at(Version::V2, place.clone(), place);
        let walk = walk(&layout, &CgroupPath::ROOT, limits).unwrap();
        let paths = walk.found.iter().map(|found| found.path.to_string());
        let end = if walk.cut_short { " and more" } else { "" };
        paths.collect::<Vec<_>>().join(" ") + end
    }

    #[test]
    fn links_are_not_followed_and_files_are_no_groups() {
        let limits = WalkLimits { depth: 9, groups: 9 };
        assert_eq!(check(&[b"b", b"a/c"], Some((".", "loop")), limits), "/a /a/c /b");
        assert_eq!(check(&[b"a"], Some(("/", "up")), limits), "/a");
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.path().join("link")).unwrap();
        let layout = Layout::at(Version::V2, root.path().to_path_buf(), root.path().to_path_buf());
        let link = CgroupPath::new(b"link").unwrap();
        assert!(walk(&layout, &link, limits).is_err());
    }

    #[test]
    fn any_name_is_listed_and_shown_on_one_line() {
        let limits = WalkLimits { depth: 1, groups: 9 };
        assert_eq!(check(&[b"a\nb", b"\xff", b"c d"], None, limits), "/a\\nb /c d /\\xff");
    }

    #[test]
    fn a_group_that_others_may_make_groups_in_is_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().to_path_buf();
        for (name, mode) in [("a", 0o755), ("b", 0o757), ("c", 0o700)] {
            fs::create_dir(place.join(name)).unwrap();
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(place.join(name), permissions).unwrap();
        }
        let layout = Layout::at(Version::V2, place.clone(), place);
        let found = walk(&layout, &CgroupPath::ROOT, WalkLimits { depth: 1, groups: 9 }).unwrap();
        let trusted: Vec<bool> = found.found.iter().map(|it| it.owner.is_trusted()).collect();
        assert_eq!(trusted, [true, false, true]);
        for inside in ["a/x", "b/x", "b/x/y"] {
            fs::create_dir_all(layout.cpu_root().join(inside)).unwrap();
        }
        let limits = WalkLimits { depth: 9, groups: 4 };
        let found = walk_trusted(&layout, &CgroupPath::ROOT, limits).unwrap();
        let paths: Vec<String> = found.found.iter().map(|it| it.path.to_string()).collect();
        assert_eq!(paths, ["/a", "/a/x", "/b", "/c"]);
        assert!(!found.cut_short, "no other owner uses up the limits");
        let user = Owner { uid: 1_000_000, shared: false };
        assert!(!user.is_trusted() && !Owner::UNKNOWN.is_trusted());
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let names: [&[u8]; 2] = [b"a/a/a/a", b"b"];
        assert_eq!(check(&names, None, WalkLimits { depth: 2, groups: 9 }), "/a /a/a /b and more");
        assert_eq!(
            check(&names, None, WalkLimits { depth: 4, groups: 5 }),
            "/a /a/a /a/a/a /a/a/a/a /b"
        );
        let some = check(&names, None, WalkLimits { depth: 4, groups: 1 });
        assert!(some == "/a and more" || some == "/b and more", "{some}");
    }
}
