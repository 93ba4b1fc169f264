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
    let mut walk = Walk::default();
    let mut pending = Vec::new();
    look_into(layout, &Pending { path: from.clone(), depth: 0 }, limits, &mut walk, &mut pending)?;
    while let Some(next) = pending.pop() {
        match look_into(layout, &next, limits, &mut walk, &mut pending) {
            Ok(()) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => walk.refused.push(Refusal { path: next.path, error }),
        }
    }
    walk.found.sort_unstable();
    walk.refused.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(walk)
}

/// Adds what is directly in `place` to the walk, and what has to be looked into to `pending`.
fn look_into(
    layout: &Layout,
    place: &Pending,
    limits: WalkLimits,
    walk: &mut Walk,
    pending: &mut Vec<Pending>,
) -> Result<(), CgroupError> {
    let fault = |errno| Fault { errno, file: "." }.of(&place.path);
    let folder = Folder::open(layout.cpu_root(), &place.path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder.as_fd(), ".", flags, Mode::empty()).map_err(fault)?;
    let entries = Dir::read_from(&fd).map_err(fault)?;
    for entry in entries {
        let entry = entry.map_err(fault)?;
        let Some((path, inode, leaf)) = child(&fd, &place.path, &entry) else { continue };
        if place.depth >= limits.depth || walk.found.len() >= limits.groups {
            walk.cut_short = true;
            return Ok(());
        }
        let identity = Identity { boot: layout.boot(), inode };
        if !leaf {
            pending.push(Pending { path: path.clone(), depth: place.depth + 1 });
        }
        walk.found.push(Found { path, identity });
    }
    Ok(())
}

/// The group that an entry of a folder is, its number, and whether it has no groups in it.
fn child(
    fd: &OwnedFd,
    parent: &CgroupPath,
    entry: &rustix::fs::DirEntry,
) -> Option<(CgroupPath, u64, bool)> {
    if !matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
        return None;
    }
    let path = parent.join(entry.file_name().to_bytes())?;
    match rustix::fs::statat(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            // A folder has a link from its parent, one from itself and one from each folder in it.
            // This spares reading the names of some thirty files per group.
            Some((path, stat.st_ino, stat.st_nlink == 2))
        }
        // Vanished meanwhile, or something else than a folder.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => None,
        // Looking into it will say what is wrong.
        Err(_) => Some((path, entry.ino(), false)),
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
