//! The limits above a group: what it gets however large its own limit is.
//!
//! The groups above an adopted one belong to somebody else and are only read. The first version of
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
