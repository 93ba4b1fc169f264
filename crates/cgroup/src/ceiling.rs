//! The limits above a group: what it gets however large its own limit is.
//!
//! The groups above an adopted one belong to others and are only read. The first version of
//! control groups refuses a quota that is above the parent's; the second accepts it and enforces
//! the smaller one. Asking first gives both the same, visible outcome.

use walras_core::units::Millicores;

use crate::error::CgroupError;
use crate::file::Folder;
use crate::layout::Layout;
use crate::path::CgroupPath;
use crate::settings;

/// The tightest limit above a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// The group that has it.
    pub path: CgroupPath,
    /// The limit.
    pub limit: Millicores,
}

/// The tightest limit above the group `path`, the nearest one if there are several; nothing if no
/// group above it is limited.
///
/// # Errors
///
/// Where a group above it is gone or cannot be read.
pub fn ceiling(layout: &Layout, path: &CgroupPath) -> Result<Option<Ceiling>, CgroupError> {
    let mut tightest: Option<Ceiling> = None;
    let above = std::iter::successors(path.parent(), CgroupPath::parent);
    for path in above.take_while(|path| *path != CgroupPath::ROOT) {
        let folder = Folder::open(layout.cpu_root(), &path)?;
        let max = settings::read_max(&folder, layout.version())?;
        let Some(limit) = max.and_then(|max| max.limit_floor()) else { continue };
        if tightest.as_ref().is_none_or(|tightest| limit < tightest.limit) {
            tightest = Some(Ceiling { path, limit });
        }
    }
    Ok(tightest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Version;
    use std::fs;

    /// The ceiling of `a/b/c` where the groups above it have these quotas.
    fn check(a: &str, b: &str) -> String {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b/c")).unwrap();
        for (path, quota) in [("a", a), ("a/b", b), ("a/b/c", "1000")] {
            let folder = root.path().join(path);
            fs::write(folder.join("cgroup.procs"), "").unwrap();
            fs::write(folder.join("cpu.max"), format!("{quota} 100000\n")).unwrap();
        }
        let layout = Layout::at(Version::V2, root.path().to_path_buf(), root.path().to_path_buf());
        match ceiling(&layout, &CgroupPath::new(b"a/b/c").unwrap()).unwrap() {
            Some(Ceiling { path, limit }) => format!("{path} {limit}"),
            None => "none".to_owned(),
        }
    }

    #[test]
    fn the_tightest_limit_above_counts_and_the_own_one_does_not() {
        assert_eq!(check("50000", "80000"), "/a 500m");
        assert_eq!(check("80000", "50000"), "/a/b 500m");
        assert_eq!(check("50000", "50000"), "/a/b 500m");
        assert_eq!(check("max", "80000"), "/a/b 800m");
        assert_eq!(check("max", "max"), "none");
    }
}
